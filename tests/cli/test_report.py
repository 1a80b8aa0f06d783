"""`report -o` writes what its ending says, overwrites nothing, and the page loads nothing."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline, refused
from tests.conftest import Said

# Whatever makes a browser fetch something.
LOADING_TAGS = {"link", "iframe", "object", "embed", "base", "img", "audio", "video", "source"}
LOADING_ATTRIBUTES = {"src", "srcset", "poster", "data", "action", "background", "ping", "style"}
LOADING_CODE = re.compile(
    r"@import|\burl\((?!#)|\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\b"
)


class Loads(HTMLParser):
    """Collects what a page would load: tags, attributes, links elsewhere, code and style."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.seen.add(tag)
        self.found += [tag] if tag in LOADING_TAGS else []
        for name, value in attrs:
            elsewhere = name == "href" and not (value or "").startswith("#")
            if name in LOADING_ATTRIBUTES or name.startswith("on") or elsewhere:
                self.found.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self.inside in ("script", "style"):
            self.found += LOADING_CODE.findall(data)


@pytest.fixture
def run(quick: Callable[..., Said]) -> None:
    quick()


pytestmark = pytest.mark.usefixtures("run")


@pytest.mark.parametrize("ending", ["html", "md", "json", "csv", "HTML"])
def test_the_ending_chooses_the_form(leadline: Leadline, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"my report.{ending}"
    said = leadline("report", "@latest", "-o", path)
    assert (said.status, said.out, said.err) == (0, f"{path}\n", "")
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    match ending.lower():
        case "html":
            assert text.startswith("<!doctype html>")
            assert "20,130" in text
        case "md":
            assert text.startswith("# Run perf-")
            assert "20,130" in text
            assert "The archive is intact" in text
        case "json":
            assert json.loads(text)["schema"] == "leadline/show/1"
        case "csv":
            rows = list(csv.DictReader(text.splitlines()))
            assert {row["metric"] for row in rows} >= {"iops", "latency_p99"}


def test_the_page_loads_nothing_from_anywhere(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    leadline("report", "-o", path)
    page = path.read_text("utf-8")
    assert "http:" not in page
    assert "https:" not in page
    loads = Loads()
    loads.feed(page)
    assert {"script", "style", "svg", "table"} <= loads.seen
    assert loads.found == []
    assert "default-src 'none'" in page


def test_nothing_is_overwritten_without_force(leadline: Leadline, tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text("mine")
    assert "--force" in refused(leadline("report", "-o", path), 2, "output-unwritable")
    assert path.read_text() == "mine"
    assert leadline("report", "-o", path, "--force").status == 0
    assert path.read_text().startswith("# Run ")


def test_a_place_that_cannot_be_written(leadline: Leadline, tmp_path: Path) -> None:
    told = refused(leadline("report", "-o", tmp_path / "no" / "r.md"), 2, "output-unwritable")
    assert "No such file or directory" in told
    assert "hint: " in told
    folder = tmp_path / "folder.html"
    folder.mkdir()
    refused(leadline("report", "-o", folder), 2, "usage")


def test_a_folder_that_takes_no_files_even_from_root(leadline: Leadline) -> None:
    refused(leadline("report", "-o", "/proc/leadline.md"), 2, "output-unwritable")


def test_the_report_of_an_archive_that_was_tampered_with_says_so(
    leadline: Leadline, tmp_path: Path
) -> None:
    (raw,) = (tmp_path / "runs").glob("*/trials/*randread*/fio.json")
    raw.write_bytes(raw.read_bytes() + b"\n")
    path = tmp_path / "page.md"
    assert leadline("report", "-o", path).status == 0
    assert "The archive is intact" not in path.read_text()
    assert "1 problem" in path.read_text()
