"""Records of machines, block devices, mounts and ZFS pools during a trial.

Each parser returns all samples or raises FormatError with the line. A sample has `at`, the time in
ISO 8601 (UTC), and `elapsed_s`, seconds since the watch began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Discriminator, Field, Tag, TypeAdapter

from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    Count,
    CountKey,
    Number,
    parse_lines,
)

_SECTOR_BYTES = 512


class Role(StrEnum):
    """The part of a machine in a trial. The only machine of a lab is client and storage."""

    CLIENT = "client"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTicks:
    """Ticks of all cores since boot. `idle` includes `iowait`; other guests of the hypervisor used
    `steal`."""

    total: int
    idle: int
    iowait: int
    user: int
    system: int
    steal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """Counters of one whole device. `reads` and `writes` exclude merged requests, `*_bytes` include
    them. `read_ms` and `write_ms` are the sums over all I/Os, `busy_ms` the time with at least one
    I/O in flight, `queue_ms` that time weighted by the number in flight."""

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
    """Counters of one network interface."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounters:
    """Counters of one control group with a CPU limit: periods in which it was runnable, periods in
    which it was throttled, throttled time (sum over its CPUs) and CPU time used. None where the
    kernel does not report it; `quota_cores` is None without a quota."""

    periods: int | None
    throttled: int | None
    throttled_us: int | None
    usage_us: int | None
    quota_cores: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTicks:
    """CPU ticks of one process. `began` (ticks since boot) distinguishes it from a later process
    with the same pid."""

    pid: int
    began: int
    user: int
    system: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """Counters of one machine. `clock_s` is the monotonic clock of the machine, `hz` ticks per
    second, `links_bps` the link speeds in bytes per second. `cpu` is None where it could not be
    read; `unread` are error messages for what could not be read."""

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
    """A machine that could not be sampled, and the reason."""

    at: str
    elapsed_s: Number
    machine: str
    roles: frozenset[Role]
    reason: Annotated[str, Field(alias="error")]


class _GroupLine(BaseModel):
    periods: Count | None = None
    throttled: Count | None = None
    throttled_us: Count | None = None
    usage_us: Count | None = None
    quota_us: Count | None = None
    period_us: Count | None = None


class _HostLine(BaseModel):
    """One line of `resources.jsonl`: lists of counters in the order of the kernel."""

    at: str
    elapsed_s: Number
    machine: str
    roles: frozenset[Role]
    clock_s: Number
    cores: Annotated[Count, Field(gt=0)]
    hz: Annotated[Count, Field(gt=0)]
    cpu: Annotated[list[Count], Field(min_length=8)] | None = None
    disks: dict[str, Annotated[list[Count], Field(min_length=11)]] = {}
    interfaces: dict[str, Annotated[list[Count], Field(min_length=4)]] = {}
    links_bps: dict[str, Number] = {}
    groups: dict[str, _GroupLine] = {}
    processes: dict[str, Annotated[list[Count], Field(min_length=4)]] = {}
    unread: tuple[str, ...] = ()


