"""The document of forecasts: headline, tiles, tables of cells, bounds, errors and method."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from leadline.analysis.predict.facts import (
    METRICS,
    Bound,
    Forecast,
    ForecastError,
    Layer,
    Station,
)
from leadline.analysis.predict.prediction import (
    Prediction,
    count_within,
    within,
)
from leadline.archive.reader import Run
from leadline.metrics import Metric, Op
from leadline.report.cells import (
    absent,
    bullets,
    count,
    number,
    number_column,
    quantity,
    records_table,
    section,
    word,
)
from leadline.report.document import (
    Block,
    Cell,
    Choices,
    Column,
    Columns,
    Document,
    Section,
    Table,
    Tile,
    Tiles,
)
from leadline.report.marks import Marks, finding_list
from leadline.report.pages.predict.charts import change_panels, curve_panels
from leadline.report.pages.predict.words import (
    LAYERS,
    LEFT_OUT,
    REFUSALS,
    REMEDIES,
    STATIONS,
    change_of,
    error_text,
    estimate_text,
    limit_text,
    most_text,
    refusal_lines,
    refusal_names,
    refusals_text,
    sensitivity_text,
    source_text,
    unexpected_findings,
)
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import (
    OP_NOUNS,
    change_text,
    count_text,
    level_name,
    listed,
    op_text,
    percent_text,
    place,
    short,
    span_text,
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
        summary=(predict_headline(prediction), *_bullets(prediction)),
        sections=tuple(
            made
            for made in (
                *_cell_sections(prediction),
                _bounds_section(prediction),
                _refusal_section(prediction),
                _rates_section(prediction),
                error_section(prediction.errors),
                *redaction_sections(*runs),
                _method_section(prediction),
            )
            if made.blocks
        ),
        front=tuple(_front(prediction)),
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


# --- the answer in short ------------------------------------------------------------------------


def predict_headline(prediction: Prediction) -> str:
    """State what is expected, in about 20 words without names."""
    total = len(prediction.forecasts)
    if not total:
        return f"Left out and forecast: {_error_line(prediction) or 'every cell was refused.'}"
    if not prediction.calibrated:
        reason = next(iter(prediction.refusals), None)
        why = f": {REFUSALS[reason]}" if reason else ""
        return f"Bounds only for {count_text(total, 'cell')}{why}."
    if prediction.against:
        held, compared = count_within(prediction.forecasts, Metric.IOPS)
        return (
            f"{short(prediction.against, _NAME)}: {held} of "
            f"{count_text(compared, 'measured rate')} within the expected 90 % interval."
        )
    if not prediction.changed:
        held, compared = _held_now(prediction.forecasts)
        return (
            f"The model holds {held} of {count_text(compared, 'measured rate')} "
            "within its 90 % interval."
        )
    parts = [f"{OP_NOUNS[op]} {text}" for op, text in _changes(prediction, Metric.IOPS).items()]
    return f"Expected with {listed(prediction.changes)}: {listed(parts)}."


def _held_now(forecasts: Sequence[Forecast]) -> tuple[int, int]:
    """Count measured rates within the interval of the model, and all of them."""
    pairs = [
        (one.measured[Metric.IOPS], one.modelled[Metric.IOPS])
        for one in forecasts
        if Metric.IOPS in one.measured and Metric.IOPS in one.modelled
    ]
    return sum(model.low <= value <= model.high for value, model in pairs), len(pairs)


def _changes(prediction: Prediction, metric: Metric) -> dict[Op, str]:
    """The range of expected changes of each operation: `12 to 27 % fewer IOPS`."""
    found: dict[Op, list[float]] = {}
    for one in prediction.calibrated:
        change = change_of(one, metric)
        if change is not None:
            found.setdefault(one.op, []).append(change.value)
    words = ("fewer IOPS", "more IOPS") if metric is Metric.IOPS else ("lower", "higher")
    return {op: span_text(ratios, *words) for op, ratios in found.items()}


def _bullets(prediction: Prediction) -> Iterator[str]:
    """Yield the other results, a sentence each of at most 20 words where names are short."""
    if prediction.against:
        held = [
            f"{title(metric)} {inside} of {compared}"
            for metric in METRICS
            if (pair := count_within(prediction.forecasts, metric))[1]
            for inside, compared in (pair,)
        ]
        if held:
            yield f"Within the expected interval: {listed(held)}."
    elif prediction.changed:
        for op, text in _changes(prediction, Metric.LATENCY_MEAN).items():
            yield f"Mean latency of {OP_NOUNS[op]}: {text}."
    limits = Counter(limit_text(one) for one in prediction.calibrated if limit_text(one))
    if limits:
        counted = (f"{name} ({number})" for name, number in limits.most_common(3))
        yield f"Limited by: {listed(counted)}."
    if prediction.curves:
        line = _error_line(prediction)
        yield f"Validated {line}" if line else "No validated error for such a change."
    for reason, cells in refusal_lines(prediction.forecasts)[:2]:
        yield f"{count_text(cells, 'cell')}, bounds only: {REFUSALS[reason]}."


def _error_line(prediction: Prediction) -> str:
    """Cite the validated error of the rates; empty where there is none."""
    error = _validated(prediction, Metric.IOPS)
    if error is None or error.coverage is None:
        return ""
    return (
        f"error of IOPS ({LEFT_OUT[error.left_out]}): {error_text(error)}; "
        f"{percent_text(error.coverage)} within the interval."
    )


# --- the first screen ---------------------------------------------------------------------------


def _front(prediction: Prediction) -> Iterator[Block]:
    if prediction.curves:
        yield Tiles(tiles=tuple(_tiles(prediction)))
    if prediction.changed and prediction.calibrated:
        panels = change_panels(prediction.calibrated, Metric.IOPS)
        if panels:
            yield Columns(parts=(("Expected change of IOPS", panels),))


def _tiles(prediction: Prediction) -> Iterator[Tile]:
    if prediction.changed:
        for op, text in list(_changes(prediction, Metric.IOPS).items())[:2]:
            latencies = _changes(prediction, Metric.LATENCY_MEAN).get(op, "unknown")
            yield Tile(
                title=OP_NOUNS[op].capitalize(),
                unit="expected IOPS",
                value=text.removesuffix(" IOPS"),
                verdict="",
                note=f"Mean latency {latencies}.",
            )
    held, compared = (
        count_within(prediction.forecasts, Metric.IOPS)
        if prediction.against
        else _held_now(prediction.forecasts)
    )
    if compared:
        model = "expected" if prediction.against else "model's"
        yield Tile(
            title="Measured rates",
            unit=f"within the {model} interval",
            value=f"{held} of {compared}",
            verdict="",
            note="Intervals of 90 %: one of ten is outside by chance.",
        )
    yield Tile(
        title="Forecasts",
        unit="by the calibrated model",
        value=f"{len(prediction.calibrated)} of {len(prediction.forecasts)}",
        verdict="" if prediction.calibrated else "warning",
        note="The other cells have bounds only, with the reason."
        if len(prediction.calibrated) < len(prediction.forecasts)
        else "No cell is refused.",
    )
    error = _validated(prediction, Metric.IOPS)
    if error is not None:
        yield Tile(
            title="Validated error",
            unit=f"IOPS, {LEFT_OUT[error.left_out]}",
            value=f"median {percent_text(error.median or 0.0)}",
            verdict="",
            note=f"90 % within {percent_text(error.p90 or 0.0)}, worst "
            f"{percent_text(error.worst or 0.0)}; {percent_text(error.coverage or 0.0)} within the "
            "interval.",
        )


def _validated(prediction: Prediction, metric: Metric) -> ForecastError | None:
    """The validated errors of a metric; None where there are none."""
    return next((one for one in prediction.errors if one.metric is metric and one.cells), None)


# --- cells --------------------------------------------------------------------------------------


def _cell_sections(prediction: Prediction) -> Iterator[Section]:
    """The curves of a metric and the tables of all cells, a choice for each metric. Measurements of
    the other system come first."""
    if not prediction.curves:
        return
    known = [
        metric
        for metric in METRICS
        if metric is Metric.IOPS or any(metric in one.expected for one in prediction.forecasts)
    ]
    options = tuple((metric.value, title(metric)) for metric in known)
    first: list[Block] = [Choices(id="metric", label="Metric", options=options)]
    first = first if options[1:] else []
    first += curve_panels(prediction.curves, changed=prediction.changed)
    if prediction.against:
        tables = [_against_table(prediction, metric) for metric in known]
        held, compared = count_within(prediction.forecasts, Metric.IOPS)
        yield section(
            "Measured against expected",
            "against",
            *first,
            *(table for table in tables if table.rows),
            result=f"{held} of {count_text(compared, 'rate')} within the 90 % interval",
        )
        first = []
    total = count_text(len(prediction.forecasts), "cell")
    yield section(
        "Forecast",
        "forecast",
        *first,
        *(forecast_table(prediction, metric) for metric in known),
        folded=bool(prediction.against),
        result=f"{len(prediction.calibrated):,} of {total} by the calibrated model",
    )


_Field = tuple[str | Column, Callable[[Forecast], object]]


def _place_fields(forecasts: Sequence[Forecast]) -> Iterator[_Field]:
    """Yield the columns of a cell's place; workload and level where they differ."""
    yield "target", lambda one: one.target
    if len({one.workload for one in forecasts}) > 1:
        yield "workload", lambda one: one.workload
    if any(one.level for one in forecasts):
        yield "level", lambda one: level_name(one.level)
    yield "operation", lambda one: op_text(one.op)


