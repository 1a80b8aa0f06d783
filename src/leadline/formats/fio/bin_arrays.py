"""Latency bins of a file of fio as arrays, without Python's objects of them.

All bins of a file are decoded at once, which takes less time than to decode them as objects and to
make arrays of these. What is not exactly as expected is left to the decoder of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from leadline.json_bins import KEY, MARK, SMALL_BYTES


@dataclass(slots=True)
class BinArrays:
    """An object of bins as arrays: values strictly increasing, no count is zero."""

    values: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    counted: int


_NAME: Final = b'"bins"'
_OPENING: Final = re.compile(rb"\s{0,8}:\s{0,8}\{")
_LEAST_BYTES: Final = 256
_DIGITS_AND_SPACES: Final = b"0123456789 \t\n\r"
_COLON_TO_COMMA: Final = bytes.maketrans(b":", b",")
# Larger numbers are left to the decoder of the whole.
_LARGEST: Final = 1 << 40


def cut_out(content: bytes) -> tuple[bytes, list[BinArrays]]:
    """Return the text of a small file with a mark in place of each object of bins, and these as
    arrays. A text with other bins than counts by increasing whole numbers is returned as it is."""
    if len(content) > SMALL_BYTES or MARK in content:
        return content, []
    parts: list[bytes] = []
    blocks: list[bytes] = []
    at = found = 0
    while (found := content.find(_NAME, found)) >= 0:
        found += len(_NAME)
        opening = _OPENING.match(content, found)
        if opening is None:
            continue
        end = content.find(b"}", found)
        if end < 0:  # cut off
            break
        if end - opening.end() >= _LEAST_BYTES:  # else faster to decode with the rest
            parts += [content[at : opening.end()], b'"%s":%d' % (MARK, len(blocks))]
            blocks.append(content[opening.end() : end])
            at = found = end
    arrays = _arrays(blocks) if blocks else None
    return (content, []) if arrays is None else (b"".join([*parts, content[at:]]), arrays)


def _arrays(blocks: Sequence[bytes]) -> list[BinArrays] | None:
    """Return the members of objects; None unless they are counts by increasing whole numbers."""
    lengths = [block.count(b":") for block in blocks]
    text = b",".join(blocks)
    if text.translate(None, _DIGITS_AND_SPACES) != b'"":,' * (sum(lengths) - 1) + b'"":':
        return None
    try:
        numbers = np.fromstring(text.translate(_COLON_TO_COMMA, b'"'), dtype=np.int64, sep=",")
    except ValueError:  # there is not one number in each place
        return None
    if len(numbers) != 2 * sum(lengths) or numbers.max() >= _LARGEST:
        return None
    values, counts = numbers.reshape(-1, 2).T.copy()
    begins = np.cumsum([0, *lengths[:-1]])
    rising = values[1:] > values[:-1]
    rising[begins[1:] - 1] = True
    if not rising.all() or not counts.all():
        return None
    sums = np.add.reduceat(counts, begins).tolist()
    return [
        BinArrays(values[begin : begin + length], counts[begin : begin + length], counted)
        for begin, length, counted in zip(begins.tolist(), lengths, sums, strict=True)
    ]


# Bins that stand apart: as arrays, or as the text that `set_aside` took from a large file.
Apart: TypeAlias = memoryview | BinArrays


def taken_apart(bins: object, apart: Sequence[Apart]) -> Apart | None:
    """Return the bins that a mark in a decoded document stands for; None if it is no mark."""
    if isinstance(bins, dict) and apart:
        number = bins.get(KEY)
        return apart[number] if type(number) is int else None
    return None
