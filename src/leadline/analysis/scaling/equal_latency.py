"""How much throughput two load curves give within the same latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.verdicts import Sample
from leadline.findings import Severity
from leadline.metrics import Metric
from leadline.plan.latency_limit import LatencyLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A curve's highest throughput within a latency, I/Os per second, between measured levels.

    `at_least`: no level breaks the limit, so that more load might give more. `iops` is None where
    nothing can be said, and `absence` says why. `left_out` are levels without a latency that may
    be used. `sample` holds the same of every repeat by itself, where each tells all levels.
    """

    iops: float | None
    at_least: bool = False
    left_out: tuple[str, ...] = ()
    absence: str = ""
    sample: Sample


# Throughput and latency of levels by rising load.
_Path = Sequence[tuple[float, float]]


def within(curve: LoadCurve, limit: LatencyLimit, samples: Samples) -> Within:
    """Of the curve's closed-loop levels. Between the last level that keeps the limit and the first
    that breaks it, latency and throughput are taken to rise as a power of each other (a straight
    line of logarithms); nothing is said beyond the levels measured."""
    points = [one for one in curve.closed if one.usable(Metric.IOPS) is not None]
    known = [one for one in points if one.usable(limit.metric) is not None]
    left_out = tuple(one.level for one in curve.closed if one not in known)
    absence = no_latency(curve, limit.metric)
    path = [_figures(one, limit.metric) for one in known]
    if not absence and path[0][1] > limit.below_s:
        absence = f"the lowest level measured is not within {limit}"
    if absence:
        empty = Sample(value=None)
        return Within(iops=None, left_out=left_out, absence=absence, sample=empty)
    value = crossing(path, limit.below_s)
    return Within(
        iops=value,
        at_least=all(latency <= limit.below_s for _, latency in path),
        left_out=left_out,
        sample=_sample(value, known, limit, samples),
    )


def no_latency(curve: LoadCurve, metric: Metric) -> str:
    """Why no closed-loop level has a throughput with this latency, as a clause; else empty."""
    points = [one for one in curve.closed if one.usable(Metric.IOPS) is not None]
    if not points:
        return "no level has a throughput that may be used"
    if any(one.usable(metric) is not None for one in points):
        return ""
    figures = [one.latency(metric) for one in points]
    codes = dict.fromkeys(
        doubt.code for one in figures for doubt in one.doubts if doubt.severity is Severity.ERROR
    )
    return f"latency is refused: {', '.join(codes)}" if codes else "no level has this latency"


def _figures(point: LoadPoint, metric: Metric) -> tuple[float, float]:
    iops, latency = point.usable(Metric.IOPS), point.usable(metric)
    assert iops is not None
    assert latency is not None
    return iops, latency


def crossing(path: _Path, below_s: float) -> float:
    """The highest throughput before latency passes the limit for the first time. `path` begins
    within it."""
    best = 0.0
    for index, (iops, latency) in enumerate(path):
        if latency <= below_s:
            best = max(best, iops)
            continue
        before_iops, before = path[index - 1]
        if min(before_iops, before, iops) > 0:
            share = math.log(below_s / before) / math.log(latency / before)
            best = max(best, before_iops * (iops / before_iops) ** share)
        break
    return best


def _sample(
    value: float, points: Sequence[LoadPoint], limit: LatencyLimit, samples: Samples
) -> Sample:
    """The answer of each repeat: one trial of every level. Empty where a repeat lacks a level, or
    does not begin within the limit."""
    repeats: dict[int | str, list[tuple[float, float]]] = {}
    for point in points:
        rates = {one.trial: one.value for one in point.throughput.trials}
        for one in point.latency(limit.metric).trials:
            rate = rates.get(one.trial)
            if rate is not None and one.value is not None:
                repeats.setdefault(samples.repeat(one.trial), []).append((rate, one.value))
    first = samples.of(points[0].throughput, None)
    trials = [samples.repeat(one.trial) for one in points[0].throughput.trials]
    blocks = dict(zip(trials, first.blocks, strict=False))
    whole = blocks.keys() == repeats.keys() and all(
        len(path) == len(points) and path[0][1] <= limit.below_s for path in repeats.values()
    )
    return Sample(
        value=value,
        trials=tuple(crossing(path, limit.below_s) for path in repeats.values()) if whole else (),
        blocks=tuple(blocks[one] for one in repeats) if whole else (),
        imported=first.imported,
    )
