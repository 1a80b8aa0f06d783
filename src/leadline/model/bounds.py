"""What no result can pass: the capacity of resources, and the least latency of an I/O.

Pure functions of numbers. The capacity of a resource is units / demand (utilisation law), that of
a system the smallest of its resources (asymptotic bounds: Denning and Buzen 1978). The demands are
in `data/demands.yaml`: the lowest plausible ones make a bound, their usual range an expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.data import load_table

_US = 1e-6
_KIB = 1024

# Ceph rejects results of its own bench of random 4 KiB writes above these as unrealistic, per OSD
# (osd_mclock_iops_capacity_threshold_hdd and _ssd).
HARD_DISK_IOPS = 500.0
FLASH_WRITE_IOPS = 80_000.0
# Reads need no copies and no journal: 122,300 per drive were published (30 drives with two OSDs
# each, Reef, 2023), above the threshold for writes. Reads have twice that threshold.
FLASH_READ_IOPS = 2 * FLASH_WRITE_IOPS
# A local NVMe controller: twice what PCIe 6.0 drives of four lanes are sold with.
CONTROLLER_IOPS = 11_000_000.0
CONTROLLER_BPS = 56e9
# A hard disk of its own; short strokes and its cache give more than random reads of all of it.
SPINDLE_IOPS = 1500.0
SPINDLE_BPS = 600e6
# sizeof(dmu_replay_record_t), OpenZFS include/sys/zfs_ioctl.h.
_STREAM_HEADER_BYTES = 312


class Station(StrEnum):
    """Where an I/O is served or waits. `STORAGE` is all of the storage, where it is unknown which
    part of it limits the rate; `NETWORK` is the time of messages, which limits no rate."""

    CLIENT = "client"
    CLIENT_LINK = "client-link"
    NETWORK = "network"
    OSD_CPU = "osd-cpu"
    OSD_LINK = "osd-link"
    COMMIT = "commit"
    MEDIUM = "medium"
    MDS = "mds"
    TARGET_CORES = "target-cores"
    RECEIVE = "receive"
    STORAGE = "storage"


class Task(StrEnum):
    """A part of the work of one I/O: the rows of `data/demands.yaml`. `osd-read` and `osd-write`
    are the primary's work with its own copy, `copy-write` and the shards' that of one further copy
    or shard; `encode` is what the primary of an erasure code adds to gather, code and spread."""

    OSD_READ = "osd-read"
    SHARD_READ = "shard-read"
    OSD_WRITE = "osd-write"
    COPY_WRITE = "copy-write"
    SHARD_WRITE = "shard-write"
    ENCODE = "encode"
    CLIENT = "client"
    METADATA = "metadata"
    TARGET_COMMAND = "target-command"
    RECEIVE_RECORD = "receive-record"
    LAB_LINK = "lab-link"
    COMMIT_FLASH = "commit-flash"
    COMMIT_DISK = "commit-disk"
    COMMIT_MEMORY = "commit-memory"
    MEDIUM_FLASH = "medium-flash"
    MEDIUM_DISK = "medium-disk"
    MEDIUM_MEMORY = "medium-memory"


class Prior(StrEnum):
    """Which cost of a task: the lowest plausible, or the ends of its usual range."""

    LEAST = "least"
    LOW = "low"
    HIGH = "high"


class Medium(StrEnum):
    """What OSDs keep data on. `memory`: files in memory, and memstore."""

    DISK = "disk"
    FLASH = "flash"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The cost of a task; the columns of `data/demands.yaml`."""

    least_us: float
    typical_us: tuple[float, float]
    per_kib_us: tuple[float, float, float]
    source: str

    def seconds(self, prior: Prior, size_bytes: float) -> float:
        at = list(Prior).index(prior)
        fixed = (self.least_us, *self.typical_us)[at]
        return _US * (fixed + self.per_kib_us[at] * size_bytes / _KIB)


def read_demands() -> Mapping[Task, Demand]:
    """Return the table of demands."""
    return load_table("demands", dict[Task, Demand])


