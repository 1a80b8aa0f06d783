"""Evidence of an audit rule: one job's figures, a trial, a cell with its trials, or the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from math import isfinite

from leadline import errors
from leadline.archive.records import Extent, TrialRecord, TrialStatus
from leadline.audit.execution import Execution, knows_pattern
from leadline.audit.latencies import mean_s
from leadline.formats.ceph.status import ClusterSample, MissedSample
from leadline.formats.fio.logs import Window
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Operation,
)
from leadline.formats.volume_lifecycle import LifecycleReport
from leadline.formats.watch_records import HostSample, MissedHostSample
from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import Layer
from leadline.metrics import PERCENTILES, Op
from leadline.plan.guard import Guard
from leadline.plan.models import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMedia:
    """OSDs of a pool by medium, and the least number of OSD writes per client write, `coded`: of
    erasure code. `cores` are those of all OSDs together, None: without a limit, or unknown."""

    pool: str
    hard_disks: int
    flash: int
    copies: int
    coded: bool = False
    cores: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drives:
    """The drives of a local target, by kind: NVMe controllers on PCIe, and hard disks."""

    controllers: int
    spindles: int


# A bandwidth was printed in the unit in which it has the fewest digits.
_BYTES = (1.0, 1e3, 1024.0, float(1 << 20), float(1 << 30))
_DIGITS = 10


def rounding(value: float, *, of_bytes: bool = False) -> float:
    """Return one step of the last printed digit as a share of `value`; trailing zeros count as
    rounded. Published tables have two or three digits; a number with all its digits gives 1e-10,
    zero gives 0."""
    if not value or not isfinite(value):
        return 0.0
    return max(_step(value / unit) for unit in (_BYTES if of_bytes else (1.0,)))


def _step(value: float) -> float:
    shown = Decimal(f"{value:.{_DIGITS}g}").normalize()
    if not shown:
        return 1.0  # no digit is left in this unit
    exponent = shown.as_tuple().exponent
    return float(abs(Decimal((0, (1,), int(exponent))) / shown))


# More jobs than this share of the requested ones ran if fio merged sections.
MORE_JOBS = 1.05
# Options that limit a job on purpose: its queue is not meant to be full.
_THROTTLES = (
    *("rate", "rate_min", "rate_iops", "rate_iops_min", "rate_process", "flow"),
    *("thinktime", "latency_target", "iodepth_low", "read_iolog"),
)
_READS, _WRITES, _TRIMS = frozenset({Op.READ}), frozenset({Op.WRITE}), frozenset({Op.TRIM})
_DIRECTIONS: Mapping[str, frozenset[Op]] = {
    "read": _READS,
    "randread": _READS,
    "write": _WRITES,
    "randwrite": _WRITES,
    **dict.fromkeys(("rw", "readwrite", "randrw"), _READS | _WRITES),
    "trim": _TRIMS,
    "randtrim": _TRIMS,
    "trimwrite": _TRIMS | _WRITES,
    "randtrimwrite": _TRIMS | _WRITES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a finding; empty names mean the whole run."""

    target: str = ""
    workload: str = ""
    level: str = ""
    trial: str | None = None


