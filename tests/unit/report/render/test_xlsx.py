"""A workbook has every table of a document, numbers as numbers and texts as texts alone."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from zipfile import ZipFile

import pytest
from openpyxl import Workbook, load_workbook

from leadline.findings import Severity
from leadline.report.cells import number_column, quantity, table
from leadline.report.document import Cell, Columns, Document, Mark, Section, Table
from leadline.report.render.xlsx import render
from tests.golden.every_block import document as every_block
from tests.hostile_texts import HIDDEN, TEXTS


def opened(content: bytes) -> Workbook:
    return load_workbook(io.BytesIO(content))


def of_tables(*tables: Table, names: tuple[str, ...] = ()) -> Document:
    headings = names or ("Results",) * len(tables)
    sections = tuple(
        Section(heading=heading, id=f"s{number}", blocks=(made,))
        for number, (heading, made) in enumerate(zip(headings, tables, strict=True))
    )
    return Document(title="Run", subtitle="of a day", summary=("first",), sections=sections)


def column_of(*cells: Cell, unit: str = "", title: str = "value") -> list[list[object]]:
    """The rows of the sheet of a table with one column of numbers."""
    made = table("t", [number_column(title, unit=unit)], [[cell] for cell in cells])
    sheet = opened(render(of_tables(made))).worksheets[1]
    return [list(row) for row in sheet.iter_rows(values_only=True)]


def test_a_number_is_exact_and_has_its_unit_in_the_heading() -> None:
    assert column_of(quantity("3,320", 3320.34), unit="IOPS") == [["value, IOPS"], [3320.34]]
    rows = column_of(quantity("299 us", 2.99031e-4), quantity("310 us", 3.1e-4))
    assert rows == [["value (us)"], [pytest.approx(299.031)], [pytest.approx(310)]]
    assert column_of(quantity("13", 13600111.0), title="MiB/s")[1] == [pytest.approx(12.970076561)]
    assert column_of(quantity("-76.9 %", 0.23123))[:2] == [["value (%)"], [pytest.approx(-76.877)]]
    assert column_of(quantity("57%", 0.567))[1] == [pytest.approx(56.7)]
    assert column_of(quantity("× 0.986", 0.98628))[1] == [0.98628]


def test_without_the_exact_number_the_shown_one_is_written() -> None:
    assert column_of(Cell(text="12"), quantity("4.82", 7.0))[1:] == [[12], [4.82]]


def test_units_of_one_kind_are_converted_to_the_most_frequent_one() -> None:
    rows = column_of(quantity("299 us", 2.99e-4), quantity("1.5 ms", 1.5e-3), Cell(text="2 ms"))
    assert rows == [["value (ms)"], [pytest.approx(0.299)], [pytest.approx(1.5)], [2]]


def test_units_of_several_kinds_have_a_column_of_their_own() -> None:
    rows = column_of(quantity("3,320 IOPS", 3320.0), quantity("1.5 ms", 1.5e-3))
    assert rows == [["value", "unit of value"], [3320, "IOPS"], [pytest.approx(1.5), "ms"]]


def test_an_interval_has_two_columns_and_a_value_with_one_three() -> None:
    cells = (Cell(text="–", missing=True), Cell(text="-80.6 % to -72.4 %"))
    assert column_of(*cells) == [["value low (%)", "value high (%)"], [None, None], [-80.6, -72.4]]
    rows = column_of(quantity("+1.79 ms (+1.44 ms to +2.18 ms)", 0.00179420))
    assert rows == [
        ["value (ms)", "value low (ms)", "value high (ms)"],
        [pytest.approx(1.7942), 1.44, 2.18],
    ]


def test_an_absent_number_is_empty_a_dash_for_none_is_zero_and_words_stay() -> None:
    cells = (
        quantity("4", 4), Cell(text="–", missing=True), Cell(text="–", sort=0.0),
        Cell(text="missing", missing=True), quantity("< 0.001", 1e-9), quantity("1=", 1),
    )  # fmt: skip
    assert column_of(*cells)[1:] == [[4], [None], [0], ["missing"], ["< 0.001"], ["1="]]


def test_marks_are_in_the_last_column_and_a_refused_number_is_struck_out() -> None:
    marks = tuple(
        Mark(label=severity.value[0].upper() + "1", code="code", severity=severity)
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    made = table(
        "t",
        ["target", number_column("IOPS")],
        [["a", Cell(text="5", sort=5.0, marks=marks)], ["b", "6"]],
    )
    sheet = opened(render(of_tables(made))).worksheets[1]
    rows = [list(row) for row in sheet.iter_rows(values_only=True)]
    assert rows == [["target", "IOPS", "findings"], ["a", 5, "IOPS: E1 W1"], ["b", 6, None]]
    assert [bool(sheet.cell(row, 2).font.strike) for row in (2, 3)] == [True, False]


def test_sheet_names_are_valid_and_unique() -> None:
    names = (
        "Results", "RESULTS", "results: [a/b]?*\\", "History", "'quoted'", "", "'",
        "a" * 300, "a" * 31 + "b", "💾" * 40, "אחסון-מהיר", *TEXTS,
    )  # fmt: skip
    made = [table(f"t{number}", ["x"], [["1"]]) for number in range(len(names))]
    book = opened(render(of_tables(*made, names=names)))
    found = book.sheetnames
    assert len(found) == len(names) + 1
    assert len({name.lower() for name in found}) == len(found)
    assert "history" not in {name.lower() for name in found}
    for name in found:
        assert 0 < len(name.encode("utf-16-le")) // 2 <= 31
        assert not re.search(r"[\[\]:*?/\\]|^'|'$", name)
        assert not HIDDEN.search(name)


def test_no_text_becomes_a_formula_a_link_or_a_number() -> None:
    texts = (*TEXTS, "=1+1", "1e5", "0012", "http://evil.example/", "mailto:a@b", "{=SUM(1)}")
    made = table("t", list(texts), [[text or "x" for text in texts]])
    content = render(of_tables(made))
    sheet = opened(content).worksheets[1]
    assert sheet.max_column == len(texts)
    for cell in (cell for row in sheet.iter_rows() for cell in row):
        assert cell.data_type == "s"
        assert cell.hyperlink is None
        assert not HIDDEN.search(cell.value)
    with ZipFile(io.BytesIO(content)) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    assert not [name for name in parts if "externalLink" in name or "vba" in name]
    assert not [name for name, text in parts.items() if "<f>" in text or "<hyperlink" in text]
    assert not [name for name, text in parts.items() if 'TargetMode="External"' in text]


def test_the_same_document_gives_the_same_bytes() -> None:
    assert render(every_block()) == render(every_block())


def _tables(document: Document) -> Iterator[Table]:
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Table):
                yield block
            elif isinstance(block, Columns):
                yield from (one for _, inner in block.parts for one in inner if type(one) is Table)


def test_every_table_of_a_document_is_a_sheet_with_all_rows() -> None:
    document = every_block()
    tables = list(_tables(document))
    book = opened(render(document))
    assert book.sheetnames[0] == "Summary"
    assert book.sheetnames[-1] == "Findings"
    sheets = book.worksheets[1:-1]
    assert len(sheets) == len(tables) > 1
    for sheet, made in zip(sheets, tables, strict=True):
        assert sheet.max_row == len(made.rows) + 1
        assert sheet.cell(2, 1).value == made.rows[0][0].text
    summary = [cell.value for cell in book.worksheets[0]["A"]]
    assert summary[0] == document.title
    assert set(document.summary) <= set(summary)
    assert set(book.sheetnames[1:-1]) <= set(summary)
