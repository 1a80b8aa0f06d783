"""Steps and drifts in a short series with one value per run.

The series is cut into levels by exact dynamic programming (optimal partitioning: Jackson et al.,
IEEE Signal Processing Letters 12 (2005) 105) with a penalty for each. Each boundary is then tested
by permutation of runs, the least significant is removed, and so on until all are significant. A
staircase of steps that a ramp fits as well is one drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from leadline.stats.effects import LEAST_DEVIATION, Estimate
from leadline.stats.runs import RunMeans, estimate_over_runs

Values = npt.NDArray[np.float64]

# One run is no level: it may be an outlier.
SHORTEST = 2
# A change that takes fewer runs is a step.
SHORTEST_DRIFT = 5
# The level of each test. It is small because a nightly job repeats the tests with every run.
SIGNIFICANT = 0.01
PERMUTATIONS = 999
# Permutations come in batches; a test ends early when so many were as extreme.
_BATCH, _ENOUGH = 200, 20
# Likelihood ratio of the runs at which a step may be, with 95 % confidence (Hansen, Econometrica 68
# (2000) 575).
_POSITION = 7.35
# The begins and ends of ramps that are tried in a long stretch.
_MOST_PLACES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The level changes from run `begin` to run `end`: a step if they follow each other, else a
    drift. With 95 % confidence a step is between `earliest` - 1 and `latest`.

    `estimate` is the log ratio of after / before, `p` that of the permutation test.
    """

    begin: int
    end: int
    earliest: int
    latest: int
    estimate: Estimate
    p: float

    @property
    def is_drift(self) -> bool:
        return self.end - self.begin > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoints:
    """The changes in the order of time, and the fitted log value at each run."""

    changes: tuple[Change, ...]
    fitted: tuple[float, ...]


def find_changes(
    logs: Values, permutations: int = PERMUTATIONS, level: float = SIGNIFICANT
) -> ChangePoints:
    """Find the steps and drifts of log values in the order of time, one per run, shape (runs,).

    The p value of a step is the share of permutations of the runs in which the best boundary of its
    two levels separates them as well; at least 1 / (permutations + 1). Changes with a p value
    above `level` are none. Deterministic.
    """
    edges, p_of = _significant_edges(logs, permutations, level)
    if len(edges) == 2:
        return ChangePoints(changes=(), fitted=(float(logs.mean()),) * len(logs))
    fitted = np.concatenate(
        [np.full(end - begin, logs[begin:end].mean()) for begin, end in pairwise(edges)]
    )
    changes: list[Change] = []
    ramps = _ramps(logs, edges)
    for number, (before, at, after) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        if any(number in ramp.steps for ramp in ramps):
            continue
        p = p_of[before, at, after]
        for ramp in ramps:  # the runs of a drift are not of the level next to it
            if at <= ramp.first < after:
                after = max(ramp.first + 1, at + SHORTEST)
            if before < ramp.last <= at:
                before = min(ramp.last, at - SHORTEST)
        changes.append(_step(logs, before, at, after, p))
    for ramp in ramps:
        triples = [tuple(edges[step : step + 3]) for step in ramp.steps]
        changes.append(_drift(logs, ramp, min(p_of[triple] for triple in triples)))
        fitted[ramp.begin : ramp.end] = ramp.fit(logs)
    return ChangePoints(
        changes=tuple(sorted(changes, key=lambda change: change.end)),
        fitted=tuple(fitted.tolist()),
    )


def _variance(logs: Values) -> float:
    """Estimate the variance from run to run, whatever the levels: from successive differences."""
    steps = np.abs(np.diff(logs))
    return max(1.4826 * float(np.median(steps)) / math.sqrt(2), LEAST_DEVIATION) ** 2


def _penalty(number: int) -> float:
    """Return the cost of a level, in variances: its place and its value (Schwarz's criterion)."""
    return 2 * math.log(number)


# --- steps ----------------------------------------------------------------------------------------


def _significant_edges(
    logs: Values, permutations: int, level: float
) -> tuple[list[int], dict[tuple[int, ...], float]]:
    """Return the edges of the levels, 0 and the number of runs included, and the p value of each
    boundary by its edges and itself."""
    if len(logs) < 2 * SHORTEST:
        return [0, len(logs)], {}
    random = np.random.default_rng(len(logs))
    edges = partition(logs, _penalty(len(logs)) * _variance(logs))
    p_of: dict[tuple[int, ...], float] = {}
    while len(edges) > 2:
        inner = list(zip(edges, edges[1:], edges[2:], strict=False))
        for place in inner:
            if place not in p_of:
                p_of[place] = _boundary_p(logs, edges, place, permutations, random)
        worst = max(inner, key=lambda place: p_of[place])
        if p_of[worst] <= level:
            break
        edges.remove(worst[1])
    return edges, p_of


