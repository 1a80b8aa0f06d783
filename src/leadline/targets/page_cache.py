"""Drop a file's or device's pages from the page cache, and read back that they are gone.

posix_fadvise(POSIX_FADV_DONTNEED) touches only our own data and needs no privilege, unlike
/proc/sys/vm/drop_caches; mincore(2) then counts what is still resident. Caches of the storage
itself (ZFS's ARC, a RAID controller) are beyond both.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from leadline.archive.records import CacheDrop

METHOD = "posix_fadvise(DONTNEED), read back by mincore"
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


def drop_page_cache(paths: Sequence[Path]) -> CacheDrop | None:
    """Write back and drop the pages of `paths`. None where they cannot be mapped, so that the
    drop could not be read back and may not be claimed. Raises OSError if they cannot be read.
    """
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
    return CacheDrop(method=METHOD, resident_before_bytes=before, resident_after_bytes=after)


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
