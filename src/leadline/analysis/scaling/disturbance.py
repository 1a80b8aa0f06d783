"""A level beside neighbours against the same level alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint
from leadline.analysis.verdicts import Judgement, Pair, judge
from leadline.metrics import Metric, Op

METRICS: tuple[Metric, ...] = (Metric.IOPS, *LATENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One metric beside neighbours: its value (None where it is missing or refused), and its ratio
    to the one without neighbours with interval and verdict."""

    metric: Metric
    value: float | None
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbedRow:
    """A level beside so many neighbours; `effects` in the order of METRICS."""

    neighbours: int
    point: LoadPoint
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One load alone, and beside more and more neighbours."""

    curve: LoadCurve
    alone: LoadPoint
    rows: tuple[DisturbedRow, ...]


def disturbances(curve: LoadCurve, samples: Samples) -> tuple[Disturbance, ...]:
    """For each level that was measured alone and beside neighbours; none without the level alone,
    to which nothing could be held."""
    found = []
    for alone in (*curve.closed, *curve.offered):
        driven = [one for one in curve.disturbed if _load(one) == _load(alone)]
        if driven:
            found.append(
                Disturbance(curve=curve, alone=alone, rows=_rows(alone, driven, samples, curve.op))
            )
    return tuple(found)


def _load(point: LoadPoint) -> tuple[object, ...]:
    load = point.load
    return load.clients, load.numjobs, load.iodepth, load.offered_iops


def _rows(
    alone: LoadPoint, driven: Sequence[LoadPoint], samples: Samples, op: Op
) -> tuple[DisturbedRow, ...]:
    pairs = [
        Pair(
            metric=metric,
            baseline=samples.of(alone.figure.metric(metric), op),
            candidate=samples.of(point.figure.metric(metric), op),
        )
        for point in driven
        for metric in METRICS
    ]
    judged = iter(judge(pairs))
    return tuple(
        DisturbedRow(
            neighbours=point.load.neighbours,
            point=point,
            effects=tuple(
                Effect(metric=metric, value=point.usable(metric), judgement=next(judged))
                for metric in METRICS
            ),
        )
        for point in driven
    )
