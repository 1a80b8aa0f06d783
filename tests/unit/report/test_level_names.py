"""Names of levels on a page: settings that all of them share are listed once."""

from __future__ import annotations

import pytest

from leadline.report.words import level_name, place, short_levels, shortened

LEVELS = ("vm=small pvc=64M clients=1", "vm=small pvc=64M clients=16", "vm=large pvc=64M clients=1")


def test_shared_settings_are_named_once() -> None:
    with short_levels(LEVELS) as shared:
        assert shared == "all levels: pvc=64M"
        assert [level_name(level) for level in LEVELS] == [
            *("vm=small clients=1", "vm=small clients=16", "vm=large clients=1")
        ]
        assert place("rep3", "w", LEVELS[1], "read") == "rep3 · w · vm=small clients=16 · read"
        assert level_name("other") == "other"
        assert place(f"imported from fio: {LEVELS[0]}") == f"imported from fio: {LEVELS[0]}"
    assert place("w", LEVELS[0]) == f"w · {LEVELS[0]}", "the next page has its own names"


def test_a_page_within_a_page_has_its_own_names() -> None:
    with short_levels(LEVELS):
        with short_levels(["a=1 b=2", "a=1 b=3"]) as shared:
            assert (shared, level_name("a=1 b=2")) == ("all levels: a=1", "b=2")
        assert level_name(LEVELS[0]) == "vm=small clients=1"


@pytest.mark.parametrize(
    "levels", [[LEVELS[0]], [], ["qd1", "qd16"], ["a=1", "a=1 b=2"], ["a=1 b=2", "b=2 a=1"]]
)
def test_levels_that_would_lose_their_name_are_kept(levels: list[str]) -> None:
    with short_levels(levels) as shared:
        assert shared == ""
        assert [level_name(level) for level in levels] == levels


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
