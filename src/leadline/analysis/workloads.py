"""The properties of workloads: whether two are the same work, block size, depth, usual rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.analysis.figures import CellFigure
from leadline.archive.reader import Run
from leadline.formats.result import EngineOutput, JobOptions
from leadline.formats.work import work_options
from leadline.metrics import Metric, Op
from leadline.plan.workload import Phase, Workload

# Block size from which the usual rate is bandwidth instead of IOPS.
STREAMING_BYTES = 64 * 1024
# More of the same work: reported, but still comparable.
_EXTENT = {"runtime_s", "ramp_s"}
_NAMES = {"name", "description"}


# Share of a requested rate below which it was not reached.
REACHED = 0.95


def workload_differences(baseline: Workload, candidate: Workload) -> tuple[str, ...]:
    """Return the settings that make two workloads different, as `SETTING: FIRST, SECOND`."""
    if baseline.recorded and candidate.recorded:
        left, right = work_settings(baseline), work_settings(candidate)
        return tuple(
            f"{key}: {left[key]}, {right[key]}"
            for key in left
            if key in right and left[key] != right[key]
        )
    left, right = _planned_settings(baseline), _planned_settings(candidate)
    return tuple(
        f"{key}: {left.get(key, 'not set')}, {right.get(key, 'not set')}"
        for key in dict.fromkeys((*left, *right))
        if left.get(key) != right.get(key)
    )


def work_settings(workload: Workload) -> dict[str, Any]:
    """Return the settings that make up the work of a workload, by their dotted paths; those of
    imported results by fio's names, as far as they are known."""
    if workload.recorded is None:
        return _planned_settings(workload)
    options: dict[str, Any] = work_options(JobOptions(raw=workload.recorded.options, whole=False))
    return options | ({"clients": f"{workload.clients}"} if workload.clients else {})


def _planned_settings(workload: Workload) -> dict[str, Any]:
    return {
        key: value
        for key, value in _flat(workload.model_dump(mode="json")).items()
        if key.split(".")[0] not in _EXTENT | _NAMES and key.split(".")[-1] not in _NAMES
    }


def duration_differences(baseline: Workload, candidate: Workload) -> tuple[str, ...]:
    """Return differences of run time, which leave workloads comparable."""
    return tuple(
        f"{key}: {getattr(baseline, key):g} s, {getattr(candidate, key):g} s"
        for key in sorted(_EXTENT)
        if getattr(baseline, key) != getattr(candidate, key)
    )


def block_bytes(workload: Workload | None) -> float | None:
    """Return the smallest block of a workload in bytes; None if unknown."""
    if workload is None:
        return None
    if workload.recorded:
        return JobOptions(raw=workload.recorded.options).size("bs")
    return min((float(phase.block_size) for phase in workload.phases), default=None)


def rate_of(size: float | None) -> Metric:
    """Return the usual rate for a block size in bytes: bandwidth for large blocks, else IOPS."""
    return Metric.BANDWIDTH if size and size >= STREAMING_BYTES else Metric.IOPS


def usual_rate(workload: Workload | None) -> Metric:
    """Return the usual rate of a workload; a stream has no blocks. The figure of a lifecycle is the
    time that a stage takes."""
    if workload is not None and workload.lifecycle:
        return Metric.LATENCY_MEAN
    streams = workload is not None and workload.streams
    return Metric.BANDWIDTH if streams else rate_of(block_bytes(workload))


def reported_rate(usual: Metric, is_reported: Callable[[Metric], bool]) -> Metric:
    """Return the usual rate, or the other rate if only that is reported, as in many tables."""
    other = Metric.IOPS if usual is Metric.BANDWIDTH else Metric.BANDWIDTH
    return other if is_reported(other) and not is_reported(usual) else usual


def depth(workload: Workload | None, op: Op | None) -> int | None:
    """Return the requested I/Os in flight of all clients and jobs together; None if unknown.

    The operations of a mixed phase share them.
    """
    if workload is None:
        return None
    clients = max(1, workload.clients)
    if workload.recorded:
        options = JobOptions(raw=workload.recorded.options)
        each, jobs = options.size("iodepth"), options.size("numjobs")
        return clients * round(each * (jobs or 1)) if each else None
    phase = _phase(workload, op)
    return clients * phase.iodepth * phase.numjobs if phase else None


def jobs(workload: Workload | None, op: Op | None) -> int | None:
    """Return the number of jobs of an operation, all clients together; None if unknown."""
    if workload is None:
        return None
    clients = max(1, workload.clients)
    if workload.recorded:
        number = JobOptions(raw=workload.recorded.options).size("numjobs")
        return clients * round(number) if number else None
    phase = _phase(workload, op)
    return clients * phase.numjobs if phase else None


