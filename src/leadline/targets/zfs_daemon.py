"""The daemon zfs-fuse: started where the kernel has no ZFS, and stopped after the run."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from leadline import errors
from leadline.connect import programs
from leadline.environment import child_environment
from leadline.errors import LeadlineError
from leadline.targets import daemons

PROGRAM = "zfs-fuse"
# Names of Leadline's pools and folders begin with it.
_OWN = "leadline-"
# zfs-fuse imports all pools of this file when it starts.
_CACHE = Path("/etc/zfs/zpool.cache")
# The cache in MiB (the default is half of the memory), and seconds for which the kernel caches
# names and attributes; without these every operation queries them again.
_SETTINGS = ("-m", "256", "-a", "1", "-e", "1", "--no-kstat-mount")
_STARTED_WITHIN_S = 30.0
_RETRY_S = 5.0


def answers() -> bool:
    """Whether ZFS runs on this machine. Raises LeadlineError(`zfs-failed`)."""
    try:
        programs.pools()
    except LeadlineError as error:
        if error.kind is errors.ZFS_MISSING:
            return False
        raise
    return True


def require_possible(where: list[str]) -> None:
    """Raise LeadlineError(`zfs-missing`) where ZFS neither runs nor can be started."""
    for program in ("zpool", "zfs"):
        if programs.find(program) is None:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"there is no {program!r} on this machine",
                context=where,
                hint=f"install {programs.GET_ZFS}",
            )
    if not programs.is_zfs_fuse() or answers():
        return
    if _CACHE.exists():
        raise LeadlineError(
            errors.ZFS_MISSING,
            "zfs-fuse does not run, and would import existing pools if Leadline started it",
            context=[*where, f"it imports the pools in {_CACHE}"],
            hint="start it yourself (`zfs-fuse`), if no other machine uses those pools",
        )


def ensure(pid_file: Path) -> None:
    """Start ZFS if it does not run. `pid_file` is in the folder by which the daemon is found.

    Raises LeadlineError: `zfs-missing`, `zfs-failed`.
    """
    if answers():
        return
    if not programs.is_zfs_fuse():
        _load_module()
        return
    require_possible([])
    end = time.monotonic() + _STARTED_WITHIN_S
    due = 0.0
    while not answers():
        if time.monotonic() > end:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"zfs-fuse does not answer within {_STARTED_WITHIN_S:g} s of its start",
                hint="`zfs-fuse --no-daemon` shows why",
            )
        if time.monotonic() > due:
            # Repeated, as a daemon that is about to end keeps the next one from starting.
            _start(pid_file)
            due = time.monotonic() + _RETRY_S
        time.sleep(0.1)


def _start(pid_file: Path) -> None:
    """Start zfs-fuse, which becomes a daemon."""
    path = programs.find(PROGRAM)
    assert path is not None
    try:
        subprocess.run(
            [path, "-p", str(pid_file), *_SETTINGS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=child_environment(),
            timeout=_STARTED_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeadlineError(errors.ZFS_MISSING, f"{path!r} cannot be started: {error}") from error


def _load_module() -> None:
    modprobe = programs.find("modprobe")
    if modprobe is not None:
        programs.run(modprobe, "zfs", bound_s=60.0)
    programs.pools()


def is_running(folder: Path) -> bool:
    """Whether a daemon runs that was started with a pid file in `folder`."""
    return bool(daemons.find_processes(PROGRAM, folder))


def _removed_folders(parent: Path) -> tuple[Path, ...]:
    """The removed folders in `parent` that daemons were started with: a daemon outlives its folder
    while it serves another pool of Leadline's."""
    files = [
        Path(os.fsdecode(word)) for _, words in daemons.command_lines(PROGRAM) for word in words
    ]
    folders = dict.fromkeys(file.parent for file in files if file.parent.parent == parent)
    return tuple(
        folder for folder in sorted(folders) if folder.name.startswith(_OWN) and not folder.exists()
    )


def stop(folder: Path, own_pool: str) -> tuple[str, ...]:
    """Stop the daemon with a pid file in `folder` or in a removed one, if there is one, with
    `own_pool` at most. One that serves other pools of Leadline's goes on, until the last of them.

    Returns sentences about what failed.
    """
    started = [one for one in (folder, *_removed_folders(folder.parent)) if is_running(one)]
    if not started:
        return ()
    try:
        others = [pool for pool in programs.pools() if pool != own_pool]
    except LeadlineError:
        others = []  # it does not answer, so it serves no other pool
    if others and all(pool.startswith(_OWN) for pool in others):
        return ()
    if others:
        return (f"zfs-fuse, which Leadline started, still serves the pools {', '.join(others)}",)
    for one in started:
        if not daemons.end(PROGRAM, one):
            return ("zfs-fuse, which Leadline started, does not end",)
    return ()
