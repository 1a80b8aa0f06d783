"""The engines rbd bench and rados bench: Ceph's own benchmark tools.

How the tools behave, and what was measured of it: docs/internals/ceph-bench-engines.md.
"""

from __future__ import annotations

import math
import re
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from leadline import errors
from leadline.connect.ceph import INSTALL_CLIENT
from leadline.engines.invocations import Invocations, Runtime
from leadline.engines.process import Program, RateReader
from leadline.errors import LeadlineError
from leadline.formats.ceph.bench_request import (
    REQUEST_FILE,
    BenchRequest,
    fill_phase,
    parse_bench_request,
)
from leadline.formats.ceph.rados_bench import OUTPUT_FILE as RADOS_OUTPUT_FILE
from leadline.formats.ceph.rados_bench import parse_pass
from leadline.formats.ceph.rbd_bench import OUTPUT_FILE as RBD_OUTPUT_FILE
from leadline.formats.result import FormatError
from leadline.plan.footprint import OBJECT_BYTES, Footprint
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Pattern, Phase, Workload
from leadline.runner.events import StopRequest
from leadline.runner.ports import Execution, Job, Location, Progress, RadosPool, RbdImage

FILL_BYTES = 1 << 20
FILL_DEPTH = 8


class CephBenchEngine(ABC):
    """One of Ceph's benchmark tools. It seeds its offsets with the time; no seed can be given."""

    name: Literal["rados bench", "rbd bench"]
    choice: EngineChoice
    program: str

    def __init__(self) -> None:
        self._program = Program(self.program, errors.CEPH_MISSING, INSTALL_CLIENT)

    @property
    def version(self) -> str:
        """As the tool prints it: `ceph version 16.2.15 (...) pacific (stable)`."""
        return self._program.version

    def check(self, workload: Workload, kind: TargetKind) -> None:
        self._program.require()

    def likely(self, workload: Workload, location: Location) -> Workload:
        return workload.model_copy(update={"engine": self.choice})

    def resolve(self, workload: Workload, location: Location) -> Workload:
        return self.likely(workload, location)

    def job_text(self, workload: Workload, location: Location, seed: int) -> str:
        return BenchRequest(
            tool=self.name,
            phases=workload.phases,
            runtime_s=workload.runtime_s,
            ramp_s=workload.ramp_s,
            direct=workload.direct,
        ).text()

    @abstractmethod
    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str: ...

    @abstractmethod
    def command(self, job: Job, folder: Path) -> tuple[str, ...]: ...

    def execute(
        self, job: Job, folder: Path, stop: StopRequest, progress: Callable[[Progress], None]
    ) -> Execution:
        (folder / REQUEST_FILE).write_text(job.text, encoding="utf-8")
        invocations = Invocations(job=job, folder=folder, stop=stop, tool=self.name)
        try:
            request = parse_bench_request(job.text.encode())
            self._check_location(job.location)
        except (FormatError, LeadlineError) as error:
            invocations.fail_request(error.fact)
        else:
            self._run(invocations, request, progress)
        return invocations.execution()

    @abstractmethod
    def _check_location(self, location: Location) -> object:
        """Raise LeadlineError for a location on which the tool does no I/O."""

    @abstractmethod
    def _run(
        self, invocations: Invocations, request: BenchRequest, progress: Callable[[Progress], None]
    ) -> None:
        """Run the phases of a request."""


# The tool knows an amount and no time. It is asked for more than it can do, and gets SIGINT once
# when the runtime is over: it then waits for I/Os in flight and prints its summary. A second
# signal would kill it without one. 1 EiB is never reached, and the tool accepts it.
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
_FIRST_LINE = b"io_threads"
_SECOND = re.compile(rb" *\d+ +\d+ +([\d.]+(?:e[+-]?\d+)?) ")


class RbdBenchEngine(CephBenchEngine):
    name = "rbd bench"
    choice = EngineChoice.RBD_BENCH
    program = "rbd"

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        # Blocks that divide the span, so that no byte beyond it is written.
        block = math.gcd(footprint.span, FILL_BYTES)
        phase = fill_phase(block, FILL_DEPTH, footprint.span)
        return BenchRequest(
            tool=self.name, phases=(phase,), direct=direct, fill_bytes=footprint.span
        ).text()

    def _check_location(self, location: Location) -> object:
        return _image(location)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The command line of the first invocation that is measured."""
        request = parse_bench_request(job.text.encode())
        return _rbd_bench(_image(job.location), request, request.phases[0])

    def _run(
        self, invocations: Invocations, request: BenchRequest, progress: Callable[[Progress], None]
    ) -> None:
        image, folder, stop = _image(invocations.job.location), invocations.folder, invocations.stop
        for number, phase in enumerate(request.phases, start=1):
            command = _rbd_bench(image, request, phase)
            if request.ramp_s:
                # The tool has no ramp: this is a separate invocation, whose figures are not read.
                invocations.run(
                    command,
                    output=folder / RBD_OUTPUT_FILE.format(phase=f"{number}-ramp"),
                    runtime=Runtime(request.ramp_s, _FIRST_LINE, stop),
                )
            runtime = Runtime(request.runtime_s, _FIRST_LINE, stop)
            invocations.run(
                command,
                measured=True,
                output=folder / RBD_OUTPUT_FILE.format(phase=number),
                on_output=RateReader(_parse_rate, progress).take,
                runtime=None if request.fill_bytes else runtime,
            )


def _parse_rate(line: bytes) -> float | None:
    """IOPS in the tool's line of each second, a mean over five seconds."""
    match = _SECOND.match(line)
    return float(match[1]) if match else None