def requested_iops(workload: Workload | None, op: Op | None) -> float | None:
    """Return the rate that a workload requests of an operation, all clients together, which its
    figure cannot exceed: I/Os per second; None without such a rate."""
    if workload is None or op is None:
        return None
    clients = max(1, workload.clients)
    if workload.recorded:
        options = JobOptions(raw=workload.recorded.options)
        number = clients * (options.size("numjobs") or 1)
        # fio's rate is that of each job and direction: `500`, or `400,100` of reads and writes.
        rates = [_number(part) for part in options.text("rate_iops").split(",")[:2]]
        read, write = rates[0], rates[-1]
        each = {Op.READ: read, Op.WRITE: write, Op.TOTAL: read and write and read + write}.get(op)
        return each * number if each else None
    phase = _phase(workload, op)
    if phase is None or phase.rate_iops is None:
        return None
    reads = 1.0 if phase.read_share is None else phase.read_share / 100
    share = {Op.READ: reads, Op.WRITE: 1 - reads if phase.read_share is not None else 1.0}
    return clients * phase.rate_iops * share.get(op, 1.0)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _phase(workload: Workload, op: Op | None) -> Phase | None:
    """Return the only phase with an operation; None for several, and for a stream."""
    phases = [phase for phase in workload.phases if workload.in_blocks and _does(phase, op)]
    return phases[0] if len(phases) == 1 else None


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


Key = tuple[str, str, Op]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The I/O of one workload, level and operation; None: unknown.

    `mixed`: reads and writes ran at the same time. `depth` is the requested number of I/Os in
    flight, of all clients. `fsync`: writes are flushed to the medium periodically. `file_op` is set
    where an operation does something to a file and moves no data (`JobOptions.file_op`).
    """

    random: bool | None = None
    mixed: bool = False
    block_bytes: int | None = None
    depth: int | None = None
    fsync: bool | None = None
    file_op: Op | None = None

    @property
    def rate(self) -> Metric:
        """The usual rate: bandwidth of large blocks, else IOPS."""
        return rate_of(self.block_bytes)


def traits_of(run: Run, figures: Sequence[CellFigure]) -> Mapping[Key, Traits]:
    """Return the traits of every workload, level and operation with a figure, in their order."""
    workloads: dict[tuple[str, str], Workload] = {}
    for cell in run.plan.cells:
        workloads.setdefault((cell.workload.name, cell.level), cell.workload)
    sections = _Sections(run)
    totals = {(total.workload, total.level) for total in figures if total.op is Op.TOTAL}
    found: dict[Key, Traits] = {}
    for figure in figures:
        if figure.op is None or (figure.workload, figure.level, figure.op) in found:
            continue
        workload = workloads.get((figure.planned_workload, figure.level))
        mixed = (figure.workload, figure.level) in totals
        traits = _traits(workload, figure, mixed=mixed, sections=sections)
        if workload is not None and traits.depth is not None:
            traits = replace(traits, depth=max(1, workload.clients) * traits.depth)
        found[figure.workload, figure.level, figure.op] = traits
    return found


def _traits(
    workload: Workload | None, figure: CellFigure, *, mixed: bool, sections: _Sections
) -> Traits:
    if workload is None:
        return Traits(mixed=mixed)
    if workload.recorded:
        return _of_options(JobOptions(raw=workload.recorded.options, whole=False), mixed)
    if workload.job_file:
        options = sections.options(figure)
        return _of_options(options, mixed) if options else Traits(mixed=mixed)
    if not workload.in_blocks:
        return Traits(mixed=mixed)
    phases = [phase for phase in workload.phases if _does(phase, figure.op)]
    if len(phases) != 1:
        return Traits(mixed=mixed)
    (phase,) = phases
    return Traits(
        random=phase.pattern.value.startswith("rand"),
        mixed=mixed,
        block_bytes=phase.block_size,
        depth=phase.iodepth * phase.numjobs,
        fsync=phase.fsync > 0,
    )


def _does(phase: Phase, op: Op | None) -> bool:
    return len(phase.pattern.ops) > 1 if op is Op.TOTAL else op in phase.pattern.ops


def _of_options(options: JobOptions, mixed: bool) -> Traits:
    known = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
    depth, jobs = options.iodepth, options.numjobs
    synced = {"fsync", "fdatasync", "sync"} & options.raw.keys()
    return Traits(
        random=options.pattern.startswith("rand") if known else None,
        mixed=mixed,
        block_bytes=options.size("bs") or options.size("blocksize"),
        depth=depth * jobs if depth is not None and jobs is not None else None,
        fsync=any(options.flag(key) for key in synced) if synced or options.whole else None,
        file_op=options.file_op,
    )


class _Sections:
    """The options of a job file's sections, as the engine reported them in a trial."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read: dict[tuple[str, str], Mapping[str, JobOptions]] = {}

    def options(self, figure: CellFigure) -> JobOptions | None:
        key = (figure.planned_workload, figure.level)
        if key not in self._read:
            self._read[key] = self._of_a_trial(*key)
        found = self._read[key]
        name = figure.workload.removeprefix(f"{figure.planned_workload}/")
        if name in found:
            return found[name]
        return next(iter(found.values())) if len(found) == 1 else None

    def _of_a_trial(self, workload: str, level: str) -> Mapping[str, JobOptions]:
        for trial in self._run.trials:
            record = trial.record
            output = trial.output if (record.workload, record.level) == (workload, level) else None
            if isinstance(output, EngineOutput) and output.jobs:
                return {job.name: job.options for job in output.jobs}
        return {}
