"""The report in a terminal: results and findings; understandable without colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from leadline.findings import Severity
from leadline.report.document import (
    BarChart,
    Block,
    Bullets,
    Cell,
    Chart,
    Choices,
    Code,
    Column,
    Columns,
    DeltaChart,
    Document,
    DotPlot,
    FindingGroup,
    FindingList,
    HeatMap,
    KeyValues,
    Kind,
    LineChart,
    Mark,
    Paragraph,
    Section,
    StripChart,
    Table,
    Tiles,
    Tree,
    printable,
)
from leadline.report.render.svg import heat_table, strip_table, with_symbols
from leadline.report.render.terminal_charts import (
    bar_lines,
    chart_lines,
    delta_lines,
    drawn_tree,
    plot_lines,
)
from leadline.report.words import shortened

_GAP = "  "

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_NARROWEST_NAME = 16
_NARROWEST_NAME_OF_ALL = 8
_WIDEST_NAME = 40
_ITEMS_SHOWN = 4
# A section of these alone is not shown: a table of another section sums them up.
_SUMMARISED = (Paragraph, DotPlot, LineChart, BarChart, StripChart, HeatMap, Choices)
_WIDTH_OF_NO_TERMINAL = 100


class _StandardOutput(Console):
    def on_broken_pipe(self) -> None:
        """Let the command line handle it; rich would exit with status 1."""
        raise BrokenPipeError


def standard_output() -> Console:
    """Open a console on stdout, as wide as COLUMNS, else the terminal, else 100 columns."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return _StandardOutput(width=int(columns))
    return _StandardOutput(width=None if sys.stdout.isatty() else _WIDTH_OF_NO_TERMINAL)


def render(
    console: Console, document: Document, *, trials: bool = False, full: bool = False
) -> None:
    """Print the headline, the tables that fit the console's width, and the findings.

    `trials` adds every trial's value; `full` also the folded sections: conditions, test matrix,
    methods.
    """
    document = printable(document)
    _wrapped(console, document.title, "bold")
    if document.subtitle:
        _wrapped(console, document.subtitle, "dim")
    console.print()
    for text in document.summary:
        _hanging(console, "- ", Text(text))
    for table in (block for block in document.front if isinstance(block, Table)):
        console.print()
        _table(console, with_symbols(table), ())
    for section in document.sections:
        if (not section.folded or full) and not _only_on_pages(section):
            # A reader cannot choose in a terminal: the first choice is shown.
            chosen = section if full else _chosen(section, _left_out(document.sections))
            _section(console, chosen, trials=trials or full)


def _only_on_pages(section: Section) -> bool:
    """Whether a section has nothing but line charts that a terminal does not draw."""
    blocks = section.blocks
    return (
        bool(blocks)
        and not section.sections
        and all(isinstance(block, LineChart) and not block.drawn for block in blocks)
    )


def _left_out(sections: Sequence[Section]) -> frozenset[str]:
    """The choices that are not shown: all but the first."""
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


def _wrapped(console: Console, text: str | Text, style: str = "") -> None:
    _hanging(console, "", text if isinstance(text, Text) else Text(text, style=style))


def _hanging(console: Console, lead: str | Text, text: Text) -> None:
    """Print `text` wrapped behind `lead`, further lines indented; no line ends in spaces."""
    first = Text(lead) if isinstance(lead, str) else lead
    width = max(_NARROWEST_NAME_OF_ALL, console.width - first.cell_len)
    indent = " " * first.cell_len
    for number, line in enumerate(text.wrap(console, width, overflow="fold") or [Text()]):
        _printed(console, Text.assemble(indent if number else first, line))


def _section(
    console: Console, section: Section, *, trials: bool, peers: Sequence[Table] = ()
) -> None:
    """Print a section; `peers` are the tables of its sibling sections."""
    inner = bool(peers)
    if (
        inner
        and not trials
        and all(isinstance(block, _SUMMARISED) and not _drawn(block) for block in section.blocks)
    ):
        return  # only plots, which the tables sum up
    console.print()
    _wrapped(console, section.heading, "bold" if inner else "bold underline")
    _blocks(console, section.blocks, trials=trials, peers=peers)
    blocks = [block for further in section.sections for block in further.blocks]
    within = [block for block in blocks if isinstance(block, Table)]
    for further in section.sections:
        _section(console, further, trials=trials, peers=within)


