"""Values that an option of Ceph does not take, by Ceph's own description of the option."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.settings.ceph_config import value_fault

MEMORY = {"type": "size", "min": 939524096, "max": "", "enum_values": []}
PROFILE = {"type": "str", "min": "", "max": "", "enum_values": ["balanced", "custom"]}
RATIO = {"type": "float", "min": 0, "max": 1, "enum_values": []}
FLAG = {"type": "bool", "min": "", "max": "", "enum_values": []}


@pytest.mark.parametrize(
    ("described", "value", "fault"),
    [
        (MEMORY, "4G", ""),
        (MEMORY, "4294967296", ""),
        (MEMORY, "1K", "its minimum is 939524096"),
        (MEMORY, "lots", "it is a number of the type size"),
        (PROFILE, "custom", ""),
        (PROFILE, "fast", "it is one of balanced, custom"),
        (RATIO, "0.5", ""),
        (RATIO, "1.5", "its maximum is 1"),
        (FLAG, "true", ""),
        (FLAG, "0", ""),
        (FLAG, "maybe", "it is true or false"),
        ({"type": "str"}, "anything", ""),
    ],
)
def test_values_of_an_option(described: dict[str, Any], value: str, fault: str) -> None:
    assert value_fault(described, value) == fault
