"""From raw dumps to the inventory of ZFS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Final, TypeVar

from leadline.errors import LeadlineError
from leadline.formats.zfs.lines import nice_count
from leadline.formats.zfs.status import (
    PoolStatus,
    Property,
    VdevGroup,
    VdevStatus,
    parse_pool_status,
    parse_properties,
)

# ZFS as its own programs describe it.


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsPool:
    """A pool. `version` is its number, empty where it has features instead. `ashift` is the
    exponent of the least block, None where nobody tells or it was left to the vdevs. Shares are
    of 1. What is not told is None or empty. `vdevs` hold the pool itself at depth 0."""

    name: str
    version: str = ""
    health: str = ""
    ashift: int | None = None
    size_bytes: int | None = None
    capacity_share: float | None = None
    fragmentation_share: float | None = None
    autotrim: str = ""
    dedup_ratio: float | None = None
    read_only: str = ""
    features: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    scan: str = ""
    errors: str = ""
    vdevs: tuple[VdevStatus, ...] = ()

    @property
    def top_level(self) -> tuple[VdevStatus, ...]:
        """The vdevs that data is spread over."""
        return tuple(one for one in self.vdevs if one.depth == 1 and one.group is VdevGroup.DATA)

    @property
    def data_leaves(self) -> tuple[str, ...]:
        """Names of the devices and files that data lies on: logs, caches and spares are none."""
        ends = [*self.vdevs[1:], None]
        return tuple(
            one.name
            for one, after in zip(self.vdevs, ends, strict=False)
            if one.depth
            and one.group in (VdevGroup.DATA, VdevGroup.SPECIAL, VdevGroup.DEDUP)
            and (after is None or after.depth <= one.depth)
        )

    @property
    def layout(self) -> str:
        """How many vdevs of which kind: `1 x disk`, `2 x mirror of 2, log: 1 x disk`."""
        counts: dict[tuple[VdevGroup, str], int] = {}
        for at, one in enumerate(self.vdevs):
            if one.depth != 1:
                continue
            behind = takewhile(lambda other: other.depth > 1, self.vdevs[at + 1 :])
            members = sum(other.depth == 2 for other in behind)
            kind = f"{one.name.partition('-')[0]} of {members}" if members else "disk"
            counts[one.group, kind] = counts.get((one.group, kind), 0) + 1
        return ", ".join(
            f"{'' if group is VdevGroup.DATA else f'{group.value}: '}{count} x {kind}"
            for (group, kind), count in counts.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsDataset:
    """A file system or a volume (`kind`) with all properties that it tells."""

    name: str
    kind: str
    properties: Mapping[str, Property]

    def value(self, key: str) -> str:
        """A property's value as it is printed, sizes in bytes; empty where this ZFS has no such
        property."""
        found = self.properties.get(key)
        return found.value if found else ""

    @property
    def record_bytes(self) -> int | None:
        """The record size of a file system, the block size of a volume."""
        text = self.value("recordsize") or self.value("volblocksize")
        return int(text) if text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsInventory:
    """What lies in the dumps of a target. `version` is that of the kernel's module or, without
    one, of the programs; empty where nobody tells (zfs-fuse). `implementation` is `kernel` or
    `fuse`. `parameters` are the module's by name, as texts. `unread` says of which dump nothing
    could be learned, and why."""

    version: str
    implementation: str
    pool: ZfsPool | None
    dataset: ZfsDataset | None
    parameters: Mapping[str, str]
    unread: tuple[str, ...] = ()


VERSION: Final = "zpool-version.txt"
POOL: Final = "zpool-get.txt"
STATUS: Final = "zpool-status.txt"
LIST: Final = "zpool-list.txt"
DATASET: Final = "zfs-get.txt"
PARAMETERS: Final = "zfs-parameters.txt"
FILES: Final = (VERSION, POOL, STATUS, LIST, DATASET, PARAMETERS)
ERROR: Final = ".error"

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?\S*", re.ASCII)
_KNOWN = re.compile(r"\d+(?:\.\d+){0,3}", re.ASCII)
_LONGEST_VERSION = 60
_Read = TypeVar("_Read")


def zfs_inventory(dumps: Mapping[str, bytes]) -> ZfsInventory | None:
    """What the dumps tell; None where there is none of ZFS among them. Never raises: a dump that
    cannot be understood is named in `unread`."""
    names = {name.removesuffix(ERROR) for name in dumps}
    if not names & set(FILES):
        return None
    unread = [
        f"{name}: {_text(dumps, name + ERROR).strip() or 'no reason told'}"
        for name in FILES
        if name + ERROR in dumps
    ]

    def read(name: str, parse: Callable[[str], _Read]) -> _Read | None:
        if name not in dumps:
            return None
        try:
            return parse(_text(dumps, name))
        except LeadlineError as error:
            unread.append(f"{name}: {error.fact}")
            return None

    pool = read(POOL, parse_properties) or {}
    status = read(STATUS, parse_pool_status) or ()
    dataset = read(DATASET, parse_properties) or {}
    parameters = _parameters(_text(dumps, PARAMETERS))
    version, kernel = _version(_text(dumps, VERSION))
    return ZfsInventory(
        version=version,
        implementation="kernel" if kernel or parameters else "fuse",
        pool=_pool(pool, status),
        dataset=_dataset(dataset),
        parameters=MappingProxyType(parameters),
        unread=tuple(unread),
    )


def _version(text: str) -> tuple[str, bool]:
    """The version and whether it is that of a kernel's module: `zfs-2.3.2-1` and
    `zfs-kmod-2.3.2-1`, or what /sys/module/zfs/version holds."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in lines if "kmod" in line), lines[0] if lines else "")
    found = _VERSION.search(chosen)
    return (found[0][:_LONGEST_VERSION] if found else ""), bool(found)


