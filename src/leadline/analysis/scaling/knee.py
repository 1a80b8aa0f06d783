"""Peak and knee of a load curve: the highest throughput, and the end of its growth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import compress

import numpy as np

from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.trend import (
    LEAST_GAIN,
    Ending,
    Gain,
    HardLimit,
    LevelMeans,
    Trend,
    UnusableLevel,
    ending_of,
    hard_limit,
    unusable_levels,
)
from leadline.analysis.verdicts import Pair, Verdict, judge
from leadline.metrics import Metric
from leadline.stats.usl import (
    NoFit,
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

# A knee needs at least so many loads.
LEAST_LOADS = 3
_TAIL = 0.025


class KneeMethod(StrEnum):
    """`gain`: the first level over which no later one brings a tenth more for each doubling of the
    load. `law`: where a doubling brings that by the fitted Universal Scalability Law. `curvature`:
    the level furthest above the straight line across the levels (Kneedle: Satopaa et al.,
    ICDCS workshops 2011)."""

    GAIN = "gain"
    LAW = "law"
    CURVATURE = "curvature"


class NoKneeReason(StrEnum):
    """Why a curve has no knee: fewer than LEAST_LOADS usable loads, throughput that still grows at
    the last level, trials that leave this open, or a fitted knee outside the measured levels."""

    TOO_FEW_LOADS = "too-few-loads"
    STILL_GROWS = "still-grows"
    INCONCLUSIVE = "inconclusive"
    OUTSIDE_LEVELS = "outside-levels"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoKnee:
    """The absence of a knee; `loads` counts those with a usable throughput."""

    reason: NoKneeReason
    loads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadInterval:
    """A 95 % interval of a load, cut to the measured levels. `before`: it begins below the first
    level. `beyond`: it ends at an unknown load above the last one."""

    interval: tuple[float, float]
    before: bool = False
    beyond: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """`load` as the curve counts it; `level` is None where the load lies between levels.

    `interval` (95 %) is cut to the measured levels, as in LoadInterval; None for single trials.
    `absence` is set where `load` is None."""

    method: KneeMethod
    load: float | None = None
    level: str | None = None
    interval: tuple[float, float] | None = None
    before: bool = False
    beyond: bool = False
    absence: NoKnee | Unfitted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The measured level with the highest throughput, I/Os per second.

    `interval` (95 %) is that of the median of six trials or more, else by the scatter of the trials
    of all levels; None for single trials. `ties` are levels that do not differ significantly
    (equivalence margin 5 %). `last`: no higher load was measured."""

    point: LoadPoint
    load: float
    iops: float
    interval: tuple[float, float] | None
    ties: tuple[str, ...]
    last: bool

    @property
    def level(self) -> str:
        return self.point.level


