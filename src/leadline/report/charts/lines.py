"""Lines over two axes: percentile ladders, distributions, rates over time, load curves."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.report.charts.axis import anchor, at, fitting, percent, share
from leadline.report.charts.shapes import colour, escaped, mark, shape, titled
from leadline.report.document import Line, LineChart, Look, Pin, Rule, Stroke

_PHONE_WIDTH, _PAGE_WIDTH = 250.0, 420.0
# Beyond this many points marks would hide their line; a pointer finds them still.
_MARKED_POINTS = 40
# A mark's text is 13 pixels high in a plot of about 250.
_NAME_HEIGHT = 0.055
_LONGEST_NAME = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """`drawing` fills an <svg> of any size; texts of the axes lie outside of it, up to 70 pixels
    to the left and 20 below, and where `named` the lines' names 130 pixels to the right."""

    drawing: str
    legend: tuple[tuple[str, str], ...]
    named: bool
    said: str


def line_plot(chart: LineChart) -> LinePlot:
    # Where series share lines by the dozen, only a name at its end tells which is which.
    named = len(chart.lines) > len(chart.series) and len(chart.lines) > 1
    used = {line.series for line in chart.lines}
    legend = tuple(
        (swatch(chart.look(index)), name)
        for index, name in enumerate(chart.series)
        if name and index in used and (len(chart.series) > 1 or not named)
    )
    return LinePlot(
        drawing=_axes(chart)
        + "".join(_rule(chart, rule) for rule in chart.rules)
        + "".join(_line(chart, line) for line in chart.lines)
        + "".join(_pin(chart, pin) for pin in chart.pins)
        + (_names(chart) if named else ""),
        legend=legend,
        named=named,
        said=f"{chart.title}: {chart.y.title} against {chart.x.title}; " + ", ".join(_said(chart)),
    )


def _said(chart: LineChart) -> dict[str, None]:
    """What is drawn, by name, each once."""
    names = [line.label for line in chart.lines]
    names += [rule.label for rule in chart.rules]
    names += [pin.text for pin in chart.pins]
    return dict.fromkeys(name for name in names if name)


def swatch(look: Look) -> str:
    """A series' line and mark as the legend shows them, 24 x 20 pixels."""
    line = f'<line class="{_stroke(look)}" x1="0" x2="24" y1="10" y2="10"/>'
    point = mark(*_mark(look), "12", "10")
    match look.stroke:
        case Stroke.MARKED:
            return line + point
        case Stroke.DOTS:
            return point
        case Stroke.THIN | Stroke.FAINT:
            return line


def _stroke(look: Look) -> str:
    thinner = "" if look.stroke is Stroke.MARKED else f" {look.stroke.value}"
    return f"line {colour(look.hue)} d{look.dash}{thinner}"


def _mark(look: Look) -> tuple[str, str]:
    """Shape and class of a mark."""
    if look.stroke is Stroke.DOTS:
        return "speck", f"speck {colour(look.hue)}"
    return shape(look.hue), f"point {colour(look.hue)}{' hollow' if look.hollow else ''}"


def _axes(chart: LineChart) -> str:
    parts = []
    narrow = fitting(chart.x, _PHONE_WIDTH)
    wide = fitting(chart.x, _PAGE_WIDTH)
    for value, _ in chart.x.ticks:
        x = at(chart.x, value)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>')
    for part, text in wide:
        style = "tick" if (part, text) in narrow else "wide"
        parts.append(
            f'<text class="{style}" x="{percent(part)}" y="100%" dy="17"'
            f' text-anchor="{anchor(part)}">{escaped(text)}</text>'
        )
    for value, text in chart.y.ticks:
        y = percent(1 - share(chart.y, value))
        parts.append(
            f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
            f'<text x="0" dx="-8" y="{y}" dy=".34em" text-anchor="end">{escaped(text)}</text>'
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
    marked = look.stroke in (Stroke.MARKED, Stroke.DOTS) and (
        len(points) <= _MARKED_POINTS or look.stroke is Stroke.DOTS
    )
    for index, (x, y) in enumerate(points):
        told = line.texts[index] if index < len(line.texts) else ""
        if marked:
            drawn += mark(*_mark(look), percent(x), percent(y), told)
        elif told:
            drawn += mark("hit", "hit", percent(x), percent(y), told)
    return drawn


def _rule(chart: LineChart, rule: Rule) -> str:
    """A line across the plot with its word at the end where nothing else is likely to be."""
    text = escaped(rule.label)
    if rule.upright:
        x = at(chart.x, rule.value)
        side, dx = ("end", -4) if share(chart.x, rule.value) > 0.5 else ("start", 4)
        return (
            f'<line class="rule" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
            f'<text class="said" x="{x}" dx="{dx}" y="0" dy="11" text-anchor="{side}">{text}</text>'
        )
    part = 1 - share(chart.y, rule.value)
    y, dy = percent(part), 12 if part < _NAME_HEIGHT else -5
    return (
        f'<line class="rule" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="said" x="0" dx="5" y="{y}" dy="{dy}">{text}</text>'
    )


def _pin(chart: LineChart, pin: Pin) -> str:
    part, height = share(chart.x, pin.x), 1 - share(chart.y, pin.y)
    x, y = percent(part), percent(height)
    side, dx = ("end", -9) if part > 0.5 else ("start", 9)
    dy = 18 if height < 2 * _NAME_HEIGHT else -8
    return (
        f'<use href="#shape-ring" class="ring {colour(pin.hue)}" x="{x}" y="{y}">'
        f"{titled(pin.text)}</use>"
        f'<text class="said" x="{x}" dx="{dx}" y="{y}" dy="{dy}" text-anchor="{side}">'
        f"{escaped(pin.label)}</text>"
    )


def _names(chart: LineChart) -> str:
    """Names at the lines' ends, moved apart so that none covers another."""
    ends = sorted(
        (1 - share(chart.y, line.points[-1][1]), chart.look(line.series).hue, line.label)
        for line in chart.lines
        if line.points
    )
    below = -1.0
    placed = []
    for y, series, label in ends:
        below = max(y, below + _NAME_HEIGHT)
        placed.append((below, series, label))
    # What went over the lower edge goes back up.
    above = 1.0 + _NAME_HEIGHT
    texts = []
    for y, series, label in reversed(placed):
        above = min(y, above - _NAME_HEIGHT)
        shown = label if len(label) <= _LONGEST_NAME else f"{label[: _LONGEST_NAME - 1]}…"
        texts.append(
            f'<text class="end {colour(series)}" x="100%" dx="9" y="{percent(above)}" dy=".34em">'
            f"{escaped(shown)}{titled(label)}</text>"
        )
    return "".join(texts)
