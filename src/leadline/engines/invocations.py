"""Invocations of tools one after the other, within the time bound of one job."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.connect.ceph import INSTALL_CLIENT
from leadline.engines.outcome import (
    COMMON_KINDS,
    INTERRUPTED,
    Causes,
    failed_problem,
    hung_problem,
    last_lines,
)
from leadline.engines.process import LADDER, Ended, LinkedStop, supervise
from leadline.environment import CEPH
from leadline.errors import LeadlineError
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, problem_from

_CAUSES = Causes(
    kinds={**COMMON_KINDS, errno.EACCES: errors.CEPH_DENIED, errno.EPERM: errors.CEPH_DENIED},
    hints={
        errors.TARGET_FULL: "free space in the pool, then `leadline run --resume --retry-failed`",
        errors.TARGET_GONE: "reads need the data of the plan's prefill: leave `prefill: true`, and "
        "check that pool and image exist",
        errors.CEPH_DENIED: "the Ceph user needs `osd 'allow rwx pool=...'` for the pool",
        errors.TARGET_READ_ONLY: "the image is read-only: use a workload that reads only",
    },
)
# Ceph's tools write `...: (28) No space left on device`.
_NUMBER = re.compile(r"\((\d{1,3})\) [A-Z]")


@dataclass
class Invocations:
    """Runs the invocations of a job and collects its Execution. The first invocation that does not
    complete ends the job: `going` is then False."""

    job: Job
    folder: Path
    stop: StopRequest
    tool: str
    began: float = field(default_factory=time.monotonic)
    status: TrialStatus = TrialStatus.COMPLETED
    problem: Problem | None = None
    exit_status: int | None = None
    signals: tuple[str, ...] = ()
    cpu_s: float = 0.0
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / layout.STDERR).write_bytes(b"")

    @property
    def going(self) -> bool:
        return self.status is TrialStatus.COMPLETED

    @property
    def left_s(self) -> float:
        """Seconds until the job's bound."""
        return self.job.bound_s - (time.monotonic() - self.began)

    def run(
        self,
        command: Sequence[str],
        *,
        measured: bool = False,
        output: Path | None = None,
        on_output: Callable[[bytes], None] = lambda chunk: None,
        runtime: Runtime | None = None,
        bound_s: float | None = None,
        counts: bool = True,
        variables: Sequence[str] = CEPH,
    ) -> bool:
        """Run one invocation; True if the job goes on. Its stdout goes to `output` and `on_output`.

        `measured` makes it a command of the trial; a clean-up that does not count cannot fail it.
        It gets these environment `variables`.
        """
        if not self.going:
            return False
        if self.stop.requested:
            if counts:
                self._end(TrialStatus.INTERRUPTED, INTERRUPTED)
            return False
        if measured:
            self.commands.append(tuple(command))
        bound = max(0.0, self.left_s) if bound_s is None else bound_s
        stderr = self.folder / ".stderr"
        stdout = bytearray()

        def take(chunk: bytes) -> None:
            stdout.extend(chunk)
            if runtime is not None:
                runtime.add_output(chunk)
            on_output(chunk)

        ladder = LADDER
        if runtime is not None:
            # I/Os in flight at the end of the runtime may complete up to the bound.
            (first, _), *rest = LADDER
            ladder = ((first, max(1.0, bound - runtime.seconds)), *rest)
        try:
            ended = supervise(
                command,
                cwd=self.folder,
                stderr=stderr,
                bound_s=bound,
                stop=runtime or self.stop,
                on_output=take,
                ladder=ladder,
                variables=variables,
            )
        except OSError as error:
            raise LeadlineError(
                errors.CEPH_MISSING,
                f"{command[0]} cannot be started",
                context=[str(error)],
                hint=INSTALL_CLIENT,
            ) from error
        finally:
            if output is not None:
                output.write_bytes(stdout)
            if stderr.exists():
                with (self.folder / layout.STDERR).open("ab") as stream:
                    stream.write(stderr.read_bytes())
                stderr.unlink()
        if not counts:
            return self.going
        self.cpu_s += ended.cpu_s
        self.exit_status, self.signals = ended.exit_status, ended.signals
        on_time = runtime is not None and runtime.is_due()
        self._take_end(ended, bound, bytes(stdout), on_time=on_time)
        return self.going

    def fail(self, error: LeadlineError) -> None:
        """End the job for a reason that no invocation reported."""
        self._end(TrialStatus.FAILED, problem_from(error))

    def fail_request(self, fact: str) -> None:
        """End a job whose own text cannot be used."""
        hint = "this is a fault of Leadline's; please report it"
        self.fail(LeadlineError(errors.ENGINE_FAILED, fact, hint=hint))

    def execution(self) -> Execution:
        command: list[str] = []
        for words in self.commands:
            command += ["&&", *words] if command else words
        return Execution(
            status=self.status,
            command=tuple(command),
            exit_status=self.exit_status,
            signals=self.signals,
            engine_cpu_s=self.cpu_s,
            wall_s=time.monotonic() - self.began,
            problem=self.problem,
        )

    def _end(self, status: TrialStatus, problem: Problem) -> None:
        self.status, self.problem = status, problem

    def _take_end(self, ended: Ended, bound_s: float, stdout: bytes, *, on_time: bool) -> None:
        # The SIGINT that ends a runtime is planned; any further signal had to force the end.
        forced = ended.past_bound or (ended.stopped and len(ended.signals) > 1)
        if ended.stopped and self.stop.requested:
            self._end(TrialStatus.INTERRUPTED, INTERRUPTED)
        elif forced:
            lines = self._error_lines(stdout)
            problem = hung_problem(self.tool, ended, bound_s, lines, "cluster")
            self._end(TrialStatus.HUNG, problem)
        elif ended.exit_status != 0:
            lines = self._error_lines(stdout)
            numbers = [int(number) for line in lines for number in _NUMBER.findall(line)]
            number = next((last for last in reversed(numbers) if last in _CAUSES.kinds), 0)
            problem = failed_problem(self.tool, number, ended.exit_status, _CAUSES, lines)
            self._end(TrialStatus.FAILED, problem)
        elif on_time:
            self.signals = ()

    def _error_lines(self, stdout: bytes) -> tuple[str, ...]:
        """The last lines on stderr, and those on stdout that report an error."""
        lines = last_lines((self.folder / layout.STDERR).read_bytes()[-65536:])
        printed = stdout[-4096:].decode("utf-8", "replace").splitlines()
        lines += [line.strip() for line in printed if "error" in line]
        return tuple(dict.fromkeys(lines))


class Runtime(LinkedStop):
    """Stops a tool that has no runtime of its own `seconds` after its first line of output."""

    def __init__(self, seconds: float, first_line: bytes, user: StopRequest) -> None:
        super().__init__(user)
        self.seconds = seconds
        self._first_line = first_line
        self._output = b""
        self._until: float | None = None

    def add_output(self, chunk: bytes) -> None:
        """Take output of the tool; the clock starts at its first line."""
        if self._until is None:
            self._output = (self._output + chunk)[-4096:]
            if self._first_line in self._output:
                self._until = time.monotonic() + self.seconds

    def is_due(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until
