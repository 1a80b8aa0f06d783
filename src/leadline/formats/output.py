"""What an engine's raw output says, whichever engine wrote it: the parsers' common result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.metrics import PERCENTILES, Metric, Op
from leadline.stats.histogram import LatencyHistogram, samples_needed
from leadline.units import parse_duration, parse_fio_size


class FormatError(LeadlineError):
    """Output that cannot be understood. `condition` tells an audit which kind it is."""

    def __init__(self, condition: str, fact: str, *, context: tuple[str, ...] = ()) -> None:
        super().__init__(errors.FORMAT_INVALID, fact, context=context)
        self.condition = condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A latency statistic in seconds over `count` I/Os; the histogram where json+ gave one."""

    min_s: float
    max_s: float
    mean_s: float
    stddev_s: float
    count: int
    histogram: LatencyHistogram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one direction of one job group did. Latencies are None where fio did not measure."""

    op: Op
    iops: float
    bandwidth_bps: float
    total_ios: int
    io_bytes: int
    runtime_s: float
    short_ios: int
    dropped_ios: int
    submission: Latency | None
    completion: Latency | None
    total: Latency | None

    def metrics(self) -> dict[Metric, float | None]:
        """Every metric in base units; None where not measured or with too few samples to show."""
        latency = self.total
        values: dict[Metric, float | None] = {
            Metric.IOPS: self.iops,
            Metric.BANDWIDTH: self.bandwidth_bps,
            Metric.LATENCY_MEAN: latency.mean_s if latency else None,
        }
        histogram = latency.histogram if latency else None
        for metric in PERCENTILES:
            quantile = metric.quantile
            assert quantile is not None
            shown = histogram is not None and histogram.count >= samples_needed(quantile)
            values[metric] = histogram.quantile_s(quantile) if shown and histogram else None
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A job's effective options (fio's [global] overridden by the job's own), as fio echoes them.

    `raw` holds every option as text; the typed ones are those that the audit reasons with.
    """

    raw: Mapping[str, str]

    def text(self, key: str, default: str = "") -> str:
        return self.raw.get(key, default)

    def flag(self, key: str) -> bool:
        return key in self.raw and self.raw[key] not in ("0", "false")

    def integer(self, key: str, default: int) -> int:
        try:
            return int(self.raw.get(key, default))
        except ValueError:
            return default

    @property
    def pattern(self) -> str:
        return self.raw.get("rw", self.raw.get("readwrite", "read")).split(":")[0]

    @property
    def engine(self) -> str:
        """fio's default engine is psync on Linux."""
        return self.raw.get("ioengine", "psync")

    @property
    def iodepth(self) -> int:
        return self.integer("iodepth", 1)

    @property
    def numjobs(self) -> int:
        return self.integer("numjobs", 1)

    @property
    def direct(self) -> bool:
        return self.flag("direct")

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

    CPU shares are of one core, averaged over the group's jobs (0.25 = 25 %); None from an engine
    that does not tell.
    `depth_levels` maps fio's depth classes (`1`, `2`, ... `>=64`) to the share of I/Os submitted at
    that depth.
    """

    name: str
    group: int
    error: int
    options: JobOptions
    job_runtime_s: float
    elapsed_s: float
    user_cpu: float | None
    system_cpu: float | None
    depth_levels: Mapping[str, float]
    operations: tuple[Operation, ...]

    @property
    def core_share(self) -> float | None:
        """Share of one core that a job used on average, user and system."""
        if self.user_cpu is None or self.system_cpu is None:
            return None
        return self.user_cpu + self.system_cpu

    def with_total(self) -> tuple[Operation, ...]:
        """The operations, and their total where reads and writes ran at the same time."""
        if len(self.operations) < 2:
            return self.operations
        return (*self.operations, _total(self.operations))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """What one execution of an engine left. `noise` is text before the part that tells figures."""

    version: str
    timestamp_s: float | None
    noise: str
    jobs: tuple[JobResult, ...]


def _total(operations: tuple[Operation, ...]) -> Operation:
    return Operation(
        op=Op.TOTAL,
        iops=sum(part.iops for part in operations),
        bandwidth_bps=sum(part.bandwidth_bps for part in operations),
        total_ios=sum(part.total_ios for part in operations),
        io_bytes=sum(part.io_bytes for part in operations),
        runtime_s=max(part.runtime_s for part in operations),
        short_ios=sum(part.short_ios for part in operations),
        dropped_ios=sum(part.dropped_ios for part in operations),
        submission=_merged([part.submission for part in operations]),
        completion=_merged([part.completion for part in operations]),
        total=_merged([part.total for part in operations]),
    )


def _merged(given: list[Latency | None]) -> Latency | None:
    parts = [part for part in given if part]
    if len(parts) < len(given):
        return None
    count = sum(part.count for part in parts)
    mean = sum(part.mean_s * part.count for part in parts) / count if count else 0.0
    # Pooled variance: within each part, and of the parts' means round the common mean.
    squares = sum(part.count * (part.stddev_s**2 + (part.mean_s - mean) ** 2) for part in parts)
    histograms = [part.histogram for part in parts if part.histogram]
    return Latency(
        min_s=min(part.min_s for part in parts),
        max_s=max(part.max_s for part in parts),
        mean_s=mean,
        stddev_s=math.sqrt(squares / count) if count else 0.0,
        count=count,
        histogram=LatencyHistogram.merged(histograms) if len(histograms) == len(parts) else None,
    )
