"""Many tests at once: adjusted p values, and intervals of the levels that decide them.

A family's decisions and intervals agree: a cell is rejected exactly where its interval, of the
level given here, lies outside the equivalence margin.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Of false verdicts among all verdicts of a matrix, or of families with one.
LEVEL = 0.05
# The confidence level of an interval alone. No verdict rests on less.
ALONE = 0.95


def two_sided(p: Values) -> Values:
    """Double one-sided p values above half of `LEVEL`: a test alone needs the interval of 95 %."""
    return np.where(p <= LEVEL / 2, p, np.minimum(2 * p, 1.0))


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


def holm_levels(adjusted: Sequence[float]) -> tuple[float, ...]:
    """Return the level of each interval: a rejected cell's by its step (the last one of cells with
    one adjusted p value, so that their order decides nothing), the others' by the first step that
    fails."""
    values = np.asarray(adjusted, dtype=np.float64)
    rejected = values <= LEVEL
    last = np.searchsorted(np.sort(values), values, "right") - 1
    steps = np.where(rejected, last, int(rejected.sum()))
    found = 1 - np.minimum(LEVEL, 2 * LEVEL / np.maximum(len(values) - steps, 1))
    return tuple(found.tolist())


def benjamini_hochberg_levels(adjusted: Sequence[float]) -> tuple[float, ...]:
    """Return the level of each interval: 1 - 2 R alpha / m with R rejections of m, at least 95 %.
    Each bound is then wrong in a share of at most alpha of the rejected cells (Benjamini and
    Yekutieli, Journal of the American Statistical Association 100 (2005) 71)."""
    rejections = sum(value <= LEVEL for value in adjusted)
    count = max(len(adjusted), 1)
    level = 1 - min(LEVEL, 2 * LEVEL * max(rejections, 1) / count)
    return (level,) * len(adjusted)
