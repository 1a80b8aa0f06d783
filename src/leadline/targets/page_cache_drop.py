"""Write back and drop the pages of files from the page cache, and count them before and after.

    python -I -S page_cache_drop.py PATH...

prints `[BEFORE, AFTER]` in bytes, `null` where the files cannot be mapped, or `{"errno", "path"}`.
It is a separate program with the standard library alone: writing back to storage that is gone
blocks a process even against SIGKILL, and this one can be abandoned.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import sys
from collections.abc import Sequence

_WINDOW = 1 << 30
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_MAP_FAILED = ctypes.c_void_p(-1).value


def drop(paths: Sequence[str]) -> list[int] | None:
    """Resident bytes before and after. Raises OSError."""
    before = after = 0
    for path in paths:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.lseek(handle, 0, os.SEEK_END)
            resident = _resident(handle, size)
            os.fsync(handle)  # dirty pages cannot be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            if resident is None:
                return None
            before += resident
            after += _resident(handle, size) or 0
        finally:
            os.close(handle)
    return [before, after]


def _resident(handle: int, size: int) -> int | None:
    """Bytes of the file in the page cache; None where it cannot be mapped (some FUSE)."""
    pages = 0
    for offset in range(0, size, _WINDOW):
        length = min(_WINDOW, size - offset)
        address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_PRIVATE, handle, offset)
        if address in (None, _MAP_FAILED):
            if ctypes.get_errno() in (errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
                return None
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            vector = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
            if _libc.mincore(address, length, vector):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            pages += len(vector.raw) - vector.raw.count(b"\0")
        finally:
            _libc.munmap(address, length)
    return min(pages * mmap.PAGESIZE, size)


def main(paths: Sequence[str]) -> int:
    answer: object
    try:
        answer = drop(paths)
    except OSError as error:
        answer = {"errno": error.errno, "path": error.filename}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