# Not slotted: several rules use the cached properties.
@dataclass(frozen=True, kw_only=True)
class TrialEvidence:
    """One planned trial. `output` and `record` are None for a trial without an attempt, `record`
    alone for an imported output. `execution` holds all sections if the trial is one of several
    that ran together. `memory_bytes` is the load generator's. `cluster` are the samples of the Ceph
    cluster (in a drill those before its event), `cluster_before` the run's first one, `machines`
    those of the machines. `cpu_budget` are the cores of each lab host, None without a limit. `pool`
    is the medium of the target's pool, `drives` are those of a local target, None where any of them
    is of another kind. `mds_ranks` are the MDS that the target's CephFS has at most, None: unknown,
    or no CephFS. `load_here`: the machine of the inventory made the load, alone; `physical`: it is
    no virtual machine, so that its links and disks are what they report. `stack` are the layers
    below the target from the top down, empty if unknown. `network` is why the target is networked.
    `held_bytes` is a size that memory held completely, as another result of the target proves.
    `random_read_s` are the mean seconds of its direct random reads at depth 1 by block size.
    `phases_apart`: the reads and writes of the workload were not one mix, as most of its results
    prove. `stream` are the ZFS streams of the trial, `lifecycle` its stages of volumes."""

    place: Place
    cell: Cell | None = None
    record: TrialRecord | None = None
    output: EngineOutput | FormatError | None = None
    execution: Execution | None = None
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    memory_bytes: int | None = None
    on_lab: bool = False
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError = ()
    cluster_before: ClusterSample | None = None
    machines: tuple[HostSample | MissedHostSample, ...] | FormatError = ()
    cpu_budget: float | None = None
    pool: PoolMedia | None = None
    drives: Drives | None = None
    mds_ranks: int | None = None
    load_here: bool = False
    physical: bool = False
    stack: tuple[Layer, ...] = ()
    network: str = ""
    held_bytes: int | None = None
    random_read_s: Mapping[int, float] = field(default_factory=dict)
    phases_apart: bool = False
    stream: StreamReport | FormatError | None = None
    lifecycle: LifecycleReport | FormatError | None = None

    @property
    def generated(self) -> bool:
        """Whether Leadline generated the job, so that the plan has its settings."""
        return self.cell is not None and bool(self.cell.workload.phases)

    @property
    def drilled(self) -> bool:
        """Whether a drill disturbed the trial on purpose: its rate and latency have to change."""
        return self.cell is not None and self.cell.workload.drill is not None

    @property
    def imported(self) -> bool:
        """Whether the figures are imported, so that the run was not observed."""
        return self.cell is None or (not self.generated and self.cell.workload.job_file is None)

    @property
    def extent(self) -> Extent | None:
        return self.record.extent if self.record else None

    @property
    def engine_ended(self) -> bool:
        """Whether the engine ended by itself; a trial with an unreadable output is failed as
        well."""
        record = self.record
        if record is None or record.status is TrialStatus.COMPLETED:
            return True
        code = record.problem.code if record.problem else ""
        return record.status is TrialStatus.FAILED and code == errors.FORMAT_INVALID.code

    @cached_property
    def sound(self) -> bool:
        """Whether the trial ran to its end and left figures; most rules need such a trial."""
        if not self.engine_ended or not isinstance(self.output, EngineOutput) or self.cut_by_signal:
            return False
        worked = any(job.operations for job in self.output.jobs)
        return worked and not any(job.error for job in self.output.jobs)

    @property
    def cut_by_signal(self) -> bool:
        """Whether a signal stopped fio: it writes valid JSON with error 0 for a part of the run."""
        output = self.output
        return isinstance(output, EngineOutput) and "terminating on signal" in output.noise

    @cached_property
    def whole(self) -> Execution | None:
        """The execution of the trial, or the one that includes it; None without an output."""
        if self.execution is not None or not isinstance(self.output, EngineOutput):
            return self.execution
        return Execution(output=self.output)

    @cached_property
    def jobs(self) -> tuple[JobEvidence, ...]:
        if not self.sound or not isinstance(self.output, EngineOutput):
            return ()
        names = {job.name for job in self.output.jobs}
        own_file = self.cell is not None and self.cell.workload.job_file is not None
        return tuple(
            JobEvidence(
                # The measurements table splits a user's job file the same way.
                place=replace(self.place, workload=f"{self.place.workload}/{job.name}")
                if own_file and len(names) > 1
                else self.place,
                job=job,
                trial=self,
            )
            for job in self.output.jobs
        )