def partition(values: Values, penalty: float) -> list[int]:
    """Return the edges of the levels with the least residual sum of squares + `penalty` for each
    level, 0 and the number of values included. No level is shorter than two values."""
    number = len(values)
    total = np.concatenate([[0.0], np.cumsum(values - values.mean())])
    # The least cost up to a begin, less the sum of squares up to there.
    base = np.full(number + 1, math.inf)
    base[0] = 0.0
    last = np.zeros(number + 1, dtype=np.int64)
    lengths = np.arange(number, 0, -1, dtype=np.float64)
    for end in range(SHORTEST, number + 1):
        begins = end - SHORTEST + 1
        found = (
            base[:begins] - (total[end] - total[:begins]) ** 2 / lengths[number - end :][:begins]
        )
        last[end] = at = int(found.argmin())
        base[end] = found[at] + penalty
    edges = [number]
    while edges[0] > 0:
        edges.insert(0, int(last[edges[0]]))
    return edges


def _separation(values: Values) -> Values:
    """Compute how well the best boundary separates each series: the sum of squares that it explains
    over the rest, shape (series,)."""
    number = values.shape[1]
    cuts = np.arange(SHORTEST, number - SHORTEST + 1)
    centred = values - values.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, cuts - 1]
    explained = (sums**2 * (number / (cuts * (number - cuts)))).max(axis=1)
    least = number * LEAST_DEVIATION**2
    return np.asarray(explained / np.maximum((centred**2).sum(axis=1) - explained, least))


def _boundary_p(
    logs: Values,
    edges: Sequence[int],
    place: tuple[int, int, int],
    permutations: int,
    random: np.random.Generator,
) -> float:
    """Compute the p value of a boundary between two levels: they are refilled with runs of the
    whole series, each less its level without this boundary.

    The permutations end when the outcome is clear (Besag and Clifford, Biometrika 78 (1991) 301).
    """
    before, at, after = place
    levels = pairwise(edge for edge in edges if edge != at)
    pool = np.concatenate(
        [
            # As large as the scatter that the fitted level leaves.
            (logs[a:b] - logs[a:b].mean()) * math.sqrt((b - a) / (b - a - 1))
            for a, b in levels
        ]
    )
    observed = _separation(logs[None, before:after])[0] * (1 - 1e-9)
    seen = hits = 0
    while seen < permutations and hits < _ENOUGH:
        number = min(_BATCH, permutations - seen)
        shuffled = random.permuted(np.tile(pool, (number, 1)), axis=1)[:, : after - before]
        hits += int((_separation(shuffled) >= observed).sum())
        seen += number
    return (hits + 1) / (seen + 1)


def _step(logs: Values, before: int, at: int, after: int, p: float) -> Change:
    first, second = tuple(logs[before:at].tolist()), tuple(logs[at:after].tolist())
    estimate = estimate_over_runs([RunMeans(above=second, below=first)])[0]
    part = logs[before:after] - logs[before:after].mean()
    cuts = np.arange(SHORTEST, len(part) - SHORTEST + 1)
    explained = np.cumsum(part)[cuts - 1] ** 2 * (len(part) / (cuts * (len(part) - cuts)))
    rest = float(part @ part) - explained
    variance = max(float(rest.min()) / (len(part) - 2), LEAST_DEVIATION**2)
    likely = cuts[rest <= rest.min() + _POSITION * variance] + before
    return Change(
        begin=at - 1,
        end=at,
        earliest=min(int(likely[0]), at),
        latest=max(int(likely[-1]), at),
        estimate=estimate,
        p=p,
    )


# --- drifts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ramp:
    """Runs `begin` to `end` - 1 are level up to run `first`, then change linearly until run `last`,
    in place of the numbered `steps`. `saving` is what it costs less than they, in variances."""

    begin: int
    end: int
    first: int
    last: int
    steps: range
    saving: float

    def shape(self) -> Values:
        """Return the ramp from 0 to 1 less its mean."""
        places = np.arange(self.begin, self.end)
        ramp = np.clip((places - self.first) / (self.last - self.first), 0.0, 1.0)
        return np.asarray(ramp - ramp.mean())

    def fit(self, logs: Values) -> Values:
        part, shape = logs[self.begin : self.end], self.shape()
        return np.asarray(part.mean() + shape * (float(shape @ part) / float(shape @ shape)))


