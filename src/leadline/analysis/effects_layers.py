"""What differences of layers below a target can do: rows of the table of effects. Those of ZFS
are made of the tables of properties and parameters that the inventory has."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.analysis.effect import EVERY, READS, WRITES, Effect
from leadline.inventory.zfs.parameters import PARAMETERS, Concern, Parameter
from leadline.inventory.zfs.properties import PROPERTIES, Bearing
from leadline.metrics import Op

_ZFSPROPS = "OpenZFS, zfsprops(7)"
_PARAMETERS = "OpenZFS, zfs(4)"
_ZPOOL = "OpenZFS, zpoolprops(7) and zpoolconcepts(7)"
_RBD = "Ceph documentation, RBD"
_BLOCK = "Linux, Documentation/ABI/stable/sysfs-block"
_NVME = "io-paths: NVMe over fabrics"
_NFS = "nfs(5)"
_OPS = {Bearing.EVERY: EVERY, Bearing.READS: READS, Bearing.WRITES: WRITES}
# Seldom what limits, whatever they are set to.
_WEAK = ("zfs_max_recordsize", "zfs_vdev_max_active", "zfs_vdev_queue_depth_pct", "zfs_arc_min")


def _of_parameter(one: Parameter) -> Effect:
    return Effect(
        pattern=f"zfs.parameters.{one.name}",
        cause=f"module: {one.concern.value}",
        label=one.name,
        mechanism=one.does,
        source=_PARAMETERS,
        ops=_ops(one),
        # A queue matters where more wait than it lets through; one I/O at a time never waits.
        deep=one.concern is Concern.QUEUE and "async_write" not in one.name,
        strong=one.name not in _WEAK and one.concern not in (Concern.STREAM, Concern.PROCESSOR),
    )


def _ops(one: Parameter) -> frozenset[Op]:
    if one.concern in (Concern.DIRTY, Concern.SYNC, Concern.STREAM):
        return WRITES
    if one.concern is Concern.CACHE or "_read_" in one.name:
        return READS
    return WRITES if "_write_" in one.name else EVERY


def _of_zfs() -> Iterator[Effect]:
    for one in PROPERTIES:
        yield Effect(
            pattern=f"datasets.*.{one.name}",
            cause=one.label,
            label=one.label,
            mechanism=one.does,
            source=_ZFSPROPS,
            ops=_OPS[one.bearing],
            strong=not one.weak,
        )
    yield from (_of_parameter(one) for one in PARAMETERS)


LAYER_EFFECTS: tuple[Effect, ...] = (
    Effect(
        pattern="stacks.*.way",
        # Another file system is another stack: they are one change.
        cause="filesystem",
        label="layers below the target",
        mechanism="each layer adds its latency, may split, merge or repeat I/Os, and lets only so "
        "many through at once",
        source="the target's own path",
    ),
    *_of_zfs(),
    Effect(
        pattern="zfs.implementation",
        cause="zfs release",
        label="implementation of ZFS",
        mechanism="zfs-fuse passes every I/O through a process and is of an age before lz4, before "
        "queues by class of I/O and before records of more than 128 KiB",
        source="zfs-fuse, pool version 23",
    ),
    Effect(
        pattern="zfs.version",
        cause="zfs release",
        label="release of ZFS",
        mechanism="releases differ in defaults, in the intent log and in direct I/O",
        source="OpenZFS release notes",
        strong=False,
    ),
    Effect(
        pattern="zpools.*.layout",
        cause="vdevs",
        label="vdevs of the pool",
        mechanism="data is spread over vdevs, each with queues of its own; a mirror writes to all "
        "its disks and reads from any, RAID-Z splits each record over its disks",
        source=_ZPOOL,
    ),
    Effect(
        pattern="zpools.*.ashift",
        cause="ashift",
        label="ashift",
        mechanism="it is the least block that is written: too small a one makes disks read before "
        "they write, a large one wastes room and bandwidth on small blocks",
        source=_ZPOOL,
    ),
    Effect(
        pattern="zpools.*.health",
        cause="repair",
        label="health of the pool",
        mechanism="a pool that lacks a disk writes less and reads what is missing from the others; "
        "one that is repaired has I/O of its own",
        source=_ZPOOL,
    ),
    Effect(
        pattern="zpools.*.version",
        cause="zfs release",
        label="version of the pool",
        mechanism="it says which features a pool may use",
        source=_ZPOOL,
        strong=False,
    ),
    Effect(
        pattern="zpools.*.fill",
        cause="fill",
        label="capacity used",
        mechanism="room for large blocks is found less easily in a full pool",
        source=_ZPOOL,
        ops=WRITES,
        strong=False,
    ),
    Effect(
        pattern="zpools.*.fragmentation",
        cause="fill",
        label="fragmentation of free room",
        mechanism="free room in small pieces makes writes smaller and farther apart",
        source=_ZPOOL,
        ops=WRITES,
        strong=False,
    ),
    Effect(
        pattern="zpools.*.autotrim",
        cause="trim",
        label="autotrim",
        mechanism="what is freed is trimmed beside other I/O",
        source=_ZPOOL,
        ops=WRITES,
        strong=False,
    ),
    # Images.
    Effect(
        pattern="images.*.object_size",
        cause="object size",
        label="object size of the image",
        mechanism="an I/O goes to the placement group of its object: smaller objects spread one "
        "large I/O and neighbouring ones over more OSDs, larger ones keep them together",
        source=_RBD,
    ),
    Effect(
        pattern="images.*.stripe_count",
        cause="object size",
        label="striping of the image",
        mechanism="neighbouring stretches go to as many objects at once",
        source=_RBD,
    ),
    Effect(
        pattern="images.*.client",
        cause="client of the image",
        label="client of the image",
        mechanism="librbd runs in the program that does the I/O, krbd in the kernel, rbd-fuse in "
        "a process that each request passes on its way from the kernel and back",
        source=_RBD,
    ),
    Effect(
        pattern="images.*.features",
        cause="features",
        label="features of the image",
        mechanism="an exclusive lock is taken before the first write, and an object map is written "
        "for each object that comes to be",
        source="Ceph documentation, RBD image features",
        ops=WRITES,
        strong=False,
    ),
    # Devices and mounts.
    Effect(
        pattern="blocks.*.transport",
        cause="transport",
        label="transport of NVMe",
        mechanism="over a network each command is a message there and one back, and processor time "
        "on both sides; in the machine it is neither",
        source=_NVME,
    ),
    Effect(
        pattern="blocks.*.queues",
        cause="queues",
        label="queues of the device",
        mechanism="each queue is served by one core of a target: with few of them, those cores are "
        "the limit where many I/Os are in flight",
        source=_NVME,
        deep=True,
    ),
    Effect(
        pattern="blocks.*.paths",
        cause="queues",
        label="paths to the device",
        mechanism="I/Os may go over several paths at once, as the policy has it",
        source=_NVME,
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.queue_depth",
        cause="queues",
        label="depth of the device's queue",
        mechanism="no more I/Os are in flight than the queue takes",
        source=_BLOCK,
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.rotational",
        cause="media",
        label="medium, by the kernel",
        mechanism="what the kernel says of the medium decides how I/Os are ordered and merged: ZFS "
        "makes I/Os of up to 1 MiB on what rotates, else of up to 128 KiB",
        source=_PARAMETERS,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.max_request",
        cause="request size",
        label="largest request of the device",
        mechanism="the kernel splits what is larger",
        source=_BLOCK,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.read_ahead",
        cause="read-ahead",
        label="read-ahead of the device",
        mechanism="so much is read ahead where I/O is not direct",
        source=_BLOCK,
        ops=READS,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.logical_block",
        cause="request size",
        label="logical block",
        mechanism="direct I/O is made of such blocks",
        source=_BLOCK,
        strong=False,
    ),
    Effect(
        pattern="blocks.*.loop_direct_io",
        cause="loop",
        label="direct I/O of the loop device",
        mechanism="without it what is below is cached once more, so that reads may not reach it "
        "and writes reach it later",
        source="losetup(8)",
    ),
    Effect(
        pattern="nfs.*.version",
        cause="nfs",
        label="version of NFS",
        mechanism="versions differ in how clients lock, cache and commit",
        source=_NFS,
        strong=False,
    ),
    Effect(
        pattern="nfs.*.?size",
        cause="nfs",
        label="size of NFS requests",
        mechanism="what is larger goes as several requests",
        source=_NFS,
    ),
    Effect(
        pattern="nfs.*.connections",
        cause="nfs",
        label="connections of NFS",
        mechanism="requests are spread over as many connections",
        source=_NFS,
        deep=True,
        strong=False,
    ),
)
