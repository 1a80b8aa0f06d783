"""One effect over many cells: a random-effects mean of log ratios with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from leadline.stats.effects import Estimate, combined_freedom

# Two cells do not show how cells differ.
FEWEST = 3
_STEPS = 60


def overall_effect(
    values: Sequence[float],
    errors: Sequence[float],
    between: float,
    between_freedom: float = math.inf,
) -> Estimate:
    """Estimate the mean log ratio of at least three cells, which are a sample of all such cells.

    `errors` are the standard errors of the cells' own `values`, 0 where unknown: the variance over
    cells then includes them. `between` is the standard error that separate runs add, known with
    `between_freedom` degrees of freedom: all cells share it. Variance between cells by Paule and
    Mandel, Journal of Research of the NBS 87 (1982) 377; standard error by Hartung and Knapp,
    Statistics in Medicine 20 (2001) 3875.
    """
    effects, squares = np.asarray(values), np.asarray(errors) ** 2
    count = len(effects)
    if count < FEWEST:
        raise ValueError(f"{count} cells are too few for an overall effect")
    spread = _variance_between_cells(effects, squares)
    weights = 1 / np.maximum(squares + spread, 1e-12)
    mean = float((weights * effects).sum() / weights.sum())
    scatter = float((weights * (effects - mean) ** 2).sum()) / (count - 1)
    own = max(scatter / float(weights.sum()), 1e-12)
    freedom = combined_freedom((own, count - 1), (between**2, between_freedom))
    return Estimate(
        value=mean,
        error=math.sqrt(own + between**2),
        freedom=freedom,
        number=count,
        between=between,
    )


def _variance_between_cells(effects: np.ndarray, squares: np.ndarray) -> float:
    """Solve sum of weights x (effect - mean)^2 = cells - 1 by bisection; 0 where the cells' own
    errors suffice."""

    def excess(spread: float) -> float:
        weights = 1 / np.maximum(squares + spread, 1e-12)
        mean = (weights * effects).sum() / weights.sum()
        return float((weights * (effects - mean) ** 2).sum()) - (len(effects) - 1)

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(effects.var(ddof=1)) + 1e-12
    while excess(high) > 0:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2
