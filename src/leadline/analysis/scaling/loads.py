"""How much load a workload puts on its target with one of its operations."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.formats.output import JobOptions
from leadline.metrics import Op
from leadline.plan.models import Phase, Workload
from leadline.visible import visible

# Options that make two results of one name two workloads, not two loads; both spellings of each.
_FAMILY = (("rw", "readwrite"), ("bs", "blocksize"), ("rwmixread",))


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLoad:
    """`clients` load generators (one, too, where the target has but its own) with `numjobs` jobs
    of `iodepth` each, beside `neighbours` others. `in_flight` = clients x numjobs x iodepth is what
    was asked for. `offered_iops` is what all clients offer per second in an open loop, reads and
    writes together, None in a closed one; `op_share` of it are of the operation. `family` tells
    block size and pattern of imported results, whose names do not.
    """

    clients: int = 1
    neighbours: int = 0
    numjobs: int
    iodepth: int
    offered_iops: float | None = None
    op_share: float = 1.0
    family: str = ""

    @property
    def in_flight(self) -> int:
        return self.clients * self.numjobs * self.iodepth

    @property
    def offered_per_client(self) -> float | None:
        return None if self.offered_iops is None else self.offered_iops / self.clients


def load_of(workload: Workload, op: Op) -> PointLoad | None:
    """The load of the phase that does `op`; None where nobody tells it."""
    if workload.recorded is not None:
        options = workload.recorded.options
        # fio echoes what it was given, and has defaults for the rest: depth 1 and one job.
        whole = workload.recorded.tool == "fio" and bool({"rw", "readwrite"} & options.keys())
        return _of_recorded(JobOptions(raw=options, whole=whole), op)
    phase = _phase(workload, op)
    if phase is None:
        return None
    clients = max(1, workload.clients)
    return PointLoad(
        clients=clients,
        neighbours=workload.neighbours,
        numjobs=phase.numjobs,
        iodepth=phase.iodepth,
        offered_iops=None if phase.rate_iops is None else clients * phase.rate_iops,
        op_share=_share(phase, op),
    )


def _share(phase: Phase, op: Op) -> float:
    if phase.read_share is None or op is Op.TOTAL:
        return 1.0
    return (phase.read_share if op is Op.READ else 100 - phase.read_share) / 100


def _phase(workload: Workload, op: Op) -> Phase | None:
    """No two phases of a workload do the same operation; a total is that of the mixed phase."""
    for phase in () if workload.streams else workload.phases:
        if op in phase.pattern.ops or (op is Op.TOTAL and len(phase.pattern.ops) > 1):
            return phase
    return None


def _of_recorded(options: JobOptions, op: Op) -> PointLoad | None:
    """By the options that an imported result tells: without a depth there is no load, and without
    jobs there was one. A rate of reads and writes apart, or of each job, is added up."""
    depth, jobs = options.iodepth, options.numjobs
    if depth is None:
        return None
    jobs = max(1, 1 if jobs is None else jobs)
    told = [next((options.raw[key] for key in keys if key in options.raw), "") for keys in _FAMILY]
    reads, writes = _offered(options, jobs)
    offered = reads + writes
    of_op = {Op.READ: reads, Op.WRITE: writes}.get(op, offered)
    return PointLoad(
        numjobs=jobs,
        iodepth=max(1, depth),
        offered_iops=offered or None,
        op_share=of_op / offered if offered else 1.0,
        family=visible(" ".join(one for one in told if one)),
    )


def _offered(options: JobOptions, jobs: int) -> tuple[float, float]:
    """Reads and writes offered per second. fio's `rate_iops=500` holds each job and each direction
    to that, `400,100` tells both. Only with `rate_process=poisson` is it an open loop: else it is a
    lid on a closed one."""
    if options.text("rate_process") != "poisson":
        return 0.0, 0.0
    try:
        parts = [max(0.0, float(part)) for part in options.text("rate_iops").split(",")[:2]]
    except ValueError:
        return 0.0, 0.0
    pattern = options.pattern
    both = pattern in ("rw", "readwrite", "randrw")
    reads = parts[0] if both or "read" in pattern else 0.0
    writes = parts[-1] if both or "write" in pattern else 0.0
    return jobs * reads, jobs * writes
