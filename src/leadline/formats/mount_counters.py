"""The record of mounts during a trial, `mount-counters.jsonl`: requests that wait in FUSE, and the
counters of NFS.

The parser is total: it returns what it read or raises FormatError with the line. NFS's numbers are
those of /proc/self/mountstats: eight sums of bytes (fs/nfs/iostat.h, enum nfs_stat_bytecounters)
and for each operation eight or nine numbers (include/linux/sunrpc/metrics.h).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.formats.checked import count, counts, decoded_line, mapping, number, text, wrong

_WHAT = "the record of mounts"
FUSE: Final = "fuse"
NFS: Final = "nfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseSample:
    """Requests of a FUSE mount that were under way at one moment (ISO 8601 in UTC, seconds since
    the watch began): handed to its program or waiting for it."""

    at: str
    elapsed_s: float
    mount: str
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsBytes:
    """What programs read and wrote on an NFS mount, through the page cache (`normal`) and past it
    (`direct`), what went over the network for them (`server`), and pages of the cache."""

    normal_read: int
    normal_written: int
    direct_read: int
    direct_written: int
    server_read: int
    server_written: int
    read_pages: int
    written_pages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsOperation:
    """Of one kind of operation, since it was mounted: how many, how often they were sent, major
    timeouts, bytes with their headers, and seconds added up: waiting to be sent, from there to the
    answer, and both with what comes around them. `failed` is 0 where the kernel does not tell."""

    operations: int
    transmissions: int
    timeouts: int
    sent_bytes: int
    received_bytes: int
    queue_s: float
    round_trip_s: float
    total_s: float
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSample:
    """An NFS mount at one moment; `operations` are those that were done at all, by the names of
    their protocol (`READ`, `WRITE`, `COMMIT`)."""

    at: str
    elapsed_s: float
    mount: str
    bytes: NfsBytes
    operations: Mapping[str, NfsOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedMount:
    """A mount of which nothing is known at that moment, and why; empty where that is all."""

    at: str
    elapsed_s: float
    mount: str
    reason: str


MountSample = FuseSample | NfsSample | MissedMount


def parse_mount_counters(content: bytes) -> tuple[MountSample, ...]:
    """The lines of a `mount-counters.jsonl`, in order. Raises FormatError with the line."""
    return tuple(
        _sample(decoded_line(line, index, _WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _sample(entry: Mapping[str, Any], where: str) -> MountSample:
    at = text(entry, "at", where)
    elapsed_s = number(entry.get("elapsed_s"), f"{where}.elapsed_s")
    mount = text(entry, "mount", where) if "mount" in entry else ""
    if "error" in entry:
        reason = text(entry, "error", where)
        return MissedMount(at=at, elapsed_s=elapsed_s, mount=mount, reason=reason)
    kind = text(entry, "kind", where)
    if kind == FUSE:
        waiting = count(entry.get("waiting"), f"{where}.waiting")
        return FuseSample(at=at, elapsed_s=elapsed_s, mount=mount, waiting=waiting)
    if kind != NFS:
        raise wrong(f"{where}.kind", f"{FUSE!r} or {NFS!r} was expected")
    told = mapping(entry.get("operations"), f"{where}.operations")
    return NfsSample(
        at=at,
        elapsed_s=elapsed_s,
        mount=mount,
        bytes=_bytes(counts(entry.get("bytes"), f"{where}.bytes", 8)),
        operations={
            name: _operation(counts(one, f"{where}.operations.{name}", 8))
            for name, one in told.items()
        },
    )


def _bytes(told: Sequence[int]) -> NfsBytes:
    return NfsBytes(
        normal_read=told[0],
        normal_written=told[1],
        direct_read=told[2],
        direct_written=told[3],
        server_read=told[4],
        server_written=told[5],
        read_pages=told[6],
        written_pages=told[7],
    )


def _operation(told: Sequence[int]) -> NfsOperation:
    return NfsOperation(
        operations=told[0],
        transmissions=told[1],
        timeouts=told[2],
        sent_bytes=told[3],
        received_bytes=told[4],
        queue_s=told[5] / 1e3,
        round_trip_s=told[6] / 1e3,
        total_s=told[7] / 1e3,
        failed=told[8] if len(told) > 8 else 0,
    )


def fuse_waiting(samples: Sequence[MountSample], mount: str) -> tuple[int, ...]:
    """Requests under way on a FUSE mount, over time."""
    return tuple(
        one.waiting for one in samples if isinstance(one, FuseSample) and one.mount == mount
    )
