"""Charts of rows: every trial as a dot, bars from zero, changes round the line of no change.

Each row has tracks, drawings 20 pixels high; labels and figures stand beside them as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leadline.report.charts.axis import Axis, anchor, at, fitting, percent, share, within
from leadline.report.charts.shapes import (
    SYMBOLS,
    bar,
    colour,
    escaped,
    mark,
    shape,
    titled,
    verdict_mark,
)
from leadline.report.document import (
    Bar,
    BarChart,
    BarGroup,
    DeltaChart,
    DeltaRow,
    DotPlot,
    DotRow,
    Mark,
)

TRACK_HEIGHT = 20
# What goes through all rows reaches over a row's edges, so that it has no gaps.
_OVER = 4
# Plots of dots stand two beside each other; the others are as wide as the page or a phone.
_HALF_WIDTH, _PHONE_WIDTH, _PAGE_WIDTH = 190.0, 320.0, 600.0
# Bars on a phone have their figures beside them.
_PHONE_WIDTH_OF_BARS = 210.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """`drawing` is SVG to be put in an <svg>; `end` the figure as text; `said` all in words."""

    drawing: str
    end: str
    said: str
    absent: bool = False
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    label: str
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """`grid` is defined once and used by every track; `axis` goes below. `legend` is of
    (drawing 24 x 20 pixels, text); `scale` says what the axis shows. `half`: two fit on a page;
    `grouped`: a row may have several tracks."""

    id: str
    title: str
    scale: str
    grid: str
    axis: str
    legend: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    choice: str
    half: bool
    grouped: bool

    @property
    def widths(self) -> str:
        """Classes that give names and figures the room that their texts need."""
        names = max((len(row.label) for row in self.rows), default=0)
        ends = max((len(track.end) for row in self.rows for track in row.tracks), default=0)
        return f"name-{_size(names)} end-{_size(ends)}"


def _size(characters: int) -> str:
    return "s" if characters <= 16 else "m" if characters <= 30 else "l"


def row_chart(chart: DotPlot | BarChart | DeltaChart) -> RowChart:
    match chart:
        case DotPlot():
            kind = "logarithmic axis" if chart.log else "axis from zero"
            rows = [_dots(chart, row) for row in chart.rows]
            return _chart(chart, chart, kind, (), rows, half=True)
        case BarChart():
            legend = tuple(
                (swatch(index), name)
                for index, name in enumerate(chart.series)
                if len(chart.series) > 1
            )
            rows = [_bars(chart, group) for group in chart.groups]
            return _chart(chart, chart.scale, chart.scale.title, legend, rows)
        case DeltaChart():
            rows = [_delta(chart, row) for row in chart.rows]
            legend = _delta_legend(chart)
            return _chart(chart, chart.scale, chart.scale.title, legend, rows)


def _chart(
    chart: DotPlot | BarChart | DeltaChart,
    axis: Axis,
    scale: str,
    legend: tuple[tuple[str, str], ...],
    rows: Iterable[Row],
    *,
    half: bool = False,
) -> RowChart:
    phone = _PHONE_WIDTH_OF_BARS if isinstance(chart, BarChart) else _PHONE_WIDTH
    narrow = fitting(axis, _HALF_WIDTH if half else phone)
    wide = narrow if half else fitting(axis, _PAGE_WIDTH)
    return RowChart(
        id=chart.id,
        title=chart.title,
        scale=scale,
        grid=f'<g id="{escaped(chart.id)}-grid">'
        + "".join(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{-_OVER}" y2="{TRACK_HEIGHT + _OVER}"/>'
            for x in (at(axis, value) for value, _ in axis.ticks)
        )
        + "</g>"
        + (_banded_grids(chart) if isinstance(chart, DeltaChart) else ""),
        axis="".join(
            f'<text class="{"tick" if tick in narrow else "wide"}" x="{percent(tick[0])}" y="13"'
            f' text-anchor="{anchor(tick[0])}">{escaped(tick[1])}</text>'
            for tick in wide
        ),
        legend=legend,
        rows=tuple(rows),
        choice="" if isinstance(chart, DotPlot) else chart.choice,
        half=half,
        grouped=isinstance(chart, BarChart),
    )


def _grid(chart: DotPlot | BarChart | DeltaChart) -> str:
    return f'<use href="#{escaped(chart.id)}-grid"/>'


def _line(style: str, x1: str, x2: str, y1: int = 10, y2: int = 10, title: str = "") -> str:
    told = titled(title)
    end = f">{told}</line>" if told else "/>"
    return f'<line class="{style}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"{end}'


def _whisker(axis: Axis, interval: tuple[float, float] | None) -> str:
    """The interval; where it goes on beyond the axis it has no end."""
    if interval is None:
        return ""
    low, high = interval
    ends = ("" if within(axis, low) else " from-below") + (
        "" if within(axis, high) else " to-above"
    )
    return _line(f"whisker{ends}", at(axis, low), at(axis, high))


# --- every trial as a dot -----------------------------------------------------------------------


def _dots(plot: DotPlot, row: DotRow) -> Row:
    drawing = _grid(plot) + _line("base", "0", "100%")
    if row.value is not None:
        x = at(plot, row.value)
        drawing += _line("mid", x, x, 2, 18, f"{plot.mark} {row.text}")
    for dot in row.dots:
        style = "odd" if dot.outlier else "dot"
        told = f"trial {dot.trial}: {dot.text}{', outlier' if dot.outlier else ''}"
        x = at(plot, dot.value)
        drawing += f'<circle class="{style}" cx="{x}" cy="10" r="4.5">{titled(told)}</circle>'
    track = Track(
        drawing=drawing,
        end=row.text,
        said="; ".join([row.text, *(f"{dot.trial} {dot.text}" for dot in row.dots)]),
        absent=row.value is None,
        marks=row.marks,
    )
    return Row(label=row.label, tracks=(track,))


# --- bars from zero -----------------------------------------------------------------------------


def _bars(chart: BarChart, group: BarGroup) -> Row:
    return Row(label=group.label, tracks=tuple(_bar(chart, one) for one in group.bars))


def _bar(chart: BarChart, one: Bar) -> Track:
    drawing = _grid(chart)
    if one.value is not None:
        drawing += bar(one.series, at(chart.scale, one.value), refused=one.refused)
    drawing += _line("base", "0", "0", 1, 19)
    for dot in one.dots:
        style = f"trial {colour(one.series)}{' outlier' if dot.outlier else ''}"
        told = f"trial {dot.trial}: {dot.text}{', outlier' if dot.outlier else ''}"
        drawing += mark(shape(one.series), style, at(chart.scale, dot.value), "10", told)
    drawing += _whisker(chart.scale, one.interval)
    series = chart.series[one.series] if one.series < len(chart.series) else ""
    name = series if len(chart.series) > 1 else ""
    return Track(
        drawing=drawing,
        end=one.text,
        said=": ".join(part for part in (name, one.text) if part),
        absent=one.value is None,
    )


def swatch(series: int) -> str:
    """A series' bar and dot as the legend shows them, 24 x 20 pixels."""
    return bar(series, "24", refused=False) + mark(
        shape(series), f"trial {colour(series)}", "12", "10"
    )


