"""Steadiness, change point and standard error of a series with one value per second."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROUNDS = 5
# About their mean, so that the slope of a least-squares line is sum(step x value) / sum(step^2).
_STEPS = np.arange(ROUNDS) - (ROUNDS - 1) / 2

# sup |Brownian bridge| exceeds 1.95 with probability 0.001 (Kolmogorov's distribution). That holds
# for long series; in short ones the variance comes out too small, so the bar is raised by
# 1 + 20 / n, a factor found by simulation with correlated noise (tests/unit/stats).
CUSUM_CRITICAL = 1.95
SHORT_SERIES = 20
FEWEST_FOR_CHANGE = 20
SHORTEST_SEGMENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """SNIA PTS figures of five rounds: spread and fitted drift as shares of their mean."""

    rounds: tuple[float, ...]
    range_share: float
    drift_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The level was `before` for the first `index` values and `after` from there on."""

    index: int
    before: float
    after: float
    statistic: float


def steadiness(values: npt.NDArray[np.float64]) -> Steadiness | None:
    """Compute spread (max - min) and drift (|slope| x four round steps, least squares) of five
    rounds.

    Each round is the mean of floor(n / 5) values; the remainder is omitted at the start.
    None with fewer than five values or a mean of zero.
    Source: SNIA Solid State Storage Performance Test Specification, steady state determination.
    """
    length = len(values) // ROUNDS
    if length < 1:
        return None
    rounds = values[len(values) - length * ROUNDS :].reshape(ROUNDS, length).mean(axis=1)
    mean = float(rounds.mean())
    if mean <= 0:
        return None
    slope = float(_STEPS @ rounds) / float(_STEPS @ _STEPS)
    return Steadiness(
        rounds=tuple(rounds.tolist()),
        range_share=float(rounds.max() - rounds.min()) / mean,
        drift_share=abs(slope) * (ROUNDS - 1) / mean,
    )


def change_point(values: npt.NDArray[np.float64]) -> ChangePoint | None:
    """Find the most likely single jump of the mean, if it exceeds the noise; else None.

    CUSUM test: max |S_k| / (s sqrt(n)) against the supremum of a Brownian bridge, where s^2 is the
    long-run variance of what remains after the two segments' means are taken out (Bartlett kernel,
    Newey and West 1987), so that correlated samples are not taken for a jump.
    None with fewer than 20 values; no segment is shorter than 5.
    """
    n = len(values)
    if n < FEWEST_FOR_CHANGE:
        return None
    walk = np.abs(np.cumsum(values - values.mean()))[SHORTEST_SEGMENT - 1 : n - SHORTEST_SEGMENT]
    index = int(np.argmax(walk)) + SHORTEST_SEGMENT
    before, after = float(values[:index].mean()), float(values[index:].mean())
    residuals = np.concatenate([values[:index] - before, values[index:] - after])
    variance = long_run_variance(residuals)
    if variance <= 0:
        return (
            None
            if before == after
            else ChangePoint(index=index, before=before, after=after, statistic=math.inf)
        )
    statistic = float(walk.max()) / math.sqrt(variance * n)
    if statistic <= CUSUM_CRITICAL * (1 + SHORT_SERIES / n):
        return None
    return ChangePoint(index=index, before=before, after=after, statistic=statistic)


def long_run_variance(residuals: npt.NDArray[np.float64]) -> float:
    """Compute the variance of a sum per term, with correlation; Bartlett weights up to lag
    n^(1/2)."""
    n = len(residuals)
    lags = math.floor(math.sqrt(n))
    variance = float(residuals @ residuals) / n
    for lag in range(1, lags + 1):
        covariance = float(residuals[lag:] @ residuals[:-lag]) / n
        variance += 2 * (1 - lag / (lags + 1)) * covariance
    return variance


# --- the mean of a correlated series ------------------------------------------------------------

# Shorter series give no estimate of the correlation.
SHORTEST = 10


def effective_size(values: npt.NDArray[np.float64]) -> float | None:
    """Compute the number of independent values with the same standard error of the mean: n x
    variance / long-run variance, between 1 and n. None for fewer than ten values; n where all are
    equal.

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
    """Compute the standard error of the mean as a share of it, with correlation. None for fewer
    than ten values or a mean that is not positive.

    Right within a few percent while the correlation dies out within a tenth of the series; too
    small by a quarter for 30 values of a first-order correlation of 0.6.
    """
    number = effective_size(values)
    mean = float(np.mean(values)) if len(values) else 0.0
    if number is None or not mean > 0:
        return None
    return math.sqrt(float(np.var(values, ddof=1)) / number) / mean


def _long_run_variance(residuals: npt.NDArray[np.float64]) -> float:
    """Long-run variance, corrected for the subtracted mean, which lowers every covariance: the
    weights of all lags sum to lags + 1."""
    n = len(residuals)
    lags = math.floor(math.sqrt(n))
    return long_run_variance(residuals) / (1 - (lags + 1) / n)
