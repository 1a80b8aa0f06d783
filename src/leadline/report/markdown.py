"""The report as Markdown for a wiki or an issue: GitHub's tables, nothing that needs a browser."""

from __future__ import annotations

import re
from collections.abc import Iterable

from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Document,
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

# Characters with which text turns into markup anywhere in a line; `<`, `>` and `&` as HTML.
_MARKUP = re.compile(r"([\\`*_{}\[\]|~#!$])")
_LEADING = re.compile(r"^(\s*)([-+=]|\d+[.)])")


def escape(text: str) -> str:
    """Text that reads as it stands, in a paragraph as in a table cell: no markup, no HTML."""
    if set(text) == {"-"}:
        return text
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = _MARKUP.sub(r"\\\1", plain)
    return re.sub(r"\s+", " ", plain)


def _line(text: str) -> str:
    """Escaped text at the beginning of a line, where lists and headings would start."""
    return _LEADING.sub(lambda found: f"{found[1]}\\{found[2]}", escape(text))


def render(document: Document) -> str:
    """The whole document, one line break at the end."""
    lines = [f"# {_line(document.title)}", "", _line(document.subtitle), ""]
    lines += [f"- {_line(text)}" for text in document.summary]
    for section in document.sections:
        lines += ["", *_section(section, 2)]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section, depth: int) -> Iterable[str]:
    yield f"{'#' * min(depth, 6)} {_line(section.heading)}"
    for block in section.blocks:
        yield ""
        yield from _block(block)
    for inner in section.sections:
        yield ""
        yield from _section(inner, depth + 1)


def _block(block: Block) -> Iterable[str]:
    match block:
        case Paragraph():
            yield _line(block.text)
        case Bullets():
            yield from (f"- {_line(item)}" for item in block.items)
        case KeyValues():
            yield from _grid(("", ""), (False, False), block.pairs)
        case Code():
            yield from _code(block)
        case Table():
            yield from _table(block)
        case FindingList():
            yield from _findings(block)
        case DotPlot():
            yield from _plot(block)


def _grid(
    titles: Iterable[str], right: Iterable[bool], rows: Iterable[Iterable[str]]
) -> Iterable[str]:
    """Rows of texts that are not escaped yet."""
    yield f"| {' | '.join(escape(title) for title in titles)} |"
    yield f"| {' | '.join('---:' if number else '---' for number in right)} |"
    for row in rows:
        yield f"| {' | '.join(escape(text) for text in row)} |"


def _table(table: Table) -> Iterable[str]:
    if table.caption:
        yield f"**{escape(table.caption)}**"
        yield ""
    titles = [
        f"{column.title} ({column.unit})" if column.unit else column.title
        for column in table.columns
    ]
    right = [column.kind is Kind.NUMBER for column in table.columns]
    yield from _grid(titles, right, ([_cell(cell) for cell in row] for row in table.rows))


def _cell(cell: Cell) -> str:
    return cell.text + _labels(cell.marks)


def _labels(marks: Iterable[Mark]) -> str:
    labels = ",".join(mark.label for mark in marks)
    return f" ({labels})" if labels else ""


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


def _findings(findings: FindingList) -> Iterable[str]:
    for group in findings.groups:
        yield from _group(group)


def _group(group: FindingGroup) -> Iterable[str]:
    mark = group.mark
    count = f", {len(group.items)} times" if len(group.items) > 1 else ""
    yield f"- **{mark.label} {mark.severity.value}: {escape(mark.code)}**{count}"
    for item in group.items:
        evidence = ", ".join(f"{name} {value}" for name, value in item.evidence)
        numbers = f" ({escape(evidence)})" if evidence else ""
        yield f"  - {escape(item.where)}: {escape(item.message)}{numbers}"
    for remedy in group.remedies:
        yield f"  - To do: {escape(remedy)}"


def _plot(plot: DotPlot) -> Iterable[str]:
    """Every trial as text: a wiki draws nothing."""
    yield f"Every trial: {escape(plot.title)}"
    yield ""
    for row in plot.rows:
        dots = ", ".join(dot.text + (" (outlier)" if dot.outlier else "") for dot in row.dots)
        yield f"- {_line(row.label)}: {escape(dots) or 'missing'}"
