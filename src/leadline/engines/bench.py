"""What Ceph's two benchmark tools have in common: invocations one behind the other, supervised
within one bound, and their errors told."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from leadline import errors
from leadline.archive import layout
from leadline.archive.records import Problem, TrialStatus
from leadline.ceph.access import INSTALL_CLIENT
from leadline.engines.supervise import LADDER, Ended, supervise
from leadline.errors import ErrorKind, LeadlineError
from leadline.formats.bench_request import BenchRequest
from leadline.plan.models import Workload
from leadline.runner.ports import Execution, Job
from leadline.runner.stop import StopRequest

# What an errno of the tools' means to a user.
_MEANING: dict[int, ErrorKind] = {
    errno.ENOSPC: errors.TARGET_FULL,
    errno.EDQUOT: errors.TARGET_FULL,
    errno.ENOENT: errors.TARGET_GONE,
    errno.EACCES: errors.CEPH_DENIED,
    errno.EPERM: errors.CEPH_DENIED,
    errno.EROFS: errors.TARGET_READ_ONLY,
}
_HINTS: dict[str, str] = {
    errors.TARGET_FULL.code: "make room in the pool, then `leadline run --resume --retry-failed`",
    errors.TARGET_GONE.code: "reads need what the plan's prefill wrote: leave `prefill: true`, and "
    "see that pool and image are there",
    errors.CEPH_DENIED.code: "the name that is used needs `osd 'allow rwx pool=...'` of the pool",
    errors.TARGET_READ_ONLY.code: "the image is read-only: use a workload that reads only",
}
# Both tools write `...: (28) No space left on device`.
_NUMBER = re.compile(r"\((\d{1,3})\) [A-Z]")
_ASK_S = 30.0


class Program:
    """One of Ceph's programs: whether it is there, and its version."""

    def __init__(self, name: str) -> None:
        self.name = name

    def require(self) -> str:
        """Its path. Raises LeadlineError(`ceph-missing`)."""
        found = shutil.which(self.name)
        if not found:
            raise LeadlineError(
                errors.CEPH_MISSING, f"there is no {self.name} on this machine", hint=INSTALL_CLIENT
            )
        return found

    @cached_property
    def version(self) -> str:
        """As it tells: `ceph version 16.2.15 (...) pacific (stable)`. Raises LeadlineError."""
        try:
            asked = subprocess.run(
                [self.require(), "--version"], capture_output=True, text=True, timeout=_ASK_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LeadlineError(
                errors.CEPH_MISSING,
                f"{self.name} does not answer",
                context=[str(error)],
                hint=INSTALL_CLIENT,
            ) from error
        return asked.stdout.strip()


@dataclass
class Invocations:
    """Runs a job's invocations, and gathers what becomes its Execution. The first that does not
    complete ends the job: `going` is False from then on."""

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
        judged: bool = True,
    ) -> bool:
        """One invocation; True if the job goes on. Its stdout goes to `output` and `on_output`;
        one that is `measured` is told as a command of the trial, one that is not `judged` (tidying
        up behind the figures) cannot spoil it."""
        if not self.going:
            return False
        if self.stop.requested:
            if judged:
                self._interrupted()
            return False
        if measured:
            self.commands.append(tuple(command))
        bound = max(0.0, self.left_s) if bound_s is None else bound_s
        words = self.folder / ".words"
        kept = bytearray()

        def take(chunk: bytes) -> None:
            kept.extend(chunk)
            if runtime is not None:
                runtime.see(chunk)
            on_output(chunk)

        ladder = LADDER
        if runtime is not None:
            # What is in flight when the runtime is over may come back up to the bound.
            (first, _), *rest = LADDER
            ladder = ((first, max(1.0, bound - runtime.seconds)), *rest)
        try:
            ended = supervise(
                command,
                cwd=self.folder,
                stderr=words,
                bound_s=bound,
                stop=runtime or self.stop,
                on_output=take,
                ladder=ladder,
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
                output.write_bytes(kept)
            self._keep_words(words)
        if not judged:
            return self.going
        self.cpu_s += ended.cpu_s
        self.exit_status, self.signals = ended.exit_status, ended.signals
        self._judge(ended, bound, bytes(kept), ended_on_time=runtime is not None and runtime.over)
        return self.going

    def fail(self, fact: str, *, hint: str) -> None:
        """The job failed for a reason that no invocation tells."""
        self.status = TrialStatus.FAILED
        self.problem = Problem(code=errors.ENGINE_FAILED.code, fact=fact, hint=hint)

    def execution(self) -> Execution:
        command: list[str] = []
        for one in self.commands:
            command += ["&&", *one] if command else one
        return Execution(
            status=self.status,
            command=tuple(command),
            exit_status=self.exit_status,
            signals=self.signals,
            engine_cpu_s=self.cpu_s,
            wall_s=time.monotonic() - self.began,
            problem=self.problem,
        )

    def _keep_words(self, words: Path) -> None:
        if words.exists():
            with (self.folder / layout.STDERR).open("ab") as stream:
                stream.write(words.read_bytes())
            words.unlink()

    def _interrupted(self) -> None:
        self.status = TrialStatus.INTERRUPTED
        self.problem = Problem(
            code=errors.INTERRUPTED.code,
            fact="the trial was stopped by a signal",
            hint="`leadline run --resume` does it again",
        )

    def _judge(self, ended: Ended, bound_s: float, said: bytes, *, ended_on_time: bool) -> None:
        asked_to_stop = ended.stopped and self.stop.requested
        # The SIGINT that ends a runtime is part of the plan; any more means that it had to be
        # forced.
        forced = ended.past_bound or (ended.stopped and len(ended.signals) > 1)
        if asked_to_stop:
            self._interrupted()
        elif forced:
            left = "" if ended.exit_status is not None else f"; process {ended.pid} is still there"
            self.status = TrialStatus.HUNG
            self.problem = Problem(
                code=errors.TRIAL_HUNG.code,
                fact=f"{self.tool} did not end within {bound_s:.0f} s and was stopped with "
                f"{', '.join(ended.signals)}{left}",
                context=self._last_words(said),
                hint="look at the health of the cluster: its I/O does not come back",
            )
        elif ended.exit_status != 0:
            words = self._last_words(said)
            numbers = [int(found) for line in words for found in _NUMBER.findall(line)]
            number = next((one for one in reversed(numbers) if one in _MEANING), 0)
            kind = _MEANING.get(number, errors.ENGINE_FAILED)
            why = os.strerror(number) if number else f"exit status {ended.exit_status}"
            self.status = TrialStatus.FAILED
            self.problem = Problem(
                code=kind.code,
                fact=f"{self.tool} failed: {why}",
                context=words,
                hint=_HINTS.get(kind.code, "its own words are in the trial's stderr.txt"),
            )
        elif ended_on_time:
            self.signals = ()

    def _last_words(self, said: bytes, count: int = 4) -> tuple[str, ...]:
        """The last lines on stderr, and one on stdout that tells of an error."""
        text = (self.folder / layout.STDERR).read_bytes()[-65536:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()][-count:]
        for line in said[-4096:].decode("utf-8", "replace").splitlines():
            if "error" in line:
                lines.append(line.strip())
        return tuple(dict.fromkeys(lines))


class Runtime(StopRequest):
    """Asks a tool that knows no time to stop: `seconds` after it said that it begins. What the
    user asks is heard as well."""

    def __init__(self, seconds: float, begins: bytes, user: StopRequest) -> None:
        self.seconds = seconds
        self._begins = begins
        self._user = user
        self._seen = b""
        self._until: float | None = None

    def see(self, chunk: bytes) -> None:
        """Output of the tool; the clock starts at its first line."""
        if self._until is None:
            self._seen = (self._seen + chunk)[-4096:]
            if self._begins in self._seen:
                self._until = time.monotonic() + self.seconds

    @property
    def over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    @property
    def count(self) -> int:
        return self._user.count + self.over

    @count.setter
    def count(self, value: int) -> None:
        self._user.count = value - self.over

    @property
    def impatient(self) -> bool:
        return self._user.impatient


def request_text(tool: Literal["rados bench", "rbd bench"], workload: Workload) -> str:
    """What a trial asks of a tool. The tools seed their offsets with the time, and cannot be given
    a seed."""
    return BenchRequest(
        tool=tool,
        phases=workload.phases,
        runtime_s=workload.runtime_s,
        ramp_s=workload.ramp_s,
        direct=workload.direct,
    ).text()
