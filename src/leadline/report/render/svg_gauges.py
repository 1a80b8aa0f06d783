"""SVG drawings in the cells of a table: points and bars with intervals, squares."""

from __future__ import annotations

from leadline.report.document import Cell, Column, Gauge, Scale
from leadline.report.render.svg_shapes import at, mark, percent, share, within, xml_text

_BOX, _STEP = 10, 13
# More squares are a number, which the text has.
_MOST_BOXES = 12
# The width of a drawing, by which texts of the axis are left out.
_AXIS_CHARACTERS = 15


def gauge_axis(column: Column) -> str:
    """Draw the ticks of a column of gauges; empty without a scale."""
    scale = column.scale
    if scale is None or not scale.ticks:
        return ""
    every = 1
    while sum(len(text) + 1 for _, text in scale.ticks[::every]) > _AXIS_CHARACTERS:
        every += 1
    texts = "".join(
        f'<text x="{at(scale, value)}" y="11" text-anchor="middle">{xml_text(text)}</text>'
        for value, text in scale.ticks[::every]
    )
    return f'<svg class="gauge ticks" aria-hidden="true">{texts}</svg>'


def gauge(cell: Cell, column: Column) -> str:
    """Draw the gauge of a cell, hatched where its number is missing; empty without one."""
    if cell.gauge is None:
        # A word takes the place of the drawing.
        missing = cell.missing and column.scale is not None and len(cell.text) == 1
        return '<svg class="gauge none" aria-hidden="true"></svg>' if missing else ""
    if sum(cell.gauge.boxes):
        return _boxes(cell.gauge)
    if column.scale is None:
        return ""
    # The end of a bar is read from its text.
    grid = "" if cell.gauge.bar else _grid(column.scale)
    drawn = grid + _drawn(cell.gauge, column.scale, cell.text)
    return f'<svg class="gauge" aria-hidden="true">{drawn}</svg>'


def _grid(scale: Scale) -> str:
    return "".join(
        f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>'
        for x in (at(scale, value) for value, _ in scale.ticks)
    )


def _drawn(given: Gauge, scale: Scale, text: str) -> str:
    parts = []
    if given.bar and given.value is not None:
        parts.append(
            f'<rect class="fill s0" x="0" y="5" width="{at(scale, given.value)}" height="10"/>'
        )
    if given.interval is not None:
        low, high = given.interval
        ends = f'x1="{at(scale, low)}" x2="{at(scale, high)}" y1="10" y2="10"'
        if given.bar:
            cut = f"{'' if within(scale, low) else ' from-below'}"
            cut += f"{'' if within(scale, high) else ' to-above'}"
            parts.append(f'<line class="whisker{cut}" {ends}/>')
        else:
            parts.append(f'<line class="span s0" {ends}/>')
            parts += [
                mark("circle", "point s0 hollow", percent(share(scale, end)), "10")
                for end in dict.fromkeys((low, high))
                if end != given.value
            ]
    if not given.bar and given.value is not None:
        parts.append(mark("diamond", "point s0", at(scale, given.value), "10", text))
    return "".join(parts)


def _boxes(given: Gauge) -> str:
    filled, hollow = given.boxes
    count = min(filled + hollow, _MOST_BOXES)
    squares = "".join(
        f'<rect class="box{"" if number < filled else " hollow"}" x="{1 + _STEP * number}" y="5"'
        f' width="{_BOX}" height="{_BOX}"/>'
        for number in range(count)
    )
    width = _STEP * count + 2
    return f'<svg class="boxed" width="{width}" height="20" aria-hidden="true">{squares}</svg>'
