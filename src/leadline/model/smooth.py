"""Smooth functions of the load: Gaussian processes over its logarithm to base two.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), chapters 2 and 4.
"""

from __future__ import annotations

import numpy as np

from leadline.model.networks import Values


def continue_to(
    known: Values, logs: Values, load: float, *, deviation: float, noise: float, octaves: float
) -> tuple[float, float]:
    """Return the mean and the standard deviation of a logarithm at a load, from its values at known
    loads: a smooth function of log2(load) (Gaussian process, Matern 3/2) about an unknown level.

    `deviation` and `octaves` say how far and how fast it changes, `noise` is the deviation of one
    value, which the result includes.
    """
    precision = np.linalg.inv(
        deviation**2 * alike(known, known, octaves) + noise**2 * np.eye(len(known))
    )
    near = deviation**2 * alike(np.array([load]), known, octaves)[0]
    whole = precision.sum()
    level = float(precision.sum(axis=0) @ logs / whole)
    mean = level + float(near @ precision @ (logs - level))
    unknown = (1.0 - float(near @ precision.sum(axis=0))) ** 2 / float(whole)
    variance = deviation**2 - float(near @ precision @ near) + unknown + noise**2
    return mean, float(np.sqrt(max(variance, noise**2)))


def alike(a: Values, b: Values, octaves: float) -> Values:
    """Return the correlation of a smooth function at loads `a` and `b` (Matern 3/2)."""
    away = np.sqrt(3.0) * np.abs(np.log2(a)[:, None] - np.log2(b)[None, :]) / octaves
    correlation: Values = (1.0 + away) * np.exp(-away)
    return correlation
