from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import ValidationError

from leadline.data import load_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    size_bytes: int


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    return tmp_path


def test_a_table_is_a_tuple_of_validated_rows(folder: Path) -> None:
    (folder / "disks.yaml").write_text("- {name: sda, size_bytes: 4096}\n", "utf-8")

    assert load_table("disks", tuple[Row, ...]) == (Row(name="sda", size_bytes=4096),)


@pytest.mark.parametrize("row", ["{name: sda}", "{name: sda, size_bytes: 1, sizes: 2}"])
def test_a_row_of_another_shape_is_refused(folder: Path, row: str) -> None:
    (folder / "wrong.yaml").write_text(f"- {row}\n", "utf-8")

    with pytest.raises(ValidationError, match="size"):
        load_table("wrong", tuple[Row, ...])


def test_a_table_is_read_once() -> None:
    first = load_table("profiles/kbench", dict[str, object])

    assert load_table("profiles/kbench", dict[str, object]) is first
