"""Ranking: the targets of a run in order of their figures, with ties and rank intervals.

docs/guides/choose-a-pool.md explains how ties, intervals and scores are computed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import combinations

from leadline import errors
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.objectives import Objective, Question
from leadline.analysis.samples import Samples, error_codes, merge_budgets
from leadline.analysis.standings import (
    Pairs,
    better_than,
    ranks_of,
    resampled_ranks,
    resampled_scores,
    verdict_intervals,
)
from leadline.analysis.verdicts import CAP_REASONS, Judgement, Pair, Sample, Verdict, judge
from leadline.analysis.workloads import workload_differences
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.metrics import MARGIN, STAGES, Metric, Op, Spread
from leadline.plan.workload import Workload
from leadline.stats.effects import location
from leadline.text import did_you_mean, shortened


class MissingCause(StrEnum):
    """Why a target has no usable number for an objective."""

    NOT_PLANNED = "not-planned"
    NO_COMPLETED_TRIAL = "no-completed-trial"
    NO_VALUE = "no-value"
    REFUSED = "refused"
    ZERO = "zero"
    OTHER_WORK = "other-work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A number that a target lacks. `figure` has a reason of its own (cause NO_VALUE),
    `codes` are the audit's error codes, `differences` those of the work (OTHER_WORK)."""

    objective: Objective
    cause: MissingCause
    figure: MetricFigure | None = None
    codes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()


