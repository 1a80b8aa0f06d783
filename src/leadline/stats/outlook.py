"""Power of trials: trials that a verdict needs, the smallest change found, false positives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from leadline.stats.effects import Estimate, as_arrays

Values = npt.NDArray[np.float64]

POWER = 0.8
MOST = 1_000
# Equally probable values of the unknown ratio: the mean power over them is exact to about 1 %.
_RATIOS = 25
# The scatter's own 80 % interval.
_TAIL = 0.1
_NORMAL = NormalDist()


def detectable(estimates: Sequence[Estimate], upper: Values, tails: Values) -> Values:
    """Compute the log ratio that the present trials find above `upper` with 80 % power, one-sided
    at `tails`: (t(1 - tail) + t(0.8)) standard errors beyond it."""
    from scipy.special import stdtrit

    _, error, freedom = as_arrays(estimates)
    return np.asarray(upper + (stdtrit(freedom, POWER) - stdtrit(freedom, tails)) * error)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsNeeded:
    """Trials per system for a verdict with 80 % probability; `low` and `high` are that number for
    the 80 % interval of the scatter, `high` None above 1,000."""

    number: int
    low: int
    high: int | None


def trials_needed(
    estimates: Sequence[Estimate], lower: Values, upper: Values, tails: Values
) -> list[TrialsNeeded | None]:
    """Compute the trials per system that decide with 80 % probability. None where 1,000 do not.

    A decision is a log ratio shown to be beyond `lower` or `upper`, one-sided at `tails`, or
    between them, two-sided at 95 %. The probability is the mean over what the present trials leave
    open about the ratio (Student's t around the estimate): a plan for the estimate alone would
    decide in every second case.
    """
    if not estimates:
        return []
    from scipy.special import chdtri

    table, ratios = _open_ratios(estimates)
    # The number grows with the variance, which is known to the quantiles of chi^2 / freedom.
    known = np.array([min(one.scale_freedom, 1e6) for one in estimates])
    least, most = (known / chdtri(known, tail) for tail in (_TAIL, 1 - _TAIL))
    found: list[TrialsNeeded | None] = []
    for number, low, high in zip(
        _least_trials(table, ratios, (lower, upper), tails),
        least.tolist(),
        most.tolist(),
        strict=True,
    ):
        if number is None:
            found.append(None)
            continue
        end = math.ceil(number * high)
        found.append(
            TrialsNeeded(
                number=number,
                low=max(2, math.floor(number * low)),
                high=end if end <= MOST else None,
            )
        )
    return found


def decision_probability(
    estimates: Sequence[Estimate], lower: Values, upper: Values, tails: Values, number: int
) -> Values:
    """Compute the probability that `number` trials per system decide, as in `trials_needed`
    (predictive power: Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials 7 (1986)
    8)."""
    table, ratios = _open_ratios(estimates)
    numbers = np.full(len(estimates), number)
    return _decided(numbers, table, ratios, (lower, upper), tails)


def _open_ratios(estimates: Sequence[Estimate]) -> tuple[Values, Values]:
    """Return the scatter of each estimate, and log ratios that its trials leave open."""
    from scipy.special import stdtrit

    value, error, freedom = as_arrays(estimates)
    chances = (np.arange(_RATIOS) + 0.5) / _RATIOS
    ratios = value[:, None] + stdtrit(freedom[:, None], chances) * error[:, None]
    columns = [(one.scale, one.between, one.paired, one.freedom_of_prior) for one in estimates]
    return np.array(columns, dtype=np.float64).T, ratios


def _least_trials(
    table: Values, ratios: Values, margin: tuple[Values, Values], tails: Values
) -> list[int | None]:
    """Search the least number by bisection: the probability grows with it."""
    high = np.full(len(tails), MOST)
    enough = _decided(high, table, ratios, margin, tails) >= POWER
    # Searched only where there is a number.
    table, ratios, tails = table[:, enough], ratios[enough], tails[enough]
    margin = margin[0][enough], margin[1][enough]
    low, top = np.full(len(tails), 1), np.full(len(tails), MOST)
    while (top - low > 1).any():
        middle = (low + top) // 2
        reached = _decided(middle, table, ratios, margin, tails) >= POWER
        top, low = np.where(reached, middle, top), np.where(reached, low, middle)
    high[enough] = top
    return [int(n) if yes else None for n, yes in zip(high, enough, strict=True)]


def _decided(
    number: npt.NDArray[np.int_],
    table: Values,
    ratios: Values,
    margin: tuple[Values, Values],
    tails: Values,
) -> Values:
    """Compute the mean probability of a verdict with `number` trials per system."""
    from scipy.special import ndtr, stdtrit

    scale, between, paired, prior = table
    own = (number - 1) * np.where(paired > 0, 1, 2)
    square = scale**2 / number
    error = np.sqrt(square + between**2)
    freedom = np.minimum(own + prior, 1e12)
    beyond, inside = -stdtrit(freedom, tails), -stdtrit(freedom, 0.025)
    below = (ratios - margin[0][:, None]) / error[:, None]
    above = (ratios - margin[1][:, None]) / error[:, None]
    changed = ndtr(-below - beyond[:, None]) + ndtr(above - beyond[:, None])
    same = ndtr(below - inside[:, None]) - ndtr(above + inside[:, None])
    return np.asarray((changed + np.maximum(same, 0.0)).mean(axis=1))


def noise_floor(estimate: Estimate) -> float:
    """Compute the difference, as a share, below which two measurements of one system do not differ:
    the larger of the estimate of an A/A pair and of what its scatter gives in 95 % of cases."""
    from scipy.special import stdtrit

    reach = float(stdtrit(min(estimate.freedom, 1e12), 0.975)) * estimate.error
    return math.expm1(min(max(abs(estimate.value), reach), 700.0))


# Two single measurements of one system, with a known distribution of scatter.

# Equal slices of probability; the answer is then exact to 0.0002.
_SLICES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Coefficients of variation of many repeated measurements: median, 90th percentile and worst
    (shares); log-normal between them."""

    median: float
    ninetieth: float
    worst: float

    def quantile(self, normal: float) -> float:
        """Compute the coefficient at a quantile of the standard normal distribution."""
        spread = math.log(self.ninetieth / self.median) / _NORMAL.inv_cdf(0.9)
        return min(self.median * math.exp(spread * normal), self.worst)


def share_beyond(low: float, high: float, scatter: Scatter) -> float:
    """Compute the share of pairs of single measurements of one system whose ratio lies below `low`
    or above `high` (0 <= low <= 1 <= high).

    log(ratio) of two measurements with a coefficient of variation c is normal with a deviation of
    c sqrt(2): P(c) = Phi(log(low) / (c sqrt 2)) + 1 - Phi(log(high) / (c sqrt 2)), averaged over
    the distribution of c, by the middle of equal slices of probability.
    """
    lower, upper = (math.log(end) if end > 0 else -math.inf for end in (low, high))
    total = 0.0
    for slice_ in range(_SLICES):
        normal = _NORMAL.inv_cdf((slice_ + 0.5) / _SLICES)
        deviation = scatter.quantile(normal) * math.sqrt(2)
        total += _NORMAL.cdf(lower / deviation) + _NORMAL.cdf(-upper / deviation)
    return total / _SLICES
