"""Curves show the numbers of the figures, and what they gather stays whole."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.figures import CellFigure, figures
from leadline.archive.reader import Run
from leadline.formats.fio.logs import Window
from leadline.metrics import PERCENTILES, Metric, Op
from leadline.report.curves import (
    MOST_SERIES,
    PageBudget,
    ladder_chart,
    nines,
    strips,
    thinned,
    variation,
)
from leadline.report.document import Choices, LineChart, Paragraph, Section
from leadline.report.pages.run.page import run_document

latencies = st.dictionaries(st.integers(1, 10**11), st.integers(1, 10**6), min_size=1, max_size=40)
lengths = st.lists(st.tuples(st.floats(0.05, 20.0), st.floats(0.0, 1e6)), min_size=1, max_size=500)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("run"))


def results(run: Run, charts: bool = True) -> tuple[Section, ...]:
    document = run_document(run, figures(run, ()), (), charts=charts)
    (found,) = (section for section in document.sections if section.id == "results")
    return found.sections


def figure_of(run: Run, target: str, workload: str, op: Op) -> CellFigure:
    return next(
        one
        for one in figures(run, ())
        if (one.target, one.workload, one.op) == (target, workload, op)
    )


def drawn_in(sections: tuple[Section, ...], workload: str, kind: str) -> list[LineChart]:
    (section,) = (one for one in sections if one.heading == workload)
    return [
        block
        for block in section.blocks
        if isinstance(block, LineChart) and block.id.endswith(kind)
    ]


def windows_of(steps: list[tuple[float, float]]) -> tuple[Window, ...]:
    end = 0.0
    made = []
    for length, value in steps:
        end += length
        made.append(Window(end_s=end, value=value))
    return tuple(made)


# --- the percentile ladder ------------------------------------------------------------------------


def test_the_ladders_points_are_the_tables_percentiles(run: Run) -> None:
    (chart,) = drawn_in(results(run), "randread-4k-qd1", "ladder")
    assert chart.series == ("disk", "memory")
    assert [(line.label, line.series) for line in chart.lines] == [("disk", 0), ("memory", 1)]
    for line in chart.lines:
        shown = figure_of(run, line.label, "randread-4k-qd1", Op.READ)
        expected = [
            (-math.log10(1 - (metric.quantile or 0)), value)
            for metric in PERCENTILES
            if (value := shown.metric(metric).value) is not None
        ]
        assert list(line.points) == expected
        assert len(expected) >= 4


def test_a_percentile_with_too_few_ios_has_no_point(run: Run) -> None:
    figure = figure_of(run, "disk", "sequential-1m", Op.READ)
    assert figure.metric(Metric.LATENCY_P9999).value is None, "else nothing here could fail"
    (line,) = (
        line
        for chart in drawn_in(results(run), "sequential-1m", "ladder")
        if "read" in chart.title
        for line in chart.lines
        if line.label == "disk"
    )
    assert nines(Metric.LATENCY_P9999) not in {x for x, _ in line.points}


def test_nines_are_as_far_apart_as_they_are_rare() -> None:
    assert nines(Metric.LATENCY_P99) == pytest.approx(2)
    assert nines(Metric.LATENCY_P999) == pytest.approx(3)
    assert nines(Metric.LATENCY_P9999) == pytest.approx(4)
    with pytest.raises(ValueError, match="iops is not a percentile"):
        nines(Metric.IOPS)


def test_no_percentile_no_ladder() -> None:
    assert ladder_chart("a", "A", [("x", 0, {}), ("y", 1, {Metric.LATENCY_P50: 0.0})], ()) is None


def test_every_point_lies_within_the_axes(run: Run) -> None:
    seen = 0
    for section in results(run):
        for block in section.blocks:
            if isinstance(block, LineChart):
                for line in block.lines:
                    assert len(line.texts) == len(line.points)
                    for x, y in line.points:
                        seen += 1
                        assert block.x.low <= x <= block.x.high
                        assert block.y.low <= y <= block.y.high
                for scale in (block.x, block.y):
                    assert len(scale.ticks) >= 2
                    assert all(scale.low <= tick <= scale.high for tick, _ in scale.ticks)
    assert seen > 50


# --- IOPS over time -------------------------------------------------------------------------------


@given(lengths, st.integers(1, 200))
def test_thinning_keeps_the_mean_over_time(steps: list[tuple[float, float]], most: int) -> None:
    windows = windows_of(steps)
    spans = thinned(windows, most)
    assert len(spans) <= most
    assert spans[0][0] == 0
    assert spans[-1][1] == windows[-1].end_s
    assert all(one[1] == then[0] for one, then in itertools.pairwise(spans))
    mean = sum(length * value for length, value in steps)
    kept = sum((end - begin) * value for begin, end, value in spans)
    assert kept == pytest.approx(mean, rel=1e-6, abs=1e-3)


def test_windows_without_a_length_count_alike() -> None:
    windows = (Window(end_s=0.0, value=1.0), Window(end_s=0.0, value=3.0))
    assert thinned(windows, 1) == ((0.0, 0.0, 2.0),)


# --- on the page ----------------------------------------------------------------------------------


def test_the_total_is_left_to_its_parts(run: Run) -> None:
    titles = [chart.title for chart in drawn_in(results(run), "mixed-70-30-4k", "ladder")]
    assert titles == ["Latency percentiles · read", "Latency percentiles · write"]


def test_without_charts_there_are_none(run: Run) -> None:
    blocks = [block for section in results(run, charts=False) for block in section.blocks]
    assert not any(isinstance(block, LineChart | Choices) for block in blocks)


def test_of_many_targets_the_fastest_are_drawn_and_the_others_named(tmp_path: Path) -> None:
    names = [f"pool-{number:02d}" for number in range(11)]
    plan = small_plan(names, repeats=1)
    fast = {"pool-03", "pool-07"}
    many = make_run(
        tmp_path, plan, recorded_for=lambda target: "memory" if target in fast else "disk"
    )
    sections = results(many)
    (chart,) = drawn_in(sections, "randwrite-4k-qd1", "ladder")
    assert len(chart.lines) == MOST_SERIES
    assert fast <= set(chart.series)
    assert list(chart.series) == sorted(chart.series), "the plan's order"
    (section,) = (one for one in sections if one.heading == "randwrite-4k-qd1")
    said = " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))
    assert "the 8 fastest of 11 targets by IOPS" in said
    for name in set(names) - set(chart.series):
        assert name in said


def test_a_page_draws_only_so_much_and_says_what_it_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = functools.partial(PageBudget, 100)
    monkeypatch.setattr("leadline.report.pages.run.page.PageBudget", small)
    document = run_document(run, figures(run, ()), ())
    (found,) = (section for section in document.sections if section.id == "results")
    blocks = [block for section in found.sections for block in section.blocks]
    kinds: Counter[str] = Counter()
    points: Counter[str] = Counter()
    for block in blocks:
        if isinstance(block, LineChart):
            kind = block.id.rpartition("-")[2]
            kinds[kind] += 1
            points[kind] += sum(len(line.points) for line in block.lines)
    assert 0 < kinds["ladder"] < 6
    assert points["ladder"] + 15 * kinds["ladder"] <= 100
    (said,) = (block.text for block in found.blocks if isinstance(block, Paragraph))
    assert f"{6 - kinds['ladder']} of percentiles" in said


# --- every trial as a strip -----------------------------------------------------------------------


def test_a_second_without_a_sample_is_in_no_span_of_a_strip() -> None:
    whole = windows_of([(1.0, 10.0), (1.0, 20.0), (1.0, 30.0)])
    (first, second, last) = strips([(whole, "a"), (whole[::2], "b"), (whole[:2], "c")])
    assert [begin for begin, _, _ in first.spans] == [0.0, 1.0, 2.0]
    assert second.spans == ((0.0, 1.0, 10.0), (2.0, 3.0, 30.0))
    assert last.spans[-1][1] == 2.0 < last.end_s == 3.0
    assert strips([((), "a")]) == ()


@given(steps=lengths)
def test_a_strip_keeps_the_mean_of_its_trial(steps: list[tuple[float, float]]) -> None:
    equal = [(1.0, value) for _, value in steps]
    (strip,) = strips([(windows_of(equal), "a")])
    assert len(strip.spans) <= 40
    kept = sum((end - begin) * rate for begin, end, rate in strip.spans)
    assert kept == pytest.approx(sum(value for _, value in equal))


def test_the_variation_of_trials_is_that_of_the_textbook() -> None:
    assert variation([90.0, 100.0, 110.0]) == pytest.approx(0.1)
    assert variation([100.0]) is None
    assert variation([0.0, 0.0]) is None
