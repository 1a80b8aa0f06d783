"""Tables, cells and sections of the pages, built from names, numbers and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.metrics import Metric
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    KeyValues,
    Kind,
    Paragraph,
    Scale,
    Section,
    Table,
)
from leadline.report.marks import Marks
from leadline.report.words import MISSING, NOT_SHOWN, absence_text, value_text

# A page cuts longer names; the tooltip has the whole name.
_LONG_NAME = 60
_Record = TypeVar("_Record")


def section(
    heading: str,
    anchor: str,
    *blocks: Block | str | None,
    sections: Iterable[Section] = (),
    folded: bool = False,
    result: str = "",
) -> Section:
    """Build a section; a text becomes a paragraph, None is left out."""
    shown = (Paragraph(text=block) if isinstance(block, str) else block for block in blocks)
    return Section(
        heading=heading,
        id=anchor,
        blocks=tuple(block for block in shown if block is not None),
        sections=tuple(sections),
        folded=folded,
        result=result,
    )


def bullets(items: Iterable[str]) -> Bullets | None:
    """A list; None without items."""
    given = tuple(items)
    return Bullets(items=given) if given else None


def known_pairs(pairs: Iterable[tuple[str, str]]) -> KeyValues:
    """The pairs that have a value."""
    return KeyValues(pairs=tuple((key, text) for key, text in pairs if text))


def facts_table(anchor: str, pairs: Iterable[tuple[str, str]], caption: str = "") -> Table | None:
    """A table without a head: names and texts, of the pairs that have a text; None without any."""
    rows = [pair for pair in pairs if pair[1]]
    return table(anchor, ("", ""), rows, caption=caption) if rows else None


def word(text: str, note: str = "") -> Cell:
    """A cell with a name or a word, sorted as text."""
    return Cell(text=text, sort=text, note=note or (text if len(text) > _LONG_NAME else ""))


def quantity(text: str, value: float, note: str = "") -> Cell:
    """A cell with a number, sorted by its value."""
    return Cell(text=text, sort=float(value), note=note)


def count(value: int) -> Cell:
    return quantity(f"{value:,}", value)


def absent(note: str = "") -> Cell:
    """A dash in place of a number; `note` is the reason."""
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def number(
    value: float | None, text: Callable[[float], str], absence: str = "", note: str = ""
) -> Cell:
    """A cell with a number in the form of `text`; without a number its `absence`."""
    return absent(absence) if value is None else quantity(text(value), value, note)


def number_column(
    title: str, rank: int = 0, unit: str = "", *, scale: Scale | None = None
) -> Column:
    """A column of numbers; a narrow table leaves out the highest rank first."""
    return Column(title=title, kind=Kind.NUMBER, rank=rank, unit=unit, scale=scale)


def table(
    anchor: str,
    columns: Iterable[str | Column],
    rows: Iterable[Iterable[object]],
    *,
    caption: str = "",
    filterable: bool = False,
    choice: str = "",
) -> Table:
    """Build a table; a text becomes a column of words or a cell, an empty cell a dash."""
    made = tuple(Column(title=item) if isinstance(item, str) else item for item in columns)
    return Table(
        id=anchor,
        caption=caption,
        columns=made,
        rows=tuple(
            tuple(_as_cell(item, column) for column, item in zip(made, row, strict=True))
            for row in rows
        ),
        filterable=filterable,
        choice=choice,
    )


def records_table(
    anchor: str,
    records: Iterable[_Record],
    *fields: tuple[str | Column, Callable[[_Record], object]] | None,
    caption: str = "",
    filterable: bool = False,
    choice: str = "",
) -> Table:
    """Build a table with a row for each record. A field is a column with the function that makes
    its cell; None leaves it out."""
    shown = [field for field in fields if field]
    return table(
        anchor,
        [column for column, _ in shown],
        [[cell(record) for _, cell in shown] for record in records],
        caption=caption,
        filterable=filterable,
        choice=choice,
    )


def _as_cell(item: object, column: Column) -> Cell:
    if isinstance(item, Cell):
        return item
    text = str(item) or NOT_SHOWN
    return word(text) if column.kind is Kind.TEXT else Cell(text=text)


def number_cell(
    figure: CellFigure, metric: MetricFigure, marks: Marks, *, rate: Metric = Metric.IOPS
) -> Cell:
    """Format a number with its marks; a missing row shows `missing` in the column of `rate`."""
    labels = marks.for_number(metric.finding_marks)
    if metric.value is None:
        text = MISSING if figure.missing and metric.metric is rate else NOT_SHOWN
        return Cell(text=text, note=absence_text(metric), marks=labels, missing=True)
    notes = [note] if (note := trials_note(metric)) else []
    if metric.interval:
        low, high = (value_text(metric.metric, end) for end in metric.interval)
        notes.append(f"95 % interval {low} to {high}")
    text = value_text(metric.metric, metric.value)
    return Cell(text=text, sort=metric.value, marks=labels, note="; ".join(notes))


# More trials are a range.
_TRIALS_LISTED = 6


def trials_note(metric: MetricFigure) -> str:
    """Word the values of the trials: each, or the range of many; empty for one."""
    values = [trial.value for trial in metric.trials if trial.value is not None]
    if len(values) < 2:
        return ""
    if len(values) <= _TRIALS_LISTED:
        return f"trials {', '.join(value_text(metric.metric, value) for value in values)}"
    low, high = (value_text(metric.metric, end) for end in (min(values), max(values)))
    return f"{len(values)} trials from {low} to {high}"


def trials_cell(figure: CellFigure, marks: Marks) -> Cell:
    findings = [finding for metric in figure.metrics for finding in metric.finding_marks]
    whole = figure.completed == figure.planned
    text = f"{figure.completed}" if whole else f"{figure.completed} of {figure.planned}"
    means = [metric.repeats for metric in figure.metrics if metric.variation is not None]
    if means:
        text = f"mean of {max(means):,}"
    return Cell(text=text, sort=float(figure.completed), marks=marks.for_row(findings))


def slug(name: str) -> str:
    """An anchor's part: lower-case ASCII letters, digits and hyphens, at most 40 characters."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "workload"
