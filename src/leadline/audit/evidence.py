"""What a rule may look at: one job's figures, a trial, a cell with its trials, or the run.

Built from an archive, or from a bare fio output (an imported file) of which nothing else is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from leadline import errors
from leadline.archive.records import Layer, TrialRecord, TrialStatus
from leadline.audit.execution import KERNEL_SYNCHRONOUS, Execution
from leadline.audit.latency import mean_s
from leadline.audit.media import PoolMedia
from leadline.audit.network import network_of_job
from leadline.audit.rounding import rounding
from leadline.formats.ceph_status import ClusterSample, MissedSample
from leadline.formats.fio_log import Window
from leadline.formats.host_counters import HostSample, MissedHostSample
from leadline.formats.output import EngineOutput, FormatError, JobOptions, JobResult, Operation
from leadline.formats.zfs_stream import StreamReport
from leadline.metrics import PERCENTILES, Op
from leadline.plan.models import Cell

# Engines that hand over an I/O and wait: one in flight per job, whatever iodepth says.
SYNCHRONOUS_ENGINES = KERNEL_SYNCHRONOUS | {"libpmem", "dev-dax", "gfapi", "http", "libhdfs"}
# Options that hold a job back on purpose: its queue is then not meant to be full.
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
    """Where a finding belongs; empty names mean the whole run."""

    target: str = ""
    workload: str = ""
    level: str = ""
    trial: str | None = None


# Not slotted, since what several rules ask for is worked out once.
@dataclass(frozen=True, kw_only=True)
class TrialEvidence:
    """One planned trial. `output` and `record` are None for a trial that the archive lacks, and
    `record` alone for an imported output. `execution` is there for a trial that is one section
    of several that were run together, and holds them all. `memory_bytes` is the load generator's.
    `cluster` is the watch of the Ceph cluster, empty where there is none, `machines` that of the
    machines behind the trial; `cpu_budget` are the cores that each host of a lab may use, None for
    all; `pool` is what the target's pool lies on, `stack` are the layers below the target from the
    top down, empty where they are not known. `network` is why the target is taken for
    networked. `held_bytes` is a span that another result of the target shows to have lain in memory
    whole, `phases_apart` that most results of the workload show its reads and writes not to have
    been one mix. `stream` are the streams of ZFS of a trial that had some."""

    place: Place
    cell: Cell | None = None
    record: TrialRecord | None = None
    output: EngineOutput | FormatError | None = None
    execution: Execution | None = None
    windows: Mapping[Op, tuple[Window, ...]] | FormatError
    memory_bytes: int | None = None
    on_lab: bool = False
    cluster: tuple[ClusterSample | MissedSample, ...] | FormatError = ()
    machines: tuple[HostSample | MissedHostSample, ...] | FormatError = ()
    cpu_budget: float | None = None
    pool: PoolMedia | None = None
    stack: tuple[Layer, ...] = ()
    network: str = ""
    held_bytes: int | None = None
    phases_apart: bool = False
    stream: StreamReport | FormatError | None = None

    @property
    def ours(self) -> bool:
        """Leadline itself made the job, so that what was asked is known from the plan."""
        return self.cell is not None and bool(self.cell.workload.phases)

    @property
    def imported(self) -> bool:
        """The figures are somebody else's; nobody here saw the run."""
        return self.cell is None or (not self.ours and self.cell.workload.job_file is None)

    @property
    def engine_ended(self) -> bool:
        """The engine came to its own end; the runner calls a trial failed, too, whose output it
        could not read."""
        record = self.record
        if record is None or record.status is TrialStatus.COMPLETED:
            return True
        told = record.problem.code if record.problem else ""
        return record.status is TrialStatus.FAILED and told == errors.FORMAT_INVALID.code

    @cached_property
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

    @cached_property
    def whole(self) -> Execution | None:
        """The execution that the trial is, or is a part of; None without an output."""
        if self.execution is not None or not isinstance(self.output, EngineOutput):
            return self.execution
        return Execution(output=self.output)

    @cached_property
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


