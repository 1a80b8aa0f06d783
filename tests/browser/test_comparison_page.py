"""The page of a comparison in a real Chromium: whatever its names, it fits, and stays quiet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan
from chromium import Watch, opened
from playwright.sync_api import Browser, Page

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, two_runs
from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.report.answers.comparison import compare_csv, compare_output
from leadline.report.pages.comparison.page import comparison_document
from leadline.report.render import html

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"
NAMES = ["disk", HOSTILE, "x" * 300, "אחסון-מהיר-2", *(f"pool-{n:02d}" for n in range(60))]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    runs = [make_run(folder, small_plan(NAMES), run_id=name, recorded_for=lambda _: "disk")
            for name in ("before", "after")]  # fmt: skip

    def judged(run: Run) -> tuple[tuple[object, ...], tuple[object, ...]]:
        return figures(run, ()), ()

    found = compare(*two_runs(*runs, judged), by=By.RUN)  # type: ignore[arg-type]
    document = comparison_document(found)
    answer = compare_output(found, document.summary[0])
    download = html.Download(
        name="after-against-before.csv", media_type="text/csv", text=compare_csv(answer)
    )
    path = folder / "page.html"
    path.write_text(html.render(document, [download]), "utf-8")
    return path


@pytest.fixture(params=[1280, pytest.param(390, marks=pytest.mark.thorough)])
def page(
    browser: Browser, report: Path, watch: Watch, request: pytest.FixtureRequest
) -> Iterator[Page]:
    with opened(browser, report, watch, request.param) as page:
        yield page


def test_it_fits_and_sends_no_request(page: Page, report: Path, watch: Watch) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= view
    assert watch.requests == [report.as_uri()]
    assert watch.errors == []
    assert page.locator("img").count() == 0
    assert page.get_by_text(HOSTILE, exact=True).count() > 0
    assert report.stat().st_size < 3_000_000


def test_the_first_picture_is_on_the_first_screen(page: Page) -> None:
    top = page.locator(".panels figure").first.evaluate("(one) => one.getBoundingClientRect().top")
    assert 0 < top < 900
    assert page.locator(".tiles > div").count() == 4
    # Marks stay inside their panels, and a panel inside its column.
    for panel in page.locator(".panels figure").all():
        inner, outer = panel.evaluate("(one) => [one.scrollWidth, one.clientWidth]")
        assert inner <= outer + 1


def test_a_long_table_scrolls_by_itself_with_its_head_in_sight(page: Page) -> None:
    frame = page.locator(".scroll.long:visible").first
    tall, shown = frame.evaluate("(one) => [one.scrollHeight, one.clientHeight]")
    assert tall > shown
    frame.evaluate("(one) => { one.scrollTop = 500; }")
    top = frame.evaluate(
        "(one) => one.querySelector('thead th').getBoundingClientRect().top"
        " - one.getBoundingClientRect().top"
    )
    assert abs(top) < 2


def test_a_verdict_keeps_its_sign(page: Page) -> None:
    heights = page.locator("td.verdict:visible").evaluate_all(
        "(cells) => cells.slice(0, 20).map((one) => one.getBoundingClientRect().height"
        " / parseFloat(getComputedStyle(one).lineHeight))"
    )
    lines = page.locator("td.verdict:visible bdi").evaluate_all(
        "(all) => all.slice(0, 20).map((one) => getComputedStyle(one).display)"
    )
    assert heights
    assert set(lines) <= {"inline"}


def test_what_is_cut_can_be_read_when_pointed_at(page: Page) -> None:
    assert page.locator(f'th[title="{"x" * 300}"]').count() > 0


def test_download_is_named_in_short_and_in_full(page: Page) -> None:
    button = page.get_by_role("button", name="after-against-before.csv")
    assert button.inner_text() == "CSV"
    assert button.get_attribute("title") == "after-against-before.csv"


def test_a_filter_finds_one_of_many(page: Page) -> None:
    page.locator("#filter").fill("pool-41 randread")
    rows = page.locator("#delta-rate-table tbody tr:visible, #delta-iops-table tbody tr:visible")
    assert rows.count() >= 1
    assert all("pool-41" in text for text in rows.all_inner_texts())


def test_a_table_is_copied_for_a_spreadsheet_and_for_an_issue(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#filter").fill("pool-41")
    frame = page.locator("#delta-rate-table, #delta-iops-table").first
    rows = frame.locator("tbody tr:visible").count()
    for form, mark in (("TSV", "\t"), ("Markdown", " | ")):
        frame.get_by_role("button", name=f"Copy this table as {form}").click()
        text = page.evaluate("navigator.clipboard.readText()")
        lines = text.splitlines()
        assert len(lines) == 1 + rows + (form == "Markdown")
        assert all("pool-41" in line for line in lines[-rows:])
        assert len({line.count(mark) for line in lines}) == 1
        assert "▲" not in text
