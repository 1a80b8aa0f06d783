"""Interim looks: tails and levels of a test that is repeated while trials are added.

A comparison that is tested after each round may give a false verdict at every look. All looks get
one nominal tail (Pocock, Biometrika 64 (1977) 191), such that the smallest tail of all looks has
the wanted probability. Intervals of the nominal level contain the truth at all looks together
(repeated confidence intervals: Jennison and Turnbull, Journal of the Royal Statistical Society B 51
(1989) 305), for any rule that ends the looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Student's t of few trials is less alike from look to look than normal statistics: simulated, the
# smallest of the looks' tails is up to 1.31 times as probable (2 to 30 trials, tails of 2.5 % to
# 0.02 %, benchmarks/looks.py).
SMALL_SAMPLES = 1.31
# Nodes of the integral over a sum; tails are then exact to four digits.
_NODES = 64
# Standard deviations below zero that the integral reaches.
_LOWEST = 8.0
# Boundaries of the table in standard deviations, between which logarithms are interpolated.
_BOUNDARIES = np.linspace(0.0, 8.0, 33)


@dataclass(frozen=True, slots=True, order=True)
class Looks:
    """Looks after `first`, `first` + 1, ... and `most` trials per system."""

    most: int
    first: int

    def spent(self, tails: Values) -> Values:
        """Compute the probability that a look has a one-sided tail as small as each of `tails`."""
        nominal, spent = _table(self.first, self.most)
        return np.exp(np.interp(_logs(tails), nominal, spent))

    def nominal(self, tails: Values) -> Values:
        """Compute the one-sided tail of each look that all looks together exceed with `tails`."""
        nominal, spent = _table(self.first, self.most)
        return np.exp(np.interp(_logs(tails), spent, nominal))

    def level(self, level: float) -> float:
        """Compute the level of each look's interval for that of all looks together."""
        return 1 - 2 * float(self.nominal(np.array([(1 - level) / 2]))[0])


def _logs(tails: Values) -> Values:
    return np.log(np.clip(tails, 1e-300, 1.0))


@cache
def _table(first: int, most: int) -> tuple[Values, Values]:
    """Return the logarithms of nominal tails and of what they spend over all looks, both rising."""
    from scipy.special import log_ndtr

    nominal = log_ndtr(-_BOUNDARIES)
    chances = np.array([_chance(float(boundary), first, most) for boundary in _BOUNDARIES])
    count = most - first + 1
    # No dependence of the looks exceeds the sum of their tails.
    spent = np.minimum(np.log(SMALL_SAMPLES * chances), nominal + math.log(count))
    # Beyond the table both fall alike; a tail of 1 spends 1.
    far = nominal[-1] - 1000.0
    nominal = np.concatenate([[far], nominal[::-1], [0.0]])
    spent = np.concatenate([[far + spent[-1] - nominal[1]], spent[::-1], [0.0]])
    # np.interp needs rising curves.
    return nominal, np.maximum.accumulate(np.minimum(spent, 0.0))


@cache
def _nodes() -> tuple[Values, Values]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _chance(boundary: float, first: int, most: int) -> float:
    """Compute P(max S_n / sqrt(n) >= boundary), n = first ... most, for sums S_n of n independent
    standard normal values, by the recursion of Armitage, McPherson and Rowe, Journal of the Royal
    Statistical Society A 132 (1969) 235."""
    from scipy.special import ndtr

    nodes, weights = _nodes()
    crossed = float(ndtr(-boundary))
    # The sums of n that no look has ended, as masses at places.
    root = math.sqrt(first)
    width = (boundary + _LOWEST) * root
    places = (nodes * (boundary + _LOWEST) - _LOWEST) * root
    masses = width * weights * np.exp(-(places**2) / (2 * first)) / math.sqrt(2 * math.pi * first)
    for n in range(first + 1, most + 1):
        root = math.sqrt(n)
        crossed += float((masses * ndtr(places - boundary * root)).sum())
        following = (nodes * (boundary + _LOWEST) - _LOWEST) * root
        steps = np.exp(-(np.subtract.outer(following, places) ** 2) / 2)
        width = (boundary + _LOWEST) * root
        masses = width * weights * (steps @ masses) / math.sqrt(2 * math.pi)
        places = following
    return crossed
