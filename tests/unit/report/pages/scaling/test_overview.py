"""The first screen of load curves: headline, tiles and pictures."""

from __future__ import annotations

import pytest

from leadline.report.document import SYSTEM_HUES, DeltaChart, LineChart, Stroke, Tile, Tiles
from leadline.report.pages.scaling.overview import scaling_front, scaling_headline
from leadline.report.pages.scaling.page import scaling_page
from leadline.report.render.svg_lines import lines_legend
from tests.unit.analysis.scaling.levels import Simulated, closed, refusal
from tests.unit.report.pages.scaling.studies import LAW, offered, run_of, saturating, study_of


def tiles(*made: Simulated, limit: str | None = None) -> dict[str, Tile]:
    front = scaling_front(study_of(*made, limit=limit))
    found = next(block for block in front if isinstance(block, Tiles))
    return {tile.title: tile for tile in found.tiles}


def panels(*made: Simulated, limit: str | None = None) -> list[LineChart]:
    front = scaling_front(study_of(*made, limit=limit))
    return [block for block in front if isinstance(block, LineChart)]


def two_systems() -> tuple[Simulated, Simulated]:
    levels = [*saturating(), *saturating(workload="randwrite", scale=0.4)]
    more = [*saturating(scale=1.5), *saturating(workload="randwrite", scale=0.8)]
    return run_of(*levels, name="three-hosts"), run_of(*more, name="five-hosts", hosts=5)


def test_the_headline_has_the_shape_of_the_only_curve() -> None:
    made = run_of(*saturating())
    text = f"randread on pool grows to 6 clients ({LAW.at(6):,.0f} IOPS), then falls."
    assert scaling_headline(study_of(made)) == text
    growing = run_of(*(closed(one, *[100.0 * one] * 3) for one in (1, 2, 4)))
    assert "still grows at 4 I/Os in flight" in scaling_headline(study_of(growing))


def test_the_headline_of_systems_has_speed_up_and_added_resource() -> None:
    said = scaling_headline(study_of(*two_systems()))
    assert said == (
        "five-hosts vs three-hosts: +50 % to +100 % highest throughput for +67 % hosts (3 to 5)."
    )
    assert len(said.split()) <= 20


def test_the_headline_of_several_curves_counts_their_ends() -> None:
    levels = [*saturating(), *(closed(one, *[100.0 * one] * 3, target="b") for one in (1, 2, 4))]
    said = scaling_headline(study_of(run_of(*levels)))
    assert said.endswith("2 load curves: 1 saturating and 1 still growing.")


def test_tiles_of_a_curve() -> None:
    shown = tiles(run_of(*saturating()), limit="p99<200ms")
    assert shown["Highest throughput"].value == f"{LAW.at(6):,.0f}"
    assert shown["Knee"].value == "6 clients"
    assert shown["Within limit"].value == f"{LAW.at(6):,.0f} IOPS"
    assert shown["Bottleneck"].value == "unknown", "no machine was measured"
    assert shown["Trust"].value == "7 of 7"
    assert tiles(run_of(*saturating()), limit="p99<1ms")["Within limit"].value == "none"
    assert tiles(run_of(*saturating()))["p99 at the knee"].note == "x 1.9 that of c1-qd32x1."


def test_tiles_of_systems_have_speed_up_and_efficiency() -> None:
    tile = tiles(*two_systems())["Speed-up"]
    assert (tile.value, tile.verdict) == ("+50 % to +100 %", "better")
    assert tile.note == "Efficiency 90 to 120 %; better in 2 of 2 curves."


def test_the_speed_up_of_each_curve_is_drawn() -> None:
    shown = scaling_page(study_of(*two_systems()))
    (chart,) = (block for block in shown.front if isinstance(block, DeltaChart))
    assert chart.title == "Highest throughput, five-hosts vs three-hosts"
    assert chart.scale.title == "+66.7 % would be linear with hosts"
    texts = [row.text for row in chart.rows]
    assert texts == ["+50.0 %, efficiency 90 %", "+100 %, efficiency 120 %"]


def test_every_level_and_trial_is_drawn_and_the_knee_marked() -> None:
    (chart,) = panels(run_of(*saturating()))
    strokes = {chart.look(line.series).stroke: len(line.points) for line in chart.lines}
    assert strokes == {Stroke.DOTS: 21, Stroke.THIN: 7, Stroke.MARKED: 7}
    assert not chart.panel
    (pin,) = chart.pins
    assert pin.label == "knee"
    assert pin.x == pytest.approx(LAW.at(6))


def test_systems_share_a_panel_in_their_colours_and_panels_share_axes() -> None:
    charts = panels(*two_systems(), limit="p99<200ms")
    assert [chart.note for chart in charts] == ["highest +50 %, better", "highest +100 %, better"]
    assert len({(chart.x, chart.y) for chart in charts}) == 1
    hues = {chart.look(line.series).hue for chart in charts for line in chart.lines}
    assert hues == set(SYSTEM_HUES)
    names = [name for _, name in lines_legend(charts)]
    assert names[:2] == ["three-hosts p99", "five-hosts p99"]
    assert len(names) == len(set(names))


def test_an_open_loop_has_its_own_hollow_line() -> None:
    (chart,) = panels(run_of(*saturating(), offered(1_500.0, 0.02), offered(2_500.0, 0.05)))
    (line,) = (line for line in chart.lines if line.label == "p99, open loop")
    assert chart.look(line.series).hollow
    assert len(line.points) == 2


def test_rates_of_different_size_share_a_log_axis() -> None:
    levels = [*saturating(), *saturating(target="b", scale=10.0)]
    assert {chart.x.log for chart in panels(run_of(*levels))} == {True}
    assert {chart.x.log for chart in panels(run_of(*saturating(), *saturating(target="b")))} == {
        False
    }


def test_refused_levels_are_left_out_and_named() -> None:
    levels = saturating(loads=(1, 2, 4, 8))
    made = run_of(*levels, findings=[refusal(levels[-1].level)])
    (chart,) = panels(made)
    assert {len(line.points) for line in chart.lines} == {3, 9}
    shown = scaling_page(study_of(made))
    assert any("without a usable figure" in text for text in shown.summary)


def test_of_many_curves_nine_are_drawn_and_the_rest_is_counted() -> None:
    levels = [
        one for number in range(12) for one in saturating(target=f"p{number}", loads=(1, 2, 4))
    ]
    made = run_of(*levels)
    assert len(panels(made)) == 9
    shown = scaling_page(study_of(made))
    assert "9 of 12 load curves are drawn; the tables have all." in str(shown.front)


def test_a_page_without_a_curve_says_so() -> None:
    shown = scaling_page(study_of(run_of(closed(4, 100.0, 101.0))))
    assert shown.front == ()
    assert shown.summary[0].startswith("No load curve")


def test_the_page_has_few_words_and_a_matrix_of_findings() -> None:
    levels = saturating(loads=(1, 2, 4))
    finding = refusal(levels[1].level)
    made = run_of(*levels, findings=[finding])
    shown = scaling_page(study_of(made, findings=[finding]))
    ids = {
        block.id for section in shown.sections for block in section.blocks if hasattr(block, "id")
    }
    assert {"findings-by-level", "load-shapes", "method-table"} <= ids
    assert all(len(text.split()) <= 20 for text in shown.summary)
    assert len(shown.summary) <= 6
