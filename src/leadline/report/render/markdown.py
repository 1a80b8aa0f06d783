"""Render a report as Markdown for a wiki or an issue, with GitHub's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

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
    DotPlot,
    FindingGroup,
    FindingList,
    HeatMap,
    KeyValues,
    Kind,
    LineChart,
    Paragraph,
    Section,
    StripChart,
    Table,
    Tiles,
    Tree,
    printable,
)
from leadline.report.render.svg import (
    bar_table,
    delta_table,
    draw,
    heat_table,
    line_texts,
    strip_table,
    tree_lines,
    with_symbols,
)
from leadline.report.render.terminal_charts import plot_lines

# Characters that a wiki shows in a line of code.
_PLOT_WIDTH = 80
Drawn = BarChart | LineChart | DeltaChart | HeatMap | DotPlot | StripChart

# Characters with which text turns into markup anywhere in a line, and what they are written as.
_MARKUP = {character: f"\\{character}" for character in "\\`*_{}[]|~#!"} | {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
}
_IN_PICTURES = str.maketrans(_MARKUP)
# A backslash does not keep `$` from being mathematics on GitHub.
_IN_TEXT = str.maketrans({**_MARKUP, "$": "<span>$</span>", "\0": "<!-- -->"})
# What GitHub makes links and pictures of after the markup is read, so that no escape helps: an
# empty comment inside ends it. Mentions and addresses, issues, URLs, commits, emoji.
_LINKED = re.compile(
    r"@(?=[\w.-]*\.\w)|(?<![A-Za-z0-9_])@(?=\w)|#(?=\d)|\bGH-(?=\d)"
    r"|:(?=//)|www(?=\.)|\b[0-9a-f]{7}(?=[0-9a-f]{33}\b)"
    r"|:(?=(?:100|1234|[0-9]*[a-z_+-][a-z0-9_+-]*):)",
    re.IGNORECASE,
)
# A digit cannot be escaped; the mark behind it makes a list where a space follows.
_LEADING = re.compile(r"^(\s*)(?=[-+=])|^(\s*\d+)(?=[.)](?:\s|$))")


def escape(text: str) -> str:
    """Escape text of a paragraph or a table cell, which then reads as it is: no Markdown, no HTML,
    no link of GitHub's. Control characters are spelled out before (`printable`)."""
    return _LINKED.sub("\\g<0>\0", " ".join(text.split())).translate(_IN_TEXT)


def _line(text: str) -> str:
    """Escape text at the beginning of a line, where lists and headings start."""
    return _LEADING.sub(lambda found: f"{found[0]}\\", escape(text))


