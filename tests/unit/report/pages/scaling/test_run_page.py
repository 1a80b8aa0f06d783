"""The load curves on a run's own page: there where there is a sweep, small, and recomputable."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.plan.models import Plan
from leadline.report.document import Document, LineChart, Table
from leadline.report.pages.run.page import run_document
from leadline.report.render import html

LARGEST = 3_000_000


def sweep(depths: tuple[int, ...], names: tuple[str, ...] = ("disk",), repeats: int = 2) -> Plan:
    """The first workload of the golden plan at several depths."""
    plan = small_plan(names, repeats=repeats)
    first = [cell for cell in plan.cells if cell.workload.name == "randread-4k-qd1"]
    cells = []
    for cell in first:
        for depth in depths:
            (phase,) = cell.workload.phases
            phases = (phase.model_copy(update={"iodepth": depth}),)
            workload = cell.workload.model_copy(update={"phases": phases})
            cells.append(cell.model_copy(update={"workload": workload, "level": f"qd{depth}"}))
    trials = [
        plan.trials[0].model_copy(
            update={
                "id": f"t{at:04d}", "position": at, "block": at // len(cells),
                "cell": at % len(cells),
            }
        )
        for at in range(repeats * len(cells))
    ]  # fmt: skip
    return plan.model_copy(update={"cells": tuple(cells), "trials": tuple(trials)})


def document(run: Run, charts: bool = True) -> Document:
    return run_document(run, figures(run, ()), (), charts=charts)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"), sweep((1, 2, 4)))


def test_a_sweep_has_its_section_and_its_sentence(run: Run) -> None:
    shown = document(run)
    (section,) = (one for one in shown.sections if one.id == "load-curves")
    assert {type(block) for block in section.blocks} == {LineChart}
    assert any("on disk: " in one and "in flight" in one for one in shown.summary)
    order = [one.id for one in shown.sections]
    assert order.index("load-curves") < order.index("results")


def test_the_charts_points_are_the_tables_numbers(run: Run) -> None:
    (section,) = (one for one in document(run).sections if one.id == "load-curves")
    (results,) = (one for one in document(run).sections if one.id == "results")
    table = next(
        block
        for part in results.sections
        for block in part.blocks
        if isinstance(block, Table) and "IOPS" in [column.title for column in block.columns]
    )
    at = [column.title for column in table.columns].index("IOPS")
    chart = next(block for block in section.blocks if isinstance(block, LineChart))
    (line,) = (one for one in chart.lines if one.label == "disk")
    assert [y for _, y in line.points] == [row[at].sort for row in table.rows]


def test_without_a_sweep_there_is_none_of_it(tmp_path: Path) -> None:
    shown = document(make_run(tmp_path, small_plan()))
    assert not any(one.id.startswith(("load", "resources")) for one in shown.sections)
    assert not any("in flight" in one for one in shown.summary)


def test_a_terminal_gets_the_sentence_without_the_charts(run: Run) -> None:
    shown = document(run, charts=False)
    assert not any(one.id == "load-curves" for one in shown.sections)
    assert any("in flight" in one for one in shown.summary)


def test_the_same_archive_gives_the_same_page(run: Run) -> None:
    assert document(Run(run.path)) == document(run)


def test_the_page_of_a_large_sweep_can_still_be_sent(tmp_path: Path) -> None:
    depths = tuple(2**power for power in range(9))
    names = tuple(f"pool-{number:02d}" for number in range(12))
    page = html.render(document(make_run(tmp_path, sweep(depths, names, repeats=1))))
    assert len(page.encode()) < LARGEST
    assert all(page.count(name) > len(depths) for name in names)
