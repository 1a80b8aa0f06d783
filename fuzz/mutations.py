"""Changes to an input that a parser is likely to stumble over.

A fuzzer that flips bytes rarely comes further than a decoder; these change what the decoder
passes on: a value of a JSON document, a cell of a table, the order of lines.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

# Digits that str.isdigit() takes and int() does not, numbers beyond every type, C's words.
NUMBERS = (
    "0", "-0", "-1", "1", "0.5", "1e308", "-1e308", "1e-308", "1e999", "4.9e-324",
    "nan", "-nan", "NaN", "inf", "Infinity", "-Infinity",
    "2147483648", "9223372036854775808", "18446744073709551616", "9" * 40, "9" * 500, "9" * 5000,
    "0x10", "1_000", "1,000", "1.2.3", "1e", "-", ".", "",
    "\u00b2", "\u0968", "\uff11", "1 2", "12k", "100%", "10:00", "1us", "1e5s",
)  # fmt: skip
WORDS = (
    "\x00", "\x1b[31m", "<script>", "../../x", "\ufeff", "\u202e", "\u2028", "\r", "\x85",
    "{", "}", "[", '"', "\\", ",", ":", ";", "=", "|", "\t", "\n\n", " ", "-- x --\n",
    "\\ud800", "null", "true", "read", "write", "total", "None",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, "", "x", [], {}, [[]], [{}], {"x": {}}, [1, 2], {"a": 1},
    0, -1, 1, 0.5, -0.5, 2**31, 2**63, 2**64, 10**30, 1e308, -1e308, 1e-308,
    float("nan"), float("inf"), float("-inf"), "1", "-1", "nan", "1e308", "\u00b2", "9" * 5000,
    "\ud800", "\x00", "10%", "1k",
)  # fmt: skip
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_]{2,}")
_CELL = re.compile(rb"[^\s,;|]+[,;| \t]*")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        changed = _json(data, rng) if b"{" in data and rng.random() < 0.5 else None
        data = changed if changed is not None else _text(data, rng)
    return data


def number_places(data: bytes) -> list[tuple[int, int]]:
    """Return begin and end of each number of a text."""
    return [match.span() for match in _NUMBER.finditer(data)]


def _text(data: bytes, rng: random.Random) -> bytes:
    match rng.randrange(12):
        case 0 | 1 | 2:
            return _replaced(_NUMBER, data, rng.choice(NUMBERS).encode(), rng)
        case 3:
            found = _NUMBER.findall(data)
            return _replaced(_NUMBER, data, rng.choice(found), rng) if found else data
        case 4:
            found = _WORD.findall(data)
            word = rng.choice([*found[:500], rng.choice(WORDS).encode()])
            return _replaced(_WORD, data, word, rng)
        case 5:
            return _replaced(_CELL, data, b"", rng)
        case 6:
            at = rng.randrange(len(data) + 1)
            return data[:at] + rng.choice(WORDS).encode() + data[at:]
        case 7:
            return data[: rng.randrange(len(data) + 1)]
        case 8:
            return data.replace(b"\n", b"\r\n") if rng.random() < 0.5 else data.replace(b"\n", b"")
        case _:
            return _lines(data, rng)


def _replaced(what: re.Pattern[bytes], data: bytes, other: bytes, rng: random.Random) -> bytes:
    # From a random place on, so that a long input is not searched as a whole every time.
    start = rng.randrange(len(data) + 1)
    match = what.search(data, start) or what.search(data)
    return data[: match.start()] + other + data[match.end() :] if match else data


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[one]
        case 1:
            lines.insert(other, lines[one])
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3:
            begin, end = sorted((one, other))
            lines[begin:end] = []
        case _:
            lines[one:one] = [lines[one]] * rng.choice((2, 5, 50))
    return b"\n".join(lines)


def _json(data: bytes, rng: random.Random) -> bytes | None:
    """One value, key or branch of a document changed; None where there is no document."""
    start, end = data.find(b"{"), data.rfind(b"}") + 1
    try:
        document = json.loads(data[start:end], strict=False)
    except (ValueError, RecursionError):
        return None
    holders = _holders(document)
    if not holders:
        return None
    holder = rng.choice(holders)
    keys: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = rng.choice(keys)
    match rng.randrange(8):
        case 0:
            del holder[key]
        case 1:
            other = rng.choice(holders)
            branch = rng.choice(list(other.values()) if isinstance(other, dict) else other)
            # Through text, so that no branch comes to hold itself.
            holder[key] = json.loads(json.dumps(branch))
        case 2 if isinstance(holder, dict):
            names = [name for entry in holders if isinstance(entry, dict) for name in entry]
            name = rng.choice([*names, rng.choice(NUMBERS), rng.choice(WORDS)])
            holder[name] = holder.pop(key)
        case 3 if isinstance(holder, list):
            holder.append(json.loads(json.dumps(holder[key])))
        case 4:
            holder[key] = _deep(rng.choice((5, 200)))
        case 5 if isinstance(holder[key], str):
            holder[key] = _text(holder[key].encode("utf-8", "replace"), rng).decode(
                "utf-8", "replace"
            )
        case _:
            holder[key] = rng.choice(_VALUES)
    indent = rng.choice((None, 1))
    return data[:start] + json.dumps(document, indent=indent).encode() + data[end:]


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _holders(document: Any) -> list[Any]:
    """Objects and lists of a document that are not empty."""
    found, pending = [], [document]
    while pending:
        one = pending.pop()
        if isinstance(one, dict | list) and one:
            found.append(one)
            pending.extend(one.values() if isinstance(one, dict) else one)
    return found
