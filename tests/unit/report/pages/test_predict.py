"""Forecasts as people read them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from leadline.analysis.predict.facts import Bound, Forecast, Layer, LeftOut, Refusal, Station
from leadline.analysis.predict.prediction import CurveForecast, Prediction
from leadline.metrics import Metric, Op
from leadline.report.document import DeltaChart, Document, LineChart, Section, Table, Tiles
from leadline.report.pages.predict import words
from leadline.report.pages.predict.charts import change_panels, curve_panels
from leadline.report.pages.predict.page import predict_document
from leadline.report.pages.predict.summary import predict_headline
from leadline.report.render import html, terminal
from tests.unit.report.pages.predictions import (
    CHANGES,
    DEPTHS,
    against,
    as_it_is,
    bounds_only,
    calibrated,
    curve,
    what_if,
)
from tests.unit.report.test_golden import check


def sections(document: Document) -> dict[str, Section]:
    return {one.id: one for one in document.sections}


def rows(document: Document, name: str) -> list[dict[str, str]]:
    """The rows of a table by the titles of its columns."""
    (table,) = (
        block
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Table) and block.id == name
    )
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in table.rows]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (Layer, words.LAYERS),
        (Station, words.STATIONS),
        (Refusal, words.REFUSALS),
        (Refusal, words.REMEDIES),
        (LeftOut, words.LEFT_OUT),
    ],
)
def test_every_fact_has_words(kind: type, texts: dict[object, str]) -> None:
    assert set(texts) == set(kind)  # type: ignore[call-overload]
    assert all(texts.values())


CHANGED = "Expected with failure_domain=zone and inter_zone_rtt=1ms"
UNKNOWN = "capacity, delay without load and number of servers cannot be identified"
ONE_LEVEL = replace(what_if(), curves=(bounds_only(Refusal.ONE_LOAD_LEVEL),))


@pytest.mark.parametrize(
    ("prediction", "said"),
    [
        (
            what_if(),
            f"{CHANGED}: writes 23.4 to 74.5 % fewer IOPS and reads 19.1 to 64.6 % fewer IOPS.",
        ),
        (as_it_is(), "The model holds 6 of 6 measured rates within its 90 % interval."),
        (against(), "multi-zone: 18 of 18 measured rates within the expected 90 % interval."),
        (against(1.2), "multi-zone: 0 of 18 measured rates within the expected 90 % interval."),
        (ONE_LEVEL, f"Bounds only for 1 cell: one load level: {UNKNOWN}."),
    ],
)
def test_the_headline_is_the_answer(prediction: Prediction, said: str) -> None:
    assert predict_headline(prediction) == said
    assert predict_document(prediction).summary[0] == said


def test_a_cell_has_what_was_measured_what_is_expected_and_why() -> None:
    found = rows(predict_document(what_if()), "forecast-iops")
    assert len(found) == 3 * len(DEPTHS) + 1
    assert found[0] | {"model": ""} == {
        "target": "rep3",
        "level": "iodepth=1",
        "operation": "write",
        "measured": "1,507",
        "model": "",
        "expected": "594",
        "90 % interval, or bound": "547 to 642",
        "change": "-59.4 %",
        "limited by": "storage as a whole",
        "made by": "model",
        "most sensitive to": "inter-zone round trip (-7.2 %)",
    }
    last = found[5]
    assert last["limited by"] == "storage as a whole → OSD cores"


def test_a_refused_cell_has_its_bound_and_the_reason_and_no_estimate() -> None:
    document = predict_document(what_if())
    for metric, bound in (("iops", "≤ 7,143"), ("latency-mean", "≥ 1.12 ms")):
        cell = rows(document, f"forecast-{metric}")[-1]
        assert (cell["expected"], cell["change"]) == ("–", "–")
        assert cell["90 % interval, or bound"] == bound
        assert cell["made by"] == "bounds · one load level"
    assert rows(document, "forecast-latency-p99")[-1]["90 % interval, or bound"] == "–"
    html_page = html.render(document)
    assert words.REFUSALS[Refusal.ONE_LOAD_LEVEL] in html_page
    assert "Measure three depths" in html_page


def test_the_error_is_cited_with_every_table_of_forecasts() -> None:
    document = predict_document(what_if())
    captions = {
        block.id: block.caption
        for block in sections(document)["forecast"].blocks
        if isinstance(block, Table)
    }
    assert captions["forecast-iops"].endswith(
        "validated error: median 4.2 %, 90 % of 72 cells within 11.0 %"
    )
    assert captions["forecast-latency-p99"].endswith("no validated error")
    (tiles,) = (block for block in document.front if isinstance(block, Tiles))
    assert [one.value for one in tiles.tiles if one.title == "Validated error"] == ["median 4.2 %"]
    assert "validation" not in sections(predict_document(replace(what_if(), errors=())))


def test_measured_against_expected_comes_first_and_counts_what_is_within() -> None:
    document = predict_document(against())
    assert document.sections[0].id == "against"
    assert document.sections[0].result == "18 of 18 rates within the 90 % interval"
    found = rows(document, "against-iops")
    assert {row["result"] for row in found[:-1]} == {"within"}
    assert found[0]["measured vs expected"] == "+2.0 %"
    assert found[-1]["result"] == "within the bound", "a refused cell is held against its bound"
    above, below = (
        {row["result"] for row in rows(predict_document(against(factor)), "against-iops")[:-1]}
        for factor in (1.2, 0.8)
    )
    assert (above, below) == ({"above"}, {"below"})
    # A lower latency than expected is below, whatever the rate.
    slow = rows(predict_document(against(0.8)), "against-latency-mean")
    assert {row["result"] for row in slow} == {"below"}
    assert rows(predict_document(against(2.0)), "against-iops")[-1]["result"] == "beyond the bound"


def test_the_panels_of_a_metric_share_their_axes_and_have_measured_model_and_what_if() -> None:
    charts = list(curve_panels(what_if().curves, changed=True))
    by_metric: dict[str, list[LineChart]] = {}
    for chart in charts:
        by_metric.setdefault(chart.choice, []).append(chart)
    assert list(by_metric) == ["iops", "latency_mean", "latency_p99"]
    for panels in by_metric.values():
        assert len({(one.x, one.y) for one in panels}) == 1
    first = by_metric["iops"][0]
    names = [first.series[line.series] for line in first.lines]
    assert names == ["model", "expected after the change", "measured"]
    model, expected, measured = first.lines
    assert len(measured.points) == len(DEPTHS)
    assert len(model.points) == len(expected.points) == len(DEPTHS) + 4
    assert [x for x, _ in model.points] == sorted(x for x, _ in model.points)
    assert [len(band.points) for band in first.bands] == [10, 10]
    for (x, low, high), (at, value) in zip(first.bands[1].points, expected.points, strict=True):
        assert x == at
        assert low < value < high


def test_a_forecast_without_a_change_has_no_column_of_changes() -> None:
    document = predict_document(as_it_is())
    titles = rows(document, "forecast-iops")[0].keys()
    assert not {"change", "model"} & titles
    charts = [b for b in sections(document)["forecast"].blocks if isinstance(b, LineChart)]
    assert {chart.series for chart in charts} == {("measured", "model")}


def test_changes_are_marked_by_their_interval_against_the_margin() -> None:
    def verdict(added_s: float, metric: Metric = Metric.IOPS) -> str:
        one = curve(added_s=added_s)
        (panel,) = change_panels(one.levels[:1], metric)
        assert isinstance(panel, DeltaChart)
        return panel.rows[0].verdict

    assert verdict(1e-3) == "worse"
    assert verdict(1e-3, Metric.LATENCY_MEAN) == "worse"
    assert verdict(-0.5e-3) == "better"
    assert verdict(0.0) == "inconclusive", "the interval is wider than the margin"


def test_untrusted_names_are_text() -> None:
    evil = replace(calibrated(1), target="<script>alert(1)</script>", level="\x1b[2J")
    one = replace(curve(), target=evil.target, levels=(evil,), between=())
    document = predict_document(replace(what_if(), curves=(one,), changes=("<b>",)))
    page = html.render(document)
    assert "<script>alert" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize("width", [100, 80])
def test_terminal(width: int) -> None:
    stream = io.StringIO()
    for prediction in (what_if(), against()):
        terminal.render(
            Console(width=width, file=stream, no_color=True), predict_document(prediction)
        )
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert CHANGES[0] in text
    check(f"predict-{width}.txt", text)


def test_streams_have_a_table_of_their_own() -> None:
    """A stream has a bandwidth, which is shown whichever metric of the others is chosen."""
    bound = Bound(
        capacity_iops=1000.0, capacity_of=Station.RECEIVE, floor_s=None, floor_of=None,
        io_bytes=float(1 << 20),
    )  # fmt: skip
    one = Forecast(
        target="tank", workload="receive", level="", op=Op.WRITE, in_flight=None,
        layer=Layer.BOUNDS, measured={Metric.BANDWIDTH: 500 * 2.0**20}, bound_now=bound,
        bound=bound, refusals=(Refusal.NO_BLOCKS,),
    )  # fmt: skip
    stream = CurveForecast(target="tank", workload="receive", op=Op.WRITE, levels=(one,))
    made = as_it_is()
    document = predict_document(replace(made, curves=(*made.curves, stream)))
    (row,) = rows(document, "forecast-bandwidth")
    assert (row["target"], row["measured"]) == ("tank", "500")
    assert row["90 % interval, or bound"] == "≤ 1,000"
    for metric in ("iops", "latency-mean"):
        assert "tank" not in {found["target"] for found in rows(document, f"forecast-{metric}")}
    *_, last = rows(document, "bounds-table")
    assert (last["capacity"], last["bandwidth"], last["of"]) == ("1,000", "1,000", "zfs receive")
    console = Console(file=io.StringIO(), width=140)
    terminal.render(console, document)
    assert "tank" in console.file.getvalue()  # type: ignore[attr-defined]
