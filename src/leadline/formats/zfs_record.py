"""The record of a pool of ZFS at the start and the end of a trial, `zfs.jsonl`.

The parser is total: it returns what it read or raises FormatError with the line. The texts are for
`leadline.formats.zfs`, by what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.formats.checked import decoded_line, number, text

_WHAT = "the record of ZFS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsAnswer:
    """What a pool's ZFS said at one moment: ISO 8601 in UTC, and seconds since the watch began.
    `asked` is `iostat -r -p` (of `zpool`), `kstat arcstats`, ..., `text` the raw answer."""

    at: str
    elapsed_s: float
    pool: str
    asked: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedZfs:
    """What was asked in vain, and why; `pool` and `asked` are empty where nothing could be."""

    at: str
    elapsed_s: float
    pool: str
    asked: str
    reason: str


def parse_zfs_record(content: bytes) -> tuple[ZfsAnswer | MissedZfs, ...]:
    """The lines of a `zfs.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _answer(decoded_line(line, index, _WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _answer(entry: Mapping[str, Any], where: str) -> ZfsAnswer | MissedZfs:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    if "error" in entry:
        return MissedZfs(
            at=at,
            elapsed_s=elapsed_s,
            pool=text(entry, "pool", where) if "pool" in entry else "",
            asked=text(entry, "asked", where) if "asked" in entry else "",
            reason=text(entry, "error", where),
        )
    return ZfsAnswer(
        at=at,
        elapsed_s=elapsed_s,
        pool=text(entry, "pool", where),
        asked=text(entry, "asked", where),
        text=text(entry, "text", where),
    )


def first_and_last(
    answers: Sequence[ZfsAnswer | MissedZfs], pool: str, asked: str
) -> tuple[ZfsAnswer, ZfsAnswer] | None:
    """The first and the last answer to the same question; None where there are not two."""
    found = [
        one
        for one in answers
        if isinstance(one, ZfsAnswer) and (one.pool, one.asked) == (pool, asked)
    ]
    return (found[0], found[-1]) if len(found) > 1 else None
