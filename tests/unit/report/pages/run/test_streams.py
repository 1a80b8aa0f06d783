"""Runs of streams of ZFS: they have no requests and no latencies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from archive_builder import make_run, some_findings

from leadline.analysis.figures import CellFigure, figures
from leadline.archive.reader import Run
from leadline.report.document import HeatMap, Section, Table
from leadline.report.marks import Marks
from leadline.report.pages.run.heat_maps import scorecard_sections
from leadline.report.pages.run.page import headline
from leadline.report.pages.run.results import result_sections
from leadline.report.render.html import sentence
from tests.unit.analysis.layers.streams import stack, stream_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    sizes = {"size": 8192.0, "latency_s": 1e-3}
    trials = [{"throughput_bps": mib * 2.0**20, **sizes} for mib in (10, 20, 30)]
    cells = {name: (stack(8192), trials) for name in ("small", "large")}
    return stream_run(tmp_path_factory.mktemp("streams"), cells)


def tables(sections: tuple[Section, ...]) -> list[Table]:
    return [block for one in sections for block in one.blocks if isinstance(block, Table)]


def test_a_stream_has_a_rate_and_nothing_else(run: Run) -> None:
    (table,) = tables(result_sections(run, figures(run, ()), (), Marks(())))
    titles = [column.title for column in table.columns]
    assert titles == ["target", "op", "MiB/s", "trials", "range"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["small", "write", "20", "3", "100 %"],
        ["large", "write", "20", "3", "100 %"],
    ]


def test_a_stream_that_is_missing_says_so_where_its_rate_would_be(run: Run) -> None:
    """Its first figure is the bandwidth."""
    gone = [_without(one) for one in figures(run, ())]
    (table,) = tables(result_sections(run, gone, (), Marks(())))
    assert [row[2].text for row in table.rows] == ["missing", "missing"]


def _without(figure: CellFigure) -> CellFigure:
    metrics = tuple(replace(one, value=None, trials=()) for one in figure.metrics)
    return replace(figure, metrics=metrics, completed=0)


def test_the_spread_of_streams_is_that_of_their_rate(run: Run) -> None:
    """Three trials of each are not one, and latencies are not missed."""
    said = headline(run, figures(run, ()), (), Marks(()), None, None, (), ())
    (spread,) = (one for one in said if one.startswith("Spread"))
    assert spread.startswith("Spread of trials, (highest - lowest) / median bandwidth: 100 % in")
    assert not [one for one in said if "One trial" in one or "Not shown" in one]


def test_the_scorecard_has_the_rate_alone(run: Run) -> None:
    (section,) = scorecard_sections(run, figures(run, ()))
    (card,) = [block for block in section.blocks if isinstance(block, HeatMap)]
    assert (card.id, card.columns, card.rows) == (
        "scorecard-rate", ("receive, MiB/s",), ("small", "large")
    )  # fmt: skip


def test_workloads_for_some_targets_get_a_map_of_those(tmp_path: Path) -> None:
    """A workload of one target has no map; no map has a cell that was never planned."""
    run = make_run(tmp_path)
    names = list(dict.fromkeys(cell.workload.name for cell in run.plan.cells))
    found = figures(run, some_findings(run))
    alone = [one for one in found if one.planned_workload != names[0] or one.target == "disk"]
    (section,) = scorecard_sections(run, alone)
    (card, *_) = [block for block in section.blocks if isinstance(block, HeatMap)]
    assert not [title for title in card.columns if title.startswith(names[0])]
    assert not [cell for row in card.cells for cell in row if cell.note == "not in the plan"]


def test_what_is_to_be_typed_is_set_as_code() -> None:
    assert sentence("Use `leadline run --resume`, or <b>`a<b`</b>.") == (
        'Use <code dir="ltr">leadline run --resume</code>, or &lt;b&gt;'
        '<code dir="ltr">a&lt;b</code>&lt;/b&gt;.'
    )
    assert sentence("a ` alone and `` nothing") == "a ` alone and `` nothing"
