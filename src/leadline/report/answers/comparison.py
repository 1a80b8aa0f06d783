"""`leadline compare --format json` and `csv`: the contract `leadline/compare/1`."""

from __future__ import annotations

import csv
import io
from pathlib import PurePath
from typing import Literal

from pydantic import Field

from leadline.analysis.comparison import ComparedCell, Comparison, LimitResult
from leadline.analysis.figures import MetricFigure
from leadline.report.answers.base import Output
from leadline.report.pages.comparison.explanations import effect_texts, explanation_text


class ComparedOutput(Output):
    """`baseline` and `candidate` are in the metric's base unit, null where missing or not shown.
    `interval` is the 95 % interval of `ratio` = candidate / baseline; `p_adjusted` counts how many
    cells were looked at. `band` is the share within which two values count as the same here.
    `reasons` are codes, the most important first. `evidence` says what the verdict rests on, and
    `trials_needed` how many trials a side would probably decide what is open."""

    target: str
    workload: str
    level: str
    op: str | None
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    baseline_interval: tuple[float, float] | None
    candidate_interval: tuple[float, float] | None
    baseline_trials: int
    candidate_trials: int
    ratio: float | None
    interval: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None
    band: float
    verdict: str
    evidence: str
    reasons: list[str]
    trials_needed: int | None
    detectable: float | None


class DifferenceOutput(Output):
    """`path` is dotted; `explains` are sentences on what the difference can account for."""

    path: str
    topic: str
    target: str
    baseline: str
    candidate: str
    explains: list[str]


class ExplanationOutput(Output):
    """`closes`: whether the arithmetic does; null where there is none to do. `cells` are indices
    into the answer's `cells`."""

    paths: list[str]
    cells: list[int]
    text: str
    closes: bool | None


class LimitOutput(Output):
    """One limit of `--fail-on` on one cell: `kept`, `exceeded` or `undecided`."""

    limit: str
    target: str
    workload: str
    level: str
    op: str | None
    metric: str
    ratio: float | None
    outcome: str


class SideOutput(Output):
    name: str
    run: str
    path: str


class SummaryOutput(Output):
    """Counts of verdicts over all cells, and the key finding in a sentence."""

    better: int
    worse: int
    same: int
    inconclusive: int
    not_comparable: int
    headline: str


class CompareOutput(Output):
    """`baseline` and `candidate` are the names of the sides."""

    schema_: Literal["leadline/compare/1"] = Field(default="leadline/compare/1", alias="schema")
    by: str
    baseline: str
    candidate: str
    sides: dict[str, SideOutput]
    band: float
    cells: list[ComparedOutput]
    differences: list[DifferenceOutput]
    identical: list[str]
    explanations: list[ExplanationOutput]
    baseline_alone: list[str]
    candidate_alone: list[str]
    limits: list[LimitOutput]
    summary: SummaryOutput

    def to_be_sent(self) -> CompareOutput:
        """For a page that others read: archives by their folders' names, not by where they lie."""
        sides = {
            which: side.model_copy(update={"path": PurePath(side.path).name})
            for which, side in self.sides.items()
        }
        return self.model_copy(update={"sides": sides})

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs, the baseline's first; one where both sides are of one."""
        return tuple(dict.fromkeys(self.sides[side].run for side in ("baseline", "candidate")))


def compare_output(
    comparison: Comparison, headline: str, limits: tuple[LimitResult, ...] = ()
) -> CompareOutput:
    """The comparison as an answer for programs."""
    counts = {verdict.value.replace(" ", "_"): n for verdict, n in comparison.counts().items()}
    return CompareOutput(
        by=comparison.by.value,
        baseline=comparison.baseline.name,
        candidate=comparison.candidate.name,
        sides={
            which: SideOutput(name=side.name, run=side.run.id, path=str(side.run.path))
            for which, side in (
                ("baseline", comparison.baseline),
                ("candidate", comparison.candidate),
            )
        },
        band=comparison.band,
        cells=[_cell(cell) for cell in comparison.cells],
        differences=[
            DifferenceOutput(
                path=one.path,
                topic=one.topic.value,
                target=one.target,
                baseline=one.baseline,
                candidate=one.candidate,
                explains=effect_texts(one),
            )
            for one in comparison.differences
        ],
        identical=list(comparison.identical),
        explanations=[
            ExplanationOutput(
                paths=list(one.paths),
                cells=list(one.cells),
                text=explanation_text(one),
                closes=one.closes,
            )
            for one in comparison.explanations
        ],
        baseline_alone=list(comparison.baseline_alone),
        candidate_alone=list(comparison.candidate_alone),
        limits=[_limit(one) for one in limits],
        summary=SummaryOutput(**counts, headline=headline),
    )


def _cell(cell: ComparedCell) -> ComparedOutput:
    judged = cell.judgement
    return ComparedOutput(
        target=cell.target,
        workload=cell.workload,
        level=cell.level,
        op=cell.op.value if cell.op else None,
        metric=cell.metric.value,
        unit=cell.metric.unit,
        baseline=cell.baseline.value if cell.baseline else None,
        candidate=cell.candidate.value if cell.candidate else None,
        baseline_interval=cell.baseline.interval if cell.baseline else None,
        candidate_interval=cell.candidate.interval if cell.candidate else None,
        baseline_trials=_trials(cell.baseline),
        candidate_trials=_trials(cell.candidate),
        ratio=judged.ratio,
        interval=judged.interval,
        p=judged.p,
        p_adjusted=judged.p_adjusted,
        band=judged.band,
        verdict=judged.verdict.value,
        evidence=judged.evidence.value,
        reasons=list(judged.reasons),
        trials_needed=judged.trials_needed,
        detectable=judged.detectable,
    )


def _trials(figure: MetricFigure | None) -> int:
    return sum(one.value is not None for one in figure.trials) if figure else 0


def _limit(result: LimitResult) -> LimitOutput:
    cell = result.cell
    return LimitOutput(
        limit=result.limit.text,
        target=cell.target,
        workload=cell.workload,
        level=cell.level,
        op=cell.op.value if cell.op else None,
        metric=cell.metric.value,
        ratio=cell.judgement.ratio,
        outcome=result.outcome.value,
    )


_COLUMNS = (
    "target", "workload", "level", "op", "metric", "unit", "baseline", "candidate", "ratio",
    "interval_low", "interval_high", "p", "p_adjusted", "band", "verdict", "evidence", "reasons",
    "baseline_trials", "candidate_trials", "trials_needed",
)  # fmt: skip


def compare_csv(answer: CompareOutput) -> str:
    """A row for each compared number; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for cell in answer.cells:
        low, high = cell.interval or (None, None)
        told = cell.model_dump() | {
            "interval_low": low,
            "interval_high": high,
            "reasons": " ".join(cell.reasons),
        }
        writer.writerow("" if told[key] is None else told[key] for key in _COLUMNS)
    return out.getvalue()
