"""CPU limits of a lab's OSD hosts: one control group of the kernel with a quota per host.

A group may run for its quota in each period, then pauses until the next period. The name of the
group holds the lab's token, by which it is found and removed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError

# Short, so that a daemon without quota pauses for milliseconds only.
_PERIOD_US = 10_000
# The kernel accepts no shorter quota (kernel/sched/core.c: min_cfs_quota_period).
_LEAST_QUOTA_US = 1_000
# A group stays busy shortly after its last process has ended.
_REMOVE_S = 5.0
_V2_SWITCH = "cgroup.subtree_control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A mount of the cpu controller: `unified` for version 2 of control groups."""

    root: Path
    unified: bool


def controllers(mountinfo: str) -> tuple[Controller, ...]:
    """Return the mounts of the cpu controller in /proc/self/mountinfo. Version 2 lists its
    controllers in a file, and counts only with the cpu controller."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        root = Path(before.split()[4])
        if kind == "cgroup" and "cpu" in options.rpartition(" ")[2].split(","):
            found.append(Controller(root=root, unified=False))
        elif kind == "cgroup2" and "cpu" in _words(root / "cgroup.controllers"):
            found.append(Controller(root=root, unified=True))
    return tuple(found)


def find_obstacle() -> str | None:
    """Return why no group can be created here, without trying; None if no reason is known."""
    found = _mounted_controllers()
    if not found:
        return "the kernel's cpu controller is not mounted (cgroup version 1 or 2)"
    if os.geteuid() != 0:
        return "only root can create control groups"
    if not os.access(found[0].root, os.W_OK):
        return f"{found[0].root} is read-only, as it is in most containers"
    return None


def folders(hosts: Iterable[str], token: str) -> dict[str, Path]:
    """Return the group of each host. Raises LeadlineError(`lab-not-ready`)."""
    found = _mounted_controllers()
    if not found:
        raise LeadlineError(errors.LAB_NOT_READY, find_obstacle() or "no cpu controller")
    return {host: found[0].root / _group_name(token) / host for host in hosts}


def make(groups: Mapping[str, Path], cores: float) -> None:
    """Create the groups, set their quota, read it back. Raises LeadlineError(`lab-failed`)."""
    period = max(_PERIOD_US, math.ceil(_LEAST_QUOTA_US / cores))
    quota = round(period * cores)
    for folder in groups.values():
        try:
            _make(folder, quota, period)
        except OSError as error:
            raise _failed(f"{error.filename or folder}: {error.strerror}") from error
        if read_quota(folder) != (quota, period):
            raise _failed(f"{folder} does not show {quota} of {period} us")


def _make(folder: Path, quota: int, period: int) -> None:
    lab = folder.parent
    unified = (lab.parent / _V2_SWITCH).exists()
    lab.mkdir(exist_ok=True)
    if unified:
        for above in (lab.parent, lab):
            (above / _V2_SWITCH).write_text("+cpu")
    folder.mkdir()
    if unified:
        (folder / "cpu.max").write_text(f"{quota} {period}")
    else:
        (folder / "cpu.cfs_period_us").write_text(str(period))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


def assign(folder: Path, pids: Iterable[int]) -> None:
    """Move processes with all their threads, read it back. Raises LeadlineError(`lab-failed`)."""
    try:
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
        missing = set(pids) - read_members(folder)
    except OSError as error:
        raise _failed(f"{folder}: {error.strerror}") from error
    if missing:
        raise _failed(f"{folder} does not hold process {', '.join(map(str, sorted(missing)))}")


def read_quota(folder: Path) -> tuple[int, int] | None:
    """Return the quota and the period in microseconds; None without a limit or a group."""
    words = _words(folder / "cpu.max") or [
        word for what in ("quota", "period") for word in _words(folder / f"cpu.cfs_{what}_us")
    ]
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return int(words[0]), int(words[1])


def read_members(folder: Path) -> set[int]:
    """Return the processes in a group; none without a group."""
    return {int(word) for word in _words(folder / "cgroup.procs")}


def throttled_share(folder: Path) -> float | None:
    """Return the share of a group's busy periods that used up the quota; None without a busy period
    or a group."""
    words = _words(folder / "cpu.stat")
    counts = dict(zip(words[::2], words[1::2], strict=False))
    periods = int(counts.get("nr_periods", 0))
    return int(counts["nr_throttled"]) / periods if periods else None


def remove(token: str) -> list[str]:
    """Remove all groups of a lab whose processes have ended; return the problems."""
    problems = []
    for controller in _mounted_controllers():
        top = controller.root / _group_name(token)
        deadline = time.monotonic() + _REMOVE_S
        while top.exists():
            try:
                for folder in (*(path for path in top.iterdir() if path.is_dir()), top):
                    with suppress(FileNotFoundError):
                        folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    problems.append(f"the control group {top}: {error.strerror}")
                    break
                time.sleep(0.02)
    return problems


def _mounted_controllers() -> tuple[Controller, ...]:
    try:
        return controllers(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def _group_name(token: str) -> str:
    return f"leadline-lab-{token}"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _failed(reason: str) -> LeadlineError:
    return LeadlineError(
        errors.LAB_FAILED, "the CPU of the hosts cannot be limited", context=[reason]
    )
