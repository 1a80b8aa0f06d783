"""SVG drawings of lines over two axes: curves, scatter plots, series over time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.report.document import (
    Band,
    Line,
    LineChart,
    Look,
    Pin,
    Rule,
    Stroke,
)
from leadline.report.render.svg_shapes import (
    anchor,
    at,
    colour,
    fitting,
    mark,
    percent,
    shape,
    share,
    titled,
    xml_text,
)

_PANEL_WIDTH, _PHONE_WIDTH, _PAGE_WIDTH = 180.0, 250.0, 420.0
# Beyond this many points marks would hide their line; a pointer finds them still.
_MARKED_POINTS = 40
_WITH_MARKS = (Stroke.MARKED, Stroke.CURVE)
# A mark's text is 13 pixels high in a plot of about 250.
_NAME_HEIGHT = 0.055
# Labels of upright lines that are nearer than this share of the plot's width overlap.
_NEAR = 0.3
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
    # Of many lines, a reader hears the series.
    few = named or len(chart.lines) <= len(chart.series)
    drawn = [line.label for line in chart.lines] if few else [*chart.series]
    drawn += [rule.label for rule in chart.rules]
    drawn += [pin.text for pin in chart.pins]
    names = ", ".join(dict.fromkeys(filter(None, drawn)))
    return LinePlot(
        drawing=_axes(chart)
        + "".join(_band(chart, band) for band in chart.bands)
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
    found = dict.fromkeys(item for chart in charts for item in line_plot(chart).legend)
    order = {name: number for number, name in enumerate(charts[0].series)}
    return tuple(sorted(found, key=lambda item: order.get(item[1], len(order))))


def _swatch(chart: LineChart, series: int) -> str:
    """A series' line and mark as the legend shows them, 24 x 20 pixels; the lines of a scatter plot
    are points."""
    look = chart.look(series)
    line = f'<line class="{_stroke(look)}" x1="0" x2="24" y1="10" y2="10"/>'
    point = mark(*_mark(look), "12", "10")
    if look.stroke is Stroke.DOTS or (chart.scatter and look.stroke is Stroke.MARKED):
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
    """Draw both axes, each in an element of its own: a page draws equal ones once."""
    parts = ['<g class="axes">']
    narrow = fitting(chart.x, _PANEL_WIDTH if chart.panel else _PHONE_WIDTH)
    wide = fitting(chart.x, _PAGE_WIDTH)
    for x in (at(chart.x, value) for value, _ in chart.x.ticks):
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>')
    for part, text in wide:
        style = "tick" if (part, text) in narrow else "wide"
        parts.append(
            f'<text class="{style}" x="{percent(part)}" y="100%" dy="17"'
            f' text-anchor="{anchor(part)}">{xml_text(text)}</text>'
        )
    parts.append('</g><g class="axes">')
    for value, text in chart.y.ticks:
        y = percent(1 - share(chart.y, value))
        parts.append(
            f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
            f'<text class="tick" x="0" dx="-8" y="{y}" dy=".34em" text-anchor="end">'
            f"{xml_text(text)}</text>"
        )
    parts.append('<line class="base" x1="0" x2="100%" y1="100%" y2="100%"/></g>')
    return "".join(parts)


def _line(chart: LineChart, line: Line) -> str:
    """The line in an own stretched viewport, since a path knows no per cent; marks above it."""
    look = chart.look(line.series)
    points = [(share(chart.x, x), 1 - share(chart.y, y)) for x, y in line.points]
    path = " ".join(f"{round(1000 * x)},{round(1000 * y)}" for x, y in points)
    drawn = (
        ""
        if look.stroke is Stroke.DOTS
        else '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">'
        f'<polyline class="{_stroke(look)}" points="{path}">'
        f"{titled(line.label)}</polyline></svg>"
    )
    marked = look.stroke in (Stroke.DOTS, Stroke.CURVE) or (
        look.stroke is Stroke.MARKED and len(points) <= _MARKED_POINTS
    )
    kind, style = _mark(look)
    marks, hits = "", ""
    for index, (x, y) in enumerate(points):
        text = line.texts[index] if index < len(line.texts) else ""
        if marked and (text or look.stroke is not Stroke.CURVE):
            marks += mark(kind, "", percent(x), percent(y), text)
        elif text:
            hits += mark("hit", "hit", percent(x), percent(y), text)
    return drawn + (f'<g class="{style}">{marks}</g>' if marks else "") + hits


def _band(chart: LineChart, band: Band) -> str:
    """The area in an own stretched viewport, as for a line."""
    upper = [(x, high) for x, _, high in band.points]
    lower = [(x, low) for x, low, _ in reversed(band.points)]
    corners = " ".join(
        f"{round(1000 * share(chart.x, x))},{round(1000 * (1 - share(chart.y, y)))}"
        for x, y in (*upper, *lower)
    )
    return (
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">'
        f'<polygon class="area {colour(band.hue)}" points="{corners}"/></svg>'
    )


def _rule(chart: LineChart, rule: Rule) -> str:
    """Draw a line across the plot with its label at one end."""
    text = xml_text(rule.label)
    if rule.upright:
        x = at(chart.x, rule.value)
        part = share(chart.x, rule.value)
        side, dx = ("end", -4) if part > 0.5 else ("start", 4)
        dy = 11 + 12 * _label_row(chart, rule)
        return (
            f'<line class="rule" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            f'<text class="word" x="{x}" dx="{dx}" y="0" dy="{dy}" text-anchor="{side}">{text}'
            "</text>"
        )
    height = 1 - share(chart.y, rule.value)
    y, dy = percent(height), 12 if height < _NAME_HEIGHT else -5
    return (
        f'<line class="rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="word" x="0" dx="5" y="{y}" dy="{dy}">{text}</text>'
    )


def _label_row(chart: LineChart, rule: Rule) -> int:
    """Return the first row in which the label of an upright line overlaps none of those before."""
    rows: list[tuple[float, int]] = []
    for other in (one for one in chart.rules if one.upright):
        part = share(chart.x, other.value)
        taken = {row for place, row in rows if abs(place - part) < _NEAR}
        rows.append((part, next(row for row in range(len(rows) + 1) if row not in taken)))
        if other is rule:
            break
    return rows[-1][1]


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
