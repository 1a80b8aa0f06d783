"""What each difference of configuration can do to which cells: one table, with its sources.

Sources: "io-paths" is docs/concepts/explaining.md, which tells what Ceph's source does and gives
the published figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from leadline.analysis.explain.spots import Spot
from leadline.inventory.diff import Difference
from leadline.inventory.diff.ceph import CPU_BUDGET, NOT_MEASURED
from leadline.inventory.zfs import Bearing, Concern, Parameter, dataset_properties, zfs_parameters
from leadline.metrics import Op

# What a difference of configuration can do to which cells: one row of the table of effects.

EVERY = frozenset(Op)
READS = frozenset({Op.READ, Op.TOTAL})
WRITES = frozenset({Op.WRITE, Op.TRIM, Op.TOTAL})

ZONES = "zones"
REDUNDANCY = "redundancy"
LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Differences whose path matches `pattern` (and whose texts mention `mentions`) can bear on
    `ops`; `deep` only where I/Os are in flight together, `cephfs` only in a file system.

    `cause` joins differences that are one and the same change; `label` is what people call it.
    `mechanism` is a sentence without full stop. `strong`: enough to be named as a cause where
    nothing stronger is there. `source` says where the mechanism is from.
    """

    pattern: str
    cause: str
    label: str
    mechanism: str
    source: str
    ops: frozenset[Op] = EVERY
    deep: bool = False
    cephfs: bool = False
    strong: bool = True
    mentions: str = ""

    def matches(self, difference: Difference) -> bool:
        return fnmatchcase(difference.path, self.pattern) and (
            self.mentions in f"{difference.baseline} {difference.candidate}"
        )

    def bears_on(self, spot: Spot, difference: Difference) -> bool:
        """Whether it can show in a spot of the difference's target, if that is in a file system
        where it has to be."""
        if difference.path.startswith("workloads.") and not difference.path.startswith(
            f"workloads.{spot.workload}."
        ):
            return False
        if self.deep and spot.depth == 1:
            return False
        return spot.op in self.ops


# What differences of Kubernetes clusters and of StorageClasses can do: rows of the table of
# effects.

_CSI = "ceph-csi documentation, StorageClass parameters"
_ROOK = "Rook documentation, CephCluster"
_ODF = "OpenShift Data Foundation documentation"
_MAYASTOR = "OpenEBS documentation, Mayastor"
_LONGHORN = "Longhorn documentation"
_ZFS = "OpenZFS documentation, zfsprops(7)"

