"""Levels on a page: what all of them share is listed once."""

from __future__ import annotations

import pytest

from leadline.report.document import Bullets, Code, Document, Section, shorten_levels
from leadline.report.words import shortened

LEVELS = ("vm=small pvc=64M clients=1", "vm=small pvc=64M clients=16", "vm=large pvc=64M clients=1")


def document(*texts: str) -> Document:
    blocks = (Bullets(items=texts), Code(text=texts[0]))
    section = Section(heading="Results", id="results", blocks=blocks)
    return Document(title="t", subtitle="run", summary=(), sections=(section,))


def shown(made: Document) -> tuple[str, ...]:
    block = made.sections[0].blocks[0]
    assert isinstance(block, Bullets)
    return block.items


def test_shared_settings_move_to_the_subtitle() -> None:
    made = shorten_levels(
        document(LEVELS[0], f"rep3 · w · {LEVELS[1]} · read", f"figure w@{LEVELS[2]} read iops"),
        LEVELS,
    )
    assert made.subtitle == "run · all levels: pvc=64M"
    assert shown(made) == (
        *("vm=small clients=1", "rep3 · w · vm=small clients=16 · read"),
        "figure w@vm=large clients=1 read iops",
    )
    code = made.sections[0].blocks[1]
    assert isinstance(code, Code)
    assert code.text == LEVELS[0], "commands keep the name"


def test_other_text_keeps_its_words() -> None:
    text = f"imported from fio: rw=read {LEVELS[0]} direct=1"
    assert shown(shorten_levels(document(text), LEVELS)) == (text,)


@pytest.mark.parametrize(
    "levels", [[LEVELS[0]], [], ["qd1", "qd16"], ["a=1", "a=1 b=2"], ["a=1 b=2", "b=2 a=1"]]
)
def test_levels_that_would_lose_their_name_are_kept(levels: list[str]) -> None:
    before = document("a=1 b=2", *levels)
    assert shorten_levels(before, levels) is before


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "vm_size=medium concurrency=16"),
        (28, "vm_size=medium concurren…=16"),
        (18, "vm…=medium co…=16"),
        (12, "vm_si…ncy=16"),
    ],
)
def test_keys_are_shortened_before_values(width: int, text: str) -> None:
    found = shortened("vm_size=medium concurrency=16", width)
    assert found == text
    assert len(found) <= width
