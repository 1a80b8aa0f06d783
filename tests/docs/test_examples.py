"""The kept pages of docs/examples are what the program makes, and open from disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.examples import IMPORTED_AT, PAGE, made, readable
from tests.conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples"
KEPT = sorted(EXAMPLES.glob("*.html"))


def test_the_kept_page_is_the_one_that_is_made() -> None:
    page = made()
    kept, now = (readable(one).splitlines() for one in (PAGE.read_text("utf-8"), page))
    differing = [pair for pair in zip(kept, now, strict=False) if pair[0] != pair[1]]
    told = [f"{_about(before)!r} is now {_about(after)!r}" for before, after in differing[:3]]
    assert len(kept) == len(now), "run scripts/examples.py"
    assert not told, "run scripts/examples.py"


def _about(line: str) -> str:
    return re.sub(r"<[^>]*>", " ", line)[:300]


def test_what_is_compared_has_the_downloads_and_no_time_or_place_of_its_making() -> None:
    text = readable(PAGE.read_text("utf-8"))
    assert '"schema": "leadline/compare/1"' in text
    assert "target,workload,level,op,metric" in text
    assert set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", text)) == {IMPORTED_AT}
    assert '"path": "study-multi-zone"' in text
    assert str(ROOT) not in text


def test_the_page_tells_of_the_study_what_its_table_says() -> None:
    text = readable(PAGE.read_text("utf-8"))
    assert "rep3-virt" in text
    assert "not comparable" in text
    assert "-26.9 %" in re.sub("<[^>]*>", "", text), "rep3 writes: 10,282 to 7,515 IOPS"


@pytest.mark.parametrize("page", KEPT, ids=lambda page: page.name)
def test_an_example_opens_offline_and_is_small(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text) < 3_000_000
    fetched = re.findall(r"""(?:src|href)=["']?(https?:|//)|url\(\s*["']?(?!#|data:)""", text)
    assert not fetched
    assert "default-src 'none'" in text or "default-src &#39;none&#39;" in text


@pytest.mark.parametrize("page", KEPT, ids=lambda page: page.name)
def test_an_example_is_listed(page: Path) -> None:
    assert page.name in (EXAMPLES / "README.md").read_text("utf-8")
