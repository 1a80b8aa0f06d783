"""Labels of targets, `cores=2`, for comparisons by label."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Neither `=` nor a comma, which separate labels where they are written in one word.
LABEL_WORD = r"^[^\x00-\x1f\x7f=,]{1,100}$"
_WORD = re.compile(LABEL_WORD)
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


def is_label_word(text: str) -> bool:
    """Whether it can be a label's key or value."""
    # `$` alone would let a line's end pass.
    return bool(_WORD.fullmatch(text))


def parse_labels(text: str) -> dict[str, str]:
    """`cores=1` or `cores=1,replicas=3`. Raises ValueError for anything else."""
    found: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if not is_label_word(key.strip()) or not is_label_word(value.strip()) or key in found:
            raise ValueError(f"{text!r} is not written as KEY=VALUE[,KEY=VALUE...]")
        found[key.strip()] = value.strip()
    return found


def labels_text(labels: Mapping[str, str]) -> str:
    """`cores=1, replicas=3`, by key."""
    return ", ".join(f"{key}={labels[key]}" for key in sorted(labels))


def is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def value_order(value: str) -> tuple[bool, float, str]:
    """Numbers by their size, before words by their letters: the order of a label's values."""
    number = is_number(value)
    return (not number, float(value) if number else 0.0, value)
