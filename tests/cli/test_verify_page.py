"""`verify PAGE.html` makes a page once more from its archives and tells what differs."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused
from tests.conftest import RECORDED, Said

STUDY = RECORDED.parent / "imports" / "table" / "multizone-vs-singlezone.csv"
ANSWER = re.compile(r'(data-type="application/json">)([A-Za-z0-9+/=]*)(</script>)')


@pytest.fixture
def comparison(leadline: Leadline, tmp_path: Path) -> Path:
    assert leadline("import", "table", STUDY, "--run", "study").status in (0, 1)
    page = tmp_path / "study.html"
    assert leadline("report", "study-single-zone", "study-multi-zone", "-o", page).status == 0
    return page


def with_answer(page: str, change: Callable[[dict[str, object]], None]) -> str:
    """The page with another answer packed into it."""

    def changed(match: re.Match[str]) -> str:
        answer = json.loads(gzip.decompress(base64.b64decode(match[2])))
        change(answer)
        packed = base64.b64encode(gzip.compress(json.dumps(answer).encode(), mtime=0)).decode()
        return match[1] + packed + match[3]

    return ANSWER.sub(changed, page, count=1)


def test_a_page_of_two_runs_is_recomputed(leadline: Leadline, comparison: Path) -> None:
    said = leadline("verify", comparison)
    assert said.status == 0, said.out
    *archives, page, verdict = said.out.splitlines()
    assert len(archives) == 2
    assert re.fullmatch(rf"{re.escape(str(comparison))}: [1-9]\d+ numbers checked", page)
    assert verdict == "ok"


def test_a_page_of_one_run_is_recomputed(
    leadline: Leadline, quick: Callable[..., Said], tmp_path: Path
) -> None:
    quick()
    page = tmp_path / "run.html"
    assert leadline("report", "@latest", "-o", page).status == 0
    said = leadline("verify", page)
    assert said.status == 0, said.out
    answer = json.loads(leadline("verify", page, "--format", "json").out)
    assert answer["ok"]
    assert answer["checked"] > 100


def test_one_changed_digit_in_the_text_is_told(leadline: Leadline, comparison: Path) -> None:
    page = comparison.read_text("utf-8")
    assert "26.9 %" in page
    comparison.write_text(page.replace("26.9 %", "36.9 %", 1), "utf-8")
    said = leadline("verify", comparison)
    assert said.status == 1
    assert "36.9 %" in said.out
    assert said.out.endswith("2 problems\n")


def test_a_changed_number_in_what_can_be_saved_is_told_with_its_place(
    leadline: Leadline, comparison: Path
) -> None:
    def change(answer: dict[str, object]) -> None:
        cells = answer["cells"]
        assert isinstance(cells, list)
        cells[3]["ratio"] = 1.25

    comparison.write_text(with_answer(comparison.read_text("utf-8"), change), "utf-8")
    said = leadline("verify", comparison)
    assert said.status == 1
    assert "problem: cells[3].ratio: says 1.25, raw gives " in said.out


def test_a_damaged_archive_of_a_page_is_told(
    leadline: Leadline, comparison: Path, tmp_path: Path
) -> None:
    stored = tmp_path / "runs" / "study-multi-zone" / "trials" / "t0001-1" / "derived.json"
    changed = re.sub(r"\d+\.\d+", "12345.5", stored.read_text("utf-8"), count=1)
    stored.write_text(changed, "utf-8")
    said = leadline("verify", comparison)
    assert said.status == 1
    assert "problem: trials/t0001-1/derived.json: " in said.out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!doctype html><p>no page of ours",
        '<meta name="generator" content="Leadline 1"><p>cut',
    ],
)
def test_what_is_no_page_is_refused(leadline: Leadline, tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(text, "utf-8")
    assert "is no page" in refused(leadline("verify", page), 2, "format-invalid")


@pytest.mark.parametrize(
    ("key", "value"), [("sides", {}), ("by", "moon"), ("band", -1.0), ("cells", "none")]
)
def test_an_answer_of_another_shape_is_refused(
    leadline: Leadline, comparison: Path, key: str, value: object
) -> None:
    def change(answer: dict[str, object]) -> None:
        answer[key] = value

    comparison.write_text(with_answer(comparison.read_text("utf-8"), change), "utf-8")
    refused(leadline("verify", comparison), 2, "format-invalid")


def test_a_page_whose_archive_is_elsewhere_names_it(
    leadline: Leadline, comparison: Path, tmp_path: Path
) -> None:
    said = leadline("verify", comparison, "--runs", tmp_path / "none")
    assert "study-single-zone" in refused(said, 2, "run-not-found")


def test_a_page_does_not_say_where_its_archives_lie(comparison: Path, tmp_path: Path) -> None:
    def look(answer: dict[str, object]) -> None:
        assert str(tmp_path) not in json.dumps(answer)

    page = comparison.read_text("utf-8")
    assert str(tmp_path) not in page
    with_answer(page, look)


def test_a_file_too_large_to_be_a_page_is_not_read(leadline: Leadline, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with page.open("wb") as stream:
        stream.truncate(1 << 40)
    assert "256 MiB are the most" in refused(leadline("verify", page), 2, "format-invalid")
