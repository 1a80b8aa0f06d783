"""Ratios of two samples of positive values: interval, p value, detectable difference, noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean, median

import numpy as np
import numpy.typing as npt

# --- bootstrap of the ratio of two medians ------------------------------------------------------

# The median of n draws with replacement from n values is one of the order statistics (or the middle
# of two), with probabilities that depend on n alone: the bootstrap distribution of independent
# samples is computed exactly, without resamples.

Values = npt.NDArray[np.float64]
Bounds = tuple[Values, Values]
Draws = npt.NDArray[np.int16]

_TAIL = 0.025
# Few paired blocks give too narrow an interval: with 2.5 % at each end it covered 93 % at six and
# seven (docs/adr/0013-verdicts.md). Found by simulation.
_PAIRED_TAILS = {6: 0.01, 7: 0.01, 8: 0.02}
# Points of the distribution with less weight together are omitted: they cannot move a bound of
# 2.5 %, and most points of an even n are such.
_NEGLIGIBLE = 1e-5
_WRITTEN_DOWN = 20
_RESAMPLES = 2_000
_SEED = 20_261_121
# Numbers in memory at once.
_AT_ONCE = 2_000_000


@cache
def median_support(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Values]:
    """Return the support of the bootstrap median of n values: places i <= j (from 0) in the sorted
    values, whose middle (x_i + x_j) / 2 it is, and the probability of each.

    Odd n: P(median <= x_k) = P(Bin(n, k/n) > n/2). Even n = 2m: with i < j exactly m draws end at
    x_i and m begin at x_j. Source: Maritz and Jarrett, JASA 73 (1978) 194, and its extension to
    two order statistics by the same counting.
    """
    half = (n + 1) // 2
    # P(the half-th smallest draw <= x_k), k = 0..n.
    reached = [
        math.fsum(
            math.comb(n, draws) * (k / n) ** draws * (1 - k / n) ** (n - draws)
            for draws in range(half, n + 1)
        )
        for k in range(n + 1)
    ]
    at = {(k, k): reached[k + 1] - reached[k] for k in range(n)}
    if n % 2 == 0:
        for i in range(n):
            ends = ((i + 1) / n) ** half - (i / n) ** half
            for j in range(i + 1, n):
                begins = ((n - j) / n) ** half - ((n - j - 1) / n) ** half
                at[i, j] = math.comb(n, half) * ends * begins
                at[i, i] -= at[i, j]
    places = sorted(at, key=lambda place: at[place])
    weights = np.maximum([at[place] for place in places], 0.0)
    kept = int(np.searchsorted(np.cumsum(weights), _NEGLIGIBLE))
    lower, upper = np.array(places[kept:], dtype=np.intp).T
    return lower, upper, weights[kept:] / weights[kept:].sum()


def median_ratio_bounds(above: Values, below: Values, *, paired: bool) -> Bounds:
    """Compute the ends of a 95 % interval for median(above) / median(below), row by row.

    Shapes (rows, n) and (rows, k), all values positive, at least six per sample. `paired`: column
    i of both is drawn together (n = k). Percentile bootstrap. The result does not depend on the
    order of columns; exchanging the samples inverts it.
    """
    if paired:
        return _paired(above, below, _PAIRED_TAILS.get(above.shape[1], _TAIL))
    if max(above.shape[1], below.shape[1]) <= _WRITTEN_DOWN:
        return _independent(above, below, _TAIL)
    return _drawn(above, below, _TAIL)


def _independent(above: Values, below: Values, tail: float) -> Bounds:
    """Samples resampled independently, by the exact distribution."""
    medians_above, weight_above = _possible_medians(above)
    medians_below, weight_below = _possible_medians(below)
    weights = np.outer(weight_above, weight_below).ravel()
    low, high = np.empty(len(above)), np.empty(len(above))
    step = max(1, _AT_ONCE // weights.size)
    for start in range(0, len(above), step):
        part = slice(start, start + step)
        ratios = medians_above[part, :, None] / medians_below[part, None, :]
        ratios = ratios.reshape(len(ratios), -1)
        order = np.argsort(ratios, axis=1)
        cumulated = np.cumsum(weights[order], axis=1)
        # The smallest r with P(<= r) >= tail, and the largest with P(>= r) >= tail.
        ends = ((low, cumulated >= tail), (high, cumulated > 1 - tail))
        for bound, reached in ends:
            first = np.take_along_axis(order, np.argmax(reached, axis=1)[:, None], axis=1)
            bound[part] = np.take_along_axis(ratios, first, axis=1)[:, 0]
    return low, high


def _possible_medians(values: Values) -> tuple[Values, Values]:
    lower, upper, weights = median_support(values.shape[1])
    ordered = np.sort(values, axis=1)
    return (ordered[:, lower] + ordered[:, upper]) / 2, weights


def _paired(above: Values, below: Values, tail: float) -> Bounds:
    """Columns resampled together, by a fixed set of resamples."""
    # Sorted by a key that depends neither on the order of columns nor on that of the samples.
    order = np.argsort(above * below, axis=1, kind="stable")
    above = np.take_along_axis(above, order, axis=1)
    below = np.take_along_axis(below, order, axis=1)
    drawn = _draws(above.shape[1], _SEED)
    return _ends(above, below, drawn, drawn, tail)


def _drawn(above: Values, below: Values, tail: float) -> Bounds:
    """Samples resampled independently, by a fixed set of resamples: many values, where the exact
    distribution costs more."""
    return _ends(
        np.sort(above, axis=1),
        np.sort(below, axis=1),
        _draws(above.shape[1], _SEED),
        _draws(below.shape[1], _SEED + 1),
        tail,
    )


def _ends(above: Values, below: Values, first: Draws, second: Draws, tail: float) -> Bounds:
    low, high = np.empty(len(above)), np.empty(len(above))
    rank = round(tail * _RESAMPLES)
    step = max(1, _AT_ONCE // first.size)
    for start in range(0, len(above), step):
        part = slice(start, start + step)
        ratios = _medians(above[part], first) / _medians(below[part], second)
        ratios.partition((rank - 1, _RESAMPLES - rank), axis=1)
        low[part], high[part] = ratios[:, rank - 1], ratios[:, _RESAMPLES - rank]
    return low, high


@cache
def _draws(n: int, seed: int) -> Draws:
    """How often each of n places is drawn, in each resample: (_RESAMPLES, n)."""
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    return drawn.astype(np.int16)


def _medians(values: Values, drawn: Draws) -> Values:
    """Compute the median of each resample of each row: (rows, resamples). Counting along the sorted
    row is much faster than sorting every resample."""
    n = values.shape[1]
    order = np.argsort(values, axis=1)
    passed = np.zeros((len(drawn), len(values)), dtype=np.int16)
    lower, upper = np.zeros_like(passed), np.zeros_like(passed)
    for place in range(n - 1):
        passed += drawn[:, order[:, place]]
        lower += passed < (n + 1) // 2
        upper += passed < n // 2 + 1
    ordered = np.take_along_axis(values, order, axis=1).T
    rows = np.arange(len(values))
    medians: Values = (ordered[lower, rows] + ordered[upper, rows]) / 2
    return medians.T


# --- Student's t for means and trimmed means, row by row ----------------------------------------

# The share trimmed at each end: one outlier of five or more values has no influence.
TRIM = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """For each row a `difference`, its standard `error`, and the degrees of `freedom`."""

    difference: Values
    error: Values
    freedom: Values

    def p(self) -> Values:
        """Two-sided, of a difference of zero."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.freedom, -np.abs(self.difference) / self.error))

    def bounds(self) -> tuple[Values, Values]:
        """The ends of the 95 % interval."""
        from scipy.special import stdtrit

        margin = stdtrit(self.freedom, 0.975) * self.error
        return self.difference - margin, self.difference + margin


