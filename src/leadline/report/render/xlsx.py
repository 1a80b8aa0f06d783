"""Render the tables of a report as an Excel workbook, one sheet for each."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from xlsxwriter import Workbook
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from leadline.findings import Severity
from leadline.report.document import (
    Block,
    Cell,
    Column,
    Columns,
    Document,
    FindingList,
    Kind,
    Section,
    Table,
    printable,
)
from leadline.report.words import NOT_SHOWN

# Excel's limits.
_LONGEST_NAME = 31
_LONGEST_TEXT = 32_767
_MOST_ROWS = 1_048_576
# Characters that no sheet's name may have. Excel reserves the name History.
_REFUSED = re.compile(r"[\[\]:*?/\\]")
_RESERVED = "history"
_MOST_WIDE = 60
# A file must not depend on the time at which it is written.
_CREATED = datetime(2000, 1, 1)

_NUMBER = r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_QUANTITY = rf"(?:[x×] )?({_NUMBER}) ?(%|us|ms|s|B|KiB|MiB|GiB|TiB|IOPS|MiB/s)?"
_VALUE = re.compile(_QUANTITY)
_RANGE = re.compile(rf"{_QUANTITY} to {_QUANTITY}")
_BOTH = re.compile(rf"{_QUANTITY} \({_QUANTITY} to {_QUANTITY}\)")
# Values of the units of time and of size, in seconds and in bytes.
_UNITS = (
    {"us": 1e-6, "ms": 1e-3, "s": 1.0},
    {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
)
_FACTOR = {unit: factor for units in _UNITS for unit, factor in units.items()}
# What a sort key is of: the number that is shown, or the same in another unit.
_KEYS: tuple[Callable[[float], float], ...] = (
    lambda key: key,
    lambda key: key * 100,
    lambda key: (key - 1) * 100,
    lambda key: key * 1e3,
    lambda key: key * 1e6,
    *(lambda key, power=power: key / 2.0**power for power in (10, 20, 30, 40)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    """A number as it is shown, in `unit`, which may be empty; `digits` after the point."""

    value: float
    unit: str
    digits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """`place` is the way to the table on the page, `name` its last part."""

    name: str
    place: str
    table: Table


def render(document: Document) -> bytes:
    """Render a workbook: a summary, a sheet for each table, the findings.

    Numbers are numbers with the unit in the heading; a value with an interval takes three columns.
    What is shown as text stays text: no text becomes a formula, a number or a link. The same
    document gives the same bytes.
    """
    document = printable(document)
    content = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    book = Workbook(content, {**options, "strings_to_numbers": False})
    book.set_properties({"title": document.title[:255], "created": _CREATED})
    formats = _Formats(book)
    names = _Names()
    summary = book.add_worksheet(names.unique("Summary"))
    sheets = [
        _Sheet(name=names.unique(headings[-1]), place=" · ".join(headings), table=table)
        for headings, table in _tables(document)
    ]
    for sheet in sheets:
        _write_table(book.add_worksheet(sheet.name), sheet.table, formats)
    lists = [block for block in _blocks(document) if isinstance(block, FindingList)]
    if any(found.groups for found in lists):
        _write_findings(book.add_worksheet(names.unique("Findings")), lists, formats)
    _write_summary(summary, document, sheets, formats)
    book.close()
    return content.getvalue()


class _Formats:
    def __init__(self, book: Workbook) -> None:
        self._book = book
        self._numbers: dict[tuple[int, bool], Format] = {}
        self.title = book.add_format({"bold": True, "font_size": 14})
        self.heading = book.add_format({"bold": True, "bottom": 1, "text_wrap": True})
        self.text = book.add_format({})
        self.refused = book.add_format({"font_strikeout": True})

    def number(self, digits: int, *, refused: bool) -> Format:
        if (digits, refused) not in self._numbers:
            pattern = "#,##0" + ("." + "0" * digits if digits else "")
            given = {"num_format": pattern, "font_strikeout": refused}
            self._numbers[digits, refused] = self._book.add_format(given)
        return self._numbers[digits, refused]


class _Names:
    """Sheet names: valid, at most 31 characters, and different in more than their case."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def unique(self, name: str) -> str:
        plain = _REFUSED.sub(" ", name)
        plain = " ".join(plain.split()).strip("' ") or "Table"
        number = 1
        while True:
            ending = f" ({number})" if number > 1 else ""
            tried = _utf16_cut(plain, _LONGEST_NAME - len(ending)).rstrip("' ") + ending
            if tried.lower() not in (*self._used, _RESERVED):
                self._used.add(tried.lower())
                return tried
            number += 1


