"""The generated pages are what the registries say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leadline.analysis.power import REPEATS
from scripts.reference import GENERATED, PAGES, generated
from tests.conftest import ROOT


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    path = PAGES / name
    assert path.read_text("utf-8") == generated()[path], "run scripts/reference.py"


def test_check_says_by_its_status_whether_pages_are_current() -> None:
    script = ROOT / "scripts" / "reference.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_page_of_a_rule_is_linked() -> None:
    listed = (PAGES / "rules.md").read_text("utf-8")
    for page in Path(ROOT / "docs" / "rules").glob("*.md"):
        assert f"(../rules/{page.name})" in listed


@pytest.mark.parametrize("page", ["rules/unstable-repeats.md", "concepts/comparing.md"])
def test_the_published_scatter_of_repeats_is_that_of_the_verdicts(page: str) -> None:
    text = " ".join((ROOT / "docs" / page).read_text("utf-8").split())
    for share in (REPEATS.median, REPEATS.ninetieth, REPEATS.worst):
        assert f"{100 * share:.3g} %" in text or f"{100 * share:.1f} %" in text
    assert "n - 1" in text
