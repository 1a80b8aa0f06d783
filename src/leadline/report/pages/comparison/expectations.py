"""The expectations of the plan, each with its outcome, as a table."""

from __future__ import annotations

from leadline.analysis.comparison import Comparison
from leadline.analysis.expectations import ExpectationTest, check_expectations
from leadline.report.cells import records_table, section
from leadline.report.document import Cell, Section
from leadline.report.words import NOT_SHOWN, change_text, count_text


def expectation_sections(comparison: Comparison) -> tuple[Section, ...]:
    """Build the section of the expectations; none where the plans declare none."""
    tests = check_expectations(comparison)
    if not tests:
        return ()
    shown = records_table(
        "expectations-table",
        tests,
        ("outcome", lambda test: test.outcome.value),
        ("cells", _cells),
        ("measured change", _changes),
        ("expected before the run", lambda test: test.expectation.text),
    )
    return (section("Expectations", "expectations", shown),)


def _cells(test: ExpectationTest) -> Cell:
    """`5 of 6 worse, 1 inconclusive`."""
    if not test.cells:
        return Cell(text="no such cell", missing=True)
    texts = [f"{test.as_expected:,} of {count_text(test.cells, 'cell')} {test.direction.value}"]
    rest = test.cells - test.conclusive
    texts += [f"{rest:,} inconclusive"] if rest else []
    return Cell(text=", ".join(texts), sort=float(test.as_expected))


def _changes(test: ExpectationTest) -> str:
    if test.ratios is None:
        return NOT_SHOWN
    return " to ".join(dict.fromkeys(map(change_text, test.ratios)))
