"""SVG drawings of charts: lines over two axes, rows of dots, bars and changes, heat maps."""

from __future__ import annotations

import itertools
import math
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
    HeatCell,
    HeatMap,
    Line,
    LineChart,
    Look,
    Mark,
    Pin,
    Rule,
    Scale,
    Strip,
    StripChart,
    StripRow,
    StripTrack,
    Stroke,
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
    verdict_mark,
    verdict_style,
    within,
    xml_text,
)
from leadline.report.words import listed

_PHONE_WIDTH, _PAGE_WIDTH = 250.0, 420.0
# Beyond this many points marks would hide their line; a pointer finds them still.
_MARKED_POINTS = 40
_WITH_MARKS = (Stroke.MARKED, Stroke.CURVE)
# A mark's text is 13 pixels high in a plot of about 250.
_NAME_HEIGHT = 0.055
_LONGEST_NAME = 16
# The share of a plot's width that a name next to a point takes.
_NAME_WIDTH = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """`drawing` fills an <svg> of any size; texts of the axes lie outside of it, up to 70 pixels
    to the left and 20 below, and where `named` the lines' names 130 pixels to the right."""

    drawing: str
    legend: tuple[tuple[str, str], ...]
    named: bool
    description: str


def line_plot(chart: LineChart) -> LinePlot:
    # Lines of one series are distinguished by the name at their end.
    named = len(chart.lines) > len(chart.series) and len(chart.lines) > 1 and not chart.scatter
    used = {line.series for line in chart.lines}
    legend = tuple(
        (_swatch(chart, index), name)
        for index, name in enumerate(chart.series)
        if name and index in used and (len(chart.series) > 1 or not named)
    )
    drawn = [line.label for line in chart.lines]
    drawn += [rule.label for rule in chart.rules]
    drawn += [pin.text for pin in chart.pins]
    names = ", ".join(dict.fromkeys(filter(None, drawn)))
    return LinePlot(
        drawing=_axes(chart)
        + "".join(_rule(chart, rule) for rule in chart.rules)
        + "".join(_line(chart, line) for line in chart.lines)
        + "".join(_pin(chart, pin) for pin in chart.pins)
        + (_names(chart) if named else "")
        + (_point_names(chart) if chart.scatter else ""),
        legend=legend,
        named=named,
        description=f"{chart.title}: {chart.y.title} against {chart.x.title}; {names}",
    )


def lines_legend(charts: Sequence[LineChart]) -> tuple[tuple[str, str], ...]:
    """Explain the lines of charts next to each other, each once, in the order of the series."""
    found = {item for chart in charts for item in line_plot(chart).legend}
    order = {name: number for number, name in enumerate(charts[0].series)}
    return tuple(sorted(found, key=lambda item: order.get(item[1], len(order))))


def _swatch(chart: LineChart, series: int) -> str:
    """A series as the legend shows it; the lines of a scatter plot are points."""
    look = chart.look(series)
    if chart.scatter and look.stroke is Stroke.MARKED:
        return mark(*_mark(look), "12", "10")
    return swatch(look)


def swatch(look: Look) -> str:
    """A series' line and mark as the legend shows them, 24 x 20 pixels."""
    line = f'<line class="{_stroke(look)}" x1="0" x2="24" y1="10" y2="10"/>'
    point = mark(*_mark(look), "12", "10")
    if look.stroke is Stroke.DOTS:
        return point
    return line + point if look.stroke in _WITH_MARKS else line


def _stroke(look: Look) -> str:
    thinner = "" if look.stroke in _WITH_MARKS else f" {look.stroke.value}"
    return f"line {colour(look.hue)} d{look.dash}{thinner}"


def _mark(look: Look) -> tuple[str, str]:
    if look.stroke is Stroke.DOTS:
        return "speck", f"speck {colour(look.hue)}"
    return shape(look.hue), f"point {colour(look.hue)}{' hollow' if look.hollow else ''}"


