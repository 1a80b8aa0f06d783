"""Two single measurements of one system, with a known distribution of scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

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
