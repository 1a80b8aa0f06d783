"""`-o FILE` of verbs that print tables: the form by the ending, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import load_workbook

from leadline.cli import browser
from tests.cli.conftest import Leadline, refused

TABLE = """target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,iops,lat_mean_ms
a,w,read,randread,4k,1,1,60,1000,1
a,w,read,randread,4k,1,4,60,3000,1.33
b,w,read,randread,4k,1,1,60,2000,0.5
b,w,read,randread,4k,1,4,60,6000,0.66
"""


@pytest.fixture(autouse=True)
def study(leadline: Leadline, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    assert leadline("import", "table", tmp_path / "table.csv", "--run", "study").status == 0


@pytest.mark.parametrize("verb", ["rank", "scale"])
@pytest.mark.parametrize("ending", ["html", "md", "xlsx", "pdf-ready"])
def test_the_ending_chooses_the_form(
    leadline: Leadline, tmp_path: Path, verb: str, ending: str
) -> None:
    path = tmp_path / f"study.{ending}"
    said = leadline(verb, "study", "-o", path)
    assert (said.status, said.out, said.err) == (0, f"{path}\n", "")
    begins = {"html": b"<!doctype html>", "pdf-ready": b"<!doctype html>", "md": b"# "}
    assert path.read_bytes().startswith(begins.get(ending, b"PK"))


def test_a_workbook_has_the_numbers_of_the_csv(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "run.xlsx"
    assert leadline("report", "study", "-o", path).status == 0
    book = load_workbook(path)
    (sheet,) = (one for one in book if one.title == "w")
    head, *rows = sheet.iter_rows(values_only=True)
    named = [dict(zip(head, row, strict=True)) for row in rows]
    found = {(row["target"], row["level"]): (row["IOPS"], row["mean (us)"]) for row in named}
    mean = pytest.approx
    assert found == {
        ("a", "iodepth=1"): (1000, mean(1000)), ("a", "iodepth=4"): (3000, mean(1330)),
        ("b", "iodepth=1"): (2000, mean(500)), ("b", "iodepth=4"): (6000, mean(660)),
    }  # fmt: skip


def test_nothing_is_overwritten_without_force(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "mine.xlsx"
    path.write_text("mine")
    for verb in ("rank", "scale", "layers", "report"):
        assert "--force" in refused(leadline(verb, "study", "-o", path), 2, "output-unwritable")
    assert path.read_text() == "mine"
    assert leadline("rank", "study", "-o", path, "--force").status == 0
    assert "Overview" in load_workbook(path).sheetnames


def test_one_form_only(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    said = leadline("rank", "study", "--format", "json", "-o", path)
    assert "--format json" in refused(said, 2, "usage")
    refused(leadline("rank", "study", "-o", tmp_path / "a.docx"), 2, "usage")
    refused(leadline("rank", "study", "-o", tmp_path / "plain"), 2, "usage")
    assert not path.exists()


@pytest.mark.parametrize("ending", ["pdf", "png"])
def test_a_browser_is_needed_before_anything_is_computed(
    leadline: Leadline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(browser, "BROWSERS", ("no-such-browser",))
    path = tmp_path / f"a.{ending}"
    for verb in ("rank", "report"):
        assert "chromium" in refused(leadline(verb, "study", "-o", path), 3, "browser-missing")
    assert not path.exists()


@pytest.mark.browser
@pytest.mark.parametrize("verb", ["rank", pytest.param("report", marks=pytest.mark.thorough)])
def test_a_pdf_and_a_picture(leadline: Leadline, tmp_path: Path, verb: str) -> None:
    for ending, begin in (("pdf", b"%PDF-"), ("png", b"\x89PNG")):
        path = tmp_path / f"a.{ending}"
        said = leadline(verb, "study", "-o", path)
        assert (said.status, said.out, said.err) == (0, f"{path}\n", "")
        assert path.read_bytes().startswith(begin)
