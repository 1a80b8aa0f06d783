"""The properties of a dataset that bear on its I/O (OpenZFS's manual page zfsprops(7))."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
