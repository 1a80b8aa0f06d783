"""JSON and CSV answers of `leadline rank` and `leadline recommend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from leadline.analysis.objectives import Objective
from leadline.analysis.ranking import Ranking
from leadline.analysis.recommend import Candidate, Protection, Recommendation
from leadline.archive.reader import Run
from leadline.report.answers.base import Output
from leadline.report.pages.ranking import missing_lines, unmeasured_text
from leadline.report.pages.recommendation import (
    answer,
    changes,
    not_measured,
    trade_off_text,
    unmet_text,
)


class ObjectiveOutput(Output):
    """A number that counts, `weight` its share. `need` is the part of the use case that it stands
    for. `ranks`: the targets that have it, by rank in this alone; empty for more than 60."""

    objective: str
    workload: str
    level: str
    op: str
    metric: str
    unit: str
    weight: float
    need: str
    ranks: dict[str, int]


class TierOutput(Output):
    """A target's place. `rank`, `rank_interval` (lowest and highest that the evidence allows) and
    `score` (1 = the baseline) are null where a number is missing; `missing` says which and why.
    `values` are the numbers in the order of `objectives`, in base units."""

    rank: int | None
    rank_interval: tuple[int, int] | None
    target: str
    score: float | None
    score_interval: tuple[float, float] | None
    complete: bool
    missing: list[str]
    values: list[float | None]


class RankOutput(Output):
    """`tiers` by rank, then score; targets that share a rank tie; incomplete targets
    come last. `rank_interval_from` is `trials` (bootstrap) or `verdicts`."""

    schema_: Literal["leadline/rank/1"] = Field(default="leadline/rank/1", alias="schema")
    run: str
    objective: str
    objectives: list[ObjectiveOutput]
    baseline: str | None
    band: float
    rank_interval_from: Literal["trials", "verdicts"]
    not_measured: list[str]
    tiers: list[TierOutput]


class CandidateOutput(Output):
    """`unmet` maps each requirement that the target does not fulfil to the reason."""

    target: str
    eligible: bool
    rank: int | None
    rank_interval: tuple[int, int] | None
    score: float | None
    missing: list[str]
    unmet: dict[str, str]
    protection: Protection


class RecommendOutput(Output):
    """`recommended` is null where no target has every number and fulfils what is required. `basis`
    is `speed`, `alone`, `trade-off`, `figure` or `none`; `tied` are the targets that tie with
    the fastest."""

    schema_: Literal["leadline/recommend/1"] = Field(default="leadline/recommend/1", alias="schema")
    run: str
    use_case: str
    requirements: list[str]
    recommended: str | None
    basis: str
    trade_off: str
    tied: list[str]
    answer: str
    objectives: list[ObjectiveOutput]
    baseline: str | None
    band: float
    candidates: list[CandidateOutput]
    not_measured: list[str]
    would_change: list[str]


def rank_output(run: Run, ranking: Ranking) -> RankOutput:
    return RankOutput(
        run=run.id,
        objective=ranking.question.name,
        objectives=_objectives(ranking),
        baseline=ranking.baseline,
        band=ranking.band,
        rank_interval_from="trials" if ranking.resampled else "verdicts",
        not_measured=[unmeasured_text(part) for part in ranking.question.not_measured],
        tiers=[
            TierOutput(
                rank=one.rank,
                rank_interval=one.interval,
                target=one.target,
                score=one.score,
                score_interval=one.score_interval,
                complete=one.complete,
                missing=missing_lines(one),
                values=list(one.values),
            )
            for one in ranking.standings
        ],
    )


def _objectives(ranking: Ranking) -> list[ObjectiveOutput]:
    ranks = {tier.objective: dict(tier.ranks) for tier in ranking.tiers}
    return [_objective(one, ranks.get(one, {})) for one in ranking.question.objectives]


def _objective(one: Objective, ranks: dict[str, int]) -> ObjectiveOutput:
    return ObjectiveOutput(
        objective=one.name,
        workload=one.workload,
        level=one.level,
        op=one.op.value,
        metric=one.metric.value,
        unit=one.metric.unit,
        weight=one.weight,
        need=one.need,
        ranks=dict(sorted(ranks.items(), key=lambda item: (item[1], item[0]))),
    )


def recommend_output(run: Run, found: Recommendation) -> RecommendOutput:
    return RecommendOutput(
        run=run.id,
        use_case=found.case.name,
        requirements=[str(one) for one in found.requirements],
        recommended=found.chosen.name if found.chosen else None,
        basis=found.basis.value,
        trade_off=trade_off_text(found),
        tied=list(found.tied),
        answer=answer(found),
        objectives=_objectives(found.ranking),
        baseline=found.ranking.baseline,
        band=found.ranking.band,
        candidates=[_candidate(one) for one in found.candidates],
        not_measured=list(not_measured(found)),
        would_change=list(changes(found)),
    )


def _candidate(one: Candidate) -> CandidateOutput:
    return CandidateOutput(
        target=one.name,
        eligible=one.eligible,
        rank=one.standing.rank,
        rank_interval=one.standing.interval,
        score=one.standing.score,
        missing=missing_lines(one.standing),
        unmet={str(unmet.requirement): unmet_text(unmet, one.protection) for unmet in one.unmet},
        protection=one.protection,
    )


RANK_COLUMNS = (
    "rank", "rank_low", "rank_high", "target", "score", "score_low", "score_high", "complete",
    "missing",
)  # fmt: skip


def rank_rows(ranking: RankOutput) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """Columns and rows: RANK_COLUMNS, then a column for each objective, with its unit."""
    columns = (*RANK_COLUMNS, *(f"{one.objective} [{one.unit}]" for one in ranking.objectives))
    rows: list[Sequence[object]] = [
        (
            one.rank, *(one.rank_interval or (None, None)), one.target, one.score,
            *(one.score_interval or (None, None)), "yes" if one.complete else "no",
            "; ".join(one.missing), *one.values,
        )
        for one in ranking.tiers
    ]  # fmt: skip
    return columns, rows
