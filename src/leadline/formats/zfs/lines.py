"""Lines and numbers of the text output of ZFS commands.

Without -p numbers have three digits and a suffix, a power of 1024 also for counts (libzutil,
zfs_nicenum_format).
"""

from __future__ import annotations

import re
from typing import Final

from leadline.formats.result import FormatError
from leadline.formats.text import TextLine

_FACTORS: Final = {
    suffix: 1 << 10 * power for power, suffix in enumerate(("", "K", "M", "G", "T", "P", "E"))
}
# OpenZFS prints a B where there is no suffix (96B), zfs-fuse, for a stream, after it (36.7MB). The
# decimal point is a comma with some locales.
_NUMBER: Final = re.compile(r"(\d{1,20}(?:\.\d{1,9}|,\d{1,2})?)([KMGTPE]?)B?", re.ASCII)
# No counter of a kernel is larger.
BEYOND: Final = 1 << 64


def nice_number(text: str) -> float | None:
    """`1.42K` as 1454.08, `911M` as bytes, `955486208` as it is; None where it is no such figure.
    With a suffix it is good to three digits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    value = float(found[1].replace(",", ".")) * _FACTORS[found[2]]
    return value if value < BEYOND else None


def nice_count(text: str) -> int | None:
    """The nearest whole number; exact where the text has no suffix. None as for nice_number."""
    if text.isascii() and text.isdigit() and len(text) <= 20:
        count = int(text)
        return count if count < BEYOND else None
    value = nice_number(text)
    return None if value is None or round(value) >= BEYOND else round(value)


# What OpenZFS 2.2 colours figures with, where it prints to a terminal (ZFS_COLOR).
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]{0,20}[mK]")
# -T d prints a date by the locale: `Sat Nov 21 09:13:40 UTC 2026`, `Wed 14 Apr 2021 02:27:26 PM
# UTC`, `March 18, 2022 02:27:26 PM UTC`.
_CLOCK: Final = re.compile(r"(?<![\d:])(\d{1,2}):(\d\d):(\d\d)(?![\d:])(?: ([AaPp])[Mm]\b)?")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_LONGEST_DATE: Final = 60
# `root@pbs:~#`, `[root@host ~]# zpool ...`, `$ zpool ...`, `bash-4.2#`, behind a `^C` perhaps.
_PROMPT: Final = re.compile(
    r"(?:\^C)?(?:\S*[@~]\S*(?: \S+)?|\[[^\]]+\]|[A-Za-z][\w.-]*)? ?[#$%>](?: .*)?|\^C"
)
_LONGEST_PROMPT: Final = 200


def uncoloured(text: str) -> str:
    """Without the codes that colour a terminal."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


def is_date(line: str) -> bool:
    """Test whether the line is a date with its time, as -T d prints it."""
    return len(line) <= _LONGEST_DATE and bool(_CLOCK.search(line) and _YEAR.search(line))


def clock_s(line: str) -> int:
    """Seconds since midnight of a date (`is_date`)."""
    found = _CLOCK.search(line)
    if found is None:
        raise ValueError(f"{line!r} has no time")
    hours = int(found[1])
    if found[4]:
        hours = hours % 12 + (12 if found[4] in "Pp" else 0)
    return hours * 3600 + int(found[2]) * 60 + int(found[3])


def is_prompt(line: str) -> bool:
    """Test whether the line is a shell's prompt, with or without a command behind it."""
    stripped = line.strip()
    return bool(stripped) and bool(_PROMPT.fullmatch(stripped[:_LONGEST_PROMPT]))


def tool_lines(text: str, tool: str) -> list[TextLine]:
    """Lines without blanks at their ends, at least one. Raises FormatError(`empty-result`)."""
    given = uncoloured(text.removeprefix("\ufeff"))
    if not given.strip():
        raise FormatError.empty(f"the output of {tool} is empty")
    # Only what ends a line in a file: a name may hold the other characters that splitlines knows.
    # Tabs stay: between them a cell may be empty.
    lines = [line.rstrip(" \r") for line in given.split("\n")]
    cut_line = 0 if text.endswith("\n") else len(lines)
    return [
        TextLine(tool, number, line, number == cut_line)
        for number, line in enumerate(lines, start=1)
    ]
