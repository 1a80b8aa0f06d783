"""Processes of a lab: started detached, found again by what their environment says, ended.

Whose process it is stands in its environment (`LEADLINE_LAB`, `LEADLINE_LAB_TOKEN`), where it is
from its first instruction on: a kill -9 between starting a daemon and writing that down loses
nothing.
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline import errors
from leadline.errors import LeadlineError

FOLDER_VARIABLE = "LEADLINE_LAB"
TOKEN_VARIABLE = "LEADLINE_LAB_TOKEN"
# After SIGKILL: a process in uninterruptible sleep has to come back first.
_END_S = 10.0
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "CC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A process of a lab; `start_ticks` is field 22 of /proc/PID/stat, `name` its program's."""

    pid: int
    start_ticks: int
    name: str
    folder: Path
    token: str

    @property
    def rss_bytes(self) -> int:
        """Memory that it holds; 0 if it has gone."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def environment(folder: Path, token: str) -> dict[str, str]:
    """For the processes of a lab: little of the user's own, so that no CEPH_ARGS of theirs changes
    the cluster, and the two variables by which they are found."""
    kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # The manager's modules would else be compiled into the distribution's own folder.
    python = {"PYTHONDONTWRITEBYTECODE": "1"}
    return kept | python | {FOLDER_VARIABLE: str(folder), TOKEN_VARIABLE: token}


def start(
    command: Sequence[str], *, folder: Path, output: Path, environment: Mapping[str, str]
) -> int:
    """Start a program in a session of its own, working in `folder`; what it prints goes to
    `output`. Returns its pid. Raises OSError.

    Not by subprocess, whose objects want to see the end of what they started."""
    handed = ["env", f"--chdir={folder}", "--", *command]
    return os.posix_spawnp(
        handed[0],
        handed,
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (
                os.POSIX_SPAWN_OPEN,
                1,
                str(output),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND,
                0o600,
            ),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
    )


def ended(pid: int) -> int | None:
    """How a child of ours ended, as subprocess has it (negative: by that signal); None while it
    runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0 if start_ticks(pid) is None else None
    return os.waitstatus_to_exitcode(status) if found else None


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None if it has ended, even if nobody has
    waited for it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def find(folder: Path | None = None, token: str | None = None) -> list[Found]:
    """Living processes of labs: of all that this user may see, or of one folder and token."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if FOLDER_VARIABLE.encode() not in variables:
            continue
        known = dict(
            word.decode("utf-8", "surrogateescape").partition("=")[::2]
            for word in variables.split(b"\0")
        )
        where, whose = known.get(FOLDER_VARIABLE, ""), known.get(TOKEN_VARIABLE, "")
        if not where.startswith("/") or not whose:
            continue
        if folder is not None and Path(where) != folder:
            continue
        if token is not None and whose != token:
            continue
        began = start_ticks(int(entry.name))
        if began is None:
            continue
        found.append(
            Found(
                pid=int(entry.name),
                start_ticks=began,
                name=_name(entry),
                folder=Path(where),
                token=whose,
            )
        )
    return found


def kill(processes: Iterable[Found]) -> list[Found]:
    """SIGKILL all at once and wait until they are gone; returns those that are not."""
    handles: dict[int, Found] = {}
    try:
        for process in processes:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(process.pid)
                handles[handle] = process
                if start_ticks(process.pid) == process.start_ticks:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        deadline = time.monotonic() + _END_S
        waiting = dict(handles)
        while waiting and time.monotonic() < deadline:
            gone, _, _ = select.select(list(waiting), [], [], 0.1)
            for handle in gone:
                _reap(waiting.pop(handle).pid)
            for handle, process in list(waiting.items()):
                if start_ticks(process.pid) != process.start_ticks:
                    del waiting[handle]
        return list(waiting.values())
    finally:
        for handle in handles:
            os.close(handle)


def _reap(pid: int) -> None:
    """If it was our child."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _name(entry: Path) -> str:
    """What the process is, by its command line: `osd.0`, else its program."""
    try:
        words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    program = Path(words[0]).name
    if program.startswith("ceph-") and "-i" in words[:-1]:
        return f"{program.removeprefix('ceph-')}.{words[words.index('-i') + 1]}"
    return "zonelink" if program.startswith("zonelink-") else program


# The processor of each OSD host, bounded: a control group of the kernel's with a quota for each.
#  A group may run for its quota of every period, then stands still until the next one begins. Its
# name holds the lab's token, so that whoever knows the token finds and removes it.

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
    return {host: found[0].root / _cpu_groups_name(token) / host for host in hosts}


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
        top = controller.root / _cpu_groups_name(token)
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


def _here() -> tuple[Controller, ...]:
    try:
        return controllers(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def _cpu_groups_name(token: str) -> str:
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
