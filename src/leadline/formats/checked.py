"""Values of a decoded JSON line, each checked for its kind: what is not as expected raises
FormatError with the path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from leadline.formats.output import FormatError

# No counter of a kernel or a daemon is larger, and products of two still are finite.
_BEYOND = 1 << 64


def decoded_line(line: bytes, number: int, what: str) -> Mapping[str, Any]:
    """One line of a record as an object. Raises FormatError with the line."""
    where = f"line {number}"
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise wrong(f"{where} of {what}", f"no JSON: {error.msg}") from error
    return mapping(entry, where)


def mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise wrong(where, "an object was expected")
    return value


def text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise wrong(f"{where}.{key}", "a text was expected")
    return value


def number(value: object, where: str) -> float:
    """A number of at least zero: counters, sizes and times are."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _BEYOND:
        raise wrong(where, "a number was expected")
    return float(value)


def count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _BEYOND:
        raise wrong(where, "a count was expected")
    return value


def counts(value: object, where: str, least: int) -> Sequence[int]:
    """A list of at least `least` counts."""
    if not isinstance(value, list) or len(value) < least:
        raise wrong(where, f"a list of at least {least} counts was expected")
    return [count(one, f"{where}[{index}]") for index, one in enumerate(value)]


def wrong(where: str, what: str) -> FormatError:
    return FormatError("unreadable-result", f"{where}: {what}")
