"""Student's t for means and trimmed means, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

# A share cut off at each end that keeps one wild value of five or more from ruling.
TRIM = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """For each row a `difference`, its standard `error`, and the degrees of `freedom`."""

    difference: Values
    error: Values
    freedom: Values

    def p(self) -> Values:
        """Two-sided, of a difference of zero."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.freedom, -np.abs(self.difference) / self.error))

    def bounds(self) -> tuple[Values, Values]:
        """The ends of the 95 % interval."""
        from scipy.special import stdtrit

        margin = stdtrit(self.freedom, 0.975) * self.error
        return self.difference - margin, self.difference + margin


def independent_difference(
    first: Values, second: Values, *, trim: float = 0.0, least_deviation: float = 0.0
) -> Estimates:
    """Mean of `first` less mean of `second`, shapes (rows, n) and (rows, k), n and k >= 2.

    Welch's test (variances may differ); with `trim` Yuen's, of trimmed means. A standard deviation
    below `least_deviation` counts as that. Source: Yuen, Biometrika 61 (1974) 165.
    """
    mean_1, square_1, freedom_1 = _mean(first, trim, least_deviation)
    mean_2, square_2, freedom_2 = _mean(second, trim, least_deviation)
    square = square_1 + square_2
    # As shares of the sum, lest squares of tiny variances vanish.
    share = square_1 / square
    return Estimates(
        difference=mean_1 - mean_2,
        error=np.sqrt(square),
        freedom=1 / (share**2 / freedom_1 + (1 - share) ** 2 / freedom_2),
    )


def paired_difference(
    differences: Values, *, trim: float = 0.0, least_deviation: float = 0.0
) -> Estimates:
    """Mean (trimmed mean) of the differences, shape (rows, n), n >= 2. Source: Tukey and
    McLaughlin, Sankhya A 25 (1963) 331, with Yuen's standard error."""
    mean, square, freedom = _mean(differences, trim, least_deviation)
    return Estimates(
        difference=mean, error=np.sqrt(square), freedom=np.full(len(differences), float(freedom))
    )


def _mean(values: Values, trim: float, least_deviation: float) -> tuple[Values, Values, int]:
    """Trimmed mean, its squared standard error, its degrees of freedom."""
    n = values.shape[1]
    cut = math.floor(trim * n)
    kept = n - 2 * cut
    ordered = np.sort(values, axis=1)
    within = ordered[:, cut : n - cut]
    winsorised = np.clip(ordered, within[:, :1], within[:, -1:])
    variance = np.maximum(winsorised.var(axis=1, ddof=1), least_deviation**2)
    return within.mean(axis=1), variance * (n - 1) / (kept * (kept - 1)), kept - 1
