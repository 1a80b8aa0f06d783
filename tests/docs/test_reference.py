"""The generated pages are what the registries say now."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.analysis.power import REPEATS
from scripts.reference import PAGES, main
from tests.conftest import ROOT


def test_the_committed_pages_are_the_generated_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().err


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