class RankedNumbers:
    """Targets by objectives: figures, what is missing, samples of one number and of all."""

    def __init__(
        self, run: Run, figures: Sequence[CellFigure], objectives: Sequence[Objective]
    ) -> None:
        self._run = run
        self.objectives = objectives
        self._figures: dict[tuple[str, str, str, Op | None], CellFigure] = {
            (figure.target, figure.workload, figure.level, figure.op): figure for figure in figures
        }
        self._workloads = {
            (cell.target, cell.workload.name, cell.level): cell.workload for cell in run.plan.cells
        }
        self._samples = Samples(run)
        self._made: dict[tuple[str, int], Sample] = {}
        self._usual = [self._usual_workload(objective) for objective in objectives]

    def _figure(self, target: str, objective: Objective) -> CellFigure | None:
        return self._figures.get((target, *objective.key))

    def _workload(self, figure: CellFigure) -> Workload | None:
        return self._workloads.get((figure.target, figure.planned_workload, figure.level))

    def _usual_workload(self, objective: Objective) -> Workload | None:
        """What most targets did under the name: imported results need not have done the same."""
        found: dict[str, Workload] = {}
        count: Counter[str] = Counter()
        for target in self._run.plan.targets:
            figure = self._figure(target.name, objective)
            workload = self._workload(figure) if figure else None
            if workload is not None:
                text = str(sorted(workload.recorded.options.items())) if workload.recorded else ""
                found.setdefault(text, workload)
                count[text] += 1
        return found[min(count, key=lambda text: (-count[text], text))] if count else None

    def missing(self, target: str) -> tuple[Missing, ...]:
        """Return the objectives for which the target has no usable number, with the cause."""
        found = (self._missing(target, number) for number in range(len(self.objectives)))
        return tuple(missing for missing in found if missing is not None)

    def _missing(self, target: str, number: int) -> Missing | None:
        objective = self.objectives[number]
        figure = self._figure(target, objective)
        if figure is None:
            planned = any(
                cell.workload.name == objective.workload and cell.level == objective.level
                for cell in self._run.plan.cells_of(target)
            )
            # A completed trial has no row for a stage that the class does not support.
            failed = planned and objective.op not in STAGES
            cause = MissingCause.NO_COMPLETED_TRIAL if failed else MissingCause.NOT_PLANNED
            return Missing(objective=objective, cause=cause)
        missing = partial(Missing, objective=objective)
        metric = figure.metric(objective.metric)
        refused = error_codes(metric)
        if metric.value is None:
            return missing(cause=MissingCause.NO_VALUE, figure=metric, codes=refused)
        if refused:
            return missing(cause=MissingCause.REFUSED, codes=refused)
        if metric.value <= 0:
            return missing(cause=MissingCause.ZERO)
        usual, own = self._usual[number], self._workload(figure)
        if usual and own and usual.recorded and (differences := workload_differences(usual, own)):
            return missing(cause=MissingCause.OTHER_WORK, differences=differences)
        return None

    def values(self, target: str) -> tuple[float | None, ...]:
        """Return the usable numbers, by objective."""
        return tuple(
            None if self._missing(target, number) else self._value(target, number)
            for number in range(len(self.objectives))
        )

    def _value(self, target: str, number: int) -> float:
        value = self.sample(target, number).value
        assert value is not None, "callers check first that nothing is missing"
        return value

    def turned(self, target: str, number: int) -> float:
        """Return the logarithm of a number, with the sign that makes more better."""
        return _sign(self.objectives[number].metric) * math.log(self._value(target, number))

    def sample(self, target: str, number: int) -> Sample:
        if (target, number) not in self._made:
            objective = self.objectives[number]
            figure = self._figure(target, objective)
            assert figure is not None, "callers check first that nothing is missing"
            made = self._samples.sample(figure.metric(objective.metric), objective.op)
            self._made[target, number] = made
        return self._made[target, number]

    def log_score(self, target: str, baseline: str) -> float:
        """The logarithm of the weighted geometric mean of ratios to the baseline, each turned so
        that more is better."""
        return math.fsum(
            one.weight * (self.turned(target, number) - self.turned(baseline, number))
            for number, one in enumerate(self.objectives)
        )

    def trial_logs(self, target: str) -> list[list[float]]:
        """Logarithms of the trials by objective, turned so that more is better."""
        return [
            [
                _sign(one.metric) * math.log(value)
                for value in self.sample(target, number).trials
                if value > 0
            ]
            for number, one in enumerate(self.objectives)
        ]

    def composite(self, target: str, baseline: str) -> Sample:
        """All objectives of a target as one sample, whose trials are made of what ran in the same
        repeat. Of a single objective it is that objective's own."""
        samples = [self.sample(target, number) for number in range(len(self.objectives))]
        if len(samples) == 1:
            return samples[0]
        weights = [objective.weight for objective in self.objectives]
        repeats = [self._by_repeat(target, number, baseline) for number in range(len(samples))]
        common = [
            repeat for repeat in repeats[0] if all(repeat in others for others in repeats[1:])
        ]
        imported = any(sample.imported for sample in samples)
        alone = len(common) == 1
        within = [sample.within[0] for sample in samples if sample.within] if alone else []
        score = math.exp(self.log_score(target, baseline))
        return Sample(
            value=score,
            trials=tuple(
                math.exp(
                    math.fsum(
                        weight * one[repeat] for weight, one in zip(weights, repeats, strict=True)
                    )
                )
                for repeat in common
            ),
            blocks=tuple(
                (target, repeat) if imported else (samples[0].series or 0, repeat)
                for repeat in common
            ),
            series=samples[0].series,
            within=(_pooled(weights, within),) if len(within) == len(samples) else (),
            imported=imported,
            spread=_pooled_spread(score, weights, samples),
            capped=any(sample.capped for sample in samples),
            budget_bps=merge_budgets(samples),
            partial=any(sample.partial for sample in samples),
            looks=samples[0].looks,
        )

    def _by_repeat(self, target: str, number: int, baseline: str) -> dict[int | str, float]:
        """An objective's trials as logarithms of ratios to the baseline's figure."""
        objective = self.objectives[number]
        figure = self._figure(target, objective)
        assert figure is not None, "callers check first that nothing is missing"
        zero = self.turned(baseline, number)
        trials = figure.metric(objective.metric).trials
        if any(trial.value is None for trial in trials):
            return {}  # a part of the trials would be those that suit
        return {
            self._samples.repeat(trial.trial): _sign(objective.metric) * math.log(trial.value)
            - zero
            for trial in trials
            if trial.value
        }


def _pooled_spread(
    score: float, weights: Sequence[float], samples: Sequence[Sample]
) -> Spread | None:
    """Return the scatter of a weighted geometric mean of published means; None unless all have one.

    Their deviations are added: a repeat that was slow in one may have been slow in all.
    """
    spreads = [(one.spread, one.value) for one in samples if one.spread and one.value]
    if len(spreads) < len(samples):
        return None
    number = min(spread.number for spread, _ in spreads)
    error = math.fsum(
        weight * spread.deviation / value / math.sqrt(spread.number)
        for weight, (spread, value) in zip(weights, spreads, strict=True)
    )
    return Spread(deviation=score * error * math.sqrt(number), number=number)


