"""Facts of a layer study: a cause code with its numbers and names. `report` has the words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial


class Code(StrEnum):
    """Every statement that the analysis of layers makes."""

    # A text that another program or an earlier version recorded.
    RECORDED = "recorded"

    # Why a figure is missing.
    NOT_REPORTED = "not-reported"
    NO_OPERATIONS = "no-operations"
    NO_BYTES = "no-bytes"
    NO_LATENCY = "no-latency"
    NO_SIZES = "no-sizes"
    NO_SINGLE_SIZE = "no-single-size"
    NO_MERGE_COUNT = "no-merge-count"
    NO_QUEUES = "no-queues"
    MERGED_AS_ONE = "merged-as-one"
    NOT_SAMPLED = "not-sampled"
    NOT_TRACED = "not-traced"
    NOT_CONCURRENT = "not-concurrent"
    PHASES_DIFFER = "phases-differ"

    # Why a layer has no figures.
    FILESYSTEM_UNCOUNTED = "filesystem-uncounted"
    DEVICES_UNKNOWN = "devices-unknown"
    NO_MACHINE_SAMPLES = "no-machine-samples"
    NO_DEVICE_COUNTERS = "no-device-counters"
    NO_USABLE_COUNTERS = "no-usable-counters"
    NOT_READ_TWICE = "not-read-twice"
    ZPOOL_NOT_RECORDED = "zpool-not-recorded"
    ZPOOL_NO_INTERVAL = "zpool-no-interval"

    # Why a layer also serves other users.
    SYSTEM_DEVICE = "system-device"
    ALL_CLIENTS = "all-clients"

    # Notes on a layer or on a trial.
    FLUSHES = "flushes"
    NFS_TIMES = "nfs-times"
    NFS_COMMITS = "nfs-commits"
    FUSE_COUNTS = "fuse-counts"
    ZPOOL_WHOLE = "zpool-whole"
    ZPOOL_GROUP = "zpool-group"
    ZPOOL_OPTIONS = "zpool-options"
    ZFS_MISSED = "zfs-missed"
    NO_WINDOW = "no-window"
    SHORT_STREAMS = "short-streams"

    # Why the bytes of two layers differ.
    NO_REASON = "no-reason"
    BUFFERED_WRITES = "buffered-writes"
    BUFFERED_READS = "buffered-reads"
    FILE_VDEV_WRITES = "file-vdev-writes"
    FILE_VDEV_READS = "file-vdev-reads"
    LOOP_WRITES = "loop-writes"
    LOOP_READS = "loop-reads"
    RBD_CACHE_WRITES = "rbd-cache-writes"
    RBD_CACHE_READS = "rbd-cache-reads"
    COMPRESSES = "compresses"
    TXG_DELAY = "txg-delay"
    ARC_ANSWERED = "arc-answered"
    ARC_POSSIBLE = "arc-possible"
    OTHER_USERS = "other-users"
    FILESYSTEM_METADATA = "filesystem-metadata"
    FILESYSTEM_JOURNAL = "filesystem-journal"
    FILESYSTEM_READS = "filesystem-reads"
    READ_AHEAD = "read-ahead"
    LOOP_FILESYSTEM = "loop-filesystem"
    RAID_WRITES = "raid-writes"
    RAID_READS = "raid-reads"
    DEVICE_MAPPER = "device-mapper"
    PARTITION = "partition"
    VDEV_COPIES = "vdev-copies"
    RECORD_WRITES = "record-writes"
    RECORD_READS = "record-reads"
    INTENT_LOG = "intent-log"
    ZFS_METADATA = "zfs-metadata"
    LEAF_COPIES = "leaf-copies"
    ZFS_READS_METADATA = "zfs-reads-metadata"
    STREAM_READS = "stream-reads"
    ZFS_PREFETCH = "zfs-prefetch"
    WINDOWS_EXPLAIN = "windows-explain"
    WINDOWS_TOO_SMALL = "windows-too-small"
    OTHER_SECONDS = "other-seconds"

    # Why a setting can matter, cannot matter, or why that is unknown.
    FUSE_NO_MODULE = "fuse-no-module"
    SWEEP_REFUSED = "sweep-refused"
    SWEEP_FEW_TRIALS = "sweep-few-trials"
    SWEEP_SEPARATE = "sweep-separate"
    SWEEP_OVERLAP = "sweep-overlap"
    RECORD_AMPLIFIES = "record-amplifies"
    RECORD_NO_SIZES = "record-no-sizes"
    RECORD_FOLLOWED = "record-followed"
    RECORD_ALONE = "record-alone"
    DATA_UNKNOWN = "data-unknown"
    COMPRESSION_COSTS = "compression-costs"
    DATA_INCOMPRESSIBLE = "data-incompressible"
    TRIAL_READS = "trial-reads"
    SYNC_ALWAYS = "sync-always"
    SYNC_DISABLED = "sync-disabled"
    SYNC_FSYNC = "sync-fsync"
    SYNC_UNKNOWN = "sync-unknown"
    SYNC_NONE = "sync-none"
    CACHE_ANSWERED = "cache-answered"
    CACHE_METADATA_ONLY = "cache-metadata-only"
    CACHE_NO_READS = "cache-no-reads"
    CACHE_SOME_READS = "cache-some-reads"
    CACHE_STREAM_READS = "cache-stream-reads"
    CACHE_UNKNOWN = "cache-unknown"
    DIRTY_NO_COUNTERS = "dirty-no-counters"
    DIRTY_DELAYED = "dirty-delayed"
    DIRTY_STOPPED = "dirty-stopped"
    DIRTY_NO_GROUPS = "dirty-no-groups"
    DIRTY_BELOW = "dirty-below"
    DIRTY_CLOSES = "dirty-closes"
    TXG_NO_GROUPS = "txg-no-groups"
    TXG_BY_TIMEOUT = "txg-by-timeout"
    TXG_BEFORE_TIMEOUT = "txg-before-timeout"
    AGGREGATION_OFF = "aggregation-off"
    AGGREGATION_NO_SIZES = "aggregation-no-sizes"
    AGGREGATION_REACHED = "aggregation-reached"
    AGGREGATION_BELOW = "aggregation-below"
    RECORDS_NO_NEIGHBOUR = "records-no-neighbour"
    RECORDS_UNKNOWN = "records-unknown"
    RECORDS_WAIT = "records-wait"
    QUEUE_NOT_RECORDED = "queue-not-recorded"
    QUEUE_FULL = "queue-full"
    QUEUE_FREE = "queue-free"
    QUEUE_FEW_SAMPLES = "queue-few-samples"
    QUEUE_BY_DIRTY = "queue-by-dirty"
    QUEUE_WAITS = "queue-waits"
    VDEV_WAITS = "vdev-waits"
    VDEV_FREE = "vdev-free"
    VDEV_NARROW = "vdev-narrow"
    VDEV_FEW_SAMPLES = "vdev-few-samples"
    VDEV_NOT_RECORDED = "vdev-not-recorded"
    KRBD_NO_CACHE = "krbd-no-cache"
    RBD_CACHE_READS_UNKNOWN = "rbd-cache-reads-unknown"
    RBD_CACHE_NO_LATENCY = "rbd-cache-no-latency"
    RBD_CACHE_AT_WORK = "rbd-cache-at-work"
    RBD_CACHE_FLUSHED = "rbd-cache-flushed"
    RBD_CACHE_WAITS = "rbd-cache-waits"
    OBJECT_NO_SIZES = "object-no-sizes"
    OBJECT_FILLED = "object-filled"
    OBJECT_SHARED = "object-shared"
    OBJECT_FAR = "object-far"

    # Why a cell has no layers.
    NO_STACK = "no-stack"
    NO_TRIAL = "no-trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`values` are numbers in base units, named with their unit, and names as texts."""

    code: Code
    values: Mapping[str, float | str] = field(default_factory=dict)


def fact(code: Code, **values: float | str) -> Fact:
    return Fact(code=code, values=values)


class Relevance(StrEnum):
    """Whether a setting can change the throughput of the trial."""

    CAN = "can matter"
    CANNOT = "cannot matter"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """`name` as its owner calls it, `value` as recorded (empty: unknown), the cause, and the
    numbers behind it as `evidence` in base units, named with their unit."""

    name: str
    value: str
    relevance: Relevance
    cause: Fact
    evidence: Mapping[str, float] = field(default_factory=dict)


def _setting(
    relevance: Relevance,
    name: str,
    value: str,
    code: Code,
    evidence: Mapping[str, float] | None = None,
    **values: float | str,
) -> Setting:
    numbers = dict(evidence or {})
    cause = fact(code, **{**numbers, **values})
    return Setting(name=name, value=value, relevance=relevance, cause=cause, evidence=numbers)


can = partial(_setting, Relevance.CAN)
cannot = partial(_setting, Relevance.CANNOT)
not_known = partial(_setting, Relevance.NOT_KNOWN)