KUBERNETES_EFFECTS: tuple[Effect, ...] = (
    # Where the copies lie, and how many there are.
    Effect(
        pattern="odf.failure_domain",
        cause=ZONES,
        label="failure domain",
        mechanism="a write is answered when the farthest copy has it: over zones that is a way "
        "between zones, over racks and hosts of one zone it is not",
        source=_ODF,
    ),
    Effect(
        pattern="kubernetes.zones",
        cause=ZONES,
        label="zones of nodes",
        mechanism="in several zones a client, its primary and the copies can be far apart",
        source="io-paths: message counts",
        strong=False,
    ),
    Effect(
        pattern="odf.arbiter",
        cause=REDUNDANCY,
        label="arbiter",
        mechanism="a stretched cluster keeps four copies, two in each of two zones",
        source=_ODF,
        ops=WRITES,
    ),
    Effect(
        pattern="storage_classes.*.replicas",
        cause=REDUNDANCY,
        label="replicas",
        mechanism="a write is answered when every replica has it, over the network where that is "
        "on another node",
        source=f"{_MAYASTOR}; {_LONGHORN}",
        ops=WRITES,
    ),
    Effect(
        pattern="storage_classes.*.replicas",
        cause=REDUNDANCY,
        label="replicas",
        mechanism="reads are spread over replicas",
        source=f"{_MAYASTOR}; {_LONGHORN}",
        ops=READS,
        deep=True,
    ),
    Effect(
        pattern="storage_classes.*.data_locality",
        cause="locality",
        label="data locality",
        mechanism="a replica on the node of the pod is read without the network; strict-local has "
        "no other, so that writes need none either",
        source=_LONGHORN,
    ),
    Effect(
        pattern="storage_classes.*.read_affinity",
        cause="read policy",
        label="read affinity",
        mechanism="clients read the copy in their own zone instead of the primary, which is "
        "somewhere else most of the time",
        source="Ceph documentation, rbd_read_from_replica_policy",
        ops=READS,
    ),
    Effect(
        pattern="storage_classes.*.map_options",
        cause="read policy",
        label="map options",
        mechanism="read_from_replica decides which copy a client reads, hence how far it goes",
        source=_CSI,
        ops=READS,
        mentions="read_from_replica",
    ),
    # The way from the pod to the storage.
    Effect(
        pattern="storage_classes.*.driver",
        cause="driver",
        label="storage behind the class",
        mechanism="it is another system: how far data goes, how often it is stored and who does "
        "the work are all others",
        source="the StorageClasses",
    ),
    Effect(
        pattern="storage_classes.*.mounter",
        cause="mounter",
        label="mounter",
        mechanism="krbd and the kernel's CephFS serve I/O in the kernel; rbd-nbd and ceph-fuse "
        "pass each through a process, which costs switches between the two and processor time, "
        "but may cache",
        source=_CSI,
    ),
    Effect(
        pattern="storage_classes.*.image_features",
        cause="features",
        label="features of images",
        mechanism="an exclusive lock is taken before the first write, and an object map is written "
        "for each object that comes to be",
        source="Ceph documentation, RBD image features",
        ops=WRITES,
        strong=False,
    ),
    Effect(
        pattern="storage_classes.*.map_options",
        cause="map options",
        label="map options",
        mechanism="they change how the client maps the image: where it reads from, how it checks, "
        "whether it copies data before it sends it (rxbounce)",
        source=_CSI,
        strong=False,
    ),
    Effect(
        pattern="storage_classes.*.encryption",
        cause="volume encryption",
        label="encryption of volumes",
        mechanism="dm-crypt or fscrypt on the node costs its processor time for every byte, and "
        "data that is stored can no longer be compressed",
        source=_CSI,
    ),
    Effect(
        pattern="storage_classes.*.data_engine",
        cause="engine",
        label="data engine",
        mechanism="v1 is a process behind iSCSI, v2 polls with SPDK: less latency for cores that "
        "are always busy",
        source=_LONGHORN,
    ),
    Effect(
        pattern="storage_classes.*.protocol",
        cause="engine",
        label="protocol",
        mechanism="it is the way between the node and the storage",
        source=_MAYASTOR,
    ),
    Effect(
        pattern="storage_classes.*.thin",
        cause="thin",
        label="thin provisioning",
        mechanism="a thin volume takes room at the first write of each part, which is slower once",
        source=_MAYASTOR,
        ops=WRITES,
        strong=False,
    ),
    Effect(
        pattern="storage_classes.*.layout",
        cause="layout",
        label="dataset or zvol",
        mechanism="a zvol has another file system on top of ZFS, with blocks of a fixed size",
        source=_ZFS,
    ),
    Effect(
        pattern="storage_classes.*.record_size",
        cause="record size",
        label="record size",
        mechanism="a write of less than a record reads it first and writes it whole; larger "
        "records stream faster",
        source=_ZFS,
    ),
    Effect(
        pattern="storage_classes.*.block_size",
        cause="record size",
        label="block size of the zvol",
        mechanism="a write of less than a block reads it first and writes it whole",
        source=_ZFS,
    ),
    Effect(
        pattern="storage_classes.*.compression",
        cause="compression",
        label="compression",
        mechanism="it costs processor time and saves writing where buffers can be compressed",
        source=_ZFS,
    ),
    Effect(
        pattern="storage_classes.*.dedup",
        cause="dedup",
        label="deduplication",
        mechanism="each write looks its checksum up in a table that should be in memory",
        source=_ZFS,
        ops=WRITES,
    ),
    Effect(
        pattern="storage_classes.*.fs_type",
        cause="filesystem",
        label="filesystem",
        mechanism="its journal and its layout stand before every I/O of a volume that is no raw "
        "block",
        source="the StorageClasses",
    ),
    Effect(
        pattern="storage_classes.*.mount_options",
        cause="filesystem",
        label="mount options",
        mechanism="they change how a filesystem journals and flushes",
        source="mount(8)",
    ),
    Effect(
        pattern="storage_classes.*.disk_selector",
        cause="media",
        label="disk selector",
        mechanism="the volumes lie on other disks",
        source=_LONGHORN,
    ),
    # What does the work.
    Effect(
        pattern="mayastor.cores",
        cause="cores",
        label="cores of io-engine",
        mechanism="io-engine polls its cores and does all I/O of a node on them: with few of them, "
        "they are the limit where many I/Os are in flight",
        source=_MAYASTOR,
        deep=True,
    ),
    Effect(
        pattern="mayastor.cpu",
        cause="cores",
        label="processors of io-engine",
        mechanism="a core that it polls and may not use in full is a limit",
        source=_MAYASTOR,
        deep=True,
    ),
    Effect(
        pattern="mayastor.*",
        cause="disks",
        label="disks of Mayastor",
        mechanism="more disks and nodes share the load; one I/O at a time gains nothing",
        source=_MAYASTOR,
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="longhorn.guaranteed-*",
        cause="cores",
        label="processors of Longhorn",
        mechanism="it is what instance managers can count on beside other pods",
        source=_LONGHORN,
        deep=True,
    ),
    Effect(
        pattern="longhorn.storage-network*",
        cause="network",
        label="storage network",
        mechanism="replicas talk over a network of their own",
        source=_LONGHORN,
    ),
    Effect(
        pattern="*.resources.osd",
        cause="osd resources",
        label="resources of OSDs",
        mechanism="an OSD needs processor time for each I/O, and its memory is its cache: a limit "
        "of either shows under load",
        source=_ROOK,
        deep=True,
    ),
    Effect(
        pattern="odf.resource_profile",
        cause="osd resources",
        label="resource profile",
        mechanism="it sets processors and memory of OSDs and MDS",
        source=_ODF,
        deep=True,
    ),
    Effect(
        pattern="*.device_sets",
        cause="media",
        label="device sets",
        mechanism="they say how many disks there are, and of which kind",
        source=_ROOK,
    ),
    Effect(
        pattern="rook.network",
        cause="network",
        label="network of Ceph",
        mechanism="the host's network spares the way through the pods' overlay, which costs "
        "processor time and some latency for each message",
        source=_ROOK,
    ),
    Effect(
        pattern="odf.host_network",
        cause="network",
        label="network of Ceph",
        mechanism="the host's network spares the way through the pods' overlay",
        source=_ODF,
    ),
    Effect(
        pattern="rook.wire_compression",
        cause="wire compression",
        label="compression on the wire",
        mechanism="it costs processor time and saves network where buffers can be compressed",
        source=_ROOK,
    ),
    Effect(
        pattern="odf.encryption",
        cause="at rest",
        label="encryption at rest",
        mechanism="it costs processor time per byte on the nodes that have OSDs",
        source=_ODF,
    ),
    Effect(
        pattern="encryption.disk_pools",
        cause="at rest",
        label="encryption of disk pools",
        mechanism="it costs io-engine's cores time for each byte",
        source=_MAYASTOR,
    ),
    # Software and machines.
    Effect(
        pattern="kubernetes.kernel",
        cause="kernel",
        label="kernel of nodes",
        mechanism="krbd, CephFS, NVMe and the network are parts of it, and its mitigations cost "
        "time for every system call",
        source="release notes",
    ),
    Effect(
        pattern="kubernetes.hugepages",
        cause="cores",
        label="huge pages",
        mechanism="SPDK keeps its buffers in them, and starts only with enough",
        source=_MAYASTOR,
        strong=False,
    ),
    Effect(
        pattern="kubernetes.nodes",
        cause="osds",
        label="number of nodes",
        mechanism="more nodes bring processors and network; one I/O at a time gains nothing",
        source="io-paths: CPU per I/O",
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="kubernetes.instance_type",
        cause="client",
        label="type of nodes",
        mechanism="clouds bound the disk and network throughput of a machine by its type",
        source="vendors' data sheets",
    ),
    Effect(
        pattern="kubernetes.cpu",
        cause="client",
        label="processors of a node",
        mechanism="storage daemons, drivers and the load share them",
        source="io-paths: CPU per I/O",
        deep=True,
    ),
    Effect(
        pattern="kubernetes.memory",
        cause="client",
        label="memory of a node",
        mechanism="it decides what caches may hold",
        source="methodology: cache-served-reads",
        strong=False,
    ),
    Effect(
        pattern="kubernetes.architecture",
        cause="client",
        label="architecture of nodes",
        mechanism="it is another processor",
        source="the nodes",
    ),
    Effect(
        pattern="drivers.*",
        cause="release",
        label="release of a driver",
        mechanism="releases differ in defaults and in the client that they bring",
        source="release notes",
        strong=False,
    ),
    Effect(
        pattern="odf.version",
        cause="release",
        label="release of OpenShift Data Foundation",
        mechanism="it brings another release of Ceph, of Rook and of the driver",
        source="release notes",
    ),
    Effect(
        pattern="longhorn.version",
        cause="release",
        label="release of Longhorn",
        mechanism="its data path is part of the release",
        source="release notes",
    ),
)


