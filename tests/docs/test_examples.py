"""The kept pages of docs/examples are what the program makes, and open from disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leadline.report.render.html import open_page
from scripts.examples import AS_RUN, IMPORTED_AT, MADE, PUBLISHED, STUDY, Example, made, readable
from tests.conftest import ROOT
from tests.kept_text import differing_lines

EXAMPLES = ROOT / "docs" / "examples"
KEPT = sorted(EXAMPLES.glob("*.html"))


@pytest.mark.parametrize("example", MADE, ids=lambda one: one.page.stem)
def test_the_kept_page_is_the_one_that_is_made(example: Example) -> None:
    page = made(example)
    kept = example.page.read_text("utf-8")
    differing = differing_lines(readable(kept), readable(page))
    shown = [f"{_about(before)!r} is now {_about(after)!r}" for before, after in differing[:3]]
    assert not shown, "run scripts/examples.py"
    assert open_page(kept)[1], "run scripts/examples.py"


def _about(line: str) -> str:
    return re.sub(r"<[^>]*>", " ", line)[:300]


def words(example: Example) -> str:
    text = re.sub("<[^>]*>", "", readable(example.page.read_text("utf-8")))
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("example", MADE, ids=lambda one: one.page.stem)
def test_what_is_compared_has_no_time_or_place_of_its_making(example: Example) -> None:
    text = readable(example.page.read_text("utf-8"))
    assert set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)) == {IMPORTED_AT}
    assert str(ROOT) not in text


def test_the_study_has_its_downloads() -> None:
    text = readable(STUDY.page.read_text("utf-8"))
    assert '"schema": "leadline/compare/1"' in text
    assert "target,workload,level,op,metric" in text
    assert '"path": "study-multi-zone"' in text


def test_the_page_tells_of_the_study_what_its_table_says() -> None:
    assert "rep3-virt" in words(STUDY)
    assert "not comparable" in words(STUDY)
    assert "-26.9 %" in words(STUDY), "rep3 writes: 10,282 to 7,515 IOPS"


def test_as_published_the_systems_cannot_be_compared_and_the_page_says_what_remains() -> None:
    said = words(PUBLISHED)
    assert "No verdict on cores=2 vs cores=1" in said
    assert "No verdict on replicas=3 vs replicas=1,cores=2" in said
    assert "No target has every number that this ranking needs" in said
    assert "21 of 24 trials with errors are refused for their queue depth alone" in (said)
    assert "better in 2 of 2" not in said


def test_as_they_ran_they_can_but_for_cached_reads_and_no_cause_is_invented() -> None:
    said = words(AS_RUN)
    assert "cores=2 vs cores=1: writes" in said
    assert "Cores alone do not explain this" in said
    assert "No configuration data confirms it as the cause" in said
    assert "rand-read read iops: refused by the audit: cache-served-reads" in said
    assert "single trials" in said


@pytest.mark.parametrize("page", KEPT, ids=lambda page: page.name)
def test_an_example_opens_offline_and_is_small(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text) < 1_000_000
    fetched = re.findall(r"""(?:src|href)=["']?(https?:|//)|url\(\s*["']?(?!#|data:)""", text)
    assert not fetched
    assert "default-src 'none'" in text or "default-src &#39;none&#39;" in text


@pytest.mark.parametrize("page", KEPT, ids=lambda page: page.name)
def test_an_example_is_listed(page: Path) -> None:
    assert page.name in (EXAMPLES / "README.md").read_text("utf-8")