@dataclass(frozen=True, kw_only=True)
class JobEvidence:
    """One entry of an output: a job, or a group of equal jobs."""

    place: Place
    job: JobResult
    trial: TrialEvidence

    @cached_property
    def pattern(self) -> str | None:
        """fio's `rw`; None where it is not known."""
        options = self.job.options
        told = options.whole or bool({"rw", "readwrite"} & options.raw.keys())
        return options.pattern if told else None

    @property
    def sequential(self) -> bool:
        return self.pattern in ("read", "write", "rw", "readwrite", "trim", "trimwrite")

    @property
    def network(self) -> str:
        """Why the I/O is taken to cross a network, as a clause; empty if it is not known to."""
        return self.trial.network or network_of_job(self.job.options)

    @cached_property
    def processes(self) -> int | None:
        """Jobs behind this entry: all of numjobs where they were reported as a group, else one.
        None where that cannot be known."""
        options, job = self.job.options, self.job
        if options.numjobs is None:
            return None
        numjobs = max(1, options.numjobs)
        if numjobs == 1 or options.flag("group_reporting"):
            return numjobs
        whole = self.trial.whole
        alike = whole.entries[job.name, job.host, job.group] if whole else 1
        if alike <= 1:
            # fio does not record a group_reporting that was given on the command line.
            return numjobs
        return 1 if alike % numjobs == 0 else None

    @cached_property
    def asked_depth(self) -> int | None:
        """I/Os that this entry was asked to keep in flight, as fio takes it; None where it is not
        told."""
        processes, depth = self.processes, self.job.options.queue_depth
        return None if processes is None or depth is None else processes * max(1, depth)

    @property
    def jobs_hidden(self) -> bool:
        """Several jobs may be behind the entry without the options saying so: numjobs and
        group_reporting were given on the command line."""
        known = {"numjobs", "group_reporting"} <= self.job.options.raw.keys()
        return not self.trial.ours and not known

    @cached_property
    def in_flight(self) -> float | None:
        """Mean I/Os in flight by Little's law, N = X R, all operations added: they share the
        queue. None where a rate or latency is not told or there was no I/O."""
        parts = self.parts
        if not parts:
            return None
        both = {one.op for one in parts} >= {Op.READ, Op.WRITE}
        mixed = self.pattern in ("rw", "readwrite", "randrw")
        if mixed and not self.job.options.whole and not both and parts[0].op is not Op.TOTAL:
            return None  # the other direction had its share of the queue, and nobody tells it
        return _little(parts, self.job.options)

    @cached_property
    def in_flight_rounding(self) -> float:
        """By which share `in_flight` may be off, since its figures are told with few digits."""
        worst = 0.0
        for one in self.parts:
            mean = mean_s(one, self.job.options)
            worst = max(worst, self.rounding(one.iops or 0.0) + self.rounding(mean or 0.0))
        return worst

    def rounding(self, value: float, *, of_bytes: bool = False) -> float:
        """By which share a figure may be off for want of digits. An engine's own output, which
        echoes its options, has them all: a round number there is one, or was typed in."""
        return 0.0 if self.job.options.whole else rounding(value, of_bytes=of_bytes)

    @cached_property
    def parts(self) -> tuple[Operation, ...]:
        """The operations without their total, unless the total is all that tells rates and
        latencies."""
        operations = self.job.operations
        parts = tuple(one for one in operations if one.op is not Op.TOTAL)
        if not parts or _little(parts, self.job.options) is None:
            total = tuple(one for one in operations if one.op is Op.TOTAL)
            if total and (not parts or _little(total, self.job.options) is not None):
                return total
        return parts

    @cached_property
    def total_ios(self) -> int | None:
        """I/Os that were done; from the rate and the time where they were not counted."""
        done = 0.0
        for one in self.parts:
            ran = one.runtime_s or self.job.options.seconds("runtime")
            if one.total_ios is not None:
                done += one.total_ios
            elif one.iops is not None and ran:
                done += one.iops * ran
            else:
                return None
        return int(done) if math.isfinite(done) else None

    @cached_property
    def longest_s(self) -> float | None:
        """How long the longest operation ran, ramp excluded; None where not told."""
        ran = [one.runtime_s for one in self.job.operations if one.runtime_s is not None]
        return max(ran, default=None)

    @cached_property
    def throttled(self) -> bool:
        return any(self.job.options.flag(key) for key in _THROTTLES)

    @cached_property
    def merged_sections(self) -> bool:
        """fio folded several sections into one entry: it carries the first one's name and the last
        one's options, so that nothing says what was measured (seen in 316 of 11,500 files)."""
        named = self.job.options.text("name")
        # fio cuts long names, at 127 characters in 3.40.
        renamed = bool(named) and not named.startswith(self.job.name)
        allowed = _DIRECTIONS.get(self.pattern or "")
        return renamed or (
            allowed is not None
            and any(one.op not in allowed and one.op is not Op.TOTAL for one in self.parts)
        )

    @cached_property
    def edges_matter(self) -> bool:
        """The run is too short for Little's law: filling and draining the queue take about one
        latency R each, so N is off by up to R / runtime = asked / I/Os, here more than 5 %."""
        done, asked = self.total_ios, self.asked_depth
        return done is not None and done < 20 * (asked or self.job.options.iodepth or 1)

    @cached_property
    def carried_over(self) -> float:
        """By which share `in_flight` may be too high: what was in flight when counting began (the
        end of a ramp) is counted with its whole latency, one I/O for each place in the queue, so
        N / asked is at most 1 + the longest latency / runtime. 0 where neither is told."""
        worst = 0.0
        for one in self.parts:
            latency = one.total or one.completion
            if latency is not None and latency.max_s and one.runtime_s:
                worst = max(worst, latency.max_s / one.runtime_s)
        return worst

    @cached_property
    def block_size(self) -> int | None:
        """The one block size of the entry; None where there are several or nobody knows."""
        raw = self.job.options.raw
        mixed = {"bsrange", "blocksize_range", "bssplit", "bs_unaligned", "kb_base"} & raw.keys()
        text = raw.get("bs", raw.get("blocksize", ""))
        # `4kb` is 4096 bytes to fio and 4000 to others: no ground for an accusation.
        if mixed or "," in text or text.lower().endswith("b") or self.merged_sections:
            return None
        return self.job.options.size("bs" if "bs" in raw else "blocksize")

    @property
    def span_bytes(self) -> int | None:
        """Bytes that the entry's jobs lie on, by the options; jobs may share them."""
        size, processes = self.job.options.size("size"), self.processes
        return size * (processes or 1) if size else None


