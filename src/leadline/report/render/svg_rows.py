"""SVG drawings of charts of rows: trials as dots, bars, strips over time, changes.

A row has tracks, drawings 20 pixels high, with its label and its figures as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.report.document import (
    Bar,
    BarChart,
    DeltaChart,
    DeltaRow,
    Dot,
    DotPlot,
    DotRow,
    Mark,
    Scale,
    Strip,
    StripChart,
    StripRow,
    StripTrack,
    Tile,
)
from leadline.report.render.svg_shapes import (
    SYMBOLS,
    anchor,
    at,
    bar,
    colour,
    fitting,
    mark,
    percent,
    shape,
    share,
    titled,
    verdict_class,
    verdict_mark,
    verdict_style,
    within,
    xml_text,
)
from leadline.report.words import listed

TRACK_HEIGHT = 20
# Lines through all rows extend over the edges of a row, so that they have no gaps.
_OVER = 4
# Two plots of dots fit next to each other; other charts are as wide as the page or a phone.
_HALF_WIDTH, _PHONE_WIDTH, _PAGE_WIDTH = 190.0, 320.0, 600.0
# The figures of bars are next to them on a phone.
_BARS_PHONE_WIDTH = 210.0

RowsOf = DotPlot | BarChart | DeltaChart | StripChart
# The axis of strips has no ticks: each row has its own scale.
_NO_AXIS = Scale(title="", log=False, low=0.0, high=1.0, ticks=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """`drawing` is SVG to be put in an <svg>; `end` the figure as text."""

    drawing: str
    end: str
    description: str
    absent: bool = False
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`group` is the heading above the first row of a group; `style` a class of its figures."""

    label: str
    tracks: tuple[Track, ...]
    group: str = ""
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChart:
    """`grid` is defined once and used by every track; `axis` goes below. `legend` is of
    (drawing 24 x 20 pixels, text); `scale` says what the axis shows. `half`: two fit on a page;
    `panel`: two in a column; `grouped`: a row may have several tracks."""

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
    panel: bool

    @property
    def widths(self) -> str:
        """Classes for the width of names and figures."""
        names = max((len(row.label) for row in self.rows), default=0)
        ends = max((len(track.end) for row in self.rows for track in row.tracks), default=0)
        name, end = ("s" if size <= 16 else "m" if size <= 30 else "l" for size in (names, ends))
        return f"name-{name} end-{end}"


def row_chart(chart: RowsOf) -> RowChart:
    match chart:
        case DotPlot():
            kind = "logarithmic axis" if chart.log else "axis from zero"
            rows = [_dots(chart, row) for row in chart.rows]
            scale = "" if chart.panel else kind
            return _chart(chart, chart, scale, (), rows, half=not chart.panel)
        case BarChart():
            legend = tuple(
                (_swatch(chart.hue(index)), name)
                for index, name in enumerate(chart.series)
                if len(chart.series) > 1
            )
            rows = [
                Row(label=group.label, tracks=tuple(_bar(chart, entry) for entry in group.bars))
                for group in chart.groups
            ]
            return _chart(chart, chart.scale, chart.scale.title, legend, rows)
        case DeltaChart():
            rows = [_delta(chart, row) for row in chart.rows]
            legend = () if chart.panel else _delta_legend((chart,))
            scale = "" if chart.panel else chart.scale.title
            return _chart(chart, chart.scale, scale, legend, rows)
        case StripChart():
            legend = () if chart.panel else _legend(chart)
            return _chart(chart, _NO_AXIS, "", legend, [_strips(chart, row) for row in chart.rows])


def _chart(
    chart: RowsOf,
    axis: Scale,
    scale: str,
    legend: tuple[tuple[str, str], ...],
    rows: Iterable[Row],
    *,
    half: bool = False,
) -> RowChart:
    phone = _BARS_PHONE_WIDTH if isinstance(chart, BarChart) else _PHONE_WIDTH
    panel = isinstance(chart, DeltaChart | DotPlot | StripChart) and chart.panel
    narrow = fitting(axis, _HALF_WIDTH if half or panel else phone)
    wide = narrow if half or panel else fitting(axis, _PAGE_WIDTH)
    return RowChart(
        id=chart.id,
        title=chart.title,
        scale=scale,
        grid=f'<g id="{xml_text(chart.id)}-grid">'
        + "".join(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{-_OVER}" y2="{TRACK_HEIGHT + _OVER}"/>'
            for x in (at(axis, value) for value, _ in axis.ticks)
        )
        + "</g>"
        + (_margin_grids(chart) if isinstance(chart, DeltaChart) else ""),
        axis="".join(
            f'<text class="{"tick" if tick in narrow else "wide"}" x="{percent(tick[0])}" y="13"'
            f' text-anchor="{anchor(tick[0])}">{xml_text(tick[1])}</text>'
            for tick in wide
        ),
        legend=legend,
        rows=tuple(rows),
        choice="" if isinstance(chart, DotPlot) else chart.choice,
        half=half,
        grouped=isinstance(chart, BarChart | StripChart),
        panel=panel,
    )


