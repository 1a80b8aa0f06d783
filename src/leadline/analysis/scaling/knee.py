"""Where a load curve's throughput is highest, and from where on more load brings little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.verdicts import Pair, Samples, Verdict, judge
from leadline.metrics import Metric
from leadline.stats.usl import (
    Places,
    Unfitted,
    UslFit,
    Values,
    drawn_means,
    first_without_growth,
    fit_usl,
    furthest_above_chord,
    growth_per_doubling,
    usl_doubling_loads,
)

# Twice the load for less than a tenth more throughput: by Little's law latency then grows by more
# than 1.8 times.
LEAST_GAIN = 0.1
_TAIL = 0.025
NOT_WITHIN = "not within the levels measured"


class KneeMethod(StrEnum):
    """`gain`: the first level over which no later one brings a tenth more for each doubling of the
    load. `law`: where a doubling brings that by the fitted Universal Scalability Law. `curvature`:
    the level furthest above the straight line across the levels (Kneedle: Satopaa et al.,
    ICDCS workshops 2011)."""

    GAIN = "gain"
    LAW = "law"
    CURVATURE = "curvature"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A 95 % interval of a load, cut to the levels measured. `before`: its lower end lies below the
    first of them; `beyond`: its upper end lies above the last, nobody knows how far."""

    low: float
    high: float
    before: bool = False
    beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """`load` in the curve's own count, `level` where it is one that was measured, else empty.

    `range` is None where single trials tell no scatter. `absence` says why `load` is None."""

    method: KneeMethod
    load: float | None = None
    level: str = ""
    range: Range | None = None
    absence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The level with the highest throughput among those measured, I/Os per second.

    `interval` is that of the median of its trials where six and more tell it, else by the scatter
    of the trials of all levels; None for single trials. `ties` are levels that no verdict sets
    apart from it (band 5 %). `last`: no higher load was measured."""

    point: LoadPoint
    load: float
    iops: float
    interval: tuple[float, float] | None
    ties: tuple[str, ...]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a doubling of the load brings from the last level but one to the last, as a share (0.1:
    a tenth more), with its 95 % interval; None for single trials."""

    share: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LawPeak:
    """The fitted law's highest throughput: never beyond the levels measured.

    `load` and `iops` are None where it lies outside."""

    load: float | None
    iops: float | None
    range: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is said of one curve's closed-loop throughput.

    `saturated`: throughput no longer grows at the last level (by a tenth for twice the load); None
    where the trials leave that open, or one level alone was measured. `left_out` are levels whose
    throughput is missing or refused."""

    curve: LoadCurve
    peak: Peak | None
    saturated: bool | None
    last_gain: Gain | None
    knees: tuple[Knee, ...]
    law: UslFit | Unfitted
    law_peak: LawPeak | None
    left_out: tuple[str, ...]

    def knee(self, method: KneeMethod) -> Knee:
        return next(one for one in self.knees if one.method is method)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """Usable levels by rising load. `means` are mean logarithms of the trials' rates, `drawn` their
    resamples, None for single trials."""

    points: tuple[LoadPoint, ...]
    loads: Values
    means: Values
    drawn: Values | None


def shape_of(curve: LoadCurve, samples: Samples) -> Shape:
    """Peak, knee and law of the curve's closed-loop points."""
    usable = [point for point in curve.closed if point.trials(Metric.IOPS)]
    positive = [point for point in usable if min(point.trials(Metric.IOPS)) > 0]
    levels = _levels(curve, positive)
    law = fit_usl([(curve.load_of(one), one.trials(Metric.IOPS)) for one in positive])
    saturated = _saturated(levels)
    return Shape(
        curve=curve,
        peak=_peak(curve, levels, samples),
        saturated=saturated,
        last_gain=_gain_to_last(levels, -2),
        knees=(
            _at_level(KneeMethod.GAIN, levels, saturated, _without_gain),
            _by_law(law),
            _at_level(KneeMethod.CURVATURE, levels, saturated, furthest_above_chord),
        ),
        law=law,
        law_peak=_law_peak(law),
        left_out=tuple(one.level for one in curve.closed if one not in positive),
    )


def _levels(curve: LoadCurve, points: Sequence[LoadPoint]) -> _Levels:
    """Where several levels are one load (4 jobs of depth 8, one of 32), the one that did most."""
    best: dict[float, LoadPoint] = {}
    for point in points:
        other = best.get(curve.load_of(point))
        if other is None or (point.throughput.value or 0) > (other.throughput.value or 0):
            best[curve.load_of(point)] = point
    logs = [np.log(np.asarray(one.trials(Metric.IOPS))) for one in best.values()]
    return _Levels(
        points=tuple(best.values()),
        loads=np.array(list(best)),
        means=np.array([one.mean() for one in logs]),
        drawn=drawn_means(logs) if logs else None,
    )


# --- the peak -----------------------------------------------------------------------------------


