"""Reports of runs and names that nobody wishes for."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from archive_builder import make_run, small_plan
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus
from leadline.findings import Finding, Severity
from leadline.report.answers.run import show_output
from leadline.report.cells import slug
from leadline.report.document import Bullets, Document, Section
from leadline.report.pages.run.page import run_document
from leadline.report.render import html, markdown, terminal
from leadline.report.render.rows import render_rows
from leadline.report.words import listed
from leadline.text import visible
from tests.hostile_texts import TEXTS, on_github

HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "<img src=x onerror=alert(1)>"


def rendered(run: Run, findings: tuple[Finding, ...] = ()) -> tuple[str, str, str]:
    """(page, Markdown, terminal at 80 columns)."""
    cells = figures(run, findings)
    document = run_document(run, cells, findings)
    stream = io.StringIO()
    terminal.render(Console(width=80, file=stream, no_color=True), document, full=True)
    whole = show_output(run, cells, trials=True).model_dump_json()
    download = html.Download(name="run.json", media_type="application/json", text=whole)
    page = html.render(document, [download])
    return page, markdown.render(document), stream.getvalue()


def test_nothing_completed(tmp_path: Path) -> None:
    run = make_run(tmp_path, fails=lambda *_: True, status=RunStatus.INTERRUPTED, inventory=False)
    page, wiki, text = rendered(run)
    for one in (page, wiki, text):
        assert "0 of 24 trials completed" in one
        assert "no result to audit" in re.sub(r"\s+", " ", one)
        assert "no error and no warning found" not in one
        assert "missing" in one
        assert "target-gone" in one
    assert "<svg" not in page


@pytest.mark.thorough
def test_many_targets(tmp_path: Path) -> None:
    plan = small_plan([f"pool-{number:03d}" for number in range(60)], repeats=1)
    page, wiki, text = rendered(make_run(tmp_path, plan))
    assert page.count("pool-059") > 4
    assert "pool-059" in wiki
    assert "pool-059" in text


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "</script><script>alert(1)</script>",
        "a|b`c`*d*_e_[f](javascript:alert(1))",
        "x" * 300,
        "אחסון-מהיר",
        "evil\u202egnp.exe",
        "tab\tbell\x07esc\x1b[31mred",
        "{{ 7 * 7 }}",
    ],
)
def test_names_stay_text(tmp_path: Path, name: str) -> None:
    finding = Finding(
        code="not-steady", severity=Severity.WARNING, target=name, message=f"About {name}.",
        remedy=name,
    )  # fmt: skip
    page, wiki, text = rendered(make_run(tmp_path, small_plan([name, "disk"])), (finding,))
    assert "<img" not in page
    assert page.count("<script") == 2
    assert f">{7 * 7}<" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", page + wiki + text)
    assert "<img" not in wiki
    assert "<script" not in wiki
    for table in re.findall(r"(?m)(?:^\|.*\n)+", wiki):
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(columns) == 1, "a name broke a table row"


def test_policy_allows_only_the_pages_own_script(tmp_path: Path) -> None:
    page, _, _ = rendered(make_run(tmp_path))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "http:" not in page
    assert "https:" not in page
    assert 'style="' not in page
    identifiers = re.findall(r' id="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))
    for anchor in re.findall(r'href="#([^"]*)"', page):
        assert anchor in identifiers


@given(st.text())
def test_visible_leaves_nothing_hidden(text: str) -> None:
    assert not re.search(
        r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", visible(text)
    )


@given(st.text(), st.integers(3, 60))
def test_shortened_fits(text: str, width: int) -> None:
    shown = visible(text)
    assert cell_len(terminal.shortened(shown, width)) <= width


@given(st.text() | st.text("@#:/$w.ahtp-_*`[]<>&|~0123 ") | st.sampled_from(TEXTS))
def test_markdown_shows_any_text_literally_on_github(text: str) -> None:
    shown = " ".join(visible(text).split())
    page = on_github(f"x {markdown.escape(visible(text))}\n\n| {markdown.escape(shown)} |\n|---|\n")
    assert page.cells == [shown]
    assert page.text.split() == ["x", *shown.split(), *shown.split()]


@given(st.text())
def test_slugs_are_anchors(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", slug(text))


def test_tables() -> None:
    rows = [("a,b", 1), ('c"d', None)]
    assert render_rows(("name", "n"), rows, "csv") == 'name,n\n"a,b",1\n"c""d",'
    formulas = [("=1+1", -1), ("  @a", -0.5), ("-", "+1;x"), ("＝1", None), ("a=1", True)]
    csv = ["n,v", "'=1+1,-1", "'  @a,-0.5", "'-,\"'+1;x\"", "'＝1,", "a=1,True"]
    assert render_rows(("n", "v"), formulas, "csv").split("\n") == csv
    raw = [line.replace("'", "") for line in csv]
    assert render_rows(("n", "v"), formulas, "csv-raw").split("\n") == raw
    assert render_rows(("name", "n"), rows, "markdown").splitlines()[1] == "| --- | --- |"
    assert render_rows(("name", "n"), rows, "text").splitlines()[0] == "name  n"
    assert render_rows(("name",), [], "text") == "name\n----"
    with pytest.raises(ValueError, match="there are text, csv, csv-raw and markdown"):
        render_rows(("name",), [], "xml")


def test_lists_of_names() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed("abcdefg", limit=2) == "a, b and 5 more"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("79.1 MiB used", "79.1 MiB used"),
        ("1. first", r"1\. first"),
        ("2) second", r"2\) second"),
        ("3.", r"3\."),
        ("- 5 %", r"\- 5 %"),
        ("+4 %", r"\+4 %"),
        ("5-10 trials", "5-10 trials"),
    ],
)
def test_a_line_that_begins_like_a_list_is_none_in_markdown(text: str, written: str) -> None:
    document = Document(
        title="x",
        subtitle="",
        summary=(),
        sections=(Section(heading="y", id="y", blocks=(Bullets(items=(text,)),)),),
    )
    assert f"- {written}\n" in markdown.render(document)
