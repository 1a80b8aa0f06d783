"""The fragment for a notebook: no script, no names, no link to elsewhere, all text escaped."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from leadline.report.document import Document, KeyValues
from leadline.report.render.html import render_fragment
from tests.golden.every_block import HOSTILE, document
from tests.hostile_texts import HIDDEN, TEXTS


class Elements(HTMLParser):
    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.depth = 0
        self.outermost = 0
        self.feed(fragment)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag == "div":
            self.outermost += self.depth == 0
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "div"


def whole() -> Document:
    """Every block on the first screen."""
    found = document()
    return replace(found, front=tuple(block for one in found.sections for block in one.blocks))


@pytest.mark.parametrize("given", [document(), whole()], ids=["first section", "every block"])
def test_nothing_runs_loads_or_leaves(given: Document) -> None:
    fragment = render_fragment(given)
    page = Elements(fragment)
    assert page.outermost == 1
    assert not {"script", "iframe", "link", "img", "object", "form", "html"} & set(page.elements)
    own = {"svg", "circle", "rect", "path", "marker", "pattern"} & set(page.elements)
    assert own
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "src"
        if name in ("href", "xlink:href"):
            assert (value or "").startswith("#shape-")
    names = [value for name, value in page.attributes if name == "id"]
    assert all(value and value.startswith(("shape-", "hatch-", "cap")) for value in names)
    assert HOSTILE not in fragment
    assert "url(" not in fragment.replace("url(#", "")


def test_all_of_the_style_is_scoped() -> None:
    fragment = render_fragment(document())
    style = fragment[fragment.index("<style>") + 7 : fragment.index("</style>")]
    assert style.startswith("@scope{")
    depth = 0
    for number, character in enumerate(style):
        depth += (character == "{") - (character == "}")
        assert depth > 0 or number in (*range(7), len(style) - 1)
    assert ":root" not in style
    assert "\nbody{" not in style


def test_hostile_texts_are_escaped() -> None:
    pairs = KeyValues(pairs=tuple((f"name {text}", text) for text in TEXTS))
    given = Document(
        title=TEXTS[0], subtitle="".join(TEXTS), summary=TEXTS, sections=(), front=(pairs,)
    )
    fragment = render_fragment(given)
    page = Elements(fragment)
    assert not {"script", "img", "b"} & set(page.elements)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert not HIDDEN.findall(fragment)


def test_it_is_short_and_the_same_every_time() -> None:
    assert render_fragment(document()) == render_fragment(document())
    found = replace(document(), summary=tuple(f"fact {number}" for number in range(30)))
    assert render_fragment(found).count("<li>fact") == 5
