"""The report page in a real Chromium: it sorts, filters, folds, and sends no request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan, some_findings
from chromium import Watch, opened
from playwright.sync_api import Browser, Page, expect

from leadline.analysis.figures import figures
from leadline.archive.verify import verify
from leadline.report.answers.run import show_output, show_table
from leadline.report.pages.run.page import run_document
from leadline.report.render import html

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = ["disk", "tmpfs", HOSTILE, "x" * 300, "אחסון-מהיר"]
    run = make_run(
        folder,
        small_plan(names),
        fails=lambda target, workload, block: (target, workload) == ("tmpfs", "sequential-1m"),
    )
    findings = some_findings("disk", HOSTILE)
    cells = figures(run, findings)
    document = run_document(run, cells, findings, verify(run))
    path = folder / "report.html"
    shown = show_output(run, cells, trials=True)
    downloads = [
        html.Download(
            name=f"{run.id}.json",
            media_type="application/json",
            text=shown.model_dump_json(by_alias=True, indent=2),
        ),
        html.Download(
            name=f"{run.id}.csv", media_type="text/csv", text=show_table(shown, "csv") + "\n"
        ),
    ]
    path.write_text(html.render(document, downloads), "utf-8")
    return path


@pytest.fixture(params=[1280, 390])
def page(
    browser: Browser, report: Path, watch: Watch, request: pytest.FixtureRequest
) -> Iterator[Page]:
    with opened(browser, report, watch, request.param) as page:
        yield page


def first_table(page: Page) -> str:
    return str(page.locator("table.filterable").first.get_attribute("id"))


def column(page: Page, table: str, index: int) -> list[float]:
    cells = page.locator(f"#{table} tbody tr > :nth-child({index})")
    return [float(cells.nth(i).get_attribute("data-sort") or "nan") for i in range(cells.count())]


def test_no_request_leaves_and_nothing_is_refused(page: Page, report: Path, watch: Watch) -> None:
    page.wait_for_load_state("networkidle")
    assert watch.requests == [report.as_uri()]
    assert watch.errors == []


def test_hostile_names_stay_text(page: Page) -> None:
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    assert page.get_by_text(HOSTILE, exact=True).count() > 0


def test_no_horizontal_scroll(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= view


def test_sorting_by_click_and_by_key(page: Page) -> None:
    table = first_table(page)
    head = page.locator(f"#{table} thead th").nth(2)
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = column(page, table, 3)
    assert values == sorted(values)
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, table, 3) == sorted(values, reverse=True)


def test_missing_rows_are_last_either_way(page: Page) -> None:
    table = page.locator("#results table.filterable").last
    button = table.locator("thead th").nth(2).locator("button")
    for _ in range(2):
        button.click()
        assert "missing" in table.locator("tbody tr").last.inner_text()
        assert "missing" not in table.locator("tbody tr").first.inner_text()


def test_filter(page: Page) -> None:
    rows = page.locator("table.filterable tbody tr:visible")
    every = rows.count()
    # Folded tables are filtered, too; charts that are not chosen are not.
    total = page.locator("table.filterable tbody tr:not(.unchosen *)").count()
    page.locator("#filter").fill("tmpfs randread")
    assert rows.count() == 1
    assert "tmpfs" in rows.first.inner_text()
    # The other one is in the folded table of costs.
    assert page.locator("#filter-count").inner_text() == f"2 of {total} rows"
    page.locator("#filter").fill("")
    assert rows.count() == every


def test_theme(page: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.locator("#theme").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(colour) != light
    page.reload()
    assert page.evaluate(colour) != light
    page.locator("#theme").click()
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_downloads(page: Page, kind: str, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f".{kind}").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    assert path.name == f"perf-20261121-025500.{kind}"
    text = path.read_text("utf-8")
    assert HOSTILE in text
    if kind == "json":
        assert json.loads(text)["schema"] == "leadline/show/1"
    else:
        assert text.startswith("target,workload,level,op,metric,value,unit,trials")


def test_a_link_into_a_folded_part_opens_it(page: Page, report: Path) -> None:
    part = page.locator("details#methods")
    assert part.get_attribute("open") is None
    page.goto(f"{report.as_uri()}#methods")
    # The page hears of the new link a moment later.
    expect(part).to_have_attribute("open", "")


def test_marks_lead_to_their_findings(page: Page) -> None:
    page.locator(".mark:visible").first.click()
    expect(page.locator(":target")).to_have_js_property("tagName", "TR")


def test_readable_without_script(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.get_by_text("Findings", exact=True).count() > 0
    assert not page.locator("#filter").is_visible()
    context.close()
