"""Log ratios of two samples, with moderated standard errors: the estimate behind every verdict.

One model for all comparisons: logarithms of trials; blocks as pairs; each sample's variance
moderated over comparable cells (stats.moderation); trimmed means where a trial is wild; the
variance between runs added where the samples are of separate runs; correlation from trial to trial
(stats.correlation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from leadline.stats.correlation import MOST, estimate_correlation, variance_inflation
from leadline.stats.moderation import FEWEST_CELLS, Prior, moderate
from leadline.stats.sequential import Looks

Values = npt.NDArray[np.float64]

# Equal values are rounding, not absence of noise: the standard deviation is at least 0.1 % of the
# value.
LEAST_DEVIATION = 0.001
# A trial is wild if it is further from the median than 14.826 x MAD, ten standard deviations of
# normal noise (methodology, section 2). Fewer than six trials show that too rarely, and by chance.
WILD = 14.826
FEWEST_FOR_WILD = 6
# The share trimmed at each end where a trial is wild.
TRIM = 0.2
_WIDEST = 700.0
_NORMAL = 1.959963984540054
# Fewer complete blocks leave too few degrees of freedom: pairing then costs more than it gains.
FEWEST_BLOCKS = 3
# From here on Student's t is the normal distribution.
_NORMAL_FREEDOM = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSamples:
    """Two samples of at least two positive values each; their ratio is `above` / `below`.

    `paired`: the i-th values of both ran in one block. `ordered`: the values are in the order of
    execution. Samples of one `family` scatter comparably. `between` is the standard deviation of
    log values between runs, as a share, where the two are of separate runs. `in_a_row`: the trials
    of a sample may have run one after the other: a correlation counts unless it is excluded.
    """

    above: tuple[float, ...]
    below: tuple[float, ...]
    paired: bool = False
    ordered: bool = False
    family: Hashable = None
    between: float = 0.0
    in_a_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The logarithm of above / below: `value`, its standard `error` and degrees of `freedom`.

    `scale` / sqrt(n) is the standard error with n trials per sample of the same runs, known with
    `scale_freedom` degrees of freedom, of which `own_freedom` are the samples' own; `between` is
    the standard error that separate runs add, and that more trials do not reduce. `shared` is the
    part of the error that all cells have in common, with its degrees of freedom. `priors` are those
    of the moderated variances: of the differences if `paired`, else of above and below. `trimmed`:
    a trial was wild. `correlation` from trial to trial, 0 unless significant. `of_runs`: n counts
    runs per system instead of trials.
    """

    value: float
    error: float
    freedom: float
    number: float = 1.0
    scale: float = 0.0
    scale_freedom: float = math.inf
    own_freedom: float = 0.0
    between: float = 0.0
    shared: float = 0.0
    shared_freedom: float = math.inf
    paired: bool = False
    priors: tuple[Prior, ...] = ()
    trimmed: bool = False
    correlation: float = 0.0
    of_runs: bool = False

    @property
    def freedom_of_prior(self) -> float:
        """The degrees of freedom that comparable cells add."""
        return max(min(self.scale_freedom, 1e6) - self.own_freedom, 0.0)

    @property
    def ratio(self) -> float:
        return math.exp(min(max(self.value, -_WIDEST), _WIDEST))

    def interval(self, level: float = 0.95, looks: Looks | None = None) -> tuple[float, float]:
        """Compute the interval of the ratio at a confidence level (0.95: 95 %)."""
        return intervals([self], [level], looks)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The positive `mean` of `number` >= 2 trials, and their standard `deviation` (n - 1)."""

    mean: float
    deviation: float
    number: int


def combine_trials(
    above: Sequence[float],
    above_blocks: Sequence[Hashable],
    below: Sequence[float],
    below_blocks: Sequence[Hashable],
) -> TwoSamples:
    """Combine the trials of two systems: by complete blocks, else as independent samples, in the
    order of execution where it is known. Equal blocks ran interleaved; they sort by time."""
    first, second = _by_block(above, above_blocks), _by_block(below, below_blocks)
    common = [block for block in second if block in first]
    if len(common) >= FEWEST_BLOCKS:
        return TwoSamples(
            above=tuple(first[block] for block in common),
            below=tuple(second[block] for block in common),
            paired=True,
            ordered=True,
        )
    ordered = bool(first and second)
    return TwoSamples(
        above=tuple(first.values()) if ordered else tuple(above),
        below=tuple(second.values()) if ordered else tuple(below),
        ordered=ordered,
    )


def _by_block(trials: Sequence[float], blocks: Sequence[Hashable]) -> dict[Hashable, float]:
    """Map the blocks to their trials, by time; empty where a block is unknown or has several."""
    found = dict(zip(blocks, trials, strict=False))
    if len(found) != len(trials):
        return {}
    # The usual blocks are numbers, which are quickly sorted.
    order: Callable[[Any], Any] = int if set(map(type, found)) == {int} else _block_order
    return {block: found[block] for block in sorted(found, key=order)}


def _block_order(block: Hashable) -> tuple[object, ...]:
    """Sort numbers by value, other keys by their text."""
    parts = block if isinstance(block, tuple) else (block,)
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, str(part)) for part in parts)


def location(values: Sequence[float]) -> float:
    """Compute the mean logarithm of at least two positive values, trimmed where one is wild."""
    if len(values) < FEWEST_FOR_WILD:
        return math.fsum(map(math.log, values)) / len(values)
    return float(_means([np.log(np.asarray(values))], 0.0).mean[0])


def intervals(
    estimates: Sequence[Estimate], levels: Sequence[float], looks: Looks | None = None
) -> list[tuple[float, float]]:
    """Compute the interval of each ratio at its level, by Student's t on the log scale. With
    `looks` the level is that of the intervals of all looks together."""
    from scipy.special import stdtrit

    value, error, freedom = as_arrays(estimates)
    tails = (1 - np.asarray(levels)) / 2
    reach = -stdtrit(freedom, looks.nominal(tails) if looks else tails) * error
    low = np.exp(np.clip(value - reach, -_WIDEST, _WIDEST))
    high = np.exp(np.clip(value + reach, -_WIDEST, _WIDEST))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def p_beyond(
    estimates: Sequence[Estimate], lower: Values, upper: Values, looks: Looks | None = None
) -> Values:
    """Compute the one-sided p value of a log ratio below `lower` or above `upper`, whichever is
    nearer to the estimate (TREAT: McCarthy and Smyth, Bioinformatics 25 (2009) 765). With `looks`
    it is the probability that any look has such a p value."""
    from scipy.special import stdtr

    value, error, freedom = as_arrays(estimates)
    p = np.asarray(stdtr(freedom, -np.maximum(value - upper, lower - value) / error))
    return looks.spent(p) if looks else p


def as_arrays(estimates: Sequence[Estimate]) -> tuple[Values, Values, Values]:
    """Return value, error and freedom of each, shape (estimates,)."""
    found = [(one.value, one.error, min(one.freedom, 1e12)) for one in estimates]
    table = np.array(found, dtype=np.float64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def estimate_effects(samples: Sequence[TwoSamples]) -> tuple[Estimate, ...]:
    """Estimate each log ratio, in order. Every value is positive."""
    found: dict[int, Estimate] = {}
    groups: dict[tuple[Hashable, bool], list[int]] = {}
    for index, sample in enumerate(samples):
        groups.setdefault((sample.family, sample.paired), []).append(index)
    for (_, paired), group in groups.items():
        family = [samples[index] for index in group]
        estimates = _paired(family) if paired else _independent(family)
        between = [sample.between for sample in family]
        found.update(zip(group, map(_between_runs, estimates, between), strict=True))
    return tuple(found[index] for index in range(len(samples)))


def estimate_from_summaries(
    above: Summary, below: Summary, *, between: float = 0.0, in_a_row: bool = False
) -> Estimate:
    """Estimate a log ratio of published means, with Welch's degrees of freedom; `between` and
    `in_a_row` as in TwoSamples.

    The variance of the logarithm of a mean is (deviation / mean)^2 / n, by the delta method.
    """
    parts, own = [], []
    for side in (above, below):
        share = max(side.deviation / side.mean, LEAST_DEVIATION)
        # From a hundred trials on the inflation hardly changes.
        inflation, left = variance_inflation(MOST, min(side.number, 100)) if in_a_row else (1, 1)
        parts.append(share**2 / side.number * inflation)
        own.append((side.number - 1) * left)
    square = sum(parts)
    freedom = square**2 / sum(part**2 / free for part, free in zip(parts, own, strict=True))
    number = 2 / (1 / above.number + 1 / below.number)
    estimate = Estimate(
        value=math.log(above.mean / below.mean),
        error=math.sqrt(square),
        freedom=freedom,
        number=number,
        scale=math.sqrt(square * number),
        scale_freedom=freedom,
        own_freedom=freedom,
    )
    return _between_runs(estimate, between)


def _between_runs(estimate: Estimate, between: float) -> Estimate:
    """Add the variance between runs, which trials do not show."""
    if between == 0:
        return estimate
    own, added = estimate.error**2, 2 * between**2
    return replace(
        estimate,
        error=math.sqrt(own + added),
        freedom=combined_freedom((own, estimate.freedom), (added, math.inf)),
        between=math.sqrt(added),
        shared=math.sqrt(added),
    )


def combined_freedom(*parts: tuple[float, float]) -> float:
    """Return the degrees of freedom of a sum of variances, each given with its own; inf: known.

    The squared quantile of 95 % is the mean of those of the parts, weighted by the variances (as in
    Cochran's test). Satterthwaite's formula would make the interval narrower than that of one
    estimated variance alone where it has few degrees of freedom.
    """
    from scipy.special import stdtridf, stdtrit

    least = min(freedom for _, freedom in parts)
    if least >= _NORMAL_FREEDOM:
        return _NORMAL_FREEDOM
    squares = [
        variance * float(stdtrit(min(freedom, _NORMAL_FREEDOM), 0.975)) ** 2
        for variance, freedom in parts
    ]
    mixed = math.sqrt(sum(squares) / sum(variance for variance, _ in parts))
    found = float(stdtridf(0.975, mixed)) if mixed > _NORMAL * (1 + 1e-6) else _NORMAL_FREEDOM
    return min(max(found, least), _NORMAL_FREEDOM)


# --- the mean and variance of one sample -------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """By sample: its mean, the number of values in it, the variance of a value, its degrees of
    freedom; whether the mean is trimmed."""

    mean: Values
    number: Values
    variance: Values
    freedom: Values
    trimmed: npt.NDArray[np.bool_]


def _paired(family: Sequence[TwoSamples]) -> Iterable[Estimate]:
    differences = [
        np.log(np.asarray(sample.above)) - np.log(np.asarray(sample.below)) for sample in family
    ]
    correlation = _correlation(family, differences)
    means = _means(differences, correlation)
    # Pairs that share samples know less than their number says.
    distinct = len({sample.above for sample in family} | {sample.below for sample in family})
    most = float(means.freedom.sum()) * min(1.0, distinct / (2 * len(family)))
    posterior = moderate(means.variance, means.freedom, most_freedom=most)
    for index in range(len(family)):
        variance, number = float(posterior.variance[index]), float(means.number[index])
        yield Estimate(
            value=float(means.mean[index]),
            error=math.sqrt(variance / number),
            freedom=float(posterior.freedom[index]),
            number=number,
            scale=math.sqrt(variance),
            scale_freedom=float(posterior.freedom[index]),
            own_freedom=float(means.freedom[index]),
            paired=True,
            priors=(posterior.prior,),
            trimmed=bool(means.trimmed[index]),
            correlation=correlation,
        )


def _independent(family: Sequence[TwoSamples]) -> Iterable[Estimate]:
    """Each system's variances are moderated apart: one may scatter more than the other (Welch)."""
    logs = [
        {values: np.log(np.asarray(values)) for values in side}
        for side in ([one.above for one in family], [one.below for one in family])
    ]
    correlation = _correlation(family, *(side.values() for side in logs))
    above, below = (_Side(side, correlation) for side in logs)
    uneven = any(
        prior.cells >= FEWEST_CELLS and not prior.freedom for prior in (above.prior, below.prior)
    )
    for sample in family:
        first, second = above.sample(sample.above), below.sample(sample.below)
        variances = first.variance / first.number, second.variance / second.number
        square = sum(variances)
        share = variances[0] / square
        parts = ((share, first), (1 - share, second))
        freedom = 1 / sum(part**2 / sample_.freedom for part, sample_ in parts)
        if uneven:
            # Two trials that are alike by chance would count for nothing (Hsu 1938).
            freedom = min(first.freedom, second.freedom)
        # Of unequal numbers the harmonic mean has the same standard error.
        number = 2 / (1 / first.number + 1 / second.number)
        yield Estimate(
            value=first.mean - second.mean,
            error=math.sqrt(square),
            freedom=freedom,
            number=number,
            scale=math.sqrt(square * number),
            scale_freedom=freedom,
            own_freedom=1 / sum(part**2 / sample_.own for part, sample_ in parts),
            priors=(above.prior, below.prior),
            trimmed=first.trimmed or second.trimmed,
            correlation=correlation,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    mean: float
    number: float
    variance: float
    freedom: float
    own: float
    trimmed: bool


class _Side:
    """The moderated samples of one system; a sample that is in several pairs counts once."""

    def __init__(self, logs: Mapping[tuple[float, ...], Values], correlation: float) -> None:
        means = _means(list(logs.values()), correlation)
        posterior = moderate(means.variance, means.freedom)
        self.prior = posterior.prior
        columns = (
            means.mean,
            means.number,
            posterior.variance,
            posterior.freedom,
            means.freedom,
            means.trimmed,
        )
        self._found: Mapping[tuple[float, ...], _Sample] = {
            key: _Sample(
                mean=mean, number=number, variance=variance, freedom=freedom, own=own, trimmed=cut
            )
            for key, mean, number, variance, freedom, own, cut in zip(
                logs, *(column.tolist() for column in columns), strict=True
            )
        }

    def sample(self, values: tuple[float, ...]) -> _Sample:
        return self._found[values]


def _by_length(logs: Iterable[Values]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for index, values in enumerate(logs):
        found.setdefault(len(values), []).append(index)
    return found


def _correlation(family: Sequence[TwoSamples], *sides: Iterable[Values]) -> float:
    """Estimate the correlation of the family, 0 if not significant or the order is unknown."""
    if not all(sample.ordered for sample in family):
        return 0.0
    tables = []
    for side in sides:
        logs = list(side)
        tables += [np.array([logs[at] for at in group]) for group in _by_length(logs).values()]
    return estimate_correlation(tables, bound=any(sample.in_a_row for sample in family))


def _means(logs: Sequence[Values], correlation: float) -> _Means:
    """Summarise samples of any lengths (at least 2), those of equal length at once."""
    mean, number, variance, freedom = (np.empty(len(logs)) for _ in range(4))
    trimmed = np.zeros(len(logs), dtype=np.bool_)
    for n, group in _by_length(logs).items():
        table = np.array([logs[index] for index in group])
        wild = _wild(table)
        mean[group], number[group], trimmed[group] = table.mean(axis=1), n, wild
        spread, own = table.var(axis=1, ddof=1), np.full(len(group), n - 1.0)
        if correlation:
            inflation, share = variance_inflation(correlation, n)
            spread, own = spread * inflation, own * share
        if wild.any():
            chosen = np.asarray(group)[wild]
            cut = math.floor(TRIM * n)
            kept = n - 2 * cut
            part = np.sort(table[wild], axis=1)
            inner = part[:, cut : n - cut]
            winsorised = np.clip(part, inner[:, :1], inner[:, -1:]).var(axis=1, ddof=1)
            mean[chosen], number[chosen] = inner.mean(axis=1), kept
            # Yuen, Biometrika 61 (1974) 165: the squared standard error is this / kept.
            spread[wild], own[wild] = winsorised * (n - 1) / (kept - 1), kept - 1
        variance[group] = np.maximum(spread, LEAST_DEVIATION**2)
        freedom[group] = own
    return _Means(
        mean=mean,
        number=number,
        variance=variance,
        freedom=freedom,
        trimmed=trimmed,
    )


def _wild(table: Values) -> npt.NDArray[np.bool_]:
    if table.shape[1] < FEWEST_FOR_WILD:
        return np.zeros(len(table), dtype=np.bool_)
    distances = np.abs(table - np.median(table, axis=1, keepdims=True))
    usual = np.maximum(np.median(distances, axis=1), LEAST_DEVIATION / 1.4826)
    return np.asarray(distances.max(axis=1) > WILD * usual)