def forecast_table(prediction: Prediction, metric: Metric) -> Table:
    """A row for each cell: measured, model, expected, change, limits, layer, assumption."""
    unit = title(metric)
    validated = _validated(prediction, metric)
    return records_table(
        f"forecast-{metric.value.replace('_', '-')}",
        prediction.forecasts,
        *_place_fields(prediction.forecasts),
        (number_column("in flight"), _in_flight) if _says_more(prediction) else None,
        (number_column("measured", rank=1), partial(_measured, metric)),
        (number_column("model", rank=5), partial(_modelled, metric))
        if prediction.changed
        else None,
        (number_column("expected"), partial(_expected, metric)),
        ("90 % interval, or bound", partial(_interval, metric)),
        (number_column("change"), partial(_change, metric)) if prediction.changed else None,
        (Column(title="limited by", rank=3), limit_text),
        (Column(title="made by", rank=2), _made_by),
        (Column(title="most sensitive to", rank=8), _sensitivity),
        caption=place(
            f"Forecast of {unit}",
            _workload(prediction),
            listed(prediction.changes),
            f"validated error: {error_text(validated)}" if validated else "no validated error",
        ),
        filterable=True,
        choice=metric.value,
    )


def _workload(prediction: Prediction) -> str:
    """The workload of all cells; empty where they differ."""
    names = {one.workload for one in prediction.forecasts}
    return names.pop() if len(names) == 1 else ""


