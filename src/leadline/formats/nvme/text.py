"""Lines of nvme-cli's text, and its `key : value` pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from leadline.formats.output import FormatError

_PAIR: Final = re.compile(r"(?P<key>[A-Za-z][\w .-]{0,63}?)\s*:(?:\s+(?P<value>.*))?", re.ASCII)
_LONGEST_LINE: Final = 5000
_SHOWN: Final = 160
_BEYOND: Final = 1 << 128
_HEX: Final = re.compile(r"0x[0-9a-fA-F]{1,32}", re.ASCII)
_GROUPED: Final = re.compile(r"\d{1,40}|\d{1,3}(?:[,.]\d{3})+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    number: int
    text: str
    cut: bool


def lines_of(text: str, tool: str) -> tuple[Line, ...]:
    """Lines that are not blank, without blanks at their ends. Raises FormatError
    (`empty-result`, and `unreadable-result` where one is longer than any of the tool)."""
    given = text.removeprefix("\ufeff").split("\n")
    told = tuple(
        Line(number=number, text=line.rstrip(), cut=number == len(given))
        for number, line in enumerate(given, start=1)
        if line.strip()
    )
    if not told:
        raise FormatError("empty-result", f"the output of {tool} is empty")
    for line in told:
        if len(line.text) > _LONGEST_LINE:
            raise refused(line, tool)
    return told


def refused(line: Line, tool: str) -> FormatError:
    """`truncated-result` where the line is the last one and has no end, else
    `unreadable-result`."""
    return FormatError(
        "truncated-result" if line.cut else "unreadable-result",
        f"line {line.number} of the output of {tool} is "
        + ("cut off" if line.cut else "not understood"),
        context=(f"it says: {line.text.strip()[:_SHOWN]!r}",),
    )


def ends_early(tool: str, what: str) -> FormatError:
    return FormatError("truncated-result", f"the output of {tool} ends before {what}")


def pair(line: str) -> tuple[str, str] | None:
    """`sqes      : 0x66` as its key and value; None where the line is no pair."""
    found = _PAIR.fullmatch(line)
    return (found["key"], (found["value"] or "").strip()) if found else None


def whole_number(text: str) -> int | None:
    """`0x66`, `1024`, `1,234,567` (old versions group thousands by the locale); None else."""
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _GROUPED.fullmatch(text):
        value = int(text.replace(",", "").replace(".", ""))
        return value if value < _BEYOND else None
    return None


def told_number(fields: Mapping[str, str], key: str, tool: str) -> int | None:
    """The number of a field; None where there is no such field. Raises FormatError where it is
    something else than a number."""
    if key not in fields:
        return None
    value = whole_number(fields[key])
    if value is None:
        raise not_a_number(fields, key, tool)
    return value


def not_a_number(fields: Mapping[str, str], key: str, tool: str) -> FormatError:
    return FormatError(
        "unreadable-result",
        f"`{key}` of {tool} is no number",
        context=(f"it says: {fields[key][:_SHOWN]!r}",),
    )
