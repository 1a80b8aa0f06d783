"""How uncertain the mean logarithm of each of several levels is, by what their trials say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# From here on the trials of a level tell their scatter well enough to be drawn by themselves.
ENOUGH_TRIALS = 6
RESAMPLES = 1_000
_SEED = 20_261_121
# A factor of 150: with one degree of freedom a resample may be anywhere, and no interval asks
# where beyond that.
_FARTHEST = 5.0


def drawn_means(logs: Sequence[Values]) -> Values | None:
    """Resampled means of each level's values, shape (RESAMPLES, levels); None where no level has
    two, so that nothing tells their scatter. Deterministic.

    Levels of six values and more are drawn from their own. Where one has fewer, all levels get
    normal noise of their common variance, which is as uncertain as its degrees of freedom.
    """
    if logs and min(len(one) for one in logs) >= ENOUGH_TRIALS:
        generator = np.random.default_rng(_SEED)
        return np.stack([_means_of(generator, one) for one in logs], axis=1)
    freedom = sum(len(one) - 1 for one in logs)
    if not freedom:
        return None
    within = sum(float(((one - one.mean()) ** 2).sum()) for one in logs)
    counts = np.array([len(one) for one in logs], dtype=np.float64)
    means = np.array([one.mean() for one in logs])
    return noisy(means, within / freedom / counts, freedom)


def noisy(means: Values, variances: Values, freedom: int) -> Values:
    """`means` (levels) with normal noise of `variances`, whose common scale is known with `freedom`
    degrees of freedom: shape (RESAMPLES, levels)."""
    generator = np.random.default_rng(_SEED)
    scale = np.sqrt(freedom / generator.chisquare(freedom, RESAMPLES))
    noise = generator.normal(size=(RESAMPLES, len(means))) * np.sqrt(variances)
    drawn: Values = means + np.clip(scale[:, None] * noise, -_FARTHEST, _FARTHEST)
    return drawn


def _means_of(generator: np.random.Generator, values: Values) -> Values:
    n = len(values)
    drawn = generator.choice(values, (RESAMPLES, n)).mean(axis=1)
    # The mean of n draws from n values scatters by (n - 1) / n too little.
    means: Values = values.mean() + (drawn - values.mean()) * math.sqrt(n / (n - 1))
    return means
