"""Every relative link of every page leads somewhere, to its heading too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

_LEFT_OUT = {".venv", ".tools", ".git", "node_modules", "leadline-runs", "tests"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not _LEFT_OUT & set(path.relative_to(ROOT).parts)
    and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get, by the usual rule."""
    headings = re.findall(r"^#+ +(.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one).strip().lower().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    text = page.read_text("utf-8")
    broken = []
    # Code inside a link's own text is common; code that holds a link is not one.
    prose = _FENCE.sub("", text)
    for target in _LINK.findall(_INLINE.sub("code", prose)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        to_heading = bool(anchor) and path.suffix == ".md"
        if not path.exists() or (to_heading and anchor not in anchors(path.read_text("utf-8"))):
            broken.append(target)
    assert not broken


def test_there_are_pages() -> None:
    assert ROOT / "docs" / "README.md" in PAGES
