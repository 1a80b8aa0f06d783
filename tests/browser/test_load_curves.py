"""Load curves on a page: one workload at a time, readable on a phone and without colour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Watch, opened
from playwright.sync_api import Browser, Page, expect

from leadline.report.curves import PageBudget
from leadline.report.document import Document
from leadline.report.marks import Marks
from leadline.report.pages.scaling.page import curve_section, scaling_page
from leadline.report.render import html
from tests.unit.report.pages.scaling.studies import (
    neighbours,
    offered,
    run_of,
    saturating,
    study_of,
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    levels = [
        *saturating(), *saturating(target="other", scale=1.7),
        offered(1_500.0, 0.02), offered(2_500.0, 0.05), neighbours(2, 380),
        *saturating(workload="randwrite", loads=(1, 2, 4)),
    ]  # fmt: skip
    study = study_of(run_of(*levels), limit="p99<200ms")
    made = Document(
        title="Load", subtitle="", summary=("A sentence.",),
        sections=curve_section(study, Marks(()), PageBudget()),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "load.html"
    path.write_text(html.render(made), "utf-8")
    return path


@pytest.fixture(params=[1280, 390])
def page(
    browser: Browser, report: Path, watch: Watch, request: pytest.FixtureRequest
) -> Iterator[Page]:
    with opened(browser, report, watch, request.param) as page:
        yield page
    assert watch.errors == []


def test_one_workload_is_seen_until_another_is_chosen(page: Page) -> None:
    first, second = page.locator("#load-1-load"), page.locator("#load-2-load")
    expect(first).to_be_visible()
    expect(second).to_be_hidden()
    page.locator("#load-curve").select_option("load-2")
    expect(first).to_be_hidden()
    expect(second).to_be_visible()
    expect(page.locator("#load-2-levels")).to_be_visible()
    expect(page.locator("#load-1-levels")).to_be_hidden()


def test_the_page_is_no_wider_than_its_window(page: Page) -> None:
    wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= view


def test_what_is_drawn_lies_within_its_plot(page: Page) -> None:
    outside = page.evaluate(
        """[...document.querySelectorAll('.plot>svg')].filter((one) => one.checkVisibility())
          .flatMap((plot) => {
            const box = plot.getBoundingClientRect();
            return [...plot.querySelectorAll('.point,.speck,.ring,.rule')].filter((one) => {
              const mine = one.getBoundingClientRect();
              const x = (mine.left + mine.right) / 2, y = (mine.top + mine.bottom) / 2;
              return x < box.left - 1 || x > box.right + 1 || y < box.top - 1 || y > box.bottom + 1;
            }).map((one) => one.outerHTML);
          })"""
    )
    assert outside == []


def test_a_tooltip_has_level_and_numbers(page: Page) -> None:
    titles = page.locator("#load-1-response .point title").all_text_contents()
    assert any("c4-qd32x1" in one and "IOPS" in one and "p99" in one for one in titles)
    assert any("offered 1,500 IOPS" in one for one in titles)
    knees = page.locator("#load-1-load .ring title").all_text_contents()
    assert len(knees) == 2
    assert all(one.startswith("knee at 6 clients") for one in knees)


def test_closed_and_open_loop_differ_by_more_than_colour(page: Page) -> None:
    filled, hollow = (
        page.locator(f"#load-1-response .point{one}").first.evaluate(
            "(one) => getComputedStyle(one).fill"
        )
        for one in (":not(.hollow)", ".hollow")
    )
    assert filled != hollow
    dashes = page.locator("#load-1-response polyline").evaluate_all(
        "(lines) => lines.map((one) => getComputedStyle(one).strokeDasharray)"
    )
    assert len(set(dashes)) == 4


# --- the page of `leadline scale` ---------------------------------------------------------------

HOSTILE = ("<img src=x onerror=alert(1)>", "pool-" + "x" * 295, "אחסון-מהיר")


@pytest.fixture(scope="module", params=["curves", "systems"])
def scaled(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    levels = [one for name in HOSTILE for one in saturating(target=name)]
    runs = [run_of(*levels, offered(1_500.0, 0.02, target=HOSTILE[0]), name="three-hosts")]
    if request.param == "systems":
        runs.append(run_of(*levels, name="five-hosts", hosts=5))
    path = tmp_path_factory.mktemp("scaled") / "page.html"
    path.write_text(html.render(scaling_page(study_of(*runs, limit="p99<200ms"))), "utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_curves_fits_and_is_quiet(
    browser: Browser, scaled: Path, watch: Watch, width: int
) -> None:
    with opened(browser, scaled, watch, width) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= view
        assert page.locator("img").count() == 0
        # Every picture has a name, every heading level follows the one above it.
        assert page.locator("svg[role=img]:not([aria-label])").count() == 0
        levels = page.evaluate(
            "[...document.querySelectorAll('main h1,main h2,main h3')].map(one => +one.tagName[1])"
        )
        assert levels[0] == 1
        # Tiles come before the first section: their titles are below the page's heading.
        assert levels.count(1) == 1
    assert watch.requests == [scaled.as_uri()]
    assert watch.errors == []


def test_the_first_screen_has_the_pictures(browser: Browser, scaled: Path, watch: Watch) -> None:
    with opened(browser, scaled, watch, 1280) as page:
        box = page.locator(".front .plot").first.bounding_box()
        assert box is not None
        assert box["y"] < 900
        words = page.evaluate(
            """() => {
              const main = document.querySelector('main').cloneNode(true);
              const rest = 'table,figure,svg,script,.tools';
              main.querySelectorAll(rest).forEach((one) => one.remove());
              return main.textContent.match(/\\S+/g).length;
            }"""
        )
        assert words <= 600