def _axes(chart: LineChart) -> str:
    parts = []
    narrow = fitting(chart.x, _PHONE_WIDTH)
    wide = fitting(chart.x, _PAGE_WIDTH)
    for x in (at(chart.x, value) for value, _ in chart.x.ticks):
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>')
    for part, text in wide:
        style = "tick" if (part, text) in narrow else "wide"
        parts.append(
            f'<text class="{style}" x="{percent(part)}" y="100%" dy="17"'
            f' text-anchor="{anchor(part)}">{xml_text(text)}</text>'
        )
    for value, text in chart.y.ticks:
        y = percent(1 - share(chart.y, value))
        parts.append(
            f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
            f'<text x="0" dx="-8" y="{y}" dy=".34em" text-anchor="end">{xml_text(text)}</text>'
        )
    parts.append('<line class="base" x1="0" x2="100%" y1="100%" y2="100%"/>')
    return "".join(parts)


def _line(chart: LineChart, line: Line) -> str:
    """The line in an own stretched viewport, since a path knows no per cent; marks above it."""
    look = chart.look(line.series)
    points = [(share(chart.x, x), 1 - share(chart.y, y)) for x, y in line.points]
    path = " ".join(f"{1000 * x:.4g},{1000 * y:.4g}" for x, y in points)
    drawn = (
        ""
        if look.stroke is Stroke.DOTS
        else '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">'
        f'<polyline class="{_stroke(look)}" points="{path}">'
        f"{titled(line.label)}</polyline></svg>"
    )
    marked = look.stroke in (Stroke.DOTS, Stroke.CURVE) or (
        look.stroke is Stroke.MARKED and len(points) <= _MARKED_POINTS
    )
    for index, (x, y) in enumerate(points):
        text = line.texts[index] if index < len(line.texts) else ""
        if marked and (text or look.stroke is not Stroke.CURVE):
            drawn += mark(*_mark(look), percent(x), percent(y), text)
        elif text:
            drawn += mark("hit", "hit", percent(x), percent(y), text)
    return drawn


def _rule(chart: LineChart, rule: Rule) -> str:
    """Draw a line across the plot with its label at one end."""
    text = xml_text(rule.label)
    if rule.upright:
        x = at(chart.x, rule.value)
        side, dx = ("end", -4) if share(chart.x, rule.value) > 0.5 else ("start", 4)
        return (
            f'<line class="rule" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            f'<text class="word" x="{x}" dx="{dx}" y="0" dy="11" text-anchor="{side}">{text}</text>'
        )
    part = 1 - share(chart.y, rule.value)
    y, dy = percent(part), 12 if part < _NAME_HEIGHT else -5
    return (
        f'<line class="rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="word" x="0" dx="5" y="{y}" dy="{dy}">{text}</text>'
    )


def _pin(chart: LineChart, pin: Pin) -> str:
    part, height = share(chart.x, pin.x), 1 - share(chart.y, pin.y)
    x, y = percent(part), percent(height)
    side, dx = ("end", -9) if part > 0.5 else ("start", 9)
    dy = 18 if height < 2 * _NAME_HEIGHT else -8
    return (
        f'<use href="#shape-ring" class="ring {colour(pin.hue)}" x="{x}" y="{y}">'
        f"{titled(pin.text)}</use>"
        f'<text class="word" x="{x}" dx="{dx}" y="{y}" dy="{dy}" text-anchor="{side}">'
        f"{xml_text(pin.label)}</text>"
    )


def _names(chart: LineChart) -> str:
    """Names at the lines' ends, moved apart so that none covers another."""
    ends = sorted(
        (1 - share(chart.y, line.points[-1][1]), chart.look(line.series).hue, line.label)
        for line in chart.lines
        if line.points
    )
    lowest = itertools.accumulate(
        (y for y, _, _ in ends), lambda above, y: max(y, above + _NAME_HEIGHT)
    )
    texts = []
    # What went over the lower edge goes back up.
    above = 1.0 + _NAME_HEIGHT
    for y, (_, hue, label) in reversed(list(zip(lowest, ends, strict=True))):
        above = min(y, above - _NAME_HEIGHT)
        shown = label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"
        texts.append(
            f'<text class="end {colour(hue)}" x="100%" dx="9" y="{percent(above)}" dy=".34em">'
            f"{xml_text(shown)}{titled(label)}</text>"
        )
    return "".join(texts)


