"""Targets of a run in the order of what they give, with ties where they cannot be told apart.

How ties, intervals and scores come about is in docs/guides/choose-a-pool.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from leadline import errors
from leadline.analysis.cells import CellFigure
from leadline.analysis.objectives import Objective, Question
from leadline.analysis.ranked_numbers import Missing, RankedNumbers
from leadline.analysis.standings import (
    better_than,
    ranks_of,
    resampled_ranks,
    resampled_scores,
    verdict_intervals,
)
from leadline.analysis.verdicts import Judgement, Pair, Verdict, judge
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.visible import visible

Judge = Callable[[Sequence[Pair], float], tuple[Judgement, ...]]
NoiseFloor = Callable[[Objective], float]
DEFAULT_BAND = 0.05
# Of more targets the ranks in each figure would take longer than anybody waits, and none is read.
MOST_BY_FIGURE = 60
_NAMES_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A target's place. `rank`, `interval` (lowest and highest rank that the trials allow), `score`
    (1 = the baseline) and its 95 % interval are None where a number is missing; the score's
    interval also of the baseline, and where there are too few trials. `values` are those of the
    objectives, in base units, None where missing or refused."""

    target: str
    rank: int | None = None
    interval: tuple[int, int] | None = None
    score: float | None = None
    score_interval: tuple[float, float] | None = None
    values: tuple[float | None, ...]
    missing: tuple[Missing, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Ranks by one objective, of the targets that have its number."""

    objective: Objective
    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """`standings`: complete targets by rank, then score; then the others. `baseline` is None where
    none is complete. `resampled`: intervals come from the trials, otherwise from verdicts alone.
    `judgements` are those of (candidate, baseline) pairs, the candidate being the one of the higher
    score. `tiers` has one entry per objective, none for more than 60 targets."""

    question: Question
    baseline: str | None
    band: float
    standings: tuple[Standing, ...]
    tiers: tuple[Tiers, ...]
    judgements: Mapping[tuple[str, str], Judgement]
    resampled: bool

    @property
    def complete(self) -> tuple[Standing, ...]:
        return tuple(one for one in self.standings if one.complete)

    @property
    def incomplete(self) -> tuple[Standing, ...]:
        return tuple(one for one in self.standings if not one.complete)

    def told_apart(self, one: str, other: str) -> bool:
        """Whether a verdict says that the two differ."""
        judgement = self.between(one, other)
        return judgement.verdict in (Verdict.BETTER, Verdict.WORSE)

    def between(self, one: str, other: str) -> Judgement:
        """The judgement of two complete targets; the candidate is the one of the higher score."""
        found = self.judgements.get((one, other))
        return found if found is not None else self.judgements[other, one]


def rank(
    run: Run,
    figures: Sequence[CellFigure],
    question: Question,
    *,
    baseline: str | None = None,
    band: float = DEFAULT_BAND,
    noise: NoiseFloor = lambda objective: 0.0,
    judging: Judge = judge,
) -> Ranking:
    """Every target of the run. `baseline` is the target that scores 1, the plan's first complete
    one unless named; `noise` is the measured noise floor of an objective as a share.

    Raises LeadlineError: `usage` for a baseline that the run does not have or that lacks a number.
    """
    table = RankedNumbers(run, figures, question.objectives)
    names = [target.name for target in run.plan.targets]
    missing = {name: table.missing(name) for name in names}
    base = _baseline(names, missing, baseline)
    whole = sorted(name for name in names if not missing[name])
    scores = {name: table.log_score(name, base) for name in whole if base is not None}
    whole.sort(key=lambda name: (-scores[name], name))
    tiers = tuple(
        _tiers(table, number, names, missing, band=band, noise=noise, judging=judging)
        for number in range(len(question.objectives) if len(names) <= MOST_BY_FIGURE else 0)
    )
    pairs = list(combinations(range(len(whole)), 2))
    samples = [table.composite(name, base) for name in whole if base is not None]
    floor = sum(one.weight * noise(one) for one in question.objectives)
    only = question.objectives[0].metric if len(question.objectives) == 1 else Metric.IOPS
    judgements = judging(
        [
            Pair(metric=only, candidate=samples[high], baseline=samples[low], noise=floor)
            for high, low in pairs
        ],
        band,
    )
    better = better_than(len(whole), pairs, judgements)
    intervals = verdict_intervals(better, pairs, judgements)
    ranks = ranks_of(better)
    # A target may share the rank of one that is not told from it by way of a third.
    intervals = [_hull(open_, (one, one)) for open_, one in zip(intervals, ranks, strict=True)]
    logs = [table.trial_logs(name) for name in whole]
    resampled = bool(whole) and all(len(trials) > 1 for one in logs for trials in one)
    if resampled:
        drawn = resampled_scores(
            logs,
            [one.weight for one in question.objectives],
            together=not run.plan.imported,
        )
        for number, name in enumerate(whole):
            drawn[number] += scores[name]
        of_ranks = resampled_ranks(drawn, max(band, floor))
        intervals = [_hull(*both) for both in zip(intervals, of_ranks, strict=True)]
    found = {
        (whole[high], whole[low]): one for (high, low), one in zip(pairs, judgements, strict=True)
    }
    of_scores = _score_intervals(found, base, turned=only.is_latency)
    complete = [
        Standing(
            target=name,
            rank=ranks[number],
            interval=intervals[number],
            score=math.exp(scores[name]),
            score_interval=of_scores.get(name),
            values=table.values(name),
        )
        for number, name in enumerate(whole)
    ]
    rest = [
        Standing(target=name, values=table.values(name), missing=missing[name])
        for name in names
        if missing[name]
    ]
    return Ranking(
        question=question,
        baseline=base,
        band=max(band, floor),
        standings=(*complete, *rest),
        tiers=tiers,
        judgements=found,
        resampled=resampled,
    )


def _score_intervals(
    judgements: Mapping[tuple[str, str], Judgement], baseline: str | None, *, turned: bool
) -> dict[str, tuple[float, float]]:
    """Of each target but the baseline, the interval of the verdict on it against the baseline: a
    bootstrap of a few trials would be narrower than the truth. `turned`: what was judged is a
    latency, of which less is more of a score."""
    found = {}
    for (candidate, other), one in judgements.items():
        low, high = one.interval or (0.0, 0.0)
        if low <= 0 or baseline not in (candidate, other):
            continue
        if (other == baseline) is turned:
            low, high = 1 / high, 1 / low
        found[candidate if other == baseline else other] = (low, high)
    return found


def _hull(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def _baseline(
    names: Sequence[str], missing: Mapping[str, tuple[Missing, ...]], wanted: str | None
) -> str | None:
    whole = [name for name in names if not missing[name]]
    if wanted is None:
        return whole[0] if whole else None
    if wanted not in missing:
        raise _no_target(names, wanted)
    if missing[wanted]:
        lacks = [f"{one.objective.name}: {one.reason}" for one in missing[wanted]]
        raise LeadlineError(
            errors.USAGE,
            f"{visible(wanted)} cannot be the baseline: a number of it is missing",
            context=lacks[:_NAMES_SHOWN],
            hint=f"name one of {_listed(whole)}" if whole else "no target has every number",
        )
    return wanted


def _no_target(names: Sequence[str], wanted: str) -> LeadlineError:
    import difflib

    near = difflib.get_close_matches(wanted, names, n=1)
    return LeadlineError(
        errors.USAGE,
        f"the run has no target {wanted!r} to be the baseline",
        context=[f"targets: {_listed(names)}"],
        hint=f"did you mean {near[0]!r}?" if near else "name one of them, or none",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(map(visible, names[:_NAMES_SHOWN])) + more


def _tiers(
    table: RankedNumbers,
    number: int,
    names: Sequence[str],
    missing: Mapping[str, tuple[Missing, ...]],
    *,
    band: float,
    noise: NoiseFloor,
    judging: Judge,
) -> Tiers:
    """Ranks by one objective alone."""
    objective = table.objectives[number]
    there = [name for name in names if objective not in [one.objective for one in missing[name]]]
    samples = {name: table.sample(name, number) for name in there}
    there.sort(key=lambda name: (-table.turned(name, number), name))
    pairs = list(combinations(range(len(there)), 2))
    judgements = judging(
        [
            Pair(
                metric=objective.metric,
                candidate=samples[there[one]],
                baseline=samples[there[other]],
                noise=noise(objective),
            )
            for one, other in pairs
        ],
        band,
    )
    ranks = ranks_of(better_than(len(there), pairs, judgements))
    return Tiers(objective=objective, ranks=dict(zip(there, ranks, strict=True)))
