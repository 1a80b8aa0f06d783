"""Processes of a lab: started detached, found by their environment, ended.

The environment (`LEADLINE_LAB`, `LEADLINE_LAB_TOKEN`) names the lab from the first instruction on:
a kill -9 between the start of a daemon and its record loses nothing.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leadline.environment import COMPILER, child_environment

FOLDER_VARIABLE = "LEADLINE_LAB"
TOKEN_VARIABLE = "LEADLINE_LAB_TOKEN"
# After SIGKILL: a process in uninterruptible sleep must wake up first.
_END_S = 10.0
# A token is a part of paths that are removed.
TOKEN = r"[A-Za-z0-9_-]{1,64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabProcess:
    """A process of a lab; `start_ticks` is field 22 of /proc/PID/stat, `name` is its program."""

    pid: int
    start_ticks: int
    name: str
    folder: Path
    token: str

    @property
    def rss_bytes(self) -> int:
        """Resident memory; 0 after its end."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def environment(folder: Path, token: str) -> Mapping[str, str]:
    """Return the environment of a lab's processes: no CEPH_ARGS, which would change the cluster,
    and the two variables that identify them."""
    # Python must not compile the manager's modules into the distribution's folder.
    python = {"PYTHONDONTWRITEBYTECODE": "1"}
    identity = {FOLDER_VARIABLE: str(folder), TOKEN_VARIABLE: token}
    return child_environment(*COMPILER, **python, **identity)


def start(
    command: Sequence[str],
    *,
    folder: Path,
    output: Path,
    environment: Mapping[str, str],
    stdin: int | None = None,
) -> int:
    """Start a program in its own session and in `folder`; its output goes to `output`, and it reads
    from the descriptor `stdin` or nothing. Returns the pid. Raises OSError. Not with subprocess,
    whose objects wait for the end of the process."""
    given = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if stdin is None
        else (os.POSIX_SPAWN_DUP2, stdin, 0)
    )
    arguments = ["env", f"--chdir={folder}", "--", *command]
    return os.posix_spawnp(
        arguments[0],
        arguments,
        dict(environment),
        file_actions=[
            given,
            (os.POSIX_SPAWN_OPEN, 1, str(output), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
    )


def exit_status(pid: int) -> int | None:
    """Return the exit status of a child process (negative: the signal); None while it runs."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0 if start_ticks(pid) is None else None
    return os.waitstatus_to_exitcode(status) if found else None


def start_ticks(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot; None after its end, also while it is
    a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def find(folder: Path | None = None, token: str | None = None) -> list[LabProcess]:
    """Find this user's living processes of all labs, or of one folder and token.

    The environment of a process of another user is that user's text and is never read.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.geteuid():
                continue
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if FOLDER_VARIABLE.encode() not in variables:
            continue
        known = dict(
            word.decode("utf-8", "surrogateescape").partition("=")[::2]
            for word in variables.split(b"\0")
        )
        where, owner = known.get(FOLDER_VARIABLE, ""), known.get(TOKEN_VARIABLE, "")
        wanted = folder in (None, Path(where)) and token in (None, owner)
        began = start_ticks(int(entry.name))
        valid = where.startswith("/") and re.fullmatch(TOKEN, owner)
        if not valid or not wanted or began is None:
            continue
        found.append(
            LabProcess(
                pid=int(entry.name),
                start_ticks=began,
                name=_name(entry),
                folder=Path(where),
                token=owner,
            )
        )
    return found


def kill(processes: Iterable[LabProcess]) -> list[LabProcess]:
    """Kill processes and wait until they are gone; return those that remain."""
    handles: dict[int, LabProcess] = {}
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
                with suppress(ChildProcessError):  # it may be a child
                    os.waitpid(waiting.pop(handle).pid, os.WNOHANG)
            for handle, process in list(waiting.items()):
                if start_ticks(process.pid) != process.start_ticks:
                    del waiting[handle]
        return list(waiting.values())
    finally:
        for handle in handles:
            os.close(handle)


def end(pid: int, started: int, wait_s: float) -> None:
    """End a process by SIGTERM, then by SIGKILL, waiting `wait_s` after each. A process with
    another start than `started` is another process, and stays."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if start_ticks(pid) != started:
                return
            signal.pidfd_send_signal(handle, number)
            if select.select([handle], [], [], wait_s)[0]:
                return
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _name(entry: Path) -> str:
    """Return the name of a process from its command line: `osd.0`, else its program."""
    try:
        words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return "?"
    program = Path(words[0]).name
    if program.startswith("ceph-") and "-i" in words[:-1]:
        return f"{program.removeprefix('ceph-')}.{words[words.index('-i') + 1]}"
    return "zonelink" if program.startswith("zonelink-") else program
