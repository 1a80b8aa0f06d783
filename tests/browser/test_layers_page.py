"""The page of a layer study: the drawn stack is on the first screen, and fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Watch, opened
from playwright.sync_api import Browser, expect

from leadline.analysis.layers.study import layer_study
from leadline.report.pages.layer_overview import layers_page
from leadline.report.render import html
from tests.unit.analysis.layers.streams import stack, stream_run

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("layers")
    slow = {"throughput_bps": 1.2e7, "size": 1.1e4, "latency_s": 1.2e-3}
    cells = {name: (stack(4096), [slow, slow]) for name in (HOSTILE, "x" * 200)}
    path = folder / "page.html"
    path.write_text(html.render(layers_page(layer_study(stream_run(folder / "r", cells)))), "utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_the_stack_is_on_the_first_screen(
    browser: Browser, report: Path, watch: Watch, width: int
) -> None:
    with opened(browser, report, watch, width) as page:
        box = page.locator("#stack").bounding_box()
        assert box is not None
        assert box["y"] < 900
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= view
        assert page.locator("img").count() == 0
        # No number lies over a bar.
        covered = page.evaluate(
            """[...document.querySelectorAll('#stack td.drawn')].filter((cell) => {
                 const bar = cell.querySelector('svg'), text = cell.querySelector('bdi');
                 const range = document.createRange();
                 range.selectNodeContents(text ?? cell.lastChild);
                 return bar && range.getBoundingClientRect().left
                   < bar.getBoundingClientRect().right - 1;
               }).map((cell) => cell.textContent)"""
        )
        assert covered == []
    assert watch.requests == [report.as_uri()]
    assert watch.errors == []


def test_another_cell_is_chosen(browser: Browser, report: Path, watch: Watch) -> None:
    with opened(browser, report, watch, 1280) as page:
        select = page.locator("#stack-cell")
        values = select.locator("option").evaluate_all("all => all.map((one) => one.value)")
        assert len(values) == 2
        charts = page.locator("#stacks figure")
        expect(charts.nth(0)).to_be_visible()
        expect(charts.nth(1)).to_be_hidden()
        select.select_option(values[1])
        expect(charts.nth(1)).to_be_visible()