def _little(parts: Iterable[Operation], options: JobOptions) -> float | None:
    total = 0.0
    for one in parts:
        mean = mean_s(one, options)
        if one.iops is None or mean is None:
            return None
        total += one.iops * mean
    # Figures of strangers may overflow when they are multiplied.
    return total if total and math.isfinite(total) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One operation of a cell over its sound trials.

    `rates` are of each trial, IOPS or, where some trial does not tell them, bytes/s; `latencies`
    how many I/Os percentiles can be taken from, None where nobody counted, and `quantiles` the
    percentiles that can be had at all."""

    workload: str
    op: Op
    rates: tuple[float, ...]
    in_bytes: bool
    latencies: int | None
    quantiles: frozenset[float]


@dataclass(frozen=True, kw_only=True)
class CellEvidence:
    """One cell with all its trials in the order in which they ran."""

    place: Place
    cell: Cell
    trials: tuple[TrialEvidence, ...]

    @property
    def sound(self) -> tuple[TrialEvidence, ...]:
        return tuple(trial for trial in self.trials if trial.sound)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Per workload (a job file's sections apart) and operation; entries of one name are
        processes or clients of one job, so their rates add up."""
        found: dict[tuple[str, Op], list[list[Operation]]] = {}
        for trial in self.sound:
            mine: dict[tuple[str, Op], list[Operation]] = {}
            for job in trial.jobs:
                for one in job.job.operations:
                    mine.setdefault((job.place.workload, one.op), []).append(one)
            for key, entries in mine.items():
                found.setdefault(key, []).append(entries)
        return tuple(_series(workload, op, trials) for (workload, op), trials in found.items())


def _series(workload: str, op: Op, trials: list[list[Operation]]) -> Series:
    rates = _rates(trials, lambda one: one.iops)
    in_bytes = len(rates) < len(trials)
    latencies = [(one.total or one.completion, one) for entries in trials for one in entries]
    histograms = [part.histogram for part, _ in latencies if part and part.histogram]
    quantiles = frozenset(q for metric in PERCENTILES if (q := metric.quantile) is not None)
    counted: int | None
    if histograms:
        counted = sum(one.count for one in histograms)
    else:
        # Percentiles that a tool printed cannot be merged: each stands on its own I/Os.
        known = [part.count or one.total_ios for part, one in latencies if part]
        counted = min((number for number in known if number is not None), default=None)
        printed = {q for part, one in latencies for q in _printed(one)}
        quantiles &= printed
    return Series(
        workload=workload,
        op=op,
        rates=_rates(trials, lambda one: one.bandwidth_bps) if in_bytes else rates,
        in_bytes=in_bytes,
        latencies=counted,
        quantiles=quantiles,
    )


def _printed(one: Operation) -> set[float]:
    return {q for part in (one.total, one.completion) if part for q in part.percentiles}


def _rates(
    trials: list[list[Operation]], pick: Callable[[Operation], float | None]
) -> tuple[float, ...]:
    """The rate of each trial that tells it for all its entries."""
    rates = []
    for entries in trials:
        known = [rate for one in entries if (rate := pick(one)) is not None]
        if len(known) == len(entries) and math.isfinite(sum(known)):
            rates.append(sum(known))
    return tuple(rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """A run's cells in the order of the plan."""

    place: Place
    cells: tuple[CellEvidence, ...]


Evidence = JobEvidence | TrialEvidence | CellEvidence | RunEvidence


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