def cost_s(task: Task, prior: Prior, size_bytes: float = 0.0) -> float:
    """Return the seconds that a task of so many bytes costs."""
    return read_demands()[task].seconds(prior, size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageIo:
    """What one client I/O of `size_bytes` makes OSDs do: reads and writes of copies or shards of
    `part_bytes`. `coded`: by erasure code. `moved_bytes` cross the network between OSDs if no two
    of them share a host."""

    size_bytes: float
    write: bool
    reads: int
    writes: int
    part_bytes: float
    coded: bool = False

    @property
    def moved_bytes(self) -> float:
        if not self.coded and not self.write:
            return 0.0
        return self.part_bytes * (max(0, self.reads - 1) + max(0, self.writes - 1))

    def cpu_s(self, cost: Callable[[Task, float], float]) -> float:
        """Add up the processor time on all OSDs; `cost` gives that of a task of so many bytes."""
        part = self.part_bytes
        if not self.write:
            code = cost(Task.ENCODE, self.size_bytes) if self.coded else 0.0
            shards = (self.reads - 1) * cost(Task.SHARD_READ, part)
            return cost(Task.OSD_READ, part) + code + shards
        if not self.coded:
            return cost(Task.OSD_WRITE, part) + (self.writes - 1) * cost(Task.COPY_WRITE, part)
        return (
            cost(Task.OSD_WRITE, part)
            + cost(Task.ENCODE, self.size_bytes)
            + self.reads * cost(Task.SHARD_READ, part)
            + (self.writes - 1) * cost(Task.SHARD_WRITE, part)
        )

    def cpu_least_s(self) -> float:
        return self.cpu_s(lambda task, size: cost_s(task, Prior.LEAST, size))

    def path_least_s(self) -> float:
        """Return the least processor time in sequence: that of the primary, and for a write with
        several copies or shards that of another OSD."""
        if not self.write:
            return cost_s(Task.OSD_READ, Prior.LEAST)
        other = Task.SHARD_WRITE if self.coded else Task.COPY_WRITE
        waits = cost_s(other, Prior.LEAST) if self.writes > 1 else 0.0
        return cost_s(Task.OSD_WRITE, Prior.LEAST) + waits


def replicated_io(size_bytes: float, copies: int, *, write: bool) -> StorageIo:
    return StorageIo(
        size_bytes=size_bytes,
        write=write,
        reads=0 if write else 1,
        writes=copies if write else 0,
        part_bytes=size_bytes,
    )


def coded_io(
    size_bytes: float, k: int, m: int, *, write: bool, whole_stripes: bool, only_needed: bool
) -> StorageIo:
    """Return the I/Os on shards of an erasure code.

    `whole_stripes`: the I/O covers stripes, so that nothing is read before a write. `only_needed`:
    the pool reads and writes only the shards that it needs (`allow_ec_optimizations`): a write
    reads the data shards that are not written, or the old data and coding shards where those are
    strictly fewer (src/osd/ECTransaction.cc, WritePlanObj).
    """
    if whole_stripes:
        reads, writes, part = (0 if write else k), (k + m if write else 0), size_bytes / k
    elif not write:
        reads, writes, part = (1 if only_needed else k), 0, size_bytes
    elif only_needed:
        unwritten, old = k - 1, 1 + m
        reads, writes, part = min(unwritten, old), 1 + m, size_bytes
    else:
        reads, writes, part = k, k + m, size_bytes
    return StorageIo(
        size_bytes=size_bytes, write=write, reads=reads, writes=writes, part_bytes=part, coded=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Units of the resources that serve an I/O; None: unknown, it bounds nothing.

    `osd_cores` serve all OSDs of the pool; `shared_cores`: the client's work is on them, too.
    `flash_osds` and `disk_osds` count OSDs by medium; OSDs on memory have no limit of a medium.
    `osd_links_bps` is the sum over hosts with OSDs, each way, `client_links_bps` that of the
    clients. `apart`: no two copies or shards are on one host. `client_on_osd_host`: some I/O of
    clients may stay on a host. `target_cores` are the polled cores of an NVMe/TCP target.
    """

    osd_cores: float | None = None
    shared_cores: bool = False
    flash_osds: int | None = None
    disk_osds: int | None = None
    osd_hosts: int | None = None
    osd_links_bps: float | None = None
    apart: bool = False
    client_cores: float | None = None
    client_links_bps: float | None = None
    client_on_osd_host: bool = True
    target_cores: float | None = None


def find_capacities(
    resources: Resources, size_bytes: float, io: StorageIo | None
) -> Mapping[Station, float]:
    """Return the most I/Os per second of each known resource, `io` None: unknown storage."""
    found: dict[Station, float] = {}
    client_s = cost_s(Task.CLIENT, Prior.LEAST, size_bytes)
    if resources.client_cores is not None and io is not None:
        found[Station.CLIENT] = resources.client_cores / client_s
    if resources.client_links_bps is not None and size_bytes:
        found[Station.CLIENT_LINK] = resources.client_links_bps / size_bytes
    if resources.target_cores is not None:
        command_s = cost_s(Task.TARGET_COMMAND, Prior.LEAST, size_bytes)
        found[Station.TARGET_CORES] = resources.target_cores / command_s
    if io is None:
        return found
    if resources.osd_cores is not None:
        work_s = io.cpu_least_s() + (client_s if resources.shared_cores else 0.0)
        found[Station.OSD_CPU] = resources.osd_cores / work_s
    if resources.flash_osds is not None and resources.disk_osds is not None:
        media = medium_capacity(io, resources.flash_osds, resources.disk_osds)
        if media:
            found[Station.MEDIUM] = media
    if resources.osd_links_bps is not None and size_bytes:
        moved = io.moved_bytes if resources.apart else 0.0
        if not resources.client_on_osd_host:
            moved += size_bytes
        elif resources.osd_hosts and not io.write:
            moved += size_bytes * (1 - 1 / resources.osd_hosts)
        if moved:
            found[Station.OSD_LINK] = resources.osd_links_bps / moved
    return found


def medium_capacity(io: StorageIo, flash_osds: int, disk_osds: int) -> float:
    """Return the most I/Os per second of the OSDs' media. Blocks that are read before a write of a
    partial stripe may be cached, and do not count."""
    if io.write:
        ceiling = disk_osds * HARD_DISK_IOPS + flash_osds * FLASH_WRITE_IOPS
        return ceiling / max(1, io.writes)
    return (disk_osds * HARD_DISK_IOPS + flash_osds * FLASH_READ_IOPS) / max(1, io.reads)


def creation_capacity(ranks: int) -> float:
    """Return the most files per second that so many ranks of MDS create. Each file is a request to
    one rank, also where the client does not wait for the reply (asynchronous creation)."""
    return ranks / cost_s(Task.METADATA, Prior.LEAST)


def receive_capacity(record_bytes: int) -> float:
    """Return the most records per second that one `zfs receive` takes: a single thread reads and
    checks all records of the stream, another one writes them."""
    return 1 / cost_s(Task.RECEIVE_RECORD, Prior.LEAST, record_bytes)


def streamed_bytes(record_bytes: int) -> int:
    """Return the bytes of a record in a stream, with its header (`dmu_replay_record_t`)."""
    return record_bytes + _STREAM_HEADER_BYTES
