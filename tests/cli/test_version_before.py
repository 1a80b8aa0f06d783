"""Archives and pages that version 0.1 made: they verify, and their numbers are shown unchanged."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Leadline
from tests.conftest import RECORDED

BEFORE = RECORDED.parent / "version-0.1"
RUN = "perf-20261121-095148"


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch, leadline: Leadline) -> Leadline:
    monkeypatch.setenv("LEADLINE_RUNS", str(BEFORE))
    return leadline


@pytest.mark.parametrize("run", [RUN, "study-single-zone", "study-multi-zone"])
def test_an_archive_verifies(before: Leadline, run: str) -> None:
    said = before("verify", run)
    assert said.status == 0, said.out
    assert re.search(r"\d+ files, [1-9]\d* numbers checked\nok\n", said.out)


@pytest.mark.parametrize("page", ["run.html", "comparison.html"])
def test_a_page_verifies(before: Leadline, page: str) -> None:
    said = before("verify", BEFORE / page)
    assert said.status == 0, said.out
    *_, numbers, verdict = said.out.splitlines()
    assert re.search(r": [1-9]\d{2,} numbers checked$", numbers)
    assert verdict == "ok"


def test_a_number_that_was_changed_by_hand_is_found(before: Leadline, tmp_path: Path) -> None:
    from tests.cli.test_verify_page import with_answer

    def change(answer: dict[str, object]) -> None:
        measurements = answer["measurements"]
        assert isinstance(measurements, list)
        measurements[0]["value"] += 1

    page = tmp_path / "run.html"
    shutil.copy(BEFORE / "run.html", page)
    page.write_text(with_answer(page.read_text("utf-8"), change), "utf-8")
    said = before("verify", page)
    assert said.status == 1
    assert "measurements[0].value" in said.out
