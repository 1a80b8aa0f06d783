"""Reading a file that a person wrote, and never more than such a file can be."""

from __future__ import annotations

import stat
from pathlib import Path

MAX_BYTES = 1 << 20


def read_small_text(path: Path) -> str:
    """The text of a regular file of at most MAX_BYTES, UTF-8.

    Raises OSError if it cannot be read, ValueError (UnicodeDecodeError included) if it is no such
    file: /dev/zero would fill the memory, a pipe would wait for ever.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES} bytes")
    return content.decode("utf-8")
