"""Lines, numbers and table names in the text output of tools."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.formats.result import FormatError, Note, NoteKind

# No figure in base units comes near this, and no file and no array holds a count beyond it.
BEYOND: Final = 2**63
# A figure is shorter than this, whatever the tool.
_LONGEST = 64
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")
)
# How much of a line an error shows.
_SHOWN = 160
# The largest distance of a name above its table, in lines; log lines may be between them.
_ABOVE = 40
_CAPTION = re.compile(r"(?:#{1,6}|[-*+])\s+(?P<marked>\S.*)|\*\*(?P<bold>[^*]+)\*\*:?")


def split_lines(content: bytes) -> list[str]:
    """Split into lines without line ends. A byte order mark is dropped; bytes that are not UTF-8
    become U+FFFD."""
    return [line.rstrip("\r") for line in content.decode("utf-8-sig", "replace").split("\n")]


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a tool's output. `is_cut`: it is the last one and has no line end."""

    tool: str
    number: int
    text: str
    is_cut: bool

    @property
    def where(self) -> str:
        return f"line {self.number}"

    def refused(self) -> FormatError:
        """Make the error for a line that is not understood, or is cut."""
        return line_refused(self.number, self.text, self.tool, cut=self.is_cut)


def line_refused(number: int, line: str, tool: str, *, cut: bool = False) -> FormatError:
    """Make the error for a line that is not understood: `truncated-result` for a `cut` line, else
    `unreadable-result`."""
    return FormatError.unreadable(
        f"line {number} of the output of {tool} is " + ("cut off" if cut else "not understood"),
        shown("it says", line),
        cut=cut,
    )


def shown(lead: str, line: str) -> str:
    """Quote a line for an error, not all of a long one."""
    return f"{lead}: {line.strip()[:_SHOWN]!r}"


def ends_early(tool: str, what: str, line: str = "") -> FormatError:
    """Make the error for an output that ends before `what`; `line` is its last line."""
    context = [shown("the last line says", line)] if line.strip() else []
    return FormatError.truncated(f"the output of {tool} ends before {what}", *context)


class Figures:
    """Reads figures, and remembers what it could not take as one."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(self, kind: NoteKind, where: str, fact: str) -> None:
        self.notes.append(Note(kind, where, fact))

    def number(self, text: str, where: str, what: str, unit: float = 1.0) -> float | None:
        """`text` times `unit`. None where it is empty, and, with a note, where it cannot be: not
        finite, negative, or beyond all that is measured. Raises FormatError(`unreadable-result`)
        where it is no number."""
        given = text.strip()
        if not given:
            return None
        if given.lower() in _NOT_FINITE:
            value = math.nan
        elif len(given) > _LONGEST or not (_NUMBER.fullmatch(given) or _GROUPED.fullmatch(given)):
            raise FormatError.unreadable(f"{what} is {given[:40]!r}; expected a number", where)
        else:
            value = float(given.replace(",", "")) * unit
        if not 0 <= value < BEYOND:  # true for NaN, too
            self.note(NoteKind.IMPOSSIBLE_VALUE, where, f"{what} is {given}, which cannot be")
            return None
        return value

    def whole(self, text: str, where: str, what: str) -> int | None:
        """As `number`, for what is counted; a fraction cannot be."""
        value = self.number(text, where, what)
        if value is not None and value != int(value):
            self.note(NoteKind.IMPOSSIBLE_VALUE, where, f"{what} is {text.strip()}, not whole")
            return None
        return None if value is None else int(value)


def caption_above(lines: Sequence[str], index: int, stop: int) -> str:
    """The nearest Markdown heading, bold line or list item above a line, but below line `stop`;
    empty where there is none."""
    for line in reversed(lines[max(stop, index - _ABOVE) : index]):
        found = _CAPTION.fullmatch(line.strip()[:200])
        if found:
            return (found["marked"] or found["bold"]).strip(" *:`")
    return ""


def distinct_targets(own: Sequence[str], captions: Sequence[str]) -> list[str]:
    """A name for each table of a document: its own where all are different, else its caption, else
    its number; an only table without a name stays without one."""
    for names in (own, captions):
        if len(own) == 1 or (all(names) and len(set(names)) == len(names)):
            return list(names)
    return [
        f"{name or caption} (table {number})".lstrip()
        for number, (name, caption) in enumerate(zip(own, captions, strict=True), start=1)
    ]


def distinct_names(rows: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Names of rows that have parameters: those in which rows of one name differ are added to it.
    Rows that differ in none are repeats, and keep the same name."""
    alike: dict[str, list[Mapping[str, str]]] = {}
    for name, parameters in rows:
        alike.setdefault(name, []).append(parameters)
    differing = {
        name: [
            key
            for key in dict.fromkeys(key for entry in given for key in entry)
            if len({entry.get(key, "") for entry in given}) > 1
        ]
        for name, given in alike.items()
    }
    return [
        " ".join(
            [name, *(f"{key}={given[key]}" for key in differing[name] if given.get(key))]
        ).strip()
        for name, given in rows
    ]
