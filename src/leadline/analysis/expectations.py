"""Test the expectations that a plan declares against a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.verdicts import Verdict
from leadline.plan.expectations import Expectation

_CONCLUSIVE = (Verdict.BETTER, Verdict.WORSE, Verdict.SAME)
_INVERSE = {"better": "worse", "worse": "better", "same": "same"}


class Outcome(StrEnum):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationTest:
    """An expectation with its outcome.

    `direction` is that of the candidate against the baseline. Of the `cells` that it selects,
    `conclusive` have a verdict, and `as_expected` the one expected, by at least the size if it has
    one. `ratios` are the lowest and highest candidate / baseline of the selected cells; None
    without.
    """

    expectation: Expectation
    direction: Verdict
    outcome: Outcome
    cells: int
    conclusive: int
    as_expected: int
    ratios: tuple[float, float] | None


def check_expectations(comparison: Comparison) -> tuple[ExpectationTest, ...]:
    """Test the expectations of both systems' plans that name one of the two.

    Confirmed: most selected cells are conclusive, and each of these is as expected. Refuted: most
    are conclusive, and none is as expected. Otherwise open.
    """
    found = dict.fromkeys(expectation for run in comparison.runs for expectation in run.plan.expect)
    return tuple(test for expectation in found for test in _test(expectation, comparison))


def _test(expectation: Expectation, comparison: Comparison) -> Iterator[ExpectationTest]:
    baseline, candidate = (
        expectation.system in _names(side) for side in (comparison.baseline, comparison.candidate)
    )
    if baseline == candidate:
        return  # of another system, or of both
    towards = expectation.direction if candidate else _INVERSE[expectation.direction]
    direction = Verdict(towards)
    compared = (*comparison.cells, *comparison.costs)
    cells = [cell for cell in compared if _selects(expectation, cell)]
    conclusive = [cell for cell in cells if cell.verdict in _CONCLUSIVE]
    met = [_as_expected(cell, direction, expectation.at_least) for cell in conclusive]
    outcome = Outcome.OPEN
    if cells and 2 * len(conclusive) >= len(cells):
        if all(one is True for one in met):
            outcome = Outcome.CONFIRMED
        elif all(one is False for one in met):
            outcome = Outcome.REFUTED
    ratios = [cell.judgement.ratio for cell in cells if cell.judgement.ratio]
    yield ExpectationTest(
        expectation=expectation,
        direction=direction,
        outcome=outcome,
        cells=len(cells),
        conclusive=len(conclusive),
        as_expected=sum(one is True for one in met),
        ratios=(min(ratios), max(ratios)) if ratios else None,
    )


def _names(side: Side) -> set[str]:
    """The names that an expectation may give a system."""
    plans = [run.plan for run in side.runs]
    used = set(side.targets.values())
    clusters = {target.cluster for target in side.run.plan.targets if target.name in used}
    labels = {run.manifest.cluster_label for run in side.runs}
    names = {side.name, *labels, *(plan.name for plan in plans), *(run.id for run in side.runs)}
    return (names | (clusters if len(clusters) == 1 else set())) - {""}


def _selects(expectation: Expectation, cell: ComparedCell) -> bool:
    workload, level, op, metric = expectation.selection
    return (
        workload in ("", cell.workload)
        and level in ("", cell.level)
        and op in (None, cell.op)
        and (cell.rate if metric is None else cell.metric is metric)
    )


def _as_expected(cell: ComparedCell, direction: Verdict, at_least: float | None) -> bool | None:
    """Whether a conclusive cell is as expected; None: its interval contains the size."""
    if cell.verdict is not direction:
        return False
    ratio = cell.judgement.ratio
    if at_least is None or ratio is None:
        return True
    sizes = [abs(end - 1) for end in cell.judgement.interval or (ratio, ratio)]
    if min(sizes) >= at_least:
        return True
    return False if max(sizes) < at_least else None
