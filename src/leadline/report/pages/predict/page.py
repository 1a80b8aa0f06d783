"""The document of forecasts: the answer in short, cells, bounds, refusals, errors and method."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from leadline.analysis.predict.facts import Bound, Forecast, ForecastError, Layer, Station
from leadline.analysis.predict.prediction import Prediction
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.report.cells import (
    bullets,
    count,
    number,
    number_column,
    records_table,
    section,
    word,
)
from leadline.report.document import Cell, Document, Section
from leadline.report.marks import Marks, finding_list
from leadline.report.pages.predict.summary import front_blocks, predict_headline, summary_sentences
from leadline.report.pages.predict.tables import cell_sections
from leadline.report.pages.predict.words import (
    LEFT_OUT,
    REFUSALS,
    REMEDIES,
    STATIONS,
    refusal_lines,
    source_text,
    unexpected_findings,
)
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import (
    count_text,
    listed,
    op_text,
    percent_text,
    place,
    short,
    title,
    value_text,
)
from leadline.units import format_latency
from leadline.version import __version__

_NAME = 32
_ABOUT = "docs/concepts/forecasts.md"


def predict_document(prediction: Prediction, runs: Iterable[Run] = ()) -> Document:
    """Build the document: the answer in short, then cells, bounds, errors and method. `runs` are
    the archives, whose redactions are listed."""
    return Document(
        title=_title(prediction),
        subtitle=_subtitle(prediction),
        summary=(predict_headline(prediction), *summary_sentences(prediction)),
        sections=tuple(
            made
            for made in (
                *cell_sections(prediction),
                _bounds_section(prediction),
                _refusal_section(prediction),
                _rates_section(prediction),
                _error_section(prediction.errors),
                *redaction_sections(*runs),
                _method_section(prediction),
            )
            if made.blocks
        ),
        front=tuple(front_blocks(prediction)),
    )


def _title(prediction: Prediction) -> str:
    if not prediction.curves:
        return f"Errors of forecasts of {prediction.system}"
    if prediction.against:
        return f"Forecast of {prediction.against} from {prediction.system}, and its measurement"
    what = f"Forecast of {prediction.system}"
    return f"{what} with {listed(prediction.changes)}" if prediction.changes else what


def _subtitle(prediction: Prediction) -> str:
    if not prediction.curves:
        return "forecasts of left-out cells · 90 % intervals"
    total = len(prediction.forecasts)
    return place(
        count_text(len(prediction.curves), "curve"),
        f"{len(prediction.calibrated):,} of {count_text(total, 'cell')} by the calibrated model",
        "90 % intervals",
    )


# --- bounds, refusals, errors, method -----------------------------------------------------------


def _bounds_section(prediction: Prediction) -> Section:
    """The bounds of each curve, as the system is and after the change."""
    rows = [
        (curve, bound, after)
        for curve in prediction.curves
        for first in curve.levels[:1]
        for bound, after in _bounds(first, prediction)
    ]
    found = records_table(
        "bounds-table",
        rows,
        ("target", lambda row: row[0].target),
        ("workload", lambda row: row[0].workload),
        ("operation", lambda row: op_text(row[0].op)),
        ("system", lambda row: "changed" if row[2] else "as it is") if prediction.changed else None,
        (number_column("capacity", unit="IOPS"), lambda row: _capacity(row[1])),
        (number_column("bandwidth", unit="MiB/s"), lambda row: _bandwidth(row[1]))
        if any(bound.capacity_bps is not None for _, bound, _ in rows)
        else None,
        ("of", lambda row: _station(row[1].capacity_of)),
        (number_column("least mean latency"), lambda row: _floor(row[1])),
        ("largest part", lambda row: _station(row[1].floor_of)),
        caption="Bounds: no result can have a higher rate or a lower mean latency",
        filterable=True,
    )
    return section(
        "Bounds",
        "bounds",
        found if rows else None,
        result=f"known for {count_text(len({id(row[0]) for row in rows}), 'curve')}",
    )


def _bounds(one: Forecast, prediction: Prediction) -> Iterator[tuple[Bound, bool]]:
    found = [(one.bound_now, False), (one.bound, True)][: 2 if prediction.changed else 1]
    for bound, after in found:
        if bound is not None and (bound.capacity_iops is not None or bound.floor_s is not None):
            yield bound, after


def _capacity(bound: Bound) -> Cell:
    return number(bound.capacity_iops, partial(value_text, Metric.IOPS), "no resource is known")


def _bandwidth(bound: Bound) -> Cell:
    absence = "no resource is known, or the operation has no data"
    return number(bound.capacity_bps, partial(value_text, Metric.BANDWIDTH), absence)


def _floor(bound: Bound) -> Cell:
    return number(bound.floor_s, format_latency, "the I/O path is unknown")


def _station(station: Station | None) -> str:
    return "" if station is None else STATIONS[station]


def _refusal_section(prediction: Prediction) -> Section:
    counted = refusal_lines(prediction.forecasts)
    refused = sum(one.layer is Layer.BOUNDS for one in prediction.forecasts)
    return section(
        "Cells with bounds only",
        "refusals",
        bullets(
            f"{count_text(cells, 'cell')}: {REFUSALS[reason]}. {REMEDIES[reason]}"
            for reason, cells in counted
        ),
        result=f"{refused} of {count_text(len(prediction.forecasts), 'cell')}",
    )


def _rates_section(prediction: Prediction) -> Section:
    """What the inventory lets expect of each cell, next to the measurement."""
    rates = prediction.rates
    findings = unexpected_findings(rates)
    found = records_table(
        "rates-table",
        rates,
        ("target", lambda one: short(one.target, _NAME)),
        ("workload", lambda one: place(one.workload, op_text(one.op))),
        (number_column("in flight"), lambda one: count(one.in_flight)),
        (number_column("measured IOPS"), lambda one: _iops(one.iops)),
        (number_column("expected, low end"), lambda one: _iops(one.expected.low)),
        (number_column("expected, high end"), lambda one: _iops(one.expected.high)),
        ("result", lambda one: one.direction.value if one.direction else "inside"),
        ("low end set by", lambda one: STATIONS[one.expected.station_low]),
        ("high end set by", lambda one: STATIONS[one.expected.station_high]),
        caption="Expected before the measurement, by the inventory and usual costs",
        filterable=True,
    )
    inside = sum(one.direction is None for one in rates)
    return section(
        "Expected before measuring",
        "expected",
        finding_list(findings, Marks(findings)) if findings else None,
        found if rates else None,
        result=f"{inside} of {count_text(len(rates), 'cell')} inside",
        folded=not findings,
    )


def _iops(value: float) -> Cell:
    return number(value, partial(value_text, Metric.IOPS))


def _error_section(errors: Sequence[ForecastError]) -> Section:
    """The errors of forecasts of cells that the model did not see."""
    found = records_table(
        "errors-table",
        errors,
        ("source", lambda one: word(source_text(one), one.source)),
        ("forecast", lambda one: LEFT_OUT[one.left_out]),
        ("metric", lambda one: title(one.metric)),
        (number_column("cells"), lambda one: count(one.cells)),
        (number_column("refused", rank=2), lambda one: count(one.refused)),
        (number_column("mean", rank=3), lambda one: _percent(one.mean)),
        (number_column("median"), lambda one: _percent(one.median)),
        (number_column("90 % within"), lambda one: _percent(one.p90)),
        (number_column("worst"), lambda one: _percent(one.worst)),
        (number_column("in the interval"), lambda one: _percent(one.coverage)),
        (
            number_column("by repeats", rank=1),
            lambda one: number(one.by_repeats, percent_text, "no repeats"),
        ),
        caption="Errors of forecasts: |expected - measured| / measured, cells left out",
    )
    return section("Errors of forecasts", "validation", found if errors else None)


def _percent(share: float | None) -> Cell:
    return number(share, percent_text, "every cell was refused")


def _method_section(prediction: Prediction) -> Section:
    rows = [
        ("bounds", "least demand of known resources, and messages of an I/O over round trips"),
        (
            "calibrated model",
            "closed queueing network (mean value analysis) on the trusted levels of a curve",
        ),
        ("interval", "90 %: scatter of trials, parameters of the model, its validated error"),
        ("change", "expected / model: errors of the model cancel; interval of the expectation"),
        (
            "most sensitive to",
            "the assumption that matters most, and the change of IOPS for 10 % more of it",
        ),
        ("refusal", "outside the validated range there are bounds only"),
    ]
    rows += [("change requested", change) for change in prediction.changes]
    rows.append(("page", f"Leadline {__version__}; details: {_ABOUT}"))
    return section(
        "Method",
        "method",
        records_table(
            "method-table",
            rows,
            ("", lambda row: row[0]),
            ("", lambda row: row[1]),
            caption="Method",
        ),
        folded=True,
    )
