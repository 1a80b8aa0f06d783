"""Processes of a lab: started detached, found again by what their environment says, ended.

Whose process it is stands in its environment (`LEADLINE_LAB`, `LEADLINE_LAB_TOKEN`), where it is
from its first instruction on: a kill -9 between starting a daemon and writing that down loses
nothing.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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
            one.decode("utf-8", "surrogateescape").partition("=")[::2]
            for one in variables.split(b"\0")
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
