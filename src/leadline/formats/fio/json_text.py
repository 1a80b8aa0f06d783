"""JSON documents in the output of fio, with text around them.

A file may hold several documents, tokens that JSON does not have, and repeated keys. Most files are
one valid document behind some text: reading them takes little more time than orjson. All others are
read by the slower decoder of the standard library, in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from leadline.formats.result import FormatError

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
