"""Ranks and rank intervals of targets, from the verdicts of pairs and from resampled trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from leadline.analysis.verdicts import Evidence, Judgement, Verdict
from leadline.stats.correlation import variance_inflation

Values = npt.NDArray[np.float64]
Better = npt.NDArray[np.bool_]
Pairs = Sequence[tuple[int, int]]

_RESAMPLES = 1000
_SEED = 20261121
_TAILS = (2.5, 97.5)


def better_than(count: int, pairs: Pairs, judgements: Iterable[Judgement]) -> Better:
    """Return which target is better than which (row better than column), directly or by a chain.

    `pairs` are (candidate, baseline). Verdicts of pairs need not be transitive: A can be better
    than B and B than C, while A and C, whose trials vary more, are inconclusive. The closure over
    chains makes them transitive.
    """
    better: Better = np.zeros((count, count), dtype=np.bool_)
    for (candidate, baseline), one in zip(pairs, judgements, strict=True):
        better[candidate, baseline] = one.verdict is Verdict.BETTER
        better[baseline, candidate] = one.verdict is Verdict.WORSE
    for through in range(count):
        better |= np.outer(better[:, through], better[through])
    np.fill_diagonal(better, False)
    return better


def ranks_of(better: Better) -> list[int]:
    """Return the ranks of targets that are given in the order of their figures, the best first.

    A target shares the rank of the one before it unless it differs significantly from any target
    of that rank; then its rank is its place. Targets of one rank never differ significantly, and a
    lower figure never ranks before a higher one.
    """
    ranks: list[int] = []
    start = 0
    for place in range(len(better)):
        if better[start:place, place].any() or better[place, start:place].any():
            start = place
        ranks.append(1 + start)
    return ranks


def verdict_intervals(
    better: Better, pairs: Pairs, judgements: Iterable[Judgement]
) -> list[tuple[int, int]]:
    """Return the rank interval that the verdicts allow: after every target that is better, before
    every target that is worse. Two targets can be shown to be the same only by repeated trials."""
    count = len(better)
    same = np.zeros((count, count), dtype=np.bool_)
    for (one, other), judgement in zip(pairs, judgements, strict=True):
        shown = judgement.evidence is not Evidence.ONE_NUMBER
        same[one, other] = same[other, one] = shown and judgement.verdict is Verdict.SAME
    settled = better | (same & ~better.T)
    return [
        (1 + int(better[:, place].sum()), count - int(settled[place].sum()))
        for place in range(count)
    ]


def resampled_scores(
    logs: Sequence[Sequence[Sequence[float]]],
    weights: Sequence[float],
    *,
    together: bool,
    correlation: float = 0.0,
) -> Values:
    """Return the deviation of each target's composite score when its trials are resampled, in
    logarithms. Shape (targets, resamples).

    `logs[target][objective]` are the logarithms of its trials. `together`: the i-th trials of all
    targets ran in one block, so that a block is drawn for all of them; where a target lacks trials,
    and otherwise, each draws its own. One draw serves all objectives of a target. `correlation`
    from trial to trial makes a mean scatter more than independent draws show.
    """
    most = max(len(trials) for target in logs for trials in target)
    generator = np.random.default_rng(_SEED)
    shared = generator.random((_RESAMPLES, most))
    found = np.zeros((len(logs), _RESAMPLES))
    for number, target in enumerate(logs):
        draws = shared if together else generator.random((_RESAMPLES, most))
        for weight, trials in zip(weights, target, strict=True):
            values = np.asarray(trials, dtype=np.float64)
            drawn = values[(draws[:, : len(values)] * len(values)).astype(np.intp)]
            widened = weight * math.sqrt(variance_inflation(correlation, len(values))[0])
            found[number] += widened * (np.mean(drawn, axis=1) - np.mean(values))
    return found


def resampled_ranks(scores: Values, band: float) -> list[tuple[int, int]]:
    """2.5 and 97.5 % of each target's rank over resamples, where a target is better than another
    if it lies above it by more than the band. `scores` are logarithms, (targets, resamples)."""
    ordered = np.sort(scores, axis=0)
    above = scores + math.log1p(band)
    ranks = np.empty(scores.shape, dtype=np.int64)
    for resample in range(scores.shape[1]):
        not_above = np.searchsorted(ordered[:, resample], above[:, resample], side="right")
        ranks[:, resample] = 1 + len(scores) - not_above
    low, high = np.percentile(ranks, _TAILS, axis=1)
    return [(math.floor(first), math.ceil(last)) for first, last in zip(low, high, strict=True)]