def _pooled(weights: Sequence[float], shares: Sequence[float | None]) -> float | None:
    """The standard error of a weighted mean of logarithms whose errors are independent."""
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return None
    return math.sqrt(math.fsum((w * s) ** 2 for w, s in zip(weights, known, strict=True)))


def _sign(metric: Metric) -> float:
    return -1.0 if metric.lower_is_better else 1.0


NoiseFloor = Callable[[Objective], float]
# For more targets, ranks by each objective take too long to compute and are too many to read.
MOST_BY_FIGURE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A target's place. `rank`, `interval` (the rank interval: lowest and highest rank that the
    trials allow), `score` (1 = the baseline) and its interval (of 95 % or more) are None where a
    number is missing; the score's interval also for the baseline and without repeated trials.
    `values` are those of the objectives, in base units, None where missing or refused."""

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
        return tuple(standing for standing in self.standings if standing.complete)

    @property
    def incomplete(self) -> tuple[Standing, ...]:
        return tuple(standing for standing in self.standings if not standing.complete)

    def differ(self, one: str, other: str) -> bool:
        """Return whether the two targets differ significantly."""
        judgement = self.between(one, other)
        return judgement.verdict in (Verdict.BETTER, Verdict.WORSE)

    @property
    def capped(self) -> tuple[str, ...]:
        """Return the complete targets that share a rank because a limit was measured, which shows
        no difference: they do not tie."""
        ranks = {standing.target: standing.rank for standing in self.complete}
        found = {
            name
            for pair, judgement in self.judgements.items()
            if CAP_REASONS & set(judgement.reasons) and ranks[pair[0]] == ranks[pair[1]]
            for name in pair
        }
        return tuple(name for name in ranks if name in found)

    def first_of(self, names: Sequence[str]) -> list[str]:
        """Return which of these complete targets, given by descending score, share the first rank
        among themselves."""
        pairs = list(combinations(range(len(names)), 2))
        judgements = [self.between(names[high], names[low]) for high, low in pairs]
        ranks = ranks_of(better_than(len(names), pairs, judgements))
        return [name for name, rank in zip(names, ranks, strict=True) if rank == 1]

    def between(self, one: str, other: str) -> Judgement:
        """Return the judgement of two complete targets; the candidate has the higher score."""
        found = self.judgements.get((one, other))
        return found if found is not None else self.judgements[other, one]


def rank(
    run: Run,
    figures: Sequence[CellFigure],
    question: Question,
    *,
    baseline: str | None = None,
    band: float = MARGIN,
    noise: NoiseFloor = lambda objective: 0.0,
) -> Ranking:
    """Every target of the run. `baseline` is the target that scores 1, the plan's first complete
    one unless named; `noise` is the measured noise floor of an objective as a share.

    Raises LeadlineError: `usage` for a baseline that the run does not have or that lacks a number.
    """
    table = RankedNumbers(run, figures, question.objectives)
    names = [target.name for target in run.plan.targets]
    missing = {name: table.missing(name) for name in names}
    base = _baseline(missing, baseline)
    whole = sorted(name for name in names if not missing[name])
    only = question.objectives[0].metric if len(question.objectives) == 1 else Metric.IOPS
    composites = {name: table.composite(name, base) for name in whole if base is not None}
    places = {name: _place(sample, only) for name, sample in composites.items()}
    scores = {name: place - places[base] for name, place in places.items() if base is not None}
    whole.sort(key=lambda name: (-scores[name], name))
    tiers = tuple(
        _tiers(table, number, missing, band, noise(objective))
        for number, objective in enumerate(question.objectives)
        if len(names) <= MOST_BY_FIGURE
    )
    samples = [composites[name] for name in whole]
    floor = sum(objective.weight * noise(objective) for objective in question.objectives)
    pairs, judgements = _judge_pairs(samples, only, band, floor)
    found = {
        (whole[high], whole[low]): one for (high, low), one in zip(pairs, judgements, strict=True)
    }
    better = better_than(len(whole), pairs, judgements)
    intervals = verdict_intervals(better, pairs, judgements)
    ranks = ranks_of(better)
    # Two targets can share a rank through a third from which neither differs.
    intervals = [_hull(open_, (one, one)) for open_, one in zip(intervals, ranks, strict=True)]
    logs = [table.trial_logs(name) for name in whole]
    resampled = bool(whole) and all(len(trials) > 1 for log in logs for trials in log)
    if resampled:
        correlations = [one.estimate.correlation for one in judgements if one.estimate]
        drawn = resampled_scores(
            logs,
            [objective.weight for objective in question.objectives],
            together=not run.plan.imported and len({group.series for group in run.plan.groups}) < 2,
            correlation=max(correlations, default=0.0),
        )
        for number, name in enumerate(whole):
            drawn[number] += scores[name]
        of_ranks = resampled_ranks(drawn, max(band, floor))
        intervals = [_hull(*both) for both in zip(intervals, of_ranks, strict=True)]
    of_scores = _score_intervals(found, base, turned=only.lower_is_better)
    complete = [
        Standing(
            target=name,
            rank=ranks[number],
            interval=intervals[number],
            score=math.exp(scores[name]),
            score_interval=_around(scores[name], of_scores.get(name)),
            values=table.values(name),
        )
        for number, name in enumerate(whole)
    ]
    rest = [
        Standing(target=name, values=table.values(name), missing=gaps)
        for name, gaps in missing.items()
        if gaps
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


def _place(sample: Sample, metric: Metric) -> float:
    """Return the logarithm of a target's figure, more is better: as the verdicts estimate it from
    its trials where they are repeated."""
    repeated = len(sample.trials) > 1 and all(value > 0 for value in sample.trials)
    log = location(sample.trials) if repeated else math.log(sample.value or 1.0)
    return _sign(metric) * log


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


def _around(score: float, interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Widen the interval of a ratio to the score (a logarithm): of trials in pairs another trial
    may be wild than of a target's own."""
    if interval is None:
        return None
    return min(interval[0], math.exp(score)), max(interval[1], math.exp(score))


