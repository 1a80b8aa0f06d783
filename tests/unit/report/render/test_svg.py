"""What a chart draws lies where its numbers say, and nothing that a name holds becomes markup."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import every_block
import pytest
from every_block import HOSTILE, SERIES
from hypothesis import given
from hypothesis import strategies as st

from leadline.report.document import (
    Bar,
    BarChart,
    BarGroup,
    Chart,
    DeltaChart,
    DeltaRow,
    DotPlot,
    HeatMap,
    Line,
    LineChart,
    Scale,
)
from leadline.report.render.svg import clipped, draw
from leadline.report.render.svg_lines import line_plot
from leadline.report.render.svg_rows import row_chart
from leadline.report.render.svg_shapes import (
    DEFINITIONS,
    FULL_RATIO,
    LEVELS,
    at,
    fitting,
    heat_ratio,
    level,
    ratio,
    shade,
    share,
    xml_text,
)

CHARTS: tuple[Chart | DotPlot, ...] = (
    every_block.bar_chart("iops", "IOPS"),
    every_block.delta_chart("iops", "IOPS"),
    every_block.ladder(),
    every_block.ladder(named=True),
    every_block.over_time(),
    every_block.load_curve(),
    every_block.heat_map(),
    every_block.dot_plot(),
    every_block.strip_chart(),
)
LINEAR = Scale(title="", log=False, low=0.0, high=200.0, ticks=())
SVG = "{http://www.w3.org/2000/svg}"


def fragment(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<svg>{drawing}</svg>")


def test_strips_are_as_high_as_their_rates_and_seconds_without_a_sample_are_hatched() -> None:
    made = row_chart(every_block.strip_chart())
    track = fragment(made.rows[0].tracks[0].drawing)
    whole, broken = (path.attrib["d"] for path in track.iter("path"))
    # 900, 1,000, 1,100 and 1,200 IOPS; the highest is as high as the track.
    assert re.findall(r"V(\d+)", whole) == ["25", "17", "8", "0", "100"]
    assert (whole.count("M"), broken.count("M")) == (1, 2)
    (lost,) = by_class(track, "lost")
    assert lost.attrib["x"] == "62.2%", "a fourth behind the beginning of the second trial"
    assert lost.attrib["width"] == "12.2%"
    names = [name for _, name in made.legend]
    assert names == [*SERIES, "cluster disturbed", "a client straggles", "no sample"]


def test_events_of_a_trial_lie_above_its_seconds() -> None:
    made = row_chart(every_block.strip_chart())
    track = made.rows[0].tracks[0]
    cluster, client, *_ = by_class(fragment(track.drawing), "event")
    # Two trials of 486 of 1,000 units: the second of four seconds.
    assert (cluster.attrib["x"], cluster.attrib["width"]) == ("12.2%", "12.2%")
    assert (client.attrib["x"], client.attrib["width"]) == ("0%", "48.6%")
    assert cluster.attrib["y"] != client.attrib["y"]
    assert "OSD_DOWN" in "".join(cluster.itertext())
    assert "OSD_DOWN" in track.description, "a screen reader reads them"


def bar_track(bar: Bar) -> ElementTree.Element:
    chart = BarChart(
        id="one", title="", series=SERIES, scale=LINEAR,
        groups=(BarGroup(label="a", bars=(bar,)),),
    )  # fmt: skip
    return fragment(row_chart(chart).rows[0].tracks[0].drawing)


def delta_track(row: DeltaRow) -> ElementTree.Element:
    scale = Scale(title="", log=True, low=0.5, high=2.0, ticks=())
    chart = DeltaChart(id="one", title="", scale=scale, rows=(row,))
    made = row_chart(chart)
    return fragment(f"<defs>{made.grid}</defs>{made.rows[0].tracks[0].drawing}")


def by_class(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in element.iter() if name in one.get("class", "").split()]


# --- axes ---------------------------------------------------------------------------------------


@given(
    st.floats(1e-6, 1e6), st.floats(1.001, 1e6), st.booleans(),
    st.lists(st.floats(1e-9, 1e12), min_size=2),
)  # fmt: skip
def test_places_keep_the_order_of_values(
    low: float, factor: float, log: bool, values: list[float]
) -> None:
    scale = Scale(title="", log=log, low=low, high=low * factor, ticks=())
    places = [share(scale, value) for value in sorted(values)]
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= 1
    assert share(scale, low) == 0
    assert share(scale, low * factor) == pytest.approx(1)


def test_places_on_both_kinds_of_axis() -> None:
    assert at(LINEAR, 50.0) == "25%"
    log = replace(LINEAR, log=True, low=1.0, high=10_000.0)
    assert at(log, 100.0) == "50%"
    assert at(log, 0.0) == "0%"
    assert at(replace(LINEAR, high=0.0), 1.0) == "50%"


@given(st.integers(0, 30), st.integers(1, 20), st.floats(40, 900))
def test_texts_of_ticks_never_touch(count: int, length: int, width: float) -> None:
    ticks = tuple((200.0 * (one + 1) / (count + 1), "0" * length) for one in range(count))
    chosen = fitting(replace(LINEAR, ticks=ticks), width)
    assert bool(chosen) == bool(ticks)
    places = [part for part, _ in chosen]
    gaps = [right - left for left, right in itertools.pairwise(places)]
    assert all(gap == pytest.approx(gaps[0]) for gap in gaps), "evenly spaced stay evenly spaced"
    # Texts at an end reach inwards: half of one more.
    assert all(gap * width >= length * 6 for gap in gaps)


# --- bars and changes ---------------------------------------------------------------------------


def test_a_bar_ends_at_its_value_and_its_whisker_at_the_interval() -> None:
    track = bar_track(Bar(series=0, value=100.0, text="100", interval=(80.0, 130.0)))
    (bar,) = by_class(track, "bar")
    assert bar.get("x") == "0"
    assert bar.get("width") == "50%"
    (whisker,) = by_class(track, "whisker")
    assert (whisker.get("x1"), whisker.get("x2")) == ("40%", "65%")
    assert whisker.get("class") == "whisker"


def test_an_interval_that_goes_on_beyond_the_axis_has_no_end_there() -> None:
    track = bar_track(Bar(series=0, value=100.0, text="100", interval=(80.0, 999.0)))
    (whisker,) = by_class(track, "whisker")
    assert whisker.get("x2") == "100%"
    assert whisker.get("class") == "whisker to-above"


def test_series_differ_by_more_than_colour() -> None:
    made = row_chart(every_block.bar_chart("iops", "IOPS"))
    first, second = (fragment(track.drawing) for track in made.rows[0].tracks)
    assert [one.tag for one in by_class(second, "hatch-1")] == ["rect"]
    assert not by_class(first, "hatch-1")
    shapes = [
        {one.get("href") for one in track.iter("use") if "trial" in one.get("class", "")}
        for track in (first, second)
    ]
    assert shapes == [{"#shape-circle"}, {"#shape-diamond"}]
    plot = fragment(line_plot(every_block.ladder()).drawing)
    assert [one.get("class") for one in by_class(plot, "line")] == ["line s0 d0", "line s1 d1"]


def test_a_refused_bar_is_an_outline_and_a_missing_one_a_word() -> None:
    refused = bar_track(Bar(series=1, value=100.0, text="100", refused=True))
    (bar,) = by_class(refused, "bar")
    assert "refused" in bar.get("class", "").split()
    assert not by_class(refused, "edge")
    assert not by_class(refused, "hatch-1")
    chart = every_block.bar_chart("iops", "IOPS")
    missing = row_chart(chart).rows[2].tracks[1]
    assert (missing.end, missing.absent) == ("missing", True)
    assert not by_class(fragment(missing.drawing), "bar")


@pytest.mark.parametrize(
    ("verdict", "shape"),
    [
        ("better", "#shape-up"),
        ("worse", "#shape-down"),
        ("same", "#shape-square"),
        ("inconclusive", "#shape-circle"),
        ("not comparable", "#shape-cross"),
    ],
)
def test_a_change_is_marked_by_its_verdict_at_its_ratio(verdict: str, shape: str) -> None:
    track = delta_track(
        DeltaRow(
            label="a", ratio=2**0.5, interval=(1.0, 2.0), verdict=verdict, text="+41 %", band=0.05
        )
    )
    (mark,) = [one for one in track.iter("use") if one.get("class", "").startswith("v-")]
    assert mark.get("href") == shape
    assert mark.get("x") == "75%"
    (zero,) = by_class(track, "zero")
    assert zero.get("x1") == zero.get("x2") == "50%"
    (band,) = by_class(track, "band")
    left = float(band.get("x", "")[:-1])
    right = left + float(band.get("width", "")[:-1])
    assert left < 50 < right
    scale = Scale(title="", log=True, low=0.5, high=2.0, ticks=())
    assert left / 100 == pytest.approx(share(scale, 0.95), abs=1e-4)
    assert right / 100 == pytest.approx(share(scale, 1.05), abs=1e-4)


def test_each_row_uses_its_own_band() -> None:
    chart = every_block.delta_chart("iops", "IOPS")
    rows = tuple(
        replace(row, band=0.2 if index == 2 else 0.05) for index, row in enumerate(chart.rows)
    )
    made = row_chart(replace(chart, rows=rows))
    widths = [float(one.get("width", "")[:-1]) for one in by_class(fragment(made.grid), "band")]
    assert widths == sorted(widths)
    used = [re.findall(r"-grid-(\d)", row.tracks[0].drawing) for row in made.rows]
    assert used == [["1"] if index == 2 else ["0"] for index in range(len(rows))]


def test_without_a_number_no_mark_but_a_text() -> None:
    row = row_chart(every_block.delta_chart("iops", "IOPS")).rows[4]
    assert row.tracks[0].absent
    assert 'class="v-' not in row.tracks[0].drawing


# --- lines --------------------------------------------------------------------------------------


def test_a_line_goes_through_its_points() -> None:
    chart = LineChart(
        id="one", title="", series=("a",), x=LINEAR, y=replace(LINEAR, high=10.0),
        lines=(
            Line(label="a", series=0, points=((0, 0), (100, 10), (200, 5)), texts=()),
        ),
    )  # fmt: skip
    plot = fragment(line_plot(chart).drawing)
    (line,) = by_class(plot, "line")
    assert line.get("points") == "0,1000 500,0 1000,500"
    (points,) = by_class(plot, "point")
    assert [(one.get("x"), one.get("y")) for one in points] == [
        ("0%", "100%"), ("50%", "0%"), ("100%", "50%"),
    ]  # fmt: skip


def test_many_points_are_found_by_a_pointer_but_not_marked() -> None:
    plot = fragment(line_plot(every_block.over_time()).drawing)
    assert not by_class(plot, "point")
    assert len(by_class(plot, "hit")) == 180
    assert by_class(plot, "hit")[0].findtext("title") == "0 to 1 s"


@given(st.lists(st.floats(0, 10), min_size=2, max_size=12))
def test_names_at_the_ends_of_lines_do_not_cover_each_other(ends: list[float]) -> None:
    chart = LineChart(
        id="one", title="", series=("a",), x=LINEAR, y=replace(LINEAR, high=10.0),
        lines=tuple(
            Line(label=f"{index}", series=0, points=((0, 0), (200, end)), texts=())
            for index, end in enumerate(ends)
        ),
    )  # fmt: skip
    plot = line_plot(chart)
    assert plot.named
    names = by_class(fragment(plot.drawing), "end")
    assert {one.text for one in names} == {f"{index}" for index in range(len(ends))}
    places = sorted(float(one.get("y", "")[:-1]) for one in names)
    assert all(right - left > 5 for left, right in itertools.pairwise(places))
    assert places[-1] <= 100.1


def test_a_band_lies_between_its_ends() -> None:
    chart = every_block.load_curve()
    (band,) = chart.bands
    (drawn,) = re.findall(r'<polygon class="area s1" points="([^"]*)"/>', line_plot(chart).drawing)
    corners = [tuple(map(float, corner.split(","))) for corner in drawn.split(" ")]
    assert len(corners) == 2 * len(band.points)
    above, below = corners[: len(band.points)], corners[len(band.points) :][::-1]
    for (x, low, high), upper, lower in zip(band.points, above, below, strict=True):
        assert upper[0] == lower[0] == pytest.approx(1000 * share(chart.x, x), abs=1)
        assert upper[1] == pytest.approx(1000 * (1 - share(chart.y, high)), abs=1)
        assert lower[1] == pytest.approx(1000 * (1 - share(chart.y, low)), abs=1)


def test_measured_fitted_and_reference_lines_look_different() -> None:
    chart = every_block.load_curve()
    plot = line_plot(chart)
    drawn = fragment(plot.drawing)
    assert [one.get("class") for one in by_class(drawn, "line")] == [
        "line s0 d2 faint", "line s0 d1 thin", "line s2 d3", "line s1 d2", "line s0 d0",
    ], "dots have no line"  # fmt: skip
    assert [len(one) for one in by_class(drawn, "speck")] == [4]
    (hollow,) = by_class(drawn, "hollow")
    assert [one.get("href") for one in hollow] == ["#shape-diamond"] * 2
    legend = [name for _, name in plot.legend]
    assert legend == list(chart.series[:5]), "a series without a name is in no legend"
    swatches = [fragment(swatch) for swatch, _ in plot.legend]
    lines = [len(by_class(one, "line")) for one in swatches]
    marks = [len(list(one.iter("use"))) for one in swatches]
    assert list(zip(lines, marks, strict=True)) == [(1, 1), (1, 1), (0, 1), (1, 0), (1, 0)]


def test_rules_and_pins_lie_where_their_values_say() -> None:
    chart = every_block.load_curve()
    drawn = fragment(line_plot(chart).drawing)
    level, upright = by_class(drawn, "rule")
    assert (level.get("y1"), level.get("y2"), level.get("x2")) == ("25%", "25%", "100%")
    assert upright.get("x1") == upright.get("x2") == at(chart.x, 2.0)
    (ring,) = by_class(drawn, "ring")
    assert (ring.get("x"), ring.get("y")) == (at(chart.x, 4.0), "35%")
    assert ring.findtext("title") == "knee at 4 clients"
    assert {one.text for one in by_class(drawn, "word")} == {
        f"limit {HOSTILE}", "2 clients", "knee",
    }  # fmt: skip


# --- heat maps ----------------------------------------------------------------------------------


@given(st.floats(1e-6, 1e6), st.booleans())
def test_shades_are_as_far_for_half_as_for_twice(ratio: float, higher: bool) -> None:
    assert shade(ratio, higher) == pytest.approx(-shade(1 / ratio, higher))
    assert shade(ratio, higher) == -shade(ratio, not higher)
    assert -1 <= shade(ratio, higher) <= 1


def test_shades_and_levels() -> None:
    assert shade(FULL_RATIO, True) == 1
    assert shade(0.0, True) == -1
    assert level(None) == ""
    assert [level(one) for one in (-1.0, -0.01, 0.0, 0.5, 1.0)] == [
        f"w{LEVELS}", "b0", "b0", "b3", f"b{LEVELS}",
    ]  # fmt: skip
    assert [level(one, tested=True) for one in (-0.01, 0.0, 0.01)] == ["w1", "b0", "b1"]
    for name in (f"{way}{step}" for way in "bw" for step in range(1, LEVELS + 1)):
        assert f".{name}{{--heat" in draw(every_block.heat_map())


def test_a_figure_has_its_ratio_to_the_baseline() -> None:
    chart = every_block.heat_map()
    texts = [
        [heat_ratio(chart, column, cell) for column, cell in enumerate(row)] for row in chart.cells
    ]
    assert texts[0] == ["", "", ""]
    assert texts[2] == ["×4.20", "", "×4.20"]
    assert heat_ratio(replace(chart, relative=True), 0, chart.cells[2][0]) == ""
    assert heat_ratio(replace(chart, baseline=2), 1, chart.cells[0][1]) == "", "its base is missing"


def test_a_refused_figure_has_no_ratio() -> None:
    chart = every_block.heat_map()
    refused = replace(chart.cells[0][0], refused=True)
    assert ratio(chart, 0, replace(chart.cells[1][0], refused=True)) is None
    based = replace(chart, cells=((refused, *chart.cells[0][1:]), *chart.cells[1:]))
    assert ratio(based, 0, chart.cells[1][0]) is None


# --- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.id)
def test_a_picture_is_well_formed_and_self_contained(chart: Chart | DotPlot) -> None:
    text = draw(chart)
    picture = ElementTree.fromstring(text)
    assert picture.findtext(f"{SVG}title") == chart.title
    assert picture.findtext(f"{SVG}desc")
    tags = {one.tag.removeprefix(SVG) for one in picture.iter()}
    assert tags <= {
        "svg", "g", "title", "desc", "style", "defs", "use", "rect", "circle", "line", "polyline",
        "polygon", "path", "pattern", "marker", "text",
    }  # fmt: skip
    identifiers = [one.get("id") for one in picture.iter() if one.get("id")]
    assert len(identifiers) == len(set(identifiers))
    for name in re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text):
        assert "".join(name) in identifiers
    assert not re.search(r'(?:href="|url\()(?!#)', text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert draw(chart) == text


def test_a_picture_says_every_number_in_words() -> None:
    chart = every_block.delta_chart("iops", "IOPS")
    said = ElementTree.fromstring(draw(chart)).findtext(f"{SVG}desc") or ""
    for row in chart.rows:
        assert f"{row.label}: {row.text}" in said


def test_charts_without_rows_are_no_error() -> None:
    bars = every_block.bar_chart("iops", "IOPS")
    deltas = every_block.delta_chart("iops", "IOPS")
    empty: tuple[Chart, ...] = (
        replace(bars, groups=()),
        replace(deltas, rows=()),
        replace(every_block.ladder(), lines=()),
        replace(every_block.load_curve(), lines=(), rules=(), pins=()),
        HeatMap(
            id="none", title="none", rows=(), columns=(), higher_is_better=(), cells=(), baseline=0
        ),
    )
    for chart in empty:
        assert ElementTree.fromstring(draw(chart)).tag == f"{SVG}svg"


@given(st.text())
def test_any_text_is_text_in_xml(text: str) -> None:
    element = fragment(f'<text x="{xml_text(text)}">{xml_text(text)}</text>')
    assert [one.tag for one in element.iter()] == ["svg", "text"]


def test_definitions_are_used_by_their_names() -> None:
    names = set(re.findall(r'id="([^"]+)"', DEFINITIONS))
    drawn = "".join(draw(chart).replace(DEFINITIONS, "") for chart in CHARTS)
    assert set(re.findall(r'href="#(shape-[^"]+)"', drawn)) <= names


def test_long_names_are_cut_in_the_middle() -> None:
    assert clipped("short", 100) == "short"
    cut = clipped("pool-" + "x" * 295 + "-end", 120)
    assert cut.startswith("pool-")
    assert cut.endswith("-end")
    assert len(cut) < 25
    assert HOSTILE not in draw(every_block.heat_map())