def _image(location: Location) -> RbdImage:
    if not isinstance(location, RbdImage):
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"rbd bench does no I/O on {location}")
    return location


def _rbd_bench(location: RbdImage, request: BenchRequest, phase: Phase) -> tuple[str, ...]:
    # librbd's cache acknowledges writes before the cluster has them. With it more I/Os are in
    # flight than requested (two to three times the IOPS were measured).
    cache = ("--rbd_cache=false",) if request.direct else ()
    share = ("--rw-mix-read", str(phase.read_share)) if phase.read_share is not None else ()
    return location.access.command(
        "rbd",
        *cache,
        *("bench", "--io-type", _TYPES[phase.pattern]),
        *("--io-size", f"{phase.block_size}B"),
        *("--io-threads", str(phase.iodepth)),
        *("--io-total", f"{request.fill_bytes or _ENDLESS}B"),
        # `seq` would start at as many offsets as there are I/Os in flight.
        *("--io-pattern", "rand" if phase.pattern in _RANDOM else "full-seq"),
        *share,
        f"{location.pool}/{location.image}",
    )


# All objects are in a RADOS namespace of the run, since their names hold host and process alone.
# Objects and the tool's metadata share a prefix, so that one clean-up removes both; the tool
# refuses to clean any other prefix.
_PREFIX = "benchmark_data"
_FILL = f"{_PREFIX}_leadline_fill"
_READ = f"{_PREFIX}_leadline_read"
_WRITE = f"{_PREFIX}_leadline_write"
# Metadata: object_size (u64), operations (i32), process (i32), op_size (u64), as in obj_bencher.cc
# of old releases and in the output of 16.2.
_METADATA = struct.Struct("<QiiQ")
# The prefill ends by its number of objects; this runtime is only longer than it takes.
_FILL_S = 1_000_000
# A runtime that is filled to this share needs no further pass.
_WHOLE = 0.99
# Clean-up is not part of the trial's bound: 1,500 objects of 64 KiB took 3 s on a slow lab.
_REMOVE_BOUND_S = 600.0
_PATTERNS = {Pattern.WRITE: "write", Pattern.READ: "seq", Pattern.RANDREAD: "rand"}


