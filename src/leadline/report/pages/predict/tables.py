"""The curves and tables of forecast cells, a choice for each metric."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from leadline.analysis.predict.facts import METRICS, Forecast
from leadline.analysis.predict.prediction import Prediction, count_within, within
from leadline.metrics import Metric
from leadline.report.cells import (
    absent,
    count,
    number,
    number_column,
    quantity,
    records_table,
    section,
    word,
)
from leadline.report.document import Block, Cell, Choices, Column, Section, Table
from leadline.report.pages.predict.charts import curve_panels
from leadline.report.pages.predict.words import (
    LAYERS,
    STATIONS,
    change_of,
    error_text,
    estimate_text,
    limit_text,
    most_text,
    rate_of,
    refusal_names,
    refusals_text,
    sensitivity_text,
)
from leadline.report.words import (
    change_text,
    count_text,
    level_name,
    listed,
    op_text,
    place,
    title,
    value_text,
)


def cell_sections(prediction: Prediction) -> Iterator[Section]:
    """The curves of a metric and the tables of all cells, a choice for each metric. Measurements of
    the other system come first. Streams have a table of their own, which is always shown."""
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
    tables = [_forecast_table(prediction, metric) for metric in (*known, Metric.BANDWIDTH)]
    yield section(
        "Forecast",
        "forecast",
        *first,
        *(table for table in tables if table.rows),
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


def _forecast_table(prediction: Prediction, metric: Metric) -> Table:
    """A row for each cell: measured, model, expected, change, limits, layer, assumption."""
    unit = title(metric)
    validated = prediction.validated(metric)
    of_streams = metric is Metric.BANDWIDTH
    cells = [
        one for one in prediction.forecasts if (rate_of(one) is Metric.BANDWIDTH) is of_streams
    ]
    return records_table(
        f"forecast-{metric.value.replace('_', '-')}",
        cells,
        *_place_fields(cells),
        (number_column("in flight"), _in_flight) if _says_more(cells) else None,
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
            _workload(cells),
            listed(prediction.changes),
            f"validated error: {error_text(validated)}" if validated else "no validated error",
        ),
        filterable=True,
        choice="" if of_streams else metric.value,
    )


def _workload(forecasts: Sequence[Forecast]) -> str:
    """The workload of all cells; empty where they differ."""
    names = {one.workload for one in forecasts}
    return names.pop() if len(names) == 1 else ""


def _says_more(forecasts: Sequence[Forecast]) -> bool:
    """Whether the I/Os in flight are not those in the names of the levels."""
    names = ((re.search(r"\d*$", one.level), one.in_flight) for one in forecasts if one.in_flight)
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
            _workload(prediction.forecasts),
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
