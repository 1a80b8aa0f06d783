"""What Ceph's two benchmark tools have in common: invocations one behind the other, supervised
within one bound, and their errors told."""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import struct
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
from leadline.connect.ceph import INSTALL_CLIENT
from leadline.engines.process import LADDER, Ended, supervise
from leadline.errors import ErrorKind, LeadlineError
from leadline.formats.ceph.bench_request import (
    REQUEST_FILE,
    BenchRequest,
    fill_phase,
    parse_bench_request,
)
from leadline.formats.ceph.rados_bench import OUTPUT_FILE as RADOS_BENCH_OUTPUT_FILE
from leadline.formats.ceph.rados_bench import parse_pass
from leadline.formats.ceph.rbd_bench import OUTPUT_FILE
from leadline.formats.result import FormatError
from leadline.plan.footprint import Footprint
from leadline.plan.models import EngineChoice, Pattern, Phase, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Location, Progress, RadosPool, RbdImage

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


# The rbd bench engine: Ceph's own `rbd bench` on an image.
#  The tool knows an amount and no time. It is asked for more than it can do and told to end with
# SIGINT, once, when the runtime is over: it then waits for what is in flight and prints its
# summary (a second signal would kill it without one). How the tool behaves, and what was measured
# of it, is in docs/internals/ceph-bench-engines.md.

FILL_BYTES = 1 << 20
FILL_DEPTH = 8
# 1 EiB: no run gets there, and the tool takes it.
_ENDLESS = 1 << 60
_TYPES = {
    Pattern.READ: "read",
    Pattern.RANDREAD: "read",
    Pattern.WRITE: "write",
    Pattern.RANDWRITE: "write",
    Pattern.RW: "rw",
    Pattern.RANDRW: "rw",
}
_RANDOM = frozenset({Pattern.RANDREAD, Pattern.RANDWRITE, Pattern.RANDRW})
_BEGINS = b"io_threads"
_SECOND = re.compile(rb" *\d+ +\d+ +([\d.]+(?:e[+-]?\d+)?) ")


class RbdBenchEngine:
    """`rbd` from PATH."""

    name = "rbd bench"

    def __init__(self) -> None:
        self._program = Program("rbd")

    @property
    def version(self) -> str:
        return self._program.version

    def check(self, workload: Workload, kind: TargetKind) -> None:
        self._program.require()

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload.model_copy(update={"engine": EngineChoice.RBD_BENCH})

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return self.likely(workload, location)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        return request_text("rbd bench", workload)

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        # Blocks that divide the span, so that not a byte more is written.
        block = math.gcd(footprint.span, FILL_BYTES)
        phase = fill_phase(block, FILL_DEPTH, footprint.span)
        return BenchRequest(
            tool="rbd bench", phases=(phase,), direct=direct, fill_bytes=footprint.span
        ).text()

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The command line of the first invocation that is measured."""
        request = parse_bench_request(job.text.encode())
        return _bench(_image(job.location), request, request.phases[0])

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        (folder / REQUEST_FILE).write_text(job.text, encoding="utf-8")
        invocations = Invocations(job=job, folder=folder, stop=stop, tool=self.name)
        try:
            request, image = parse_bench_request(job.text.encode()), _image(job.location)
        except (FormatError, LeadlineError) as error:
            invocations.fail(error.fact, hint="this is a fault of Leadline's; please report it")
            return invocations.execution()
        for number, phase in enumerate(request.phases, start=1):
            command = _bench(image, request, phase)
            name = OUTPUT_FILE.format(phase=number)
            if request.ramp_s:
                # The tool has no ramp. This is a run of its own, whose figures are not read.
                invocations.run(
                    command,
                    output=folder / OUTPUT_FILE.format(phase=f"{number}-ramp"),
                    runtime=Runtime(request.ramp_s, _BEGINS, stop),
                )
            invocations.run(
                command,
                measured=True,
                output=folder / name,
                on_output=_Talk(progress).take,
                runtime=None if request.fill_bytes else Runtime(request.runtime_s, _BEGINS, stop),
            )
        return invocations.execution()


class _Talk:
    """The tool's line of each second, as a rate (a mean over five of them)."""

    def __init__(self, progress: Callable[[Progress], None]) -> None:
        self.progress = progress
        self.rest = b""

    def take(self, chunk: bytes) -> None:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        self.rest = self.rest[-4096:]
        for line in lines:
            if match := _SECOND.match(line):
                self.progress(Progress(iops=float(match[1])))


def _image(location: Location) -> RbdImage:
    if not isinstance(location, RbdImage):
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"rbd bench does no I/O on {location}")
    return location