def _says_more(prediction: Prediction) -> bool:
    """Whether the I/Os in flight are not those in the names of the levels."""
    names = ((re.search(r"\d*$", one.level), one.in_flight) for one in prediction.forecasts)
    return any(number is None or number[0] != f"{in_flight}" for number, in_flight in names)


def _in_flight(one: Forecast) -> Cell:
    return absent() if one.in_flight is None else count(one.in_flight)


def _measured(metric: Metric, one: Forecast) -> Cell:
    absence = "not measured, or refused by the audit"
    return number(one.measured.get(metric), partial(value_text, metric), absence)


def _modelled(metric: Metric, one: Forecast) -> Cell:
    estimate = one.modelled.get(metric)
    if estimate is None:
        return absent(refusals_text(one.refusals))
    note = estimate_text(metric, estimate)
    return quantity(value_text(metric, estimate.value), estimate.value, note)


def _expected(metric: Metric, one: Forecast) -> Cell:
    estimate = one.expected.get(metric)
    if estimate is None:
        return absent(refusals_text(one.refusals))
    return quantity(value_text(metric, estimate.value), estimate.value)


def _interval(metric: Metric, one: Forecast) -> str:
    """The interval of a calibrated forecast, else the bound."""
    estimate = one.expected.get(metric)
    if estimate is not None:
        return estimate_text(metric, estimate)
    return most_text(one.bound, one.in_flight, metric)


def _change(metric: Metric, one: Forecast) -> Cell:
    change = change_of(one, metric)
    return (
        absent(refusals_text(one.refusals))
        if change is None
        else quantity(change_text(change.value), change.value)
    )


def _made_by(one: Forecast) -> Cell:
    """The layer, and why it is not the calibrated one."""
    return word(place(LAYERS[one.layer], refusal_names(one.refusals)), refusals_text(one.refusals))


def _sensitivity(one: Forecast) -> Cell:
    """The assumption that matters most."""
    if one.sensitivity is None:
        return absent()
    station = STATIONS[one.sensitivity.station]
    return word(sensitivity_text(one.sensitivity), f"{station}; change of IOPS for 10 % more of it")


# --- measured against expected ------------------------------------------------------------------


def _against_table(prediction: Prediction, metric: Metric) -> Table:
    """The measurements of the other system next to what was expected of it."""
    return records_table(
        f"against-{metric.value.replace('_', '-')}",
        [one for one in prediction.forecasts if metric in one.observed],
        *_place_fields(prediction.forecasts),
        (number_column("before", rank=2), partial(_measured, metric)),
        (number_column("expected", rank=1), partial(_expected, metric)),
        ("90 % interval, or bound", partial(_interval, metric)),
        (number_column("measured"), partial(_observed, metric)),
        (number_column("measured vs expected", rank=3), partial(_ratio, metric)),
        ("result", partial(_result, metric)),
        caption=place(
            f"{title(metric)} of {prediction.against}, expected from {prediction.system}",
            _workload(prediction),
        ),
        filterable=True,
        choice=metric.value,
    )


def _observed(metric: Metric, one: Forecast) -> Cell:
    value = one.observed[metric]
    return quantity(value_text(metric, value), value)


def _ratio(metric: Metric, one: Forecast) -> Cell:
    expected = one.expected.get(metric)
    if expected is None or expected.value <= 0:
        return absent(refusals_text(one.refusals))
    ratio = one.observed[metric] / expected.value
    return quantity(change_text(ratio), ratio)


def _result(metric: Metric, one: Forecast) -> str:
    """`within`, `above` or `below`; of a refused cell whether the bound holds."""
    expected, value = one.expected.get(metric), one.observed[metric]
    if expected is not None:
        return "within" if within(one, metric) else "above" if value > expected.high else "below"
    if one.bound is None:
        return "no forecast"
    most = one.bound.most_iops(one.in_flight) if metric is Metric.IOPS else None
    floor = one.bound.floor_s if metric is Metric.LATENCY_MEAN else None
    if most is None and floor is None:
        return "no forecast"
    broken = (most is not None and value > most) or (floor is not None and value < floor)
    return "beyond the bound" if broken else "within the bound"


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


def error_section(errors: Sequence[ForecastError]) -> Section:
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
