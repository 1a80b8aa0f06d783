"""Load curves are drawn where they were measured, and nothing is that may not be believed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from leadline.analysis.scaling.knee import KneeMethod, shape_of
from leadline.findings import Finding
from leadline.metrics import Metric
from leadline.plan.models import parse_latency_limit
from leadline.report.document import LineChart, Stroke
from leadline.report.pages.scaling.charts import (
    DrawnCurve,
    left_out_texts,
    load_chart,
    response_chart,
    tail_of,
)
from tests.unit.analysis.scaling.levels import OVERLOADED, Level, closed, refusal, simulate
from tests.unit.report.pages.scaling.studies import LOADS, offered, saturating

LIMIT = parse_latency_limit("p99<200ms")


def drawn(*levels: Level, findings: Sequence[Finding] = ()) -> list[DrawnCurve]:
    made = simulate(*levels, findings=findings)
    return [
        DrawnCurve(label=curve.target, shape=shape_of(curve, made.samples)) for curve in made.curves
    ]


def loads(curves: list[DrawnCurve]) -> LineChart:
    chart = load_chart("load", "Throughput over load", curves)
    assert chart is not None
    return chart


def response(curves: list[DrawnCurve], limit: bool = False) -> LineChart:
    chart = response_chart("response", "Latency", curves, LIMIT if limit else None)
    assert chart is not None
    return chart


def points(chart: LineChart, name: str) -> tuple[tuple[float, float], ...]:
    (line,) = (line for line in chart.lines if chart.series[line.series] == name)
    return line.points


def by_stroke(chart: LineChart, stroke: Stroke) -> list[tuple[tuple[float, float], ...]]:
    return [line.points for line in chart.lines if chart.look(line.series).stroke is stroke]


# --- throughput against load --------------------------------------------------------------------


def test_a_load_curve_shows_medians_and_every_trial() -> None:
    curves = drawn(*saturating())
    chart = loads(curves)
    assert points(chart, "pool") == tuple(
        (curves[0].curve.load_of(one), one.usable(Metric.IOPS)) for one in curves[0].curve.closed
    )
    (dots,) = by_stroke(chart, Stroke.DOTS)
    assert len(dots) == 3 * len(LOADS)
    assert [text for _, text in chart.x.ticks] == [f"{load}" for load in LOADS]
    assert chart.x.title == "clients"


def test_what_is_computed_stays_within_what_was_measured_and_in_the_plot() -> None:
    chart = loads(drawn(*saturating()))
    (law,), (ideal,) = by_stroke(chart, Stroke.THIN), by_stroke(chart, Stroke.FAINT)
    assert (law[0][0], law[-1][0]) == (1, 12)
    for x, y in (*law, *ideal):
        assert 1 <= x <= 12 * (1 + 1e-9)
        assert chart.y.low <= y <= chart.y.high * (1 + 1e-9)
    first = points(chart, "pool")[0][1]
    assert all(y == pytest.approx(first * x) for x, y in ideal)


def test_no_law_is_drawn_where_none_is_fitted() -> None:
    chart = loads(drawn(*saturating(loads=(1, 2, 4))))
    assert by_stroke(chart, Stroke.THIN) == []


def test_the_knee_is_ringed_at_its_level() -> None:
    curves = drawn(*saturating())
    knee = curves[0].shape.knee(KneeMethod.GAIN)
    (pin,) = loads(curves).pins
    assert knee.load is not None
    assert pin.x == knee.load
    assert (pin.x, pin.y) in points(loads(curves), "pool")


def test_a_curve_that_still_grows_has_no_knee_to_ring() -> None:
    curves = drawn(*(closed(load, 100.0 * load, 101.0 * load, 99.0 * load) for load in (1, 2, 4)))
    assert loads(curves).pins == ()


def test_a_refused_level_is_no_part_of_the_line() -> None:
    curves = drawn(closed(1, 100.0), closed(2, 190.0), closed(4, 300.0), findings=(
        refusal("qd2x1"),
    ))  # fmt: skip
    assert [x for x, _ in points(loads(curves), "pool")] == [1.0, 4.0]


def test_one_level_is_no_curve() -> None:
    assert load_chart("load", "", drawn(closed(4, 100.0))) is None


def test_targets_differ_in_shape_and_what_they_share_is_named_once() -> None:
    chart = loads(drawn(*saturating(), *saturating(target="other", scale=2.0)))
    names = [name for name in chart.series if name]
    assert names[:2] == ["pool", "other"], "what was measured comes first"
    assert len(set(names)) == len(names)
    assert {chart.look(line.series).hue for line in chart.lines} == {0, 1}


# --- latency against throughput -----------------------------------------------------------------


def test_closed_and_open_loop_are_lines_of_their_own() -> None:
    chart = response(drawn(*saturating(), offered(1000.0, 0.02), offered(2000.0, 0.04)))
    assert chart.series == (
        "p99, closed loop", "mean, closed loop", "p99, open loop", "mean, open loop",
    )  # fmt: skip
    assert [look.hollow for look in chart.looks] == [False, False, True, True]
    assert len({(look.dash, look.hollow) for look in chart.looks}) == 4, "not by colour alone"
    assert [round(x) for x, _ in points(chart, "p99, open loop")] == [1000, 2000]
    assert [y for _, y in points(chart, "p99, open loop")] == pytest.approx([0.06, 0.12], rel=0.01)


def test_points_are_in_order_of_load_even_where_throughput_falls() -> None:
    rates = [x for x, _ in points(response(drawn(*saturating())), "p99")]
    assert rates != sorted(rates)
    assert rates.index(max(rates)) == LOADS.index(6)


def test_a_refused_latency_is_left_out_and_shown() -> None:
    levels = (closed(1, 100.0), closed(2, 190.0), closed(4, 300.0))
    curves = drawn(*levels, findings=(refusal("qd2x1", latency_only=True, code="throttled-cpu"),))
    assert [round(x) for x, _ in points(response(curves), "p99")] == [100, 300]
    assert [x for x, _ in points(loads(curves), "pool")] == [1.0, 2.0, 4.0], "its rate stays"
    assert left_out_texts(curves, Metric.LATENCY_P99) == ["qd2x1 (throttled-cpu)"]


def test_an_open_loop_that_fell_behind_has_no_latency() -> None:
    late = offered(5000.0, 0.5, trials=[OVERLOADED], label="peak90")
    curves = drawn(*saturating(), offered(1000.0, 0.02), late)
    assert len(points(response(curves), "p99, open loop")) == 1


def test_the_limit_is_a_line_within_the_plot() -> None:
    chart = response(drawn(*saturating(loads=(1, 2))), limit=True)
    (rule,) = chart.rules
    assert (rule.value, rule.label, rule.upright) == (0.2, "limit p99<200 ms", False)
    assert chart.y.low < 0.2 < chart.y.high, "though every level is far below it"


def test_the_percentile_is_the_limits_own() -> None:
    curves = [one.curve for one in drawn(*saturating())]
    assert tail_of(curves, None) is Metric.LATENCY_P99
    assert tail_of(curves, parse_latency_limit("p99.9<1s")) is Metric.LATENCY_P999
    assert tail_of(curves, parse_latency_limit("mean<1s")) is Metric.LATENCY_P99


def test_every_point_says_its_level_and_numbers() -> None:
    chart = response(drawn(*saturating(), offered(1000.0, 0.02)))
    for line in chart.lines:
        assert len(line.texts) == len(line.points)
    texts = [text for line in chart.lines for text in line.texts]
    assert any("c4-qd32x1: 2,878 IOPS" in text and "3 trials" in text for text in texts)
    assert any("offered 1,000 IOPS" in text for text in texts)
