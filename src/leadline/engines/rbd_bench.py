"""The rbd bench engine: Ceph's own `rbd bench` on an image.

The tool knows an amount and no time. It is asked for more than it can do and told to end with
SIGINT, once, when the runtime is over: it then waits for what is in flight and prints its summary
(a second signal would kill it without one). How the tool behaves, and what was measured of it, is
in docs/internals/ceph-bench-engines.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

from leadline import errors
from leadline.engines.bench import Invocations, Program, Runtime, request_text
from leadline.errors import LeadlineError
from leadline.formats.bench_request import (
    REQUEST_FILE,
    BenchRequest,
    fill_phase,
    parse_bench_request,
)
from leadline.formats.output import FormatError
from leadline.formats.rbd_bench import OUTPUT_FILE
from leadline.plan.footprint import Footprint
from leadline.plan.models import EngineChoice, Pattern, Phase, Workload
from leadline.plan.target_url import TargetKind
from leadline.runner.ports import Execution, Job, Location, Progress, RbdImage
from leadline.runner.stop import StopRequest

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
