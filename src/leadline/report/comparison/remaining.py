"""What imported figures still say whose queue depth was ignored: they ran one I/O a job."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.verdicts import Verdict
from leadline.findings import Severity
from leadline.report.change_words import where
from leadline.report.wording import count_text, listed

CODE = "queue-depth-not-reached"
# Both sides had as many in flight, as far as figures of three digits tell.
_ALIKE = 0.1
# In flight for each job: about one, as the rule itself has it.
_ONE = (0.5, 1.5)


def remaining(comparison: Comparison, cells: Sequence[ComparedCell]) -> list[str]:
    """A sentence on the cells that are refused for their queue depth alone, though by their own
    figures both sides had as many I/Os in flight: one of each job. Of imports only; a measurement
    of one's own is better repeated."""
    found: list[ComparedCell] = []
    other: list[ComparedCell] = []
    for one in cells:
        if one.verdict is not Verdict.NOT_COMPARABLE or CODE not in one.judgement.reasons:
            continue
        (found if _only_depth(one) and _alike(comparison, one) else other).append(one)
    sides = (comparison.baseline, comparison.candidate)
    if not found or not all(side.run.plan.imported for side in sides):
        return []
    text = (
        f"In {count_text(len(found), 'cell')} both sides had as many I/Os in flight by their own "
        "figures, one of each job: not what was asked, but alike. Imported with an iodepth of 1, "
        "which is what ran, they can be compared as that"
    )
    if other:
        text += f"; not so {listed((where(one) for one in other), 3)}"
    return [f"{text}."]


def one_of_each_job(in_flight: float | None, jobs: int | None) -> bool:
    """Whether so many I/Os in flight are about one of each job."""
    return bool(in_flight and jobs) and _ONE[0] <= (in_flight or 0) / (jobs or 1) <= _ONE[1]


def _only_depth(cell: ComparedCell) -> bool:
    figures = (cell.baseline, cell.candidate)
    codes = {
        doubt.code
        for one in figures
        if one is not None
        for doubt in one.doubts
        if doubt.severity is Severity.ERROR
    }
    return codes == {CODE}


def _alike(comparison: Comparison, cell: ComparedCell) -> bool:
    if cell.jobs is None:
        return False
    seen = [
        _in_flight(side, figure.target if figure else "", cell)
        for side, figure in (
            (comparison.baseline, cell.baseline_cell),
            (comparison.candidate, cell.candidate_cell),
        )
    ]
    known = [one for one in seen if one is not None]
    if len(known) < 2 or not all(one_of_each_job(one, cell.jobs) for one in known):
        return False
    return max(known) <= min(known) * (1 + _ALIKE)


def _in_flight(side: Side, target: str, cell: ComparedCell) -> float | None:
    place = (target, cell.workload, cell.level)
    for one in side.findings:
        if one.code == CODE and (one.target, one.workload, one.level) == place:
            return one.evidence.get("in_flight")
    return None
