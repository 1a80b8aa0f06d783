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
from typing import IO, Self

from leadline.environment import CEPH, child_environment, ending_with_parent

POLL_S = 0.02
# A server waits for its children about once a second.
_REAPED_S = 2.0
_END_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How one server is started: `command` serves the socket `name` in the fleet's folder.
    `local`: the process is the server itself."""

    name: str
    command: tuple[str, ...]
    local: bool


@dataclass(slots=True)
class _Server:
    start: Start
    process: subprocess.Popen[bytes]
    cpu_s: float = 0.0
    # Last seen processor time of each worker in seconds: fio does not wait for all its children.
    spent: dict[int, float] = field(default_factory=dict)
    # Bytes that each worker read and wrote.
    moved: dict[int, int] = field(default_factory=dict)
    working: bool = False

    def reap(self, *, wait_s: float = 0.0) -> bool:
        """Whether it has ended; `cpu_s` is then set, with that of its children."""
        until = time.monotonic() + wait_s
        while self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
            elif time.monotonic() >= until:
                return False
            else:
                time.sleep(POLL_S)
        return True

    def workers(self) -> tuple[int, ...]:
        """Its child processes: one per connected client, and below it those that do I/O."""
        found: list[int] = []
        pending = [self.process.pid]
        while pending:
            children = _children(pending.pop())
            found += children
            pending += children
        return tuple(found)


def _children(pid: int) -> tuple[int, ...]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return ()
    states = {int(child): _stat(int(child))[:1] for child in children}
    return tuple(child for child, state in states.items() if state and state[0] not in "ZX")


def process_cpu_s(pid: int) -> float:
    """User and system time of a process with all its threads; fields 14 and 15 of proc(5)."""
    fields = _stat(pid)
    ticks = int(fields[11]) + int(fields[12]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


class Servers:
    """Context manager that starts the servers and always ends them. They write to `stderr`."""

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
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    env=child_environment(*CEPH),
                    start_new_session=True,
                )
                self._servers.append(_Server(start=start, process=process))
        except OSError:
            self.end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def silent(self) -> tuple[str, ...]:
        names = (server.start.name for server in self._servers)
        return tuple(name for name in names if not (self._folder / name).exists())

    def gone(self, *, whole: bool) -> tuple[str, ...]:
        """The servers that have ended; with `whole`, also those whose workers have ended."""
        found = []
        for server in self._servers:
            workers = server.workers() if server.start.local else ()
            server.spent |= {pid: process_cpu_s(pid) for pid in workers}
            busy = bool(workers)
            server.working = server.working or busy
            if server.reap() or (whole and server.working and not busy):
                found.append(server.start.name)
        return tuple(found)

    def moved_bytes(self, names: Mapping[str, object]) -> int | None:
        """Bytes that these servers read and wrote, by the kernel's accounts; None where a server
        runs on another machine."""
        total = 0
        for server in self._servers:
            if server.start.name not in names:
                continue
            if not server.start.local:
                return None
            for pid in server.workers():
                try:
                    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
                except OSError:
                    continue
                fields = dict(line.split(": ") for line in lines)
                server.moved[pid] = int(fields["read_bytes"]) + int(fields["write_bytes"])
            total += sum(server.moved.values())
        return total

    def end(self) -> float:
        """End all servers; the processor time of the local ones, in seconds."""
        until = time.monotonic() + _REAPED_S
        while time.monotonic() < until and any(server.workers() for server in self._servers):
            time.sleep(POLL_S)
        for server in self._servers:
            if not server.reap():
                server.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + _END_S
        for server in self._servers:
            server.reap(wait_s=max(0.0, until - time.monotonic()))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(server.process.pid, signal.SIGKILL)  # workers that outlived it
            server.reap(wait_s=_END_S)
        return sum(
            max(server.cpu_s, sum(server.spent.values()))
            for server in self._servers
            if server.start.local
        )