@dataclass(frozen=True, kw_only=True)
class JobEvidence:
    """One entry of an output: a job, or a group of equal jobs."""

    place: Place
    job: JobResult
    trial: TrialEvidence

    @cached_property
    def pattern(self) -> str | None:
        """fio's `rw`; None if unknown."""
        options = self.job.options
        return options.pattern if knows_pattern(options) else None

    def operation(self, op: Op) -> Operation | None:
        return next((found for found in self.job.operations if found.op is op), None)

    @property
    def sequential(self) -> bool:
        return self.pattern in ("read", "write", "rw", "readwrite", "trim", "trimwrite")

    @cached_property
    def processes(self) -> int | None:
        """Jobs of this entry: all of numjobs if they were reported as a group, else one. None if
        unknown."""
        options, job = self.job.options, self.job
        if options.numjobs is None:
            return None
        numjobs = max(1, options.numjobs)
        if numjobs == 1 or options.flag("group_reporting"):
            return numjobs
        whole = self.trial.whole
        alike = whole.entries[job.name, job.host, job.group] if whole else 1
        if alike <= 1:
            # fio does not record a group_reporting of the command line.
            return numjobs
        return 1 if alike % numjobs == 0 else None

    @cached_property
    def requested_depth(self) -> int | None:
        """I/Os that this entry should keep in flight, as fio counts them; None if unknown."""
        processes, depth = self.processes, self.job.options.queue_depth
        return None if processes is None or depth is None else processes * max(1, depth)

    @property
    def jobs_hidden(self) -> bool:
        """Whether the entry may hold several jobs that its options do not show: numjobs and
        group_reporting on the command line."""
        known = {"numjobs", "group_reporting"} <= self.job.options.raw.keys()
        return not self.trial.generated and not known

    @cached_property
    def in_flight(self) -> float | None:
        """Mean I/Os in flight by Little's law, N = X R, all operations added: they share the
        queue. None without a rate, a latency or I/O."""
        parts = self.parts
        if not parts:
            return None
        both = {operation.op for operation in parts} >= {Op.READ, Op.WRITE}
        mixed = self.pattern in ("rw", "readwrite", "randrw")
        if mixed and not self.job.options.whole and not both and parts[0].op is not Op.TOTAL:
            return None  # the share of the other direction is unknown
        return _little(parts, self.job.options)

    @cached_property
    def in_flight_rounding(self) -> float:
        """Relative uncertainty of `in_flight` from the few digits of its figures."""
        worst = 0.0
        for operation in self.parts:
            mean = mean_s(operation, self.job.options)
            worst = max(worst, self.rounding(operation.iops or 0.0) + self.rounding(mean or 0.0))
        return worst

    def rounding(self, value: float, *, of_bytes: bool = False) -> float:
        """Relative uncertainty of a figure from its few digits. An engine's own output, which
        echoes its options, has all digits."""
        return 0.0 if self.job.options.whole else rounding(value, of_bytes=of_bytes)

    @cached_property
    def parts(self) -> tuple[Operation, ...]:
        """The operations without their total, unless only the total has rates and latencies."""
        operations = self.job.operations
        parts = tuple(operation for operation in operations if operation.op is not Op.TOTAL)
        if not parts or _little(parts, self.job.options) is None:
            total = tuple(operation for operation in operations if operation.op is Op.TOTAL)
            if total and (not parts or _little(total, self.job.options) is not None):
                return total
        return parts

    @cached_property
    def submitting_share(self) -> float | None:
        """Share of its time that each job spends in submission; None if unknown."""
        busy = 0.0
        for operation in self.parts:
            mean_s = operation.submission.mean_s if operation.submission else None
            if operation.iops is None or mean_s is None:
                return None
            busy += operation.iops * mean_s
        return busy / self.processes if self.processes else None

    @cached_property
    def total_ios(self) -> int | None:
        """Completed I/Os; from rate and time if they were not counted."""
        done = 0.0
        for operation in self.parts:
            ran = operation.runtime_s or self.job.options.seconds("runtime")
            if operation.total_ios is not None:
                done += operation.total_ios
            elif operation.iops is not None and ran:
                done += operation.iops * ran
            else:
                return None
        return int(done) if math.isfinite(done) else None

    @cached_property
    def longest_s(self) -> float | None:
        """Seconds of the longest operation without its ramp; None if unknown."""
        ran = (operation.runtime_s for operation in self.job.operations)
        return max((seconds for seconds in ran if seconds is not None), default=None)

    @cached_property
    def throttled(self) -> bool:
        return any(self.job.options.flag(key) for key in _THROTTLES)

    @cached_property
    def jobs_run(self) -> float | None:
        """Jobs that ran in this entry, on average over its longest operation: fio adds the run
        times of all of them. None if unknown. Never more than `processes` unless fio merged other
        sections into the entry (163 published entries: 0.97 to 1.00 of them)."""
        longest, ran = self.longest_s, self.job.job_runtime_s
        if not longest or not ran or not self.job.options.whole:
            return None
        return jobs if isfinite(jobs := ran / longest) else None

    @property
    def more_jobs_run(self) -> bool | None:
        """Whether more jobs ran than the options have; None if unknown."""
        if self.jobs_run is None or self.processes is None:
            return None
        return self.jobs_run > MORE_JOBS * self.processes

    @cached_property
    def verifies(self) -> bool:
        """Whether fio reads back what it wrote, after the writes."""
        return any(self.job.options.flag(key) for key in ("verify", "do_verify"))

    @property
    def renamed(self) -> bool:
        """Whether the options are those of another section than the name."""
        named = self.job.options.text("name")
        # fio cuts long names, at 127 characters in 3.40.
        return bool(named) and not named.startswith(self.job.name)

    @property
    def other_operations(self) -> frozenset[Op]:
        """Operations that the options do not have."""
        allowed = _DIRECTIONS.get(self.pattern or "")
        done = {operation.op for operation in self.parts} - {Op.TOTAL, Op.SYNC}
        return frozenset() if allowed is None else frozenset(done - allowed)

    @cached_property
    def merged_sections(self) -> bool:
        """Whether the entry holds more than one load, so that what was measured is unknown: fio
        merged several sections into it, with the first section's name and the last section's
        options (316 of 11,500 files), or reads back what it wrote."""
        more = self.more_jobs_run and not self.verifies
        return self.renamed or bool(self.other_operations) or bool(more)

    @cached_property
    def edges_matter(self) -> bool:
        """The run is too short for Little's law: filling and draining the queue take about one
        latency R each, so N is off by up to R / runtime = depth / I/Os, here more than 5 %."""
        done, depth = self.total_ios, self.requested_depth
        return done is not None and done < 20 * (depth or self.job.options.iodepth or 1)

    @cached_property
    def carried_over(self) -> float:
        """Share by which `in_flight` may be too high: I/Os in flight at the end of a ramp count
        with their whole latency, one for each place in the queue, so N / depth is at most 1 + the
        longest latency / runtime. 0 if either is unknown."""
        worst = 0.0
        for operation in self.parts:
            latency = operation.total or operation.completion
            if latency is not None and latency.max_s and operation.runtime_s:
                worst = max(worst, latency.max_s / operation.runtime_s)
        return worst

    @cached_property
    def block_size(self) -> int | None:
        """The single block size of the entry; None if there are several, or it is unknown."""
        raw = self.job.options.raw
        mixed = {"bsrange", "blocksize_range", "bssplit", "bs_unaligned", "kb_base"} & raw.keys()
        text = raw.get("bs", raw.get("blocksize", ""))
        # `4kb` is 4096 bytes in fio and 4000 in other tools: ambiguous.
        if mixed or "," in text or text.lower().endswith("b") or self.merged_sections:
            return None
        return self.job.options.size("bs" if "bs" in raw else "blocksize")

    @property
    def span_bytes(self) -> int | None:
        """Bytes of the entry's files, by the options; jobs of an imported result may share them."""
        options, processes = self.job.options, self.processes
        size = options.size("size")
        if self.trial.generated and "filename" in options.raw:
            # One file for all jobs; a sequence has a part of it for each.
            processes = processes if "offset_increment" in options.raw else 1
        return size * (processes or 1) if size else None