def version_key(version: str) -> tuple[int, ...]:
    """`(2, 3, 2)` of `2.3.2-2~bpo12+2`; empty where it is no version."""
    found = _KNOWN.match(version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _parameters(text: str) -> dict[str, str]:
    """`NAME VALUE` a line; a value may be empty or hold blanks."""
    found = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if words:
            found[words[0]] = words[1].strip() if len(words) > 1 else ""
    return found


def _pool(
    told: Mapping[str, Mapping[str, Property]], status: tuple[PoolStatus, ...]
) -> ZfsPool | None:
    if not told and not status:
        return None
    name = next(iter(told), "") or status[0].name
    tree = next((one for one in status if one.name == name), None)
    values = {key: one.value for key, one in told.get(name, {}).items()}

    def text(key: str) -> str:
        return "" if values.get(key) in (None, "-") else values[key]

    ashift = nice_count(text("ashift"))
    return ZfsPool(
        name=name,
        version=text("version"),
        health=text("health") or (tree.state if tree else ""),
        ashift=ashift or None,
        size_bytes=nice_count(text("size")),
        capacity_share=_share(text("capacity")),
        fragmentation_share=_share(text("fragmentation")),
        autotrim=text("autotrim"),
        dedup_ratio=_ratio(text("dedupratio")),
        read_only=text("readonly"),
        features=MappingProxyType(
            {
                key.removeprefix("feature@"): value
                for key, value in values.items()
                if key.startswith("feature@")
            }
        ),
        scan=tree.scan if tree else "",
        errors=tree.errors if tree else "",
        vdevs=tree.vdevs if tree else (),
    )


def _dataset(told: Mapping[str, Mapping[str, Property]]) -> ZfsDataset | None:
    name = next(iter(told), "")
    if not name:
        return None
    rows = told[name]
    return ZfsDataset(
        name=name,
        kind=rows["type"].value if "type" in rows else "",
        properties=rows,
    )


def _share(text: str) -> float | None:
    """`47` and `47%` are 0.47."""
    digits = text.removesuffix("%")
    return int(digits) / 100 if digits.isascii() and digits.isdecimal() else None


def _ratio(text: str) -> float | None:
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        return None


def _text(dumps: Mapping[str, bytes], name: str) -> str:
    return dumps.get(name, b"").decode("utf-8", "replace")


# The parameters of ZFS's module that bear on writing, on reading back and on receiving streams.
#  Sources: OpenZFS's manual page zfs(4) and the defaults of its source
# (`module/zfs/vdev_queue.c`, `arc.c`, `dsl_pool.c`, `txg.c`, `zil.c`, `dmu_recv.c`, `dmu_send.c`,
# `zvol.c`) of 0.6.5 to 2.3, the source where the two differ (a page of 2.2 says 30 for
# `zfs_vdev_async_write_max_active`, the source 10). All defaults were held against those of a
# module of 2.3.2 in a running kernel.

KIB, MIB = 1 << 10, 1 << 20


class Unit(StrEnum):
    """What a value counts."""

    COUNT = "count"
    BYTES = "bytes"
    PERCENT = "percent"
    SECONDS = "seconds"
    NANOSECONDS = "nanoseconds"
    SWITCH = "switch"


class Concern(StrEnum):
    """What a parameter limits, hence which evidence bears on it."""

    QUEUE = "I/Os in flight on a vdev"
    SIZE = "size of I/Os"
    DIRTY = "data that waits to be written"
    SYNC = "synchronous writes"
    STREAM = "sending and receiving"
    CACHE = "cache and read-ahead"
    PROCESSOR = "processor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`defaults` are (first version, value), the oldest first, values as the module shows them;
    none where it depends on the machine, which `computed` then tells. `does` is a sentence without
    full stop, `evidence` what shows in a measurement whether the value is what limits."""

    name: str
    unit: Unit
    concern: Concern
    does: str
    evidence: str
    defaults: tuple[tuple[str, int], ...] = ()
    computed: str = ""

    def default(self, version: str) -> int | None:
        """In a version (`2.3.2-1`); in the newest known where it is empty. None where it depends
        on the machine, or that version had no such parameter."""
        key = version_key(version)
        known = [value for first, value in self.defaults if not key or version_key(first) <= key]
        return known[-1] if known else None

    def changed(self, value: str, version: str) -> bool:
        """Whether a value is known to be another than the default."""
        default = self.default(version)
        return default is not None and value != str(default)


def _queue(kind: str, least: int, most: int, does: str, evidence: str) -> tuple[Parameter, ...]:
    """The two bounds of one class of I/Os."""
    pair = (("min", least, "at least"), ("max", most, "at most"))
    return tuple(
        Parameter(
            name=f"zfs_vdev_{kind}_{end}_active",
            unit=Unit.COUNT,
            concern=Concern.QUEUE,
            does=f"{word} so many {does} are in flight on a vdev"
            + (" before other classes get more" if end == "min" else ""),
            evidence=evidence,
            defaults=((_FIRST, value),),
        )
        for end, value, word in pair
    )


_FIRST = "0.6.4"
_ACTIVE = "zpool iostat -q: %s active at the limit while some are pending"
PARAMETERS_PARAMETERS: tuple[Parameter, ...] = (
    # I/Os in flight.
    Parameter(
        name="zfs_vdev_max_active",
        unit=Unit.COUNT,
        concern=Concern.QUEUE,
        does="at most so many I/Os of all classes together are in flight on a vdev",
        evidence="zpool iostat -q: all classes together at the limit, which is rare",
        defaults=((_FIRST, 1000),),
    ),
    *_queue("sync_read", 10, 10, "reads that somebody waits for", _ACTIVE % "syncq_read"),
    *_queue("sync_write", 10, 10, "writes of the intent log", _ACTIVE % "syncq_write"),
    *_queue("async_read", 1, 3, "reads ahead", _ACTIVE % "asyncq_read"),
    Parameter(
        name="zfs_vdev_async_write_min_active",
        unit=Unit.COUNT,
        concern=Concern.QUEUE,
        does="so many writes of transaction groups are in flight on a vdev while little data is "
        "dirty",
        evidence="zpool iostat -q: asyncq_write active near this number while some are pending, "
        "and dirty data below zfs_vdev_async_write_active_min_dirty_percent",
        defaults=((_FIRST, 1), ("0.7", 2)),
    ),
    Parameter(
        name="zfs_vdev_async_write_max_active",
        unit=Unit.COUNT,
        concern=Concern.QUEUE,
        does="at most so many writes of transaction groups are in flight on a vdev, so that its "
        "bandwidth is at most this number x their size / their latency",
        evidence=_ACTIVE % "asyncq_write",
        defaults=((_FIRST, 10),),
    ),
    Parameter(
        name="zfs_vdev_async_write_active_min_dirty_percent",
        unit=Unit.PERCENT,
        concern=Concern.QUEUE,
        does="from this share of zfs_dirty_data_max on more than the least number of async writes "
        "are in flight",
        evidence="asyncq_write between its two bounds while data is dirty",
        defaults=((_FIRST, 30),),
    ),
    Parameter(
        name="zfs_vdev_async_write_active_max_dirty_percent",
        unit=Unit.PERCENT,
        concern=Concern.QUEUE,
        does="from this share of zfs_dirty_data_max on the greatest number of async writes is in "
        "flight",
        evidence="asyncq_write below its maximum while writers are being delayed",
        defaults=((_FIRST, 60),),
    ),
    Parameter(
        name="zfs_vdev_scrub_max_active",
        unit=Unit.COUNT,
        concern=Concern.QUEUE,
        does="at most so many I/Os of scrubs and repairs are in flight on a vdev",
        evidence="a scrub or resilver during the trial",
        defaults=((_FIRST, 2), ("2.1", 3)),
    ),
    Parameter(
        name="zfs_vdev_queue_depth_pct",
        unit=Unit.PERCENT,
        concern=Concern.QUEUE,
        does="so many allocations may wait for a vdev, as a share of the async writes in flight, "
        "before others are chosen",
        evidence="vdevs of one pool that are not written alike; of a single vdev it does nothing",
        defaults=(("0.7", 1000),),
    ),
    # Size.
    Parameter(
        name="zfs_vdev_aggregation_limit",
        unit=Unit.BYTES,
        concern=Concern.SIZE,
        does="I/Os beside each other become one up to this size on vdevs that rotate",
        evidence="zpool iostat -r: aggregated writes end at this size; blocks of at least it are "
        "never merged",
        defaults=((_FIRST, 128 * KIB), ("0.8", MIB)),
    ),
    Parameter(
        name="zfs_vdev_aggregation_limit_non_rotating",
        unit=Unit.BYTES,
        concern=Concern.SIZE,
        does="I/Os beside each other become one up to this size on vdevs that the kernel says do "
        "not rotate, as RBD and NVMe do not",
        evidence="zpool iostat -r: aggregated writes end at this size; blocks of at least it are "
        "never merged",
        defaults=(("0.8", 128 * KIB),),
    ),
    Parameter(
        name="zfs_vdev_write_gap_limit",
        unit=Unit.BYTES,
        concern=Concern.SIZE,
        does="writes are merged over a gap of at most this size",
        evidence="zpool iostat -r: few aggregated writes though blocks lie close",
        defaults=((_FIRST, 4 * KIB),),
    ),
    Parameter(
        name="zfs_vdev_read_gap_limit",
        unit=Unit.BYTES,
        concern=Concern.SIZE,
        does="reads are merged over a gap of at most this size",
        evidence="zpool iostat -r: few aggregated reads though blocks lie close",
        defaults=((_FIRST, 32 * KIB),),
    ),
    Parameter(
        name="zfs_max_recordsize",
        unit=Unit.BYTES,
        concern=Concern.SIZE,
        does="no dataset may be given larger records",
        evidence="none of a measurement: a dataset has a record size or it was refused",
        defaults=(("0.6.5", MIB), ("2.2", 16 * MIB)),
    ),
    # Dirty data.
    Parameter(
        name="zfs_dirty_data_max",
        unit=Unit.BYTES,
        concern=Concern.DIRTY,
        does="writers stand still while so much of what they wrote is not on disk",
        evidence="kstat dmu_tx: dmu_tx_dirty_over_max and dmu_tx_dirty_delay grow",
        computed="zfs_dirty_data_max_percent of the memory, at most zfs_dirty_data_max_max",
    ),
    Parameter(
        name="zfs_dirty_data_max_percent",
        unit=Unit.PERCENT,
        concern=Concern.DIRTY,
        does="what zfs_dirty_data_max is made of as the module is loaded, as a share of the memory",
        evidence="as of zfs_dirty_data_max",
        defaults=((_FIRST, 10),),
    ),
    Parameter(
        name="zfs_dirty_data_max_max",
        unit=Unit.BYTES,
        concern=Concern.DIRTY,
        does="zfs_dirty_data_max is at most this as the module is loaded",
        evidence="as of zfs_dirty_data_max",
        computed="a quarter of the memory, at most 4 GiB",
    ),
    Parameter(
        name="zfs_dirty_data_sync_percent",
        unit=Unit.PERCENT,
        concern=Concern.DIRTY,
        does="a transaction group is closed once this share of zfs_dirty_data_max is dirty",
        evidence="kstat txgs: groups close before zfs_txg_timeout",
        defaults=(("0.8", 20),),
    ),
    Parameter(
        name="zfs_delay_min_dirty_percent",
        unit=Unit.PERCENT,
        concern=Concern.DIRTY,
        does="from this share of zfs_dirty_data_max on each write is delayed",
        evidence="kstat dmu_tx: dmu_tx_dirty_delay grows",
        defaults=((_FIRST, 60),),
    ),
    Parameter(
        name="zfs_delay_scale",
        unit=Unit.NANOSECONDS,
        concern=Concern.DIRTY,
        does="the delay of a write midway between where delays begin and zfs_dirty_data_max",
        evidence="kstat dmu_tx: dmu_tx_dirty_delay grows",
        defaults=((_FIRST, 500_000),),
    ),
    Parameter(
        name="zfs_txg_timeout",
        unit=Unit.SECONDS,
        concern=Concern.DIRTY,
        does="a transaction group is closed after this time if nothing closes it before",
        evidence="kstat txgs: groups stay open this long, with little dirty data",
        defaults=((_FIRST, 5),),
    ),
    Parameter(
        name="zfs_wrlog_data_max",
        unit=Unit.BYTES,
        concern=Concern.DIRTY,
        does="writers stand still while records of the intent log hold so much",
        evidence="kstat dmu_tx: dmu_tx_wrlog_delay grows",
        computed="twice zfs_dirty_data_max",
    ),
    # Synchronous writes.
    Parameter(
        name="zfs_immediate_write_sz",
        unit=Unit.BYTES,
        concern=Concern.SYNC,
        does="of a synchronous write that is larger, the log holds only where it was written, and "
        "the data is written once, unless there is a log device",
        evidence="synchronous writes around this size; bytes on the vdevs against bytes written",
        defaults=((_FIRST, 32 * KIB),),
    ),
    Parameter(
        name="zil_slog_bulk",
        unit=Unit.BYTES,
        concern=Concern.SYNC,
        does="what a commit writes to a log device beyond this has the lower priority of async "
        "writes",
        evidence="zpool iostat -q: the log device's asyncq_write; without one it does nothing",
        defaults=(("0.7", 768 * KIB), ("2.3", 64 * MIB)),
    ),
    Parameter(
        name="zil_maxblocksize",
        unit=Unit.BYTES,
        concern=Concern.SYNC,
        does="no block of the intent log is larger",
        evidence="zpool iostat -r: sizes of synchronous writes",
        defaults=(("0.8", 128 * KIB),),
    ),
    Parameter(
        name="zil_nocacheflush",
        unit=Unit.SWITCH,
        concern=Concern.SYNC,
        does="the intent log does not tell disks to empty their caches, which loses data where the "
        "power fails",
        evidence="flushes that reach the device",
        defaults=(("0.7.12", 0),),
    ),
    Parameter(
        name="zfs_nocacheflush",
        unit=Unit.SWITCH,
        concern=Concern.SYNC,
        does="disks are not told to empty their caches, which loses the pool where the power fails",
        evidence="flushes that reach the device",
        defaults=((_FIRST, 0),),
    ),
    # Streams.
    Parameter(
        name="zfs_recv_queue_length",
        unit=Unit.BYTES,
        concern=Concern.STREAM,
        does="so much of a stream may wait for the one thread that writes what is received",
        evidence="the pipe: how long the sender stood still because the receiver took nothing",
        defaults=(("0.7", 16 * MIB),),
    ),
    Parameter(
        name="zfs_recv_write_batch_size",
        unit=Unit.BYTES,
        concern=Concern.STREAM,
        does="records of one object are received in one transaction up to this size",
        evidence="one thread's processor time while receiving; records of at least this size are "
        "not batched",
        defaults=(("2.0", MIB),),
    ),
    Parameter(
        name="zfs_send_queue_length",
        unit=Unit.BYTES,
        concern=Concern.STREAM,
        does="so much is read ahead of what is sent",
        evidence="the pipe: how long the receiver stood still because nothing came",
        defaults=(("0.7", 16 * MIB),),
    ),
    Parameter(
        name="zfs_send_no_prefetch_queue_length",
        unit=Unit.BYTES,
        concern=Concern.STREAM,
        does="so much may wait between the threads that send",
        evidence="the pipe: how long the receiver stood still because nothing came",
        defaults=(("2.0", MIB),),
    ),
    # Cache and read-ahead.
    Parameter(
        name="zfs_arc_max",
        unit=Unit.BYTES,
        concern=Concern.CACHE,
        does="the cache (ARC) is at most this large; 0 leaves it to the module: half of the memory "
        "before 2.3, since then all but 1 GiB, at least 5/8",
        evidence="kstat arcstats: hits and misses; reads that reach the vdevs against those asked "
        "for",
        defaults=((_FIRST, 0),),
    ),
    Parameter(
        name="zfs_arc_min",
        unit=Unit.BYTES,
        concern=Concern.CACHE,
        does="the cache (ARC) does not give way below this; 0 leaves it to the module: 1/32 of the "
        "memory, at least 32 MiB",
        evidence="kstat arcstats: its size",
        defaults=((_FIRST, 0),),
    ),
    Parameter(
        name="zfs_compressed_arc_enabled",
        unit=Unit.SWITCH,
        concern=Concern.CACHE,
        does="the cache holds blocks as they are on disk, compressed",
        evidence="kstat arcstats: compressed_size against uncompressed_size",
        defaults=(("0.7", 1),),
    ),
    Parameter(
        name="zfs_prefetch_disable",
        unit=Unit.SWITCH,
        concern=Concern.CACHE,
        does="nothing is read ahead, but by zfs send",
        evidence="zpool iostat -q: asyncq_read; of random reads it does little",
        defaults=((_FIRST, 0),),
    ),
    Parameter(
        name="zfetch_max_distance",
        unit=Unit.BYTES,
        concern=Concern.CACHE,
        does="of one sequence at most so much is read ahead",
        evidence="zpool iostat -q: asyncq_read during sequential reads",
        defaults=(("0.7", 8 * MIB), ("2.2", 64 * MIB)),
    ),
    Parameter(
        name="zfs_dio_enabled",
        unit=Unit.SWITCH,
        concern=Concern.CACHE,
        does="direct I/O goes past the cache, where it is aligned to pages, and to records when it "
        "writes; without it direct I/O is cached like any other",
        evidence="kstat arcstats: reads that the cache answers though I/O is direct",
        defaults=(("2.3", 1),),
    ),
    # Processor.
    Parameter(
        name="zio_taskq_batch_pct",
        unit=Unit.PERCENT,
        concern=Concern.PROCESSOR,
        does="compression and checksums may use this share of the processors",
        evidence="processor time during the trial",
        defaults=((_FIRST, 75), ("2.1", 80)),
    ),
    Parameter(
        name="zvol_request_sync",
        unit=Unit.SWITCH,
        concern=Concern.QUEUE,
        does="each submitter of I/O to a volume waits for the one before",
        evidence="I/Os in flight on the volume; of a file system of ZFS it does nothing",
        defaults=(("0.7", 0),),
    ),
)
BY_NAME = {one.name: one for one in PARAMETERS_PARAMETERS}


# The properties of a dataset that bear on its I/O (OpenZFS's manual page zfsprops(7)).


class Bearing(StrEnum):
    """Which I/O a property can show in."""

    EVERY = "every"
    READS = "reads"
    WRITES = "writes"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetProperty:
    """`does` is a sentence without full stop. `size`: its value is one in bytes. `weak`: it seldom
    accounts for much."""

    name: str
    label: str
    does: str
    bearing: Bearing = Bearing.EVERY
    size: bool = False
    weak: bool = False


PROPERTIES: tuple[DatasetProperty, ...] = (
    DatasetProperty(
        name="recordsize",
        label="record size",
        does="a write of less than a record reads the record first, where no cache has it, and "
        "writes it whole, as a read of less reads it whole; larger records make fewer and larger "
        "I/Os, which is what a vdev with much latency needs",
        size=True,
    ),
    DatasetProperty(
        name="volblocksize",
        label="block size of the volume",
        does="a write of less than a block reads it first and writes it whole; larger blocks make "
        "fewer and larger I/Os",
        size=True,
    ),
    DatasetProperty(
        name="compression",
        label="compression",
        does="it costs processor time and makes what reaches the vdevs smaller where the data can "
        "be compressed",
    ),
    DatasetProperty(
        name="sync",
        label="sync",
        does="always writes each write to the intent log before it is answered; disabled answers "
        "flushes and synchronous writes at once, and loses them where the machine fails",
        bearing=Bearing.WRITES,
    ),
    DatasetProperty(
        name="logbias",
        label="log bias",
        does="throughput keeps synchronous data out of the log device and writes it once, in its "
        "place, with a larger latency; of writes that nobody waits for it changes nothing",
        bearing=Bearing.WRITES,
    ),
    DatasetProperty(
        name="primarycache",
        label="primary cache",
        does="without data in the cache each read comes from the vdevs, and each write of less "
        "than a record reads it from there; nothing is read ahead",
    ),
    DatasetProperty(
        name="secondarycache",
        label="secondary cache",
        does="it says what a cache device may hold, of pools that have one",
        bearing=Bearing.READS,
        weak=True,
    ),
    DatasetProperty(
        name="dedup",
        label="deduplication",
        does="each write looks its checksum up in a table, which is read from the vdevs where "
        "memory does not hold it",
        bearing=Bearing.WRITES,
    ),
    DatasetProperty(
        name="copies",
        label="copies",
        does="each block is written as often, beside what the pool's vdevs mirror",
        bearing=Bearing.WRITES,
    ),
    DatasetProperty(
        name="checksum",
        label="checksum",
        does="it costs processor time for each byte; fletcher4, which `on` stands for, the least",
    ),
    DatasetProperty(
        name="encryption",
        label="encryption",
        does="it costs processor time for each byte",
    ),
    DatasetProperty(
        name="direct",
        label="direct I/O",
        does="always takes aligned I/O past the cache, disabled caches direct I/O like any other",
    ),
    DatasetProperty(
        name="prefetch",
        label="read-ahead",
        does="it says what is read before anybody asks for it",
        bearing=Bearing.READS,
    ),
    DatasetProperty(
        name="special_small_blocks",
        label="small blocks on the special vdev",
        does="blocks up to this size go to the special vdev, of pools that have one",
        size=True,
    ),
    DatasetProperty(
        name="redundant_metadata",
        label="redundant metadata",
        does="fewer copies of metadata are fewer writes for each small write",
        bearing=Bearing.WRITES,
        weak=True,
    ),
    DatasetProperty(
        name="dnodesize",
        label="dnode size",
        does="it bears on metadata: many small files, extended attributes",
        weak=True,
    ),
    DatasetProperty(
        name="atime",
        label="access times",
        does="each read may write the time of access",
        bearing=Bearing.READS,
        weak=True,
    ),
    DatasetProperty(
        name="xattr",
        label="extended attributes",
        does="it bears on metadata only",
        weak=True,
    ),
)
