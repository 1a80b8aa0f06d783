"""The processor of each OSD host, bounded: a control group of the kernel's with a quota for each.

A group may run for its quota of every period, then stands still until the next one begins. Its name
holds the lab's token, so that whoever knows the token finds and removes it.
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

# Short, so that a daemon that has used its quota up stands still for milliseconds only.
_PERIOD_US = 10_000
# The kernel takes no shorter quota (kernel/sched/core.c: min_cfs_quota_period).
_LEAST_QUOTA_US = 1_000
# A group is busy for a moment after its last process has ended.
_REMOVE_S = 5.0
_V2_SWITCH = "cgroup.subtree_control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A mount of the cpu controller: `unified` for version 2 of control groups."""

    root: Path
    unified: bool


def controllers(mountinfo: str) -> tuple[Controller, ...]:
    """Where the cpu controller is mounted, by /proc/self/mountinfo. Version 2 lists what it has in
    a file, hence it counts only if that says so."""
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


def why_unavailable() -> str | None:
    """Why no group can be made here, as far as can be told without trying; None if nothing is
    known to stand against it."""
    found = _here()
    if not found:
        return "the kernel's cpu controller is not mounted (cgroup version 1 or 2)"
    if os.geteuid() != 0:
        return "control groups can be made by root only"
    if not os.access(found[0].root, os.W_OK):
        return f"{found[0].root} is read-only, as it is in most containers"
    return None


def folders(hosts: Iterable[str], token: str) -> dict[str, Path]:
    """The group of each host. Raises LeadlineError(`lab-not-ready`)."""
    found = _here()
    if not found:
        raise LeadlineError(errors.LAB_NOT_READY, why_unavailable() or "no cpu controller")
    return {host: found[0].root / _name(token) / host for host in hosts}


def make(groups: Mapping[str, Path], cores: float) -> None:
    """Make the groups and set their quota, read back. Raises LeadlineError(`lab-failed`)."""
    period = max(_PERIOD_US, math.ceil(_LEAST_QUOTA_US / cores))
    quota = round(period * cores)
    for folder in groups.values():
        try:
            _make(folder, quota, period)
        except OSError as error:
            raise _failed(f"{error.filename or folder}: {error.strerror}") from error
        if quota_of(folder) != (quota, period):
            raise _failed(f"{folder} has not taken over {quota} of {period} us")


def _make(folder: Path, quota: int, period: int) -> None:
    """A group below one of the lab's own, which has no quota."""
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


def put_in(folder: Path, pids: Iterable[int]) -> None:
    """Move processes with all their threads, read back. Raises LeadlineError(`lab-failed`)."""
    try:
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
        missing = set(pids) - members(folder)
    except OSError as error:
        raise _failed(f"{folder}: {error.strerror}") from error
    if missing:
        raise _failed(f"{folder} has not taken process {', '.join(map(str, missing))}")


def quota_of(folder: Path) -> tuple[int, int] | None:
    """Microseconds that the group may run, and those of the period; None where it is not bounded,
    or is not there."""
    told = _words(folder / "cpu.max") or [
        word for what in ("quota", "period") for word in _words(folder / f"cpu.cfs_{what}_us")
    ]
    if len(told) != 2 or told[0] in ("max", "-1"):
        return None
    return int(told[0]), int(told[1])


def members(folder: Path) -> set[int]:
    """Processes in a group; none where there is no group."""
    return {int(word) for word in _words(folder / "cgroup.procs")}


def throttled_share(folder: Path) -> float | None:
    """Of the periods in which a group had work, those in which its quota was used up, since it was
    made; None where there was none, or there is no such group."""
    words = _words(folder / "cpu.stat")
    counts = dict(zip(words[::2], words[1::2], strict=False))
    periods = int(counts.get("nr_periods", 0))
    return int(counts["nr_throttled"]) / periods if periods else None


def remove(token: str) -> list[str]:
    """Remove all groups of a lab whose processes have ended; returns what went wrong."""
    problems = []
    for controller in _here():
        top = controller.root / _name(token)
        deadline = time.monotonic() + _REMOVE_S
        while top.exists():
            try:
                for folder in (*(one for one in top.iterdir() if one.is_dir()), top):
                    with suppress(FileNotFoundError):
                        folder.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    problems.append(f"the control group {top}: {error.strerror}")
                    break
                time.sleep(0.02)
    return problems


def _here() -> tuple[Controller, ...]:
    try:
        return controllers(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def _name(token: str) -> str:
    return f"leadline-lab-{token}"


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _failed(why: str) -> LeadlineError:
    return LeadlineError(
        errors.LAB_FAILED, "the processor of the hosts cannot be bounded", context=[why]
    )
