"""Who fills an archive: this process, on this machine."""

from __future__ import annotations

import platform
import socket
import sys
from datetime import UTC, datetime

from leadline import __version__
from leadline.archive.records import Session


def this_session() -> Session:
    """A session that begins now."""
    return Session(
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        hostname=socket.gethostname(),
        leadline_version=__version__,
        python_version=platform.python_version(),
        # Where the program lies on this machine is nothing that others could repeat.
        command=("leadline", *sys.argv[1:]),
    )