def _ramps(logs: Values, edges: Sequence[int]) -> list[_Ramp]:
    """Return the ramps that fit better than one or several steps in one direction, the best
    first chosen."""
    means = [float(logs[begin:end].mean()) for begin, end in pairwise(edges)]
    rises = [second > first for first, second in pairwise(means)]
    candidates = []
    for first in range(len(rises)):
        for last in range(first + 1, len(rises) + 1):
            if len(set(rises[first:last])) > 1:
                break
            ramp = _best_ramp(logs, edges, range(first, last))
            if ramp is not None and ramp.saving > 0:
                candidates.append(ramp)
    chosen: list[_Ramp] = []
    for ramp in sorted(candidates, key=lambda ramp: -ramp.saving):
        if all(
            not set(ramp.steps) & set(other.steps)
            and (ramp.last <= other.first or ramp.first >= other.last)
            for other in chosen
        ):
            chosen.append(ramp)
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Ramps of one stretch of runs: `first` and `last` as in _Ramp, the `height` of the best fit,
    its sum of squares per unit (`square`) and the residual sum of squares; shapes (ramps,)."""

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    height: Values
    square: Values
    rest: Values


def _ramp_grid(part: Values) -> _Grid:
    centred = part - part.mean()
    places = np.unique(np.linspace(0, len(part) - 1, min(len(part), _MOST_PLACES)).astype(int))
    first, last = (grid.ravel() for grid in np.meshgrid(places, places))
    wide = last - first >= SHORTEST_DRIFT
    first, last = first[wide], last[wide]
    runs = np.arange(len(part))
    shapes = np.clip((runs - first[:, None]) / (last - first)[:, None], 0.0, 1.0)
    shapes -= shapes.mean(axis=1, keepdims=True)
    square = (shapes**2).sum(axis=1)
    product = shapes @ centred
    rest = float(centred @ centred) - product**2 / square
    return _Grid(first=first, last=last, height=product / square, square=square, rest=rest)


def _best_ramp(logs: Values, edges: Sequence[int], steps: range) -> _Ramp | None:
    """Return the ramp that fits best in place of steps; None where there are too few runs."""
    begin, end = edges[steps.start], edges[steps.stop + 1]
    grid = _ramp_grid(logs[begin:end])
    if not len(grid.first):
        return None
    at = int(np.argmin(grid.rest))
    levels = pairwise(edges[steps.start : steps.stop + 2])
    steps_rest = sum(float(((logs[a:b] - logs[a:b].mean()) ** 2).sum()) for a, b in levels)
    # A ramp has one parameter more than a step. A staircase must be clearly better than a ramp: the
    # factor was chosen by simulation (docs/adr/0030-history.md).
    extra = _penalty(len(logs)) * (0.5 - 1.5 * (len(steps) - 1))
    return _Ramp(
        begin=begin,
        end=end,
        first=begin + int(grid.first[at]),
        last=begin + int(grid.last[at]),
        steps=steps,
        saving=(steps_rest - float(grid.rest[at])) / _variance(logs) - extra,
    )


def _drift(logs: Values, ramp: _Ramp, p: float) -> Change:
    """Return the drift of a ramp: the mean over all begins and ends, weighted by likelihood, so
    that its error includes that they are not known (Bayesian model averaging)."""
    part = logs[ramp.begin : ramp.end]
    grid = _ramp_grid(part)
    # Mean, height, begin and end are fitted.
    freedom = max(len(part) - 4.0, 1.0)
    variance = max(float(grid.rest.min()) / freedom, LEAST_DEVIATION**2)
    weights = np.exp((grid.rest.min() - grid.rest) / (2 * variance))
    weights /= weights.sum()
    value = float(weights @ grid.height)
    square = float(weights @ (variance / grid.square + (grid.height - value) ** 2))
    estimate = Estimate(
        value=value,
        error=math.sqrt(square),
        freedom=freedom,
        own_freedom=freedom,
        of_runs=True,
    )
    return Change(
        begin=ramp.first,
        end=ramp.last,
        earliest=ramp.first,
        latest=ramp.last,
        estimate=estimate,
        p=p,
    )
