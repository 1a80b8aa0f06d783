"""Labels of targets, `cores=2`, for comparisons by label."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Without `=` and comma, which separate labels in one word.
LABEL_WORD = r"^[^\x00-\x1f\x7f=,]{1,100}$"
_WORD = re.compile(LABEL_WORD)
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


def is_label_word(text: str) -> bool:
    """Return whether a text can be a key or a value of a label."""
    # `$` alone would accept a line break at the end.
    return bool(_WORD.fullmatch(text))


def parse_labels(text: str) -> dict[str, str]:
    """Parse `cores=1` or `cores=1,replicas=3`. Raises ValueError."""
    found: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if not is_label_word(key.strip()) or not is_label_word(value.strip()) or key in found:
            raise ValueError(f"{text!r} is not written as KEY=VALUE[,KEY=VALUE...]")
        found[key.strip()] = value.strip()
    return found


def labels_text(labels: Mapping[str, str]) -> str:
    """Format labels as `cores=1, replicas=3`, sorted by key."""
    return ", ".join(f"{key}={labels[key]}" for key in sorted(labels))


def is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def value_order(value: str) -> tuple[bool, float, str]:
    """Return the sort key of a label's value: numbers by size, then words."""
    number = is_number(value)
    return (not number, float(value) if number else 0.0, value)
