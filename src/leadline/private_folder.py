"""Folders for sockets and scratch files of this process, and what killed ones left of theirs.

The name tells whose it is, so that `leadline clean` removes what a process that was killed could
not remove itself.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

_NAME = re.compile(r"leadline-[a-z]+-(\d+)-\w+")
# A Unix socket's path has 107 bytes, so that folders of sockets lie where paths are short.
SHORT = "/tmp"


def prefix(purpose: str) -> str:
    """What the name of such a folder begins with; `purpose` is a word of small letters."""
    return f"leadline-{purpose}-{os.getpid()}-"


def remove_abandoned() -> list[Path]:
    """Remove the folders of this user's processes that are gone; which they were."""
    removed = []
    for place in {SHORT, tempfile.gettempdir()}:
        for path in sorted(Path(place).glob("leadline-*-*-*")):
            match = _NAME.fullmatch(path.name)
            if match is None or path.is_symlink() or _alive(int(match[1])):
                continue
            if path.is_dir() and path.stat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


def _alive(pid: int) -> bool:
    """Whether there is a process of that number; another's that took it keeps the folder."""
    return Path(f"/proc/{pid}").exists()
