"""Charts in words: tables and lines for where nothing can be drawn, a wiki or a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from leadline.report.charts.heat import beside
from leadline.report.charts.shapes import SYMBOLS
from leadline.report.document import (
    BarChart,
    Branch,
    Cell,
    Column,
    DeltaChart,
    HeatCell,
    HeatMap,
    Kind,
    LineChart,
    Table,
    Tree,
)

# A ladder has so few points; a distribution is no reading.
_POINTS_TOLD = 12


def symbol(verdict: str) -> str:
    """`▲ better`: a verdict's symbol and its word; other texts as they are."""
    return f"{SYMBOLS[verdict]} {verdict}" if verdict in SYMBOLS else verdict


def with_symbols(table: Table) -> Table:
    """The table with symbols before the words of a column of verdicts."""
    columns = [index for index, column in enumerate(table.columns) if column.title == "verdict"]
    if not columns:
        return table
    rows = tuple(
        tuple(
            replace(cell, text=symbol(cell.text)) if index in columns else cell
            for index, cell in enumerate(row)
        )
        for row in table.rows
    )
    return replace(table, rows=rows)


def bar_table(chart: BarChart) -> Table:
    """A row for each group, a column for each series."""
    return Table(
        id=f"{chart.id}-table",
        caption=chart.title,
        columns=(Column(title=""), *(Column(title=name) for name in chart.series)),
        rows=tuple(
            (
                Cell(text=group.label),
                *(
                    Cell(text="; ".join(one.text for one in group.bars if one.series == index))
                    for index in range(len(chart.series))
                ),
            )
            for group in chart.groups
        ),
    )


def delta_table(chart: DeltaChart) -> Table:
    return Table(
        id=f"{chart.id}-table",
        caption=chart.title,
        columns=(Column(title=""), Column(title="verdict"), Column(title=chart.scale.title)),
        rows=tuple(
            (Cell(text=row.label), Cell(text=row.verdict), Cell(text=row.text))
            for row in chart.rows
        ),
    )


def heat_table(chart: HeatMap) -> Table:
    """Each figure, and how many times the baseline's it is."""
    return Table(
        id=f"{chart.id}-table",
        caption=chart.title
        if chart.relative or not chart.rows
        else f"{chart.title}; × against {chart.rows[chart.baseline]}",
        columns=(
            Column(title=""),
            *(Column(title=title, kind=Kind.NUMBER) for title in chart.columns),
        ),
        rows=tuple(
            (
                Cell(text=label),
                *(
                    Cell(
                        text=" ".join(
                            part for part in (_told(one), beside(chart, index, one)) if part
                        )
                    )
                    for index, one in enumerate(cells)
                ),
            )
            for label, cells in zip(chart.rows, chart.cells, strict=True)
        ),
    )


def _told(cell: HeatCell) -> str:
    return f"{cell.text} (refused)" if cell.refused else cell.text


def line_texts(chart: LineChart) -> list[tuple[str, str]]:
    """(line, its points in words), empty where there are too many to be read."""
    return [
        (line.label, ", ".join(line.texts) if len(line.texts) <= _POINTS_TOLD else "")
        for line in chart.lines
    ]


def tree_lines(tree: Tree) -> list[tuple[str, str, str]]:
    """(branches drawn, label, note) of each place, from the roots down."""
    return [line for root in tree.roots for line in _branch(root, "", "")]


def _branch(branch: Branch, lead: str, below: str) -> Iterator[tuple[str, str, str]]:
    yield lead, branch.label, branch.note
    for index, inner in enumerate(branch.below):
        last = index == len(branch.below) - 1
        yield from _branch(
            inner, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")
        )
