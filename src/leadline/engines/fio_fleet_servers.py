"""The fio servers of a fleet: one process for each client, which ends with Leadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from leadline.engines.supervise import ending_with_parent

_POLL_S = 0.02
# A server waits for what it forked for the client about once a second.
_REAPED_S = 2.0
_END_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How one server is started: `command` makes it answer at the socket `name` of the fleet's
    folder. `local`: the process is the server itself."""

    name: str
    host: str
    command: tuple[str, ...]
    cwd: Path | None
    local: bool


@dataclass(slots=True)
class _Server:
    start: Start
    process: subprocess.Popen[bytes]
    cpu_s: float = 0.0
    # Seconds of processor time by process, as seen last: fio does not wait for all that it forks.
    spent: dict[int, float] = field(default_factory=dict)
    # Bytes that those who did I/O for it moved, by their process.
    moved: dict[int, int] = field(default_factory=dict)
    working: bool = False

    def reap(self, *, wait_s: float = 0.0) -> bool:
        """Whether it has ended; its processor time is then known, with that of its children."""
        until = time.monotonic() + wait_s
        while self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
            elif time.monotonic() >= until:
                return False
            else:
                time.sleep(_POLL_S)
        return True

    def workers(self) -> tuple[int, ...]:
        """The processes that it forked: one for a client that is connected, and below it those
        that do I/O."""
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            children = _children(pending.pop())
            found += children
            pending += children
        return tuple(found)


def _children(pid: int) -> tuple[int, ...]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return ()
    return tuple(int(one) for one in told.split() if _alive(int(one)))


def _alive(pid: int) -> bool:
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "ZX"


def _cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads; fields 14 and 15 of proc(5)."""
    fields = _stat(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Servers:
    """Started on entry, ended on every way out. What they say goes to `stderr`."""

    def __init__(self, starts: Sequence[Start], folder: Path, stderr: IO[bytes]) -> None:
        self._starts = starts
        self._folder = folder
        self._stderr = stderr
        self._servers: list[_Server] = []

    def __enter__(self) -> Self:
        """Raises OSError where one cannot be started."""
        try:
            for start in self._starts:
                process = subprocess.Popen(
                    ending_with_parent(start.command),
                    cwd=start.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    start_new_session=True,
                )
                self._servers.append(_Server(start=start, process=process))
        except OSError:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def silent(self) -> tuple[str, ...]:
        """Those that do not answer yet."""
        names = (server.start.name for server in self._servers)
        return tuple(name for name in names if not (self._folder / name).exists())

    def gone(self, *, whole: bool) -> tuple[str, ...]:
        """Those that have ended; `whole`: all are to work to the same end, so that one which
        worked and does so no longer is gone as well."""
        found = []
        for server in self._servers:
            workers = server.workers() if server.start.local else ()
            server.spent |= {pid: _cpu_s(pid) for pid in workers}
            busy = bool(workers)
            server.working = server.working or busy
            if server.reap() or (whole and server.working and not busy):
                found.append(server.start.name)
        return tuple(found)

    def moved_bytes(self, names: Mapping[str, object]) -> int | None:
        """Bytes that these servers have read and written, as the kernel accounts them; None where
        nobody tells, as of other machines."""
        total = 0
        for server in self._servers:
            if server.start.name not in names:
                continue
            if not server.start.local:
                return None
            for pid in server.workers():
                try:
                    told = Path(f"/proc/{pid}/io").read_text()
                except OSError:
                    continue
                fields = dict(line.split(": ") for line in told.splitlines())
                server.moved[pid] = int(fields["read_bytes"]) + int(fields["write_bytes"])
            total += sum(server.moved.values())
        return total

    def end(self) -> float:
        """End all of them; seconds of processor time that the local ones took in all."""
        until = time.monotonic() + _REAPED_S
        while time.monotonic() < until and any(server.workers() for server in self._servers):
            time.sleep(_POLL_S)
        for server in self._servers:
            if not server.reap():
                server.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _END_S
        for server in self._servers:
            server.reap(wait_s=max(0.0, until - time.monotonic()))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(server.process.pid, signal.SIGKILL)  # and what outlived its parent
            server.reap(wait_s=_END_S)
        return sum(
            max(server.cpu_s, sum(server.spent.values()))
            for server in self._servers
            if server.start.local
        )
