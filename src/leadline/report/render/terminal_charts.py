"""Charts in a terminal: lines on a grid of characters, changes, bars, trees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from leadline.report.document import (
    Bar,
    BarChart,
    DeltaChart,
    DeltaRow,
    Line,
    LineChart,
    Scale,
    Stroke,
    Tree,
)
from leadline.report.render.svg import line_texts, tree_lines
from leadline.report.render.svg_shapes import SYMBOLS, fitting, share
from leadline.report.words import filled, shortened

# No two series share a sign, whatever their colours.
_SIGNS = "●○■□▲△◆◇★☆✚✖"
_COLOURS = (
    *("blue", "magenta", "cyan", "bright_blue", "bright_magenta", "bright_cyan", "white"),
    *("bright_white", "white", "blue"),
)
_PATHS = {Stroke.MARKED: "·", Stroke.THIN: "-", Stroke.FAINT: "."}
_HEIGHT, _WIDEST, _NARROWEST = 14, 90, 24
# Pixels of a character, by which `fitting` measures.
_CHARACTER = 6.3
_Grid = list[list[tuple[str, str]]]


def plot_lines(chart: LineChart, width: int) -> Iterator[Text]:
    """Yield the plot with its axes, then its legend, in lines of at most `width` cells.

    The narrowest plot has 24 columns.
    """
    labels = [(share(chart.y, value), text) for value, text in chart.y.ticks]
    left = max((cell_len(text) for _, text in labels), default=0) + 1
    room = max(_NARROWEST, min(width, _WIDEST) - left - 1)
    grid: _Grid = [[(" ", "")] * room for _ in range(_HEIGHT)]
    _rules(chart, grid)
    # Measured points cover computed lines.
    depths = (Stroke.FAINT, Stroke.THIN, Stroke.DOTS, Stroke.MARKED)
    order = sorted(chart.lines, key=lambda line: depths.index(chart.look(line.series).stroke))
    for line in order:
        _path(chart, line, grid)
    for line in order:
        _marks(chart, line, grid)
    _words(chart, grid)
    ticks_of_rows = {_HEIGHT - 1 - round(part * (_HEIGHT - 1)): text for part, text in labels}
    yield Text(chart.y.title, style="dim")
    for number, row in enumerate(grid):
        drawn = Text(f"{ticks_of_rows.get(number, ''):>{left}}│", style="dim")
        for character, style in row:
            drawn.append(character, style=style)
        yield drawn
    yield Text(f"{' ' * left}└{'─' * room}", style="dim")
    ticks = _ticks(chart.x, room)
    title = chart.x.title
    if cell_len(ticks) + cell_len(title) + 2 <= room:
        yield Text(f"{' ' * left} {ticks.ljust(room - cell_len(title))}{title}", style="dim")
    else:
        yield Text(f"{' ' * left} {ticks}", style="dim")
        yield Text(f"{' ' * left} {title}", style="dim")
    yield from _legend(chart, width)


def _sign(chart: LineChart, series: int) -> str:
    """The sign of a series among those with marks."""
    marked = [
        number for number in range(len(chart.series)) if chart.look(number).stroke is Stroke.MARKED
    ]
    return _SIGNS[marked.index(series) % len(_SIGNS)]


def _style(chart: LineChart, series: int) -> str:
    return _COLOURS[chart.look(series).hue % len(_COLOURS)]


def _place(chart: LineChart, x: float, y: float, grid: _Grid) -> tuple[int, int]:
    column = _column(chart.x, x, len(grid[0]))
    row = len(grid) - 1 - round(share(chart.y, y) * (len(grid) - 1))
    return row, column


def _path(chart: LineChart, line: Line, grid: _Grid) -> None:
    look = chart.look(line.series)
    if look.stroke is Stroke.DOTS:
        return
    sign = _PATHS[look.stroke]
    style = "dim" if look.stroke is not Stroke.MARKED else _style(chart, line.series)
    places = [_place(chart, x, y, grid) for x, y in line.points]
    for (row, column), (to_row, to_column) in itertools.pairwise(places):
        steps = max(abs(to_row - row), abs(to_column - column), 1)
        for step in range(steps + 1):
            at = round(row + (to_row - row) * step / steps)
            along = round(column + (to_column - column) * step / steps)
            grid[at][along] = (sign, style)


def _marks(chart: LineChart, line: Line, grid: _Grid) -> None:
    stroke = chart.look(line.series).stroke
    if stroke not in (Stroke.MARKED, Stroke.DOTS):
        return
    sign = ":" if stroke is Stroke.DOTS else _sign(chart, line.series)
    for x, y in line.points:
        row, column = _place(chart, x, y, grid)
        grid[row][column] = (sign, _style(chart, line.series))


def _rules(chart: LineChart, grid: _Grid) -> None:
    for rule in chart.rules:
        if rule.upright:
            _, column = _place(chart, rule.value, chart.y.low, grid)
            for row in grid:
                row[column] = ("┊", "dim")
        else:
            row_number, _ = _place(chart, chart.x.low, rule.value, grid)
            grid[row_number] = [("┄", "dim")] * len(grid[0])


def _words(chart: LineChart, grid: _Grid) -> None:
    """Write the labels of rules and pins where nothing else is written."""
    room = len(grid[0])
    for rule in chart.rules:
        word = shortened(rule.label, room - 2)
        row, column = _place(chart, rule.value, rule.value, grid)
        if rule.upright:
            _write(grid, 0, [column + 1, column - len(word)], word)
        else:
            _write(grid, row, [1, room - len(word) - 1], word)
    for pin in chart.pins:
        row, column = _place(chart, pin.x, pin.y, grid)
        columns = [column + 2, column - 1 - len(pin.label)]
        for at in (row - 1, row + 1, row):
            if 0 <= at < len(grid) and _write(grid, at, columns, pin.label):
                break


def _write(grid: _Grid, row: int, columns: list[int], text: str) -> bool:
    """Write text at the first of the columns where it covers at most a rule; whether it fits."""
    for column in columns:
        if column < 0 or column + len(text) > len(grid[row]):
            continue
        if all(character in " ┄┊.-" for character, _ in grid[row][column : column + len(text)]):
            for index, character in enumerate(text):
                grid[row][column + index] = (character, "bold")
            return True
    return False


def _ticks(scale: Scale, width: int) -> str:
    line = ""
    for part, text in fitting(scale, width * _CHARACTER):
        start = round(part * (width - 1)) - len(text) // 2
        start = max(min(start, width - len(text)), len(line) + bool(line), 0)
        line = line.ljust(start) + text
    return line.rstrip()


def _legend(chart: LineChart, width: int) -> Iterator[Text]:
    line = Text()
    for series, name in enumerate(chart.series):
        if not name:
            continue
        stroke = chart.look(series).stroke
        sign = {Stroke.DOTS: ":", Stroke.THIN: "---", Stroke.FAINT: "..."}.get(stroke)
        item = Text.assemble(
            (sign or _sign(chart, series), _style(chart, series) if not sign else "dim"),
            f" {shortened(name, max(8, width - 6))}",
        )
        if line and line.cell_len + item.cell_len + 3 > width:
            yield line
            line = Text()
        line = Text.assemble(line, "   " if line else "", item)
    if line:
        yield line


_GAP = "  "
_WIDEST_NAME, _WIDEST_END = 40, 46
_NARROWEST_TRACK, _WIDEST_TRACK = 11, 61
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {"better": "green", "worse": "yellow"}


def delta_lines(chart: DeltaChart, width: int) -> Iterator[Text]:
    """Yield the name of each group and a line for each change: name, interval with its mark, text.

    `░` is the equivalence margin, `│` no change.
    """
    labels = [f"  {row.label}" if row.group else row.label for row in chart.rows]
    names, track, ends = _widths(labels, [row.text for row in chart.rows], width)
    group = ""
    for row, label in zip(chart.rows, labels, strict=True):
        if row.group != group:
            group = row.group
            yield Text(shortened(group, width))
        line = Text(f"{filled(label, names)}{_GAP}")
        line.append_text(_delta(chart.scale, row, track))
        line.append(f"{_GAP}{shortened(row.text, ends)}", style=_STYLES.get(row.verdict, ""))
        yield line
    yield Text(" " * (names + len(_GAP)) + _ticks(chart.scale, track), style="dim")


def _delta(scale: Scale, row: DeltaRow, width: int) -> Text:
    cells = [" "] * width
    for index in _span(scale, 1 - row.band, 1 + row.band, width):
        cells[index] = "░"
    cells[_column(scale, 1.0, width)] = "│"
    if row.ratio is not None and row.interval is not None:
        span = _span(scale, *row.interval, width)
        for index in span:
            cells[index] = "─"
        if len(span) > 1:
            cells[span[0]], cells[span[-1]] = "├", "┤"
    drawn = Text("".join(cells))
    if row.ratio is None:
        return drawn
    at = _column(scale, row.ratio, width)
    symbol = SYMBOLS.get(row.verdict, "○")
    return Text.assemble(drawn[:at], (symbol, _STYLES.get(row.verdict, "")), drawn[at + 1 :])


def bar_lines(chart: BarChart, width: int) -> Iterator[Text]:
    """Yield the name of each group and a bar for each series; `░` where a figure is refused."""
    bars = [bar for group in chart.groups for bar in group.bars]
    names, track, ends = _widths(
        [f"  {_series(chart, bar)}" for bar in bars], [bar.text for bar in bars], width
    )
    for group in chart.groups:
        alone = len(chart.series) < 2 and len(group.bars) == 1
        if not alone:
            yield Text(shortened(group.label, width))
        for bar in group.bars:
            name = group.label if alone else f"  {_series(chart, bar)}"
            drawn = filled(_blocks(chart.scale, bar, track), track)
            end = shortened(bar.text, ends)
            yield Text(f"{filled(name, names)}{_GAP}{drawn}{_GAP}{end}".rstrip())


def _series(chart: BarChart, bar: Bar) -> str:
    return chart.series[bar.series] if bar.series < len(chart.series) else ""


def _blocks(scale: Scale, bar: Bar, width: int) -> str:
    if bar.value is None:
        return ""
    eighths = round(share(scale, bar.value) * width * 8)
    if bar.refused:
        return "░" * round(eighths / 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def chart_lines(chart: LineChart) -> Iterator[Text]:
    """Yield a line for each series with its points in words, where there are few."""
    for label, points in line_texts(chart):
        yield Text(f"{label}: {points or 'too many points to list; a page draws them'}")


def drawn_tree(tree: Tree) -> Iterator[Text]:
    for lead, label, note in tree_lines(tree):
        yield Text.assemble((lead, "dim"), label, (f"  {note}" if note else "", "dim"))


def _widths(names: list[str], ends: list[str], width: int) -> tuple[int, int, int]:
    """Compute the widths of (name, track, end) in terminal cells."""
    most = max(8, (width - _NARROWEST_TRACK - 2 * len(_GAP)) // 2)
    end = min(_WIDEST_END, max(map(cell_len, ends), default=0), most)
    name = min(_WIDEST_NAME, max(map(cell_len, names), default=0), most, max(8, width // 3))
    room = width - name - end - 2 * len(_GAP)
    track = min(max(room, _NARROWEST_TRACK), _WIDEST_TRACK)
    return name, track, end


def _column(scale: Scale, value: float, width: int) -> int:
    return round(share(scale, value) * (width - 1))


def _span(scale: Scale, low: float, high: float, width: int) -> range:
    return range(_column(scale, low, width), _column(scale, high, width) + 1)
