"""How old a fio may be."""

from __future__ import annotations

import re

from leadline import errors
from leadline.errors import LeadlineError

# Percentiles and json+ bins of total latency beside those of completion came with 3.18 (fio's
# pull requests 920 and 948, February and March 2020).
OLDEST = (3, 18)
INSTALL = "install it: apt-get install fio (Debian), dnf install fio (Fedora, RHEL)"


def require_version(version: str, where: str) -> None:
    """Raise LeadlineError(`fio-too-old`) for a fio that Leadline cannot work with."""
    match = re.match(r"fio-(\d+)\.(\d+)", version)
    if not match or (int(match[1]), int(match[2])) < OLDEST:
        raise LeadlineError(
            errors.FIO_TOO_OLD,
            f"{version or 'this fio'} is too old; Leadline needs {OLDEST[0]}.{OLDEST[1]} or newer",
            context=[where],
            hint=INSTALL,
        )
