"""Every kind of page holds still while it loads, fits a phone, and works without its script."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from page_kinds import TEMPLATES, make_large_pages
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
UNFOLD = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
# Resolves two frames later, when shifts of the script's changes are counted.
SHIFTS = """new Promise((done) => {
  let sum = 0;
  const moved = [];
  new PerformanceObserver((list) => {
    for (const shift of list.getEntries()) {
      sum += shift.value;
      moved.push(...shift.sources.map(({ node }) => node && (node.id || node.nodeName)));
    }
  }).observe({ type: "layout-shift", buffered: true });
  const end = () => setTimeout(() => done([sum, moved]), 50);
  requestAnimationFrame(() => requestAnimationFrame(end));
})"""
PAINTED = "performance.getEntriesByName('first-contentful-paint').length > 0"


@contextmanager
def _held(path: Path) -> Iterator[tuple[str, threading.Event]]:
    """The address of a page whose script is sent after the event: the page is painted before."""
    content, go_on = path.read_bytes(), threading.Event()
    cut = content.rindex(b"<script>")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content[:cut])
            self.wfile.flush()
            go_on.wait(60)
            self.wfile.write(content[cut:])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", go_on
        go_on.set()
        server.shutdown()


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_page_holds_still_and_fits_a_phone(
    browser: Browser, pages: dict[str, Path], kind: str
) -> None:
    _holds_still_and_fits(browser, pages[kind], 390)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_page_holds_still_and_fits_a_screen(
    browser: Browser, pages: dict[str, Path], kind: str
) -> None:
    _holds_still_and_fits(browser, pages[kind], 1280)


@pytest.mark.thorough
def test_pages_of_200_targets_hold_still_and_fit(browser: Browser, tmp_path: Path) -> None:
    for path in make_large_pages(tmp_path).values():
        for width in (1280, 390):
            _holds_still_and_fits(browser, path, width)


def _holds_still_and_fits(browser: Browser, path: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 844})
    with _held(path) as (address, go_on):
        page.goto(address, wait_until="commit")
        # The page's policy lets the browser evaluate no code of the library's own polling.
        while not page.evaluate(PAINTED):
            page.wait_for_timeout(20)
        go_on.set()
        page.wait_for_load_state("load")
        shifted, moved = page.evaluate(SHIFTS)
    assert shifted < 0.01, moved
    page.evaluate(UNFOLD)
    wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= view
    assert _outside(page) == []
    page.close()


def _outside(page: Page) -> list[str]:
    """Texts that stick out of the window, where nothing scrolls or cuts them."""
    found: list[str] = page.evaluate(
        """[...document.querySelectorAll("main :is(h1,h2,h3,p,li,dd,figcaption,.end,.figure)")]
        .filter((one) => one.getClientRects().length
          && !one.closest(".scroll, pre, .boxes, .unseen")
          && one.getBoundingClientRect().right > innerWidth + 1)
        .map((one) => one.textContent.slice(0, 80))"""
    )
    return found


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_page_works_without_script(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages[kind].as_uri())
    assert page.locator("h1:visible").count() == 1
    assert page.locator(".needs-js:visible, .find:visible, #theme:visible").count() == 0
    hidden = page.locator("[data-choice]:not(details:not([open]) *)").evaluate_all(
        "(all) => all.filter((one) => !one.getClientRects().length).map((one) => one.id)"
    )
    assert hidden == []
    # Paper has what is folded, too.
    page.emulate_media(media="print")
    folded = page.locator("details:not([open]) > :last-child").evaluate_all(
        "(all) => all.filter((one) => !one.getClientRects().length).map((one) => one.id)"
    )
    assert folded == []
    context.close()
