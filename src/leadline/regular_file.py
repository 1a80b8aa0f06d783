"""Reading files that may be a stranger's: never a link, a device or a pipe, never without bound."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from leadline.units import format_size

# A file of more cannot be a result; whoever made it may mean to fill our memory.
LARGEST_FILE_BYTES = 512 << 20


def read_content(path: Path, most: int = LARGEST_FILE_BYTES) -> bytes:
    """The first `most` bytes of a file that may be a stranger's: a link, a device, a pipe or
    something larger than memory is not read. Raises OSError that says why."""
    # Non-blocking: opening a pipe would wait for a writer that never comes.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if about.st_size > LARGEST_FILE_BYTES:
            size, limit = format_size(about.st_size), format_size(LARGEST_FILE_BYTES)
            raise OSError(errno.EFBIG, f"it has {size}, and {limit} are the most", str(path))
        # No more than there is: Python makes room for all that is asked for.
        return stream.read(min(most, about.st_size))
