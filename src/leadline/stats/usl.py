"""The Universal Scalability Law fitted to rates at several loads, with intervals.

    X(N) = rate x N / (1 + contention x (N - 1) + coherence x N x (N - 1))

Source: Gunther, Guerrilla Capacity Planning (2007), chapter 4; contention is his sigma (or alpha),
coherence his kappa (or beta). N / X(N) is a quadratic in N, which makes the fit fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

# --- resampled means of levels ------------------------------------------------------------------

Values = npt.NDArray[np.float64]

# From this number on the trials of a level are resampled by themselves.
ENOUGH_TRIALS = 6
RESAMPLES = 1_000
_SEED = 20_261_121
# A factor of 150: with one degree of freedom a resample may be anywhere, and no interval needs
# more.
_FARTHEST = 5.0


def drawn_means(logs: Sequence[Values]) -> Values | None:
    """Resample the mean of each level's values, shape (RESAMPLES, levels); None where no level has
    two, so that the scatter is unknown. Deterministic.

    Levels with six values or more are resampled. Where one has fewer, all levels get normal noise
    of their pooled variance, with the uncertainty of its degrees of freedom.
    """
    if logs and min(len(values) for values in logs) >= ENOUGH_TRIALS:
        generator = np.random.default_rng(_SEED)
        return np.stack([_means_of(generator, values) for values in logs], axis=1)
    freedom = sum(len(log) - 1 for log in logs)
    if not freedom:
        return None
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
    counts = np.array([len(values) for values in logs], dtype=np.float64)
    means = np.array([values.mean() for values in logs])
    return noisy(means, within / freedom / counts, freedom)


def noisy(means: Values, variances: Values, freedom: int) -> Values:
    """Add normal noise of `variances` to `means` (levels); their common scale has `freedom` degrees
    of freedom. Shape (RESAMPLES, levels)."""
    generator = np.random.default_rng(_SEED)
    scale = np.sqrt(freedom / generator.chisquare(freedom, RESAMPLES))
    noise = generator.normal(size=(RESAMPLES, len(means))) * np.sqrt(variances)
    drawn: Values = means + np.clip(scale[:, None] * noise, -_FARTHEST, _FARTHEST)
    return drawn


def _means_of(generator: np.random.Generator, values: Values) -> Values:
    n = len(values)
    drawn = generator.choice(values, (RESAMPLES, n)).mean(axis=1)
    # The variance of the mean of n draws from n values is too small by (n - 1) / n.
    means: Values = values.mean() + (drawn - values.mean()) * math.sqrt(n / (n - 1))
    return means


# Three parameters, and one level more to test the fit.
LEAST_LEVELS = 4
_STEPS = 8
_TAIL = 0.025
MISFIT_P = 0.05
# A level further off the curve than a factor of 2.5 has the weight of that distance (Huber).
_OFF = 0.9
# Keeps the solution stable for nearly equal columns; too small to change a parameter.
_RIDGE = 1e-12


class Resampling(StrEnum):
    """The source of the intervals: resampled trials of each level; or, where these are few or lie
    off the curve, normal noise about the curve with the scatter of trials and levels and the
    uncertainty of its degrees of freedom."""

    TRIALS = "trials"
    SCATTER = "scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usl:
    """`rate` is X(1); `contention` and `coherence` are zero or more."""

    rate: float
    contention: float
    coherence: float

    def at(self, load: float) -> float:
        """Compute the rate at a load of one or more."""
        below = 1 + (load - 1) * (self.contention + self.coherence * load)
        return self.rate * load / below

    @property
    def peak_load(self) -> float:
        """The load of the highest rate: sqrt((1 - contention) / coherence); infinite without
        coherence, 0 where the rate falls from the first load on."""
        return float(_peak_loads(np.array([self.contention]), np.array([self.coherence]))[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95 % interval by the percentiles of the bootstrap; an end may be infinite."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UslFit:
    """`curve` and the intervals of its parameters.

    `residuals` are log(measured / fitted) of each level, in the order of `loads`; `r_squared` is of
    the logarithms. `peak_load` and `peak_load_interval` are by the formula, without regard to the
    measured loads: test `peak_measured` before showing them. `misfit_p` below 5 %: the levels lie
    further off the curve than their trials explain, so the law does not hold. `resampled` holds one
    curve for each resample: shape (resamples, 3), its columns rate, contention, coherence.
    """

    curve: Usl
    loads: tuple[float, ...]
    rate_interval: Interval
    contention_interval: Interval
    coherence_interval: Interval
    peak_load: float
    peak_load_interval: Interval
    residuals: tuple[float, ...]
    r_squared: float
    misfit_p: float | None
    resampling: Resampling
    resampled: Values

    @property
    def peak_measured(self) -> bool:
        """Whether the fitted peak lies within the measured loads."""
        return self.loads[0] <= self.peak_load <= self.loads[-1]

    @property
    def worst_residual(self) -> float:
        """The largest distance of a level from the curve, as a share."""
        return max(abs(math.expm1(residual)) for residual in self.residuals)


class NoFit(StrEnum):
    """Why no law is fitted: fewer levels than LEAST_LEVELS, a load below one or a rate without
    a logarithm, or a hard limit, which is not a queue."""

    TOO_FEW_LEVELS = "too-few-levels"
    HARD_LIMIT = "hard-limit"
    UNUSABLE_VALUES = "unusable-values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfitted:
    """Levels that have no fit; `levels` counts those with a rate."""

    reason: NoFit
    levels: int


def fit_usl(levels: Sequence[tuple[float, Sequence[float]]]) -> UslFit | Unfitted:
    """Fit the law to (load, rates of the trials at that load), loads of one or more.

    Least squares of log X with equal weights of the levels; levels of equal load are one level with
    the trials of both. Rates that are not positive have no logarithm: no fit. Deterministic,
    and independent of the order of levels and trials.
    """
    merged: dict[float, list[float]] = {}
    for load, rates in levels:
        if rates:
            merged.setdefault(load, []).extend(rates)
    loads = np.array(sorted(merged), dtype=np.float64)
    if len(loads) < LEAST_LEVELS:
        return Unfitted(reason=NoFit.TOO_FEW_LEVELS, levels=len(loads))
    trials = [np.log(np.sort(merged[load])) if min(merged[load]) > 0 else None for load in loads]
    logs = [trial for trial in trials if trial is not None and np.isfinite(trial).all()]
    if len(logs) < len(trials) or loads[0] < 1:
        return Unfitted(reason=NoFit.UNUSABLE_VALUES, levels=len(loads))
    means = np.array([log.mean() for log in logs])
    theta = _fit(loads, means[None, :])
    fitted = _log_rates(loads, theta)[0]
    off = means - fitted
    scatter = _scatter(logs, off)
    resampling, drawn = _drawn(logs, fitted, scatter)
    parameters = _parameters(_fit(loads, drawn), loads[-1])
    rate, contention, coherence = _parameters(theta, loads[-1])[0]
    curve = Usl(rate=float(rate), contention=float(contention), coherence=float(coherence))
    total = float(((means - means.mean()) ** 2).sum())
    return UslFit(
        curve=curve,
        loads=tuple(loads.tolist()),
        rate_interval=_interval(parameters[:, 0]),
        contention_interval=_interval(parameters[:, 1]),
        coherence_interval=_interval(parameters[:, 2]),
        peak_load=curve.peak_load,
        peak_load_interval=_interval(_peak_loads(parameters[:, 1], parameters[:, 2])),
        residuals=tuple(off.tolist()),
        r_squared=1 - float((off**2).sum()) / total if total > 0 else 0.0,
        misfit_p=scatter.misfit_p,
        resampling=resampling,
        resampled=parameters,
    )


def _interval(values: Values) -> Interval:
    low, high = np.quantile(values, (_TAIL, 1 - _TAIL), method="inverted_cdf")
    return Interval(low=float(low), high=float(high))


def _peak_loads(contention: Values, coherence: Values) -> Values:
    above = np.maximum(1 - contention, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sqrt(above / coherence)
    # 0 / 0: a flat line from the first load on, which is highest there already.
    return np.where(above == 0, 0.0, found)


# --- the fit: N / X(N) = a + b (N - 1) + c N (N - 1), with a > 0, b >= 0, c >= 0 ------------------


def _design(loads: Values) -> Values:
    """Shape (levels, 3); columns scaled to at most one, so that squares of large loads
    do not dominate."""
    top = loads[-1]
    return np.stack([np.ones_like(loads), (loads - 1) / top, loads * (loads - 1) / top**2], axis=1)


def _fit(loads: Values, logs: Values) -> Values:
    """(rows, 3): for each row of log rates, shape (rows, levels), the a, b, c of the scaled design
    that minimise the squares of log X, by Gauss-Newton; each step is a least squares problem with
    constraints, solved exactly."""
    design = _design(loads)
    measured = np.log(loads)[None, :] - logs
    # The first step's weights are those of the measured values.
    reached = measured.copy()
    theta = np.empty((len(logs), 3))
    for _ in range(_STEPS):
        rows = design[None, :, :] * np.exp(-reached)[:, :, None]
        # The target stays positive, and with it a.
        theta = _constrained(rows, 1 + np.clip(measured - reached, -_OFF, _OFF))
        reached = np.log(theta @ design.T)
    return theta


def _constrained(rows: Values, wanted: Values) -> Values:
    """Minimise |rows theta - wanted| with theta[1] and theta[2] >= 0, row by row: try the four
    choices of zeros and take the best that keeps the constraints."""
    best = np.zeros((len(rows), 3))
    least = np.full(len(rows), np.inf)
    size = np.sqrt(np.einsum("rki,rki->ri", rows, rows))
    rows = rows / size[:, None, :]
    squares = np.einsum("rki,rkj->rij", rows, rows) + _RIDGE * np.eye(3)
    towards = np.einsum("rki,rk->ri", rows, wanted)
    whole = np.einsum("rk,rk->r", wanted, wanted)
    for free in ([0, 1, 2], [0, 1], [0, 2], [0]):
        part = squares[:, free, :][:, :, free]
        right = towards[:, free]
        found = np.linalg.solve(part, right[:, :, None])[:, :, 0]
        cost = whole - np.einsum("ri,ri->r", found, right)
        better = (found[:, 1:] >= 0).all(axis=1) & (found[:, 0] > 0) & (cost < least)
        least = np.where(better, cost, least)
        theta = np.zeros((len(rows), 3))
        theta[:, free] = found
        best = np.where(better[:, None], theta, best)
    unscaled: Values = best / size
    return unscaled


def _log_rates(loads: Values, theta: Values) -> Values:
    return np.log(loads)[None, :] - np.log(theta @ _design(loads).T)


def _parameters(theta: Values, top: float) -> Values:
    """(rows, 3) of rate, contention, coherence, without the scale of the design."""
    a = theta[:, 0]
    return np.stack([1 / a, theta[:, 1] / (a * top), theta[:, 2] / (a * top**2)], axis=1)


# --- the intervals ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scatter:
    """Variance of a level's mean log rate about the curve, for each level, and the degrees of
    freedom behind it. `misfit_p`: the chance that trials so close together lie so far off the curve
    if it holds (lack-of-fit F test; Draper and Smith, Applied Regression Analysis, section 2.1);
    None where no level has two trials."""

    variances: Values
    freedom: int
    misfit_p: float | None


def _scatter(logs: Sequence[Values], off: Values) -> _Scatter:
    from scipy.special import fdtrc

    counts = np.array([len(log) for log in logs], dtype=np.float64)
    of_fit = len(off) - 3
    of_trials = int(counts.sum()) - len(counts)
    fit_square = float((off**2).sum()) / of_fit
    if not of_trials:
        return _Scatter(variances=np.full(len(off), fit_square), freedom=of_fit, misfit_p=None)
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
    square = within / of_trials
    level_square = float((counts * off**2).sum()) / of_fit
    p = float(fdtrc(of_fit, of_trials, level_square / square)) if square > 0 else 0.0
    if p < MISFIT_P:
        return _Scatter(variances=np.full(len(off), fit_square), freedom=of_fit, misfit_p=p)
    freedom = of_fit + of_trials
    pooled = (level_square * of_fit + within) / freedom
    return _Scatter(variances=pooled / counts, freedom=freedom, misfit_p=p)


def _drawn(logs: Sequence[Values], fitted: Values, scatter: _Scatter) -> tuple[Resampling, Values]:
    """Resampled mean log rates, shape (RESAMPLES, levels)."""
    sound = scatter.misfit_p is not None and scatter.misfit_p >= MISFIT_P
    if sound and min(len(log) for log in logs) >= ENOUGH_TRIALS:
        drawn = drawn_means(logs)
        assert drawn is not None
        return Resampling.TRIALS, drawn
    return Resampling.SCATTER, noisy(fitted, scatter.variances, scatter.freedom)


# --- knees --------------------------------------------------------------------------------------

# Loads are positive and rise; rates are logarithms of shape (..., levels), one row per resample.
# The results are indices of levels, one per row.

Places = npt.NDArray[np.intp]


def growth_per_doubling(loads: Values, logs: Values) -> Values:
    """Compute the growth between neighbouring levels per doubling of the load, as a share:
    (..., levels - 1)."""
    growth: Values = np.exp2(np.diff(logs) / np.log(2) / np.diff(np.log2(loads))) - 1
    return growth


def first_without_growth(loads: Values, logs: Values, least: float) -> Places:
    """Find the first level over which no later one grows by `least` per doubling; else the last.
    All later levels count, so a single noisy one does not decide."""
    doublings = np.log2(loads)
    over = (logs[..., None, :] - logs[..., :, None]) / np.log(2)
    wanted = np.log2(1 + least) * (doublings[None, :] - doublings[:, None])
    later = np.triu(np.ones(wanted.shape, dtype=bool), 1)
    grows = ((over >= wanted) & later).any(axis=-1)
    found: Places = np.argmin(grows, axis=-1)
    return found


def furthest_above_chord(loads: Values, logs: Values) -> Places:
    """Find the level furthest above the straight line across the levels, from the lowest rate at
    the first load to the highest at the last. Source: Satopaa, Albrecht, Irwin, Raghavan, Finding a
    "Kneedle" in a Haystack, ICDCS workshops 2011, 166."""
    rates = np.exp(logs - logs.max(axis=-1, keepdims=True))
    lowest = rates.min(axis=-1, keepdims=True)
    # The highest is 1; if the lowest is 1 as well, the curve is flat.
    up = (rates - lowest) / np.where(lowest < 1, 1 - lowest, 1.0)
    along = (loads - loads[0]) / (loads[-1] - loads[0])
    found: Places = np.argmax(up - along, axis=-1)
    return found


def usl_doubling_loads(contention: Values, coherence: Values, least: float) -> Values:
    """Compute the load at which X(2N) / X(N) of the Universal Scalability Law falls to g = 1 +
    `least`, 0 < least < 1: the positive root of
    coherence (2 - 4 g) N^2 + (coherence - contention) (2 g - 2) N + (2 - g) (1 - contention).
    Infinite where it never does, 0 where the rate does not grow at all."""
    g = 1 + least
    a = coherence * (2 - 4 * g)
    b = (coherence - contention) * (2 * g - 2)
    c = (2 - g) * np.maximum(1 - contention, 0.0)
    # The form that does not cancel; a <= 0 <= c.
    with np.errstate(divide="ignore", invalid="ignore"):
        root = 2 * c / (-b + np.sqrt(b * b - 4 * a * c))
    return np.where(c == 0, 0.0, root)