def independent_difference(
    first: Values, second: Values, *, trim: float = 0.0, least_deviation: float = 0.0
) -> Estimates:
    """Mean of `first` less mean of `second`, shapes (rows, n) and (rows, k), n and k >= 2.

    Welch's test (variances may differ); with `trim` Yuen's, of trimmed means. A standard deviation
    below `least_deviation` counts as that. Source: Yuen, Biometrika 61 (1974) 165.
    """
    mean_1, square_1, freedom_1 = _mean(first, trim, least_deviation)
    mean_2, square_2, freedom_2 = _mean(second, trim, least_deviation)
    square = square_1 + square_2
    # Shares of the sum avoid underflow of squared tiny variances.
    share = square_1 / square
    return Estimates(
        difference=mean_1 - mean_2,
        error=np.sqrt(square),
        freedom=1 / (share**2 / freedom_1 + (1 - share) ** 2 / freedom_2),
    )


def paired_difference(
    differences: Values, *, trim: float = 0.0, least_deviation: float = 0.0
) -> Estimates:
    """Mean (trimmed mean) of the differences, shape (rows, n), n >= 2. Source: Tukey and
    McLaughlin, Sankhya A 25 (1963) 331, with Yuen's standard error."""
    mean, square, freedom = _mean(differences, trim, least_deviation)
    return Estimates(
        difference=mean, error=np.sqrt(square), freedom=np.full(len(differences), float(freedom))
    )