def _point_names(chart: LineChart) -> str:
    """Names next to the last points of the lines, moved apart where points have one place."""
    ends = sorted(
        (1 - share(chart.y, line.points[-1][1]), share(chart.x, line.points[-1][0]), line.label)
        for line in chart.lines
        if line.points and line.label
    )
    texts = []
    taken: list[tuple[float, float]] = []
    for y, x, label in ends:
        place = y
        for other_x, other_y in taken:
            if abs(other_x - x) < _NAME_WIDTH and place - other_y < _NAME_HEIGHT:
                place = other_y + _NAME_HEIGHT
        taken.append((x, place))
        side, dx = ("end", -8) if x > 0.6 else ("start", 8)
        shown = label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"
        texts.append(
            f'<text class="word" x="{percent(x)}" dx="{dx}" y="{percent(place)}" dy=".34em"'
            f' text-anchor="{side}">{xml_text(shown)}{titled(label)}</text>'
        )
    return "".join(texts)


# Charts of rows: trials as dots, bars from zero, changes around the line of no change. A row has
# tracks, drawings 20 pixels high, with its label and its figures as text.

TRACK_HEIGHT = 20
# Lines through all rows extend over the edges of a row, so that they have no gaps.
_OVER = 4
# Two plots of dots fit next to each other; other charts are as wide as the page or a phone.
_HALF_WIDTH, _ROWS_PHONE_WIDTH, _ROWS_PAGE_WIDTH = 190.0, 320.0, 600.0
# The figures of bars are next to them on a phone.
_PHONE_WIDTH_OF_BARS = 210.0


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
                (rows_swatch(chart.hue(index)), name)
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
            legend = () if chart.panel else delta_legend((chart,))
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
    phone = _PHONE_WIDTH_OF_BARS if isinstance(chart, BarChart) else _ROWS_PHONE_WIDTH
    panel = isinstance(chart, DeltaChart | DotPlot | StripChart) and chart.panel
    narrow = fitting(axis, _HALF_WIDTH if half or panel else phone)
    wide = narrow if half or panel else fitting(axis, _ROWS_PAGE_WIDTH)
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


def _rows_line(style: str, x1: str, x2: str, y1: int = 10, y2: int = 10, title: str = "") -> str:
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
    return _rows_line(f"whisker{below}{above}", at(axis, low), at(axis, high))


# --- every trial as a dot -----------------------------------------------------------------------


def _trial(dot: Dot) -> str:
    return f"trial {dot.trial}: {dot.text}{', outlier' if dot.outlier else ''}"


