"""Log ratios of two systems of which one or both have several runs: the run is the replicate.

A system differs from itself from one run to another, in each cell and in all cells together (a slow
day). Trials within a run do not show that. So a cell has one value per run, the mean of its trials,
and the variance of runs is estimated in two parts: what all cells share, from the mean over cells,
with few degrees of freedom; and what is left in each cell, moderated over cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.stats.effects import LEAST_DEVIATION, Estimate, combined_freedom
from leadline.stats.moderation import Prior, moderate


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeans:
    """The mean logarithms of one cell by run: at least one of each system, at least three in all.
    None: the run lacks the cell. Equal positions in the cells of one family are of one run."""

    above: tuple[float | None, ...]
    below: tuple[float | None, ...]


def estimate_over_runs(family: Sequence[RunMeans]) -> tuple[Estimate, ...]:
    """Estimate the log ratio of each cell of a family, whose cells scatter comparably.

    Both systems are taken to vary equally from run to run, so that one of them may have one run.
    The interval mixes the quantiles of both variances (`combined_freedom`). With one cell it is
    Student's two-sample t of the runs.
    """
    tables = [
        np.array([[math.nan if one is None else one for one in side] for side in sides])
        for sides in ([one.above for one in family], [one.below for one in family])
    ]
    means = [np.nanmean(table, axis=1) for table in tables]
    counts = [np.isfinite(table).sum(axis=1) for table in tables]
    residuals = np.hstack(
        [table - mean[:, None] for table, mean in zip(tables, means, strict=True)]
    )
    # A difference of means has the variance of one run x this.
    share = 1 / counts[0] + 1 / counts[1]
    own = counts[0] + counts[1] - 2.0
    whole = np.isfinite(residuals).all(axis=1)
    cells = int(whole.sum())
    found = []
    if cells < 2:
        variance = np.maximum(np.nansum(residuals**2, axis=1) / own, LEAST_DEVIATION**2)
        parts = [[(v, d)] for v, d in zip(variance.tolist(), own.tolist(), strict=True)]
        priors: tuple[Prior, ...] = (Prior(cells=1, variance=0.0, freedom=0.0),)
    else:
        common = residuals[whole].mean(axis=0)
        freedom = float(residuals.shape[1] - 2)
        slow_days = float((common**2).sum()) / freedom, freedom
        left = own * (cells - 1) / cells
        rest = np.nansum((residuals - common) ** 2, axis=1) / left
        posterior = moderate(np.maximum(rest, LEAST_DEVIATION**2), left)
        each = zip(posterior.variance.tolist(), posterior.freedom.tolist(), strict=True)
        parts = [[slow_days, part] for part in each]
        priors = (posterior.prior,)
    for at, given in enumerate(parts):
        total, freedom = sum(variance for variance, _ in given), combined_freedom(*given)
        shared, shared_freedom = given[0]
        found.append(
            Estimate(
                value=float(means[0][at] - means[1][at]),
                error=math.sqrt(total * share[at]),
                freedom=freedom,
                number=2 / float(share[at]),
                scale=math.sqrt(2 * total),
                scale_freedom=freedom,
                own_freedom=float(own[at]),
                shared=math.sqrt(shared * share[at]),
                shared_freedom=shared_freedom,
                priors=priors,
                of_runs=True,
            )
        )
    return tuple(found)