def _utf16_cut(text: str, units: int) -> str:
    """Cut text to so many UTF-16 code units, which is how Excel counts."""
    return text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore")


def _tables(document: Document) -> Iterator[tuple[tuple[str, ...], Table]]:
    """The tables in the order of the page, each with the headings above it."""

    def within(blocks: Iterable[Block], above: tuple[str, ...]) -> Iterator[Any]:
        for block in blocks:
            if isinstance(block, Table):
                yield (*above, block.caption) if block.caption else above, block
            elif isinstance(block, Columns):
                for part, inner in block.parts:
                    yield from within(inner, (*above, f"{part} {above[-1]}"))

    def of_section(section: Section, above: tuple[str, ...]) -> Iterator[Any]:
        headings = (*above, section.heading)
        yield from within(section.blocks, headings)
        for inner in section.sections:
            yield from of_section(inner, headings)

    yield from within(document.front, ("Overview",))
    for section in document.sections:
        yield from of_section(section, ())


def _blocks(document: Document) -> Iterator[Block]:
    waiting = list(reversed(document.sections))
    while waiting:
        section = waiting.pop()
        yield from section.blocks
        waiting += reversed(section.sections)


def _write_table(sheet: Worksheet, table: Table, formats: _Formats) -> None:
    marked = any(cell.marks for row in table.rows for cell in row)
    at = 0
    for index, column in enumerate(table.columns):
        cells = [row[index] for row in table.rows[: _MOST_ROWS - 1]]
        at += _write_column(sheet, at, column, cells, formats)
    if marked:
        texts = [_row_marks(table.columns, row) for row in table.rows[: _MOST_ROWS - 1]]
        _write_texts(sheet, at, "findings", texts, formats)
    sheet.freeze_panes(1, 0)


def _write_column(
    sheet: Worksheet, at: int, column: Column, cells: Sequence[Cell], formats: _Formats
) -> int:
    """Write a column; return the number of columns that it takes."""
    read = [_quantities(cell) if column.kind is Kind.NUMBER else () for cell in cells]
    # Low and high are last; a column of ranges alone has no value in front of them.
    values = any(len(found) in (1, 3) for found in read)
    ranges = any(len(found) in (2, 3) for found in read)
    unit = _unit(read)
    heading = ", ".join(filter(None, (column.title, column.unit)))
    if not values and not ranges:
        _write_texts(sheet, at, heading, [cell.text for cell in cells], formats, cells)
        return 1
    parts = ([""] if values else []) + (["low", "high"] if ranges else [])
    shown_unit = f" ({unit})" if unit else ""
    if unit is None:
        units = [found[0].unit if found else "" for found in read]
        _write_texts(sheet, at + len(parts), f"unit of {heading}", units, formats)
    for offset, part in enumerate(parts):
        title = " ".join(filter(None, (heading, part))) + shown_unit
        sheet.write_string(0, at + offset, title[:_LONGEST_TEXT], formats.heading)
    sheet.set_column(at, at + len(parts) - 1, max(10, min(24, len(heading) + 2)))
    for line, (cell, found) in enumerate(zip(cells, read, strict=True), start=1):
        refused = cell.severity is Severity.ERROR
        if not found and cell.text == NOT_SHOWN:
            # A count of zero is shown as a dash; an absent number leaves its cell empty.
            if cell.sort == 0 and not cell.missing:
                sheet.write_number(line, at, 0, formats.number(0, refused=refused))
        elif not found:
            style = formats.refused if refused else formats.text
            sheet.write_string(line, at, cell.text[:_LONGEST_TEXT], style)
        first = 1 if values and len(found) == 2 else 0
        for offset, quantity in enumerate(found, start=first):
            factor = _FACTOR[quantity.unit] / _FACTOR[unit] if unit in _FACTOR else 1.0
            exact = len(found) != 2 and offset == 0
            value = _exact(quantity, cell.sort) if exact else quantity.value
            style = formats.number(quantity.digits if factor == 1 else 3, refused=refused)
            sheet.write_number(line, at + offset, value * factor, style)
    return len(parts) + (unit is None)


