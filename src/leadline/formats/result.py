"""Result of an engine or tool: the common output of all parsers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from leadline import errors
from leadline.errors import LeadlineError
from leadline.metrics import PERCENTILES, Metric, Op, Spread
from leadline.stats.histogram import LatencyHistogram, samples_needed
from leadline.units import parse_duration, parse_fio_size

Number = TypeVar("Number", int, float)


_LONGEST_LINE = 500


class FormatError(LeadlineError):
    """Output that cannot be parsed. `condition` states the kind for the audit.

    Quotes of the output are cut to a maximum length.
    """

    def __init__(self, condition: str, fact: str, *, context: tuple[str, ...] = ()) -> None:
        super().__init__(errors.FORMAT_INVALID, _cut(fact), context=map(_cut, context))
        self.condition = condition

    @classmethod
    def unreadable(cls, fact: str, *context: str, cut: bool = False) -> FormatError:
        """Make the error for output that is not understood; `cut`: since it ends too early."""
        return cls("truncated-result" if cut else "unreadable-result", fact, context=context)

    @classmethod
    def truncated(cls, fact: str, *context: str) -> FormatError:
        return cls("truncated-result", fact, context=context)

    @classmethod
    def empty(cls, fact: str, *context: str) -> FormatError:
        return cls("empty-result", fact, context=context)

    def __reduce__(self) -> tuple[Callable[..., FormatError], tuple[object, ...]]:
        """How pickle makes it again in another process."""
        return partial(FormatError, context=self.context), (self.condition, self.fact)


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A latency statistic in seconds over `count` I/Os; None where the tool does not report it.

    `histogram` is set where the tool gave one (fio's json+). `percentiles` are those that the
    tool printed itself, seconds by quantile in (0, 1); they cannot be merged with others.
    """

    min_s: float | None = None
    max_s: float | None = None
    mean_s: float | None = None
    stddev_s: float | None = None
    count: int | None = None
    histogram: LatencyHistogram | None = None
    percentiles: Mapping[float, float] = field(default_factory=dict)

    def quantile_s(self, q: float) -> float | None:
        """A percentile in seconds: from the histogram, else as the tool printed it; None where
        neither has it."""
        if self.histogram is not None:
            return self.histogram.quantile_s(q) if self.histogram.count else None
        return self.percentiles.get(q)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The I/O of one direction of one job group. None where the tool does not report it; latencies
    are also None where it did not measure them. `spreads` is the scatter of trials behind figures
    that are means over trials."""

    op: Op
    iops: float | None = None
    bandwidth_bps: float | None = None
    total_ios: int | None = None
    io_bytes: int | None = None
    runtime_s: float | None = None
    short_ios: int = 0
    dropped_ios: int = 0
    submission: Latency | None = None
    completion: Latency | None = None
    total: Latency | None = None
    spreads: Mapping[Metric, Spread] = field(default_factory=dict)

    @property
    def histogram(self) -> LatencyHistogram | None:
        """That of total latency; else of completion latency, which is all that fio keeps unless
        it is asked for more (`lat_percentiles`)."""
        for latency in (self.total, self.completion):
            if latency is not None and latency.histogram is not None:
                return latency.histogram
        return None

    def metrics(self) -> dict[Metric, float | None]:
        """Every metric in base units; None where not measured or with too few samples to show.

        Latency is total latency. Percentiles come from its histogram; without one, from what the
        tool printed: of total latency, else of completion latency, which is all that fio prints
        percentiles of by default.
        """
        latency = self.total or self.completion
        values: dict[Metric, float | None] = {
            Metric.IOPS: self.iops,
            Metric.BANDWIDTH: self.bandwidth_bps,
            Metric.LATENCY_MEAN: latency.mean_s if latency else None,
        }
        for metric in PERCENTILES:
            quantile = metric.quantile
            assert quantile is not None
            values[metric] = self.percentile_s(quantile)
        return values

    def percentile_s(self, q: float) -> float | None:
        """Return a percentile that may be shown; None where it is unknown, or of too few I/Os."""
        for latency in (self.total, self.completion):
            if latency is None:
                continue
            value = latency.quantile_s(q)
            if value is not None:
                counted = latency.histogram.count if latency.histogram else None
                known = counted or latency.count or self.total_ios
                return value if known is None or known >= samples_needed(q) else None
        return None


_METADATA_ENGINES = {"filecreate": Op.WRITE, "filestat": Op.READ, "filedelete": Op.TRIM}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A job's effective options (fio's [global] overridden by the job's own), as fio echoes them.

    `raw` holds every option as text, by fio's names whichever tool it was; the typed ones are
    those that the audit reasons with. `whole`: these are all that were given, so that a missing
    one has fio's default; otherwise it is unknown (a summary, a text without options).
    """

    raw: Mapping[str, str]
    whole: bool = True

    def text(self, key: str, default: str = "") -> str:
        return self.raw.get(key, default)

    def flag(self, key: str) -> bool:
        return key in self.raw and self.raw[key] not in ("0", "false")

    def integer(self, key: str, default: int) -> int:
        """`default` where the option is absent or no integer that fio could hold."""
        try:
            value = int(self.raw.get(key, default))
        except ValueError:
            return default
        return value if abs(value) < 1 << 63 else default

    @property
    def pattern(self) -> str:
        return self.raw.get("rw", self.raw.get("readwrite", "read")).split(":")[0]

    @property
    def engine(self) -> str | None:
        """fio's default engine is psync on Linux. None where it is not known."""
        return self.raw.get("ioengine", "psync" if self.whole else None)

    @property
    def file_op(self) -> Op | None:
        """What an engine for files does: creates (write), queries (read) or deletes (trim) them. It
        moves no data. None for other engines."""
        return _METADATA_ENGINES.get(self.raw.get("ioengine", ""))

    @property
    def iodepth(self) -> int | None:
        return self._known_integer("iodepth")

    @property
    def queue_depth(self) -> int | None:
        """I/Os that a job keeps in flight: io_uring rounds the depth up to a power of two
        (`roundup_pow2` in fio's engines/io_uring.c)."""
        depth = self.iodepth
        if depth is None or self.engine not in ("io_uring", "io_uring_cmd") or depth < 1:
            return depth
        return 1 << (depth - 1).bit_length()

    @property
    def numjobs(self) -> int | None:
        return self._known_integer("numjobs")

    def _known_integer(self, key: str) -> int | None:
        return self.integer(key, 1) if self.whole or key in self.raw else None

    @property
    def direct(self) -> bool | None:
        known = self.whole or bool({"direct", "buffered"} & self.raw.keys())
        return self.flag("direct") or self.raw.get("buffered") == "0" if known else None

    def size(self, key: str) -> int | None:
        """Bytes of a size option; None where absent, a percentage or a list."""
        try:
            return parse_fio_size(self.raw[key].split(",")[0])
        except (KeyError, ValueError):
            return None

    def seconds(self, key: str) -> float | None:
        try:
            return parse_duration(self.raw[key])
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job, or a group of equal jobs reported as one (an entry of fio's `jobs`).

    `host` is the client that ran it, where several did. `steady`: fio's own steady-state
    detection ended the job, on purpose. Runtime and elapsed time are 0 where unknown. CPU shares
    are of one core, averaged over the group's jobs (0.25 = 25 %); None from an engine that does
    not report them. `depth_levels` maps fio's depth classes (`1`, `2`, ... `>=64`) to the share of
    I/Os submitted at that depth."""

    name: str
    group: int = 0
    error: int = 0
    options: JobOptions
    job_runtime_s: float = 0.0
    elapsed_s: float = 0.0
    user_cpu: float | None = None
    system_cpu: float | None = None
    depth_levels: Mapping[str, float] = field(default_factory=dict)
    operations: tuple[Operation, ...]
    host: str = ""
    steady: bool = False

    @property
    def core_share(self) -> float | None:
        """Share of one core that a job used on average, user and system."""
        if self.user_cpu is None or self.system_cpu is None:
            return None
        return self.user_cpu + self.system_cpu

    def with_total(self) -> tuple[Operation, ...]:
        """The operations, and their total where reads and writes ran at the same time."""
        return _with_total(self.operations)


class NoteKind(StrEnum):
    """The reason of a note: unknown input, an impossible value, failed operations, or a client
    without a result."""

    UNKNOWN_FIELD = "unknown-field"
    UNKNOWN_VERSION = "unknown-version"
    REPEATED_FIELD = "repeated-field"
    IMPOSSIBLE_VALUE = "impossible-value"
    LEFT_OUT = "left-out"
    FAILED_OPERATIONS = "failed-operations"
    MISSING_CLIENT = "missing-client"


@dataclass(frozen=True, slots=True)
class Note:
    """Input that a parser did not understand or use, and its position: a JSON path, or `line 12`.
    No number uses such input without a note."""

    kind: NoteKind
    where: str
    fact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """What the kernel counted for a disk below the jobs' files while all jobs of one execution ran
    (fio's `disk_util`): I/Os after merging, and I/Os merged into others. `busy_share` of time."""

    name: str
    read_ios: int
    write_ios: int
    read_merges: int = 0
    write_merges: int = 0
    read_bytes: int | None = None
    write_bytes: int | None = None
    busy_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """The output of one execution of an engine. `noise` is text before the results, `notes` are on
    input that the parser could not verify. `neighbours` are jobs that did I/O at the same time as
    the measured jobs and are in none of their numbers."""

    version: str
    timestamp_s: float | None = None
    noise: str = ""
    jobs: tuple[JobResult, ...]
    disks: tuple[DiskUse, ...] = ()
    notes: tuple[Note, ...] = ()
    neighbours: tuple[JobResult, ...] = ()


def by_name(jobs: Sequence[JobResult]) -> dict[str, tuple[Operation, ...]]:
    """The operations of each job name, with a total where a job did reads and writes at once.

    Entries of one name are processes or clients of one job: they ran together and are added up. A
    summary that does not echo the job (`options.whole`) may have reads and writes that ran one
    after the other, so that only its author can give a total.
    """
    entries: dict[str, list[JobResult]] = {}
    for job in jobs:
        entries.setdefault(job.name, []).append(job)
    return {name: _together(given) for name, given in entries.items()}


def _together(jobs: Sequence[JobResult]) -> tuple[Operation, ...]:
    if len(jobs) == 1:
        return jobs[0].with_total() if jobs[0].options.whole else jobs[0].operations
    ops = dict.fromkeys(operation.op for job in jobs for operation in job.operations)
    added = tuple(
        summed(
            op, [operation for job in jobs for operation in job.operations if operation.op is op]
        )
        for op in ops
    )
    mixed = any(len(job.operations) > 1 and job.options.whole for job in jobs)
    return _with_total(added) if mixed else added


def _with_total(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    if len(operations) < 2 or any(operation.op is Op.TOTAL for operation in operations):
        return operations
    return (*operations, summed(Op.TOTAL, operations))


def summed(op: Op, operations: Sequence[Operation]) -> Operation:
    """Operations that ran at the same time, as one: rates and counts added, latencies pooled."""
    if len(operations) == 1:
        return replace(operations[0], op=op)
    return Operation(
        op=op,
        iops=_sum([part.iops for part in operations]),
        bandwidth_bps=_sum([part.bandwidth_bps for part in operations]),
        total_ios=_sum([part.total_ios for part in operations]),
        io_bytes=_sum([part.io_bytes for part in operations]),
        runtime_s=_extreme(max, [part.runtime_s for part in operations]),
        short_ios=sum(part.short_ios for part in operations),
        dropped_ios=sum(part.dropped_ios for part in operations),
        submission=_pooled(operations, lambda part: part.submission),
        completion=_pooled(operations, lambda part: part.completion),
        total=_pooled(operations, lambda part: part.total),
    )


def _sum(values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None


def _extreme(
    pick: Callable[[Sequence[float]], float], values: Sequence[float | None]
) -> float | None:
    known = [value for value in values if value is not None]
    return pick(known) if known and len(known) == len(values) else None


def _pooled(
    operations: Sequence[Operation], pick: Callable[[Operation], Latency | None]
) -> Latency | None:
    """Latencies of I/Os that belong together; printed percentiles have no sum and are left out."""
    parts: list[Latency] = []
    counts: list[int | None] = []
    for operation in operations:
        part = pick(operation)
        if part is None:
            return None
        parts.append(part)
        # Before 3.19 fio does not say of how many I/Os a latency is; it is of all of them.
        counts.append(operation.total_ios if part.count is None else part.count)
    count = _sum(counts)
    mean, stddev = _moments(parts, counts)
    histograms = [part.histogram for part in parts if part.histogram]
    return Latency(
        min_s=_extreme(min, [part.min_s for part in parts]),
        max_s=_extreme(max, [part.max_s for part in parts]),
        mean_s=mean,
        stddev_s=stddev,
        count=count,
        histogram=LatencyHistogram.merged(histograms) if len(histograms) == len(parts) else None,
    )


def _moments(
    parts: Sequence[Latency], counts: Sequence[int | None]
) -> tuple[float | None, float | None]:
    """Mean and pooled standard deviation: within each part, and of the parts' means."""
    known = [
        (part.mean_s, part.stddev_s, count)
        for part, count in zip(parts, counts, strict=True)
        if part.mean_s is not None and count is not None
    ]
    total = sum(count for _, _, count in known)
    if len(known) < len(parts) or not total:
        return None, None
    mean = sum(value * count for value, _, count in known) / total
    squares = 0.0
    for value, stddev, count in known:
        if stddev is None:
            return mean, None
        squares += count * (stddev**2 + (value - mean) ** 2)
    return mean, math.sqrt(squares / total)
