"""The rados bench engine: Ceph's own `rados bench` on objects of a pool.

Everything that it makes lies in a RADOS namespace named by the location's `objects`: the tool
names its objects by host and process, and --run-name names but the small object that remembers
them, so that names alone could not be told from those of others. How the tool behaves, and what
was measured of it, is in docs/internals/ceph-bench-engines.md.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from pathlib import Path

from leadline import errors
from leadline.engines.bench import Invocations, Program, request_text
from leadline.errors import LeadlineError
from leadline.formats.bench_request import (
    REQUEST_FILE,
    BenchRequest,
    fill_phase,
    parse_bench_request,
)
from leadline.formats.output import FormatError
from leadline.formats.rados_bench import OUTPUT_FILE, parse_pass
from leadline.plan.footprint import Footprint
from leadline.plan.models import EngineChoice, Pattern, Phase, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.ports import Execution, Job, Location, Progress, RadosPool
from leadline.runner.stop import StopRequest

# Data for reads is laid out in objects of the size that RBD and CephFS use.
OBJECT_BYTES = 4 << 20
FILL_DEPTH = 8
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
        return _bench(
            _pool(job.location),
            request.phases[0],
            seconds=_FILL_S if request.fill_bytes else math.ceil(request.runtime_s),
            run_name=_FILL if request.fill_bytes else _run_name(request.phases[0], 1),
            output=folder / OUTPUT_FILE.format(phase=1, pass_=1),
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


def _bench(
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
        name = OUTPUT_FILE.format(phase=number, pass_="ramp")
        invocations.run(
            _bench(
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
        output = invocations.folder / OUTPUT_FILE.format(phase=number, pass_=passes)
        command = _bench(
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