def _mean(values: Values, trim: float, least_deviation: float) -> tuple[Values, Values, int]:
    """Trimmed mean, its squared standard error, its degrees of freedom."""
    n = values.shape[1]
    cut = math.floor(trim * n)
    kept = n - 2 * cut
    ordered = np.sort(values, axis=1)
    within = ordered[:, cut : n - cut]
    winsorised = np.clip(ordered, within[:, :1], within[:, -1:])
    variance = np.maximum(winsorised.var(axis=1, ddof=1), least_deviation**2)
    return within.mean(axis=1), variance * (n - 1) / (kept * (kept - 1)), kept - 1


# From this number on a bootstrap of medians has its nominal coverage.
MANY = 6
# Two pairs leave one degree of freedom: pairing then costs more than it gains.
_PAIRS_FOR_T = 3
# Equal values are rounding, not absence of noise: the standard deviation is at least 0.1 % of the
# value.
_LEAST_DEVIATION = 0.001
_WIDEST = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSamples:
    """Two samples; `paired`: the i-th values of both are a pair."""

    above: tuple[float, ...]
    below: tuple[float, ...]
    paired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEstimate:
    """`interval`: 95 %, of above / below. `p`: two-sided, of a ratio of one.

    `scale` / sqrt(n) is the standard error of the ratio's logarithm with n values per sample.
    `separated`: every value above lies on one side of every value below; of pairs, of its partner.
    `paired`: whether it was estimated in pairs.
    """

    interval: tuple[float, float]
    p: float
    scale: float
    separated: bool
    paired: bool


def estimate_ratios(samples: Sequence[TwoSamples]) -> tuple[RatioEstimate, ...]:
    """Estimate each ratio, in order. Every sample has at least two values, all positive.

    Six values per sample or more: bootstrap of medians; p by t of the logarithms, plain and
    trimmed, the smaller doubled. Fewer: interval and p by Student's t of the logarithms (Welch;
    paired from three pairs on).
    """
    found: dict[int, RatioEstimate] = {}
    for group in _alike(samples):
        above = np.array([samples[index].above for index in group], dtype=np.float64)
        below = np.array([samples[index].below for index in group], dtype=np.float64)
        estimates = _estimate(above, below, paired=samples[group[0]].paired)
        found.update(zip(group, estimates, strict=True))
    return tuple(found[index] for index in range(len(samples)))


