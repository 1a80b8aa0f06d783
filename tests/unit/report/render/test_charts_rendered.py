"""Every kind of block as a page, as Markdown with its pictures, and in a terminal."""

from __future__ import annotations

import base64
import gzip
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import every_block
import pytest
from every_block import HOSTILE, METRICS, NAMES
from rich.cells import cell_len
from rich.console import Console

from leadline.report.cells import number_column
from leadline.report.document import (
    Cell,
    Column,
    DeltaChart,
    DeltaRow,
    Document,
    Scale,
    Section,
    Table,
)
from leadline.report.render import html, markdown, terminal
from leadline.report.render.terminal_charts import delta_lines

DOCUMENT = every_block.document()
DOWNLOAD = html.Download(
    name="a b/<c>.json", media_type="application/json", text=f'["{HOSTILE}"]', label="Save JSON"
)


class Tags(HTMLParser):
    """Elements with their attributes, in order; complains of what is closed wrongly."""

    VOID = frozenset({"meta", "input"})

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_of_every_block() -> None:
    page = html.render(DOCUMENT, [DOWNLOAD])
    tags = Tags(page)
    assert "<img" not in page
    assert [tag for tag, _ in tags.found].count("script") == 2
    assert not any(
        name.startswith("on") or name == "style" for _, one in tags.found for name in one
    )
    assert "http:" not in page
    assert "https:" not in page
    identifiers = [one["id"] for _, one in tags.found if one.get("id")]
    assert len(identifiers) == len(set(identifiers))
    for name in re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', page):
        assert "".join(name) in identifiers
    assert html.render(DOCUMENT, [DOWNLOAD]) == page


def test_every_heading_and_choice_is_there_without_script() -> None:
    page = html.render(DOCUMENT)
    for metric, title in METRICS:
        assert page.count(f'data-choice="{metric}"') == 3
        assert f"Change of {title}" in page


def test_downloads_come_out_as_they_went_in() -> None:
    page = html.render(DOCUMENT, [DOWNLOAD])
    (packed,) = re.findall(r'data-name="([^"]*)" data-type="application/json">([^<]*)<', page)
    assert packed[0] == "a-b-c-.json"
    assert gzip.decompress(base64.b64decode(packed[1])).decode() == DOWNLOAD.text
    assert ">Save JSON</button>" in page


def test_ready_to_print() -> None:
    page = html.render(DOCUMENT, [DOWNLOAD], ready_to_print=True)
    tags = Tags(page)
    names = [tag for tag, _ in tags.found]
    assert "script" not in names
    assert not {"nav", "button", "input"} & set(names)
    assert "script-src 'none'" in page
    assert "@media print" not in page
    folded = [one for tag, one in tags.found if tag == "details"]
    assert folded
    assert all("open" in one for one in folded)


def test_only_a_column_of_verdicts_has_symbols() -> None:
    table = Table(
        id="t",
        caption="",
        columns=(Column(title="target"), Column(title="verdict")),
        rows=((Cell(text="worse"), Cell(text="worse")), (Cell(text="x"), Cell(text="strange"))),
    )
    document = Document(
        title="t", subtitle="", summary=(),
        sections=(Section(heading="h", id="h", blocks=(table,)),),
    )  # fmt: skip
    assert html.render(document).count('<td class="verdict is-worse"') == 1
    assert '<th scope="row" class="verdict' not in html.render(document)
    assert "| worse | ▼ worse |" in markdown.render(document)
    assert "| x | strange |" in markdown.render(document)


def test_markdown_links_every_picture_that_it_returns() -> None:
    text, pictures = markdown.render_with_pictures(DOCUMENT, "my report-charts")
    links = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert [unquote(link) for link in links] == list(pictures)
    assert all("%20" in link for link in links)
    assert len(pictures) == 15
    assert all(re.fullmatch(r"my report-charts/[A-Za-z0-9_-]+\.svg", path) for path in pictures)
    assert "<img" not in re.sub(r"(?ms)^```\n.*?^```$", "", text), "but for what is code"
    assert "![" not in markdown.render(DOCUMENT)


def test_axes_of_several_charts_are_drawn_once() -> None:
    chart = every_block.ladder()
    document = Document(
        title="t", subtitle="", summary=(),
        sections=(Section(heading="h", id="h", blocks=(chart, replace(chart, id="other"))),),
    )  # fmt: skip
    page = html.render(document)
    drawn = re.findall(r'<g id="(axes-[0-9]+)">', page)
    assert drawn == ["axes-1", "axes-2"]
    assert [page.count(f'<use href="#{name}"/>') for name in drawn] == [1, 1]
    assert 'class="axes"' not in page
    assert page.count('<ul class="legend">') == 1, "and so is their legend"