def _hull(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), max(one[1], other[1])


def _baseline(missing: Mapping[str, tuple[Missing, ...]], wanted: str | None) -> str | None:
    whole = [name for name in missing if not missing[name]]
    if wanted is None:
        return whole[0] if whole else None
    if wanted not in missing:
        raise LeadlineError(
            errors.USAGE,
            f"the run has no target {wanted!r} to be the baseline",
            context=[f"targets: {shortened(missing)}"],
            hint=did_you_mean(wanted, missing, "name one of them, or none"),
        )
    if missing[wanted]:
        lacks = [f"{gap.objective.name}: {gap.cause.replace('-', ' ')}" for gap in missing[wanted]]
        raise LeadlineError(
            errors.USAGE,
            f"{wanted} cannot be the baseline: it lacks a number",
            context=lacks[:12],
            hint=f"name one of {shortened(whole)}" if whole else "no target has every number",
        )
    return wanted


def _tiers(
    table: RankedNumbers,
    number: int,
    missing: Mapping[str, tuple[Missing, ...]],
    band: float,
    noise: float,
) -> Tiers:
    """Ranks by one objective alone."""
    objective = table.objectives[number]
    names = [
        name for name, gaps in missing.items() if objective not in [gap.objective for gap in gaps]
    ]
    names.sort(key=lambda name: (-table.turned(name, number), name))
    samples = [table.sample(name, number) for name in names]
    ranks = ranks_of(better_than(len(names), *_judge_pairs(samples, objective.metric, band, noise)))
    return Tiers(objective=objective, ranks=dict(zip(names, ranks, strict=True)))


def _judge_pairs(
    samples: Sequence[Sample], metric: Metric, band: float, noise: float
) -> tuple[Pairs, tuple[Judgement, ...]]:
    """Test every pair of targets, which are given with the best figure first."""
    pairs = list(combinations(range(len(samples)), 2))
    return pairs, judge(
        [
            Pair(metric=metric, candidate=samples[high], baseline=samples[low], noise=noise)
            for high, low in pairs
        ],
        band,
    )
