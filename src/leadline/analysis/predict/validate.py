"""Forecasts of measurements that the model did not see, and how far they were off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from leadline.analysis.bottleneck.evidence import LevelEvidence
from leadline.analysis.predict.calibrate import Projection, calibrate, forecast
from leadline.analysis.predict.facts import METRICS, ForecastError, LeftOut, Refusal, Shift
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.metrics import Metric

# Levels that remain where one is left out: fewer identify no network.
_LEAST_LEVELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCurve:
    """A load curve with the evidence of its levels, by their names. `cluster` is empty where the
    target is on none; targets of two clusters are the same system where `system` is the same.
    `network_s` is the time of an I/O's messages."""

    curve: LoadCurve
    evidence: Mapping[str, LevelEvidence] = field(default_factory=dict)
    cluster: str = ""
    system: str = ""
    network_s: float = 0.0


# What changes from the system of one curve to that of another, for the same operation.
ShiftOf = Callable[[MeasuredCurve, MeasuredCurve], Shift]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A forecast of one point that the model did not see."""

    curve: LoadCurve
    point: LoadPoint
    projection: Projection


def validate(
    curves: Sequence[MeasuredCurve], left_out: LeftOut, shift_of: ShiftOf
) -> tuple[Attempt, ...]:
    """Forecast what is left out, from the rest.

    `depth`: each load level from the others of its curve. `cluster`: the curves of a system on
    every other cluster from those on its first one. `target`: the curves of every other target of a
    cluster from those of its first one.
    """
    if left_out is LeftOut.DEPTH:
        return tuple(attempt for measured in curves for attempt in leave_levels(measured))
    return tuple(
        attempt
        for source, other in _pairs(curves, left_out)
        for attempt in _carried_over(source, other, shift_of(source, other))
    )


def leave_levels(
    measured: MeasuredCurve, sets: Iterable[frozenset[int]] | None = None
) -> Iterator[Attempt]:
    """Forecast levels from the others of their curve: each set of loads (I/Os in flight) at once,
    each load alone where no sets are given. Sets that leave fewer than three loads are skipped."""
    loads = {point.load.in_flight for point in _trusted(measured.curve)}
    for out in sets or [frozenset([load]) for load in sorted(loads)]:
        if len(loads - out) < _LEAST_LEVELS:
            continue
        closed = (point for point in measured.curve.closed if point.load.in_flight not in out)
        curve = replace(measured.curve, closed=tuple(closed))
        rest = calibrate(curve, measured.evidence, measured.network_s)
        for point in _trusted(measured.curve):
            if point.load.in_flight in out:
                found = (
                    Projection(refusals=(rest,))
                    if isinstance(rest, Refusal)
                    else forecast(rest, Shift(), point.load.in_flight)
                )
                yield Attempt(curve=measured.curve, point=point, projection=found)


def _trusted(curve: LoadCurve) -> list[LoadPoint]:
    return [point for point in curve.closed if point.usable(Metric.IOPS)]


def _pairs(
    curves: Sequence[MeasuredCurve], left_out: LeftOut
) -> Iterator[tuple[MeasuredCurve, MeasuredCurve]]:
    """Yield each curve that is left out behind the one that it is forecast from."""
    first: dict[tuple[str, ...], MeasuredCurve] = {}
    for measured in curves:
        common = measured.system if left_out is LeftOut.CLUSTER else measured.cluster
        curve = measured.curve
        source = first.setdefault((common, curve.workload, curve.op.value), measured)
        apart = source.cluster if left_out is LeftOut.CLUSTER else source.curve.target
        here = measured.cluster if left_out is LeftOut.CLUSTER else curve.target
        if apart != here:
            yield source, measured


def _carried_over(source: MeasuredCurve, other: MeasuredCurve, shift: Shift) -> Iterator[Attempt]:
    known = calibrate(source.curve, source.evidence, source.network_s)
    for point in _trusted(other.curve):
        found = (
            Projection(refusals=(known,))
            if isinstance(known, Refusal)
            else forecast(known, shift, point.load.in_flight)
        )
        yield Attempt(curve=other.curve, point=point, projection=found)


def forecast_errors(
    attempts: Sequence[Attempt], source: str, left_out: LeftOut
) -> tuple[ForecastError, ...]:
    """Compare forecasts with what was measured, for each metric with a forecast or a refusal."""
    found = []
    for metric in METRICS:
        errors, scatter, inside, refused = [], [], 0, 0
        for attempt in attempts:
            measured = attempt.point.usable(metric)
            expected = attempt.projection.expected.get(metric)
            if not measured:
                continue
            if expected is None:
                refused += 1
                continue
            errors.append(abs(expected.value - measured) / measured)
            inside += expected.low <= measured <= expected.high
            scatter.append(attempt.point.trials(metric))
        if not errors and not refused:
            continue
        found.append(
            ForecastError(
                source=source,
                left_out=left_out,
                metric=metric,
                cells=len(errors),
                refused=refused,
                mean=float(np.mean(errors)) if errors else None,
                median=float(np.median(errors)) if errors else None,
                p90=float(np.quantile(errors, 0.9)) if errors else None,
                worst=max(errors, default=None),
                coverage=inside / len(errors) if errors else None,
                by_repeats=error_by_repeats(scatter),
            )
        )
    return tuple(found)


def error_by_repeats(cells: Iterable[Sequence[float]]) -> float | None:
    """Return the mean |error| of a perfect forecast of the medians of the cells' trials.

    Of n normal values with the standard deviation s, the median has the variance
    pi s^2 / (2 n + pi - 2) (2 % too low for 3, right for many; of two it is their mean), and the
    mean of |x| is sqrt(2 / pi) standard deviations. s is that of all cells together, relative to
    their means.
    """
    repeated = [values for values in cells if len(values) > 1]
    if not repeated:
        return None
    relative = np.sqrt(np.mean([np.var(one, ddof=1) / np.mean(one) ** 2 for one in repeated]))
    counts = np.array([len(one) for one in repeated])
    of_medians = np.where(counts > 2, np.pi / (2 * counts + np.pi - 2), 1 / counts)
    return float(relative * np.mean(np.sqrt(2 / np.pi * of_medians)))
