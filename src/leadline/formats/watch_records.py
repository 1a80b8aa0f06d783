"""Records of machines, block devices, mounts and ZFS pools during a trial.

Each parser returns all samples or raises FormatError with the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Discriminator, Field, Tag, TypeAdapter

from leadline.formats.json_lines import (
    MISSED_OR_SAMPLE,
    WHEN_USED,
    Converted,
    Count,
    CountKey,
    Missed,
    Number,
    Sample,
    counts,
    in_order,
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
    kernel does not report it; `quota_us` of each `period_us` is None without a quota."""

    periods: Count | None = None
    throttled: Count | None = None
    throttled_us: Count | None = None
    usage_us: Count | None = None
    quota_us: Count | None = None
    period_us: Count | None = None

    @property
    def quota_cores(self) -> float | None:
        if self.quota_us is None or not self.period_us:
            return None
        return self.quota_us / self.period_us


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTicks:
    """CPU ticks and resident memory of one process. `began` (ticks since boot) distinguishes it
    from a later process with the same pid. Archives of earlier versions have no memory."""

    pid: int
    began: int
    user: int
    system: int
    resident_bytes: int | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample(Sample):
    """Counters of one machine: a line of `resources.jsonl`, which has lists of counters in the
    order of the kernel. `clock_s` is the monotonic clock of the machine, `hz` ticks per second,
    `links_bps` the link speeds in bytes per second. `cpu` is None where it could not be read;
    `unread` are error messages for what could not be read."""

    machine: str
    roles: frozenset[Role]
    clock_s: Number
    cores: Annotated[Count, Field(gt=0)]
    hz: Annotated[Count, Field(gt=0)]
    cpu: Annotated[CpuTicks, Converted(counts(8), _cpu)] | None = None
    disks: Mapping[str, Annotated[DiskCounters, Converted(counts(11), _disk)]] = field(
        default_factory=dict
    )
    interfaces: Mapping[str, Annotated[InterfaceCounters, in_order(InterfaceCounters)]] = field(
        default_factory=dict
    )
    links_bps: Mapping[str, Number] = field(default_factory=dict)
    groups: Mapping[str, GroupCounters] = field(default_factory=dict)
    processes: Mapping[str, Annotated[ProcessTicks, in_order(ProcessTicks)]] = field(
        default_factory=dict
    )
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedHostSample(Missed):
    """A machine that could not be sampled."""

    machine: str
    roles: frozenset[Role]


_HOST_LINE: Final[TypeAdapter[HostSample | MissedHostSample]] = TypeAdapter(
    Annotated[
        Annotated[HostSample, Tag("<sample>")] | Annotated[MissedHostSample, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
)


def parse_resource_log(content: bytes) -> tuple[HostSample | MissedHostSample, ...]:
    """Parse a `resources.jsonl`. Devices and interfaces that a line leaves out have the values of
    the previous line of the machine. Raises FormatError with the line."""
    samples: list[HostSample | MissedHostSample] = []
    last: dict[str, HostSample] = {}
    for _, line in parse_lines(content, _HOST_LINE, "the record of machines"):
        sample = line
        if isinstance(sample, HostSample):
            if before := last.get(sample.machine):
                sample = replace(
                    sample,
                    disks={**before.disks, **sample.disks},
                    interfaces={**before.interfaces, **sample.interfaces},
                    links_bps={**before.links_bps, **sample.links_bps},
                )
            last[sample.machine] = sample
        samples.append(sample)
    return tuple(samples)


# Requests to block devices: those that the driver received, after merging and splitting, in windows
# of some tenths of a second.


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSample(Sample):
    """Requests issued to one device in a window of `seconds`, by size in bytes. `at` and
    `elapsed_s` are the start of the window. `lost` requests, of any device, are not counted: the
    buffer was full. `flushes` carry no bytes."""

    device: str
    seconds: Number
    lost: Count
    reads: Mapping[CountKey, Count]
    writes: Mapping[CountKey, Count]
    discards: Mapping[CountKey, Count] = field(default_factory=dict)
    flushes: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedBlock(Missed):
    """A device that could not be sampled; empty for all devices."""

    device: str = ""


_BLOCK_LINE: Final[TypeAdapter[BlockSample | MissedBlock]] = TypeAdapter(
    Annotated[
        Annotated[BlockSample, Tag("<sample>")] | Annotated[MissedBlock, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
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
class FuseSample(Sample):
    """Requests of a FUSE mount in flight: sent to its daemon or waiting for it."""

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


def _nfs_operation(counters: Sequence[int]) -> NfsOperation:
    return NfsOperation(
        operations=counters[0],
        transmissions=counters[1],
        timeouts=counters[2],
        sent_bytes=counters[3],
        received_bytes=counters[4],
        queue_s=counters[5] / 1e3,
        round_trip_s=counters[6] / 1e3,
        total_s=counters[7] / 1e3,
        failed=counters[8] if len(counters) > 8 else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSample(Sample):
    """Counters of an NFS mount. `operations` are those with at least one request, by protocol name
    (`READ`, `WRITE`, `COMMIT`)."""

    mount: str = ""
    bytes: Annotated[NfsBytes, in_order(NfsBytes)]
    operations: Mapping[str, Annotated[NfsOperation, Converted(counts(8), _nfs_operation)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedMount(Missed):
    """A mount that could not be sampled; empty for all mounts."""

    mount: str = ""


MountSample = FuseSample | NfsSample | MissedMount


def _mount_kind(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return None
    return "<missed>" if "error" in entry else f"<{entry.get('kind')}>"


_MOUNT_LINE: Final[TypeAdapter[MountSample]] = TypeAdapter(
    Annotated[
        Annotated[FuseSample, Tag(f"<{FUSE}>")]
        | Annotated[NfsSample, Tag(f"<{NFS}>")]
        | Annotated[MissedMount, Tag("<missed>")],
        Discriminator(_mount_kind),
    ],
    config=WHEN_USED,
)


def parse_mount_counters(content: bytes) -> tuple[MountSample, ...]:
    """Parse a `mount-counters.jsonl`. Raises FormatError with the line."""
    return tuple(line for _, line in parse_lines(content, _MOUNT_LINE, "the record of mounts"))


# ZFS: what its commands printed for a pool at the start and the end of a trial. The texts are for
# `leadline.formats.zfs`.


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsAnswer(Sample):
    """The raw output of one command. `asked` names it: `iostat -r -p` (of `zpool`), `kstat
    arcstats`, ..."""

    pool: str
    asked: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedZfs(Missed):
    """A command that failed; `pool` and `asked` are empty for all commands."""

    pool: str = ""
    asked: str = ""


_ZFS_LINE: Final[TypeAdapter[ZfsAnswer | MissedZfs]] = TypeAdapter(
    Annotated[
        Annotated[ZfsAnswer, Tag("<sample>")] | Annotated[MissedZfs, Tag("<missed>")],
        MISSED_OR_SAMPLE,
    ],
    config=WHEN_USED,
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
