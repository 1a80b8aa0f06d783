"""The first screen of a comparison: what its tiles, panels and boxes say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from leadline.analysis.comparison import Comparison, OverallEffect
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.archive.reader import Run
from leadline.findings import Severity
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.metrics import Metric, Op
from leadline.report.document import (
    SYSTEM_HUES,
    BarChart,
    Branch,
    DeltaChart,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.charts import (
    bar_charts,
    explanation_chart,
)
from leadline.report.pages.comparison.headline import alike_text, key_finding
from leadline.report.pages.comparison.overview import front_blocks
from leadline.report.pages.comparison.page import comparison_document
from leadline.report.pages.comparison.takeaways import load_result, trials_result
from leadline.report.pages.topology import draw_cluster
from leadline.report.render.svg_rows import tile_drawing
from leadline.report.words import MISSING, change_text
from tests.unit.inventory.conftest import dumps_of
from tests.unit.report.pages.comparison.builder import cell, comparison, study
from tests.unit.report.pages.comparison.test_explanations import COST


def tiles_of(found: Comparison) -> dict[str, Tile]:
    tiles = next(block for block in front_blocks(found) if isinstance(block, Tiles))
    return {tile.title: tile for tile in tiles.tiles}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return study(tmp_path_factory.mktemp("study"))


@pytest.fixture
def run(published: Comparison) -> Run:
    """With the targets rep2, rep3 and ec-2-1, and without an inventory."""
    return published.baseline.run


def test_the_panels_hold_every_rate_and_p99_of_the_study(published: Comparison) -> None:
    panels = [block for block in front_blocks(published) if isinstance(block, DeltaChart)]
    drawn = [row.text for panel in panels for row in panel.rows]
    cells = [one for one in published.cells if one.rate or one.metric is Metric.LATENCY_P99]
    expected = [
        change_text(one.judgement.ratio) if one.judgement.ratio else MISSING for one in cells
    ]
    assert sorted(drawn) == sorted(expected)
    rates = [panel for panel in panels if panel.id.startswith("front-rate")]
    assert len({(panel.scale.low, panel.scale.high) for panel in rates}) == 1


def test_the_tiles_of_the_study(published: Comparison) -> None:
    tiles = tiles_of(published)
    assert tiles["Reads"].value == "-19 to +26 %"
    assert tiles["Writes"].value == "-40 to +13 %"
    assert tiles["Writes"].verdict == "", "some worse and some better"
    assert tiles["Trust"].value == "0 of 33"
    assert tiles["Trust"].note == "33 single trials."


def test_a_tile_has_the_range_of_the_changes_and_their_verdict(run: Run) -> None:
    found = comparison(
        cell([100.0], [40.0], Verdict.WORSE, target="rep2"),
        cell([100.0], [60.0], Verdict.WORSE, target="rep3"),
        cell([100.0], [101.0], Verdict.SAME, target="ec-2-1"),
        cell([1.0], [3.3], Verdict.WORSE, target="rep2", metric=Metric.LATENCY_P99),
        cell([1.0], [4.9], Verdict.WORSE, target="rep3", metric=Metric.LATENCY_P99),
        run=run,
    )
    tiles = tiles_of(found)
    assert tiles["Writes"].value == "-60 to -40 %"
    assert tiles["Writes"].verdict == "worse"
    assert tiles["Writes"].note == "Worse in 2 and same in 1 of 3 cells."
    assert tiles["p99 latency"].value == "x 3.3 to x 4.9"
    assert tiles["Trust"].value == "3 of 3"


@pytest.mark.parametrize("verdict", [Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE])
def test_a_tile_without_a_change_says_the_verdict(verdict: Verdict, run: Run) -> None:
    tiles = tiles_of(comparison(cell([100.0], [98.0], verdict), run=run))
    assert tiles["Writes"].value == tiles["Writes"].verdict == verdict.value


def test_a_shift_that_no_cell_shows_alone_is_in_its_tile_and_in_the_headline(run: Run) -> None:
    cells = [
        cell([100.0], [96.0], Verdict.INCONCLUSIVE, target=name, interval=(0.9, 1.02))
        for name in ("rep2", "rep3", "ec-2-1")
    ]
    effect = OverallEffect(
        op=Op.WRITE,
        blocks=None,
        cells=3,
        ratio=0.96,
        interval=(0.94, 0.98),
        verdict=Verdict.INCONCLUSIVE,
    )
    found = replace(comparison(*cells, run=run), overall=(effect,))
    assert tiles_of(found)["Writes"].value == "-6.0 to -2.0 %"
    assert "overall writes 4.0 % fewer IOPS" in key_finding(found)


def test_a_headline_that_is_too_long_for_both_operations_leaves_out_the_counts() -> None:
    cells = [
        cell([100.0], [after], Verdict.WORSE, target=f"t{number}", op=op)
        for op, after in ((Op.WRITE, 60.0), (Op.READ, 50.0))
        for number in range(6)
    ]
    write, read = (
        OverallEffect(
            op=op, blocks=None, cells=6, ratio=ratio, interval=interval, verdict=Verdict.WORSE
        )
        for op, ratio, interval in (
            (Op.WRITE, 0.613, (0.409, 0.92)),
            (Op.READ, 0.486, (0.267, 0.882)),
        )
    )
    said = key_finding(replace(comparison(*cells), overall=(write, read)))
    assert "writes 38.7 % (-59.1 % to -8.0 %) and reads 51.4 % (-73.3 % to -11.8 %)" in said
    assert said.endswith("fewer IOPS overall.")


def test_an_uncertain_overall_effect_is_not_the_headline() -> None:
    """Cells changed each for itself, and too unlike for a common effect."""
    cells = [
        cell([100.0], [after], Verdict.WORSE, target=name)
        for name, after in (("rep2", 80.0), ("rep3", 25.0), ("ec-2-1", 40.0))
    ]
    effect = OverallEffect(
        op=Op.WRITE,
        blocks=None,
        cells=3,
        ratio=0.45,
        interval=(0.1, 1.7),
        verdict=Verdict.INCONCLUSIVE,
    )
    said = key_finding(replace(comparison(*cells), overall=(effect,)))
    assert "overall" not in said
    assert "20.0 to 75.0 % fewer IOPS" in said


def test_a_single_trial_is_no_number_without_a_warning(run: Run) -> None:
    found = comparison(cell([1.0], [2.0], Verdict.BETTER, evidence=Evidence.ONE_NUMBER), run=run)
    assert tiles_of(found)["Trust"].value == "0 of 1"


def test_nothing_compared_has_no_first_screen(published: Comparison) -> None:
    empty = replace(published, cells=())
    assert front_blocks(empty) == ()
    assert comparison_document(empty).front == ()


def labels(branches: Iterable[Branch]) -> list[str]:
    return [label for branch in branches for label in (branch.label, *labels(branch.below))]


def values(branches: Iterable[Branch]) -> list[str]:
    return [value for branch in branches for value in (branch.value, *values(branch.below))]


def test_a_cluster_is_drawn_with_its_failure_domains() -> None:
    tree = draw_cluster(cluster_inventory(dumps_of("ceph-multi-az")), "multi-az")
    assert tree.boxes

    def strong(branches: Iterable[Branch]) -> list[str]:
        return [
            name
            for branch in branches
            for name in ([branch.label] if branch.strong else []) + strong(branch.below)
        ]

    domains = {label.partition(" ")[0] for label in strong(tree.roots)}
    assert domains == {"zone"}
    assert 1 < len(labels(tree.roots)) <= 40


def test_a_large_cluster_is_drawn_in_few_boxes() -> None:
    inventory = cluster_inventory(dumps_of("ceph-multi-az"))
    first = inventory.osds[0]
    osds = [
        first.model_copy(
            update={
                "id": number,
                "location": tuple(
                    place.model_copy(update={"name": f"{place.name}-{number // 4}"})
                    if place.level == "host"
                    else place
                    for place in first.location
                ),
            }
        )
        for number in range(1000)
    ]
    tree = draw_cluster(inventory.model_copy(update={"osds": tuple(osds)}), "large")
    assert len(labels(tree.roots)) <= 40
    assert "1,000 OSDs" in " ".join(values(tree.roots))


def test_expected_and_measured_latency_are_bars_with_intervals() -> None:
    chart = explanation_chart(comparison(cell([1.0], [2.0], Verdict.WORSE), explanations=(COST,)))
    assert isinstance(chart, BarChart)
    (group,) = chart.groups
    expected, measured = group.bars
    (test,) = COST.tests
    assert test.measured
    for bar, found in ((expected, test.expected), (measured, test.measured)):
        assert (bar.value, bar.interval) == (found.value, (found.low, found.high))
    assert measured.text == "850 us, 81 %"
    assert explanation_chart(comparison()) is None


def test_the_baseline_is_grey_and_the_candidate_blue(published: Comparison) -> None:
    charts = [chart for _, chart in bar_charts(published)]
    assert charts
    assert {chart.hues for chart in charts} == {SYSTEM_HUES}


def test_tiles_draw_their_changes_and_the_trust_of_each_cell(published: Comparison) -> None:
    tiles = tiles_of(published)
    writes = [one for one in published.cells if one.rate and one.op is Op.WRITE]
    assert tiles["Writes"].changes
    assert len(tiles["Writes"].changes.rows) == len(writes)
    assert tiles["Writes"].note.endswith(" Overall -12 % (-27 to +6 %).")
    assert tiles["Trust"].squares == (Severity.INFO,) * 33, "single trials"
    assert tile_drawing(tiles["Writes"]).count("<circle") == 13, "one of 14 is missing"
    assert tile_drawing(tiles["Trust"]).count("<rect") == 33


def test_operations_that_change_alike_share_a_headline() -> None:
    cells = [
        cell([100.0], [after], Verdict.WORSE, target=target, op=op)
        for target in ("rep2", "rep3", "ec-2-1", "ec-3-1", "cephfs")
        for op, after in ((Op.READ, 30.0), (Op.WRITE, 45.0))
    ]
    assert alike_text(comparison(*cells)) == (
        "new vs old: writes 55.0 % and reads 70.0 % fewer IOPS."
    )
    cells[0] = cell([100.0], [150.0], Verdict.BETTER, target="rep2", op=Op.READ)
    assert alike_text(comparison(*cells)) == "", "reads change in both directions"


def test_sections_state_their_results(published: Comparison) -> None:
    results = {part.heading: part.result for part in comparison_document(published).sections}
    assert results["Findings"] == "no warning"
    assert results["Configuration differences"] == ""
    assert trials_result(published) == "0 of 66 results unstable"
    assert load_result(published) == "", "one level"
    levels = [
        cell([100.0], [after], Verdict.WORSE, level=level, target=target)
        for level, target, after in (("qd1", "a", 30.0), ("qd1", "b", 40.0), ("qd16", "a", 90.0))
    ]
    assert load_result(comparison(*levels)) == (
        "rates change by -70.0 % to -60.0 % at qd1, by -10.0 % at qd16"
    )
