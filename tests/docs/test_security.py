"""SECURITY.md: at most two pages, and every promise names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

TEXT = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = re.findall(
    r"^\| (?!\*\*|promise|---)(.+?) \| (.*) \|$", TEXT.partition("## Promises")[2], re.M
)
_WORDS_OF_A_PAGE = 500


def test_it_has_two_pages() -> None:
    assert len(TEXT.split()) <= 2 * _WORDS_OF_A_PAGE


@pytest.mark.parametrize(("promise", "proof"), PROMISES)
def test_a_promise_names_its_test(promise: str, proof: str) -> None:
    named = [word for word in re.findall(r"`([^`]+)`", proof) if word.startswith("tests/")]
    assert named, promise
    for word in named:
        place, _, name = word.partition("::")
        path = ROOT / place
        assert path.exists(), word
        if name:
            assert f"def {name}(" in path.read_text("utf-8"), word


def test_there_are_promises() -> None:
    assert len(PROMISES) >= 15