def _grid(chart: RowsOf) -> str:
    return f'<use href="#{xml_text(chart.id)}-grid"/>'


def _line(style: str, x1: str, x2: str, y1: int = 10, y2: int = 10, title: str = "") -> str:
    tooltip = titled(title)
    end = f">{tooltip}</line>" if tooltip else "/>"
    return f'<line class="{style}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"{end}'


def _whisker(axis: Scale, interval: tuple[float, float] | None) -> str:
    """The interval; where it goes on beyond the axis it has no end."""
    if interval is None:
        return ""
    low, high = interval
    below = "" if within(axis, low) else " from-below"
    above = "" if within(axis, high) else " to-above"
    return _line(f"whisker{below}{above}", at(axis, low), at(axis, high))


# --- every trial as a dot -----------------------------------------------------------------------


def _trial(dot: Dot) -> str:
    return f"trial {dot.trial}: {dot.text}{', outlier' if dot.outlier else ''}"


def _dots(plot: DotPlot, row: DotRow) -> Row:
    drawing = _grid(plot) + _line("base", "0", "100%")
    if row.value is not None:
        x = at(plot, row.value)
        drawing += _line("mid", x, x, 2, 18)
    for dot in row.dots:
        style = "odd" if dot.outlier else "dot"
        drawing += f'<circle class="{style}" cx="{at(plot, dot.value)}" cy="10" r="4.5"/>'
    track = Track(
        drawing=drawing,
        end=row.text,
        description="; ".join([row.text, *map(_trial, row.dots)]),
        absent=row.value is None,
        marks=row.marks,
    )
    style = "refused" if row.refused else ""
    return Row(label=row.label, tracks=(track,), group=row.group, style=style)


# --- bars from zero -----------------------------------------------------------------------------


def _bar(chart: BarChart, entry: Bar) -> Track:
    hue = chart.hue(entry.series)
    drawing = _grid(chart)
    if entry.value is not None:
        drawing += bar(hue, at(chart.scale, entry.value), refused=entry.refused)
    drawing += _line("base", "0", "0", 1, 19)
    for dot in entry.dots:
        style = f"trial {colour(hue)}{' outlier' if dot.outlier else ''}"
        drawing += mark(shape(hue), style, at(chart.scale, dot.value), "10", _trial(dot))
    drawing += _whisker(chart.scale, entry.interval)
    series = chart.series[entry.series] if entry.series < len(chart.series) else ""
    name = series if len(chart.series) > 1 else ""
    return Track(
        drawing=drawing,
        end=entry.text,
        description=": ".join(part for part in (name, entry.text) if part),
        absent=entry.value is None,
    )


def _swatch(hue: int) -> str:
    """The bar and dot of a colour as the legend shows them, 24 x 20 pixels."""
    return bar(hue, "24", refused=False) + mark(shape(hue), f"trial {colour(hue)}", "12", "10")


# --- every trial over time ----------------------------------------------------------------------

# Units of a track's width and height, and of the gap between two trials.
_STRIPS_WIDTH, _STRIPS_HEIGHT, _STRIPS_GAP = 1000.0, 100.0, 14.0
# Spans that are nearer follow each other.
_NEXT_S = 1e-6


def _strips(chart: StripChart, row: StripRow) -> Row:
    highest = max(
        (rate for track in row.tracks for strip in track.strips for _, _, rate in strip.spans),
        default=0.0,
    )
    tracks = tuple(_strip_track(chart, track, highest) for track in row.tracks)
    return Row(label=row.label, tracks=tracks, group=row.group)


