"""Every kind of page passes axe-core in both colour schemes, and works by keyboard and on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from page_kinds import TEMPLATES
from playwright.sync_api import Browser, BrowserContext, Page, expect

pytestmark = pytest.mark.browser
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text("utf-8")
UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(
        viewport={"width": 1280, "height": 900},
        permissions=["clipboard-read", "clipboard-write"],
    )
    yield made
    made.close()


def _opened(context: BrowserContext, path: Path, fragment: str = "") -> Page:
    page = context.new_page()
    page.goto(path.as_uri() + fragment)
    return page


@pytest.mark.parametrize("kind", TEMPLATES)
def test_axe_finds_no_violation(context: BrowserContext, pages: dict[str, Path], kind: str) -> None:
    page = _opened(context, pages[kind])
    page.evaluate(UNFOLD)
    page.evaluate(AXE)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert _violations(page, "{}", passed=15) == []
    # The dark scheme differs in its colours only.
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in re.findall(r"\d+", dark)[:3]) < 200
    assert _violations(page, "{ runOnly: ['color-contrast'] }", passed=0) == []


def _violations(page: Page, options: str, *, passed: int) -> list[tuple[str, str, str]]:
    """What axe-core finds. More than `passed` rules must have passed: otherwise it saw nothing."""
    found = page.evaluate(f"axe.run(document, {{ resultTypes: ['violations'], ...{options} }})")
    assert len(found["passes"]) > passed
    return [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"])
        for one in found["violations"]
    ]


def test_selectors_narrow_tables_and_charts_and_the_address_keeps_them(
    context: BrowserContext, pages: dict[str, Path]
) -> None:
    page = _opened(context, pages["comparison"])
    rows = page.locator("table.filterable:visible tbody tr:visible")
    every = rows.count()
    page.locator("#only-target").select_option("slow")
    assert 0 < rows.count() < every
    names = rows.locator("th").all_text_contents()
    assert set(names) == {"slow"}
    labels = page.locator("#overview .rows li:not(.group):visible .name").all_text_contents()
    assert set(labels) == {"slow"}
    again = _opened(context, pages["comparison"], "#" + page.url.partition("#")[2])
    expect(again.locator("#only-target")).to_have_value("slow")
    expect(again.locator("#filter-count")).to_have_text(page.locator("#filter-count").inner_text())
    again.locator("#only-target").select_option("")
    assert again.locator("table.filterable:visible tbody tr:visible").count() == every


def test_the_index_is_filtered_by_target_workload_and_word(
    context: BrowserContext, pages: dict[str, Path]
) -> None:
    page = _opened(context, pages["index"])
    runs = page.locator("#runs tbody tr:visible")
    assert runs.count() == 2
    page.locator("#filter").fill("before")
    assert runs.count() == 1
    page.locator("#filter").fill("")
    page.locator("#only-workload").select_option("randread-4k")
    assert runs.count() == 2
    page.locator("#filter").fill("no such run")
    expect(page.locator("#runs")).to_be_hidden()


def test_the_index_leads_to_its_pages_without_script(
    browser: Browser, pages: dict[str, Path]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = _opened(context, pages["index"])
    assert page.locator("#runs tbody tr:visible").count() == 2
    expect(page.locator("#filter")).to_be_hidden()
    page.locator("#runs a").first.click()
    assert page.url.endswith(".html")
    assert "Run perf-" in page.title()
    context.close()


def test_the_trials_of_a_row_unfold_by_keyboard_and_by_click(
    context: BrowserContext, pages: dict[str, Path]
) -> None:
    page = _opened(context, pages["comparison"])
    button = page.locator(".unfold:visible").first
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr.more")).to_contain_text("trials 20,130, 20,130")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Enter")
    expect(page.locator("tr.more")).to_have_count(0)
    page.locator("tr:has(.unfold):visible td").nth(2).click()
    expect(page.locator("tr.more")).to_have_count(1)
    page.locator("th[aria-sort] button:visible").first.click()
    expect(page.locator("tr.more")).to_have_count(0)


def _copied(page: Page, ask: str, done: Callable[[Any], bool]) -> Any:
    """What the clipboard answers as soon as that is `done`. The button says so for a second only,
    which a busy machine may miss."""
    for _ in range(300):
        answer = page.evaluate(ask)
        if done(answer):
            return answer
        page.wait_for_timeout(200)
    return pytest.fail(f"the clipboard has {answer!r}")


def test_a_chart_is_copied_as_svg_and_as_png(
    context: BrowserContext, pages: dict[str, Path]
) -> None:
    page = _opened(context, pages["comparison"])
    errors: list[str] = []
    page.on("console", lambda one: errors.append(one.text))
    figure = page.locator("figure:visible").first
    button = figure.get_by_label("Copy this chart as SVG")
    button.focus()
    page.evaluate("navigator.clipboard.writeText('')")
    page.keyboard.press("Enter")
    text = _copied(page, "navigator.clipboard.readText()", bool)
    assert text.startswith("<svg")
    shown = page.evaluate(
        """(text) => { const made = new DOMParser().parseFromString(text, "image/svg+xml");
        return [made.querySelector("parsererror") === null, made.documentElement.textContent]; }""",
        text,
    )
    assert shown[0]
    assert "fast" in shown[1]
    button = figure.get_by_label("Copy this chart as PNG")
    button.focus()
    page.keyboard.press("Enter")
    types = "navigator.clipboard.read().then((items) => items[0].types)"
    _copied(page, types, lambda found: "image/png" in found)
    size = page.evaluate(
        """async () => { const [item] = await navigator.clipboard.read();
        const image = await createImageBitmap(await item.getType("image/png"));
        return [image.width, image.height]; }"""
    )
    assert size[0] > 600
    assert size[1] > 100
    assert errors == []


def test_everything_is_reached_by_the_tab_key(
    context: BrowserContext, pages: dict[str, Path]
) -> None:
    """Each focused control is seen: it has a size and an outline."""
    page = _opened(context, pages["index"])
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found = json.loads(
            page.evaluate(
                """(() => { const at = document.activeElement, look = getComputedStyle(at);
                const box = at.getBoundingClientRect();
                return JSON.stringify([at.id || at.className || at.tagName, box.width > 0,
                look.outlineStyle !== "none", look.opacity !== "0"]); })()"""
            )
        )
        if found[0] == "BODY":
            break
        reached.append(found)
    names = [found[0] for found in reached]
    assert {"only-target", "filter", "theme"} <= set(names)
    assert all(all(found[1:]) for found in reached), reached


@pytest.mark.parametrize("kind", TEMPLATES)
def test_paper_has_no_controls_and_cuts_nothing(
    context: BrowserContext, pages: dict[str, Path], kind: str
) -> None:
    page = _opened(context, pages[kind])
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 760, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    visible = page.locator("nav, .copy, .tools, .unfold, select").evaluate_all(
        "(all) => all.filter((one) => one.getClientRects().length).map((one) => one.outerHTML)"
    )
    assert visible == []
    wide = page.evaluate(
        """[...document.querySelectorAll("main h1, main p, main li")].filter((one) =>
        one.getClientRects().length && one.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert wide == 0
