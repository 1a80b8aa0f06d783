"""The parameters of ZFS's module that bear on writing, on reading back and on receiving streams.

Sources: OpenZFS's manual page zfs(4) and the defaults of its source (`module/zfs/vdev_queue.c`,
`arc.c`, `dsl_pool.c`, `txg.c`, `zil.c`, `dmu_recv.c`, `dmu_send.c`, `zvol.c`) of 0.6.5 to 2.3, the
source where the two differ (a page of 2.2 says 30 for `zfs_vdev_async_write_max_active`, the source
10). All defaults were held against those of a module of 2.3.2 in a running kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leadline.inventory.zfs.reading import version_key

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
PARAMETERS: tuple[Parameter, ...] = (
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
BY_NAME = {one.name: one for one in PARAMETERS}
