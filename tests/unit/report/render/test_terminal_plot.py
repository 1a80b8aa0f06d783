"""Curves in characters: within the width, in the right place, distinguishable without colour."""

from __future__ import annotations

from dataclasses import replace

import every_block
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from leadline.report.document import Line, LineChart, Look, Scale, Stroke
from leadline.report.render.terminal_charts import plot_lines

SCALE = Scale(title="y", log=False, low=0.0, high=10.0, ticks=((0.0, "0"), (10.0, "10")))


def chart(*lines: Line, looks: tuple[Look, ...] = ()) -> LineChart:
    return LineChart(
        id="one",
        title="",
        series=tuple(f"series {number}" for number in range(max(1, len(lines)))),
        x=replace(SCALE, title="x"),
        y=SCALE,
        lines=lines,
        looks=looks,
        drawn=True,
    )


def drawn(made: LineChart, width: int = 60) -> list[str]:
    return [line.plain.rstrip() for line in plot_lines(made, width)]


def inside(lines: list[str]) -> list[str]:
    """The plot's rows without the axis at the left."""
    return [line.partition("│")[2] for line in lines if "│" in line]


@pytest.mark.parametrize("width", [40, 80, 100, 300])
def test_every_kind_of_line_fits_its_width(width: int) -> None:
    lines = drawn(every_block.load_curve(), width)
    assert max(map(cell_len, lines)) <= width
    assert max(map(cell_len, lines)) <= 100, "a plot is no wider than eyes follow"
    whole = "\n".join(lines)
    assert all(word in whole for word in ("limit", "knee", "measured", "fitted", "clients", "IOPS"))


def test_points_lie_at_their_places() -> None:
    rows = inside(drawn(chart(Line(label="a", series=0, points=((0.0, 0.0), (10.0, 10.0))))))
    assert rows[0].index("●") == len(rows[0]) - 1, "the highest is at the top right"
    assert rows[-1].index("●") == 0
    assert all("·" in row for row in rows[1:-1]), "and a line leads from one to the other"


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=20))
def test_each_series_has_a_sign_of_its_own_that_the_legend_names(
    points: list[tuple[float, float]],
) -> None:
    one = Line(label="a", series=0, points=tuple(points))
    lines = drawn(chart(one, replace(one, series=1, points=((5.0, 5.0),))))
    legend = next(line for line in lines if "series 0" in line)
    assert legend == "● series 0   ○ series 1"
    assert sum(row.count("○") for row in inside(lines)) == 1, "what is drawn later lies above"


def test_what_was_computed_is_never_drawn_over_what_was_measured() -> None:
    point = Line(label="measured", series=0, points=((5.0, 5.0),))
    law = Line(label="law", series=1, points=((0.0, 5.0), (10.0, 5.0)))
    looks = (Look(hue=0), Look(hue=0, stroke=Stroke.THIN))
    for order in ((point, law), (law, point)):
        lines = drawn(replace(chart(*order, looks=looks), series=("measured", "law")))
        (row,) = (one for one in inside(lines) if "●" in one)
        assert row.count("-") > 20
        assert "--- law" in lines[-1]


def test_a_plot_without_lines_is_no_error() -> None:
    assert drawn(chart())
