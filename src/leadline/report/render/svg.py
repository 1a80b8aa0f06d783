"""Draw a chart as an SVG file, light or dark as the reader's system; charts as tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources

from leadline.report.cells import number_column, table
from leadline.report.document import (
    BarChart,
    Branch,
    Chart,
    DeltaChart,
    DotPlot,
    HeatCell,
    HeatMap,
    LineChart,
    StripChart,
    Table,
    Tree,
    printable,
)
from leadline.report.render.svg_lines import line_plot
from leadline.report.render.svg_rows import TRACK_HEIGHT, Row, row_chart
from leadline.report.render.svg_shapes import DEFINITIONS, SYMBOLS, heat_ratio, level, xml_text

_WIDTH = 760
_EDGE = 16
_TOP = 52
_PLOT_HEIGHT = 260
_NAMES, _ENDS = 170, 180
# Pixels that a character of 12 px takes on average; East Asian ones take nearly two.
_CHARACTER = 6.7


def draw(chart: Chart | DotPlot | Tree) -> str:
    """Draw a chart, or a tree as boxes in boxes, as a complete SVG document, 760 pixels wide."""
    chart = printable(chart)
    title = chart.caption if isinstance(chart, Tree) else chart.title
    match chart:
        case Tree():
            height, drawing, description = _boxes(chart)
        case LineChart():
            height, drawing, description = _lines(chart)
        case HeatMap():
            height, drawing, description = _heat(chart)
        case _:
            height, drawing, description = _rows(chart)
    style = (resources.files("leadline.report") / "templates" / "chart.css").read_text("utf-8")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' width="{_WIDTH}" height="{height}" role="img" class="picture">'
        f"<title>{xml_text(title)}</title><desc>{xml_text(description)}</desc>"
        f"<style>{style}</style>{DEFINITIONS}"
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>{drawing}</svg>\n'
    )


def clipped(text: str, width: float) -> str:
    """`text` cut in its middle to fit into so many pixels, roughly: names differ at either end."""
    if _long(text) <= width:
        return text
    kept = max(2, int(len(text) * width / _long(text)) - 1)
    return f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"


def _long(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return _CHARACTER * (len(text) + 0.8 * wide)


def _text(x: float, y: float, text: str, width: float, style: str = "", end: str = "start") -> str:
    shown = clipped(text, width)
    full = f"<title>{xml_text(text)}</title>" if shown != text else ""
    return (
        f'<text class="{style or "name"}" x="{x:g}" y="{y:g}" text-anchor="{end}">'
        f"{xml_text(shown)}{full}</text>"
    )


def _head(title: str, scale: str) -> str:
    room = _WIDTH - 2 * _EDGE
    return _text(_EDGE, 24, title, room / 1.15, "title") + _text(_EDGE, 41, scale, room, "soft")


def _legend(items: Sequence[tuple[str, str]], y: float) -> tuple[float, str]:
    """(height, drawing) of a legend that breaks into lines."""
    if not items:
        return 0, ""
    x, top, parts = float(_EDGE), y, []
    for swatch, text in items:
        shown = clipped(text, _WIDTH / 2)
        width = 30 + _long(shown) + 18
        if x > _EDGE and x + width > _WIDTH - _EDGE:
            x, top = float(_EDGE), top + 20
        parts.append(f'<svg x="{x:g}" y="{top:g}" width="24" height="20">{swatch}</svg>')
        parts.append(_text(x + 30, top + 14, shown, _WIDTH))
        x += width
    return top - y + 28, "".join(parts)


# --- rows ---------------------------------------------------------------------------------------


def _rows(chart: Chart | DotPlot | Tree) -> tuple[int, str, str]:
    assert not isinstance(chart, LineChart | HeatMap | Tree)
    rows = row_chart(chart)
    used, legend = _legend(rows.legend, _TOP)
    parts = [f"<defs>{rows.grid}</defs>", _head(chart.title, rows.scale), legend]
    left, width = _EDGE + _NAMES, _WIDTH - 2 * _EDGE - _NAMES - _ENDS
    y = _TOP + used
    for row in rows.rows:
        parts.extend(_row(row, y, left, width))
        y += TRACK_HEIGHT * len(row.tracks) + (6 if len(row.tracks) > 1 else 0)
    parts.append(
        f'<svg x="{left}" y="{y:g}" width="{width}" height="18"'
        f' overflow="visible">{rows.axis}</svg>'
    )
    description = "; ".join(
        f"{row.label}: {track.description}" for row in rows.rows for track in row.tracks
    )
    return int(y + 18 + _EDGE), "".join(parts), description


def _row(row: Row, y: float, left: float, width: float) -> Iterator[str]:
    yield _text(_EDGE, y + 14, row.label, _NAMES - 12)
    for index, track in enumerate(row.tracks):
        top = y + index * TRACK_HEIGHT
        yield (
            f'<svg class="track" x="{left:g}" y="{top:g}" width="{width:g}"'
            f' height="{TRACK_HEIGHT}" overflow="visible">{track.drawing}</svg>'
        )
        marks = "".join(f" {mark.label}" for mark in track.marks)
        style = "absent" if track.absent else "name"
        yield _text(left + width + 12, top + 14, track.end + marks, _ENDS - 12, style)


# --- lines --------------------------------------------------------------------------------------


def _lines(chart: LineChart) -> tuple[int, str, str]:
    plot = line_plot(chart)
    used, legend = _legend(plot.legend, _TOP)
    top = _TOP + used + 8
    left = _EDGE + 66
    width = _WIDTH - left - _EDGE - (126 if plot.named else 0)
    scales = f"{chart.y.title} against {chart.x.title}"
    drawing = (
        f"{_head(chart.title, scales)}{legend}"
        f'<svg x="{left}" y="{top:g}" width="{width}" height="{_PLOT_HEIGHT}" overflow="visible">'
        f"{plot.drawing}</svg>"
    )
    return int(top + _PLOT_HEIGHT + 24 + _EDGE), drawing, plot.description


# --- heat maps ----------------------------------------------------------------------------------


def _heat(chart: HeatMap) -> tuple[int, str, str]:
    base = "" if chart.relative or not chart.rows else chart.rows[chart.baseline]
    width = (_WIDTH - 2 * _EDGE - _NAMES) / max(1, len(chart.columns))
    parts = [_head(chart.title, f"shades and × against {base}" if base else "")]
    y = float(_TOP + 24)
    for index, title in enumerate(chart.columns):
        x = _EDGE + _NAMES + index * width + width / 2
        parts.append(_text(x, y - 8, title, width - 8, "soft", "middle"))
    for label, cells in zip(chart.rows, chart.cells, strict=True):
        parts.append(_text(_EDGE, y + 18, label, _NAMES - 12))
        for index, cell in enumerate(cells):
            shade = level(None if cell.refused else cell.shade, tested=chart.relative)
            x = _EDGE + _NAMES + index * width
            parts.append(
                f'<rect class="heat {shade}" x="{x:g}" y="{y:g}"'
                f' width="{width - 2:g}" height="26"/>'
            )
            text = " ".join(part for part in (cell.text, heat_ratio(chart, index, cell)) if part)
            style = "refused-text" if cell.refused else "" if cell.value else "absent"
            parts.append(_text(x + width / 2, y + 18, text, width - 8, style, "middle"))
        y += 28
    description = "; ".join(
        f"{label}: {', '.join(cell.text for cell in cells)}"
        for label, cells in zip(chart.rows, chart.cells, strict=True)
    )
    drawing = "".join(parts)
    # Shares are not better or worse than a baseline.
    drawing = f'<g class="shares">{drawing}</g>' if chart.key else drawing
    return int(y + _EDGE), drawing, description


# --- trees as boxes in boxes ----------------------------------------------------------------------

# A box is as wide as its neighbours; its label and its value are lines of text.
_NARROWEST_BOX, _WIDEST_BOX, _LINE, _PAD, _GAP = 58, 140, 15, 4, 3


def _boxes(tree: Tree) -> tuple[int, str, str]:
    height, drawing = _row_of_boxes(tree.roots, _EDGE, _TOP - 16, _WIDTH - 2 * _EDGE)
    description = "; ".join(
        " ".join(filter(None, (label, note))) for _, label, note in tree_lines(tree)
    )
    return int(_TOP - 16 + height + _EDGE), _head(tree.caption, "") + drawing, description


def _row_of_boxes(
    branches: Sequence[Branch], x: float, y: float, width: float
) -> tuple[float, str]:
    """(height, drawing) of boxes next to each other, in as many rows as they need."""
    leaves = [branch for branch in branches if not branch.below]
    longest = max((_long(text) for one in leaves for text in (one.label, one.value)), default=0.0)
    room = min(max(_NARROWEST_BOX, longest + 3 * _PAD), _WIDEST_BOX)
    columns = max(1, min(len(branches), int((width + _GAP) / (room + _GAP))))
    each = (width - _GAP * (columns - 1)) / columns
    top, parts = y, []
    for start in range(0, len(branches), columns):
        row = branches[start : start + columns]
        tallest = max(_box(branch, 0, 0, each, None)[0] for branch in row)
        for number, branch in enumerate(row):
            parts.append(_box(branch, x + number * (each + _GAP), top, each, tallest)[1])
        top += tallest + _GAP
    return max(0.0, top - y - _GAP), "".join(parts)


def _box(
    branch: Branch, x: float, y: float, width: float, height: float | None
) -> tuple[float, str]:
    """(height, drawing) of a box with those in it; its own height where none is given."""
    room = width - 2 * _PAD
    lines = [branch.label, branch.value]
    if branch.value and _long(f"{branch.label} {branch.value}") <= room:
        lines = [f"{branch.label} {branch.value}"]
    texts = "".join(
        _text(x + _PAD, y + _LINE * (number + 1) - 3, line, room)
        for number, line in enumerate(filter(None, lines))
    )
    head = _LINE * len([line for line in lines if line]) + _GAP
    inner, drawing = _row_of_boxes(branch.below, x + _PAD, y + head, room)
    own = head + (inner + _PAD if branch.below else 0)
    shade = level(branch.shade) if not branch.below else ""
    style = " ".join(filter(None, ("bucket", "strong" if branch.strong else "", shade)))
    box = (
        f'<rect class="{style}" x="{x:.4g}" y="{y:.4g}" width="{width:.4g}"'
        f' height="{own if height is None else height:.4g}" rx="3"/>'
    )
    return own, box + texts + drawing


# A percentile ladder has so few points; a distribution has too many to list.
_MOST_POINTS = 12


def symbol(verdict: str) -> str:
    """`▲ better`: a verdict's symbol and its word; other texts as they are."""
    return f"{SYMBOLS[verdict]} {verdict}" if verdict in SYMBOLS else verdict


