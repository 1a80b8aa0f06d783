"""The record of requests to block devices by size, `block-requests.jsonl`.

The parser is total: it returns what it read or raises FormatError with the line. Requests are those
that went to a device's driver, behind merging and splitting, in windows of some tenths of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.formats.checked import count, decoded_line, mapping, number, text, wrong

_WHAT = "the record of requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSample:
    """Requests issued to one device in a window of `seconds`, by size in bytes. `at` (ISO 8601 in
    UTC) and `elapsed_s` (seconds since the watch began) are the window's begin. `lost`: requests of
    all devices of that window that are not counted for want of room. `flushes` carry no bytes of
    their own."""

    at: str
    elapsed_s: float
    device: str
    seconds: float
    lost: int
    reads: Mapping[int, int]
    writes: Mapping[int, int]
    discards: Mapping[int, int] = field(default_factory=dict)
    flushes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedBlock:
    """What could not be sampled, and why; `device` is empty where that is all of them."""

    at: str
    elapsed_s: float
    device: str
    reason: str


def parse_block_requests(content: bytes) -> tuple[BlockSample | MissedBlock, ...]:
    """The lines of a `block-requests.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _sample(decoded_line(line, index, _WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _sample(entry: Mapping[str, Any], where: str) -> BlockSample | MissedBlock:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    if "error" in entry:
        device = text(entry, "device", where) if "device" in entry else ""
        reason = text(entry, "error", where)
        return MissedBlock(at=at, elapsed_s=elapsed_s, device=device, reason=reason)
    return BlockSample(
        at=at,
        elapsed_s=elapsed_s,
        device=text(entry, "device", where),
        seconds=number(entry.get("seconds"), f"{where}.seconds"),
        lost=count(entry.get("lost"), f"{where}.lost"),
        reads=_sizes(entry.get("reads"), f"{where}.reads"),
        writes=_sizes(entry.get("writes"), f"{where}.writes"),
        discards=_sizes(entry.get("discards", {}), f"{where}.discards"),
        flushes=count(entry.get("flushes", 0), f"{where}.flushes"),
    )


def _sizes(value: object, where: str) -> Mapping[int, int]:
    found = {}
    for key, one in mapping(value, where).items():
        if not (key.isascii() and key.isdecimal() and len(key) < 16):
            raise wrong(f"{where}.{key}", "a size in bytes was expected")
        found[int(key)] = count(one, f"{where}.{key}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSizes:
    """Requests to one device over all windows, by size in bytes."""

    device: str
    seconds: float
    lost: int
    reads: Mapping[int, int]
    writes: Mapping[int, int]
    discards: Mapping[int, int]
    flushes: int


def request_sizes(samples: Sequence[BlockSample | MissedBlock]) -> Mapping[str, RequestSizes]:
    """By device what all its windows saw together; devices that were never sampled are not in
    it."""
    by_device: dict[str, list[BlockSample]] = {}
    for one in samples:
        if isinstance(one, BlockSample):
            by_device.setdefault(one.device, []).append(one)
    return {
        device: RequestSizes(
            device=device,
            seconds=sum(one.seconds for one in windows),
            lost=sum(one.lost for one in windows),
            reads=_together([one.reads for one in windows]),
            writes=_together([one.writes for one in windows]),
            discards=_together([one.discards for one in windows]),
            flushes=sum(one.flushes for one in windows),
        )
        for device, windows in by_device.items()
    }


def _together(counted: Sequence[Mapping[int, int]]) -> Mapping[int, int]:
    total: Counter[int] = Counter()
    for one in counted:
        total.update(one)
    return dict(sorted(total.items()))
