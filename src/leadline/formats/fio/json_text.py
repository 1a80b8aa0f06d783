"""JSON documents in the output of fio, with text around them.

A file may hold several documents, tokens that JSON does not have, and repeated keys. Most files are
one valid document behind some text: reading them takes little more time than orjson. All others are
read by the slower decoder of the standard library, in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import orjson

from leadline.formats.fio.bin_arrays import Apart, cut_out
from leadline.formats.result import FormatError
from leadline.json_bins import set_aside

_BOM: Final = b"\xef\xbb\xbf"
_QUOTE: Final = ord('"')
# The start of an object: a brace and a key, also within other text.
_OPENING: Final = re.compile(r'\{\s*"')
_OPENING_BYTES: Final = re.compile(rb'\{\s*"')
# The rest after the point where a decoder stops, if the text was cut within a token.
_STUMP: Final = re.compile(r"[-+.\\\w]*\s*")
# C's printf has words for numbers that JSON lacks. Strings are matched to skip them, also one
# without an end, so that the search stays linear.
_WORDS: Final = re.compile(
    r'"(?:[^"\\]|\\.?)*+(?:"|\Z)|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL
)
_A_WORD: Final = re.compile(r"-?(?:nan|inf)", re.IGNORECASE)
# Objects in the noise that are not JSON after all. Python's decoder counts lines for each, from the
# text's beginning on.
_MOST_FAILURES: Final = 200
# Half of a surrogate pair, written as an escape: it cannot be stored as text.
_HALVES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|"
    r"(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# A longer number is not one that a benchmark measured; as a float it is infinite or absurd.
_LONGEST_INTEGER: Final = 400


# A place in a document: the place of its parent, and a key or a position there. Paths are formatted
# on request only: in a deep document they are longer than the document.
_Place = tuple["_Place | None", "str | int"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A repeated key of one object. `parent` is that object, with the last value."""

    parent: dict[str, Any]
    place: _Place
    key: str
    values: tuple[Any, ...]

    @property
    def within(self) -> str:
        """The key of the object in its parent; empty for the document and in a list."""
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
    """One object, and the text around it that belongs to no other document. `bins` are those with
    a mark in their place (`json_bins`)."""

    content: dict[str, Any]
    bins: Sequence[Apart] = ()
    noise: str = ""
    repeats: tuple[Repeat, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText:
    """All documents of a text; `fault` is the error after the last of them, if there is one: a
    document that is cut off or not JSON."""

    documents: tuple[JsonDocument, ...]
    fault: FormatError | None = None


def find_json(
    content: bytes, marks: frozenset[str], flat: frozenset[str] = frozenset()
) -> JsonText:
    """Find the documents of a text: the objects with a key of `marks`. Other objects and text are
    noise. Objects under a key of `flat` are expected to hold numbers only, which saves time; the
    result is the same if they do not. Bins are kept apart."""
    if content.startswith(_BOM):
        content = content[len(_BOM) :]
    without, arrays = cut_out(content)
    if arrays and (document := _find_one(without, marks, flat)) is not None:
        return JsonText(documents=(replace(document, bins=arrays),))
    content, bins = set_aside(content)
    found = _find_one(content, marks, flat)
    text = (
        JsonText(documents=(found,))
        if found is not None
        else _find_all(content.decode("utf-8", "replace"), marks)
    )
    return replace(text, documents=tuple(replace(one, bins=bins) for one in text.documents))


# The same paths are in every document.
@lru_cache(maxsize=4096)
def key_path(where: str, key: str) -> str:
    """Format the JSON path of a key; a long key is cut."""
    key = key if len(key) <= 60 else key[:60] + "..."
    return f"{where}.{key}" if key.isidentifier() else f"{where}[{key!r}]"


def _find_one(content: bytes, marks: frozenset[str], flat: frozenset[str]) -> JsonDocument | None:
    """Read the text as one document behind other text; None if it is not that, or a key repeats."""
    opening = _OPENING_BYTES.search(content)
    if opening is None:
        return None
    start, end = opening.start(), content.rfind(b"}") + 1
    raw = memoryview(content)[start:end]
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    # orjson keeps the last of two equal keys without an error. Each key and each string that is in
    # the document is between two quotes of the text; more quotes belong to lost keys.
    quotes = int(np.count_nonzero(np.frombuffer(raw, dtype=np.uint8) == _QUOTE))
    lost = content.find(b"\\", start, end) >= 0 or quotes != 2 * _keys_and_strings(document, flat)
    if lost or not marks & document.keys():
        return None
    around = (content[:start], content[end:])
    return JsonDocument(
        content=document, noise=_joined(part.decode("utf-8", "replace") for part in around)
    )


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(stripped for part in parts if (stripped := part.strip()))


def _keys_and_strings(document: dict[str, Any], flat: frozenset[str]) -> int:
    """Count keys and strings. Strings in flat objects, which have none, are not counted: that would
    take as long as decoding."""
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
    """An object with repeated keys in its text."""

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
            deep = FormatError.unreadable(
                "the JSON is nested too deeply",
                f"in the object that begins at {_position(text, start)}",
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
    """Replace half a surrogate pair by U+FFFD, in as many letters; keep any other escape."""
    return "\\ufffd" if match["half"] else match.group()


def _as_nan(match: re.Match[str]) -> str:
    """Replace the word by `NaN`, padded to the same length; keep a string."""
    token = match.group()
    return token if token[0] == '"' else "NaN".ljust(len(token))


def _position(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _fault(text: str, error: json.JSONDecodeError) -> FormatError:
    cut = (
        error.msg.startswith("Unterminated string") or _STUMP.fullmatch(text, error.pos) is not None
    )
    return FormatError.unreadable(
        "the JSON is cut off" if cut else "this is not JSON",
        f"{_position(text, error.pos)}: {error.msg}",
        cut=cut,
    )


def _repeats(document: dict[str, Any]) -> Iterator[Repeat]:
    """Yield repeated keys in the order of the text, those of an object before those inside it."""
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
