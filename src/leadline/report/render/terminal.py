"""The report in a terminal: results and findings; understandable without colour."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from leadline.findings import Severity
from leadline.report.document import (
    Bar,
    BarChart,
    Block,
    Bullets,
    Cell,
    Choices,
    Code,
    Columns,
    DeltaChart,
    DeltaRow,
    Document,
    Dot,
    DotPlot,
    FindingGroup,
    FindingList,
    HeatMap,
    KeyValues,
    Kind,
    Line,
    LineChart,
    Mark,
    Paragraph,
    Scale,
    Section,
    Stroke,
    Table,
    Tree,
    printable,
)
from leadline.report.render.svg import heat_table, line_texts, tree_lines, with_symbols
from leadline.report.render.svg_shapes import SYMBOLS, fitting, share
from leadline.report.words import filled, shortened

# Lines over two axes in a terminal: a grid of characters, a sign for each series.

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


# Charts in a terminal: changes round a centre line, bars of blocks, trees of lines.

_GAP = "  "
_TERMINAL_CHARTS_WIDEST_NAME, _WIDEST_END = 40, 46
_NARROWEST_TRACK, _WIDEST_TRACK = 11, 61
# Pixels of a character, by which `fitting` measures.
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STYLES = {"better": "blue", "worse": "yellow"}


def delta_lines(chart: DeltaChart, width: int) -> Iterator[Text]:
    """A row for each change: its name, the mark in its interval between the chart's ends, and its
    text. `░` is the band, `│` no change."""
    names, track, ends = _widths(
        [row.label for row in chart.rows], [row.text for row in chart.rows], width
    )
    for row in chart.rows:
        line = Text(f"{filled(row.label, names)}{_GAP}")
        line.append_text(_delta(chart.scale, row, track))
        line.append(f"{_GAP}{shortened(row.text, ends)}", style=_STYLES.get(row.verdict, ""))
        yield line
    yield Text(" " * (names + len(_GAP)) + _terminal_charts_ticks(chart.scale, track), style="dim")


def _delta(scale: Scale, row: DeltaRow, width: int) -> Text:
    cells = [" "] * width
    for index in _span(scale, 1 - row.band, 1 + row.band, width):
        cells[index] = "░"
    cells[_terminal_charts_place(scale, 1.0, width)] = "│"
    if row.ratio is not None and row.interval is not None:
        span = _span(scale, *row.interval, width)
        for index in span:
            cells[index] = "─"
        if len(span) > 1:
            cells[span[0]], cells[span[-1]] = "├", "┤"
    drawn = Text("".join(cells))
    if row.ratio is None:
        return drawn
    at = _terminal_charts_place(scale, row.ratio, width)
    symbol = SYMBOLS.get(row.verdict, "○")
    return Text.assemble(drawn[:at], (symbol, _STYLES.get(row.verdict, "")), drawn[at + 1 :])


def bar_lines(chart: BarChart, width: int) -> Iterator[Text]:
    """Each group's name and below it a bar for each series; `░` where the figure is refused."""
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
            drawn = filled(_terminal_charts_blocks(chart.scale, bar, track), track)
            end = shortened(bar.text, ends)
            yield Text(f"{filled(name, names)}{_GAP}{drawn}{_GAP}{end}".rstrip())


def _series(chart: BarChart, bar: Bar) -> str:
    return chart.series[bar.series] if bar.series < len(chart.series) else ""