def _bench(location: RbdImage, request: BenchRequest, phase: Phase) -> tuple[str, ...]:
    # librbd's cache acknowledges writes before the cluster has them: by it, more I/Os are in
    # flight than were asked for (twice to thrice the IOPS were measured).
    cache = ("--rbd_cache=false",) if request.direct else ()
    share = ("--rw-mix-read", str(phase.read_share)) if phase.read_share is not None else ()
    return location.access.command(
        "rbd",
        *cache,
        *("bench", "--io-type", _TYPES[phase.pattern]),
        *("--io-size", f"{phase.block_size}B"),
        *("--io-threads", str(phase.iodepth)),
        *("--io-total", f"{request.fill_bytes or _ENDLESS}B"),
        # `seq` would begin at as many places as there are I/Os in flight.
        *("--io-pattern", "rand" if phase.pattern in _RANDOM else "full-seq"),
        *share,
        f"{location.pool}/{location.image}",
    )


# The rados bench engine: Ceph's own `rados bench` on objects of a pool.
#  Everything that it makes lies in a RADOS namespace named by the location's `objects`: the tool
# names its objects by host and process, and --run-name names but the small object that remembers
# them, so that names alone could not be told from those of others. How the tool behaves, and what
# was measured of it, is in docs/internals/ceph-bench-engines.md.

# Data for reads is laid out in objects of the size that RBD and CephFS use.
OBJECT_BYTES = 4 << 20
# Objects and the tool's own memory of them share what they begin with, so that one cleaning by
# prefix takes both. The tool refuses to clean any other prefix.
_PREFIX = "benchmark_data"
_FILL = f"{_PREFIX}_leadline_fill"
_READ = f"{_PREFIX}_leadline_read"
_WRITE = f"{_PREFIX}_leadline_write"
# object_size (u64), operations (i32), process (i32), op_size (u64): obj_bencher.cc of old
# releases, and what 16.2 was seen to write.
_MEMORY = struct.Struct("<QiiQ")
# The layout of data ends by its objects; this is only more seconds than that may take.
_FILL_S = 1_000_000
# A runtime this nearly filled by passes needs no other one.
_WHOLE = 0.99
# Removing is no part of the trial's bound: 1,500 objects of 64 KiB took 3 s on a slow lab.
_REMOVE_BOUND_S = 600.0
_PATTERNS = {Pattern.WRITE: "write", Pattern.READ: "seq", Pattern.RANDREAD: "rand"}


