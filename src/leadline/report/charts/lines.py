"""Lines over two axes: percentile ladders, distributions, rates over time."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.report.charts.axis import anchor, at, fitting, percent, share
from leadline.report.charts.shapes import colour, escaped, mark, shape, titled
from leadline.report.document import Line, LineChart

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
        (swatch(index), name)
        for index, name in enumerate(chart.series)
        if index in used and (len(chart.series) > 1 or not named)
    )
    return LinePlot(
        drawing=_axes(chart)
        + "".join(_line(chart, line) for line in chart.lines)
        + (_names(chart) if named else ""),
        legend=legend,
        named=named,
        said=f"{chart.title}: {chart.y.title} against {chart.x.title}; "
        + ", ".join(dict.fromkeys(line.label for line in chart.lines)),
    )


def swatch(series: int) -> str:
    """A series' line and mark as the legend shows them, 24 x 20 pixels."""
    style = colour(series)
    line = f'<line class="line {style} d{series % 4}" x1="0" x2="24" y1="10" y2="10"/>'
    return line + mark(shape(series), f"point {style}", "12", "10")


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
    style = colour(line.series)
    points = [(share(chart.x, x), 1 - share(chart.y, y)) for x, y in line.points]
    path = " ".join(f"{1000 * x:.4g},{1000 * y:.4g}" for x, y in points)
    drawn = (
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">'
        f'<polyline class="line {style} d{line.series % 4}" points="{path}">'
        f"{titled(line.label)}</polyline></svg>"
    )
    marked = len(points) <= _MARKED_POINTS
    for index, (x, y) in enumerate(points):
        told = line.texts[index] if index < len(line.texts) else ""
        if marked:
            drawn += mark(shape(line.series), f"point {style}", percent(x), percent(y), told)
        elif told:
            drawn += mark("hit", "hit", percent(x), percent(y), told)
    return drawn


def _names(chart: LineChart) -> str:
    """Names at the lines' ends, moved apart so that none covers another."""
    ends = sorted(
        (1 - share(chart.y, line.points[-1][1]), line.series, line.label)
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