def _peak(curve: LoadCurve, levels: _Levels, samples: Samples) -> Peak | None:
    if not levels.points:
        return None
    values = [one.usable(Metric.IOPS) or 0.0 for one in levels.points]
    top = int(np.argmax(values))
    point = levels.points[top]
    interval = point.throughput.interval
    if interval is None and levels.drawn is not None:
        interval = _ends(np.exp(levels.drawn[:, top]))
    others = [one for one in levels.points if one is not point]
    best = samples.of(point.throughput, curve.op)
    verdicts = judge(
        [
            Pair(metric=Metric.IOPS, baseline=best, candidate=samples.of(one.throughput, curve.op))
            for one in others
        ]
    )
    return Peak(
        point=point,
        load=float(levels.loads[top]),
        iops=values[top],
        interval=interval,
        ties=tuple(
            one.level
            for one, judged in zip(others, verdicts, strict=True)
            if judged.verdict is not Verdict.WORSE
        ),
        last=bool(levels.loads[top] == levels.loads.max()),
    )


def _law_peak(law: UslFit | Unfitted) -> LawPeak | None:
    if isinstance(law, Unfitted):
        return None
    ends = law.peak_load_interval
    return LawPeak(
        load=law.peak_load if law.peak_measured else None,
        iops=law.curve.at(law.peak_load) if law.peak_measured else None,
        range=_range(ends.low, ends.high, law.loads),
    )


# --- saturation and knees -----------------------------------------------------------------------


def _gain_to_last(levels: _Levels, start: int) -> Gain | None:
    """For each doubling from the level `start` (from the end: -2) to the last."""
    if len(levels.loads) < -start:
        return None
    pair = [start, -1]
    drawn = levels.drawn
    return Gain(
        share=float(growth_per_doubling(levels.loads[pair], levels.means[pair])[0]),
        interval=None
        if drawn is None
        else _ends(growth_per_doubling(levels.loads[pair], drawn[:, pair])[:, 0]),
    )


def _saturated(levels: _Levels) -> bool | None:
    """From the last level but one, or but two, to the last: growth for each doubling only ever
    falls along a load curve, so that what is small on average of two steps is small in the last."""
    last, longer = _gain_to_last(levels, -2), _gain_to_last(levels, -3)
    if last is None:
        return None
    if _bounds(last)[0] >= LEAST_GAIN:
        return False
    small = any(one is not None and _bounds(one)[1] < LEAST_GAIN for one in (last, longer))
    return True if small else None


def _bounds(gain: Gain) -> tuple[float, float]:
    return gain.interval or (gain.share, gain.share)


def _refusal(levels: _Levels, saturated: bool | None) -> str:
    if len(levels.points) < 3:
        told = "1 load has" if len(levels.points) == 1 else f"{len(levels.points)} loads have"
        return f"{told} a throughput that may be used, and a knee needs three"
    if saturated is False:
        return f"throughput still grows at the last level: {NOT_WITHIN}"
    if saturated is None:
        return "the trials leave open whether throughput still grows at the last level"
    return ""


def _at_level(
    method: KneeMethod,
    levels: _Levels,
    saturated: bool | None,
    place: Callable[[Values, Values], Places],
) -> Knee:
    """The level that `place` finds, and between which levels it finds it in resamples."""
    refusal = _refusal(levels, saturated)
    if refusal:
        return Knee(method=method, absence=refusal)
    index = int(place(levels.loads, levels.means))
    found = None
    if levels.drawn is not None:
        low, high = _ends(levels.loads[place(levels.loads, levels.drawn)])
        top = float(levels.loads[-1])
        # A resample whose last gain is large has its knee beyond the levels.
        found = Range(low=low, high=high, beyond=high == top)
    return Knee(
        method=method,
        load=float(levels.loads[index]),
        level=levels.points[index].level,
        range=found,
    )


def _without_gain(loads: Values, logs: Values) -> Places:
    return first_without_growth(loads, logs, LEAST_GAIN)


def _by_law(law: UslFit | Unfitted) -> Knee:
    method = KneeMethod.LAW
    if isinstance(law, Unfitted):
        return Knee(method=method, absence=law.reason)
    one, drawn = law.curve, law.resampled
    asked = np.array([one.contention]), np.array([one.coherence])
    load = float(usl_doubling_loads(*asked, LEAST_GAIN)[0])
    low, high = _ends(usl_doubling_loads(drawn[:, 1], drawn[:, 2], LEAST_GAIN))
    # Twice the load must have been measured, too.
    within = (law.loads[0], law.loads[-1] / 2)
    found = _range(low, high, within)
    if not within[0] <= load <= within[1]:
        return Knee(method=method, range=found, absence=NOT_WITHIN)
    return Knee(method=method, load=load, range=found)


def _range(low: float, high: float, within: Sequence[float]) -> Range:
    first, last = within[0], within[-1]
    return Range(
        low=min(max(low, first), last),
        high=min(max(high, first), last),
        before=low < first,
        beyond=high > last,
    )


def _ends(values: Values) -> tuple[float, float]:
    low, high = np.quantile(values, (_TAIL, 1 - _TAIL), method="inverted_cdf")
    return float(low), float(high)