def _dots(plot: DotPlot, row: DotRow) -> Row:
    drawing = _grid(plot) + _rows_line("base", "0", "100%")
    if row.value is not None:
        x = at(plot, row.value)
        drawing += _rows_line("mid", x, x, 2, 18, f"{plot.mark} {row.text}")
    for dot in row.dots:
        style = "odd" if dot.outlier else "dot"
        x = at(plot, dot.value)
        drawing += (
            f'<circle class="{style}" cx="{x}" cy="10" r="4.5">{titled(_trial(dot))}</circle>'
        )
    track = Track(
        drawing=drawing,
        end=row.text,
        description="; ".join([row.text, *(f"{dot.trial} {dot.text}" for dot in row.dots)]),
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
    drawing += _rows_line("base", "0", "0", 1, 19)
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


def rows_swatch(hue: int) -> str:
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
    lost, areas = "", ""
    for index, strip in enumerate(track.strips):
        left, wide = index * slot, slot - _STRIPS_GAP
        areas += _strip_area(strip, left, wide, highest)
        for begin, end in _lost(strip):
            x = (left + wide * begin / strip.end_s) / _STRIPS_WIDTH
            width = percent(wide * (end - begin) / strip.end_s / _STRIPS_WIDTH)
            lost += f'<rect class="lost" x="{percent(x)}" y="12" width="{width}" height="8"/>'
    name = chart.series[track.series] if track.series < len(chart.series) else ""
    hue = chart.hue(track.series)
    described = f"{len(track.strips):,} trials"
    return Track(
        drawing=f'<svg class="strips {colour(hue)} d{hue % 4}" '
        'viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="20">'
        f"{areas}</svg>{lost}{_rows_line('base', '0', '100%', 20, 20)}",
        end=track.text,
        description=f"{name}: {described}; {track.text}".removeprefix(": "),
        absent=not track.strips,
        marks=track.marks,
    )


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
    strips = (strip for row in chart.rows for track in row.tracks for strip in track.strips)
    return (*swatches, *(lost if any(any(_lost(strip)) for strip in strips) else ()))


# --- changes ------------------------------------------------------------------------------------


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
    line = _rows_line("zero", zero, zero, -_OVER, TRACK_HEIGHT + _OVER)
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
        (_rows_line("mid", "12", "12", 2, 18), listed(marks)),
    )
    strips = (item for chart in charts if isinstance(chart, StripChart) for item in _legend(chart))
    return (
        *(dots if marks else ()),
        *delta_legend([chart for chart in charts if isinstance(chart, DeltaChart)]),
        *dict.fromkeys(strips),
    )


def delta_legend(charts: Sequence[DeltaChart]) -> tuple[tuple[str, str], ...]:
    """Explain the marks of charts of changes, each once."""
    shown = {row.verdict for chart in charts for row in chart.rows if row.ratio is not None}
    marks = (
        (verdict_mark(verdict, "12", "10"), verdict) for verdict in SYMBOLS if verdict in shown
    )
    line = _rows_line("zero", "12", "12", 0, TRACK_HEIGHT)
    band = f'<rect class="band" x="2" y="2" width="20" height="16"/>{line}'
    margin = ((band, "no change, and the equivalence margin"),)
    return (*marks, *(margin if any(any(_bands(chart)) for chart in charts) else ()))


# Heat maps: how far each figure lies from the baseline's, as a shade and as a text.

# Shades in each direction, and the ratio at which the last one is reached.
LEVELS = 6
FULL_RATIO = 4.0


def shade(ratio: float, higher_is_better: bool) -> float:
    """-1 (worst) to 1 (best) of a figure that is `ratio` times the baseline's: its logarithm,
    with the ends at a fourth and at four times. The page's script computes the same."""
    if ratio <= 0:
        return -1.0 if higher_is_better else 1.0
    part = math.log(ratio) / math.log(FULL_RATIO)
    return min(max(part if higher_is_better else -part, -1.0), 1.0)


def level(value: float | None, *, tested: bool = False) -> str:
    """The class of a shade: `b6` best, `b0` as the baseline, `w6` worst; empty without one. Where
    changes were `tested`, a better or worse cell always has a shade."""
    if value is None:
        return ""
    step = round(abs(value) * LEVELS)
    if tested and value:
        step = max(step, 1)
    return f"w{step}" if value < 0 and step else f"b{step}"


def ratio_text(ratio: float) -> str:
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"×{ratio:,.{digits}f}"


def ratio(chart: HeatMap, column: int, cell: HeatCell) -> float | None:
    """Divide a figure by the baseline's; None where one of them is missing or refused."""
    if not 0 <= chart.baseline < len(chart.cells):
        return None
    base = chart.cells[chart.baseline][column]
    if cell.value is None or cell.refused or not base.value or base.refused:
        return None
    return cell.value / base.value


def heat_ratio(chart: HeatMap, column: int, cell: HeatCell) -> str:
    """Format how many times the baseline's figure a figure is.

    Empty in the baseline's own row, and where the figures are changes already.
    """
    if chart.relative or cell is chart.cells[chart.baseline][column]:
        return ""
    found = ratio(chart, column, cell)
    return "" if found is None else ratio_text(found)
