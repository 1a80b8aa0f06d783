"""The record of machines during a trial, `resources.jsonl`: counters since boot, a line a sample.

The parser is total: it returns all samples or raises FormatError with the line.
`leadline.formats.host_rates` makes rates of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from leadline.formats.text import count, counts, decoded_line, mapping, number, text, wrong

_WHAT = "the record of machines"
_SECTOR_BYTES = 512


class Role(StrEnum):
    """What a machine has to do with a trial: it makes the load, it serves the storage. A lab's
    only machine does both."""

    CLIENT = "client"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTicks:
    """Of all cores together since boot, in ticks. `idle` holds the wait for I/O too, which is
    also told by itself; `steal` went to other guests of the hypervisor."""

    total: int
    idle: int
    iowait: int
    user: int
    system: int
    steal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """Of one whole device. Requests that were merged into others are not among `reads` and
    `writes`, their bytes are. `*_ms` are the times of all I/Os added up, `busy_ms` the time in
    which at least one was under way, `queue_ms` that time weighted by how many were."""

    reads: int
    reads_merged: int
    read_bytes: int
    read_ms: int
    writes: int
    writes_merged: int
    write_bytes: int
    write_ms: int
    busy_ms: int
    queue_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters:
    """Of one network interface."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """Of one control group with a processor limit: periods in which it had something to run, those
    in which it used its quota up and was held back, for how long (of all its processors added up),
    and the processor time used. None where the kernel does not tell; without a quota `quota_cores`
    is None."""

    periods: int | None
    throttled: int | None
    throttled_us: int | None
    usage_us: int | None
    quota_cores: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTicks:
    """`began` (ticks since boot) tells a process from a later one of its pid."""

    pid: int
    began: int
    user: int
    system: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One machine at one moment: ISO 8601 in UTC, seconds since the watch began, and `clock_s`,
    seconds of the machine's own clock, which only goes forward. `cpu` is None where it was not to
    be read; `hz` is ticks per second; `links_bps` the speeds that interfaces tell, in bytes per
    second; `unread` says what could not be read."""

    at: str
    elapsed_s: float
    machine: str
    roles: frozenset[Role]
    clock_s: float
    cores: int
    hz: int
    cpu: CpuTicks | None
    disks: Mapping[str, DiskCounters]
    interfaces: Mapping[str, InterfaceCounters]
    links_bps: Mapping[str, float]
    groups: Mapping[str, GroupCounters]
    processes: Mapping[str, ProcessTicks]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedHostSample:
    """A machine of which nothing was to be had at that moment, and why."""

    at: str
    elapsed_s: float
    machine: str
    roles: frozenset[Role]
    reason: str


def parse_resource_log(content: bytes) -> tuple[HostSample | MissedHostSample, ...]:
    """The lines of a `resources.jsonl`, in order. What a line leaves out of devices and interfaces
    is as in the machine's line before. Raises FormatError with the line."""
    found: list[HostSample | MissedHostSample] = []
    last: dict[str, HostSample] = {}
    for index, line in enumerate(content.splitlines(), start=1):
        entry = decoded_line(line, index, _WHAT)
        where = f"line {index}"
        machine = text(entry, "machine", where)
        if "error" in entry:
            found.append(
                MissedHostSample(
                    at=text(entry, "at", where),
                    elapsed_s=number(entry.get("elapsed_s"), f"{where}.elapsed_s"),
                    machine=machine,
                    roles=_roles(entry, where),
                    reason=text(entry, "error", where),
                )
            )
            continue
        sample = _sample(entry, where, machine, last.get(machine))
        last[machine] = sample
        found.append(sample)
    return tuple(found)


def _sample(
    entry: Mapping[str, Any], where: str, machine: str, before: HostSample | None
) -> HostSample:
    cpu = entry.get("cpu")
    disks = {
        name: _disk(counts(one, f"{where}.disks.{name}", 11))
        for name, one in mapping(entry.get("disks", {}), f"{where}.disks").items()
    }
    interfaces = {
        name: _interface(counts(one, f"{where}.interfaces.{name}", 4))
        for name, one in mapping(entry.get("interfaces", {}), f"{where}.interfaces").items()
    }
    links = {
        name: number(one, f"{where}.links_bps.{name}")
        for name, one in mapping(entry.get("links_bps", {}), f"{where}.links_bps").items()
    }
    cores = count(entry.get("cores"), f"{where}.cores")
    hz = count(entry.get("hz"), f"{where}.hz")
    if not cores or not hz:
        raise wrong(where, "a machine has at least one core, and its ticks a rate")
    unread = entry.get("unread", [])
    if not isinstance(unread, list) or not all(isinstance(one, str) for one in unread):
        raise wrong(f"{where}.unread", "a list of texts was expected")
    return HostSample(
        at=text(entry, "at", where),
        elapsed_s=number(entry.get("elapsed_s"), f"{where}.elapsed_s"),
        machine=machine,
        roles=_roles(entry, where),
        clock_s=number(entry.get("clock_s"), f"{where}.clock_s"),
        cores=cores,
        hz=hz,
        cpu=None if cpu is None else _cpu(counts(cpu, f"{where}.cpu", 8)),
        disks={**(before.disks if before else {}), **disks},
        interfaces={**(before.interfaces if before else {}), **interfaces},
        links_bps={**(before.links_bps if before else {}), **links},
        groups={
            name: _group(mapping(one, f"{where}.groups.{name}"), f"{where}.groups.{name}")
            for name, one in mapping(entry.get("groups", {}), f"{where}.groups").items()
        },
        processes={
            name: _process(counts(one, f"{where}.processes.{name}", 4))
            for name, one in mapping(entry.get("processes", {}), f"{where}.processes").items()
        },
        unread=tuple(unread),
    )


