"""The scorecard's figures are those of the tables; what is missing or refused has no shade."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_builder import make_run, small_plan, some_findings

from leadline.analysis.figures import CellFigure, figures
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.metrics import Metric, Op
from leadline.report.document import Choices, HeatCell, HeatMap, Section, Table
from leadline.report.marks import Marks
from leadline.report.pages.run.heat_maps import grid, heat_map, scorecard_sections
from leadline.report.pages.run.scorecard import read_write_sections
from leadline.report.words import MISSING, value_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("run"),
        fails=lambda target, workload, block: (target, workload) == ("memory", "mixed-70-30-4k"),
    )


def maps(run: Run, findings: tuple[Finding, ...] = ()) -> dict[str, HeatMap]:
    (section,) = scorecard_sections(run, figures(run, findings))
    return {block.id: block for block in section.blocks if isinstance(block, HeatMap)}


def at(found: HeatMap, target: str, column: str) -> HeatCell:
    (index,) = (index for index, name in enumerate(found.columns) if name.startswith(column))
    return found.cells[found.rows.index(target)][index]


def figure_of(run: Run, target: str, workload: str, op: Op) -> CellFigure:
    return next(
        one
        for one in figures(run, ())
        if (one.target, one.workload, one.op) == (target, workload, op)
    )


def test_cells_are_the_figures_and_the_rate_of_large_blocks_is_bandwidth(run: Run) -> None:
    found = maps(run)["scorecard-rate"]
    assert found.rows == ("disk", "memory")
    assert [name for name in found.columns if "MiB/s" in name] == [
        "sequential-1m · write, MiB/s",
        "sequential-1m · read, MiB/s",
    ]
    value = figure_of(run, "memory", "sequential-1m", Op.READ).metric(Metric.BANDWIDTH).value
    assert value is not None
    cell = at(found, "memory", "sequential-1m · read")
    assert (cell.value, cell.text) == (value, value_text(Metric.BANDWIDTH, value))
    tail = at(maps(run)["scorecard-p99"], "memory", "sequential-1m · read")
    p99 = figure_of(run, "memory", "sequential-1m", Op.READ).metric(Metric.LATENCY_P99).value
    assert tail.value == p99


def test_faster_is_better_for_rates_and_worse_for_latencies(run: Run) -> None:
    """Memory reads streams about seven times as fast as the disk, with as much lower latency."""
    found = maps(run)
    for name, higher in (("scorecard-rate", True), ("scorecard-p99", False)):
        assert set(found[name].higher_is_better) == {higher}
        cell = at(found[name], "memory", "sequential-1m · read")
        assert cell.shade == 1.0
        assert at(found[name], "disk", "sequential-1m · read").shade == 0.0


def test_a_missing_cell_is_a_word_and_its_target_no_baseline(run: Run) -> None:
    found = maps(run)["scorecard-rate"]
    cell = at(found, "memory", "mixed-70-30-4k · read")
    assert (cell.text, cell.shade, cell.value) == (MISSING, None, None)
    assert found.rows[found.baseline] == "disk"


def test_the_baseline_is_the_first_complete_target(tmp_path: Path) -> None:
    run = make_run(
        tmp_path,
        small_plan(["first", "second", "third"], repeats=1),
        fails=lambda target, workload, block: (target, workload) == ("first", "sequential-1m"),
    )
    found = maps(run)["scorecard-rate"]
    assert found.rows[found.baseline] == "second"
    assert at(found, "first", "randread-4k-qd1").shade is not None


def test_a_refused_number_is_struck_and_shades_nothing(run: Run) -> None:
    found = maps(run, some_findings())["scorecard-rate"]
    cell = at(found, "memory", "randread-4k-qd1")
    assert cell.refused
    assert (cell.shade, cell.value) == (None, None)
    assert cell.note == "refused: cache-served-reads"
    assert cell.text != MISSING
    assert not at(found, "disk", "randread-4k-qd1").refused


def test_a_refused_baseline_gives_no_shades_in_its_column(run: Run) -> None:
    findings = some_findings("memory", "disk")
    found = heat_map("m", "M", grid(run, figures(run, findings)), None)
    assert found.rows[found.baseline] == "disk", "the most numbers of all"
    assert at(found, "memory", "randread-4k-qd1").shade is None
    assert at(found, "memory", "randread-4k-qd1").value is not None


def test_one_target_has_no_scorecard(tmp_path: Path) -> None:
    run = make_run(tmp_path, small_plan(["disk"], repeats=1))
    assert scorecard_sections(run, figures(run, ())) == ()


def test_one_metric_is_chosen_at_a_time(run: Run) -> None:
    (section,) = scorecard_sections(run, figures(run, ()))
    (choices,) = (block for block in section.blocks if isinstance(block, Choices))
    drawn = [block.choice for block in section.blocks if isinstance(block, HeatMap)]
    assert [value for value, _ in choices.options] == drawn
    assert len(drawn) == 3


def rows_of(section: Section) -> dict[tuple[str, str], dict[str, str]]:
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    titles = [column.title for column in table.columns]
    return {
        (row[0].text, row[1].text): dict(zip(titles, (cell.text for cell in row), strict=True))
        for row in table.rows
    }


def test_read_vs_write_with_a_measured_total_only(run: Run) -> None:
    cells = figures(run, ())
    (section,) = read_write_sections(run, cells, Marks(()))
    rows = rows_of(section)
    assert list(rows) == [
        ("mixed-70-30-4k", "disk"),
        ("mixed-70-30-4k", "memory"),
        ("sequential-1m", "disk"),
        ("sequential-1m", "memory"),
    ]
    mixed = rows["mixed-70-30-4k", "disk"]
    read, write, total = (
        figure_of(run, "disk", "mixed-70-30-4k", op).metric(Metric.IOPS).value
        for op in (Op.READ, Op.WRITE, Op.TOTAL)
    )
    assert read
    assert write
    assert total
    assert mixed["ratio"] == f"{read / write:.3g}"
    assert mixed["total"] == f"{value_text(Metric.IOPS, total)} IOPS"
    # Written first and read then: their sum would be a rate that never was.
    assert rows["sequential-1m", "disk"]["total"] == "–"
    assert rows["mixed-70-30-4k", "memory"]["ratio"] == "–"


def test_a_refused_number_has_no_ratio(run: Run) -> None:
    findings = some_findings()
    refused = Finding(
        code="empty-result", severity=findings[0].severity, target="disk",
        workload="mixed-70-30-4k", op=Op.WRITE, message="m", remedy="r",
    )  # fmt: skip
    cells = figures(run, (refused,))
    (section,) = read_write_sections(run, cells, Marks((refused,)))
    row = rows_of(section)["mixed-70-30-4k", "disk"]
    assert row["ratio"] == row["p99 ratio"] == "–"
    assert row["read"] != "–"
