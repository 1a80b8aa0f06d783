"""Costs of an I/O on the page of a comparison, in the terminal, in JSON and in CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.analysis.comparison import Comparison
from leadline.metrics import IO_METRICS
from leadline.report.answers.comparison import compare_csv, compare_output
from leadline.report.document import Section
from leadline.report.pages.comparison.page import comparison_document, comparison_summary
from leadline.report.render.markdown import render
from tests.unit.analysis.test_resource_use import COSTLY, compared, two_targets


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compared(two_targets(tmp_path_factory.mktemp("costs") / "r", COSTLY))


def section(comparison: Comparison) -> Section:
    sections = comparison_document(comparison).sections
    return next(one for one in sections if one.id == "costs")


def test_the_page_has_both_values_the_change_and_what_is_missing(comparison: Comparison) -> None:
    text = render(comparison_document(comparison))
    assert "## Costs of an I/O" in text
    assert "storage processor time per I/O" in text
    assert section(comparison).result.startswith("storage processor time worse in 1")
    missing = "disk bytes per I/O and storage network bytes per I/O"
    assert f"Not measured in a: {missing}; b: {missing}." in text


def test_the_terminal_shows_the_storages_processor_time_next_to_each_rate(
    comparison: Comparison,
) -> None:
    summary = comparison_summary(comparison)
    (table,) = (block for block in summary.sections[0].blocks if hasattr(block, "columns"))
    assert "storage CPU" in [column.title for column in table.columns]
    assert next(one for one in summary.sections if one.id == "costs").folded


def test_the_answer_has_costs_in_the_form_of_cells(comparison: Comparison, tmp_path: Path) -> None:
    answer = compare_output(comparison, "")
    (spent,) = (cell for cell in answer.costs if cell.metric == "storage_cpu_per_io")
    assert (spent.unit, spent.verdict, spent.op) == ("s", "worse", "read")
    assert spent.interval is not None
    assert "storage_cpu_per_io" in compare_csv(answer)
    without = compare_output(compared(two_targets(tmp_path / "r", COSTLY), *IO_METRICS), "")
    assert '"costs"' not in without.to_json()
    assert '"costs": [' in answer.to_json()