class RadosBenchEngine:
    """`rados` from PATH."""

    name = "rados bench"

    def __init__(self) -> None:
        self._program = Program("rados")

    @property
    def version(self) -> str:
        return self._program.version

    def check(self, workload: Workload, kind: TargetKind) -> None:
        self._program.require()

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload.model_copy(update={"engine": EngineChoice.RADOS_BENCH})

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return self.likely(workload, location)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        return request_text("rados bench", workload)

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        """4 MiB objects that hold the span. Every block size then reads the same objects."""
        size = _objects(footprint.span) * OBJECT_BYTES
        # The tool begins as many objects as its depth, whatever their number shall be.
        phase = fill_phase(OBJECT_BYTES, min(FILL_DEPTH, size // OBJECT_BYTES), size)
        return BenchRequest(
            tool="rados bench", phases=(phase,), direct=direct, fill_bytes=size
        ).text()

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The command line of the first invocation that is measured."""
        request = _request(job)
        return _rados_bench_bench(
            _pool(job.location),
            request.phases[0],
            seconds=_FILL_S if request.fill_bytes else math.ceil(request.runtime_s),
            run_name=_FILL if request.fill_bytes else _run_name(request.phases[0], 1),
            output=folder / RADOS_BENCH_OUTPUT_FILE.format(phase=1, pass_=1),
            objects=request.fill_bytes // OBJECT_BYTES,
        )

    def execute(
        self,
        job: Job,
        folder: Path,
        stop: StopRequest,
        progress: Callable[[Progress], None],
    ) -> Execution:
        # With --format json the tool says nothing until its end: there are no rates to tell.
        (folder / REQUEST_FILE).write_text(job.text, encoding="utf-8")
        invocations = Invocations(job=job, folder=folder, stop=stop, tool=self.name)
        try:
            request, location = _request(job), _pool(job.location)
        except (FormatError, LeadlineError) as error:
            invocations.fail(error.fact, hint="this is a fault of Leadline's; please report it")
            return invocations.execution()
        if request.fill_bytes:
            invocations.run(self.command(job, folder), measured=True)
            return invocations.execution()
        for number, phase in enumerate(request.phases, start=1):
            _phase(invocations, location, request, phase, number)
        _remove_written(invocations, location, request)
        return invocations.execution()


def cleanup_command(location: RadosPool) -> tuple[str, ...]:
    """The command line that removes all that this engine ever made for the location: what it
    measured, what it was stopped in, and the data for reads. Exit status 0 if there is nothing.

    Raises LeadlineError for a location without a name of its own: in the pool's default namespace
    the command would remove the benchmarks of everyone.
    """
    if not location.objects:
        raise LeadlineError(
            errors.LEFT_BEHIND, f"objects of {location} without a name of their own are not ours"
        )
    return _rados(location, "cleanup", "--prefix", _PREFIX)


def _pool(location: Location) -> RadosPool:
    if not isinstance(location, RadosPool) or not location.objects:
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"rados bench does no I/O on {location}")
    return location


def _request(job: Job) -> BenchRequest:
    """Raises FormatError."""
    return parse_bench_request(job.text.encode())


def _rados(location: RadosPool, *arguments: str) -> tuple[str, ...]:
    where = ("--pool", location.pool, "--namespace", location.objects)
    return location.access.command("rados", *where, *arguments)


def _run_name(phase: Phase, number: int, ramp: bool = False) -> str:
    if phase.pattern.reads:
        return f"{_READ}_{number}"
    return f"{_WRITE}_{number}" + ("_ramp" if ramp else "")


def _rados_bench_bench(
    location: RadosPool,
    phase: Phase,
    *,
    seconds: int,
    run_name: str,
    output: Path,
    objects: int = 0,
) -> tuple[str, ...]:
    # Comparing what was read with what was written costs the client time between two I/Os, and
    # is impossible for blocks that are parts of an object's one write.
    kind = ("--no-cleanup",) if phase.pattern.writes else ("--no-verify",)
    return _rados(
        location,
        *("bench", str(seconds), _PATTERNS[phase.pattern]),
        # Reads take the block size from what remembers the objects.
        *(("-b", str(phase.block_size)) if phase.pattern.writes else ()),
        *("-t", str(phase.iodepth)),
        *(("--max-objects", str(objects)) if objects else ()),
        *("--run-name", run_name),
        *kind,
        *("--format", "json", "--output", str(output)),
    )


def _phase(
    invocations: Invocations,
    location: RadosPool,
    request: BenchRequest,
    phase: Phase,
    number: int,
) -> None:
    """A phase: what it reads made known, its ramp, and as many passes as fill its runtime."""
    if phase.pattern.reads and not _remember(invocations, location, phase, number):
        return
    if request.ramp_s:
        # The tool has no ramp. This is a run of its own, whose figures are kept and not read.
        name = RADOS_BENCH_OUTPUT_FILE.format(phase=number, pass_="ramp")
        invocations.run(
            _rados_bench_bench(
                location,
                phase,
                seconds=math.ceil(request.ramp_s),
                run_name=_run_name(phase, number, ramp=True),
                output=invocations.folder / name,
            )
        )
    # Reading in order ends with the last object, so it begins again until the runtime is over.
    # Starting takes time too, for which half of what the bound leaves to the phase may go.
    count = len(request.phases)
    slack_s = invocations.job.bound_s / count - request.runtime_s - request.ramp_s
    until = time.monotonic() + request.runtime_s + max(0.0, slack_s / 2)
    ran_s, passes = 0.0, 0
    while not passes or (ran_s < _WHOLE * request.runtime_s and time.monotonic() < until):
        passes += 1
        output = invocations.folder / RADOS_BENCH_OUTPUT_FILE.format(phase=number, pass_=passes)
        command = _rados_bench_bench(
            location,
            phase,
            seconds=math.ceil(request.runtime_s - ran_s),
            run_name=_run_name(phase, number),
            output=output,
        )
        if not invocations.run(command, measured=passes == 1):
            return
        try:
            ran_s += parse_pass(output.read_bytes()).ran_s
        except (OSError, FormatError):
            return  # the reader of the output says what is wrong with it
        if phase.pattern is not Pattern.READ:
            return


def _remember(invocations: Invocations, location: RadosPool, phase: Phase, number: int) -> bool:
    """Tell the tool of the data laid out, in blocks of the phase: it reads blocks of the size that
    was written only, and here that is the whole object."""
    path = invocations.folder / ".remembered"
    try:
        if not invocations.run(_rados(location, "get", _FILL, str(path))):
            return False
        content = path.read_bytes()
        try:
            object_size, count, process, op_size = _MEMORY.unpack(content)
        except struct.error:
            object_size = count = process = op_size = 0
        if (object_size, op_size) != (OBJECT_BYTES, OBJECT_BYTES) or count < _objects(phase.size):
            invocations.fail(
                f"what rados bench remembers of the data laid out does not fit: {content.hex()}",
                hint="this release of Ceph is not known to Leadline; use an rbd: target",
            )
            return False
        blocks = phase.size // phase.block_size
        path.write_bytes(_MEMORY.pack(object_size, blocks, process, phase.block_size))
        return invocations.run(_rados(location, "put", _run_name(phase, number), str(path)))
    finally:
        path.unlink(missing_ok=True)


def _objects(size: int) -> int:
    return math.ceil(size / OBJECT_BYTES)


def _remove_written(invocations: Invocations, location: RadosPool, request: BenchRequest) -> None:
    """Remove what the trial wrote, so that no trial finds the pool fuller than the one before. A
    trial that did not complete leaves it to the cleaning of the target."""
    for number, phase in enumerate(request.phases, start=1):
        if not phase.pattern.writes:
            continue
        for ramp in (True, False) if request.ramp_s else (False,):
            run_name = _run_name(phase, number, ramp=ramp)
            command = _rados(location, "cleanup", "--run-name", run_name)
            invocations.run(command, bound_s=_REMOVE_BOUND_S, judged=False)
