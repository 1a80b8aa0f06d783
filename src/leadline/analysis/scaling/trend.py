"""The end of a load curve: does throughput grow, stay, or fall with more load?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from leadline.analysis.samples import error_codes
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.verdicts import REPEATS_DEVIATION
from leadline.metrics import Metric
from leadline.stats.usl import Unfitted, UslFit, Values, first_without_growth

# Twice the load for less than a tenth more throughput: by Little's law latency then grows by more
# than 1.8 times.
LEAST_GAIN = 0.1

# Growth per doubling of the load within this share of none is flat.
MARGIN = 0.05
# Both ends of a 95 % interval.
_TAIL = 0.025
# A straight line through fewer single trials leaves too few degrees of freedom for their scatter.
_LEAST_FOR_LINE = 4
# A hard limit holds over this many levels and doublings of the load.
_LEAST_LEVELS, _LEAST_DOUBLINGS = 3, 2.0


class Trend(StrEnum):
    """The tested shape of the end of a curve. `flat`: the slope per doubling of the load is within
    the margin. `undecided`: the interval of the slope is not on one side."""

    GROWS = "grows"
    FLAT = "flat"
    FALLS = "falls"
    UNDECIDED = "undecided"


class Scatter(StrEnum):
    """The source of an interval: the trials of all levels; single trials about a straight line; or
    the published scatter of repeats, where these are too few."""

    TRIALS = "trials"
    LEVELS = "levels"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Growth of throughput as a share (0.1: a tenth more), with its 95 % interval; None for single
    trials."""

    share: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dip:
    """A level before the last one that lies below an earlier one by more than the margin, tested,
    though a later one does not: `below` is its rate over the highest before it, minus one."""

    point: LoadPoint
    below: Gain


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a curve: from the level after which no later one brings a tenth per doubling
    (`start`, at least the last level but one) to the last usable level.

    `slope` is the growth for a doubling of the load there, by least squares of the levels' log
    means. `fall` is the last level over the highest, minus one, where the trend is `falls`. With a
    `dip` no line describes the levels: the trend is `undecided`.
    """

    trend: Trend
    start: LoadPoint
    last: LoadPoint
    levels: int
    slope: Gain
    fall: Gain | None
    scatter: Scatter
    dip: Dip | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HardLimit:
    """A throughput (I/Os per second) that levels from `start` on do not exceed, flat to the margin:
    a cap or a saturated device, not a queue that fills slowly."""

    iops: float
    start: LoadPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableLevel:
    """A level above the last usable one. `iops` is its figure, refused by `findings`; None where no
    trial was completed. `share` is the figure over the highest usable one, minus one."""

    point: LoadPoint
    iops: float | None
    share: float | None
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMeans:
    """Usable levels by rising load: mean logarithms of the trials' rates, the number of trials
    behind each, and their pooled variance with its degrees of freedom (0: single trials)."""

    points: tuple[LoadPoint, ...]
    loads: Values
    means: Values
    counts: Values
    variance: float
    freedom: int


def ending_of(levels: LevelMeans) -> Ending | None:
    """Test the end of a curve; None for fewer than two levels.

    Trials decide by their pooled variance and Student's t. The last level is tested against each
    earlier one (Bonferroni), because a line through all levels hides the collapse of one.
    """
    count = len(levels.points)
    if count < 2:
        return None
    start = min(int(first_without_growth(levels.loads, levels.means, LEAST_GAIN)), count - 2)
    slope, error, freedom, scatter = _slope(levels, start)
    half = _quantile(_TAIL, freedom) * error
    low, high = slope - half, slope + half
    least, most = math.log(1 - MARGIN), math.log1p(MARGIN)
    fall = _fall(levels, least)
    dip = None if fall is not None or high < least else _dip(levels, least)
    trend = Trend.UNDECIDED
    if fall is not None or high < least:
        trend = Trend.FALLS
    elif dip is not None:
        pass
    elif low > most:
        trend = Trend.GROWS
    elif low >= least and high <= most:
        trend = Trend.FLAT
    return Ending(
        trend=trend,
        start=levels.points[start],
        last=levels.points[-1],
        levels=count - start,
        slope=Gain(share=math.expm1(slope), interval=(math.expm1(low), math.expm1(high))),
        fall=fall,
        scatter=scatter,
        dip=dip,
    )


def _slope(levels: LevelMeans, start: int) -> tuple[float, float, float, Scatter]:
    """Return the slope of log throughput per doubling of the load, its standard error, degrees of
    freedom and the source of the scatter. Weighted least squares (Draper and Smith, Applied
    Regression Analysis, section 1.3).

    With repeated trials only their scatter counts: the slope is that of the levels' true means,
    whether or not these lie on a line.
    """
    doublings = np.log2(levels.loads[start:])
    means, counts = levels.means[start:], levels.counts[start:]
    centred = doublings - np.average(doublings, weights=counts)
    moment = float((counts * centred**2).sum())
    slope = float((counts * centred * means).sum()) / moment
    if levels.freedom:
        return slope, math.sqrt(levels.variance / moment), levels.freedom, Scatter.TRIALS
    if len(means) >= _LEAST_FOR_LINE:
        off = means - np.average(means, weights=counts) - slope * centred
        freedom = len(means) - 2
        variance = float((counts * off**2).sum()) / freedom
        return slope, math.sqrt(variance / moment), freedom, Scatter.LEVELS
    return slope, REPEATS_DEVIATION / math.sqrt(moment), math.inf, Scatter.PUBLISHED


def _fall(levels: LevelMeans, least: float) -> Gain | None:
    """Return the last level against the highest where it lies below any earlier level by more than
    the margin, tested; else None."""
    count = len(levels.points)
    return _below(levels, count - 1, least, tests=count - 1)


def _dip(levels: LevelMeans, least: float) -> Dip | None:
    """Return the level before the last that lies furthest below the highest before it, where it is
    below any earlier one by more than the margin, tested among all pairs; else None."""
    count = len(levels.points)
    places = range(1, count - 1)
    tests = count * (count - 1) // 2
    found = {at: below for at in places if (below := _below(levels, at, least, tests)) is not None}
    if not found:
        return None
    at = min(found, key=lambda place: found[place].share)
    return Dip(point=levels.points[at], below=found[at])


def _below(levels: LevelMeans, at: int, least: float, tests: int) -> Gain | None:
    """Return a level against the highest before it, where it lies below any earlier level by more
    than the margin; one of `tests` (Bonferroni)."""
    deviation = math.sqrt(levels.variance) if levels.freedom else REPEATS_DEVIATION
    freedom = levels.freedom or math.inf
    errors = deviation * np.sqrt(1 / levels.counts[at] + 1 / levels.counts[:at])
    half = _quantile(_TAIL / tests, freedom) * errors
    below = levels.means[at] - levels.means[:at]
    if not (below + half < least).any():
        return None
    top = int(np.argmin(below))
    ends = below[top] - half[top], below[top] + half[top]
    return Gain(
        share=math.expm1(float(below[top])),
        interval=(math.expm1(float(ends[0])), math.expm1(float(ends[1]))),
    )


def _quantile(tail: float, freedom: float) -> float:
    from scipy.special import ndtri, stdtrit

    return float(-ndtri(tail) if math.isinf(freedom) else -stdtrit(freedom, tail))


def hard_limit(
    levels: LevelMeans, ending: Ending | None, law: UslFit | Unfitted
) -> HardLimit | None:
    """Return the limit of a curve that is flat to the margin over several doublings, where a power
    of the load up to it and a constant from it on describe the levels better than the Universal
    Scalability Law with as many parameters."""
    if ending is None or ending.trend is not Trend.FLAT or ending.levels < _LEAST_LEVELS:
        return None
    start = len(levels.points) - ending.levels
    if math.log2(levels.loads[-1] / levels.loads[start]) < _LEAST_DOUBLINGS:
        return None
    flat = levels.means[start:]
    if start:
        if isinstance(law, Unfitted):
            return None
        squares = float(((flat - flat.mean()) ** 2).sum()) + _about_line(levels, start)
        if squares >= sum(residual**2 for residual in law.residuals):
            return None
    return HardLimit(
        iops=math.exp(float(np.average(flat, weights=levels.counts[start:]))), start=ending.start
    )


def _about_line(levels: LevelMeans, end: int) -> float:
    """Return the squares of the first `end` levels about a power of the load that meets the limit
    at the level `end`: one parameter."""
    at = np.log(levels.loads[: end + 1] / levels.loads[end])
    rates = levels.means[: end + 1] - levels.means[end:].mean()
    power = float((at * rates).sum() / (at**2).sum())
    return float(((rates[:end] - power * at[:end]) ** 2).sum())


def unusable_levels(curve: LoadCurve, usable: Sequence[LoadPoint]) -> tuple[UnusableLevel, ...]:
    """Return the closed-loop levels above the last usable one: their figure is refused, or no trial
    was completed. They take part in no test, and must not hide a collapse."""
    top = max((curve.load_of(point) for point in usable), default=0.0)
    rates = (point.usable(Metric.IOPS) for point in usable)
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    found = []
    for point in curve.closed:
        if point in usable or curve.load_of(point) <= top:
            continue
        iops = point.throughput.value
        found.append(
            UnusableLevel(
                point=point,
                iops=iops,
                share=iops / highest - 1 if iops is not None and highest else None,
                findings=error_codes(point.throughput),
            )
        )
    return tuple(found)
