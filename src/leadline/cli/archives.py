"""What the verbs that fill archives share: the session record and the list of refused files."""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

from leadline import __version__
from leadline.archive.records import Session
from leadline.cli.options import echo_line
from leadline.formats.importer import Refused
from leadline.text import count_text


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


# What is said of files that are not imported.

_REFUSED_TOLD = 10


def tell_refused(refused: Iterable[Refused]) -> None:
    """On stderr: first the files that the user may miss."""
    ordered = sorted(refused, key=lambda one: not one.expected)
    for one in ordered[:_REFUSED_TOLD]:
        echo_line(f"refused: {one.file}: {one.reason}", err=True)
        for line in one.context:
            echo_line(f"  {line}", err=True)
    if len(ordered) > _REFUSED_TOLD:
        more = count_text(len(ordered) - _REFUSED_TOLD, "more file")
        echo_line(f"refused: {more}; --format json names all", err=True)