def _roles(entry: Mapping[str, Any], where: str) -> frozenset[Role]:
    roles = entry.get("roles")
    if not isinstance(roles, list):
        raise wrong(f"{where}.roles", "a list was expected")
    try:
        return frozenset(Role(role) for role in roles)
    except (ValueError, TypeError):
        raise wrong(f"{where}.roles", f"roles are {', '.join(Role)}") from None


def _cpu(ticks: Sequence[int]) -> CpuTicks:
    user, nice, system, idle, iowait, irq, softirq, steal = ticks[:8]
    return CpuTicks(
        total=sum(ticks[:8]),
        idle=idle + iowait,
        iowait=iowait,
        user=user + nice,
        system=system + irq + softirq,
        steal=steal,
    )


def _disk(counters: Sequence[int]) -> DiskCounters:
    """The kernel's order: Documentation/admin-guide/iostats.rst."""
    reads, read_merges, read_sectors, read_ms = counters[:4]
    writes, write_merges, write_sectors, write_ms, _, busy, queue = counters[4:11]
    return DiskCounters(
        reads=reads,
        reads_merged=read_merges,
        read_bytes=read_sectors * _SECTOR_BYTES,
        read_ms=read_ms,
        writes=writes,
        writes_merged=write_merges,
        write_bytes=write_sectors * _SECTOR_BYTES,
        write_ms=write_ms,
        busy_ms=busy,
        queue_ms=queue,
    )


def _interface(counters: Sequence[int]) -> InterfaceCounters:
    received_bytes, received, sent_bytes, sent = counters[:4]
    return InterfaceCounters(
        received_bytes=received_bytes,
        received_packets=received,
        sent_bytes=sent_bytes,
        sent_packets=sent,
    )


def _group(entry: Mapping[str, Any], where: str) -> GroupCounters:
    told = {
        key: None if entry.get(key) is None else count(entry[key], f"{where}.{key}")
        for key in ("periods", "throttled", "throttled_us", "usage_us", "quota_us", "period_us")
    }
    quota, period = told.pop("quota_us"), told.pop("period_us")
    return GroupCounters(
        periods=told["periods"],
        throttled=told["throttled"],
        throttled_us=told["throttled_us"],
        usage_us=told["usage_us"],
        quota_cores=quota / period if quota is not None and period else None,
    )


def _process(ticks: Sequence[int]) -> ProcessTicks:
    pid, began, user, system = ticks[:4]
    return ProcessTicks(pid=pid, began=began, user=user, system=system)


# The record of requests to block devices by size, `block-requests.jsonl`.
#  The parser is total: it returns what it read or raises FormatError with the line. Requests are
# those that went to a device's driver, behind merging and splitting, in windows of some tenths of
# a second.

_BLOCK_REQUESTS_WHAT = "the record of requests"


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
        _block_requests_sample(decoded_line(line, index, _BLOCK_REQUESTS_WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _block_requests_sample(entry: Mapping[str, Any], where: str) -> BlockSample | MissedBlock:
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


# The record of mounts during a trial, `mount-counters.jsonl`: requests that wait in FUSE, and the
# counters of NFS.
#  The parser is total: it returns what it read or raises FormatError with the line. NFS's numbers
# are those of /proc/self/mountstats: eight sums of bytes (fs/nfs/iostat.h, enum
# nfs_stat_bytecounters) and for each operation eight or nine numbers
# (include/linux/sunrpc/metrics.h).

_MOUNT_COUNTERS_WHAT = "the record of mounts"
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
        _mount_counters_sample(decoded_line(line, index, _MOUNT_COUNTERS_WHAT), f"line {index}")
        for index, line in enumerate(content.splitlines(), start=1)
    )


def _mount_counters_sample(entry: Mapping[str, Any], where: str) -> MountSample:
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


# The record of a pool of ZFS at the start and the end of a trial, `zfs.jsonl`.
#  The parser is total: it returns what it read or raises FormatError with the line. The texts are
# for `leadline.formats.zfs`, by what was asked.

_ZFS_RECORD_WHAT = "the record of ZFS"


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
        _answer(decoded_line(line, index, _ZFS_RECORD_WHAT), f"line {index}")
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
