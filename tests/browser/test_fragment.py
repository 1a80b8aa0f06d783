"""Fragments in a notebook's page: drawn, and the page around them is as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from chromium import Watch, opened
from every_block import document
from playwright.sync_api import Browser

from leadline.report.render.html import render_fragment

pytestmark = pytest.mark.browser

NOTEBOOK = (
    '<!doctype html><meta charset="utf-8"><style>h2{color:rgb(0,128,0)}</style>'
    '<h2>Notebook</h2><table id="own"><tr><td class="n bad">own</td></tr></table>'
)
LOOK = """selector => {
  const style = getComputedStyle(document.querySelector(selector));
  return [style.color, style.fontSize, style.textAlign, style.padding, style.backgroundColor];
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_notebook_keeps_its_look(
    browser: Browser, tmp_path: Path, watch: Watch, width: int
) -> None:
    blocks = tuple(block for section in document().sections for block in section.blocks)
    fragments = [render_fragment(replace(document(), front=blocks)), render_fragment(document())]
    looks = []
    for number, content in enumerate((NOTEBOOK, NOTEBOOK + "".join(fragments))):
        path = tmp_path / f"{number}.html"
        path.write_text(content, "utf-8")
        with opened(browser, path, watch, width) as page:
            looks.append([page.evaluate(LOOK, one) for one in ("h2", "#own td", "body")])
            if number:
                assert page.locator(".leadline").count() == 2
                for index in range(2):
                    heading = page.locator(".leadline h2.headline").nth(index)
                    assert heading.evaluate("e => getComputedStyle(e).color") != "rgb(0, 128, 0)"
                band = page.locator(".leadline .band").first
                assert band.evaluate("e => getComputedStyle(e).fill") != "rgb(0, 0, 0)"
                too_wide = "() => document.documentElement.scrollWidth - innerWidth"
                assert page.evaluate(too_wide) <= 0
    assert looks[0] == looks[1]
    assert watch.errors == []
    assert all(url.startswith("file:") for url in watch.requests)
