"""The report in a terminal: results and findings; understandable without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from leadline.findings import Severity
from leadline.report.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Document,
    Dot,
    DotPlot,
    FindingGroup,
    FindingList,
    KeyValues,
    Kind,
    Mark,
    Paragraph,
    Section,
    Table,
)

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_GAP = "  "
_NARROWEST_NAME = 16
_WIDEST_NAME = 40
_ITEMS_SHOWN = 4


def render(
    console: Console, document: Document, *, trials: bool = False, full: bool = False
) -> None:
    """Print the headline, the tables that fit the console's width, and the findings.

    `trials` adds every trial's value; `full` also what is for looking up: conditions, test
    matrix, methods.
    """
    _wrapped(console, Text(document.title, style="bold"))
    if document.subtitle:
        _wrapped(console, Text(document.subtitle, style="dim"))
    console.print()
    for text in document.summary:
        _hanging(console, "- ", Text(text))
    for section in document.sections:
        if not section.folded or full:
            _section(console, section, trials=trials or full)


def _wrapped(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=False, highlight=False, overflow="fold")


def _hanging(console: Console, lead: str, text: Text) -> None:
    """`text` wrapped behind `lead`, its further lines indented as far."""
    width = max(20, console.width - cell_len(lead))
    indent = " " * cell_len(lead)
    for number, line in enumerate(text.wrap(console, width, overflow="fold") or [Text()]):
        line.rstrip()
        console.print(Text.assemble(indent if number else lead, line), highlight=False)


def _section(
    console: Console, section: Section, *, trials: bool, peers: Sequence[Table] = ()
) -> None:
    """`peers` are the tables of the sections beside this one, inside another."""
    inner = bool(peers)
    tables = [block for block in section.blocks if isinstance(block, Table)]
    if inner and not tables and not trials:
        return  # only plots, which the tables sum up
    console.print()
    console.print(Text(section.heading, style="bold" if inner else "bold underline"))
    for block in section.blocks:
        match block:
            case Paragraph():
                _wrapped(console, Text(block.text, style="dim" if inner else ""))
            case Bullets():
                for item in block.items:
                    _hanging(console, "- ", Text(item))
            case KeyValues():
                width = max(cell_len(key) for key, _ in block.pairs)
                for key, value in block.pairs:
                    _hanging(console, key.ljust(width) + _GAP, Text(value))
            case Code():
                if block.caption:
                    _wrapped(console, Text(block.caption, style="dim"))
                for line in block.text.splitlines():
                    console.print(Text(f"    {line}"), soft_wrap=True, highlight=False)
            case Table():
                _table(console, block, peers)
            case FindingList():
                _findings(console, block)
            case DotPlot():
                if trials:
                    _plot(console, block)
    within = [
        block
        for further in section.sections
        for block in further.blocks
        if isinstance(block, Table)
    ]
    for further in section.sections:
        _section(console, further, trials=trials, peers=within)


# --- tables -------------------------------------------------------------------------------------


def _table(console: Console, table: Table, peers: Sequence[Table]) -> None:
    """Tables of the same columns beside one another get the same widths, so that they line up."""
    if table.caption:
        console.print(Text(table.caption, style="dim"))
    if not table.rows:
        return
    joined = _joined(table, peers)
    chosen, widths = _fitting(joined, console.width)
    slots = [_slot(joined, index) for index in chosen]
    header = []
    for index, width, slot in zip(chosen, widths, slots, strict=True):
        column = table.columns[index]
        header.append(_padded(Text(column.title, style="dim"), Text(), column, width, slot))
    lines = [header]
    for row in table.rows:
        cells = []
        for index, width, slot in zip(chosen, widths, slots, strict=True):
            shown, labels = _texts(row[index], width - slot)
            cells.append(_padded(shown, labels, table.columns[index], width, slot))
        lines.append(cells)
    for parts in lines:
        line = Text(_GAP).join(parts)
        line.rstrip()
        console.print(line, no_wrap=True, overflow="crop", highlight=False)


def _fitting(table: Table, room: int) -> tuple[list[int], list[int]]:
    """(columns, their widths) that fit into `room` cells: long names are shortened in the middle
    first, then the columns of the highest rank are left out."""
    natural = [_natural(table, index) for index in range(len(table.columns))]
    chosen = list(range(len(table.columns)))
    while True:
        gaps = len(_GAP) * (len(chosen) - 1)
        texts = [i for i in chosen if table.columns[i].kind is Kind.TEXT]
        widest = _WIDEST_NAME if table.filterable else room
        widths = {i: min(natural[i], widest) if i in texts else natural[i] for i in chosen}
        excess = sum(widths.values()) + gaps - room
        for index in sorted(texts, key=lambda i: -widths[i]):
            cut = min(max(0, excess), max(0, widths[index] - _NARROWEST_NAME))
            widths[index] -= cut
            excess -= cut
        optional = [index for index in chosen if table.columns[index].rank > 0]
        if excess <= 0 or not optional:
            return chosen, [widths[index] for index in chosen]
        chosen.remove(max(optional, key=lambda index: table.columns[index].rank))


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


def _padded(text: Text, labels: Text, column: Column, width: int, slot: int) -> Text:
    """A number right-aligned with its labels behind it, a word left-aligned."""
    behind = " " * (slot - labels.cell_len)
    space = " " * max(0, width - slot - text.cell_len)
    if column.kind is Kind.NUMBER:
        return Text.assemble(space, text, labels, behind)
    return Text.assemble(text, labels, behind, space)


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` terminal cells, cut in the middle: names differ at either end."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return set_cell_size(text, max(0, width)).rstrip()
    head = (width - 1) // 2
    tail = width - 1 - head
    ending = text
    while cell_len(ending) > tail:
        ending = ending[1:]
    return f"{set_cell_size(text, head).rstrip()}…{ending}"


# --- findings -----------------------------------------------------------------------------------


def _findings(console: Console, findings: FindingList) -> None:
    for group in findings.groups:
        _group(console, group)


def _group(console: Console, group: FindingGroup) -> None:
    mark = group.mark
    count = f" ({len(group.items)} times)" if len(group.items) > 1 else ""
    head = Text.assemble(_badge(mark), f" {mark.severity.value}: ", (mark.code, "bold"), count)
    console.print(head, highlight=False)
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
    console.print(Text(f"every trial: {plot.title}", style="dim"), highlight=False)
    for row in plot.rows:
        label = shortened(row.label, _NARROWEST_NAME).ljust(_NARROWEST_NAME)
        _hanging(console, label + _GAP, Text(_dots(row.dots) or "missing"))


def _dots(dots: Iterable[Dot]) -> str:
    return ", ".join(dot.text + (" (outlier)" if dot.outlier else "") for dot in dots)
