"""The pictures of pages: each kind in each form, small, and shown."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

import pictures  # noqa: E402

EXAMPLES = (ROOT / "docs" / "examples" / "README.md").read_text("utf-8")


def test_every_kind_has_a_picture_in_every_form() -> None:
    wanted = {
        pictures.picture_path(kind, form) for kind in pictures.KINDS for form in pictures.FORMS
    }
    assert set(pictures.PICTURES.iterdir()) == wanted


@pytest.mark.parametrize("form", pictures.FORMS)
@pytest.mark.parametrize("kind", pictures.KINDS)
def test_a_picture_is_small_has_a_palette_and_the_size_of_its_form(kind: str, form: str) -> None:
    content = pictures.picture_path(kind, form).read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) <= pictures.MAXIMUM_BYTES
    width, height, _, colours = struct.unpack(">IIBB", content[16:26])
    assert (width, height) == pictures.FORMS[form][1:]
    assert colours == 3


def test_the_examples_show_every_picture() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(\.\./images/([^)]+)\)", EXAMPLES)
    assert sorted(shown) == sorted(path.name for path in pictures.PICTURES.iterdir())


def test_every_kept_example_page_has_a_picture() -> None:
    kept = {path.name for path in pictures.KEPT.values()}
    pages = {path.name for path in (ROOT / "docs" / "examples").glob("*.html")}
    # The same table with the depth that was asked for.
    assert pages - kept == {"openebs-and-rook.html"}