# What differences of layers below a target can do: rows of the table of effects. Those of ZFS are
# made of the tables of properties and parameters that the inventory has.

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
    for one in dataset_properties():
        yield Effect(
            pattern=f"datasets.*.{one.name}",
            cause=one.label,
            label=one.label,
            mechanism=one.does,
            source=_ZFSPROPS,
            ops=_OPS[one.bearing],
            strong=not one.weak,
        )
    yield from (_of_parameter(one) for one in zfs_parameters())


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


__all__ = ["EFFECTS", "LABELS", "NAMED_BY_PATH", "REDUNDANCY", "ZONES", "Effect", "effects_of"]

# Labels under which the rest of the path says what it is.
NAMED_BY_PATH = ("settings", "workload", "label")
_BLUESTORE = "io-paths: BlueStore, CPU per I/O"
_PUBLISHED_CRYPT = "published measurements of Reef, 2023"

EFFECTS: tuple[Effect, ...] = (
    # Where the copies lie.
    Effect(
        pattern="network.inter_zone_rtt",
        cause=ZONES,
        label="round trip between zones",
        mechanism="a write waits for copies in other zones, a read for a primary that is in one",
        source="io-paths: message counts",
    ),
    Effect(
        pattern="pools.*.failure_domain",
        cause=ZONES,
        label="failure domain",
        mechanism="a write is answered when the farthest copy has it, a read comes from the "
        "primary: the farther apart copies lie, the longer both take",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern="topology.crush_levels",
        cause=ZONES,
        label="CRUSH levels",
        mechanism="they say how far apart copies can lie",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern=CPU_BUDGET,
        cause="processor quota",
        label="processor of each host",
        mechanism="an OSD that has used its quota up stands still until the next period: fewer "
        "I/Os in a second, and latencies that are the quota's",
        source="Documentation/scheduler/sched-bwc.rst; docs/rules/throttled-system.md",
    ),
    # How many copies.
    Effect(
        pattern="pools.*.redundancy",
        cause=REDUNDANCY,
        label="redundancy",
        mechanism="a write is answered when all copies or shards have it, and each is work for "
        "another OSD; part of a stripe of erasure code is read before it is written",
        source="src/osd/ReplicatedBackend.cc, src/osd/ECTransaction.cc",
        ops=WRITES,
    ),
    Effect(
        pattern="pools.*.redundancy",
        cause=REDUNDANCY,
        label="redundancy",
        mechanism="a read of erasure code is put together from k shards by the primary",
        source="src/osd/ECBackend.cc",
        ops=READS,
        mentions="EC ",
    ),
    # Placement groups.
    Effect(
        pattern="pools.*.pg_num",
        cause="pgs",
        label="PG count",
        mechanism="more placement groups spread I/Os more evenly over OSDs and let more of them go "
        "on at once; one I/O at a time gains nothing",
        source="io-paths: the PG lock, one queue per PG",
        deep=True,
    ),
    Effect(
        pattern="placement.pgs_per_osd",
        cause="pgs",
        label="PGs per OSD",
        mechanism="few of them spread the load unevenly, many cost memory and processor time",
        source="io-paths: PG autoscaler",
        deep=True,
    ),
    Effect(
        pattern="pools.*.pg_state",
        cause="repair",
        label="splitting or merging of PGs",
        mechanism="data moves meanwhile, beside clients' I/O",
        source="Ceph documentation, placement groups",
    ),
    Effect(
        pattern="placement.balancer",
        cause="balancer",
        label="balancer",
        mechanism="it evens out how many placement groups OSDs have, hence how busy they get",
        source="Ceph documentation, balancer",
        deep=True,
        strong=False,
    ),
    Effect(
        pattern="placement.primary_affinity",
        cause="affinity",
        label="primary affinity",
        mechanism="it decides which OSDs lead, hence how far clients' I/O goes and who is busy",
        source="Ceph documentation, primary affinity",
    ),
    Effect(
        pattern="pools.others",
        cause="others",
        label="other pools",
        mechanism="pools share OSDs; one that is not used costs nothing but placement groups",
        source="io-paths: PG autoscaler",
        strong=False,
    ),
    # What does the work.
    Effect(
        pattern="topology.osds",
        cause="osds",
        label="number of OSDs",
        mechanism="more OSDs share the load; one I/O at a time gains nothing",
        source="io-paths: threads and locks of an OSD",
        deep=True,
    ),
    Effect(
        pattern="topology.hosts",
        cause="osds",
        label="number of hosts",
        mechanism="more hosts bring processors and network; one I/O at a time gains nothing",
        source="io-paths: CPU per I/O",
        deep=True,
    ),
    Effect(
        pattern="media.osd_size",
        cause="size",
        label="size of OSDs",
        mechanism="disks of another size are other disks; larger ones of a model are often faster",
        source="vendors' data sheets",
        strong=False,
    ),
    Effect(
        pattern="media.*",
        cause="media",
        label="medium",
        mechanism="every write is committed to it, and a read that no cache has comes from it",
        source=_BLUESTORE,
    ),
    Effect(
        pattern="pools.*.device_class",
        cause="media",
        label="device class",
        mechanism="the pool lies on other media",
        source=_BLUESTORE,
    ),
    Effect(
        pattern="targets.*.device",
        cause="media",
        label="device",
        mechanism="it is what serves the I/O",
        source="the target's own path",
    ),
    Effect(
        pattern="targets.*.filesystem",
        cause="filesystem",
        label="filesystem",
        mechanism="its journal and its layout stand before every I/O",
        source="the target's own path",
    ),
    Effect(
        pattern="targets.*.mount_options",
        cause="filesystem",
        label="mount options",
        mechanism="they change how a filesystem journals and flushes",
        source="mount(8)",
    ),
    # Encryption.
    Effect(
        pattern="encryption.wire*",
        cause="wire",
        label="encryption on the wire",
        mechanism="it costs processor time per byte: published for 4k reads about 0, for 4k writes "
        "2 to 5 % and for large I/O 13 to 26 %",
        source=_PUBLISHED_CRYPT,
    ),
    Effect(
        pattern="encryption.at_rest",
        cause="at rest",
        label="encryption at rest",
        mechanism="it costs processor time per byte: published for 4k reads about 10 %, for 4k "
        "writes 17 % and for 4 MiB writes 45 %",
        source=_PUBLISHED_CRYPT,
    ),
    # Software, services, state.
    Effect(
        pattern="software.ceph",
        cause="release",
        label="Ceph release",
        mechanism="releases differ in scheduling, in erasure coding and in BlueStore; which of it "
        "shows cannot be told from one comparison",
        source="release notes",
    ),
    Effect(
        pattern="services.mds",
        cause="mds",
        label="MDS",
        mechanism="data does not pass it; opening, growing a file and its attributes do",
        source="Ceph documentation, CephFS capabilities",
        ops=WRITES,
        cephfs=True,
    ),
    Effect(
        pattern="pools.*.compression",
        cause="compression",
        label="compression",
        mechanism="it costs processor time and saves writing where buffers can be compressed",
        source="Ceph documentation, BlueStore",
    ),
    Effect(
        pattern="capacity.used",
        cause="fill",
        label="capacity used",
        mechanism="a fuller cluster has more metadata than its caches hold, and less free space in "
        "one piece",
        source=_BLUESTORE,
        strong=False,
    ),
    Effect(
        pattern="health.activity",
        cause="repair",
        label="what the cluster did besides",
        mechanism="recovery, backfill and scrubs take part of the disks' time",
        source="Ceph documentation, mClock",
    ),
    Effect(
        pattern="health.osds",
        cause="osds",
        label="OSDs down or out",
        mechanism="fewer OSDs serve, and copies that are missing are not waited for",
        source="src/osd/ReplicatedBackend.cc",
    ),
    Effect(
        pattern="health.flags",
        cause="flags",
        label="flags",
        mechanism="they hold back what a cluster does by itself beside clients' I/O",
        source="Ceph documentation, flags",
        strong=False,
    ),
    Effect(
        pattern="settings.*",
        cause="settings",
        label="settings",
        mechanism="a setting that is not the same may change how daemons queue, cache or schedule",
        source="Ceph documentation, configuration reference",
    ),
    # The load.
    Effect(
        pattern="client.memory",
        cause="client",
        label="memory of the load generator",
        mechanism="it decides what a page cache may hold where I/O is not direct",
        source="methodology: cache-served-reads",
        strong=False,
    ),
    Effect(
        pattern="client.operating_system",
        cause="client",
        label="operating system",
        mechanism="the load generator runs other software",
        source="methodology: unlike with unlike",
        strong=False,
    ),
    Effect(
        pattern="client.*",
        cause="client",
        label="load generator",
        mechanism="the machine that makes the load is part of every latency, and can be its limit",
        source="methodology: client-saturated",
    ),
    Effect(
        pattern="engine.version",
        cause="client",
        label="version of the engine",
        mechanism="another version may submit I/O and count it otherwise",
        source="methodology: unlike with unlike",
        strong=False,
    ),
    Effect(
        pattern="workloads.*",
        cause="workload",
        label="workload",
        mechanism="it is not quite the same work",
        source="methodology: unlike with unlike",
    ),
    Effect(
        pattern="plan.prefill",
        cause="prefill",
        label="prefill",
        mechanism="what was never written is read from nothing, and first written more slowly",
        source="methodology: unwritten-reads",
    ),
    Effect(
        pattern="plan.drop_caches",
        cause="caches",
        label="dropping of caches",
        mechanism="reads may come from a cache on one side",
        source="methodology: cache-served-reads",
        ops=READS,
    ),
    Effect(
        pattern="targets.*.url",
        cause="read policy",
        label="read policy",
        mechanism="it decides which copy a client reads, hence how far it goes",
        source="Ceph documentation, rbd_read_from_replica_policy",
        ops=READS,
        mentions="read_policy=",
    ),
    Effect(
        pattern="targets.*.url",
        cause="features",
        label="features of the image",
        mechanism="an exclusive lock is taken before the first write, and an object map is written "
        "for each object that comes to be",
        source="Ceph documentation, RBD image features",
        ops=WRITES,
        mentions="features=",
        strong=False,
    ),
    Effect(
        pattern="targets.*.kind",
        cause="kind",
        label="kind of storage",
        mechanism="block devices, file systems and objects are reached through clients of their "
        "own, with other locks, caches and queues",
        source="io-paths: CephFS",
    ),
    *KUBERNETES_EFFECTS,
    *LAYER_EFFECTS,
    Effect(
        pattern="targets.*.labels.*",
        cause=LABELS,
        label="label",
        mechanism="the plan says that the targets differ in it",
        source="the plan",
    ),
)


def effects_of(difference: Difference) -> tuple[Effect, ...]:
    """All that a difference can do: the matches of the first pattern, so that a general one stands
    behind the special ones. What one side does not tell may be the same: it does nothing."""
    if NOT_MEASURED in (difference.baseline, difference.candidate):
        return ()
    found: list[Effect] = []
    for effect in EFFECTS:
        if effect.matches(difference) and not any(one.pattern != effect.pattern for one in found):
            found.append(effect)
    return tuple(found)