def _alike(samples: Sequence[TwoSamples]) -> Iterable[list[int]]:
    """Indices of samples of equal shape, which are computed at once."""
    groups: dict[tuple[int, int, bool], list[int]] = {}
    for index, one in enumerate(samples):
        groups.setdefault((len(one.above), len(one.below), one.paired), []).append(index)
    return groups.values()


def _estimate(above: Values, below: Values, *, paired: bool) -> list[RatioEstimate]:
    fewest = min(above.shape[1], below.shape[1])
    many = fewest >= MANY
    paired = paired and fewest >= _PAIRS_FOR_T
    logs = _differences(above, below, paired=paired)
    p = logs.p()
    if many:
        # The plain test has more power without outliers, the trimmed one with outliers. Both are
        # used; doubling the smaller p corrects for that (Bonferroni).
        logs = _differences(above, below, paired=paired, trim=TRIM)
        p = np.minimum(2 * np.minimum(p, logs.p()), 1.0)
        low, high = median_ratio_bounds(above, below, paired=paired)
    else:
        # Two values per sample may give an unbounded interval: clip it to finite ends.
        low, high = (np.exp(np.clip(bound, -_WIDEST, _WIDEST)) for bound in logs.bounds())
    # Of unequal numbers the harmonic mean has the same standard error.
    number = 2 / (1 / above.shape[1] + 1 / below.shape[1])
    return [
        RatioEstimate(
            interval=(lo, hi),
            p=chance,
            scale=error * math.sqrt(number),
            separated=apart,
            paired=paired,
        )
        for lo, hi, chance, error, apart in zip(
            low.tolist(),
            high.tolist(),
            p.tolist(),
            logs.error.tolist(),
            _separated(above, below, paired=paired).tolist(),
            strict=True,
        )
    ]


def _separated(above: Values, below: Values, *, paired: bool) -> npt.NDArray[np.bool_]:
    if not paired:
        above, below = above[:, :, None], below[:, None, :]
    sides = tuple(range(1, above.ndim))
    return np.asarray((above > below).all(axis=sides) | (above < below).all(axis=sides))


def _differences(above: Values, below: Values, *, paired: bool, trim: float = 0.0) -> Estimates:
    first, second = np.log(above), np.log(below)
    if paired:
        return paired_difference(first - second, trim=trim, least_deviation=_LEAST_DEVIATION)
    return independent_difference(first, second, trim=trim, least_deviation=_LEAST_DEVIATION)


# --- power: detectable difference, and trials that a difference needs ---------------------------

POWER = 0.8
MOST = 1_000
# The standard error of a median is sqrt(pi / 2) that of the mean for normal noise.
_MEDIAN = math.sqrt(math.pi / 2)


@cache
def _multipliers(paired: bool, level: float, power: float) -> npt.NDArray[np.float64]:
    """By n = 2 ... MOST: the difference in units of `scale` that n values per sample detect.

    (t(1 - level/2) + t(power)) / sqrt(n): the usual approximation, which for a power of 80 % has
    76 to 86 % by the non-central t. Its inverse in scipy does not return at
    levels of 1e-7.
    """
    from scipy.special import stdtrit

    n = np.arange(2, MOST + 1)
    freedom = n - 1 if paired else 2 * n - 2
    reach = (stdtrit(freedom, 1 - level / 2) + stdtrit(freedom, power)) / np.sqrt(n)
    return np.asarray(np.where(n >= MANY, _MEDIAN, 1.0) * reach, dtype=np.float64)


def detectable(scale: float, number: float, *, paired: bool = False) -> float:
    """Compute the difference that `number` values per sample (>= 2) detect with 80 % power,
    two-sided at 5 %; `scale` as in RatioEstimate, the difference in the same unit."""
    reach = _multipliers(paired, 0.05, POWER)
    return float(scale * reach[min(math.floor(number), MOST) - 2])


