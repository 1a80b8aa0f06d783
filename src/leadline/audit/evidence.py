"""What a rule may look at: one job's figures, a trial, a cell with its trials, or the run.

Built from an archive, or from a bare fio output (an imported file) of which nothing else is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from leadline import errors
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialRecord, TrialStatus
from leadline.formats.ceph_status import ClusterSample, MissedSample
from leadline.formats.fio_log import Window
from leadline.formats.output import EngineOutput, FormatError, JobResult, Operation
from leadline.metrics import Op
from leadline.plan.models import Cell
from leadline.stats.histogram import LatencyHistogram

# Engines that hand an I/O to the kernel and wait: one in flight per job, whatever iodepth says.
SYNCHRONOUS_ENGINES = frozenset({"psync", "sync", "pvsync", "pvsync2", "vsync", "mmap"})
# Engines that do their I/O through the kernel's files, hence through its page cache if not direct.
FILE_ENGINES = SYNCHRONOUS_ENGINES | {"libaio", "io_uring", "posixaio", "splice"}
# Options that hold a job back on purpose: its queue is then not meant to be full.
_THROTTLES = (
    *("rate", "rate_min", "rate_iops", "rate_iops_min", "rate_process", "flow"),
    *("thinktime", "latency_target"),
)
_DIRECTIONS = {"read": "r", "randread": "r", "write": "w", "randwrite": "w", "rw": "rw"}
_DIRECTIONS |= {"readwrite": "rw", "randrw": "rw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a finding belongs; empty names mean the whole run."""

    target: str = ""
    workload: str = ""
    level: str = ""
    trial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEvidence:
    """One planned trial. `output` and `record` are None for a trial that the archive lacks, and
    `record` alone for an imported output. `memory_bytes` is the load generator's. `cluster` is
    the watch of the Ceph cluster, empty where there is none."""

    place: Place
    cell: Cell | None = None
    record: TrialRecord | None = None
    output: EngineOutput | FormatError | None = None
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    memory_bytes: int | None = None
    on_lab: bool = False
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError = ()

    @property
    def engine_ended(self) -> bool:
        """The engine came to its own end; the runner calls a trial failed, too, whose output it
        could not read."""
        record = self.record
        if record is None or record.status is TrialStatus.COMPLETED:
            return True
        told = record.problem.code if record.problem else ""
        return record.status is TrialStatus.FAILED and told == errors.FORMAT_INVALID.code

    @property
    def sound(self) -> bool:
        """The trial ran to its end and left figures; all other rules ask only such trials."""
        if not self.engine_ended or not isinstance(self.output, EngineOutput) or self.cut_by_signal:
            return False
        worked = any(job.operations for job in self.output.jobs)
        return worked and not any(job.error for job in self.output.jobs)

    @property
    def cut_by_signal(self) -> bool:
        """fio was told to stop: it then writes valid JSON with error 0, of a part of the run."""
        output = self.output
        return isinstance(output, EngineOutput) and "terminating on signal" in output.noise

    @property
    def jobs(self) -> tuple[JobEvidence, ...]:
        """The entries of a sound trial's output; none of another."""
        if not self.sound or not isinstance(self.output, EngineOutput):
            return ()
        names = {job.name for job in self.output.jobs}
        own_file = self.cell is not None and self.cell.workload.job_file is not None
        return tuple(
            JobEvidence(
                # The measurements table splits a user's job file the same way.
                place=Place(
                    target=self.place.target,
                    workload=f"{self.place.workload}/{job.name}"
                    if own_file and len(names) > 1
                    else self.place.workload,
                    level=self.place.level,
                    trial=self.place.trial,
                ),
                job=job,
                trial=self,
            )
            for job in self.output.jobs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvidence:
    """One entry of fio's output: a job, or a group of equal jobs."""

    place: Place
    job: JobResult
    trial: TrialEvidence

    @property
    def processes(self) -> int:
        """Jobs behind this entry: all of numjobs with group_reporting, else each has its own."""
        options = self.job.options
        return max(1, options.numjobs) if "group_reporting" in options.raw else 1

    @property
    def asked_depth(self) -> int:
        """I/Os that this entry was asked to keep in flight."""
        return self.processes * max(1, self.job.options.iodepth)

    @property
    def in_flight(self) -> float | None:
        """Mean I/Os in flight by Little's law, N = X R, all operations added: they share the
        queue. None where a latency is missing or there was no I/O."""
        operations = self.job.operations
        if not operations or any(one.total is None for one in operations):
            return None
        return sum(one.iops * one.total.mean_s for one in operations if one.total)

    @property
    def total_ios(self) -> int:
        return sum(one.total_ios for one in self.job.operations)

    @property
    def throttled(self) -> bool:
        return any(key in self.job.options.raw for key in _THROTTLES)

    @property
    def merged_sections(self) -> bool:
        """fio folded several sections into one entry: it carries the first one's name and the last
        one's options, so that nothing says what was measured (seen in 316 of 11,500 files)."""
        named = self.job.options.text("name")
        # fio cuts long names, at 127 characters in 3.40.
        renamed = bool(named) and not named.startswith(self.job.name)
        allowed = _DIRECTIONS.get(self.job.options.pattern, "rwt")
        return renamed or any(one.op.value[0] not in allowed for one in self.job.operations)

    @property
    def edges_matter(self) -> bool:
        """The run is too short for Little's law: filling and draining the queue take about one
        latency R each, so N is off by up to R / runtime = asked / I/Os, here more than 5 %."""
        return self.total_ios < 20 * self.asked_depth

    @property
    def pooled(self) -> Operation | None:
        """The entry's operations as one; None without any."""
        operations = self.job.with_total()
        return operations[-1] if operations else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One operation of a cell over its sound trials."""

    workload: str
    op: Op
    iops: tuple[float, ...]
    samples: int
    histogram: LatencyHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """One cell with all its trials in the order in which they ran."""

    place: Place
    cell: Cell
    trials: tuple[TrialEvidence, ...]

    @property
    def sound(self) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.sound)

    @property
    def series(self) -> tuple[Series, ...]:
        """Per workload (a job file's sections apart) and operation; entries of one name are
        processes of one job, so their rates add up."""
        rates: dict[tuple[str, Op], list[float]] = {}
        latencies: dict[tuple[str, Op], list[LatencyHistogram]] = {}
        samples: dict[tuple[str, Op], int] = {}
        for trial in self.sound:
            sums: dict[tuple[str, Op], float] = {}
            for job in trial.jobs:
                for one in job.job.operations:
                    key = (job.place.workload, one.op)
                    sums[key] = sums.get(key, 0.0) + one.iops
                    samples[key] = samples.get(key, 0) + (one.total.count if one.total else 0)
                    if one.total and one.total.histogram:
                        latencies.setdefault(key, []).append(one.total.histogram)
            for key, rate in sums.items():
                rates.setdefault(key, []).append(rate)
        return tuple(
            Series(
                workload=workload,
                op=op,
                iops=tuple(values),
                samples=samples[workload, op],
                histogram=LatencyHistogram.merged(latencies.get((workload, op), ())),
            )
            for (workload, op), values in rates.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """A run's cells in the order of the plan."""

    place: Place
    cells: tuple[CellEvidence, ...]


Evidence = JobEvidence | TrialEvidence | CellEvidence | RunEvidence


def of_output(output: EngineOutput | FormatError) -> TrialEvidence:
    """Evidence of a bare output: no plan, no record, no logs."""
    return TrialEvidence(place=Place(), output=output, windows={})


def of_run(run: Run) -> RunEvidence:
    """Evidence of an archive: every planned trial is there, with or without an attempt."""
    stored = {trial.record.trial: trial for trial in run.trials}
    inventory = run.inventory("start")
    memory = inventory.memory_bytes if inventory else None
    cells = []
    for number, cell in enumerate(run.plan.cells):
        planned = sorted(
            (trial for trial in run.plan.trials if trial.cell == number),
            key=lambda trial: trial.position,
        )
        place = Place(target=cell.target, workload=cell.workload.name, level=cell.level)
        on_lab = _on_lab(run, cell)
        trials = tuple(
            replace(_of_trial(trial.id, cell, stored.get(trial.id), memory), on_lab=on_lab)
            for trial in planned
        )
        cells.append(CellEvidence(place=place, cell=cell, trials=trials))
    return RunEvidence(place=Place(), cells=tuple(cells))


def _on_lab(run: Run, cell: Cell) -> bool:
    """Whether the cell's target lies on a lab, whose daemons run on the load generator."""
    names = {target.cluster for target in run.plan.targets if target.name == cell.target}
    return any(one.name in names and one.lab is not None for one in run.plan.clusters)


def every(run: RunEvidence) -> Iterator[Evidence]:
    """All evidence of a run, in the order in which findings of equal gravity are told."""
    yield run
    for cell in run.cells:
        yield cell
        yield from of_trials(cell.trials)


def of_trials(trials: Iterable[TrialEvidence]) -> Iterator[Evidence]:
    for trial in trials:
        yield trial
        yield from trial.jobs


def _of_trial(
    name: str, cell: Cell, stored: StoredTrial | None, memory_bytes: int | None
) -> TrialEvidence:
    place = Place(target=cell.target, workload=cell.workload.name, level=cell.level, trial=name)
    if stored is None:
        return TrialEvidence(place=place, cell=cell, windows={})
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    try:
        windows = stored.iops_windows
    except FormatError as error:
        windows = error
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError
    try:
        cluster = stored.cluster
    except FormatError as error:
        cluster = error
    return TrialEvidence(
        place=place,
        cell=cell,
        record=stored.record,
        output=stored.output,
        windows=windows,
        memory_bytes=memory_bytes,
        cluster=cluster,
    )
