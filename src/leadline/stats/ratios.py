"""The ratio of two samples of positive values: interval, p, and what its scatter hides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leadline.stats.bootstrap import median_ratio_bounds
from leadline.stats.student import TRIM, Estimates, independent_difference, paired_difference

Values = npt.NDArray[np.float64]

# From here on a bootstrap of medians covers what it promises.
MANY = 6
# Two blocks leave one degree of freedom; that they belong together is then worth less than it
# costs.
_PAIRS_FOR_T = 3
# Equal values say more of rounding than of noise: a standard deviation of less than 0.1 % of the
# value is taken for 0.1 %.
_LEAST_DEVIATION = 0.001
_WIDEST = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSamples:
    """`paired`: the i-th values of both belong together, so they are equally many."""

    above: tuple[float, ...]
    below: tuple[float, ...]
    paired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEstimate:
    """`interval`: 95 %, of above / below. `p`: two-sided, of a ratio of one.

    `scale` / sqrt(n) is the standard error of the ratio's logarithm with n values a side.
    `separated`: every value above lies on one side of every value below; of pairs, of its partner.
    `paired`: whether it was estimated in pairs.
    """

    interval: tuple[float, float]
    p: float
    scale: float
    separated: bool
    paired: bool


def estimate_ratios(samples: Sequence[TwoSamples]) -> tuple[RatioEstimate, ...]:
    """An estimate for each, in order. Every sample has at least two values, all positive.

    Six values a side and more: bootstrap of medians; p by t of the logarithms, plain and trimmed,
    the smaller doubled. Fewer: interval and p by Student's t of the logarithms (Welch; paired from
    three pairs on).
    """
    found: dict[int, RatioEstimate] = {}
    for group in _alike(samples):
        above = np.array([samples[index].above for index in group], dtype=np.float64)
        below = np.array([samples[index].below for index in group], dtype=np.float64)
        estimates = _estimate(above, below, paired=samples[group[0]].paired)
        found.update(zip(group, estimates, strict=True))
    return tuple(found[index] for index in range(len(samples)))


def _alike(samples: Sequence[TwoSamples]) -> Iterable[list[int]]:
    """Indices of samples of one shape, which are computed at once."""
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
        # The plain test is the stronger where noise is tame, the trimmed one where a value is
        # wild. Both are asked; doubling the smaller p pays for that (Bonferroni).
        logs = _differences(above, below, paired=paired, trim=TRIM)
        p = np.minimum(2 * np.minimum(p, logs.p()), 1.0)
        low, high = median_ratio_bounds(above, below, paired=paired)
    else:
        # Two values a side may leave open anything: bounded, lest infinity come out.
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