def _blocks(
    console: Console, blocks: Sequence[Block], *, trials: bool, peers: Sequence[Table] = ()
) -> None:
    tables = any(isinstance(block, Table) for block in blocks)
    for block in blocks:
        match block:
            case Paragraph():
                _wrapped(console, block.text, "dim" if peers else "")
            case Tiles():
                for tile in block.tiles:
                    name = f"{tile.title}, {tile.unit}: "
                    _hanging(console, name, Text(f"{tile.value}. {tile.note}"))
            case Bullets():
                for item in block.items:
                    _hanging(console, "- ", Text(item))
            case KeyValues():
                width = max((cell_len(key) for key, _ in block.pairs), default=0)
                for key, value in block.pairs:
                    _hanging(console, key.ljust(width) + _GAP, Text(value))
            case Code():
                if block.caption:
                    _wrapped(console, block.caption, "dim")
                for line in block.text.splitlines():
                    _printed(console, Text(f"    {line}"))
            case Table():
                _table(console, with_symbols(block), peers)
            case FindingList():
                for group in block.groups:
                    _group(console, group)
            case DotPlot():
                if trials:
                    _plot(console, block)
            case Columns():
                for heading, inner in block.parts:
                    _wrapped(console, heading, "bold")
                    _blocks(console, inner, trials=trials, peers=peers)
            case Choices():
                if len(block.options) > 1:
                    (_, first), *others = block.options
                    more = ", ".join(label for _, label in others)
                    _wrapped(console, f"{block.label}: {first}; a report also has {more}", "dim")
            case LineChart():
                if trials or block.drawn:
                    _chart(console, block)
            case _:
                # A table has the numbers of bars and heat maps.
                if trials or not tables or isinstance(block, DeltaChart | Tree):
                    _chart(console, block)


def _drawn(block: Block) -> bool:
    return isinstance(block, LineChart) and block.drawn


def _chart(console: Console, chart: Chart | Tree) -> None:
    if isinstance(chart, HeatMap | StripChart):
        as_table = heat_table(chart) if isinstance(chart, HeatMap) else strip_table(chart)
        _table(console, as_table, ())
        return
    # A heading above them names the system of boxes.
    title = "" if isinstance(chart, Tree) and chart.boxes else _title(chart)
    if title:
        _wrapped(console, title, "dim")
    shown: Callable[[Console, Text], None] = _printed
    match chart:
        case Tree():
            lines, shown = drawn_tree(chart), _wrapped
        case DeltaChart():
            lines = delta_lines(chart, console.width)
        case BarChart():
            lines = bar_lines(chart, console.width)
        case LineChart() if chart.drawn:
            lines = plot_lines(chart, console.width)
        case LineChart():
            lines, shown = chart_lines(chart), _wrapped
    for line in lines:
        shown(console, line)


def _title(chart: Chart | Tree) -> str:
    return chart.caption if isinstance(chart, Tree) else chart.title


