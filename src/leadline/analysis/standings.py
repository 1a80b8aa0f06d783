"""From pairwise verdicts to ranks with ties, and what a bootstrap over trials says of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from leadline.analysis.verdicts import Evidence, Judgement, Verdict

Values = npt.NDArray[np.float64]
Better = npt.NDArray[np.bool_]
Pairs = Sequence[tuple[int, int]]

_RESAMPLES = 1000
_SEED = 20261121
_TAILS = (2.5, 97.5)


def better_than(count: int, pairs: Pairs, judgements: Iterable[Judgement]) -> Better:
    """Who is better than whom (row better than column), straight or through a chain of others.

    `pairs` are (candidate, baseline). Verdicts of pairs need not be transitive: A may be told from
    B and B from C, and A not from C, whose trials vary more. With the chain counted they are.
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
    """Ranks of targets that are given in the order of their figures, the best first.

    A rank is shared until the first target that can be told from one that shares it; that one's
    rank is its place. So no two of one rank can be told apart, whoever is worse than another never
    shares its rank, and a lower figure never stands before a higher one, however much it varies.
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
    """The ranks that the verdicts leave open: behind those that are surely better, before those
    that are surely worse. Only trials can show two to be the same; one number a side cannot."""
    count = len(better)
    same = np.zeros((count, count), dtype=np.bool_)
    for (one, other), judgement in zip(pairs, judgements, strict=True):
        shown = judgement.evidence is not Evidence.ONE_NUMBER
        same[one, other] = same[other, one] = shown and judgement.verdict is Verdict.SAME
    settled = better | (same & ~better.T)
    return [
        (1 + int(better[:, one].sum()), count - int(settled[one].sum())) for one in range(count)
    ]


def resampled_scores(
    logs: Sequence[Sequence[Sequence[float]]], weights: Sequence[float], *, together: bool
) -> Values:
    """How far each target's composite lies from itself when its trials are drawn again, in
    logarithms. Shape (targets, resamples).

    `logs[target][objective]` are the logarithms of its trials. `together`: the i-th trials of all
    targets ran in one block, so that a block is drawn for all of them; where a target lacks
    trials, and otherwise, each draws its own. The same draw serves all objectives of a target,
    whose trials share the weather.
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
            found[number] += weight * (np.median(drawn, axis=1) - np.median(values))
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
