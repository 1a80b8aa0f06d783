"""The facts of a forecast: what was expected for a cell, by which layer, and why not more.

Rates in I/Os per second, latencies in seconds. Intervals are 90 % intervals unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.analysis.explain.accounts import Estimate
from leadline.metrics import Metric, Op
from leadline.model.bounds import Station as Station

# Of every interval of a forecast.
COVERAGE = 0.90
# What a forecast is about.
METRICS = (Metric.IOPS, Metric.LATENCY_MEAN, Metric.LATENCY_P99)


class Layer(StrEnum):
    """What made a number: bounds of resources and messages, or a calibrated queueing network."""

    BOUNDS = "bounds"
    CALIBRATED = "calibrated"


class Refusal(StrEnum):
    """Why a cell has bounds only, or nothing."""

    NO_TRUSTED_CELL = "no-trusted-cell"
    ONE_LOAD_LEVEL = "one-load-level"
    TWO_LOAD_LEVELS = "two-load-levels"
    OPEN_LOOP = "open-loop"
    UNSTABLE = "unstable"
    MISFIT = "misfit"
    LIMIT_UNKNOWN = "limit-unknown"
    LIMIT_CHANGES = "limit-changes"
    BEYOND_RANGE = "beyond-range"
    BLOCK_SIZE = "block-size"
    NO_BLOCKS = "no-blocks"
    MEDIA = "media"
    POOL_UNKNOWN = "pool-unknown"
    NETWORK_UNKNOWN = "network-unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What no result can pass (L0).

    `capacity_iops` is the smallest capacity of the resources that are known, `capacity_of` names
    the resource; None where no resource is known. `floor_s` is the least mean latency, `floor_of`
    its largest part. The throughput with N I/Os in flight is at most min(capacity, N / floor).
    An operation has `io_bytes` of data, None where the size is unknown, or where there are none.
    """

    capacity_iops: float | None
    capacity_of: Station | None
    floor_s: float | None
    floor_of: Station | None
    io_bytes: float | None = None

    @property
    def capacity_bps(self) -> float | None:
        """The bandwidth at the capacity, in bytes per second; None where one of the two is
        unknown."""
        if self.capacity_iops is None or not self.io_bytes:
            return None
        return self.capacity_iops * self.io_bytes

    def most_iops(self, in_flight: int | None) -> float | None:
        """Return the highest rate with so many I/Os in flight (asymptotic bounds, Denning and
        Buzen 1978); None where nothing bounds it."""
        known = [] if self.capacity_iops is None else [self.capacity_iops]
        if in_flight is not None and self.floor_s:
            known.append(in_flight / self.floor_s)
        return min(known, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The assumption that matters most: `elasticity` is the relative change of the expected rate
    for a relative change of the assumption (0.5: 10 % more gives 5 % more)."""

    assumption: str
    station: Station
    elasticity: float


_NOTHING = Estimate(value=0.0, low=0.0, high=0.0)
_UNCHANGED = Estimate(value=1.0, low=1.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What a change of the system does to the I/Os of one operation on one target.

    `added_s` is waited for in no queue (messages, a slower medium), negative where it is saved.
    `capacity` is the storage's capacity after / before; `parallel` the same ratio of the servers
    that I/Os are spread over. `branches` are the copies or shards that an I/O waits for, before and
    after. `in_flight` are the I/Os in flight after it, None: unchanged. `most_iops` are limits of
    other stations after it. `refusals` say why the calibrated model does not apply to the change.
    """

    added_s: Estimate = _NOTHING
    capacity: Estimate = _UNCHANGED
    parallel: float = 1.0
    branches: tuple[int, int] | None = None
    in_flight: int | None = None
    most_iops: Mapping[Station, float] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One operation of a workload on a target at one load.

    `measured` are the figures that were measured (without the refused ones), `modelled` what the
    calibrated model gives for the system as it is, `expected` for the changed one, which is empty
    where `layer` is `BOUNDS`; `refusals` say why. `bound` is of the changed system, `bound_now` of
    the system as it is. `observed` was measured on the changed system, where that is known.
    `in_flight` are the I/Os in flight after the change.
    `limit_before`, `limit_after`: the station that limits the rate.
    """

    target: str
    workload: str
    level: str
    op: Op
    in_flight: int | None
    layer: Layer
    measured: Mapping[Metric, float] = field(default_factory=dict)
    modelled: Mapping[Metric, Estimate] = field(default_factory=dict)
    expected: Mapping[Metric, Estimate] = field(default_factory=dict)
    observed: Mapping[Metric, float] = field(default_factory=dict)
    bound_now: Bound | None = None
    bound: Bound | None = None
    limit_before: Station | None = None
    limit_after: Station | None = None
    sensitivity: Sensitivity | None = None
    refusals: tuple[Refusal, ...] = ()


class LeftOut(StrEnum):
    """What a validation forecasts from the rest of a run: load levels, targets (other redundancy),
    or clusters (other round trips)."""

    DEPTH = "depth"
    TARGET = "target"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastError:
    """How far forecasts were from measurements that the model did not see, for one metric.

    An error is |expected - measured| / measured: `mean`, `median`, 90th percentile and worst over
    `cells`. `coverage` is the share of them whose measurement is within the 90 % interval.
    `refused` cells had bounds only; the numbers are None where all had. `by_repeats` is the mean
    error that the scatter of the repeats leaves to a perfect forecast, None without repeats.
    `source` names the runs or the published curves.
    """

    source: str
    left_out: LeftOut
    metric: Metric
    cells: int
    refused: int
    mean: float | None
    median: float | None
    p90: float | None
    worst: float | None
    coverage: float | None
    by_repeats: float | None = None


# Findings of `leadline predict`, which are not audit rules. Each has a page docs/rules/CODE.md.
UNEXPECTED = "unexpected-performance"
FOUND_BY_PREDICT = {UNEXPECTED: "A rate is outside the interval that the inventory lets expect."}
