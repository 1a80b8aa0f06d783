"""What I/O a figure is of: random or sequential, block size, depth, fsync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.cells import CellFigure
from leadline.analysis.workload_differences import rate_of
from leadline.archive.reader import Run
from leadline.formats.output import EngineOutput, JobOptions
from leadline.metrics import Metric, Op
from leadline.plan.models import Phase, Workload

Key = tuple[str, str, Op]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The I/O of one workload, level and operation; None where nobody told. `mixed`: reads and
    writes ran at the same time. `depth` counts the I/Os that were to be in flight; `fsync`:
    whether writes wait for the medium now and then."""

    random: bool | None = None
    mixed: bool = False
    block_bytes: int | None = None
    depth: int | None = None
    fsync: bool | None = None

    @property
    def rate(self) -> Metric:
        """How people tell the speed of such I/O: bandwidth of large blocks, else IOPS."""
        return rate_of(self.block_bytes)


def traits_of(run: Run, figures: Sequence[CellFigure]) -> Mapping[Key, Traits]:
    """Traits of every workload, level and operation that has a figure, in the figures' order."""
    workloads: dict[tuple[str, str], Workload] = {}
    for cell in run.plan.cells:
        workloads.setdefault((cell.workload.name, cell.level), cell.workload)
    sections = _Sections(run)
    totals = {(one.workload, one.level) for one in figures if one.op is Op.TOTAL}
    found: dict[Key, Traits] = {}
    for figure in figures:
        if figure.op is None or (figure.workload, figure.level, figure.op) in found:
            continue
        workload = workloads.get((figure.planned_workload, figure.level))
        mixed = (figure.workload, figure.level) in totals
        found[figure.workload, figure.level, figure.op] = _traits(
            workload, figure, mixed=mixed, sections=sections
        )
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
    if workload.streams:
        return Traits(mixed=mixed)
    phases = [one for one in workload.phases if _does(one, figure.op)]
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
    told = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
    depth, jobs = options.iodepth, options.numjobs
    synced = {"fsync", "fdatasync", "sync"} & options.raw.keys()
    return Traits(
        random=options.pattern.startswith("rand") if told else None,
        mixed=mixed,
        block_bytes=options.size("bs") or options.size("blocksize"),
        depth=depth * jobs if depth is not None and jobs is not None else None,
        fsync=any(options.flag(key) for key in synced) if synced or options.whole else None,
    )


class _Sections:
    """The options of a job file's sections, as the engine echoed them in a trial."""

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
