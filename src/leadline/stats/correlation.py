"""Correlation from trial to trial: a test over comparable cells, and what it does to a mean.

Trials of a first-order autoregressive process are tested by the lag-1 autocorrelation of their
residuals. Few trials estimate it too low (by about 1/n and more), so that the expectation for the
given number of trials is inverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# Two trials have one residual, and no correlation.
_FEWEST = 3
_LEVEL = 0.01
# Trials in a row: the largest correlation that is expected of them, and the level of its bound.
MOST = 0.6
_BOUND_LEVEL = 0.05
_MANY = 40
_GRID = np.linspace(0.0, 0.95, 20)


def estimate_correlation(tables: Sequence[Values], *, bound: bool = False) -> float:
    """Estimate the lag-1 autocorrelation (0 to 0.95) of rows in the order of execution, shapes
    (rows, n); 0 unless it is significant at 1 %. With `bound` at least the largest correlation up
    to `MOST` that the rows do not exclude at 5 %.

    The sum of the rows' autocorrelations is compared with that of white noise, whose mean and
    variance are exact for normal noise. Rows that vary together count as fewer.
    """
    from scipy.special import ndtri

    tables = [table for table in tables if table.shape[1] >= _FEWEST and len(table)]
    total, expected, variance = 0.0, 0.0, 0.0
    curve = np.zeros_like(_GRID)
    for table in tables:
        count, n = table.shape
        residuals = table - table.mean(axis=1, keepdims=True)
        squares = (residuals**2).sum(axis=1)
        usable = squares > 1e-20
        if not usable.any():
            continue
        unit = residuals[usable] / np.sqrt(squares[usable])[:, None]
        count = len(unit)
        total += float((unit[:, 1:] * unit[:, :-1]).sum())
        mean, spread = _white_noise(n)
        expected += count * mean
        variance += count * spread * _dependence(unit)
        curve += count * _expectation(n)
    if variance <= 0:
        return MOST if bound else 0.0
    significant = (total - expected) / np.sqrt(variance) >= -ndtri(_LEVEL)
    found = float(np.interp(total, curve, _GRID)) if significant else 0.0
    if not bound:
        return found
    most = total - ndtri(_BOUND_LEVEL) * np.sqrt(variance)
    return max(found, min(MOST, float(np.interp(most, curve, _GRID))))


def _dependence(unit: Values) -> float:
    """How much larger the variance of the sum is than that of independent rows: what all rows
    share (the hour in which all were slow) is their mean correlation, whose square counts."""
    count = len(unit)
    if count < 2:
        return 1.0
    shared = (float((unit.sum(axis=0) ** 2).sum()) / count - 1) / (count - 1)
    return 1 + (count - 1) * max(0.0, shared) ** 2


@cache
def _lag(n: int) -> Values:
    """The centred matrix A with e'Ae = sum of e_t e_(t+1) for centred e."""
    neighbours = (np.eye(n, k=1) + np.eye(n, k=-1)) / 2
    centre = np.eye(n) - 1 / n
    return np.asarray(centre @ neighbours @ centre)


@cache
def _white_noise(n: int) -> tuple[float, float]:
    """The mean and variance of a row's autocorrelation for independent normal values: a quadratic
    form of a point on the sphere of n - 1 dimensions."""
    lag = _lag(n)
    first, second, dimensions = float(np.trace(lag)), float((lag**2).sum()), n - 1
    variance = 2 * (dimensions * second - first**2) / (dimensions**2 * (dimensions + 2))
    return first / dimensions, variance


@cache
def _covariance(value: float, n: int) -> Values:
    return np.asarray(value ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))))


@cache
def _expectation(n: int) -> Values:
    """The expected autocorrelation of a row, by the true one on `_GRID`.

    E[x'Ax / x'x] = sum_j a_jj l_j int_0^inf (1 + 2 l_j t)^-1 prod_k (1 + 2 l_k t)^-1/2 dt, with
    the eigenvalues l of the covariance and A in its eigenvectors (Sawa, Econometrica 46 (1978)
    159), by Gauss-Legendre over t / (1 + t). Of many trials by the expansion of Marriott and Pope,
    Biometrika 41 (1954) 390.
    """
    if n > _MANY:
        return _GRID - (1 + 4 * _GRID) / n
    nodes, weights = np.polynomial.legendre.leggauss(128)
    places = (nodes + 1) / 2
    times = places / (1 - places)
    measure = weights / 2 / (1 - places) ** 2
    centre, lag = np.eye(n) - 1 / n, _lag(n)
    found = []
    for value in _GRID:
        scales, vectors = np.linalg.eigh(centre @ _covariance(float(value), n) @ centre)
        scales, vectors = scales[1:] / scales.sum(), vectors[:, 1:]
        form = np.einsum("ij,ik,kj->j", vectors, lag, vectors)
        factors = 1 + 2 * np.outer(times, scales)
        product = np.exp(-np.log(factors).sum(axis=1) / 2)
        found.append(measure @ (product * ((form * scales) / factors).sum(axis=1)))
    # np.interp needs a rising curve; it is one up to rounding.
    return np.maximum.accumulate(np.array(found))


@cache
def variance_inflation(value: float, n: int) -> tuple[float, float]:
    """Return by what the sample variance of n correlated values must be multiplied for the standard
    error of their mean, and the share of its degrees of freedom that is left."""
    covariance, centre = _covariance(value, n), np.eye(n) - 1 / n
    within = centre @ covariance
    trace = float(np.trace(within))
    inflation = float(covariance.sum()) / n / (trace / (n - 1))
    return inflation, float(trace**2 / (within * within.T).sum()) / (n - 1)