_HOST_LINE: Final[TypeAdapter[_HostLine | MissedHostSample]] = TypeAdapter(
    Annotated[
        Annotated[_HostLine, Tag("<sample>")] | Annotated[MissedHostSample, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ]
)


def parse_resource_log(content: bytes) -> tuple[HostSample | MissedHostSample, ...]:
    """Parse a `resources.jsonl`. Devices and interfaces that a line leaves out have the values of
    the previous line of the machine. Raises FormatError with the line."""
    samples: list[HostSample | MissedHostSample] = []
    last: dict[str, HostSample] = {}
    for _, line in parse_lines(content, _HOST_LINE, "the record of machines"):
        if isinstance(line, MissedHostSample):
            samples.append(line)
        else:
            last[line.machine] = sample = _host_sample(line, last.get(line.machine))
            samples.append(sample)
    return tuple(samples)


def _host_sample(line: _HostLine, before: HostSample | None) -> HostSample:
    disks = {name: _disk(counters) for name, counters in line.disks.items()}
    interfaces = {
        name: InterfaceCounters(
            received_bytes=counters[0],
            received_packets=counters[1],
            sent_bytes=counters[2],
            sent_packets=counters[3],
        )
        for name, counters in line.interfaces.items()
    }
    return HostSample(
        at=line.at,
        elapsed_s=line.elapsed_s,
        machine=line.machine,
        roles=line.roles,
        clock_s=line.clock_s,
        cores=line.cores,
        hz=line.hz,
        cpu=None if line.cpu is None else _cpu(line.cpu),
        disks={**before.disks, **disks} if before else disks,
        interfaces={**before.interfaces, **interfaces} if before else interfaces,
        links_bps={**before.links_bps, **line.links_bps} if before else line.links_bps,
        groups={name: _group(group) for name, group in line.groups.items()},
        processes={
            name: ProcessTicks(pid=ticks[0], began=ticks[1], user=ticks[2], system=ticks[3])
            for name, ticks in line.processes.items()
        },
        unread=line.unread,
    )


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
    """Source of the order: Documentation/admin-guide/iostats.rst of the kernel."""
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


def _group(line: _GroupLine) -> GroupCounters:
    return GroupCounters(
        periods=line.periods,
        throttled=line.throttled,
        throttled_us=line.throttled_us,
        usage_us=line.usage_us,
        quota_cores=line.quota_us / line.period_us
        if line.quota_us is not None and line.period_us
        else None,
    )


# Requests to block devices: those that the driver received, after merging and splitting, in windows
# of some tenths of a second.


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSample:
    """Requests issued to one device in a window of `seconds`, by size in bytes. `at` and
    `elapsed_s` are the start of the window. `lost` requests, of any device, are not counted: the
    buffer was full. `flushes` carry no bytes."""

    at: str
    elapsed_s: Number
    device: str
    seconds: Number
    lost: Count
    reads: Mapping[CountKey, Count]
    writes: Mapping[CountKey, Count]
    discards: Mapping[CountKey, Count] = field(default_factory=dict)
    flushes: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedBlock:
    """A device that could not be sampled, and the reason; `device` is empty for all devices."""

    at: str
    elapsed_s: Number
    device: str = ""
    reason: Annotated[str, Field(alias="error")]


_BLOCK_LINE: Final[TypeAdapter[BlockSample | MissedBlock]] = TypeAdapter(
    Annotated[
        Annotated[BlockSample, Tag("<sample>")] | Annotated[MissedBlock, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ]
)


def parse_block_requests(content: bytes) -> tuple[BlockSample | MissedBlock, ...]:
    """Parse a `block-requests.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _BLOCK_LINE, "the record of requests"))


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
    """Sum the windows of each device. Devices without a window are left out."""
    by_device: dict[str, list[BlockSample]] = {}
    for sample in samples:
        if isinstance(sample, BlockSample):
            by_device.setdefault(sample.device, []).append(sample)
    return {
        device: RequestSizes(
            device=device,
            seconds=sum(window.seconds for window in windows),
            lost=sum(window.lost for window in windows),
            reads=_sum_sizes(window.reads for window in windows),
            writes=_sum_sizes(window.writes for window in windows),
            discards=_sum_sizes(window.discards for window in windows),
            flushes=sum(window.flushes for window in windows),
        )
        for device, windows in by_device.items()
    }


def _sum_sizes(counted: Iterable[Mapping[int, int]]) -> Mapping[int, int]:
    total: Counter[int] = Counter()
    for sizes in counted:
        total.update(sizes)
    return dict(sorted(total.items()))


# Mounts: requests that wait in FUSE, and the counters of NFS in /proc/self/mountstats: eight sums
# of bytes (fs/nfs/iostat.h, enum nfs_stat_bytecounters) and for each operation eight or nine
# numbers (include/linux/sunrpc/metrics.h).

FUSE: Final = "fuse"
NFS: Final = "nfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FuseSample:
    """Requests of a FUSE mount in flight: sent to its daemon or waiting for it."""

    at: str
    elapsed_s: Number
    mount: str = ""
    waiting: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsBytes:
    """Bytes that programs read and wrote on an NFS mount through the page cache (`normal`) and with
    direct I/O (`direct`), the bytes that the network carried for them (`server`), and pages of the
    cache."""

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
    """Counters of one operation since the mount: requests, transmissions, major timeouts, bytes
    with headers, and sums of seconds: waiting to be sent, from sending to the answer, and in total.
    `failed` is 0 where the kernel does not report it."""

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
    """Counters of an NFS mount. `operations` are those with at least one request, by protocol name
    (`READ`, `WRITE`, `COMMIT`)."""

    at: str
    elapsed_s: float
    mount: str
    bytes: NfsBytes
    operations: Mapping[str, NfsOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedMount:
    """A mount that could not be sampled, and the reason; `mount` is empty for all mounts."""

    at: str
    elapsed_s: Number
    mount: str = ""
    reason: Annotated[str, Field(alias="error")]


MountSample = FuseSample | NfsSample | MissedMount


class _NfsLine(BaseModel):
    at: str
    elapsed_s: Number
    mount: str = ""
    kind: Literal["nfs"]
    bytes: Annotated[list[Count], Field(min_length=8)]
    operations: dict[str, Annotated[list[Count], Field(min_length=8)]]


def _mount_kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return "<missed>" if "error" in entry else f"<{entry.get('kind')}>"


_MOUNT_LINE: Final[TypeAdapter[FuseSample | _NfsLine | MissedMount]] = TypeAdapter(
    Annotated[
        Annotated[FuseSample, Tag(f"<{FUSE}>")]
        | Annotated[_NfsLine, Tag(f"<{NFS}>")]
        | Annotated[MissedMount, Tag("<missed>")],
        Discriminator(_mount_kind),
    ]
)


def parse_mount_counters(content: bytes) -> tuple[MountSample, ...]:
    """Parse a `mount-counters.jsonl`. Raises FormatError with the line."""
    return tuple(
        _nfs_sample(line) if isinstance(line, _NfsLine) else line
        for _, line in parse_lines(content, _MOUNT_LINE, "the record of mounts")
    )


def _nfs_sample(line: _NfsLine) -> NfsSample:
    sums = line.bytes
    return NfsSample(
        at=line.at,
        elapsed_s=line.elapsed_s,
        mount=line.mount,
        bytes=NfsBytes(
            normal_read=sums[0],
            normal_written=sums[1],
            direct_read=sums[2],
            direct_written=sums[3],
            server_read=sums[4],
            server_written=sums[5],
            read_pages=sums[6],
            written_pages=sums[7],
        ),
        operations={
            name: NfsOperation(
                operations=numbers[0],
                transmissions=numbers[1],
                timeouts=numbers[2],
                sent_bytes=numbers[3],
                received_bytes=numbers[4],
                queue_s=numbers[5] / 1e3,
                round_trip_s=numbers[6] / 1e3,
                total_s=numbers[7] / 1e3,
                failed=numbers[8] if len(numbers) > 8 else 0,
            )
            for name, numbers in line.operations.items()
        },
    )


# ZFS: what its commands printed for a pool at the start and the end of a trial. The texts are for
# `leadline.formats.zfs`.


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsAnswer:
    """The raw output of one command. `asked` names it: `iostat -r -p` (of `zpool`), `kstat
    arcstats`, ..."""

    at: str
    elapsed_s: Number
    pool: str
    asked: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedZfs:
    """A command that failed, and the reason; `pool` and `asked` are empty for all commands."""

    at: str
    elapsed_s: Number
    pool: str = ""
    asked: str = ""
    reason: Annotated[str, Field(alias="error")]


_ZFS_LINE: Final[TypeAdapter[ZfsAnswer | MissedZfs]] = TypeAdapter(
    Annotated[
        Annotated[ZfsAnswer, Tag("<sample>")] | Annotated[MissedZfs, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ]
)


def parse_zfs_record(content: bytes) -> tuple[ZfsAnswer | MissedZfs, ...]:
    """Parse a `zfs.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _ZFS_LINE, "the record of ZFS"))


def first_and_last(
    answers: Sequence[ZfsAnswer | MissedZfs], pool: str, asked: str
) -> tuple[ZfsAnswer, ZfsAnswer] | None:
    """Return the first and the last answer to one question; None where there are not two."""
    found = [
        answer
        for answer in answers
        if isinstance(answer, ZfsAnswer) and (answer.pool, answer.asked) == (pool, asked)
    ]
    return (found[0], found[-1]) if len(found) > 1 else None