@dataclass(frozen=True, slots=True, kw_only=True)
class LawPeak:
    """The highest throughput of the fitted law. `load` and `iops` are None where it lies outside
    the measured levels."""

    load: float | None
    iops: float | None
    range: LoadInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Peak, end, knees and fitted law of one curve's closed-loop throughput.

    `ending` is the tested shape of the end, None for fewer than two usable levels. `saturated`:
    throughput grows by less than a tenth for twice the load at the last level; None where this is
    inconclusive or one level was measured. `limit` is a hard limit, which has no fitted law.
    `left_out` are levels whose throughput is missing or refused, `unusable_end` those of them above
    the last usable level."""

    curve: LoadCurve
    peak: Peak | None
    ending: Ending | None
    saturated: bool | None
    limit: HardLimit | None
    knees: tuple[Knee, ...]
    law: UslFit | Unfitted
    law_peak: LawPeak | None
    left_out: tuple[str, ...]
    unusable_end: tuple[UnusableLevel, ...]

    def knee(self, method: KneeMethod) -> Knee:
        return next(knee for knee in self.knees if knee.method is method)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels(LevelMeans):
    """`drawn` are resamples of the means, None for single trials."""

    drawn: Values | None


def shape_of(curve: LoadCurve, samples: Samples) -> Shape:
    """Compute peak, end, knees and law of the curve's closed-loop points."""
    usable = [point for point in curve.closed if point.trials(Metric.IOPS)]
    positive = [point for point in usable if min(point.trials(Metric.IOPS)) > 0]
    levels = _levels(curve, positive)
    law = fit_usl([(curve.load_of(level), level.trials(Metric.IOPS)) for level in positive])
    ending = ending_of(levels)
    limit = hard_limit(levels, ending, law)
    if limit is not None:
        law = Unfitted(reason=NoFit.HARD_LIMIT, levels=len(levels.points))
    saturated = _saturated(levels, ending)
    return Shape(
        curve=curve,
        peak=_peak(curve, levels, samples),
        ending=ending,
        saturated=saturated,
        limit=limit,
        knees=(
            _at_level(
                KneeMethod.GAIN, levels, saturated, partial(first_without_growth, least=LEAST_GAIN)
            ),
            _by_law(law),
            _at_level(KneeMethod.CURVATURE, levels, saturated, furthest_above_chord),
        ),
        law=law,
        law_peak=_law_peak(law),
        left_out=tuple(level.level for level in curve.closed if level not in positive),
        unusable_end=unusable_levels(curve, positive),
    )


def _levels(curve: LoadCurve, points: Sequence[LoadPoint]) -> _Levels:
    """Collect one level per load: of several (4 jobs of depth 8, 1 of 32) the fastest."""
    best: dict[float, LoadPoint] = {}
    for point in points:
        other = best.get(curve.load_of(point))
        if other is None or (point.throughput.value or 0) > (other.throughput.value or 0):
            best[curve.load_of(point)] = point
    logs = [np.log(np.asarray(level.trials(Metric.IOPS))) for level in best.values()]
    freedom = sum(len(log) - 1 for log in logs)
    within = sum(float(((log - log.mean()) ** 2).sum()) for log in logs)
    counts = [len(log) for log in logs]
    for number, level in enumerate(best.values()):
        # An imported mean over trials: var(log) = (deviation / mean)^2 by the delta method.
        (first, *others) = level.throughput.trials
        if first.spread is not None and first.value and not others:
            counts[number] = first.spread.number
            freedom += first.spread.number - 1
            within += (first.spread.number - 1) * (first.spread.deviation / first.value) ** 2
    return _Levels(
        points=tuple(best.values()),
        loads=np.array(list(best)),
        means=np.array([log.mean() for log in logs]),
        counts=np.array(counts, dtype=np.float64),
        variance=within / freedom if freedom else 0.0,
        freedom=freedom,
        drawn=drawn_means(logs) if logs else None,
    )


# --- the peak -----------------------------------------------------------------------------------


def _peak(curve: LoadCurve, levels: _Levels, samples: Samples) -> Peak | None:
    if not levels.points:
        return None
    values = [level.usable(Metric.IOPS) or 0.0 for level in levels.points]
    top = int(np.argmax(values))
    point = levels.points[top]
    interval = point.throughput.interval
    if interval is None and levels.drawn is not None:
        interval = _ends(np.exp(levels.drawn[:, top]))
    others = [level for level in levels.points if level is not point]
    best, *rest = (samples.sample(level.throughput, curve.op) for level in (point, *others))
    verdicts = judge([Pair(metric=Metric.IOPS, baseline=best, candidate=sample) for sample in rest])
    tied = (judgement.verdict is not Verdict.WORSE for judgement in verdicts)
    return Peak(
        point=point,
        load=float(levels.loads[top]),
        iops=values[top],
        interval=interval,
        ties=tuple(other.level for other in compress(others, tied)),
        last=bool(levels.loads[top] == levels.loads.max()),
    )