def trials_needed(
    difference: float,
    scale: float,
    *,
    paired: bool = False,
    more_than: int = 1,
    level: float = 0.05,
    power: float = POWER,
) -> int | None:
    """Compute the least number of values per sample, above `more_than`, that detects a true
    `difference` with `power`, two-sided at `level`. None where 1,000 do not suffice, or without a
    difference."""
    if not (difference > 0 and math.isfinite(difference) and math.isfinite(scale)):
        return None
    first = max(more_than + 1, 2)
    enough = np.flatnonzero(_multipliers(paired, level, power)[first - 2 :] * scale <= difference)
    return first + int(enough[0]) if len(enough) else None


# --- two single measurements, with a known distribution of scatter ------------------------------

_NORMAL = NormalDist()
# Equal slices of probability; the answer is then exact to 0.0002.
_SLICES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Coefficients of variation of many repeated measurements: median, 90th percentile and worst
    (shares); log-normal between them."""

    median: float
    ninetieth: float
    worst: float

    def quantile(self, normal: float) -> float:
        """Compute the coefficient at a quantile of the standard normal distribution."""
        spread = math.log(self.ninetieth / self.median) / _NORMAL.inv_cdf(0.9)
        return min(self.median * math.exp(spread * normal), self.worst)


def share_beyond(low: float, high: float, scatter: Scatter) -> float:
    """Compute the share of pairs of single measurements of one system whose ratio lies below `low`
    or above `high` (0 <= low <= 1 <= high).

    log(ratio) of two measurements with a coefficient of variation c is normal with a deviation of
    c sqrt(2): P(c) = Phi(log(low) / (c sqrt 2)) + 1 - Phi(log(high) / (c sqrt 2)), averaged over
    the distribution of c, by the middle of equal slices of probability.
    """
    lower, upper = (math.log(end) if end > 0 else -math.inf for end in (low, high))
    total = 0.0
    for slice_ in range(_SLICES):
        normal = _NORMAL.inv_cdf((slice_ + 0.5) / _SLICES)
        deviation = scatter.quantile(normal) * math.sqrt(2)
        total += _NORMAL.cdf(lower / deviation) + _NORMAL.cdf(-upper / deviation)
    return total / _SLICES


# --- noise floor: difference between two measurements of one system -----------------------------


def noise_floor(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Compute the difference, as a share, below which two measurements of one system do not differ:
    the larger of the difference of their medians and of the 95 % bound of their scatter. None where
    a sample is empty or a value is not positive.

    Scatter: t(0.975) x pooled deviation of the logarithms x sqrt((1/n + 1/k) pi/2), the last factor
    because medians are compared. With one value per sample only the difference counts.
    """
    if not first or not second or not all(0 < value < math.inf for value in (*first, *second)):
        return None
    seen = abs(math.log(median(first) / median(second)))
    logs = [[math.log(value) for value in side] for side in (first, second)]
    return math.expm1(max(seen, _scatter(logs[0], logs[1])))


def _scatter(first: Sequence[float], second: Sequence[float]) -> float:
    from scipy.special import stdtrit

    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return 0.0
    squares = math.fsum((log - fmean(side)) ** 2 for side in (first, second) for log in side)
    pooled = squares / freedom * (1 / len(first) + 1 / len(second))
    return float(stdtrit(freedom, 0.975)) * math.sqrt(pooled * math.pi / 2)


# --- p values adjusted for multiple tests -------------------------------------------------------


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Adjust p values so that in 1 - alpha of families no rejection is wrong, for any dependence.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979) 65."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return tuple(adjusted.tolist())


def benjamini_hochberg(p: Sequence[float]) -> tuple[float, ...]:
    """Adjust p values so that on average at most a share alpha of the rejections is wrong, for
    independent or positively dependent values. Source: Benjamini and Hochberg,
    Journal of the Royal Statistical Society B 57 (1995) 289."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return tuple(adjusted.tolist())
