"""The report in a terminal: results and findings; understandable without colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from leadline.findings import Severity
from leadline.report.document import (
    BarChart,
    Block,
    Bullets,
    Cell,
    Choices,
    Code,
    Columns,
    DeltaChart,
    Document,
    Dot,
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
    Table,
    Tree,
    printable,
)
from leadline.report.render.svg import heat_table, with_symbols
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
_SUMMARISED = (Paragraph, DotPlot, LineChart, BarChart, HeatMap, Choices)
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
    _wrapped(console, Text(document.title, style="bold"))
    if document.subtitle:
        _wrapped(console, Text(document.subtitle, style="dim"))
    console.print()
    for text in document.summary:
        _hanging(console, "- ", Text(text))
    for section in document.sections:
        if not section.folded or full:
            # A reader cannot choose in a terminal: the first choice is shown.
            chosen = section if full else _chosen(section, _left_out(document.sections))
            _section(console, chosen, trials=trials or full)


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


def _wrapped(console: Console, text: Text) -> None:
    _hanging(console, "", text)


def _hanging(console: Console, lead: str | Text, text: Text) -> None:
    """Print `text` wrapped behind `lead`, further lines indented; no line ends in spaces."""
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
    """Print a section; `peers` are the tables of its sibling sections."""
    inner = bool(peers)
    if (
        inner
        and not trials
        and all(isinstance(block, _SUMMARISED) and not _drawn(block) for block in section.blocks)
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
                # A table has the numbers of bars and heat maps.
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
    """Print a chart under its title."""
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
    """Print a line without spaces at its end."""
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)


def _table(console: Console, table: Table, peers: Sequence[Table]) -> None:
    """Print a table; sibling tables of the same columns get the same widths."""
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
    # The last column of a table that cannot be filtered is shown in full.
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


def _fitting(table: Table, room: int) -> tuple[list[int], list[int]] | None:
    """Choose (columns, widths) that fit into `room` cells; None where none do.

    Long names are shortened first, then the columns of the highest rank are left out.
    """
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
    """Compute the width of a column: its widest text and its labels."""
    texts = (row[index].text for row in table.rows)
    slot = _slot(table, index)
    widest = max((cell_len(text) for text in texts), default=0) + slot
    return max(cell_len(table.columns[index].title), widest)


def _slot(table: Table, index: int) -> int:
    """Compute the width of the labels of a column, so that digits are aligned."""
    return max((cell_len(_labels(row[index].marks)) for row in table.rows), default=0)


def _labels(marks: Sequence[Mark]) -> str:
    return "".join(f" {mark.label}" for mark in marks)


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


def _padded(text: Text, labels: Text, kind: Kind, width: int, slot: int) -> Text:
    """Align a number to the right before its labels, a word to the left, in `width` cells."""
    free = max(0, width - text.cell_len - labels.cell_len)
    # A title that is wider than the digits extends over the labels.
    behind = min(free, slot - labels.cell_len) if kind is Kind.NUMBER else free
    return Text.assemble(" " * (free - behind), text, labels, " " * behind)


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


def _badge(mark: Mark) -> Text:
    return Text(mark.label, style=_STYLE[mark.severity])


def _plot(console: Console, plot: DotPlot) -> None:
    _wrapped(console, Text(f"every trial: {plot.title}", style="dim"))
    for row in plot.rows:
        label = shortened(row.label, _NARROWEST_NAME).ljust(_NARROWEST_NAME)
        _hanging(console, label + _GAP, Text(_dots(row.dots) or "missing"))


def _dots(dots: Iterable[Dot]) -> str:
    return ", ".join(dot.text + (" (outlier)" if dot.outlier else "") for dot in dots)