def _little(parts: Iterable[Operation], options: JobOptions) -> float | None:
    total = 0.0
    for operation in parts:
        mean = mean_s(operation, options)
        if operation.iops is None or mean is None:
            return None
        total += operation.iops * mean
    # Imported figures may overflow when they are multiplied.
    return total if total and math.isfinite(total) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One operation of a cell over its sound trials.

    `rates` are IOPS of each trial, or bytes/s if a trial has no IOPS. `latencies` is the number of
    I/Os behind the percentiles, None if unknown. `quantiles` are the available percentiles."""

    workload: str
    op: Op
    rates: tuple[float, ...]
    in_bytes: bool
    latencies: int | None
    quantiles: frozenset[float]


@dataclass(frozen=True, kw_only=True)
class CellEvidence:
    """One cell with all its trials in run order, and the guard of the plan."""

    place: Place
    cell: Cell
    trials: tuple[TrialEvidence, ...]
    guard: Guard | None = None

    @property
    def sound(self) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.sound)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """By workload (sections of a job file separately) and operation. Entries of one name are
        processes or clients of one job, so their rates add up."""
        found: dict[tuple[str, Op], list[list[Operation]]] = {}
        for trial in self.sound:
            mine: dict[tuple[str, Op], list[Operation]] = {}
            for job in trial.jobs:
                for operation in job.job.operations:
                    mine.setdefault((job.place.workload, operation.op), []).append(operation)
            for key, entries in mine.items():
                found.setdefault(key, []).append(entries)
        return tuple(_series(workload, op, trials) for (workload, op), trials in found.items())


def _series(workload: str, op: Op, trials: list[list[Operation]]) -> Series:
    rates = _rates(trials, lambda operation: operation.iops)
    in_bytes = len(rates) < len(trials)
    latencies = [
        (operation.total or operation.completion, operation)
        for entries in trials
        for operation in entries
    ]
    histograms = [part.histogram for part, _ in latencies if part and part.histogram]
    quantiles = frozenset(q for metric in PERCENTILES if (q := metric.quantile) is not None)
    counted: int | None
    if histograms:
        counted = sum(histogram.count for histogram in histograms)
    else:
        # Printed percentiles cannot be merged: each is based on its own I/Os.
        known = [part.count or operation.total_ios for part, operation in latencies if part]
        counted = min((number for number in known if number is not None), default=None)
        quantiles &= {q for _, operation in latencies for q in _printed(operation)}
    return Series(
        workload=workload,
        op=op,
        rates=_rates(trials, lambda operation: operation.bandwidth_bps) if in_bytes else rates,
        in_bytes=in_bytes,
        latencies=counted,
        quantiles=quantiles,
    )


def _printed(operation: Operation) -> set[float]:
    return {q for part in (operation.total, operation.completion) if part for q in part.percentiles}


def _rates(
    trials: list[list[Operation]], pick: Callable[[Operation], float | None]
) -> tuple[float, ...]:
    """The rate of each trial in which all entries have it."""
    rates = []
    for entries in trials:
        known = [rate for operation in entries if (rate := pick(operation)) is not None]
        if len(known) == len(entries) and math.isfinite(sum(known)):
            rates.append(sum(known))
    return tuple(rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """A run's cells in the order of the plan."""

    place: Place
    cells: tuple[CellEvidence, ...]

    def by_target(self) -> Mapping[str, Sequence[CellEvidence]]:
        """Return the cells of each target."""
        found: dict[str, list[CellEvidence]] = {}
        for cell in self.cells:
            found.setdefault(cell.place.target, []).append(cell)
        return found


Evidence = JobEvidence | TrialEvidence | CellEvidence | RunEvidence


def walk(run: RunEvidence) -> Iterator[Evidence]:
    """Yield all evidence of a run in report order."""
    yield run
    yield from walk_cells(run.cells)


def walk_cells(cells: Iterable[CellEvidence]) -> Iterator[Evidence]:
    for cell in cells:
        yield cell
        yield from walk_trials(cell.trials)


def walk_trials(trials: Iterable[TrialEvidence]) -> Iterator[Evidence]:
    for trial in trials:
        yield trial
        yield from trial.jobs
