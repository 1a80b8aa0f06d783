"""Labels of findings in a terminal: once for each row where its numbers share them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from leadline.findings import Severity
from leadline.report.cells import number_column
from leadline.report.document import Cell, Column, Document, Mark, Section, Table
from leadline.report.render.terminal import render

W1 = Mark(label="W1", code="client-saturated", severity=Severity.WARNING)
W2 = Mark(label="W2", code="unstable-repeats", severity=Severity.WARNING)
E1 = Mark(label="E1", code="unwritten-reads", severity=Severity.ERROR)
I1 = Mark(label="I1", code="too-few-samples", severity=Severity.INFO)


def printed(*rows: tuple[tuple[Mark, ...], ...]) -> list[str]:
    """The lines of a table with a name, two numbers and a count, whose cells have these marks."""
    table = Table(
        id="t",
        caption="",
        columns=(
            Column(title="target"),
            number_column("IOPS"),
            number_column("p99"),
            number_column("trials"),
        ),
        rows=tuple(
            (
                Cell(text=f"t{at}"),
                *(
                    Cell(text=text, sort=1.0, marks=marks)
                    for text, marks in zip(("100", "2 ms", "3"), cells, strict=True)
                ),
            )
            for at, cells in enumerate(rows)
        ),
    )
    document = Document(
        title="x",
        subtitle="",
        summary=(),
        sections=(Section(heading="Results", id="r", blocks=(table,)),),
    )
    stream = io.StringIO()
    render(Console(file=stream, width=80), document)
    return stream.getvalue().splitlines()[-len(rows) - 1 :]


def test_labels_that_all_numbers_of_a_row_share_are_its_last_column() -> None:
    head, *rows = printed(((W1, W2), (W1, W2), (I1,)), ((), (), (I1,)), ((W1,), (W1,), ()))
    assert head.split()[-1] == "findings"
    assert [row.split()[5:] for row in rows] == [["W1", "W2", "I1"], ["I1"], ["W1"]]


@pytest.mark.parametrize(
    "second", [((W1,), (), ()), ((W1,), (W1, W2), ()), ((E1,), (E1,), ())], ids=str
)
def test_where_numbers_differ_or_are_refused_each_has_its_own(
    second: tuple[tuple[Mark, ...], ...],
) -> None:
    head, first, last = printed(((W1,), (W1,), ()), second)
    assert "findings" not in head
    assert first.split() == ["t0", "100", "W1", "2", "ms", "W1", "3"]
    assert last.split()[2] == second[0][0].label


def test_information_alone_adds_no_column() -> None:
    head, row = printed(((), (), (I1,)))
    assert "findings" not in head
    assert row.split()[-1] == "I1"
