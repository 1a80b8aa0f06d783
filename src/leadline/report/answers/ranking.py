"""JSON and CSV answers of `leadline rank` and `leadline recommend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from leadline.analysis.ranking import Ranking
from leadline.analysis.recommend import Recommendation
from leadline.analysis.requirements import Protection
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
    capped: bool = Field(default=False, exclude_if=lambda given: not given)


class AskedOutput(Output):
    """What a page was asked for, by which it is made again. `use_case` is a name or a file."""

    objectives: list[str] = Field(default_factory=list)
    use_case: str | None = None
    baseline: str | None = None
    band: float
    requirements: list[str] = Field(default_factory=list)
    prefer: str = "fastest"


class RankOutput(Output):
    """`tiers` by rank, then score; targets that share a rank tie, unless they are `capped` (a
    limit was measured, which shows no difference); incomplete targets come last.
    `rank_interval_from` is `trials` (bootstrap) or `verdicts`."""

    schema_: Literal["leadline/rank/1"] = Field(default="leadline/rank/1", alias="schema")
    run: str
    objective: str
    objectives: list[ObjectiveOutput]
    baseline: str | None
    band: float
    rank_interval_from: Literal["trials", "verdicts"]
    not_measured: list[str]
    tiers: list[TierOutput]
    asked: AskedOutput | None = Field(default=None, exclude_if=lambda given: given is None)


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
    is `speed`, `alone`, `trade-off`, `figure`, `cost` or `none`; `tied` are the targets that tie
    with the fastest."""

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
    asked: AskedOutput | None = Field(default=None, exclude_if=lambda given: given is None)


def rank_output(run: Run, ranking: Ranking, asked: AskedOutput | None = None) -> RankOutput:
    """Build the answer; that of a page has what was `asked`."""
    return RankOutput.from_records(
        ranking,
        asked=asked,
        run=run.id,
        objective=ranking.question.name,
        objectives=_objectives(ranking),
        rank_interval_from="trials" if ranking.resampled else "verdicts",
        not_measured=[unmeasured_text(part) for part in ranking.question.not_measured],
        tiers=[
            TierOutput.from_records(
                standing,
                rank_interval=standing.interval,
                missing=missing_lines(standing),
                capped=standing.target in ranking.capped,
            )
            for standing in ranking.standings
        ],
    )


def _objectives(ranking: Ranking) -> list[ObjectiveOutput]:
    ranks = {tier.objective: tier.ranks for tier in ranking.tiers}
    return [
        ObjectiveOutput.from_records(
            objective,
            objective.metric,
            objective=objective.name,
            ranks=dict(
                sorted(ranks.get(objective, {}).items(), key=lambda item: (item[1], item[0]))
            ),
        )
        for objective in ranking.question.objectives
    ]


def recommend_output(
    run: Run, found: Recommendation, asked: AskedOutput | None = None
) -> RecommendOutput:
    """Build the answer; that of a page has what was `asked`."""
    return RecommendOutput.from_records(
        found,
        found.ranking,
        asked=asked,
        run=run.id,
        use_case=found.case.name,
        requirements=[str(requirement) for requirement in found.requirements],
        recommended=found.chosen.name if found.chosen else None,
        trade_off=trade_off_text(found),
        answer=answer(found),
        objectives=_objectives(found.ranking),
        candidates=[
            CandidateOutput.from_records(
                candidate,
                candidate.standing,
                rank_interval=candidate.standing.interval,
                missing=missing_lines(candidate.standing),
                unmet={
                    str(unmet.requirement): unmet_text(unmet, candidate.protection)
                    for unmet in candidate.unmet
                },
            )
            for candidate in found.candidates
        ],
        not_measured=list(not_measured(found)),
        would_change=changes(found),
    )


RANK_COLUMNS = (
    "rank", "rank_low", "rank_high", "target", "score", "score_low", "score_high", "complete",
    "missing",
)  # fmt: skip


def rank_rows(ranking: RankOutput) -> tuple[tuple[str, ...], list[Sequence[object]]]:
    """Columns and rows: RANK_COLUMNS, then a column for each objective, with its unit."""
    columns = (
        *RANK_COLUMNS,
        *(f"{objective.objective} [{objective.unit}]" for objective in ranking.objectives),
    )
    rows: list[Sequence[object]] = [
        (
            tier.rank, *(tier.rank_interval or (None, None)), tier.target, tier.score,
            *(tier.score_interval or (None, None)), "yes" if tier.complete else "no",
            "; ".join(tier.missing), *tier.values,
        )
        for tier in ranking.tiers
    ]  # fmt: skip
    return columns, rows