def _terminal_charts_blocks(scale: Scale, bar: Bar, width: int) -> str:
    if bar.value is None:
        return ""
    eighths = round(share(scale, bar.value) * width * 8)
    if bar.refused:
        return "░" * round(eighths / 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def chart_lines(chart: LineChart) -> Iterator[Text]:
    """Each line's points in words, where there are few."""
    for label, points in line_texts(chart):
        yield Text(f"{label}: {points or 'too many points to be told; a page draws them'}")


def drawn_tree(tree: Tree) -> Iterator[Text]:
    for lead, label, note in tree_lines(tree):
        yield Text.assemble((lead, "dim"), label, (f"  {note}" if note else "", "dim"))


def _widths(names: list[str], ends: list[str], width: int) -> tuple[int, int, int]:
    """(name, track, end) in terminal cells: what is left between the texts is drawn in."""
    most = max(8, (width - _NARROWEST_TRACK - 2 * len(_GAP)) // 2)
    end = min(_WIDEST_END, max(map(cell_len, ends), default=0), most)
    name = min(
        _TERMINAL_CHARTS_WIDEST_NAME, max(map(cell_len, names), default=0), most, max(8, width // 3)
    )
    room = width - name - end - 2 * len(_GAP)
    track = min(max(room, _NARROWEST_TRACK), _WIDEST_TRACK)
    return name, track, end


def _terminal_charts_place(scale: Scale, value: float, width: int) -> int:
    return round(share(scale, value) * (width - 1))


def _span(scale: Scale, low: float, high: float, width: int) -> range:
    return range(
        _terminal_charts_place(scale, low, width), _terminal_charts_place(scale, high, width) + 1
    )


def _terminal_charts_ticks(scale: Scale, width: int) -> str:
    """The axis's texts below their places."""
    line = ""
    for part, text in fitting(scale, width * _CHARACTER):
        start = round(part * (width - 1)) - len(text) // 2
        start = max(min(start, width - len(text)), len(line) + bool(line), 0)
        line = line.ljust(start) + text
    return line.rstrip()


_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_NARROWEST_NAME = 16
_NARROWEST_NAME_OF_ALL = 8
_WIDEST_NAME = 40
_ITEMS_SHOWN = 4
# What is no reason to show a section: a table of another sums it up.
_TOLD_ELSEWHERE = (Paragraph, DotPlot, LineChart, BarChart, HeatMap, Choices)
# A file or a pipe has no width; this is what a page of a mail or of a wiki shows.
_WIDTH_OF_NO_TERMINAL = 100


class _StandardOutput(Console):
    def on_broken_pipe(self) -> None:
        """rich would end the program with status 1; what it means is decided in one place."""
        raise BrokenPipeError


def standard_output() -> Console:
    """A console on stdout: as wide as COLUMNS says, else as the terminal, else 100 columns."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return _StandardOutput(width=int(columns))
    return _StandardOutput(width=None if sys.stdout.isatty() else _WIDTH_OF_NO_TERMINAL)


def render(
    console: Console, document: Document, *, trials: bool = False, full: bool = False
) -> None:
    """Print the headline, the tables that fit the console's width, and the findings.

    `trials` adds every trial's value; `full` also what is for looking up: conditions, test
    matrix, methods.
    """
    document = printable(document)
    _wrapped(console, Text(document.title, style="bold"))
    if document.subtitle:
        _wrapped(console, Text(document.subtitle, style="dim"))
    console.print()
    for text in document.summary:
        _hanging(console, "- ", Text(text))
    for section in document.sections:
        if not section.folded or full:
            # Of what a reader picks one, only the first is shown where nothing can be picked.
            chosen = section if full else _chosen(section, _left_out(document.sections))
            _section(console, chosen, trials=trials or full)


def _left_out(sections: Sequence[Section]) -> frozenset[str]:
    """What is shown only once it has been chosen: the options behind the first."""
    values = {
        value
        for section in sections
        for block in section.blocks
        if isinstance(block, Choices)
        for value, _ in block.options[1:]
    }
    return frozenset(values).union(*(_left_out(section.sections) for section in sections))


def _chosen(section: Section, left_out: frozenset[str]) -> Section:
    if not left_out:
        return section
    return replace(
        section,
        blocks=tuple(
            block for block in section.blocks if getattr(block, "choice", "") not in left_out
        ),
        sections=tuple(_chosen(inner, left_out) for inner in section.sections),
    )


def _wrapped(console: Console, text: Text) -> None:
    _hanging(console, "", text)


def _hanging(console: Console, lead: str | Text, text: Text) -> None:
    """`text` wrapped behind `lead`, its further lines indented as far; no line ends in spaces."""
    first = Text(lead) if isinstance(lead, str) else lead
    width = max(_NARROWEST_NAME_OF_ALL, console.width - first.cell_len)
    indent = " " * first.cell_len
    for number, line in enumerate(text.wrap(console, width, overflow="fold") or [Text()]):
        whole = Text.assemble(indent if number else first, line)
        whole.rstrip()
        console.print(whole, soft_wrap=True, highlight=False)


def _section(
    console: Console, section: Section, *, trials: bool, peers: Sequence[Table] = ()
) -> None:
    """`peers` are the tables of the sections beside this one, inside another."""
    inner = bool(peers)
    if (
        inner
        and not trials
        and all(
            isinstance(block, _TOLD_ELSEWHERE) and not _drawn(block) for block in section.blocks
        )
    ):
        return  # only plots, which the tables sum up
    console.print()
    _wrapped(console, Text(section.heading, style="bold" if inner else "bold underline"))
    _blocks(console, section.blocks, trials=trials, peers=peers)
    within = [
        block
        for further in section.sections
        for block in further.blocks
        if isinstance(block, Table)
    ]
    for further in section.sections:
        _section(console, further, trials=trials, peers=within)


def _blocks(
    console: Console, blocks: Sequence[Block], *, trials: bool, peers: Sequence[Table] = ()
) -> None:
    tables = any(isinstance(block, Table) for block in blocks)
    for block in blocks:
        match block:
            case Paragraph():
                _wrapped(console, Text(block.text, style="dim" if peers else ""))
            case Bullets():
                for item in block.items:
                    _hanging(console, "- ", Text(item))
            case KeyValues():
                width = max((cell_len(key) for key, _ in block.pairs), default=0)
                for key, value in block.pairs:
                    _hanging(console, key.ljust(width) + _GAP, Text(value))
            case Code():
                if block.caption:
                    _wrapped(console, Text(block.caption, style="dim"))
                for line in block.text.splitlines():
                    _printed(console, Text(f"    {line}"))
            case Table():
                _table(console, with_symbols(block), peers)
            case FindingList():
                _findings(console, block)
            case DotPlot():
                if trials:
                    _plot(console, block)
            case Columns():
                for heading, inner in block.parts:
                    _wrapped(console, Text(heading, style="bold"))
                    _blocks(console, inner, trials=trials, peers=peers)
            case Choices():
                _choices(console, block)
            case LineChart():
                if trials or block.drawn:
                    _chart(console, block)
            case _:
                # Bars and heat maps draw what a table beside them tells.
                if trials or not tables or isinstance(block, DeltaChart | Tree):
                    _chart(console, block)


def _drawn(block: Block) -> bool:
    return isinstance(block, LineChart) and block.drawn


def _choices(console: Console, choices: Choices) -> None:
    if len(choices.options) > 1:
        (_, first), *others = choices.options
        more = ", ".join(label for _, label in others)
        _wrapped(console, Text(f"{choices.label}: {first}; a report also has {more}", style="dim"))


def _chart(console: Console, chart: BarChart | LineChart | DeltaChart | HeatMap | Tree) -> None:
    """Charts that stand on their own, under their titles."""
    if isinstance(chart, HeatMap):
        _table(console, heat_table(chart), ())
        return
    title = chart.caption if isinstance(chart, Tree) else chart.title
    if title:
        _wrapped(console, Text(title, style="dim"))
    match chart:
        case Tree():
            lines = drawn_tree(chart)
        case DeltaChart():
            lines = delta_lines(chart, console.width)
        case BarChart():
            lines = bar_lines(chart, console.width)
        case LineChart():
            lines = plot_lines(chart, console.width) if chart.drawn else chart_lines(chart)
    for line in lines:
        if isinstance(chart, LineChart | Tree) and not _drawn(chart):
            _wrapped(console, line)
        else:
            _printed(console, line)


def _printed(console: Console, line: Text) -> None:
    """A line as it is, without spaces at its end."""
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)


# --- tables -------------------------------------------------------------------------------------


def _table(console: Console, table: Table, peers: Sequence[Table]) -> None:
    """Tables of the same columns beside one another get the same widths, so that they line up."""
    if table.caption:
        _wrapped(console, Text(table.caption, style="dim"))
    if not table.rows:
        return
    joined = _joined(table, peers)
    fitting = _fitting(joined, console.width)
    if fitting is None:
        _stacked(console, table)
        return
    chosen, widths = fitting
    slots = [_slot(joined, index) for index in chosen]
    kinds = [table.columns[index].kind for index in chosen]
    titles = [Text(table.columns[index].title, style="dim") for index in chosen]
    header = Text(_GAP).join(
        _padded(title, Text(), kind, width, slot)
        for title, kind, width, slot in zip(titles, kinds, widths, slots, strict=True)
    )
    header.rstrip()
    console.print(header, soft_wrap=True, highlight=False)
    # In a table that is read and not looked up the last column is told in full.
    wraps = not table.filterable and len(chosen) > 1 and kinds[-1] is Kind.TEXT
    for row in table.rows:
        parts = []
        for index, kind, width, slot in zip(chosen, kinds, widths, slots, strict=True):
            shown, labels = _texts(row[index], width - slot)
            parts.append(_padded(shown, labels, kind, width, slot))
        if wraps:
            lead = Text(_GAP).join([*parts[:-1], Text()])
            _hanging(console, lead, _whole(row[chosen[-1]]))
        else:
            line = Text(_GAP).join(parts)
            line.rstrip()
            console.print(line, soft_wrap=True, highlight=False)


def _stacked(console: Console, table: Table) -> None:
    """A table for which there is no room: each row's names in a line, its numbers below."""
    for row in table.rows:
        pairs = list(zip(table.columns, row, strict=True))
        names = [cell.text for column, cell in pairs if column.kind is Kind.TEXT and cell.text]
        _wrapped(console, Text(" · ".join(names)))
        numbers = [
            Text.assemble((f"{column.title} ", "dim"), _whole(cell))
            for column, cell in pairs
            if column.kind is Kind.NUMBER
        ]
        _hanging(console, "   ", Text(", ").join(numbers))


def _fitting(table: Table, room: int) -> tuple[list[int], list[int]] | None:
    """(columns, their widths) that fit into `room` cells: long names are shortened in the middle
    first, then the columns of the highest rank are left out; None where that is not enough."""
    natural = [_natural(table, index) for index in range(len(table.columns))]
    chosen = list(range(len(table.columns)))
    narrowest = _NARROWEST_NAME
    while True:
        gaps = len(_GAP) * (len(chosen) - 1)
        texts = [i for i in chosen if table.columns[i].kind is Kind.TEXT]
        widest = _WIDEST_NAME if table.filterable else room
        widths = {i: min(natural[i], widest) if i in texts else natural[i] for i in chosen}
        excess = sum(widths.values()) + gaps - room
        for index in sorted(texts, key=lambda i: -widths[i]):
            least = max(narrowest, cell_len(table.columns[index].title) + _slot(table, index))
            cut = min(max(0, excess), max(0, widths[index] - least))
            widths[index] -= cut
            excess -= cut
        if excess <= 0:
            return chosen, [widths[index] for index in chosen]
        optional = [index for index in chosen if table.columns[index].rank > 0]
        if optional:
            chosen.remove(max(optional, key=lambda index: table.columns[index].rank))
        elif narrowest > _NARROWEST_NAME_OF_ALL:
            narrowest = _NARROWEST_NAME_OF_ALL
        else:
            return None


def _joined(table: Table, peers: Sequence[Table]) -> Table:
    rows = [row for peer in peers if peer.columns == table.columns for row in peer.rows]
    return replace(table, rows=tuple(rows) or table.rows)


def _natural(table: Table, index: int) -> int:
    """Width of a column: its widest text and the room for its labels."""
    texts = (row[index].text for row in table.rows)
    slot = _slot(table, index)
    widest = max((cell_len(text) for text in texts), default=0) + slot
    return max(cell_len(table.columns[index].title), widest)


def _slot(table: Table, index: int) -> int:
    """Room behind the texts of a column for labels, so that digits stay in line."""
    return max((cell_len(_labels(row[index].marks)) for row in table.rows), default=0)


def _labels(marks: Sequence[Mark]) -> str:
    return "".join(f" {mark.label}" for mark in marks)


def _texts(cell: Cell, width: int) -> tuple[Text, Text]:
    """A cell's text in at most `width` and its labels."""
    bad = _STYLE[Severity.ERROR] if cell.severity is Severity.ERROR else ""
    shown = Text(shortened(cell.text, width), style="dim" if cell.missing else bad)
    labels = Text()
    for mark in cell.marks:
        labels.append(" ")
        labels.append(mark.label, style=_STYLE[mark.severity])
    return shown, labels


def _whole(cell: Cell) -> Text:
    return Text.assemble(*_texts(cell, cell_len(cell.text)))


def _padded(text: Text, labels: Text, kind: Kind, width: int, slot: int) -> Text:
    """A number right-aligned with its labels behind it, a word left-aligned; `width` cells."""
    free = max(0, width - text.cell_len - labels.cell_len)
    # A title that is wider than the digits reaches over the room for labels.
    behind = min(free, slot - labels.cell_len) if kind is Kind.NUMBER else free
    return Text.assemble(" " * (free - behind), text, labels, " " * behind)


# --- findings -----------------------------------------------------------------------------------


def _findings(console: Console, findings: FindingList) -> None:
    for group in findings.groups:
        _group(console, group)


def _group(console: Console, group: FindingGroup) -> None:
    mark = group.mark
    count = f" ({len(group.items)} times)" if len(group.items) > 1 else ""
    head = Text.assemble(_badge(mark), f" {mark.severity.value}: ", (mark.code, "bold"), count)
    _wrapped(console, head)
    for message, places in _gathered(group).items():
        _hanging(console, "   ", Text.assemble(f"{message} ", (f"[{places}]", "dim")))
    shown = group.remedies[:_ITEMS_SHOWN]
    for remedy in shown if mark.severity is not Severity.INFO else shown[:1]:
        _hanging(console, "   hint: ", Text(remedy))


def _gathered(group: FindingGroup) -> dict[str, str]:
    """Messages with their places. Those of context are folded into the first and a count."""
    places: dict[str, list[str]] = {}
    for item in group.items:
        places.setdefault(item.message, []).append(item.where)
    limit = 1 if group.mark.severity is Severity.INFO else _ITEMS_SHOWN
    gathered = {
        message: _few(list(dict.fromkeys(where)), 2 if limit == 1 else _ITEMS_SHOWN)
        for message, where in list(places.items())[:limit]
    }
    if len(places) > limit:
        rest = sum(len(where) for where in list(places.values())[limit:])
        gathered[f"... and {rest:,} more like it"] = "leadline audit shows them"
    return gathered


def _few(items: Sequence[str], limit: int) -> str:
    shown = [shortened(item, 60) for item in items[:limit]]
    more = [f"{len(items) - limit:,} more"] if len(items) > limit else []
    return "; ".join([*shown, *more])


def _badge(mark: Mark) -> Text:
    return Text(mark.label, style=_STYLE[mark.severity])


def _plot(console: Console, plot: DotPlot) -> None:
    _wrapped(console, Text(f"every trial: {plot.title}", style="dim"))
    for row in plot.rows:
        label = shortened(row.label, _NARROWEST_NAME).ljust(_NARROWEST_NAME)
        _hanging(console, label + _GAP, Text(_dots(row.dots) or "missing"))


def _dots(dots: Iterable[Dot]) -> str:
    return ", ".join(dot.text + (" (outlier)" if dot.outlier else "") for dot in dots)
