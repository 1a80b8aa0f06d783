"""Pictures of forecasts: load curves with model and expectation, and the changes of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.predict.facts import METRICS, Forecast
from leadline.analysis.predict.prediction import CurveForecast
from leadline.metrics import MARGIN, Metric
from leadline.report.curves import latency_scale, linear_scale, log_axis, scale
from leadline.report.document import (
    SYSTEM_HUES,
    Band,
    DeltaChart,
    DeltaRow,
    Line,
    LineChart,
    Look,
    Scale,
    Stroke,
)
from leadline.report.pages.comparison.charts import ratio_scale
from leadline.report.pages.predict.words import change_of, estimate_text, in_flight_text
from leadline.report.words import (
    change_text,
    chart_labels,
    level_name,
    op_text,
    place,
    title,
    value_with_unit,
)

_BEFORE, _AFTER = SYSTEM_HUES
_SERIES = ("measured", "model", "expected after the change", "measured after the change")
_LOOKS = (
    Look(hue=_BEFORE, stroke=Stroke.MARKED),
    Look(hue=_BEFORE, dash=1, stroke=Stroke.THIN),
    Look(hue=_AFTER, stroke=Stroke.THIN),
    Look(hue=_AFTER, stroke=Stroke.MARKED, hollow=True),
)
# Curves with a larger ratio of their highest rates share a log axis.
_LINEAR = 4.0
# Panels of one metric, and rows of a first screen; the table has every cell.
_MOST_PANELS, _MOST_ROWS = 12, 18


def curve_panels(
    curves: Sequence[CurveForecast], *, changed: bool, choices: bool = True
) -> Iterator[LineChart]:
    """Yield the panels of each metric over I/Os in flight, on the same scales: measured levels,
    model and expectation with their intervals. Without values of a metric there is no panel."""
    for metric in METRICS:
        drawn = [curve for curve in curves if _points(curve, metric)][:_MOST_PANELS]
        if not drawn:
            continue
        x, y = _loads(drawn), _values(drawn, metric)
        for number, curve in enumerate(drawn, start=1):
            lines = tuple(_lines(curve, metric, changed=changed))
            yield LineChart(
                id=f"curve-{metric.value.replace('_', '-')}-{number}",
                title=place(curve.target, curve.workload, op_text(curve.op)),
                note=title(metric, curve.op),
                series=_SERIES if changed else _SERIES[:2],
                looks=_LOOKS if changed else _LOOKS[:2],
                x=x,
                y=y,
                lines=lines,
                bands=tuple(_bands(curve, metric, changed=changed)),
                choice=metric.value if choices else "",
                panel=True,
            )


def _in_order(curve: CurveForecast) -> list[Forecast]:
    """Forecasts of levels and between them by load."""
    known = [one for one in (*curve.levels, *curve.between) if one.in_flight]
    return sorted(known, key=lambda one: one.in_flight or 0)


_Read = Callable[[Forecast], Mapping[Metric, Estimate]]


def _estimates(curve: CurveForecast, metric: Metric, read: _Read) -> list[tuple[float, Estimate]]:
    return [
        (float(one.in_flight or 0), estimate)
        for one in _in_order(curve)
        if (estimate := read(one).get(metric)) is not None and estimate.low > 0
    ]


def _modelled(forecast: Forecast) -> Mapping[Metric, Estimate]:
    return forecast.modelled


def _expected(forecast: Forecast) -> Mapping[Metric, Estimate]:
    return forecast.expected


def _figures(
    curve: CurveForecast, metric: Metric, *, after: bool
) -> list[tuple[float, float, str]]:
    """(load, value, text) of the measured levels of the system as it is, or `after` the change."""
    found = []
    for one in sorted(curve.levels, key=lambda level: level.in_flight or 0):
        value = (one.observed if after else one.measured).get(metric)
        if one.in_flight and value:
            text = f"{level_name(one.level)}: {value_with_unit(metric, value, one.op)}"
            found.append((float(one.in_flight), value, text))
    return found


def _points(curve: CurveForecast, metric: Metric) -> list[tuple[float, float]]:
    found = [(x, value) for x, value, _ in _figures(curve, metric, after=False)]
    found += [(x, value) for x, value, _ in _figures(curve, metric, after=True)]
    for read in (_modelled, _expected):
        found += [
            (x, end)
            for x, one in _estimates(curve, metric, read)
            for end in (one.low, one.value, one.high)
        ]
    return found


def _loads(curves: Sequence[CurveForecast]) -> Scale:
    loads = sorted({one.in_flight for curve in curves for one in curve.levels if one.in_flight})
    return Scale(
        title="I/Os in flight",
        log=True,
        low=loads[0] / 1.2,
        high=loads[-1] * 1.2,
        ticks=tuple((float(load), f"{load:,}") for load in loads),
    )


def _values(curves: Sequence[CurveForecast], metric: Metric) -> Scale:
    values = [[value for _, value in _points(curve, metric)] for curve in curves]
    if metric is not Metric.IOPS:
        return latency_scale(value for given in values for value in given)
    highest = [max(given) for given in values]
    text = partial(value_with_unit, Metric.IOPS)

    def bare(value: float) -> str:
        return text(value).removesuffix(" IOPS")

    if min(highest) > 0 and max(highest) / min(highest) > _LINEAR:
        ends = log_axis(min(min(given) for given in values), max(highest))
        return scale("IOPS", ends, bare, log=True)
    return linear_scale("IOPS", max(highest), bare)


def _lines(curve: CurveForecast, metric: Metric, *, changed: bool) -> Iterator[Line]:
    name = place(curve.target, op_text(curve.op))
    for series, read in ((1, _modelled), (2, _expected))[: 2 if changed else 1]:
        estimates = _estimates(curve, metric, read)
        if estimates:
            yield Line(
                label=f"{name}: {_SERIES[series]}",
                series=series,
                points=tuple((x, one.value) for x, one in estimates),
                texts=tuple(
                    f"{x:,.0f} in flight: {_SERIES[series]} "
                    f"{value_with_unit(metric, one.value, curve.op)}, "
                    f"90 % interval {estimate_text(metric, one)}"
                    for x, one in estimates
                ),
            )
    for series, after in ((0, False), (3, True))[: 2 if changed else 1]:
        figures = _figures(curve, metric, after=after)
        if figures:
            yield Line(
                label=f"{name}: {_SERIES[series]}",
                series=series,
                points=tuple((x, value) for x, value, _ in figures),
                texts=tuple(text for _, _, text in figures),
            )


def _bands(curve: CurveForecast, metric: Metric, *, changed: bool) -> Iterator[Band]:
    for hue, read in ((_BEFORE, _modelled), (_AFTER, _expected))[: 2 if changed else 1]:
        points = tuple((x, one.low, one.high) for x, one in _estimates(curve, metric, read))
        if len(points) > 1:
            yield Band(hue=hue, points=points)


# --- changes ------------------------------------------------------------------------------------


def change_panels(forecasts: Sequence[Forecast], metric: Metric) -> tuple[DeltaChart, ...]:
    """Draw the expected change of each cell with its interval, a panel for each operation."""
    rows: dict[str, list[DeltaRow]] = {}
    labels = chart_labels(one.target for one in forecasts)
    places = {_load(one, forecasts): None for one in forecasts}
    for one in sorted(forecasts, key=lambda one: list(places).index(_load(one, forecasts))):
        change = change_of(one, metric)
        if change is None:
            continue
        rows.setdefault(op_text(one.op), []).append(
            DeltaRow(
                label=labels[one.target],
                ratio=change.value,
                interval=(change.low, change.high),
                verdict=_verdict(metric, change),
                text=change_text(change.value),
                band=MARGIN,
                group=_load(one, forecasts),
            )
        )
    if not rows:
        return ()
    axis = ratio_scale("expected change", [row for part in rows.values() for row in part])
    return tuple(
        DeltaChart(
            id=f"front-{op}",
            title=place(f"{op.capitalize()}s", title(metric), _cut(part)),
            scale=axis,
            rows=tuple(part[:_MOST_ROWS]),
            panel=True,
        )
        for op, part in rows.items()
    )


def _cut(rows: Sequence[DeltaRow]) -> str:
    """Count the rows of a panel that are drawn; empty where all are."""
    return f"{_MOST_ROWS} of {len(rows):,} cells" if len(rows) > _MOST_ROWS else ""


def _load(one: Forecast, among: Sequence[Forecast]) -> str:
    """The level of a cell, after its workload where there are several."""
    several = len({other.workload for other in among}) > 1
    level = level_name(one.level) or in_flight_text(one.in_flight)
    return place(one.workload if several else "", level)


def _verdict(metric: Metric, change: Estimate) -> str:
    """Select the mark of a change: its interval against the equivalence margin."""
    if change.low >= 1 - MARGIN and change.high <= 1 + MARGIN:
        return "same"
    if change.low < 1 + MARGIN and change.high > 1 - MARGIN:
        return "inconclusive"
    return "better" if (change.value > 1) is (metric is Metric.IOPS) else "worse"