def _printed(console: Console, line: Text) -> None:
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a column is drawn: its width in terminal cells, of which `slot` are for labels."""

    index: int
    kind: Kind
    width: int
    slot: int


def _table(console: Console, table: Table, peers: Sequence[Table]) -> None:
    """Print a table; sibling tables of the same columns get the same widths."""
    if table.caption:
        _wrapped(console, table.caption, "dim")
    if not table.rows:
        return
    rows = [row for peer in peers if peer.columns == table.columns for row in peer.rows]
    whole = replace(table, rows=tuple(rows) or table.rows)
    marked = _marked_columns(whole)
    if marked and all(_shared_marks(row, marked) is not None for row in whole.rows):
        table, whole = (_with_findings(one, marked) for one in (table, whole))
    places = _fitting(whole, console.width)
    if places is None:
        _stacked(console, table)
        return
    titles = (Text(table.columns[place.index].title, style="dim") for place in places)
    header = [_padded(title, Text(), place) for title, place in zip(titles, places, strict=True)]
    if any(column.title for column in table.columns):
        _printed(console, Text(_GAP).join(header))
    # The last column of a table that cannot be filtered is shown in full.
    last = places[-1]
    wraps = not table.filterable and len(places) > 1 and last.kind is Kind.TEXT
    for row in table.rows:
        parts = [
            _padded(*_texts(row[place.index], place.width - place.slot), place) for place in places
        ]
        if wraps:
            lead = Text(_GAP).join([*parts[:-1], Text()])
            _hanging(console, lead, _whole(row[last.index]))
        else:
            _printed(console, Text(_GAP).join(parts))


def _marked_columns(table: Table) -> tuple[int, ...]:
    """The columns in which a number has a warning or an error."""
    return tuple(
        index
        for index, column in enumerate(table.columns)
        if column.kind is Kind.NUMBER
        and any(row[index].severity not in (None, Severity.INFO) for row in table.rows)
    )


def _shared_marks(row: Sequence[Cell], marked: Sequence[int]) -> tuple[Mark, ...] | None:
    """The warnings that all numbers of a row have in common; None where they differ, or one is an
    error: then each number needs its own labels."""
    found = {row[index].marks for index in marked if row[index].text and not row[index].missing}
    found |= {row[index].marks for index in marked if row[index].marks}
    if len(found) > 1:
        return None
    common = found.pop() if found else ()
    return None if any(mark.severity is Severity.ERROR for mark in common) else common


def _with_findings(table: Table, marked: Sequence[int]) -> Table:
    """A table whose last column has the labels of each row instead of each number."""

    def gathered(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
        shared = _shared_marks(row, marked) or ()
        every = dict.fromkeys((*shared, *(mark for cell in row for mark in cell.marks)))
        labels = " ".join(mark.label for mark in every)
        return (*(replace(cell, marks=()) for cell in row), Cell(text=labels))

    return replace(
        table,
        columns=(*table.columns, Column(title="findings")),
        rows=tuple(map(gathered, table.rows)),
    )


def _stacked(console: Console, table: Table) -> None:
    """Print a table that is too wide: the names of a row in a line, its numbers below."""
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


def _fitting(table: Table, room: int) -> list[_Place] | None:
    """Place the columns in `room` cells; None where they do not fit.

    Long names are shortened first, then the columns of the highest rank are left out.
    """
    columns = table.columns
    cells = [[row[index] for row in table.rows] for index in range(len(columns))]
    # The labels of a column take the same room in every row, so that digits are aligned.
    slots = [
        max(sum(1 + cell_len(mark.label) for mark in cell.marks) for cell in column)
        for column in cells
    ]
    natural = [
        max(cell_len(title.title), max(cell_len(cell.text) for cell in column) + slot)
        for title, column, slot in zip(columns, cells, slots, strict=True)
    ]
    chosen = list(range(len(columns)))
    narrowest = _NARROWEST_NAME
    while True:
        texts = [i for i in chosen if columns[i].kind is Kind.TEXT]
        widest = _WIDEST_NAME if table.filterable else room
        widths = {i: min(natural[i], widest) if i in texts else natural[i] for i in chosen}
        excess = sum(widths.values()) + len(_GAP) * (len(chosen) - 1) - room
        for index in sorted(texts, key=lambda i: -widths[i]):
            least = max(narrowest, cell_len(columns[index].title) + slots[index])
            cut = min(max(0, excess), max(0, widths[index] - least))
            widths[index] -= cut
            excess -= cut
        if excess <= 0:
            return [
                _Place(index=i, kind=columns[i].kind, width=widths[i], slot=slots[i])
                for i in chosen
            ]
        optional = [index for index in chosen if columns[index].rank > 0]
        if optional:
            chosen.remove(max(optional, key=lambda index: columns[index].rank))
        elif narrowest > _NARROWEST_NAME_OF_ALL:
            narrowest = _NARROWEST_NAME_OF_ALL
        else:
            return None


def _texts(cell: Cell, width: int) -> tuple[Text, Text]:
    """Format a cell's text in at most `width` cells, and its labels."""
    bad = _STYLE[Severity.ERROR] if cell.severity is Severity.ERROR else ""
    shown = Text(shortened(cell.text, width), style="dim" if cell.missing else bad)
    labels = Text()
    for mark in cell.marks:
        labels.append(" ")
        labels.append(mark.label, style=_STYLE[mark.severity])
    return shown, labels


def _whole(cell: Cell) -> Text:
    return Text.assemble(*_texts(cell, cell_len(cell.text)))


def _padded(text: Text, labels: Text, place: _Place) -> Text:
    """Align a number to the right before its labels, a word to the left."""
    free = max(0, place.width - text.cell_len - labels.cell_len)
    # A title that is wider than the digits extends over the labels.
    number = place.kind is Kind.NUMBER
    behind = min(free, place.slot - labels.cell_len) if number else free
    return Text.assemble(" " * (free - behind), text, labels, " " * behind)


def _group(console: Console, group: FindingGroup) -> None:
    mark = group.mark
    count = f" ({len(group.items)} times)" if len(group.items) > 1 else ""
    label = Text(mark.label, style=_STYLE[mark.severity])
    _wrapped(console, Text.assemble(label, f" {mark.severity.value}: ", (mark.code, "bold"), count))
    for message, places in _gathered(group).items():
        _hanging(console, "   ", Text.assemble(f"{message} ", (f"[{places}]", "dim")))
    if group.remedy:
        _hanging(console, "   hint: ", Text(group.remedy))


def _gathered(group: FindingGroup) -> dict[str, str]:
    """Gather messages with their places; of info findings the first and a count."""
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


def _plot(console: Console, plot: DotPlot) -> None:
    _wrapped(console, f"every trial: {plot.title}", "dim")
    for row in plot.rows:
        label = shortened(row.label, _NARROWEST_NAME).ljust(_NARROWEST_NAME)
        _hanging(console, label + _GAP, Text(row.listing or "missing"))
