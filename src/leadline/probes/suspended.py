"""Paths in a pool of ZFS that is suspended: whoever touches one waits for ever, in the kernel."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from leadline import zfs_programs
from leadline.probes.mount_table import mount_at, mount_rows

_MOUNTS = Path("/proc/self/mountinfo")


def suspended_below(path: Path) -> str:
    """The suspended pool that a path lies in by the table of mounts, without touching the path;
    empty where there is none. Links in the path are not followed."""
    lost = zfs_programs.suspended_pools()
    if not lost:
        return ""
    rows = mount_rows(_MOUNTS.read_text("utf-8", "replace"))
    mount = mount_at(rows, PurePosixPath(os.path.normpath(Path.cwd() / path)))
    if mount is None or mount.filesystem != "zfs":
        return ""
    pool = zfs_programs.pool_of(mount.source)
    return pool if pool in lost else ""


def refuse_suspended(path: Path, where: list[str]) -> None:
    """Raises LeadlineError(`zpool-unfit`) for a path in a suspended pool."""
    pool = suspended_below(path)
    if pool:
        raise zfs_programs.suspended(pool, where)
