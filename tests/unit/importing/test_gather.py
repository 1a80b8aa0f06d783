"""Which files are read together, and how much at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.importing import gather as gathering
from leadline.importing.gather import gather
from tests.conftest import RECORDED


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number in range(4):
        content = (RECORDED / "randread-4k-qd1" / "fio.json").read_bytes()
        (tmp_path / f"{number}.json").write_bytes(content)
    return tmp_path


def test_an_import_takes_so_many_bytes_and_names_the_files_beyond(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (results / "0.json").stat().st_size
    monkeypatch.setattr(gathering, "MOST_BYTES", 2 * size)
    found = gather("auto", [results])
    assert [list(bundle.files) for bundle in found.bundles] == [["0.json"], ["1.json"]]
    assert [refused.file for refused in found.refused] == ["2.json", "3.json"]
    assert all("import it into another run" in refused.reason for refused in found.refused)
    assert all(refused.expected for refused in found.refused)


def test_files_beyond_those_whose_beginning_is_kept_are_recognised(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_MOST_HEADS", 1)
    (results / "letter.txt").write_text("Dear reader,")
    found = gather("auto", [results])
    assert len(found.bundles) == 4
    assert [refused.file for refused in found.refused] == ["letter.txt"]
    assert "Dear reader" in found.refused[0].reason
