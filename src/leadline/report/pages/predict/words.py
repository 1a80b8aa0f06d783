"""Words of forecasts: one text for each fact of the analysis."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.expected import Direction, ExpectedRate
from leadline.analysis.predict.facts import (
    UNEXPECTED,
    Bound,
    Forecast,
    ForecastError,
    Layer,
    LeftOut,
    Refusal,
    Sensitivity,
    Station,
)
from leadline.archive.runs import BEFORE_NAME
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.report.words import (
    change_text,
    count_text,
    percent_text,
    value_text,
)

LAYERS = {
    Layer.BOUNDS: "bounds",
    Layer.CALIBRATED: "model",
}

STATIONS = {
    Station.CLIENT: "client",
    Station.CLIENT_LINK: "client's link",
    Station.NETWORK: "network delay",
    Station.OSD_CPU: "OSD cores",
    Station.OSD_LINK: "OSD link",
    Station.COMMIT: "commit",
    Station.MEDIUM: "medium",
    Station.MDS: "MDS",
    Station.TARGET_CORES: "target cores",
    Station.RECEIVE: "zfs receive",
    Station.STORAGE: "storage as a whole",
}

REFUSALS = {
    Refusal.NO_TRUSTED_CELL: "the audit refuses every level of the curve, or none was measured",
    Refusal.ONE_LOAD_LEVEL: (
        "one load level: capacity, delay without load and number of servers cannot be identified"
    ),
    Refusal.TWO_LOAD_LEVELS: ("two load levels: the number of servers cannot be identified"),
    Refusal.OPEN_LOOP: "open loop: the rate is offered, not found",
    Refusal.UNSTABLE: "the offered rate exceeds the capacity: the queue grows without bound",
    Refusal.MISFIT: "no closed queueing network fits the measured levels",
    Refusal.LIMIT_UNKNOWN: "the station that limits the rate is unknown",
    Refusal.LIMIT_CHANGES: "another station limits the rate after the change",
    Refusal.BEYOND_RANGE: "the load is beyond the validated range of the measured levels",
    Refusal.BLOCK_SIZE: "the block size changes by more than 4 times",
    Refusal.NO_BLOCKS: "the work is no I/O of blocks: files are created, or a stream is received",
    Refusal.MEDIA: "the change is to other media",
    Refusal.POOL_UNKNOWN: "the pool of the target is unknown",
    Refusal.NETWORK_UNKNOWN: "the round trips between places are unknown",
}
# What gives the missing fact.
REMEDIES = {
    Refusal.NO_TRUSTED_CELL: "`leadline audit` names what to mend in the measurement.",
    Refusal.ONE_LOAD_LEVEL: "Measure three depths: `levels: [{iodepth: 1}, {iodepth: 4}, ...]`.",
    Refusal.TWO_LOAD_LEVELS: "Measure a third depth.",
    Refusal.OPEN_LOOP: "Measure the workload in a closed loop, without `rate_iops`.",
    Refusal.UNSTABLE: "Offer less than the capacity.",
    Refusal.MISFIT: "`leadline scale` shows the levels, and where the rate falls.",
    Refusal.LIMIT_UNKNOWN: "Record the cluster's counters: name the cluster in the plan.",
    Refusal.LIMIT_CHANGES: "Measure the changed system; the bounds hold.",
    Refusal.BEYOND_RANGE: "Measure a level near the requested load.",
    Refusal.BLOCK_SIZE: "Measure the block size.",
    Refusal.NO_BLOCKS: "No model is calibrated for it; `leadline show` has what was measured.",
    Refusal.MEDIA: "Measure on the other media.",
    Refusal.POOL_UNKNOWN: "Name the cluster in the plan, or import facts with --inventory.",
    Refusal.NETWORK_UNKNOWN: "State them: `--set inter_zone_rtt=1ms`.",
}
ASSUMPTIONS = {
    "capacity": "capacity",
    "delay": "delay without load",
    "added-delay": "added delay",
}
LEFT_OUT = {
    LeftOut.DEPTH: "load levels left out",
    LeftOut.TARGET: "targets left out",
    LeftOut.CLUSTER: "clusters left out",
}


def estimate_text(metric: Metric, estimate: Estimate) -> str:
    """Format an interval: `7,100 to 9,300`."""
    return f"{value_text(metric, estimate.low)} to {value_text(metric, estimate.high)}"


def change_of(forecast: Forecast, metric: Metric) -> Estimate | None:
    """Return expected / modelled as ratios, so that the model's own error cancels in the value; the
    interval is that of the expectation. None without both."""
    before, after = forecast.modelled.get(metric), forecast.expected.get(metric)
    if before is None or after is None or before.value <= 0:
        return None
    value = after.value / before.value
    return Estimate(
        value=value,
        low=min(value, after.low / before.value),
        high=max(value, after.high / before.value),
    )


def limit_text(forecast: Forecast) -> str:
    """Format the station that limits the rate: `OSD cores`, `OSD cores → medium`."""
    before, after = forecast.limit_before, forecast.limit_after
    names = [STATIONS[station] for station in (before, after) if station is not None]
    return " → ".join(dict.fromkeys(names))


def sensitivity_text(sensitivity: Sensitivity) -> str:
    """Format an assumption with the change of the rate for 10 % more of it: `inter-zone round trip
    (-7.2 %)`. A code without words is shown as it is."""
    effect = max(0.0, 1 + 0.1 * sensitivity.elasticity)
    name = ASSUMPTIONS.get(sensitivity.assumption, sensitivity.assumption)
    return f"{name} ({change_text(effect)})"


def refusals_text(refusals: Iterable[Refusal]) -> str:
    return "; ".join(REFUSALS[reason] for reason in refusals)


def refusal_names(refusals: Iterable[Refusal]) -> str:
    """Format reasons for a cell of a table: `one load level`."""
    return ", ".join(reason.value.replace("-", " ") for reason in refusals)


def refusal_lines(forecasts: Sequence[Forecast]) -> list[tuple[Refusal, int]]:
    """Count the cells of each reason, the most frequent first."""
    return Counter(reason for one in forecasts for reason in one.refusals).most_common()


def rate_of(forecast: Forecast) -> Metric:
    """Return the rate of a cell: the bandwidth of a stream, else IOPS."""
    bound = forecast.bound
    received = bound is not None and bound.capacity_of is Station.RECEIVE
    return Metric.BANDWIDTH if received else Metric.IOPS


def most_text(bound: Bound | None, in_flight: int | None, metric: Metric) -> str:
    """Format what no result can pass: `≤ 12,300`, `≥ 1.2 ms`; empty where unknown. Percentiles
    have no bound."""
    if bound is None:
        return ""
    if metric is Metric.IOPS:
        most = bound.most_iops(in_flight)
        return "" if most is None else f"≤ {value_text(metric, most)}"
    if metric is Metric.BANDWIDTH and bound.capacity_bps is not None:
        return f"≤ {value_text(metric, bound.capacity_bps)}"
    if metric is Metric.LATENCY_MEAN and bound.floor_s:
        return f"≥ {value_text(metric, bound.floor_s)}"
    return ""


def in_flight_text(in_flight: int | None) -> str:
    return "" if in_flight is None else f"{in_flight:,} in flight"


def error_text(error: ForecastError) -> str:
    """Format a validated error in a clause: `median 4.2 %, 90 % of cells within 11.0 %`."""
    return (
        f"median {percent_text(error.median or 0.0)}, 90 % of "
        f"{count_text(error.cells, 'cell')} within {percent_text(error.p90 or 0.0)}"
    )


def source_text(error: ForecastError) -> str:
    """Name the runs of a validation, without their dates."""
    return re.sub(rf"\b{BEFORE_NAME}", "", error.source)


# What takes less, or more, than was assumed, by the direction of a rate outside its interval.
_EXPLAINED = {
    Direction.ABOVE: "An I/O that needs less of the {station} than usual would explain it, or a "
    "cache.",
    Direction.BELOW: "A slower or busier {station} than usual would explain it.",
}
_CHECKS = {
    Direction.ABOVE: "Check whether a cache answered, and whether the inventory is that of the "
    "measured system.",
    Direction.BELOW: "`leadline scale` names what limited the level, by its counters.",
}


def unexpected_finding(rate: ExpectedRate) -> Finding | None:
    """Write the finding `unexpected-performance`; None for a rate inside its interval."""
    direction, station, expected = rate.direction, rate.station, rate.expected
    if direction is None or station is None:
        return None
    low, high = (value_text(Metric.IOPS, end) for end in (expected.low, expected.high))
    return Finding(
        code=UNEXPECTED,
        severity=Severity.INFO,
        target=rate.target,
        workload=rate.workload,
        level=rate.level,
        op=rate.op,
        evidence={
            "iops": rate.iops,
            "expected_low_iops": expected.low,
            "expected_high_iops": expected.high,
            "in_flight": rate.in_flight,
        },
        message=f"{value_text(Metric.IOPS, rate.iops)} IOPS with "
        f"{in_flight_text(rate.in_flight)} are {direction.value} the {low} to {high} that the "
        f"inventory lets expect. {_EXPLAINED[direction].format(station=STATIONS[station])}",
        remedy=_CHECKS[direction],
    )


def unexpected_findings(rates: Iterable[ExpectedRate]) -> tuple[Finding, ...]:
    return tuple(found for rate in rates if (found := unexpected_finding(rate)) is not None)
