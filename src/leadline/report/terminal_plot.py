"""Lines over two axes in a terminal: a grid of characters, a sign for each series."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from leadline.report.charts.axis import fitting, share
from leadline.report.document import Line, LineChart, Scale, Stroke
from leadline.report.fitting import shortened

# No two series share a sign, whatever their colours.
_SIGNS = "●○■□▲△◆◇★☆✚✖"
_COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red", "white", "bright_blue")
_PATHS = {Stroke.MARKED: "·", Stroke.THIN: "-", Stroke.FAINT: "."}
_HEIGHT, _WIDEST, _NARROWEST = 14, 90, 24
# Pixels of a character, by which `fitting` measures.
_CHARACTER = 6.3
_Grid = list[list[tuple[str, str]]]


def plot_lines(chart: LineChart, width: int) -> Iterator[Text]:
    """The plot with its axes, then what its signs mean. No line is wider than `width`, unless that
    is less than a plot needs."""
    labels = [(share(chart.y, value), text) for value, text in chart.y.ticks]
    left = max((cell_len(text) for _, text in labels), default=0) + 1
    room = max(_NARROWEST, min(width, _WIDEST) - left - 1)
    grid: _Grid = [[(" ", "")] * room for _ in range(_HEIGHT)]
    _rules(chart, grid)
    # What was measured lies above what was computed.
    order = sorted(chart.lines, key=lambda line: _depth(chart, line))
    for line in order:
        _path(chart, line, grid)
    for line in order:
        _marks(chart, line, grid)
    _words(chart, grid)
    beside = {_HEIGHT - 1 - round(part * (_HEIGHT - 1)): text for part, text in labels}
    yield Text(chart.y.title, style="dim")
    for number, row in enumerate(grid):
        drawn = Text(f"{beside.get(number, ''):>{left}}│", style="dim")
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


def _depth(chart: LineChart, line: Line) -> int:
    return (Stroke.FAINT, Stroke.THIN, Stroke.DOTS, Stroke.MARKED).index(
        chart.look(line.series).stroke
    )


def _sign(chart: LineChart, series: int) -> str:
    """Only series with marks take a sign."""
    marked = [
        number for number in range(len(chart.series)) if chart.look(number).stroke is Stroke.MARKED
    ]
    return _SIGNS[marked.index(series) % len(_SIGNS)]


def _style(chart: LineChart, series: int) -> str:
    return _COLOURS[chart.look(series).hue % len(_COLOURS)]


def _place(chart: LineChart, x: float, y: float, grid: _Grid) -> tuple[int, int]:
    """(row, column)."""
    column = round(share(chart.x, x) * (len(grid[0]) - 1))
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
    """Words of rules and pins where nothing else is written."""
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
        beside = [column + 2, column - 1 - len(pin.label)]
        for at in (row - 1, row + 1, row):
            if 0 <= at < len(grid) and _write(grid, at, beside, pin.label):
                break


def _write(grid: _Grid, row: int, columns: list[int], text: str) -> bool:
    """At the first of the columns where nothing but a rule would be covered."""
    for column in columns:
        if column < 0 or column + len(text) > len(grid[row]):
            continue
        if all(one in " ┄┊.-" for one, _ in grid[row][column : column + len(text)]):
            for index, character in enumerate(text):
                grid[row][column + index] = (character, "bold")
            return True
    return False


def _ticks(scale: Scale, width: int) -> str:
    """The axis's texts below their places."""
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
