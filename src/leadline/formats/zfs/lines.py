"""Lines of a tool's output, and how one that is not understood is refused."""

from __future__ import annotations

import re
from typing import Final

from leadline.formats.output import FormatError

_SHOWN = 160
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
    """Whether the line is a date with its time, as -T d prints it."""
    return len(line) <= _LONGEST_DATE and bool(_CLOCK.search(line) and _YEAR.search(line))


def clock_s(line: str) -> int:
    """Seconds since midnight of a date (`is_date`)."""
    found = _CLOCK.search(line)
    if found is None:
        raise ValueError(f"{line!r} tells no time")
    hours = int(found[1])
    if found[4]:
        hours = hours % 12 + (12 if found[4] in "Pp" else 0)
    return hours * 3600 + int(found[2]) * 60 + int(found[3])


def is_prompt(line: str) -> bool:
    """Whether the line is a shell's prompt, with or without a command behind it."""
    told = line.strip()
    return bool(told) and bool(_PROMPT.fullmatch(told[:_LONGEST_PROMPT]))


def lines_of(text: str, tool: str) -> list[str]:
    """Lines without blanks at their ends; the first has number 1. Raises
    FormatError(`empty-result`)."""
    given = uncoloured(text.removeprefix("\ufeff"))
    if not given.strip():
        raise FormatError("empty-result", f"the output of {tool} is empty")
    # Only what ends a line in a file: a name may hold the other characters that splitlines knows.
    # Tabs stay: between them a cell may be empty.
    return [line.rstrip(" \r") for line in given.split("\n")]


def is_cut(text: str, number: int, lines: list[str]) -> bool:
    """Whether line `number` is the last one and lacks its end."""
    return number >= len(lines) and not text.endswith("\n")


def refused(number: int, line: str, tool: str, *, cut: bool = False) -> FormatError:
    """`truncated-result` where the line is the last one and has no end, else
    `unreadable-result`."""
    return FormatError(
        "truncated-result" if cut else "unreadable-result",
        f"line {number} of the output of {tool} is " + ("cut off" if cut else "not understood"),
        context=(f"it says: {line.strip()[:_SHOWN]!r}",),
    )


def ends_early(tool: str, what: str, line: str = "") -> FormatError:
    return FormatError(
        "truncated-result",
        f"the output of {tool} ends before {what}",
        context=(f"the last line says: {line.strip()[:_SHOWN]!r}",) if line.strip() else (),
    )
