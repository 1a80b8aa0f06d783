"""Dot plots show the figures of their tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from archive_builder import make_run

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.report.document import DotPlot, DotRow, Section, Table
from leadline.report.pages.run.page import run_document
from leadline.report.render import html
from leadline.report.words import MISSING, value_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("run"),
        fails=lambda target, workload, block: (target, workload) == ("memory", "sequential-1m"),
    )


def sections(run: Run) -> Iterator[Section]:
    document = run_document(run, figures(run, ()), (), charts=False)
    (results,) = (one for one in document.sections if one.id == "results")
    yield from results.sections


def rows_of(plots: list[DotPlot], title: str, op: str) -> dict[str, DotRow]:
    (plot,) = (one for one in plots if title in one.title and one.title.startswith(op))
    return {row.label: row for row in plot.rows}


def test_the_label_of_a_plot_is_the_number_in_the_table(run: Run) -> None:
    compared = 0
    for section in sections(run):
        plots = [block for block in section.blocks if isinstance(block, DotPlot)]
        (table,) = (block for block in section.blocks if isinstance(block, Table))
        titles = [column.title for column in table.columns]
        for row in table.rows:
            target, op = row[0].text, row[titles.index("op")].text
            shown = rows_of(plots, "p99 latency", op)[target].text
            number = row[titles.index("p99")].text
            if row[titles.index("IOPS")].missing:
                assert shown == MISSING
                continue
            compared += 1
            assert shown.partition(" (range ")[0] == number
    assert compared == 12


def test_a_percentile_is_marked_at_all_trials_together_and_a_rate_at_the_median(run: Run) -> None:
    differ = 0
    for figure in figures(run, ()):
        own = [one.value for one in figure.metric(Metric.LATENCY_P99).trials if one.value]
        value = figure.metric(Metric.LATENCY_P99).value
        differ += (
            bool(own)
            and value is not None
            and value_text(Metric.LATENCY_P99, value) != value_text(Metric.LATENCY_P99, median(own))
        )
    assert differ, "else nothing here could fail"
    values = {(figure.workload, figure.op, figure.target): figure for figure in figures(run, ())}
    for section in sections(run):
        for plot in section.blocks:
            if not isinstance(plot, DotPlot):
                continue
            percentile = "p99" in plot.title
            assert plot.mark == ("all trials together" if percentile else "median")
            for row in plot.rows:
                if row.value is None:
                    assert row.dots == ()
                    continue
                assert plot.low <= row.value <= plot.high
                if percentile:
                    assert row.value in {
                        figure.metric(Metric.LATENCY_P99).value for figure in values.values()
                    }
                else:
                    assert row.value == median(dot.value for dot in row.dots)


def test_the_first_screen_of_a_page_has_every_trial(run: Run) -> None:
    cells = figures(run, ())
    document = run_document(run, cells, ())
    plots = [block for block in document.front if isinstance(block, DotPlot)]
    rates = [row for plot in plots if "p99" not in plot.title for row in plot.rows]
    assert len(rates) == len(cells) == 14
    assert sum(len(row.dots) for row in rates) == sum(figure.completed for figure in cells)
    page = html.render(document)
    assert page.count('<line class="mid" x1="') - 1 == sum(
        row.value is not None for plot in plots for row in plot.rows
    ), "and one in the legend"
    dots = [dot for plot in plots for row in plot.rows for dot in row.dots]
    assert all(f"trial {dot.trial}: {dot.text}" in page for dot in dots)


def test_a_run_without_a_plot_is_no_error(tmp_path: Path) -> None:
    nothing = make_run(tmp_path, fails=lambda *_: True)
    assert not [
        block
        for section in sections(nothing)
        for block in section.blocks
        if isinstance(block, DotPlot)
    ]
