"""The distribution-free interval of a median, and outliers: what a few trials allow to say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

# 2 x (1/2)^n must not exceed 5 %: true from n = 6 on.
TRIALS_FOR_INTERVAL = 6
# Below five values the median absolute deviation is one or two gaps: it would accuse at random.
TRIALS_FOR_OUTLIERS = 5
_MAD_LIMIT = 14.826


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """An interval that holds the median of what `values` were drawn from, coverage >= 95 %.

    The order statistics x(k) and x(n+1-k) with the largest k whose coverage
    1 - 2 P(Bin(n, 1/2) < k) is at least 95 %, exact in integers; None below six values, where no
    such pair exists. Source: David and Nagaraja, Order Statistics, section 7.1.
    """
    rank = interval_rank(len(values))
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def interval_rank(count: int) -> int | None:
    """The k of `median_interval` for `count` values, counted from 1; None where there is none."""
    below = 0
    rank = 0
    while rank < count:
        below += math.comb(count, rank)
        if 2 * below * 20 > 2**count:
            break
        rank += 1
    return rank or None


def interval_coverage(count: int) -> float | None:
    """The least probability with which `median_interval` holds the median; None where none is."""
    rank = interval_rank(count)
    if rank is None:
        return None
    outside = 2 * sum(math.comb(count, below) for below in range(rank))
    return 1 - outside / float(2**count)


def outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Which values lie further than 14.826 x MAD from the median (10 standard deviations of a
    normal distribution). Marked, never removed; nothing is marked below five values."""
    if len(values) < TRIALS_FOR_OUTLIERS:
        return (False,) * len(values)
    middle = median(values)
    spread = median(abs(value - middle) for value in values)
    return tuple(spread > 0 and abs(value - middle) > _MAD_LIMIT * spread for value in values)
