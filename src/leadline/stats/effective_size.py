"""What a series of neighbouring values, which resemble each other, says of its mean."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from leadline.stats.steady_state import long_run_variance

# Below it nothing can be said of the correlation.
SHORTEST = 10


def effective_size(values: npt.NDArray[np.float64]) -> float | None:
    """How many independent values would tell the mean as well: n x variance / long-run variance,
    between 1 and n. None for fewer than ten values; n where all are equal.

    n / effective size is called the statistical inefficiency (Chodera, JCTC 12 (2016) 1799).
    """
    n = len(values)
    if n < SHORTEST:
        return None
    residuals = values - values.mean()
    plain = float(residuals @ residuals) / n
    if plain <= 0:
        return float(n)
    return min(float(n), max(1.0, n * plain / _long_run_variance(residuals)))


def mean_standard_error_share(values: npt.NDArray[np.float64]) -> float | None:
    """The standard error of the mean as a share of it, correlation counted. None for fewer than
    ten values or a mean that is not positive.

    Right within a few percent while the correlation dies out within a tenth of the series; too
    small by a quarter for 30 values of a first-order correlation of 0.6.
    """
    number = effective_size(values)
    mean = float(np.mean(values)) if len(values) else 0.0
    if number is None or not mean > 0:
        return None
    return math.sqrt(float(np.var(values, ddof=1)) / number) / mean


def _long_run_variance(residuals: npt.NDArray[np.float64]) -> float:
    """Corrected for the mean that was taken out: it takes from every covariance, the more so the
    more lags are summed, whose weights sum to lags + 1 on both sides together."""
    n = len(residuals)
    lags = math.floor(math.sqrt(n))
    return long_run_variance(residuals) / (1 - (lags + 1) / n)
