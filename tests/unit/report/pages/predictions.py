"""Predictions whose every number is known: a pool that saturates, before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import (
    Bound,
    Forecast,
    ForecastError,
    Layer,
    LeftOut,
    Refusal,
    Sensitivity,
    Station,
)
from leadline.analysis.predict.prediction import CurveForecast, Prediction
from leadline.metrics import Metric, Op

DEPTHS = (1, 2, 4, 8, 16, 32)
CHANGES = ("failure_domain=zone", "inter_zone_rtt=1ms")
ERRORS = tuple(
    ForecastError(
        source="perf-20261126-lab", left_out=LeftOut.CLUSTER, metric=metric, cells=72, refused=12,
        mean=0.051, median=0.042, p90=0.11, worst=0.24, coverage=0.91,
    )
    for metric in (Metric.IOPS, Metric.LATENCY_MEAN)
)  # fmt: skip


def rate_at(depth: float, delay_s: float, capacity: float) -> float:
    """Asymptotic bounds, smoothed."""
    light = depth / delay_s
    return light * capacity / (light + capacity)


def interval(value: float, share: float = 0.08) -> Estimate:
    return Estimate(value=value, low=value * (1 - share), high=value * (1 + share))


def estimates(depth: float, delay_s: float, capacity: float) -> Mapping[Metric, Estimate]:
    iops = rate_at(depth, delay_s, capacity)
    return {
        Metric.IOPS: interval(iops),
        Metric.LATENCY_MEAN: interval(depth / iops),
        Metric.LATENCY_P99: interval(4 * depth / iops, 0.4),
    }


def bound(delay_s: float, capacity: float) -> Bound:
    return Bound(
        capacity_iops=1.5 * capacity,
        capacity_of=Station.OSD_CPU,
        floor_s=0.7 * delay_s,
        floor_of=Station.NETWORK,
    )


def calibrated(
    depth: int, *, op: Op = Op.WRITE, target: str = "rep3", added_s: float = 1e-3,
    capacity: float = 12_000.0, workload: str = "random-rw-4k",
) -> Forecast:  # fmt: skip
    delay_s = 0.6e-3 if op is Op.WRITE else 0.3e-3
    modelled = estimates(depth, delay_s, capacity)
    return Forecast(
        target=target,
        workload=workload,
        level=f"iodepth={depth}",
        op=op,
        in_flight=depth,
        layer=Layer.CALIBRATED,
        measured={metric: 1.03 * one.value for metric, one in modelled.items()},
        modelled=modelled,
        expected=estimates(depth, delay_s + added_s, capacity),
        bound_now=bound(delay_s, capacity),
        bound=bound(delay_s + added_s, capacity),
        limit_before=Station.STORAGE,
        limit_after=Station.STORAGE if depth < 32 else Station.OSD_CPU,
        sensitivity=Sensitivity(
            assumption="inter-zone round trip", station=Station.NETWORK, elasticity=-0.72
        ),
    )


def refused(one: Forecast, *reasons: Refusal) -> Forecast:
    """The cell with its bounds alone."""
    return replace(
        one, layer=Layer.BOUNDS, modelled={}, expected={}, sensitivity=None, limit_before=None,
        limit_after=None, refusals=reasons,
    )  # fmt: skip


def curve(op: Op = Op.WRITE, *, target: str = "rep3", added_s: float = 1e-3) -> CurveForecast:
    def between(depth: int) -> Forecast:
        one = calibrated(depth, op=op, target=target, added_s=added_s)
        return replace(one, level="", measured={})

    return CurveForecast(
        target=target,
        workload="random-rw-4k",
        op=op,
        levels=tuple(calibrated(depth, op=op, target=target, added_s=added_s) for depth in DEPTHS),
        between=tuple(map(between, (3, 6, 12, 24))),
    )


def bounds_only(*reasons: Refusal) -> CurveForecast:
    one = refused(calibrated(8, target="one-level"), *reasons)
    return CurveForecast(target="one-level", workload="random-rw-4k", op=Op.WRITE, levels=(one,))


def what_if() -> Prediction:
    """Writes get a round trip, reads a part of it; one target has one load level."""
    return Prediction(
        runs=("perf-1",),
        system="perf-1",
        changes=CHANGES,
        curves=(
            curve(),
            curve(Op.READ, added_s=0.7e-3),
            curve(target="ec-2-1", added_s=2e-3),
            bounds_only(Refusal.ONE_LOAD_LEVEL),
        ),
        errors=ERRORS,
    )


def as_it_is() -> Prediction:
    """No change was requested."""
    return Prediction(
        runs=("perf-1",), system="perf-1", curves=(curve(added_s=0.0),), errors=ERRORS
    )


def against(factor: float = 1.02) -> Prediction:
    """The changed system was measured: `factor` times what was expected."""

    def observed(one: Forecast) -> Forecast:
        expected = one.expected or {Metric.IOPS: interval(5_000.0)}
        return replace(one, observed={m: factor * each.value for m, each in expected.items()})

    found = what_if()
    curves = tuple(replace(one, levels=tuple(map(observed, one.levels))) for one in found.curves)
    return replace(found, curves=curves, changes=(), system="single-zone", against="multi-zone")
