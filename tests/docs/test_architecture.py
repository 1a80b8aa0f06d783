"""The paths of docs/internals/architecture.md: their files exist, and each enters 15 at most."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text("utf-8")


def test_paths_through_the_code_name_files_that_exist() -> None:
    paths = [part for part in PAGE.split("\n## ") if "| # | file |" in part]
    assert len(paths) == 3
    for path in paths:
        files = re.findall(r"^\| \d+ \| `([^`]+)` \|", path, re.M)
        assert 10 <= len(files) <= 15
        for name in files:
            assert (ROOT / "src" / "leadline" / name).is_file(), name
