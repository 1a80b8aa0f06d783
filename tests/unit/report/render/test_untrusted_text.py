"""Untrusted text in any place of a document: no renderer passes a control character on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from leadline.report.document import Code, Document, Section, printable
from leadline.report.render import html, markdown, terminal
from leadline.report.render.rows import render_rows
from leadline.report.render.svg import draw
from tests.golden.every_block import document

EVIL = "\x1b[31m\x9b\u202e\x00\r\n\x85\u2028<script>x</script>"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]")


def hostile(part: Any) -> Any:
    """The same with untrusted text in place of every text but the identifiers."""
    if type(part) is tuple:
        return tuple(map(hostile, part))
    if type(part) is str:
        return part + EVIL
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    kept = ("id", "choice", "options")
    fields = [field.name for field in dataclasses.fields(part) if field.name not in kept]
    return dataclasses.replace(part, **{name: hostile(getattr(part, name)) for name in fields})


def in_a_terminal(given: Document) -> str:
    stream = StringIO()
    terminal.render(Console(file=stream, width=100), given, full=True)
    return stream.getvalue()


def pictures(given: Document) -> str:
    text, files = markdown.render_with_pictures(given, "pictures")
    for picture in files.values():
        ElementTree.fromstring(picture)
    return text + "".join(files.values())


@pytest.mark.parametrize("render", [in_a_terminal, markdown.render, html.render, pictures])
def test_no_control_character_leaves_a_renderer(render: Callable[[Document], str]) -> None:
    text = render(hostile(document()))
    assert not CONTROL.findall(text.replace(html._source("page.js"), ""))
    assert "\\x1b" in text or "\\\\x1b" in text
    if render is html.render:
        assert "<script>x" not in text


def test_only_code_has_lines() -> None:
    code = Code(text="a\n\tb\x1b", caption="c\nd")
    shown = printable(Document(
        title="t\nu", subtitle="", summary=(),
        sections=(Section(heading="", id="s", blocks=(code,)),),
    ))  # fmt: skip
    assert shown.title == r"t\nu"
    assert shown.sections[0].blocks == (Code(text="a\n    b\\x1b", caption=r"c\nd"),)


def test_a_chart_drawn_by_itself_is_escaped() -> None:
    def charts(section: Section) -> Iterator[Any]:
        yield from (block for block in section.blocks if hasattr(block, "title"))
        for inner in section.sections:
            yield from charts(inner)

    found = [chart for section in document().sections for chart in charts(section)]
    assert found
    for chart in found:
        picture = draw(hostile(chart))
        ElementTree.fromstring(picture)
        assert not CONTROL.findall(picture)


@pytest.mark.parametrize("output", ["text", "csv", "markdown"])
def test_rows_of_any_format_are_escaped(output: str) -> None:
    shown = render_rows(("name", "value"), [(EVIL, 1)], output)
    assert not CONTROL.findall(shown)
    assert len(shown.splitlines()) == (2 if output == "csv" else 3)
