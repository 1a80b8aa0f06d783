"""How far two measurements of one and the same thing differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median


def noise_floor(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The difference, as a share, below which two measurements of one thing cannot be told from
    one: the larger of what was seen between their medians and of what their scatter alone gives in
    95 % of cases. None where a side is empty or a value is not positive.

    Scatter: t(0.975) x pooled deviation of the logarithms x sqrt((1/n + 1/k) pi/2), the last factor
    because medians are compared. With one value a side only what was seen is known.
    """
    if not first or not second or not all(0 < one < math.inf for one in (*first, *second)):
        return None
    seen = abs(math.log(median(first) / median(second)))
    logs = [[math.log(one) for one in side] for side in (first, second)]
    return math.expm1(max(seen, _scatter(logs[0], logs[1])))


def _scatter(first: Sequence[float], second: Sequence[float]) -> float:
    from scipy.special import stdtrit

    freedom = len(first) + len(second) - 2
    if freedom < 1:
        return 0.0
    squares = math.fsum((one - fmean(side)) ** 2 for side in (first, second) for one in side)
    pooled = squares / freedom * (1 / len(first) + 1 / len(second))
    return float(stdtrit(freedom, 0.975)) * math.sqrt(pooled * math.pi / 2)
