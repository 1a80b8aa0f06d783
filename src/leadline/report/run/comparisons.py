"""The clusters of one run, each beside the first, and its numbered labels, on the run's page."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.cells import CellFigure
from leadline.analysis.comparing import compare
from leadline.analysis.comparison import By, Comparison
from leadline.analysis.sides import places, within_run
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.report.comparison.headline import key_finding
from leadline.report.comparison.page import comparison_section
from leadline.report.document import Section
from leadline.report.marks import Marks
from leadline.report.run.label_comparisons import label_comparisons


def comparisons_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> tuple[Comparison, ...]:
    """Every further cluster, or condition of one, against the plan's first, and every further value
    of a numbered label against the lowest; none where there is one only."""
    names = places(run)
    judged = (tuple(figures), tuple(findings))
    found = []
    for name in names[1:]:
        sides = within_run(run, By.CLUSTER, names[0], name, lambda _: judged)
        found.append(compare(*sides, by=By.CLUSTER))
    by_label = label_comparisons(run, lambda _: judged)
    return (*(one for one in found if one.cells), *by_label)


def comparison_sentences(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """The key finding of each."""
    return tuple(key_finding(one) for one in comparisons)


def comparison_sections(comparisons: Sequence[Comparison], marks: Marks) -> tuple[Section, ...]:
    """One section, with a part for each comparison where there are several."""
    parts = tuple(comparison_section(one, marks) for one in comparisons)
    if len(parts) < 2:
        return parts
    return (Section(heading="Side by side", id="side-by-side", sections=parts),)
