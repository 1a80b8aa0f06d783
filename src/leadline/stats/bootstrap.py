"""Intervals for a ratio of two medians by bootstrap, exact where the samples are independent.

The median of n draws with replacement from n values is one of the order statistics (or the middle
of two), with probabilities that depend on n alone. So the bootstrap's distribution, which people
estimate from thousands of resamples, can be written down.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Bounds = tuple[Values, Values]
Draws = npt.NDArray[np.int16]

_TAIL = 0.025
# Blocks drawn together give too narrow an interval when they are few: with 2.5 % at each end it
# covered 93 % at six and seven (docs/adr/0013-verdicts.md). Found by simulation.
_PAIRED_TAILS = {6: 0.01, 7: 0.01, 8: 0.02}
# Points of the distribution that together weigh less are left out: they cannot move a bound of
# 2.5 %, and an even n has mostly such points.
_NEGLIGIBLE = 1e-5
_WRITTEN_DOWN = 20
_RESAMPLES = 2_000
_SEED = 20_261_121
# Numbers in memory at once.
_AT_ONCE = 2_000_000


@cache
def median_support(
    n: int,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Values]:
    """What the bootstrap's median of n values can be: places i <= j (from 0) in the sorted values,
    whose middle (x_i + x_j) / 2 it is, and the probability of each.

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
    """The ends of a 95 % interval for median(above) / median(below), row by row.

    Shapes (rows, n) and (rows, k), all values positive, at least six a side. `paired`: column i of
    both belongs together (n = k) and is drawn together. Percentile bootstrap. The result depends
    neither on the order of columns nor, but for inversion, on which side is which.
    """
    if paired:
        return _paired(above, below, _PAIRED_TAILS.get(above.shape[1], _TAIL))
    if max(above.shape[1], below.shape[1]) <= _WRITTEN_DOWN:
        return _independent(above, below, _TAIL)
    return _drawn(above, below, _TAIL)


def _independent(above: Values, below: Values, tail: float) -> Bounds:
    """Each side drawn alone, written down."""
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
    """Columns drawn together, by a fixed set of resamples."""
    # Sorted by what neither the order of columns nor an exchange of sides changes.
    order = np.argsort(above * below, axis=1, kind="stable")
    above = np.take_along_axis(above, order, axis=1)
    below = np.take_along_axis(below, order, axis=1)
    drawn = _draws(above.shape[1], _SEED)
    return _ends(above, below, drawn, drawn, tail)


def _drawn(above: Values, below: Values, tail: float) -> Bounds:
    """Each side drawn alone, by a fixed set of resamples: many values, where writing down costs
    more than it gives."""
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
    """The median of each resample of each row: (rows, resamples). It is found by counting along the
    sorted row, which is much quicker than to sort every resample."""
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