def _strip_track(chart: StripChart, track: StripTrack, highest: float) -> Track:
    slot = _STRIPS_WIDTH / max(1, len(track.strips))
    lost, areas, events = "", "", ""
    texts: list[str] = []
    for index, strip in enumerate(track.strips):
        left, wide = index * slot, slot - _STRIPS_GAP
        areas += _strip_area(strip, left, wide, highest)
        for event in strip.events:
            x = (left + wide * event.begin_s / strip.end_s) / _STRIPS_WIDTH
            width = percent(wide * (event.end_s - event.begin_s) / strip.end_s / _STRIPS_WIDTH)
            events += _event(event.kind, percent(x), width, event.text)
            texts.append(event.text)
        for begin, end in _lost(strip):
            x = (left + wide * begin / strip.end_s) / _STRIPS_WIDTH
            width = percent(wide * (end - begin) / strip.end_s / _STRIPS_WIDTH)
            lost += f'<rect class="lost" x="{percent(x)}" y="12" width="{width}" height="8"/>'
    name = chart.series[track.series] if track.series < len(chart.series) else ""
    hue = chart.hue(track.series)
    described = "; ".join((f"{len(track.strips):,} trials", *dict.fromkeys(texts)))
    return Track(
        drawing=f'<svg class="strips {colour(hue)} d{hue % 4}" '
        'viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="20">'
        f"{areas}</svg>{lost}{events}{_line('base', '0', '100%', 20, 20)}",
        end=track.text,
        description=f"{name}: {described}; {track.text}".removeprefix(": "),
        absent=not track.strips,
        marks=track.marks,
    )


# Events are lines above the rates: of clients below those of the cluster, and dashed.
_EVENT_ROWS = {"cluster": 0, "client": 4}
EVENT_WORDS = {"cluster": "cluster disturbed", "client": "a client straggles"}


def _event(kind: str, x: str, width: str, text: str) -> str:
    style = "event" if kind == "cluster" else "event client"
    y = _EVENT_ROWS.get(kind, 0)
    tooltip = titled(text)
    return f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="3">{tooltip}</rect>'


def _strip_area(strip: Strip, left: float, wide: float, highest: float) -> str:
    """The rate as steps over zero; a span without a sample ends an area."""
    path, last = "", -1.0
    for begin, end, rate in strip.spans:
        y = _STRIPS_HEIGHT * (1 - rate / highest if highest > 0 else 1.0)
        x, right = (left + wide * second / strip.end_s for second in (begin, end))
        if begin - last >= _NEXT_S:
            path += f"{'V100z' if path else ''}M{x:.0f} 100"
        path += f"V{y:.0f}H{right:.0f}"
        last = end
    return f'<path d="{path}V100z">{titled(strip.text)}</path>' if path else ""


def _lost(strip: Strip) -> Iterable[tuple[float, float]]:
    """(begin, end) of the seconds without a sample."""
    last = 0.0
    for begin, end, _ in (*strip.spans, (strip.end_s, strip.end_s, 0.0)):
        if begin - last >= _NEXT_S:
            yield last, begin
        last = end


def _legend(chart: StripChart) -> tuple[tuple[str, str], ...]:
    """Explain the strips of each series, and seconds without a sample where there are any."""
    swatches = tuple(
        (f'<g class="strips {colour(hue)} d{hue % 4}"><path d="M2 18V6H22V18z"/></g>', name)
        for hue, name in ((chart.hue(index), name) for index, name in enumerate(chart.series))
        if len(chart.series) > 1
    )
    lost = (('<rect class="lost" x="2" y="8" width="20" height="10"/>', "no sample"),)
    strips = [strip for row in chart.rows for track in row.tracks for strip in track.strips]
    kinds = {event.kind for strip in strips for event in strip.events}
    events = (
        (_event(kind, "2", "20", ""), text) for kind, text in EVENT_WORDS.items() if kind in kinds
    )
    without = any(any(_lost(strip)) for strip in strips)
    return (*swatches, *events, *(lost if without else ()))


# --- changes ------------------------------------------------------------------------------------

# Pixels of a tile's drawing: its rows become narrower where there are many. Squares have a row.
_TILE_HEIGHT, _TILE_ROW = 40.0, 7.0
# Lines that are closer than this would be one area.
_TILE_LINES = 2.5
_SQUARE, _SQUARES_IN_ROW = 11.0, 20