def _write_texts(
    sheet: Worksheet,
    at: int,
    heading: str,
    texts: Sequence[str],
    formats: _Formats,
    cells: Sequence[Cell] = (),
) -> None:
    sheet.write_string(0, at, heading[:_LONGEST_TEXT], formats.heading)
    for line, text in enumerate(texts, start=1):
        refused = bool(cells) and cells[line - 1].severity is Severity.ERROR
        if text:
            style = formats.refused if refused else formats.text
            sheet.write_string(line, at, text[:_LONGEST_TEXT], style)
    widest = max((len(text) for text in (heading, *texts)), default=0)
    sheet.set_column(at, at, max(8, min(_MOST_WIDE, widest + 2)))


def _quantities(cell: Cell) -> tuple[_Quantity, ...]:
    """Read (value,), (low, high) or (value, low, high) from a cell; empty for any other text."""
    for pattern in (_VALUE, _RANGE, _BOTH):
        if found := pattern.fullmatch(cell.text):
            groups = found.groups()
            return tuple(
                _Quantity(
                    value=float(text.replace(",", "")),
                    unit=unit or "",
                    digits=len(text.partition(".")[2]),
                )
                for text, unit in zip(groups[::2], groups[1::2], strict=True)
            )
    return ()


def _unit(read: Iterable[tuple[_Quantity, ...]]) -> str | None:
    """The unit of a column: its only one, or the most frequent one where they convert into each
    other; None for a column of several kinds, such as IOPS and milliseconds."""
    units = Counter(quantity.unit for found in read for quantity in found)
    if len(units) > 1 and not any(units.keys() <= kind.keys() for kind in _UNITS):
        return None
    return max(units, key=lambda unit: (units[unit], unit), default="")


def _exact(quantity: _Quantity, key: float | str | None) -> float:
    """The number of which the shown one is the rounded form, where the sort key is that number."""
    if isinstance(key, float):
        # Trailing zeros are not shown: a rounding is never off by more than half of the last digit.
        off = 0.5 * 10.0**-quantity.digits * (1 + 1e-9)
        for scaled in _KEYS:
            if abs(scaled(key) - quantity.value) <= off:
                return scaled(key)
    return quantity.value


def _row_marks(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    """`IOPS: E1 W2; p99: W2`."""
    return "; ".join(
        f"{column.title}: {' '.join(mark.label for mark in cell.marks)}"
        for column, cell in zip(columns, row, strict=True)
        if cell.marks
    )


def _write_findings(sheet: Worksheet, lists: Iterable[FindingList], formats: _Formats) -> None:
    rows = [
        (
            group.mark.label,
            group.mark.severity.value,
            group.mark.code,
            item.where,
            item.message,
            ", ".join(f"{name} {value}" for name, value in item.evidence),
            group.remedy,
        )
        for found in lists
        for group in found.groups
        for item in group.items
    ][: _MOST_ROWS - 1]
    headings = ("label", "severity", "rule", "place", "finding", "evidence", "to do")
    for at, heading in enumerate(headings):
        _write_texts(sheet, at, heading, [row[at] for row in rows], formats)
    sheet.freeze_panes(1, 0)


def _write_summary(
    sheet: Worksheet, document: Document, sheets: Sequence[_Sheet], formats: _Formats
) -> None:
    sheet.write_string(0, 0, document.title[:_LONGEST_TEXT], formats.title)
    lines = (document.subtitle, "", *document.summary, "")
    for number, text in enumerate(lines, start=1):
        if text:
            sheet.write_string(number, 0, text[:_LONGEST_TEXT])
    first = len(lines) + 1
    for at, heading in enumerate(("sheet", "table", "rows")):
        sheet.write_string(first, at, heading, formats.heading)
    for number, found in enumerate(sheets, start=first + 1):
        sheet.write_string(number, 0, found.name)
        sheet.write_string(number, 1, found.place[:_LONGEST_TEXT])
        sheet.write_number(number, 2, len(found.table.rows))
    sheet.set_column(0, 0, _LONGEST_NAME + 2)
    sheet.set_column(1, 1, _MOST_WIDE)