class RadosBenchEngine(CephBenchEngine):
    name = "rados bench"
    choice = EngineChoice.RADOS_BENCH
    program = "rados"

    def prefill_text(self, footprint: Footprint, location: Location, direct: bool) -> str:
        """4 MiB objects that hold the span, so that every block size reads the same objects."""
        size = _count_objects(footprint.span) * OBJECT_BYTES
        # The tool starts as many objects as its depth, even if their number is to be smaller.
        phase = fill_phase(OBJECT_BYTES, min(FILL_DEPTH, size // OBJECT_BYTES), size)
        return BenchRequest(tool=self.name, phases=(phase,), direct=direct, fill_bytes=size).text()

    def _check_location(self, location: Location) -> object:
        return _pool(location)

    def command(self, job: Job, folder: Path) -> tuple[str, ...]:
        """The command line of the first invocation that is measured."""
        request = parse_bench_request(job.text.encode())
        phase = request.phases[0]
        return _rados_bench(
            _pool(job.location),
            phase,
            seconds=_FILL_S if request.fill_bytes else math.ceil(request.runtime_s),
            run_name=_FILL if request.fill_bytes else _run_name(phase, 1),
            output=folder / RADOS_OUTPUT_FILE.format(phase=1, pass_=1),
            objects=request.fill_bytes // OBJECT_BYTES,
        )

    def _run(
        self, invocations: Invocations, request: BenchRequest, progress: Callable[[Progress], None]
    ) -> None:
        # With --format json the tool prints nothing until its end, so there are no rates.
        location = _pool(invocations.job.location)
        if request.fill_bytes:
            command = self.command(invocations.job, invocations.folder)
            invocations.run(command, measured=True)
            return
        for number, phase in enumerate(request.phases, start=1):
            _run_phase(invocations, location, request, phase, number)
        _remove_written(invocations, location, request)


def cleanup_command(location: RadosPool) -> tuple[str, ...]:
    """The command line that removes all objects that this engine made for the location. Exit
    status 0 if there are none.

    Raises LeadlineError for a location without a namespace: in the pool's default one the command
    would remove the benchmark objects of every user.
    """
    if not location.objects:
        raise LeadlineError(
            errors.LEFT_BEHIND, f"objects of {location} without a namespace are not Leadline's"
        )
    return _rados(location, "cleanup", "--prefix", _PREFIX)


def _pool(location: Location) -> RadosPool:
    if not isinstance(location, RadosPool) or not location.objects:
        raise LeadlineError(errors.ENGINE_UNKNOWN, f"rados bench does no I/O on {location}")
    return location


def _rados(location: RadosPool, *arguments: str) -> tuple[str, ...]:
    where = ("--pool", location.pool, "--namespace", location.objects)
    return location.access.command("rados", *where, *arguments)


def _run_name(phase: Phase, number: int, ramp: bool = False) -> str:
    if phase.pattern.reads:
        return f"{_READ}_{number}"
    return f"{_WRITE}_{number}" + ("_ramp" if ramp else "")


def _rados_bench(
    location: RadosPool,
    phase: Phase,
    *,
    seconds: int,
    run_name: str,
    output: Path,
    objects: int = 0,
) -> tuple[str, ...]:
    # Verifying reads costs the client time between two I/Os, and is impossible for blocks that are
    # parts of one written object.
    kind = ("--no-cleanup",) if phase.pattern.writes else ("--no-verify",)
    return _rados(
        location,
        *("bench", str(seconds), _PATTERNS[phase.pattern]),
        # Reads take the block size from the tool's metadata.
        *(("-b", str(phase.block_size)) if phase.pattern.writes else ()),
        *("-t", str(phase.iodepth)),
        *(("--max-objects", str(objects)) if objects else ()),
        *("--run-name", run_name),
        *kind,
        *("--format", "json", "--output", str(output)),
    )


def _run_phase(
    invocations: Invocations, location: RadosPool, request: BenchRequest, phase: Phase, number: int
) -> None:
    """Run a phase: its metadata, its ramp, and as many passes as fill its runtime."""
    if phase.pattern.reads and not _write_metadata(invocations, location, phase, number):
        return
    if request.ramp_s:
        # The tool has no ramp: this is a separate invocation, whose figures are not read.
        name = RADOS_OUTPUT_FILE.format(phase=number, pass_="ramp")
        invocations.run(
            _rados_bench(
                location,
                phase,
                seconds=math.ceil(request.ramp_s),
                run_name=_run_name(phase, number, ramp=True),
                output=invocations.folder / name,
            )
        )
    # A sequential read ends with the last object, so it is repeated until the runtime is over.
    # Starts take time too: half of the slack that the bound leaves to the phase.
    count = len(request.phases)
    slack_s = invocations.job.bound_s / count - request.runtime_s - request.ramp_s
    until = time.monotonic() + request.runtime_s + max(0.0, slack_s / 2)
    ran_s, passes = 0.0, 0
    while not passes or (ran_s < _WHOLE * request.runtime_s and time.monotonic() < until):
        passes += 1
        output = invocations.folder / RADOS_OUTPUT_FILE.format(phase=number, pass_=passes)
        command = _rados_bench(
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
            return  # the reader of the output reports the fault
        if phase.pattern is not Pattern.READ:
            return


def _write_metadata(
    invocations: Invocations, location: RadosPool, phase: Phase, number: int
) -> bool:
    """Write metadata of the prefill with the block size of the phase.

    The tool reads blocks of the size that was written, which is a whole object here.
    """
    path = invocations.folder / ".metadata"
    try:
        if not invocations.run(_rados(location, "get", _FILL, str(path))):
            return False
        content = path.read_bytes()
        try:
            object_size, count, process, op_size = _METADATA.unpack(content)
        except struct.error:
            object_size = count = process = op_size = 0
        sizes, needed = (object_size, op_size), _count_objects(phase.size)
        if sizes != (OBJECT_BYTES, OBJECT_BYTES) or count < needed:
            fact = f"the metadata of rados bench does not match the prefill: {content.hex()}"
            hint = "Leadline does not support this release of Ceph; use an rbd: target"
            invocations.fail(LeadlineError(errors.ENGINE_FAILED, fact, hint=hint))
            return False
        blocks = phase.size // phase.block_size
        path.write_bytes(_METADATA.pack(object_size, blocks, process, phase.block_size))
        return invocations.run(_rados(location, "put", _run_name(phase, number), str(path)))
    finally:
        path.unlink(missing_ok=True)


def _count_objects(size: int) -> int:
    return math.ceil(size / OBJECT_BYTES)


def _remove_written(invocations: Invocations, location: RadosPool, request: BenchRequest) -> None:
    """Remove the objects that the trial wrote, so that all trials find the pool equally full.

    After a trial that did not complete, the release of the target removes them.
    """
    for number, phase in enumerate(request.phases, start=1):
        if not phase.pattern.writes:
            continue
        for ramp in (True, False) if request.ramp_s else (False,):
            run_name = _run_name(phase, number, ramp=ramp)
            command = _rados(location, "cleanup", "--run-name", run_name)
            invocations.run(command, bound_s=_REMOVE_BOUND_S, counts=False)
