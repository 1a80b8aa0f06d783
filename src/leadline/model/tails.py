"""Tail latency over mean latency: how it changes with the load and with the branches of an I/O.

An I/O that waits for several copies or shards ends with the slowest. If one branch takes longer
than t with probability 1 - F(t), all n end within t with F(t)^n. Branches have the generalised
exponential distribution F(t) = (1 - exp(-t / scale))^shape, as in ForkTail (Nguyen et al. 2020), so
the slowest of n has the same distribution with n times the shape. Branches that share a cause
(a stall of the client or of the network) are not independent, so this is the most that can change.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import digamma

from leadline.model.networks import Values

# Of the tail that is forecast: the 99th percentile.
QUANTILE = 0.99
# Of smaller shapes more than one in a hundred branches takes no time.
_LEAST_SHAPE, _MOST_SHAPE = 0.02, 1e9


def tail_ratio(shape: Values) -> Values:
    """Return the 99th percentile over the mean of generalised exponential distributions."""
    # 1 - q^(1/shape), for large shapes a small number.
    exceeded = -np.expm1(np.log(QUANTILE) / shape)
    ratio: Values = -np.log(exceeded) / (digamma(shape + 1.0) + np.euler_gamma)
    return ratio


@lru_cache(maxsize=1)
def _table() -> tuple[Values, Values]:
    shapes = np.geomspace(_LEAST_SHAPE, _MOST_SHAPE, 2000)
    return np.log(tail_ratio(shapes))[::-1], np.log(shapes)[::-1]


def with_branches(ratio: Values, before: int, after: int) -> Values:
    """Return the ratio of the 99th percentile to the mean if I/Os wait for `after` independent
    branches in place of `before`. Ratios beyond the distribution's are returned unchanged.

    Raises ValueError for less than one branch.
    """
    if min(before, after) < 1:
        raise ValueError(f"{before} and {after} branches")
    logs, shapes = _table()
    given = np.log(ratio)
    shape = np.exp(np.interp(given, logs, shapes))
    changed = tail_ratio(np.clip(shape * after / before, _LEAST_SHAPE, _MOST_SHAPE))
    found: Values = np.where((given > logs[0]) & (given < logs[-1]), changed, ratio)
    return found
