"""A page with every kind of block: choices, baselines, deep links, paper, and who cannot see it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import every_block
import pytest
from chromium import Watch, opened
from every_block import HOSTILE, NAMES
from playwright.sync_api import Browser, Page, expect

from leadline.report.render import html
from leadline.report.render.svg_shapes import level, ratio, ratio_text, shade

pytestmark = pytest.mark.browser
METRIC = "#metric"
BASELINE = "#heat-baseline"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "every block.html"
    text = f'["{HOSTILE}"]'
    download = html.Download(name="all.json", media_type="application/json", text=text)
    path.write_text(html.render(every_block.document(), [download]), "utf-8")
    return path


@pytest.fixture(params=[1280, 390])
def page(
    browser: Browser, report: Path, watch: Watch, request: pytest.FixtureRequest
) -> Iterator[Page]:
    with opened(browser, report, watch, request.param) as page:
        yield page
    assert all(url.startswith(("file://", "blob:")) for url in watch.requests)
    assert watch.errors == []


def test_nothing_is_asked_for_and_names_are_text(page: Page, report: Path, watch: Watch) -> None:
    page.wait_for_load_state("networkidle")
    assert watch.requests == [report.as_uri()]
    assert page.locator("img").count() == 0
    assert page.get_by_text(HOSTILE, exact=True).count() > 0


def test_the_page_is_no_wider_than_its_window(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide, view = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= view


def test_texts_of_charts_are_large_enough_to_be_read(page: Page) -> None:
    sizes = page.evaluate(
        """[...document.querySelectorAll('svg text, .name, .end, td, small')].map((one) =>
           parseFloat(getComputedStyle(one).fontSize))"""
    )
    assert min(sizes) >= 10.5


def test_a_choice_shows_its_own_blocks_only(page: Page) -> None:
    visible = "[data-choice={}]:visible"
    assert page.locator(visible.format("iops")).count() == 3
    assert page.locator(visible.format("p99")).count() == 0
    page.locator(METRIC).select_option("p99")
    assert page.locator(visible.format("iops")).count() == 0
    assert page.locator(visible.format("p99")).count() == 3


def test_another_baseline_gives_the_shades_that_python_would(page: Page) -> None:
    chart = every_block.heat_map()
    for baseline in (3, 2, 0):
        page.locator(BASELINE).select_option(str(baseline))
        base = chart.cells[baseline]
        for row, cells in enumerate(chart.cells):
            for column, cell in enumerate(cells):
                place = page.locator(f"#heat-cells tbody tr:nth-child({row + 1}) td").nth(column)
                classes = str(place.get_attribute("class")).split()
                small = place.locator("small").inner_text()
                if cell.value is None or base[column].value is None:
                    assert classes == ["n"]
                    assert small == ""
                    continue
                against = cell.value / (base[column].value or 1)
                better = chart.higher_is_better[column]
                assert classes == ["n", level(shade(against, better))]
                assert small == ("" if row == baseline else ratio_text(against))
    assert ratio(chart, 0, chart.cells[1][0]) == 0.25, "and what it was at first is back"
    expect(page.locator("#heat-cells tr.given")).to_contain_text(NAMES[0])


def test_a_heat_map_is_sorted_and_its_baseline_stays_itself(page: Page) -> None:
    page.locator("#heat-cells thead th").nth(1).locator("button").click()
    values = page.locator("#heat-cells tbody tr td:nth-child(2)").evaluate_all(
        "(cells) => cells.map((cell) => Number(cell.dataset.sort))"
    )
    assert values == sorted(values)
    page.locator(BASELINE).select_option("2")
    assert NAMES[2] in page.locator("#heat-cells tr.given").inner_text()


def test_texts_are_sorted_as_texts_and_what_is_missing_goes_last(page: Page) -> None:
    heads = page.locator("#compared-iops thead th button")
    heads.nth(4).click()
    verdicts = page.locator("#compared-iops tbody td:last-child").all_inner_texts()
    assert verdicts == sorted(verdicts)
    heads.nth(3).click()
    heads.nth(3).click()
    assert "missing" in page.locator("#compared-iops tbody tr").last.inner_text()


def test_the_filter_reaches_tables_charts_and_maps(page: Page) -> None:
    page.locator("#filter").fill("rep2-fast")
    for part in ("#compared-iops tbody tr", "#deltas-iops li", "#dots li", "#heat-cells tbody tr"):
        rows = page.locator(f"{part}:visible").filter(has_text="rep")
        assert rows.count() == 1, part
        assert "rep2-fast" in rows.inner_text()
    page.locator("#filter").fill("no such row")
    assert page.locator("#deltas-iops:visible, #heat:visible, #dots:visible").count() == 0
    assert page.locator("#filter-count").inner_text().startswith("0 of ")
    page.locator("#filter").fill("")
    assert page.locator("#deltas-iops:visible, #heat:visible, #dots:visible").count() == 3


def test_words_of_a_heading_count_for_its_rows(page: Page) -> None:
    page.locator("#filter").fill("compared iops rep3")
    assert page.locator("#compared-iops tbody tr:visible").count() == 1
    assert page.locator("#heat-cells tbody tr:visible").count() == 0


def state(page: Page) -> dict[str, object]:
    found: dict[str, object] = page.evaluate(
        """({
            metric: document.getElementById("metric").value,
            baseline: document.getElementById("heat-baseline").value,
            filter: document.getElementById("filter").value,
            theme: document.documentElement.dataset.theme,
            rows: [...document.querySelectorAll("#heat-cells tbody tr")].map((row) =>
              row.className + row.hidden + row.textContent),
            shown: [...document.querySelectorAll("[data-choice]")].map((one) =>
              one.className + one.hidden),
        })"""
    )
    return found


def test_a_copied_link_shows_the_same_view(
    page: Page, browser: Browser, report: Path, watch: Watch
) -> None:
    page.locator("nav a[href='#heat-section']").click()
    page.locator(METRIC).select_option("p99")
    page.locator(BASELINE).select_option("4")
    page.locator("#heat-cells thead th").nth(3).locator("button").click()
    page.locator("#filter").fill("pool rep & x=1? #")
    page.locator("#filter").fill("rep")
    page.locator("#theme").click()
    link = page.url
    assert link.startswith(f"{report.as_uri()}#heat-section?")
    context = browser.new_context(viewport={"width": 1280, "height": 844})
    other = context.new_page()
    other.goto(link)
    assert state(other) == state(page)
    assert state(other)["theme"] == "dark"
    top = other.evaluate("document.getElementById('heat-section').getBoundingClientRect().top")
    assert -1 <= top < 844
    other.goto(report.as_uri())
    other.reload()
    assert state(other)["filter"] == ""
    context.close()


def test_links_within_the_page_keep_the_view(page: Page) -> None:
    page.locator("#filter").fill("rep")
    page.locator("nav a[href='#findings']").click()
    page.wait_for_url(re.compile(r"#findings\?filter=rep$"))
    assert page.evaluate("document.querySelector(':target').id") == "findings"
    page.locator("#filter").fill("")
    page.wait_for_url(re.compile(r"#findings$"))


def test_a_broken_link_is_no_error(page: Page, report: Path) -> None:
    page.goto(f"{report.as_uri()}#%E0%A4%A?metric=nothing&heat-baseline=99&sort.heat-cells=77-up")
    page.reload()
    assert page.locator(METRIC).input_value() == "iops"
    assert page.locator(BASELINE).input_value() == "0"


def test_a_link_to_what_is_not_chosen_chooses_it(page: Page, report: Path) -> None:
    page.goto(f"{report.as_uri()}#deltas-p99")
    expect(page.locator("#deltas-p99")).to_be_visible()
    assert page.locator(METRIC).input_value() == "p99"


def test_paper_shows_everything(page: Page) -> None:
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("[data-choice]:visible").count() == 6
    assert page.locator("details:not([open])").count() == 0
    for part in ("nav", ".tools", ".choice", ".baseline"):
        assert page.locator(f"{part}:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() == 1


def test_ready_to_print_needs_no_script(browser: Browser, tmp_path: Path, watch: Watch) -> None:
    path = tmp_path / "paper.html"
    path.write_text(html.render(every_block.document(), ready_to_print=True), "utf-8")
    with opened(browser, path, watch, 1280) as page:
        assert page.locator("[data-choice]:visible").count() == 6
        assert page.get_by_text("Every trial is drawn.").is_visible()
        assert page.locator("select:visible, input:visible, button:visible").count() == 0
    assert watch.errors == []


def test_without_script_everything_is_shown(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("[data-choice]:visible").count() == 6
    assert page.locator(".needs-js:visible").count() == 0
    context.close()


def test_every_control_has_a_name_and_landmarks_exist(page: Page) -> None:
    unnamed = page.evaluate(
        """[...document.querySelectorAll("button, input, select, a")].filter((one) => {
            const label = one.closest("label");
            return !(one.getAttribute("aria-label") || (label && label.textContent.trim())
              || one.textContent.trim());
        }).map((one) => one.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    assert page.locator("main").count() == 1
    assert page.get_by_role("navigation").count() == 1
    assert page.locator("h1").count() == 1
    pictures = page.locator("svg[role=img]")
    assert pictures.count() > 5
    name = "one => one.getAttribute('aria-label') || one.querySelector('title')?.textContent"
    assert all(pictures.nth(index).evaluate(name) for index in range(pictures.count()))
    regions = page.locator("[role=region]")
    assert all(regions.nth(i).get_attribute("aria-label") for i in range(regions.count()))
    assert page.locator("html").get_attribute("lang") == "en"


def test_by_keyboard(page: Page) -> None:
    page.keyboard.press("Tab")
    focused = "document.activeElement.getAttribute('href')"
    assert page.evaluate(focused) == "#overview"
    page.locator(METRIC).focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#deltas-p99:visible").count() == 1


CONTRAST = """(selector) => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((one) => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    let layers = [];
    for (let at = element; at; at = at.parentElement) {
      layers.push(parse(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, [r, g, b, a = 1]) =>
      [r, g, b].map((one, index) => one * a + below[index] * (1 - a)), [255, 255, 255]);
  };
  return Math.min(...[...document.querySelectorAll(selector)].map((one) => {
    const ink = light(parse(getComputedStyle(one).color)), paper = light(behind(one));
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out(page: Page, theme: str) -> None:
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    for selector in (
        ".heat td bdi",
        "figcaption",
        "th",
        ".end",
        ".findings th span",
        ".mark",
        "nav a",
    ):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