# --- changes ------------------------------------------------------------------------------------


def _delta(chart: DeltaChart, row: DeltaRow) -> Row:
    scale = chart.scale
    drawing = f'<use href="#{escaped(chart.id)}-grid-{_bands(chart).index(row.band)}"/>'
    if row.ratio is not None:
        drawing += _whisker(scale, row.interval)
        drawing += verdict_mark(row.verdict, at(scale, row.ratio), "10")
    said = row.text if row.verdict in row.text else f"{row.verdict}: {row.text}"
    track = Track(drawing=drawing, end=row.text, said=said, absent=row.ratio is None)
    return Row(label=row.label, tracks=(track,))


def _bands(chart: DeltaChart) -> list[float]:
    """The bands that occur, the narrowest first: each is drawn once and used by its rows."""
    return sorted({row.band for row in chart.rows})


def _banded_grids(chart: DeltaChart) -> str:
    zero = at(chart.scale, 1.0)
    line = _line("zero", zero, zero, -_OVER, TRACK_HEIGHT + _OVER)
    drawn = []
    for index, band in enumerate(_bands(chart)):
        low, high = share(chart.scale, 1 - band), share(chart.scale, 1 + band)
        drawn.append(
            f'<g id="{escaped(chart.id)}-grid-{index}"><rect class="band" x="{percent(low)}"'
            f' y="{-_OVER}" width="{percent(high - low)}" height="{TRACK_HEIGHT + 2 * _OVER}"/>'
            f"{_grid(chart)}{line}</g>"
        )
    return "".join(drawn)


def _delta_legend(chart: DeltaChart) -> tuple[tuple[str, str], ...]:
    """The marks that the chart has, and its band."""
    shown = {row.verdict for row in chart.rows if row.ratio is not None}
    marks = [
        (verdict_mark(verdict, "12", "10"), verdict) for verdict in SYMBOLS if verdict in shown
    ]
    band = [
        (
            '<rect class="band" x="2" y="2" width="20" height="16"/>'
            + _line("zero", "12", "12", 0, TRACK_HEIGHT),
            "no change, and the band that counts as the same",
        )
    ]
    return (*marks, *(band if any(_bands(chart)) else []))
