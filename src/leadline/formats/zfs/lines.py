"""Lines of a tool's output, and how one that is not understood is refused."""

from __future__ import annotations

from leadline.formats.output import FormatError

_SHOWN = 160


def lines_of(text: str, tool: str) -> list[str]:
    """Lines without blanks at their ends; the first has number 1. Raises
    FormatError(`empty-result`)."""
    given = text.removeprefix("\ufeff")
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
