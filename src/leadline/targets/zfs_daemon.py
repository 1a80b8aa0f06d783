"""A ZFS that runs: the kernel's, or zfs-fuse, which is started where none answers and stopped
afterwards, if it was we who started it and nobody else has a pool in it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from leadline import admin_programs, errors, zfs_programs
from leadline.errors import LeadlineError
from leadline.targets import own_processes

PROGRAM = "zfs-fuse"
# What zfs-fuse imports all of when it starts.
_CACHE = Path("/etc/zfs/zpool.cache")
# Its cache in MiB, so that it does not take half of the memory; how long the kernel may hold what
# it was told of names and sizes, without which every operation asks for them again.
_SETTINGS = ("-m", "256", "-a", "1", "-e", "1", "--no-kstat-mount")
_STARTED_WITHIN_S = 30.0
_AGAIN_S = 5.0


def answers() -> bool:
    """Whether a ZFS runs here. Raises LeadlineError(`zfs-failed`)."""
    try:
        zfs_programs.pools()
    except LeadlineError as error:
        if error.kind is errors.ZFS_MISSING:
            return False
        raise
    return True


def require_possible(where: list[str]) -> None:
    """Raises LeadlineError(`zfs-missing`) where no ZFS runs and none could be started."""
    for program in ("zpool", "zfs"):
        if admin_programs.find(program) is None:
            raise LeadlineError(
                errors.ZFS_MISSING,
                f"there is no {program!r} on this machine",
                context=where,
                hint=f"install {zfs_programs.GET_ZFS}",
            )
    if not zfs_programs.in_user_space() or answers():
        return
    if _CACHE.exists():
        raise LeadlineError(
            errors.ZFS_MISSING,
            "zfs-fuse does not run, and would import pools of yours if it were started for this",
            context=[*where, f"it imports what {_CACHE} lists"],
            hint="start it yourself (`zfs-fuse`), if nobody else uses those pools",
        )


def ensure(pid_file: Path) -> None:
    """Make sure that a ZFS answers. `pid_file` lies in the folder by which the daemon is found
    again. Raises LeadlineError: `zfs-missing`, `zfs-failed`."""
    if answers():
        return
    if not zfs_programs.in_user_space():
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
            # Again and again: one that is just ending keeps the next from starting.
            _start(pid_file)
            due = time.monotonic() + _AGAIN_S
        time.sleep(0.1)


def _start(pid_file: Path) -> None:
    """It goes into the background by itself."""
    path = admin_programs.find(PROGRAM)
    assert path is not None
    try:
        subprocess.run(
            [path, "-p", str(pid_file), *_SETTINGS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=_STARTED_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeadlineError(errors.ZFS_MISSING, f"{path!r} cannot be started: {error}") from error


def _load_module() -> None:
    modprobe = admin_programs.find("modprobe")
    if modprobe is not None:
        admin_programs.run(modprobe, "zfs", bound_s=60.0)
    zfs_programs.pools()


def ours(folder: Path) -> bool:
    """Whether a daemon runs that was started with a pid file in `folder`."""
    return bool(own_processes.found(PROGRAM, folder))


def stop(folder: Path, own_pool: str) -> tuple[str, ...]:
    """Stop the daemon that was started with a pid file in `folder`, if there is one; `own_pool`
    may go with it. Why it was not stopped as sentences."""
    if not ours(folder):
        return ()
    try:
        others = [pool for pool in zfs_programs.pools() if pool != own_pool]
    except LeadlineError:
        others = []  # it does not answer, and so serves nobody
    if others:
        return (f"zfs-fuse, which was started for this, goes on for the pools {', '.join(others)}",)
    if not own_processes.end(PROGRAM, folder) and not own_processes.end(
        PROGRAM, folder, by=signal.SIGKILL
    ):
        return ("zfs-fuse, which was started for this, does not end",)
    return ()
