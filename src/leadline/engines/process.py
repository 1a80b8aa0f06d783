"""Run a tool within a time bound and end it in any case: SIGINT, SIGTERM, SIGKILL.

A hung target can make fio ignore the first two. A process in uninterruptible sleep ignores the
third as well; it is then left behind and reported.
"""

from __future__ import annotations

import os
import re
import select
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

from leadline.environment import CEPH, child_environment, ending_with_parent
from leadline.errors import ErrorKind, LeadlineError
from leadline.runner.events import StopRequest
from leadline.runner.ports import Progress

# Seconds that a process has after each signal to end by itself.
LADDER: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 5.0),
    (signal.SIGTERM, 3.0),
    (signal.SIGKILL, 5.0),
)
_POLL_S = 0.2
_KILLED_S = 5.0
_VERSION_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended. `exit_status` is None if it could not be ended; a negative one is the
    signal that ended it. `cpu_s` is user and system time, with that of its children."""

    exit_status: int | None
    signals: tuple[str, ...]
    past_bound: bool
    stopped: bool
    wall_s: float
    cpu_s: float
    pid: int


def end_abandoned(staging: Path) -> None:
    """Kill this user's load generators that work in the staging folder of a dead Leadline.

    Nearly all end by themselves (`ending_with_parent`). But fio's handler of SIGTERM allocates
    memory: where the signal interrupts a fork or an allocation, fio waits for itself for ever.
    """
    # The kernel names a working folder without links, also after its removal.
    inside = f"{staging.resolve()}{os.sep}"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            handle = os.pidfd_open(int(entry.name))
            try:
                # A shell may stand in that folder; only a load generator writes its output there.
                generates = b"\0--output" in (entry / "cmdline").read_bytes()
                if generates and str((entry / "cwd").readlink()).startswith(inside):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    select.select([handle], [], [], _KILLED_S)
            finally:
                os.close(handle)


def supervise(
    command: Sequence[str],
    *,
    cwd: Path,
    stderr: Path,
    bound_s: float,
    stop: StopRequest,
    on_output: Callable[[bytes], object],
    ladder: Sequence[tuple[signal.Signals, float]] = LADDER,
    variables: Sequence[str] = CEPH,
) -> Ended:
    """Run `command` until it ends, is asked to stop, or has taken `bound_s` seconds.

    `on_output` gets its stdout; it gets these environment `variables`. Raises OSError if it cannot
    be started.
    """
    began = time.monotonic()
    with stderr.open("wb") as errors_to:
        process = subprocess.Popen(
            # At SIGTERM fio stops its workers, too; SIGKILL would reach fio alone.
            ending_with_parent(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors_to,
            env=child_environment(*variables),
            start_new_session=True,  # Ctrl-C on the terminal reaches Leadline alone
        )
    waiting = _Waiting(process, on_output)
    try:
        ended = waiting.until(
            lambda: stop.requested or time.monotonic() - began > bound_s, check_s=_POLL_S
        )
        stopped = not ended and stop.requested
        past_bound = not ended and not stopped
        sent: list[str] = []
        for number, patience_s in ladder if not ended else ():
            if number is not signal.SIGKILL and stop.impatient:
                continue
            sent.append(number.name)
            _send(process.pid, number)
            deadline = time.monotonic() + patience_s
            hurried = stop.count

            def give_up(deadline: float = deadline, hurried: int = hurried) -> bool:
                return time.monotonic() > deadline or stop.count > hurried

            ended = waiting.until(give_up, check_s=_POLL_S / 4)
            if ended:
                break
    finally:
        waiting.close()
        _send(process.pid, signal.SIGKILL)  # workers that outlived their parent
    return Ended(
        exit_status=process.returncode,
        signals=tuple(sent),
        past_bound=past_bound,
        stopped=stopped,
        wall_s=time.monotonic() - began,
        cpu_s=waiting.cpu_s,
        pid=process.pid,
    )


def _send(pid: int, number: signal.Signals) -> None:
    """Send a signal: SIGKILL to the whole group, others to fio itself, which ends its workers."""
    try:
        if number is signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class _Waiting:
    """Waits for a process's end and its output together, without a busy loop."""

    def __init__(
        self, process: subprocess.Popen[bytes], on_output: Callable[[bytes], object]
    ) -> None:
        self.process = process
        self.on_output = on_output
        self.cpu_s = 0.0
        assert process.stdout is not None
        self.stdout: IO[bytes] = process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.stdout, selectors.EVENT_READ)
        self.pidfd = os.pidfd_open(process.pid)
        self.selector.register(self.pidfd, selectors.EVENT_READ)

    def until(self, enough: Callable[[], bool], *, check_s: float) -> bool:
        """Wait for the end; False where `enough()` was true first."""
        while self.process.returncode is None:
            for key, _ in self.selector.select(timeout=check_s):
                if key.fileobj is self.stdout:
                    self._read()
                else:
                    self._reap()
            if self.process.returncode is None and enough():
                return False
        return True

    def _read(self) -> None:
        chunk = self.stdout.read(1 << 16)
        if chunk:
            self.on_output(chunk)
        elif chunk == b"":
            self.selector.unregister(self.stdout)

    def _reap(self) -> None:
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid:
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime

    def close(self) -> None:
        self.selector.close()
        os.close(self.pidfd)
        self.stdout.close()


class LinkedStop(StopRequest):
    """A user's request to stop, joined with a reason of the engine's own."""

    def __init__(self, user: StopRequest) -> None:
        self._user = user

    def is_due(self) -> bool:
        """Whether the engine itself wants the execution to stop."""
        return False

    @property
    def count(self) -> int:
        return self._user.count + self.is_due()

    @count.setter
    def count(self, value: int) -> None:
        self._user.count = value - self.is_due()

    @property
    def impatient(self) -> bool:
        return self._user.impatient


class RateReader:
    """Reports the rates in a tool's progress lines; `parse` returns IOPS, or None."""

    def __init__(
        self, parse: Callable[[bytes], float | None], progress: Callable[[Progress], None]
    ) -> None:
        self._parse = parse
        self._progress = progress
        self._rest = b""

    def take(self, chunk: bytes) -> None:
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + chunk)
        self._rest = self._rest[-4096:]
        for line in lines:
            iops = self._parse(line)
            if iops is not None:
                self._progress(Progress(iops=iops))


class Program:
    """A tool on this machine: its path and its version."""

    def __init__(self, name: str, missing: ErrorKind, hint: str) -> None:
        self.name = name
        self._missing = missing
        self._hint = hint

    @cached_property
    def path(self) -> str:
        """Raises LeadlineError where it is missing."""
        found = shutil.which(self.name)
        if not found:
            fact = f"there is no {self.name} on this machine"
            raise LeadlineError(self._missing, fact, hint=self._hint)
        return found

    def require(self) -> None:
        """Raise LeadlineError where it is missing."""
        _ = self.path

    @cached_property
    def version(self) -> str:
        """As the tool prints it. Raises LeadlineError."""
        return self.ask("--version").stdout.strip()

    def ask(self, option: str) -> subprocess.CompletedProcess[str]:
        """Run the tool with one option that only prints. Raises LeadlineError."""
        try:
            return subprocess.run(
                [self.path, option],
                capture_output=True,
                text=True,
                timeout=_VERSION_S,
                env=child_environment(*CEPH),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            fact = f"{self.name} does not answer"
            raise LeadlineError(
                self._missing, fact, context=[str(error)], hint=self._hint
            ) from error