def with_symbols(table: Table) -> Table:
    """The table with symbols before the words of a column of verdicts."""
    titles = [column.title for column in table.columns]
    if "verdict" not in titles:
        return table
    rows = tuple(
        tuple(
            replace(cell, text=symbol(cell.text)) if title == "verdict" else cell
            for title, cell in zip(titles, row, strict=True)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def bar_table(chart: BarChart) -> Table:
    """Convert bars into a row for each group and a column for each series."""
    rows = (
        (
            group.label,
            *(
                "; ".join(bar.text for bar in group.bars if bar.series == index)
                for index in range(len(chart.series))
            ),
        )
        for group in chart.groups
    )
    return table(f"{chart.id}-table", ("", *chart.series), rows, caption=chart.title)


def strip_table(chart: StripChart) -> Table:
    """Convert strips into a row for each cell and a column for each series."""
    rows = (
        (
            " · ".join(filter(None, (row.group, row.label))),
            *(
                "; ".join(track.text for track in row.tracks if track.series == index)
                for index in range(len(chart.series))
            ),
        )
        for row in chart.rows
    )
    return table(f"{chart.id}-table", ("", *chart.series), rows, caption=chart.title)


def delta_table(chart: DeltaChart) -> Table:
    """Convert changes into rows of label, verdict and text."""
    rows = ((row.label, row.verdict, row.text) for row in chart.rows)
    columns = ("", "verdict", chart.scale.title)
    return table(f"{chart.id}-table", columns, rows, caption=chart.title)


def heat_table(chart: HeatMap) -> Table:
    """Convert a heat map into figures with their ratios to the baseline."""
    plain = chart.relative or not chart.rows

    def figure(column: int, cell: HeatCell) -> str:
        text = f"{cell.text} (refused)" if cell.refused else cell.text
        return f"{text} {heat_ratio(chart, column, cell)}".strip()

    return table(
        f"{chart.id}-table",
        ("", *map(number_column, chart.columns)),
        (
            (label, *(figure(column, cell) for column, cell in enumerate(cells)))
            for label, cells in zip(chart.rows, chart.cells, strict=True)
        ),
        caption=chart.title if plain else f"{chart.title}; × against {chart.rows[chart.baseline]}",
    )


def line_texts(chart: LineChart) -> list[tuple[str, str]]:
    """List (line, its points in words); no points where there are too many."""
    return [
        (line.label, ", ".join(line.texts) if len(line.texts) <= _MOST_POINTS else "")
        for line in chart.lines
    ]


def tree_lines(tree: Tree) -> list[tuple[str, str, str]]:
    """(branches drawn, label, note) of each place, from the roots down."""
    return [line for root in tree.roots for line in _branch(root, "", "")]


def _branch(branch: Branch, lead: str, below: str) -> Iterator[tuple[str, str, str]]:
    yield lead, branch.label, ", ".join(filter(None, (branch.note, branch.value)))
    for index, inner in enumerate(branch.below):
        last = index == len(branch.below) - 1
        yield from _branch(
            inner, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        )
