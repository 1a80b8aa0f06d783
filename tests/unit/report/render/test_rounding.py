"""Two neighbouring doubles, as two processors compute a number, are written as the same text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from leadline.report.answers.base import FindingOutput
from leadline.report.document import Document
from leadline.report.render import html, markdown, terminal
from leadline.report.render.rows import render_rows
from leadline.report.words import change_text, evidence_text, percent_text, share_text
from tests.golden.every_block import document

HERE, THERE = 0.6703578413780484, 0.6703578413780485
ROUNDED = "0.670357841378"


def as_computed_there(part: Any) -> Any:
    """Replace each number of a document with the next double."""
    if type(part) is tuple:
        return tuple(map(as_computed_there, part))
    if type(part) is float:
        return math.nextafter(part, math.inf)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    names = [field.name for field in dataclasses.fields(part)]
    return dataclasses.replace(
        part, **{name: as_computed_there(getattr(part, name)) for name in names}
    )


def in_a_terminal(shown: Document) -> str:
    stream = StringIO()
    terminal.render(Console(file=stream, width=100), shown, full=True)
    return stream.getvalue()


@pytest.mark.parametrize("render", [in_a_terminal, markdown.render, html.render])
def test_documents(render: Callable[[Document], str]) -> None:
    here = document()
    there = as_computed_there(here)
    assert there != here
    assert render(there) == render(here)


def test_a_workbook() -> None:
    from leadline.report.render.xlsx import render

    assert render(as_computed_there(document())) == render(document())


@pytest.mark.parametrize("output", ["csv", "csv-raw", "markdown", "text"])
def test_tables(output: str) -> None:
    here, there = (render_rows(["value"], [[value]], output) for value in (HERE, THERE))
    assert here == there
    assert ROUNDED in here
    assert str(1 << 60) in render_rows(["value"], [[1 << 60]], output)


def finding(evidence: dict[str, float], message: str = "") -> str:
    places = dict.fromkeys(("code", "severity", "target", "workload", "level", "remedy"), "")
    return FindingOutput(
        **places, op=None, trial=None, evidence=evidence, message=message
    ).to_json()


def test_json() -> None:
    here, there = (finding({"share": value}) for value in (HERE, THERE))
    assert here == there
    assert f'"share": {ROUNDED}' in here


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.2325167797358958e-9, "1.23251677974e-9"),
        (-1.2325167797358958e20, "-1.2325167797358957e+20"),
        (float(4 << 40), "4398046511104.0"),
        (1764288000.0, "1764288000.0"),
        (0.1, "0.1"),
    ],
)
def test_numbers_of_json_keep_their_form(value: float, written: str) -> None:
    assert f'"number": {written}\n' in finding({"number": value})


def test_digits_in_texts_of_json_stay() -> None:
    text = f"{HERE} \n {HERE},\n{HERE}"
    assert finding({}, text).count(str(HERE)) == 3
    assert f'"{HERE}": 1.0' in finding({str(HERE): 1.0})


@pytest.mark.parametrize(
    ("text", "middle"),
    [
        (share_text, 0.0125 / 2),
        (percent_text, 0.03125 / 2),
        (change_text, 12.25),
        (lambda value: evidence_text("number", value), 123.45),
    ],
)
def test_words(text: Callable[[float], str], middle: float) -> None:
    assert text(math.nextafter(middle, 0)) == text(middle) == text(math.nextafter(middle, 99))