def test_equal_marks_of_a_row_have_one_link() -> None:
    marked = Cell(text="1", sort=1.0, marks=(every_block.MARK,))
    columns = tuple(number_column(title) for title in "abc")
    shown = Table(id="t", caption="", columns=columns, rows=((marked, marked, marked),))
    document = Document(
        title="t", subtitle="", summary=(),
        sections=(Section(heading="h", id="h", blocks=(shown,)),),
    )  # fmt: skip
    page = html.render(document)
    assert page.count('<a class="mark warning" href="#finding-w1"') == 1
    assert page.count('<i class="mark warning">') == 2


def test_two_charts_of_one_name_have_two_files() -> None:
    chart = every_block.ladder()
    document = Document(
        title="t", subtitle="", summary=(),
        sections=(Section(heading="h", id="h", blocks=(chart, chart)),),
    )  # fmt: skip
    text, pictures = markdown.render_with_pictures(document, "charts")
    assert list(pictures) == ["charts/ladder.svg", "charts/ladder-2.svg"]
    assert "(charts/ladder-2.svg)" in text


def test_markdown_without_pictures_has_the_numbers() -> None:
    text = markdown.render(DOCUMENT)
    assert "| rep3-virt | 8,000 | 5,848 |" in text
    assert "| rep3-virt · randread-4k-qd1 · write | ▼ worse | -26.9 % worse |" in text
    assert "| ec-4-2-bulk | 33,600 ×4.20 | missing | 5.04 ms ×4.20 |" in text
    assert "├─ zone a  2 hosts" in text
    assert "### multi-zone-2026-03" in text
    for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def shown(width: int, **options: bool) -> str:
    stream = io.StringIO()
    terminal.render(Console(width=width, file=stream, no_color=True), DOCUMENT, **options)
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_a_terminal_of_every_block_keeps_its_width(width: int) -> None:
    # Commands are to be copied: these are not broken.
    lines = [line for line in shown(width, full=True).splitlines() if "leadline" not in line]
    assert max(map(cell_len, lines)) <= width
    assert not any(line.endswith(" ") for line in lines)


def test_a_terminal_draws_changes_round_a_line() -> None:
    lines = shown(100).splitlines()
    (worse,) = (line for line in lines if line.endswith("-26.9 % worse"))
    (better,) = (line for line in lines if line.endswith("+42.0 % better"))
    assert worse.index("├") < worse.index("▼") < worse.index("┤") < worse.index("│")
    assert better.index("│") < better.index("├") < better.index("▲")
    assert worse.index("│") == better.index("│")


def test_a_terminal_names_each_group_of_changes_once() -> None:
    def row(group: str, label: str) -> DeltaRow:
        return DeltaRow(
            label=label,
            ratio=0.8,
            interval=(0.7, 0.9),
            verdict="worse",
            text="-20 %",
            band=0.05,
            group=group,
        )

    rows = (row("loud", "all cells"), row("loud", "read"), row("quiet", "all cells"))
    scale = Scale(title="", log=True, low=0.5, high=2.0, ticks=())
    chart = DeltaChart(id="d", title="", scale=scale, rows=rows)
    names = [line.plain.partition("├")[0].rstrip() for line in delta_lines(chart, 80)]
    assert names[:-1] == ["loud", "  all cells", "  read", "quiet", "  all cells"]


def test_a_terminal_shows_the_first_choice_unless_asked_for_all() -> None:
    assert "Compared: p99 latency" not in shown(100)
    assert "a report also has p99 latency" in shown(100)
    assert "Compared: p99 latency" in shown(100, full=True)


def test_bars_in_a_terminal_are_as_long_as_their_values() -> None:
    lines = shown(100, full=True).splitlines()
    start = next(
        index for index, line in enumerate(lines) if line.startswith("randwrite-4k-qd32 ·")
    )
    lengths = {}
    for line in lines[start : start + 3 * len(NAMES)]:
        if found := re.search(r"(█+)\S*\s+([\d,]+)$", line):
            lengths[int(found[2].replace(",", ""))] = len(found[1])
    values = sorted(lengths)
    assert len(values) > 6
    assert [lengths[value] for value in values] == sorted(lengths.values())
    assert lengths[24_000] == pytest.approx(2 * lengths[12_000], abs=1)
