"""Drop a file's or device's pages from the page cache, and read back that they are gone.

posix_fadvise(POSIX_FADV_DONTNEED) touches only our own data and needs no privilege, unlike
/proc/sys/vm/drop_caches; mincore(2) then counts what is still resident. Caches of the storage
itself (ZFS's ARC, a RAID controller) are beyond both.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from leadline import admin_programs
from leadline.archive.records import CacheDrop
from leadline.targets import page_cache_drop

METHOD = "posix_fadvise(DONTNEED), read back by mincore"
# What is dirty is written back first, to storage that may be as slow as one that is prefilled.
_LEAST_BOUND_S = 120.0
_SLOWEST_BPS = 2 << 20


def drop_page_cache(paths: Sequence[Path], *, bound_s: float = _LEAST_BOUND_S) -> CacheDrop | None:
    """Write back and drop the pages of `paths`, within `bound_s` and what their size takes beyond
    it. None where they cannot be mapped, so that the drop could not be read back and may not be
    claimed. Raises OSError if they cannot be read, TimeoutError if storage takes no more.
    """
    size = sum(path.stat().st_size for path in paths)
    command = (sys.executable, "-I", "-S", page_cache_drop.__file__, *map(str, paths))
    status, out, err = admin_programs.run(*command, bound_s=bound_s + size / _SLOWEST_BPS)
    if status is None:
        raise TimeoutError(errno.ETIMEDOUT, "what was written does not reach its storage")
    if status != 0:
        said = err.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise OSError(errno.EIO, f"dropping the page cache failed: {said[0]}")
    answer = json.loads(out)
    if isinstance(answer, dict):
        raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
    if answer is None:
        return None
    before, after = answer
    return CacheDrop(method=METHOD, resident_before_bytes=before, resident_after_bytes=after)
