"""Costs of an I/O of one run: on its page, in the terminal, in JSON and in CSV."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leadline.analysis.figures import CellFigure, figures
from leadline.archive.reader import Run
from leadline.report.answers.run import show_output, show_table
from leadline.report.marks import Marks
from leadline.report.pages.run.page import run_document
from leadline.report.pages.run.results import cost_sections
from leadline.report.render.markdown import render
from tests.unit.analysis.test_resource_use import COSTLY, two_targets
from tests.unit.audit.audit_archives import Stored, build, cell


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return two_targets(tmp_path_factory.mktemp("costs") / "r", COSTLY)


@pytest.fixture(scope="module")
def cells(run: Run) -> tuple[CellFigure, ...]:
    return figures(run, ())


def test_the_page_has_a_row_for_each_cell_and_what_is_missing(
    run: Run, cells: tuple[CellFigure, ...]
) -> None:
    document = run_document(run, cells, ())
    (section,) = (one for one in document.sections if one.id == "costs")
    assert section.folded
    text = render(document)
    assert "## Costs of an I/O" in text
    assert "Not measured: disk bytes per I/O and storage network bytes per I/O." in text
    table = section.blocks[0]
    assert [column.title for column in getattr(table, "columns", ())][3:] == [
        *("storage CPU", "client CPU", "storage memory", "trials"),
    ]


def test_the_answer_has_costs_in_the_form_of_measurements(
    run: Run, cells: tuple[CellFigure, ...]
) -> None:
    shown = show_output(run, cells, trials=True)
    first = shown.costs[0]
    assert (first.metric, first.unit, first.trials) == ("storage_cpu_per_io", "s", 4)
    assert first.values is not None
    assert len(first.values) == 4
    assert "storage_memory" in show_table(shown, "csv")
    assert show_table(shown, "csv", trials=True).count("storage_memory") == 8


def test_a_run_whose_costs_are_unknown_has_no_section(tmp_path: Path) -> None:
    run = build(tmp_path / "r", {"a": (cell(), [Stored()])})
    without = [replace(row, costs=()) for row in figures(run, ())]
    assert cost_sections(without, Marks(())) == ()
    assert '"costs"' not in show_output(run, without).to_json()