def _law_peak(law: UslFit | Unfitted) -> LawPeak | None:
    if isinstance(law, Unfitted):
        return None
    ends = law.peak_load_interval
    return LawPeak(
        load=law.peak_load if law.peak_measured else None,
        iops=law.curve.at(law.peak_load) if law.peak_measured else None,
        range=_cut(ends.low, ends.high, law.loads),
    )


# --- saturation and knees -----------------------------------------------------------------------


def _gain_to_last(levels: _Levels, start: int) -> Gain | None:
    """Growth per doubling from the level at index `start` (-2: the last but one) to the last."""
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


def _saturated(levels: _Levels, ending: Ending | None) -> bool | None:
    """Whether growth at the last level is small. Growth per doubling only falls along a load curve:
    if the average of the last two steps is small, the last one is small too."""
    if ending is None or ending.dip is not None:
        return None
    if ending.trend in (Trend.FLAT, Trend.FALLS):
        return True
    gains = [ending.slope]
    if levels.drawn is not None:
        gains = [gain for start in (-2, -3) if (gain := _gain_to_last(levels, start)) is not None]
    bounds = [gain.interval for gain in gains if gain.interval is not None]
    if bounds and bounds[0][0] >= LEAST_GAIN:
        return False
    return True if any(high < LEAST_GAIN for _, high in bounds) else None


def _at_level(
    method: KneeMethod,
    levels: _Levels,
    saturated: bool | None,
    place: Callable[[Values, Values], Places],
) -> Knee:
    """The knee at the level that `place` finds, with the interval of the levels that it finds in
    resamples."""
    loads = len(levels.points)
    if loads < LEAST_LOADS or not saturated:
        reason = NoKneeReason.INCONCLUSIVE if saturated is None else NoKneeReason.STILL_GROWS
        reason = NoKneeReason.TOO_FEW_LOADS if loads < LEAST_LOADS else reason
        return Knee(method=method, absence=NoKnee(reason=reason, loads=loads))
    index = int(place(levels.loads, levels.means))
    interval = None
    if levels.drawn is not None:
        interval = _ends(levels.loads[place(levels.loads, levels.drawn)])
    return Knee(
        method=method,
        load=float(levels.loads[index]),
        level=levels.points[index].level or None,
        interval=interval,
        # A resample whose last gain is large has its knee beyond the levels.
        beyond=interval is not None and interval[1] == float(levels.loads[-1]),
    )


def _by_law(law: UslFit | Unfitted) -> Knee:
    if isinstance(law, Unfitted):
        return Knee(method=KneeMethod.LAW, absence=law)
    curve, drawn = law.curve, law.resampled
    parameters = np.array([curve.contention]), np.array([curve.coherence])
    load = float(usl_doubling_loads(*parameters, LEAST_GAIN)[0])
    low, high = _ends(usl_doubling_loads(drawn[:, 1], drawn[:, 2], LEAST_GAIN))
    # Twice the load must be measured as well.
    within = (law.loads[0], law.loads[-1] / 2)
    outside = not within[0] <= load <= within[1]
    cut = _cut(low, high, within)
    absence = NoKnee(reason=NoKneeReason.OUTSIDE_LEVELS, loads=len(law.loads))
    return Knee(
        method=KneeMethod.LAW,
        load=None if outside else load,
        interval=cut.interval,
        before=cut.before,
        beyond=cut.beyond,
        absence=absence if outside else None,
    )


def _cut(low: float, high: float, within: Sequence[float]) -> LoadInterval:
    """Cut an interval to the measured loads."""
    first, last = within[0], within[-1]
    return LoadInterval(
        interval=(min(max(low, first), last), min(max(high, first), last)),
        before=low < first,
        beyond=high > last,
    )


def _ends(values: Values) -> tuple[float, float]:
    low, high = np.quantile(values, (_TAIL, 1 - _TAIL), method="inverted_cdf")
    return float(low), float(high)
