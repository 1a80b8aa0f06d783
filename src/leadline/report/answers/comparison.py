"""`leadline compare --format json` and `csv`: the contract `leadline/compare/1`."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import Literal

from pydantic import Field

from leadline.analysis.comparison import ComparedCell, Comparison, LimitResult
from leadline.analysis.explain.facts import CellTest, Explanation, RoundTripCost
from leadline.analysis.figures import MetricFigure
from leadline.report.answers.base import CellOutput, Output
from leadline.report.pages.comparison.explanations import effect_texts, explanation_text
from leadline.report.render.rows import render_rows


class ComparedOutput(CellOutput):
    """`baseline` and `candidate` are in the metric's base unit, null where missing or not shown.

    `interval` is the 95 % interval of `ratio` = candidate / baseline, `p_adjusted` the p value
    adjusted over all tested cells, `band` the equivalence margin as a share. `reasons` are codes,
    the most important first. `evidence` is the basis of the verdict; `trials_needed` is the
    number of trials per system that would probably resolve an inconclusive cell.
    """

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
    """`path` is dotted; `explains` are sentences on its possible effects."""

    path: str
    topic: str
    target: str
    baseline: str
    candidate: str
    explains: list[str]


class EstimateOutput(Output):
    """Seconds with their interval."""

    value: float
    low: float
    high: float


class ShareOutput(Output):
    """Expected / measured change. `account` is `accounts for`, `partly`, `exceeds` or
    `inconclusive`. `value` is null for another direction, `high` where the measured change may be
    nothing."""

    account: str
    value: float | None
    low: float | None
    high: float | None


class CellTestOutput(Output):
    """The test of round trips as the cause of one cell's added latency, in seconds per I/O."""

    target: str
    workload: str
    level: str
    op: str
    measured: EstimateOutput | None
    expected: EstimateOutput
    share: ShareOutput


class ExplanationOutput(Output):
    """`closes`: whether measured and expected change agree; null without an expected change, and
    where the test is inconclusive. `tests` has the numbers of each cell where round trips are
    tested.
    `cells` are indices into the answer's `cells`."""

    paths: list[str]
    cells: list[int]
    text: str
    closes: bool | None
    tests: list[CellTestOutput]


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
    """`baseline` and `candidate` are the names of the two systems. `unknown` are properties that
    not both of them report: they may differ; left out where there are none."""

    schema_: Literal["leadline/compare/1"] = Field(default="leadline/compare/1", alias="schema")
    by: str
    baseline: str
    candidate: str
    sides: dict[str, SideOutput]
    band: float
    cells: list[ComparedOutput]
    differences: list[DifferenceOutput]
    identical: list[str]
    unknown: list[str] = Field(default_factory=list, exclude_if=lambda given: not given)
    explanations: list[ExplanationOutput]
    baseline_alone: list[str]
    candidate_alone: list[str]
    limits: list[LimitOutput]
    summary: SummaryOutput

    def without_folders(self) -> CompareOutput:
        """Return the answer with the archives' names instead of their paths, for a shared page."""
        sides = {
            which: side.model_copy(update={"path": PurePath(side.path).name})
            for which, side in self.sides.items()
        }
        return self.model_copy(update={"sides": sides})

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs, the baseline's first; one id where both are of one run."""
        return tuple(dict.fromkeys(self.sides[side].run for side in ("baseline", "candidate")))


def compare_output(
    comparison: Comparison, headline: str, limits: tuple[LimitResult, ...] = ()
) -> CompareOutput:
    pair = {"baseline": comparison.baseline, "candidate": comparison.candidate}
    counts = {verdict.value.replace(" ", "_"): n for verdict, n in comparison.counts().items()}
    return CompareOutput.from_records(
        comparison,
        baseline=comparison.baseline.name,
        candidate=comparison.candidate.name,
        sides={
            which: SideOutput(name=side.name, run=side.run.id, path=str(side.run.path))
            for which, side in pair.items()
        },
        cells=[_cell(cell) for cell in comparison.cells],
        differences=[
            DifferenceOutput.from_records(difference, explains=effect_texts(difference))
            for difference in comparison.differences
        ],
        explanations=[
            ExplanationOutput.from_records(
                explanation,
                text=explanation_text(explanation),
                tests=[_cell_test(test) for test in _tests(explanation)],
            )
            for explanation in comparison.explanations
        ],
        limits=[
            LimitOutput.from_records(
                result, result.cell, result.cell.judgement, limit=result.limit.text
            )
            for result in limits
        ],
        summary=SummaryOutput(**counts, headline=headline),
    )


def _tests(explanation: Explanation) -> tuple[CellTest, ...]:
    return explanation.tests if isinstance(explanation, RoundTripCost) else ()


def _cell_test(test: CellTest) -> CellTestOutput:
    share, high = test.share, test.share.high
    return CellTestOutput.from_records(
        test,
        measured=test.measured and EstimateOutput.from_records(test.measured),
        expected=EstimateOutput.from_records(test.expected),
        share=ShareOutput.from_records(
            share,
            account=share.account.value,
            high=high if high is not None and math.isfinite(high) else None,
        ),
    )


def _cell(cell: ComparedCell) -> ComparedOutput:
    baseline, candidate = cell.baseline, cell.candidate
    return ComparedOutput.from_records(
        cell,
        cell.judgement,
        unit=cell.metric.unit,
        baseline=baseline.value if baseline else None,
        candidate=candidate.value if candidate else None,
        baseline_interval=baseline.interval if baseline else None,
        candidate_interval=candidate.interval if candidate else None,
        baseline_trials=_trials(baseline),
        candidate_trials=_trials(candidate),
    )


def _trials(figure: MetricFigure | None) -> int:
    return sum(trial.value is not None for trial in figure.trials) if figure else 0


_COLUMNS = (
    "target", "workload", "level", "op", "metric", "unit", "baseline", "candidate", "ratio",
    "interval_low", "interval_high", "p", "p_adjusted", "band", "verdict", "evidence", "reasons",
    "baseline_trials", "candidate_trials", "trials_needed",
)  # fmt: skip


def compare_csv(answer: CompareOutput, output: str = "csv") -> str:
    """Render a row for each compared number as `csv` or `csv-raw`, without a final line break."""
    rows = []
    for cell in answer.cells:
        low, high = cell.interval or (None, None)
        ends = {"interval_low": low, "interval_high": high, "reasons": " ".join(cell.reasons)}
        values = cell.model_dump() | ends
        rows.append([values[column] for column in _COLUMNS])
    return render_rows(_COLUMNS, rows, output)
