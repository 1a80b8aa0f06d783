"""The error catalogue is complete: every kind is raised somewhere, every exit status documented."""

from __future__ import annotations

import re

from leadline import errors
from tests.conftest import ROOT

SOURCE = ROOT / "src" / "leadline"


def test_every_kind_of_the_catalogue_is_used_and_none_is_made_elsewhere() -> None:
    names = {
        name: kind for name, kind in vars(errors).items() if isinstance(kind, errors.ErrorKind)
    }
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != "errors.py")
    used = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text))
    assert names.keys() - used == set()
    assert "ErrorKind(" not in text, "kinds are bound to exit statuses in one place"


def test_codes_are_unique_and_written_alike() -> None:
    codes = [kind.code for kind in errors.CATALOGUE]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in codes)


def test_the_reference_lists_every_error_and_exit_status() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    for kind in errors.CATALOGUE:
        assert f"| `{kind.code}` | {int(kind.exit)} | {kind.meaning} |" in page
    for status in errors.Exit:
        assert re.search(rf"^\| {int(status)} \|", page, re.MULTILINE), status
