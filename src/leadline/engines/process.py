"""Run one process within a bound, and end it whatever it does: SIGINT, SIGTERM, SIGKILL.

A hung target can make fio ignore the first two; a process in uninterruptible sleep ignores the
third as well, and is then left behind and told of, rather than waited for.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from leadline.runner.events import StopRequest

# After each signal, how long a process gets to end by itself.
LADDER: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 5.0),
    (signal.SIGTERM, 3.0),
    (signal.SIGKILL, 5.0),
)
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a process ended. `exit_status` is None if it could not be ended at all; negative is the
    signal that ended it. `cpu_s` is user + system time of it and its waited-for children."""

    exit_status: int | None
    signals: tuple[str, ...]
    past_bound: bool
    stopped: bool
    wall_s: float
    cpu_s: float
    pid: int


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """The command under util-linux's setpriv, so that kill -9 of Leadline leaves no load behind:
    the kernel then sends SIGTERM, at which fio stops its workers too. (SIGKILL would reach fio
    alone, and forked workers would go on to the end of their runtime.) Unchanged where there is
    no setpriv."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "TERM", *command] if program else list(command)


def supervise(
    command: Sequence[str],
    *,
    cwd: Path,
    stderr: Path,
    bound_s: float,
    stop: StopRequest,
    on_output: Callable[[bytes], None],
    ladder: Sequence[tuple[signal.Signals, float]] = LADDER,
) -> Ended:
    """Run `command`, feeding its stdout to `on_output`, until it ends, is asked to stop, or has
    taken `bound_s` seconds. Raises OSError if it cannot be started.
    """
    began = time.monotonic()
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            ending_with_parent(command),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C on the terminal reaches us, and fio through us
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
    """To the whole group when killing; otherwise to fio itself, which tells its workers."""
    try:
        if number is signal.SIGKILL:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class _Waiting:
    """Waits for a process's end and its output at once, without busy looping."""

    def __init__(
        self, process: subprocess.Popen[bytes], on_output: Callable[[bytes], None]
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
        """True when the process ended; False when `enough()` said so first."""
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
