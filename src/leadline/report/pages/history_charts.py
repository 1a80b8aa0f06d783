"""The series of a history: their names, as sparklines and as charts over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from leadline.analysis.history import History, Series
from leadline.metrics import Metric
from leadline.report.curves import RATE_UNITS, PageBudget
from leadline.report.document import Line, LineChart, Look, Rule, Scale, Section, Stroke
from leadline.report.words import change_text, place, short, title, value_text, value_with_unit

_BARS = "▁▂▃▄▅▆▇█"
_SPARKS = 24
_DAY_S = 86400.0
_MOST_TICKS = 5


def date_text(at_s: float) -> str:
    """Format a time as a date in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"


def time_text(at_s: float) -> str:
    """Format a time in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def series_name(series: Series) -> str:
    """Name a series in a sentence: its cell and metric."""
    return f"{cell_name(series)} {title(series.metric)}"


def cell_name(series: Series) -> str:
    op = series.op.value if series.op else ""
    return place(short(series.target), short(series.workload), series.level, op)


def metric_name(series: Series) -> str:
    return title(series.metric).removesuffix(" latency")


def sparkline(series: Series, band: float) -> str:
    """Draw the values as bars, at most 24, on a log scale that spans at least the equivalence
    margin up and down."""
    if not series.points:
        return ""
    logs = np.log([point.value for point in series.points])
    parts = [float(part.mean()) for part in np.array_split(logs, min(len(logs), _SPARKS))]
    middle = (max(parts) + min(parts)) / 2
    half = max((max(parts) - min(parts)) / 2, math.log1p(band))
    top = len(_BARS) - 1
    return "".join(_BARS[round((part - middle + half) / (2 * half) * top)] for part in parts)


def charts_sections(history: History) -> Iterator[Section]:
    """Yield a chart of each series, those with changes first, as many as a page takes."""
    budget = PageBudget()
    drawn = [
        _chart(one, number)
        for number, one in enumerate(sorted(history.series, key=lambda one: not one.changes))
        if len(one.points) > 1 and budget.allows("series", 2 * len(one.points))
    ]
    if drawn:
        changed = sum(bool(one.changes) for one in history.series if len(one.points) > 1)
        head, rest = drawn[:changed], drawn[changed:]
        if head:
            yield Section(heading="Series with changes", id="charts", blocks=tuple(head))
        if rest:
            yield Section(
                heading="Series without a change",
                id="charts-unchanged",
                blocks=tuple(rest),
                folded=True,
                result=budget.omission,
            )


def _chart(series: Series, number: int) -> LineChart:
    days = [point.run.at_s / _DAY_S for point in series.points]
    values = [point.value for point in series.points]
    rules = [
        Rule(
            value=(change.begin.run.at_s + change.end.run.at_s) / 2 / _DAY_S,
            label=("drift " if change.drift else "") + change_text(change.ratio),
            upright=True,
        )
        for change in series.changes
    ]
    texts = tuple(
        f"{short(point.run.run)}, {date_text(point.run.at_s)}: "
        f"{value_with_unit(series.metric, point.value)}"
        for point in series.points
    )
    return LineChart(
        id=f"history-{number + 1}",
        title=series_name(series),
        series=("run", "level"),
        x=_date_scale(days),
        y=_value_scale(series.metric, values),
        lines=(
            Line(
                label="run",
                series=0,
                points=tuple(zip(days, values, strict=True)),
                texts=texts,
            ),
            Line(label="level", series=1, points=tuple(zip(days, series.fitted, strict=True))),
        ),
        looks=(Look(hue=0, stroke=Stroke.DOTS), Look(hue=1, stroke=Stroke.THIN)),
        rules=tuple(rules),
    )


def _date_scale(days: Sequence[float]) -> Scale:
    low, high = days[0], days[-1]
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    step = max(1, math.ceil((high - low) / _MOST_TICKS))
    ticks = [float(day) for day in range(math.ceil(low), math.floor(high) + 1, step)] or [low]
    room = (high - low) * 0.02
    return Scale(
        title="date (UTC)",
        log=False,
        low=low - room,
        high=high + room,
        ticks=tuple((day, date_text(day * _DAY_S)) for day in ticks),
    )


def _value_scale(metric: Metric, values: Sequence[float]) -> Scale:
    """Build an axis around the values, without zero: changes of a few per cent must be visible."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.1, high * 0.02)
    low, high = max(low - room, 0.0), high + room
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    ticks = [step * number for number in range(first, math.floor(high / step) + 1)]
    unit = RATE_UNITS.get(metric, title(metric))
    return Scale(
        title=unit,
        log=False,
        low=low,
        high=high,
        ticks=tuple((tick, value_text(metric, tick)) for tick in ticks),
    )