def tile_drawing(tile: Tile) -> str:
    """Draw the changes of a tile as lines and dots, or its cells as squares; empty without any."""
    if tile.changes is not None:
        scale, rows = tile.changes.scale, tile.changes.rows
        step = min(_TILE_ROW, _TILE_HEIGHT / max(1, len(rows)))
        height = step * len(rows)
        zero = at(scale, 1.0)
        drawing = f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="{height:g}"/>'
        for number, row in enumerate(rows):
            if row.ratio is None:
                continue
            style, middle = verdict_class(row.verdict), f"{step * (number + 0.5):.3g}"
            if row.interval and step >= _TILE_LINES:
                low, high = (at(scale, end) for end in row.interval)
                drawing += (
                    f'<line class="{style}" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>'
                )
            drawing += (
                f'<circle class="{style}" cx="{at(scale, row.ratio)}" cy="{middle}" r="2.5"/>'
            )
        return f'<svg class="small" height="{height:g}" aria-hidden="true">{drawing}</svg>'
    squares = []
    for number, severity in enumerate(tile.squares[: 3 * _SQUARES_IN_ROW]):
        x, y = _SQUARE * (number % _SQUARES_IN_ROW), _SQUARE * (number // _SQUARES_IN_ROW)
        style = severity.value if severity else "accepted"
        squares.append(
            f'<rect class="{style}" x="{x + 0.5:g}" y="{y + 0.5:g}" width="8" height="8"/>'
        )
    if not squares:
        return ""
    width = _SQUARE * min(len(squares), _SQUARES_IN_ROW)
    height = _SQUARE * (1 + (len(squares) - 1) // _SQUARES_IN_ROW)
    box = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return f'<svg class="small squares" {box} aria-hidden="true">{"".join(squares)}</svg>'


def _delta(chart: DeltaChart, row: DeltaRow) -> Row:
    scale = chart.scale
    drawing = f'<use href="#{xml_text(chart.id)}-grid-{_bands(chart).index(row.band)}"/>'
    if row.ratio is not None:
        drawing += _whisker(scale, row.interval)
        drawing += verdict_mark(row.verdict, at(scale, row.ratio), "10")
    description = row.text if row.verdict in row.text else f"{row.verdict}: {row.text}"
    track = Track(drawing=drawing, end=row.text, description=description, absent=row.ratio is None)
    return Row(label=row.label, tracks=(track,), group=row.group, style=verdict_style(row.verdict))


def _bands(chart: DeltaChart) -> list[float]:
    """The equivalence margins of the rows, the narrowest first; each is drawn once."""
    return sorted({row.band for row in chart.rows})


def _margin_grids(chart: DeltaChart) -> str:
    zero = at(chart.scale, 1.0)
    line = _line("zero", zero, zero, -_OVER, TRACK_HEIGHT + _OVER)
    drawn = []
    for index, band in enumerate(_bands(chart)):
        low, high = share(chart.scale, 1 - band), share(chart.scale, 1 + band)
        drawn.append(
            f'<g id="{xml_text(chart.id)}-grid-{index}"><rect class="band" x="{percent(low)}"'
            f' y="{-_OVER}" width="{percent(high - low)}" height="{TRACK_HEIGHT + 2 * _OVER}"/>'
            f"{_grid(chart)}{line}</g>"
        )
    return "".join(drawn)


def panel_legend(
    charts: Sequence[DeltaChart | DotPlot | StripChart],
) -> tuple[tuple[str, str], ...]:
    """Explain the marks of panels, each once."""
    marks = dict.fromkeys(chart.mark for chart in charts if isinstance(chart, DotPlot))
    dots = (
        ('<circle class="dot" cx="12" cy="10" r="4.5"/>', "trial"),
        (_line("mid", "12", "12", 2, 18), listed(marks)),
    )
    strips = (item for chart in charts if isinstance(chart, StripChart) for item in _legend(chart))
    return (
        *(dots if marks else ()),
        *_delta_legend([chart for chart in charts if isinstance(chart, DeltaChart)]),
        *dict.fromkeys(strips),
    )


def _delta_legend(charts: Sequence[DeltaChart]) -> tuple[tuple[str, str], ...]:
    """Explain the marks of charts of changes, each once."""
    shown = {row.verdict for chart in charts for row in chart.rows if row.ratio is not None}
    marks = (
        (verdict_mark(verdict, "12", "10"), verdict) for verdict in SYMBOLS if verdict in shown
    )
    line = _line("zero", "12", "12", 0, TRACK_HEIGHT)
    band = f'<rect class="band" x="2" y="2" width="20" height="16"/>{line}'
    margin = ((band, "no change, and the equivalence margin"),)
    return (*marks, *(margin if any(any(_bands(chart)) for chart in charts) else ()))
