"""Latency bins of large JSON files of fio: decoded apart from the rest, to bound the memory.

The file of many jobs is nearly all bins. Python's objects of them take seventeen times the memory
of their text, arrays less than the text. The decoder reads the text without them, and each object
of bins is decoded by itself when its array is made. `formats.fio.bin_arrays` has those of smaller
files.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import orjson

from leadline.files import JSON, ReadingCost

# Below, a decoder reads everything at once: that takes less time.
SMALL_BYTES: Final = 8 << 20
# An object of numbers only. Possessive: the search stays linear. Smaller ones are decoded with the
# rest: there could be a million of them.
_BINS: Final = re.compile(rb'"bins"\s*+:\s*+(\{[\s\d":,]{512,}+\})')
KEY: Final = "set aside by leadline"
MARK: Final = KEY.encode()
_MARKED: Final = re.compile(rb'\{"%s":(\d+)\n*\}' % MARK)
# Each bin is two int32 in arrays; each object of bins has its arrays, views and marks.
_BIN_BYTES: Final = 8
_BLOCK_BYTES: Final = 1000


def set_aside(content: bytes) -> tuple[bytes, list[memoryview]]:
    """Return the text with a mark in place of each object of bins, and these objects.

    Line breaks stay, so that positions in errors are those of the file. A small text is returned
    as it is.
    """
    if len(content) <= SMALL_BYTES or MARK in content:
        return content, []
    whole = memoryview(content)
    parts: list[bytes | memoryview] = []
    blocks: list[memoryview] = []
    at = 0
    for found in _BINS.finditer(content):
        begin, end = found.span(1)
        breaks = b"\n" * content.count(b"\n", begin, end)
        parts += [whole[at:begin], b'{"%s":%d%s}' % (MARK, len(blocks), breaks)]
        blocks.append(whole[begin:end])
        at = end
    return b"".join([*parts, whole[at:]]), blocks


def insert(text: bytes, blocks: list[memoryview]) -> bytes:
    """Return the text of a file with its bins again, after a change of other parts."""
    return _MARKED.sub(lambda found: blocks[int(found[1])], text)


def decode_bins(block: memoryview) -> dict[str, Any]:
    """Decode an object of bins that was set aside. Raises ValueError where it is not JSON or has
    a key twice."""
    bins: dict[str, Any] = orjson.loads(block)
    if bytes(block).count(b'"') != 2 * len(bins):
        raise ValueError("a bin is there twice")
    return bins


def _cost(content: bytes) -> tuple[bytes, int]:
    """Return the text without bins, and the memory in bytes that the bins take: their arrays, and
    the objects of the largest block while its array is made."""
    text, blocks = set_aside(content)
    bins = [bytes(block).count(b":") for block in blocks]
    each = 2 * JSON.each[b'"'] + JSON.each[b","]
    arrays = sum(bins) * _BIN_BYTES + len(blocks) * _BLOCK_BYTES
    return text, arrays + max(bins, default=0) * each


COST: Final[ReadingCost] = replace(JSON, apart=_cost)
