"""`leadline compare --format json` and `csv`: the contract `leadline/compare/1`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from pydantic import Field

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.expectations import check_expectations
from leadline.analysis.explain.facts import CellTest, Explanation, RoundTripCost
from leadline.analysis.figures import MetricFigure
from leadline.analysis.limits import LimitResult
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.report.answers.base import CellOutput, Output
from leadline.report.pages.comparison.explanations import effect_texts, explanation_text
from leadline.report.render.rows import render_rows


class ComparedOutput(CellOutput):
    """`baseline` and `candidate` are in the metric's base unit, null where missing or not shown.

    `ratio` = candidate / baseline is the estimate from the trials (of the two numbers without
    repeats), `interval` the one that decides the verdict, with its `confidence` (0.95: 95 %);
    `interval_alone` is the 95 % interval where that is another. `p_adjusted` is the p value
    adjusted over all tested cells, `band` the equivalence margin as a share. `deviation` is the
    moderated standard deviation of a trial's change as a share, known with `freedom` degrees of
    freedom. `reasons` are codes, the most important first. `evidence` is the basis of the verdict;
    `trials_needed` is the number of trials per system that would probably resolve an inconclusive
    cell, `trials_range` that number for the 80 % interval of the scatter (null: above 1,000); with
    `needs_runs` both count runs, of which a system has several.
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
    confidence: float | None = None
    interval_alone: tuple[float, float] | None = None
    deviation: float | None = None
    freedom: float | None = None
    trials_range: tuple[int, int | None] | None = None
    needs_runs: bool = Field(default=False, exclude_if=lambda given: not given)


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
    tests: list[CellTestOutput] = Field(default_factory=list)


class ExpectationOutput(Output):
    """An expectation that the plan declared before the run. `direction` is that of the candidate
    against the baseline; `outcome` is `confirmed`, `refuted` or `open`. Of the `cells` that it
    selects, `conclusive` have a verdict and `as_expected` the expected one, by `at_least` (a share)
    if that is given; `ratios` are their lowest and highest candidate / baseline."""

    text: str
    figure: str
    system: str
    direction: str
    at_least: float | None
    outcome: str
    cells: int
    conclusive: int
    as_expected: int
    ratios: tuple[float, float] | None


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


class PoolOutput(Output):
    """Cells whose scatter was pooled: those of one `metric`. `paired`: the variance of differences
    within blocks; else that of one system, the baseline's and the candidate's apart. The prior of
    the moderated variances is `deviation` (a share) with the weight of `freedom` degrees of
    freedom; null: all cells scatter alike."""

    metric: str
    system: str | None
    paired: bool
    cells: int
    deviation: float
    freedom: float | None


class OverallOutput(Output):
    """The mean change of `cells` rates, a sample of such cells: geometric mean `ratio` with its
    95 % interval, and where that lies relative to the margin. `op` and `blocks` (`small`, `large`)
    are null where the effect covers all."""

    op: str | None
    blocks: str | None
    cells: int
    ratio: float
    interval: tuple[float, float]
    verdict: str


class SideOutput(Output):
    """A system, its (first) run with its path, and all its runs where it has several."""

    name: str
    run: str
    path: str
    runs: list[str] = Field(default_factory=list, exclude_if=lambda given: not given)


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
    not both of them report: they may differ. `costs` are the costs of an I/O in the same form as
    `cells`, of the operation `total` where reads and writes ran at the same time. `unknown`,
    `expectations` and `costs` are left out where there are none."""

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
    costs: list[ComparedOutput] = Field(default_factory=list, exclude_if=lambda given: not given)
    expectations: list[ExpectationOutput] = Field(
        default_factory=list, exclude_if=lambda given: not given
    )
    limits: list[LimitOutput]
    summary: SummaryOutput
    between_runs: float = 0.0
    pools: list[PoolOutput] = Field(default_factory=list)
    overall: list[OverallOutput] = Field(default_factory=list)

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
        sides = (self.sides[which] for which in ("baseline", "candidate"))
        return tuple(dict.fromkeys(run for side in sides for run in side.runs or [side.run]))

    @property
    def has_several_runs(self) -> bool:
        """Whether a system has several runs."""
        return any(side.runs for side in self.sides.values())


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
            which: SideOutput(
                name=side.name,
                run=side.run.id,
                path=str(side.run.path),
                runs=[run.id for run in side.runs] if side.repeats else [],
            )
            for which, side in pair.items()
        },
        pools=list(_pools(comparison)),
        overall=[OverallOutput.from_records(effect) for effect in comparison.overall],
        cells=[_cell(cell) for cell in comparison.cells],
        costs=[_cell(cell) for cell in comparison.costs],
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
        expectations=[
            ExpectationOutput.from_records(test, test.expectation)
            for test in check_expectations(comparison)
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
    tested = cell.judgement.evidence is Evidence.TRIALS
    estimate = cell.judgement.estimate if tested else None
    return ComparedOutput.from_records(
        cell,
        cell.judgement,
        unit=cell.metric.unit,
        deviation=estimate.scale if estimate else None,
        freedom=estimate.scale_freedom if estimate else None,
        baseline=baseline.value if baseline else None,
        candidate=candidate.value if candidate else None,
        baseline_interval=baseline.interval if baseline else None,
        candidate_interval=candidate.interval if candidate else None,
        baseline_trials=_trials(baseline),
        candidate_trials=_trials(candidate),
    )


def _pools(comparison: Comparison) -> Iterator[PoolOutput]:
    """Yield the priors of the moderated variances, each once."""
    found: dict[tuple[str, str | None, bool], PoolOutput] = {}
    for cell in comparison.cells:
        estimate = cell.judgement.estimate
        if estimate is None or cell.verdict is Verdict.NOT_COMPARABLE:
            continue
        # The priors of an estimate are those of the candidate and of the baseline, or of pairs.
        systems = (None,) if estimate.paired else ("candidate", "baseline")
        for system, prior in zip(systems, estimate.priors, strict=False):
            key = cell.metric.value, system, estimate.paired
            if key not in found and prior.freedom:
                found[key] = PoolOutput(
                    metric=cell.metric.value,
                    system=system,
                    paired=estimate.paired,
                    cells=prior.cells,
                    deviation=math.sqrt(prior.variance),
                    freedom=prior.freedom if math.isfinite(prior.freedom) else None,
                )
    yield from found.values()


def _trials(figure: MetricFigure | None) -> int:
    return figure.repeats if figure else 0


_COLUMNS = (
    "target", "workload", "level", "op", "metric", "unit", "baseline", "candidate", "ratio",
    "interval_low", "interval_high", "p", "p_adjusted", "band", "verdict", "evidence", "reasons",
    "baseline_trials", "candidate_trials", "trials_needed", "confidence",
)  # fmt: skip


def compare_csv(answer: CompareOutput, output: str = "csv") -> str:
    """Render a row for each compared number as `csv` or `csv-raw`, without a final line break."""
    rows = []
    for cell in (*answer.cells, *answer.costs):
        low, high = cell.interval or (None, None)
        ends = {"interval_low": low, "interval_high": high, "reasons": " ".join(cell.reasons)}
        values = cell.model_dump() | ends
        rows.append([values[column] for column in _COLUMNS])
    return render_rows(_COLUMNS, rows, output)
