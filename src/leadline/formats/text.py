"""JSON as tools and their users leave it: amid other text, several documents in one file, with
tokens that JSON does not have, with keys that stand twice.

A file that is one sound document behind some text, by far the most, costs little more than orjson
needs. Everything else is read by the slower decoder of the standard library, still in linear time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from leadline.formats.result import FormatError, Note, NoteKind

_BOM: Final = b"\xef\xbb\xbf"
_QUOTE: Final = ord('"')
# Where an object may begin: wherever a brace and a key stand, also glued to other text.
_OPENING: Final = re.compile(r'\{\s*"')
_OPENING_BYTES: Final = re.compile(rb'\{\s*"')
# What is left behind the point that a decoder stops at if the text was cut within a token.
_STUMP: Final = re.compile(r"[-+.\\\w]*\s*")
# C's printf has words for numbers that JSON lacks. Strings are matched to be passed over; one that
# never ends is a match, too, so that the search stays linear.
_WORDS: Final = re.compile(
    r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL
)
_A_WORD: Final = re.compile(r"-?(?:nan|inf)", re.IGNORECASE)
# Objects in the noise that are not JSON after all. Python's decoder counts lines for each, from the
# text's beginning on.
_MOST_FAILURES: Final = 200
# Half of a character beyond U+FFFF, written as an escape: no text that can be stored holds it.
_HALVES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|"
    r"(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# A longer number is not one that a benchmark measured; as a float it is infinite or absurd.
_LONGEST_INTEGER: Final = 400


# A place in a document: the place of what holds it, and a key or a position there. Written out
# only when asked for: in a deep document the paths are longer than the document.
_Place = tuple["_Place | None", "str | int"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A key that stands more than once in one object. `parent` is that object, which holds the
    last value."""

    parent: dict[str, Any]
    place: _Place
    key: str
    values: tuple[Any, ...]

    @property
    def within(self) -> str:
        """The key that the object stands under; empty for the document and in a list."""
        above = self.place[0]
        return above[1] if above and isinstance(above[1], str) else ""

    @property
    def where(self) -> str:
        """The JSON path of the key."""
        steps: list[str | int] = []
        place: _Place | None = self.place
        while place is not None:
            steps.append(place[1])
            place = place[0]
        path = "$"
        for step in reversed(steps):
            path = f"{path}[{step}]" if isinstance(step, int) else key_path(path, step)
        return path

    @property
    def same(self) -> bool:
        """Whether all values are equal, so that none is lost."""
        try:
            return all(value == self.values[0] for value in self.values[1:])
        except RecursionError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDocument:
    """One object and the text around it that belongs to no other document."""

    content: dict[str, Any]
    noise: str = ""
    repeats: tuple[Repeat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText:
    """All documents of a text; `fault` is why there are no more behind them, if it was not the
    text's end: a document that is cut, or that is not JSON."""

    documents: tuple[JsonDocument, ...]
    fault: FormatError | None = None


def find_json(
    content: bytes, marks: frozenset[str], flat: frozenset[str] = frozenset()
) -> JsonText:
    """The documents of a text: the objects that have a key of `marks`. Other objects, and braces
    that begin none, are noise. Objects under a key of `flat` are known to hold numbers only, which
    saves time and changes nothing if it is not true."""
    if content.startswith(_BOM):
        content = content[len(_BOM) :]
    found = _find_one(content, marks, flat)
    if found is not None:
        return JsonText(documents=(found,))
    return _find_all(content.decode("utf-8", "replace"), marks)


def key_path(where: str, key: str) -> str:
    """The JSON path of a key; a long one is cut."""
    key = key if len(key) <= 60 else key[:60] + "..."
    return f"{where}.{key}" if key.isidentifier() else f"{where}[{key!r}]"


def _find_one(content: bytes, marks: frozenset[str], flat: frozenset[str]) -> JsonDocument | None:
    """The text as one document behind some text, if it is that and no key stands twice."""
    opening = _OPENING_BYTES.search(content)
    if opening is None:
        return None
    start, end = opening.start(), content.rfind(b"}") + 1
    raw = content[start:end]
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    # orjson keeps the last of two equal keys and says nothing. Each key and each string that is in
    # the document stands between two quotes of the text; more quotes are of keys that are lost.
    quotes = int(np.count_nonzero(np.frombuffer(raw, dtype=np.uint8) == _QUOTE))
    lost = b"\\" in raw or quotes != 2 * _keys_and_strings(document, flat)
    if lost or not marks & document.keys():
        return None
    around = (content[:start], content[end:])
    return JsonDocument(content=document, noise=_joined(_text(part) for part in around))


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(stripped for part in parts if (stripped := part.strip()))


def _keys_and_strings(document: dict[str, Any], flat: frozenset[str]) -> int:
    """At most their true number: the strings in flat objects, which have none, are not counted,
    since that would take as long as decoding does."""
    number = 0
    pending: list[dict[str, Any] | list[Any]] = [document]
    while pending:
        one = pending.pop()
        if type(one) is dict:
            number += len(one)
            for key, value in one.items():
                kind = type(value)
                if kind is int or kind is float:  # nearly all are
                    continue
                if kind is dict:
                    if key in flat:
                        number += len(value)
                    else:
                        pending.append(value)
                elif kind is str:
                    number += 1
                elif kind is list:
                    pending.append(value)
        else:
            for value in one:
                if type(value) is str:
                    number += 1
                elif type(value) is dict or type(value) is list:
                    pending.append(value)
    return number


class _Repeating(dict[str, Any]):
    """An object with keys that stand twice in its text."""

    __slots__ = ("repeated",)
    repeated: dict[str, list[Any]]


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    given: dict[str, list[Any]] = {}
    for key, value in pairs:
        given.setdefault(key, []).append(value)
    found = _Repeating(plain)
    found.repeated = {key: values for key, values in given.items() if len(values) > 1}
    return found


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


# Tools write names as they are, control characters among them: not strict.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, strict=False)


def _find_all(text: str, marks: frozenset[str]) -> JsonText:
    documents: list[JsonDocument] = []
    original, words_known = text, False
    if "\\ud" in text or "\\uD" in text:
        text = _HALVES.sub(_without_half, text)
    position = behind = failures = 0
    while (opening := _OPENING.search(text, position)) is not None:
        start = opening.start()
        try:
            document, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if not words_known and _A_WORD.match(text, error.pos):
                text, words_known = text[:start] + _WORDS.sub(_as_nan, text[start:]), True
                continue
            failures += 1
            begun = text[start : error.pos]
            if failures > _MOST_FAILURES or any(f'"{mark}"' in begun for mark in marks):
                return JsonText(documents=tuple(documents), fault=_fault(original, error))
            position = max(error.pos, start + 1)
            continue
        except RecursionError:
            deep = FormatError(
                "unreadable-result",
                "the JSON is nested too deeply",
                context=(f"in the object that begins at {_position(text, start)}",),
            )
            return JsonText(documents=tuple(documents), fault=deep)
        if isinstance(document, dict) and marks & document.keys():
            documents.append(
                JsonDocument(
                    content=document,
                    noise=original[behind:start].strip(),
                    repeats=tuple(_repeats(document)),
                )
            )
            behind = end
        position = end
    if documents:
        last = documents[-1]
        noise = _joined(iter((last.noise, original[behind:])))
        documents[-1] = JsonDocument(content=last.content, noise=noise, repeats=last.repeats)
    return JsonText(documents=tuple(documents))


def _without_half(match: re.Match[str]) -> str:
    """Half a character as U+FFFD, in as many letters; any other escape as it is."""
    return "\\ufffd" if match["half"] else match.group()


def _as_nan(match: re.Match[str]) -> str:
    """The word as Python's decoder knows it, of the same length; a string as it is."""
    token = match.group()
    return token if token[0] == '"' else "NaN".ljust(len(token))


def _position(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _fault(text: str, error: json.JSONDecodeError) -> FormatError:
    cut = (
        error.msg.startswith("Unterminated string") or _STUMP.fullmatch(text, error.pos) is not None
    )
    return FormatError(
        "truncated-result" if cut else "unreadable-result",
        "the JSON is cut off" if cut else "this is not JSON",
        context=(f"{_position(text, error.pos)}: {error.msg}",),
    )


def _repeats(document: dict[str, Any]) -> Iterator[Repeat]:
    """In the order of the text, but an object's own before those of the objects in it."""
    pending: list[tuple[Any, _Place | None]] = [(document, None)]
    while pending:
        one, above = pending.pop()
        if isinstance(one, _Repeating):
            for key, values in one.repeated.items():
                yield Repeat(parent=one, place=(above, key), key=key, values=tuple(values))
        below: Iterable[tuple[str | int, Any]] = (
            one.items() if isinstance(one, dict) else enumerate(one)
        )
        inner: list[tuple[Any, _Place | None]] = [
            (value, (above, step)) for step, value in below if isinstance(value, dict | list)
        ]
        pending.extend(reversed(inner))


# Values of a decoded JSON line, each checked for its kind: what is not as expected raises
# FormatError with the path.

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


# Text that people pass on: its lines, the figures in it, and what a table in it is called.

# No figure in base units comes near this, and no file and no array holds a count beyond it.
BEYOND: Final = 2**63
# A figure is shorter than this, whatever the tool.
_LONGEST = 64
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")
)
# How far above a table its name may stand; between them are log lines of the tool's own.
_ABOVE = 40
_CAPTION = re.compile(r"(?:#{1,6}|[-*+])\s+(?P<marked>\S.*)|\*\*(?P<bold>[^*]+)\*\*:?")


def lines_of(content: bytes) -> list[str]:
    """Lines without their ends. A byte order mark is dropped, and bytes that are no UTF-8 become
    U+FFFD."""
    return [line.rstrip("\r") for line in content.decode("utf-8-sig", "replace").split("\n")]


class Figures:
    """Reads figures, and remembers what it could not take as one."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def note(self, kind: NoteKind, where: str, fact: str) -> None:
        self.notes.append(Note(kind=kind, where=where, fact=fact))

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
            raise FormatError(
                "unreadable-result",
                f"{what} is {given[:40]!r}; expected a number",
                context=(where,),
            )
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
            for key in dict.fromkeys(key for one in given for key in one)
            if len({one.get(key, "") for one in given}) > 1
        ]
        for name, given in alike.items()
    }
    return [
        " ".join(
            [name, *(f"{key}={given[key]}" for key in differing[name] if given.get(key))]
        ).strip()
        for name, given in rows
    ]