class _Pictures:
    """The SVG files of charts in a folder next to the Markdown."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}

    def add(self, chart: Drawn | Tree) -> str:
        """Draw a chart and return the link to it."""
        title = chart.caption if isinstance(chart, Tree) else chart.title
        name = "tree" if isinstance(chart, Tree) else chart.id
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "chart"
        path, number = f"{self.folder}/{stem}.svg", 2
        while path in self.files:
            path, number = f"{self.folder}/{stem}-{number}.svg", number + 1
        self.files[path] = draw(chart)
        return f"![{title.translate(_IN_PICTURES)}]({quote(path)})"


def render(document: Document) -> str:
    """Render a document with its charts as tables and lists."""
    return _render(document, None)


def render_with_pictures(document: Document, folder: str) -> tuple[str, dict[str, str]]:
    """Render (Markdown, path -> SVG) with charts as pictures in `folder`.

    The paths begin with `folder` and are relative to the Markdown file.
    """
    pictures = _Pictures(folder)
    return _render(document, pictures), pictures.files


def _render(document: Document, pictures: _Pictures | None) -> str:
    document = printable(document)
    lines = [f"# {_line(document.title)}", "", _line(document.subtitle), ""]
    lines += [f"- {_line(text)}" for text in document.summary]
    lines += _blocks(document.front, 2, pictures)
    for section in document.sections:
        lines += ["", *_section(section, 2, pictures)]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section, depth: int, pictures: _Pictures | None) -> Iterable[str]:
    yield _heading(": ".join(filter(None, (section.heading, section.result))), depth)
    yield from _blocks(section.blocks, depth, pictures)
    for inner in section.sections:
        yield ""
        yield from _section(inner, depth + 1, pictures)


def _heading(text: str, depth: int) -> str:
    return f"{'#' * min(depth, 6)} {_line(text)}"


def _blocks(blocks: Iterable[Block], depth: int, pictures: _Pictures | None) -> Iterable[str]:
    for block in blocks:
        if isinstance(block, Choices):
            continue  # a text shows all choices
        yield ""
        if isinstance(block, Columns):
            for heading, inner in block.parts:
                yield _heading(heading, depth + 1)
                yield from _blocks(inner, depth + 1, pictures)
                yield ""
        elif pictures and (isinstance(block, Drawn) or (isinstance(block, Tree) and block.boxes)):
            yield pictures.add(block)
        else:
            yield from _block(block)


def _block(block: Block) -> Iterable[str]:
    match block:
        case Paragraph():
            yield _line(block.text)
        case Tiles():
            rows = ((tile.title, tile.unit, tile.value, tile.note) for tile in block.tiles)
            yield from grid(("", "", "", ""), (False, False, True, False), rows)
        case Bullets():
            yield from (f"- {_line(item)}" for item in block.items)
        case KeyValues():
            yield from grid(("", ""), (False, False), block.pairs)
        case Code():
            yield from _code(block)
        case Table():
            yield from _table(block)
        case FindingList():
            for group in block.groups:
                yield from _group(group)
        case DotPlot():
            yield from _plot(block)
        case BarChart():
            yield from _table(bar_table(block))
        case DeltaChart():
            yield from _table(delta_table(block))
        case StripChart():
            yield from _table(strip_table(block))
        case HeatMap():
            yield from _table(heat_table(block))
        case LineChart() if block.drawn:
            plot = "\n".join(line.plain.rstrip() for line in plot_lines(block, _PLOT_WIDTH))
            yield from _code(Code(text=plot, caption=block.title))
        case LineChart():
            yield _line(block.title)
            yield ""
            for label, points in line_texts(block):
                yield f"- {_line(label)}" + (f": {escape(points)}" if points else "")
        case Tree():
            lines = [
                f"{lead}{label}{f'  {note}' if note else ''}"
                for lead, label, note in tree_lines(block)
            ]
            caption = "" if block.boxes else block.caption
            yield from _code(Code(text="\n".join(lines), caption=caption))


def grid(
    titles: Iterable[str], right: Iterable[bool], rows: Iterable[Iterable[str]]
) -> Iterable[str]:
    """Format a table of texts, which are escaped here; `right` aligns a column to the right."""
    yield f"| {' | '.join(map(escape, titles))} |"
    yield f"| {' | '.join('---:' if number else '---' for number in right)} |"
    yield from (f"| {' | '.join(map(escape, row))} |" for row in rows)


def _table(table: Table) -> Iterable[str]:
    if table.caption:
        yield f"**{escape(table.caption)}**"
        yield ""
    titles = [
        f"{column.title} ({column.unit})" if column.unit else column.title
        for column in table.columns
    ]
    right = [column.kind is Kind.NUMBER for column in table.columns]
    rows = with_symbols(table).rows
    yield from grid(titles, right, ([_cell(cell) for cell in row] for row in rows))


def _cell(cell: Cell) -> str:
    labels = ",".join(mark.label for mark in cell.marks)
    return f"{cell.text} ({labels})" if labels else cell.text


def _code(code: Code) -> Iterable[str]:
    if code.caption:
        yield f"{_line(code.caption)}:"
        yield ""
    # A fence longer than any in the text cannot be closed by it.
    longest = max((len(run) for run in re.findall(r"`+", code.text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield code.text
    yield fence


def _group(group: FindingGroup) -> Iterable[str]:
    mark = group.mark
    count = f", {len(group.items)} times" if len(group.items) > 1 else ""
    yield f"- **{mark.label} {mark.severity.value}: {escape(mark.code)}**{count}"
    for item in group.items:
        evidence = ", ".join(f"{name} {value}" for name, value in item.evidence)
        numbers = f" ({escape(evidence)})" if evidence else ""
        yield f"  - {_line(item.where)}: {escape(item.message)}{numbers}"
    if group.remedy:
        yield f"  - To do: {escape(group.remedy)}"


def _plot(plot: DotPlot) -> Iterable[str]:
    """List every trial: a wiki draws nothing."""
    yield f"Every trial: {escape(plot.title)}"
    yield ""
    for row in plot.rows:
        yield f"- {_line(row.label)}: {escape(row.listing) or 'missing'}"
