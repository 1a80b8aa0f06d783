"""Is it the same work? Figures of unlike workloads cannot be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.formats.output import JobOptions
from leadline.metrics import Metric, Op
from leadline.plan.models import Phase, Workload

# From here on people speak of a workload's bandwidth rather than of its IOPS.
STREAMING_BYTES = 64 * 1024
# Of an imported result, what makes it other work where both sides tell it.
_TOLD = ("rw", "bs", "rwmixread", "iodepth", "numjobs", "direct", "fsync", "fdatasync")
# More of the same work; it is told beside the figures and keeps nobody from comparing.
_EXTENT = {"runtime_s", "ramp_s"}
_NAMES = {"name", "description"}


def unlike(ours: Workload, theirs: Workload) -> tuple[str, ...]:
    """What makes two workloads other work, each as `SETTING: OURS, THEIRS`; empty where nothing
    does."""
    if ours.recorded and theirs.recorded:
        left, right = ours.recorded.options, theirs.recorded.options
        return tuple(
            f"{key}: {left[key]}, {right[key]}"
            for key in _TOLD
            if key in left and key in right and not _same_value(left[key], right[key])
        )
    return _fields(ours, theirs, leave_out=_EXTENT | _NAMES)


def extent(ours: Workload, theirs: Workload) -> tuple[str, ...]:
    """Differences of time, which do not make it other work."""
    return tuple(
        f"{key}: {getattr(ours, key):g} s, {getattr(theirs, key):g} s"
        for key in sorted(_EXTENT)
        if getattr(ours, key) != getattr(theirs, key)
    )


def block_bytes(workload: Workload | None) -> float | None:
    """The smallest block of a workload in bytes; None where nobody tells."""
    if workload is None:
        return None
    if workload.recorded:
        return JobOptions(raw=workload.recorded.options).size("bs")
    return min((float(phase.block_size) for phase in workload.phases), default=None)


def rate_of(size: float | None) -> Metric:
    """How people tell the speed of I/Os of so many bytes: bandwidth of large ones, else IOPS; IOPS
    where nobody tells the size."""
    return Metric.BANDWIDTH if size and size >= STREAMING_BYTES else Metric.IOPS


def usual_rate(workload: Workload | None) -> Metric:
    """How people tell the speed of a workload; a stream has no blocks."""
    streams = workload is not None and workload.streams
    return Metric.BANDWIDTH if streams else rate_of(block_bytes(workload))


def rate_told(usual: Metric, told: Callable[[Metric], bool]) -> Metric:
    """The usual rate of an I/O, or the other one where nobody told that, as in many tables."""
    other = Metric.IOPS if usual is Metric.BANDWIDTH else Metric.BANDWIDTH
    return other if told(other) and not told(usual) else usual


def depth(workload: Workload | None, op: Op | None) -> int | None:
    """I/Os that were to be in flight for an operation, all jobs together; None where nobody tells.
    The operations of a mixed phase share them."""
    if workload is None:
        return None
    if workload.recorded:
        options = JobOptions(raw=workload.recorded.options)
        each, jobs = options.size("iodepth"), options.size("numjobs")
        return round(each * (jobs or 1)) if each else None
    phase = _phase(workload, op)
    return phase.iodepth * phase.numjobs if phase else None


def jobs(workload: Workload | None, op: Op | None) -> int | None:
    """Processes that were to do an operation at the same time; None where nobody tells."""
    if workload is None:
        return None
    if workload.recorded:
        told = JobOptions(raw=workload.recorded.options).size("numjobs")
        return round(told) if told else None
    phase = _phase(workload, op)
    return phase.numjobs if phase else None


def _phase(workload: Workload, op: Op | None) -> Phase | None:
    """The one phase that does an operation; None where there is none, or several, and of a stream,
    whose depth means nothing."""
    phases = [one for one in workload.phases if not workload.streams and _concerns(one, op)]
    return phases[0] if len(phases) == 1 else None


def _concerns(phase: Phase, op: Op | None) -> bool:
    mixed = len(phase.pattern.ops) > 1
    return mixed if op is Op.TOTAL else op in phase.pattern.ops


def _same_value(ours: str, theirs: str) -> bool:
    """`4k` and `4096` are one block size."""
    sizes = [JobOptions(raw={"bs": one}).size("bs") for one in (ours, theirs)]
    return ours == theirs or (None not in sizes and sizes[0] == sizes[1])


def _fields(ours: Workload, theirs: Workload, leave_out: set[str]) -> tuple[str, ...]:
    left, right = _flat(ours.model_dump(mode="json")), _flat(theirs.model_dump(mode="json"))
    return tuple(
        f"{key}: {left.get(key, 'not set')}, {right.get(key, 'not set')}"
        for key in dict.fromkeys((*left, *right))
        if key.split(".")[0] not in leave_out
        and key.split(".")[-1] not in _NAMES
        and left.get(key) != right.get(key)
    )


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = {str(number): one for number, one in enumerate(value)}.items()
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for key, one in items:
        found |= _flat(one, f"{path}.{key}" if path else key)
    return found
