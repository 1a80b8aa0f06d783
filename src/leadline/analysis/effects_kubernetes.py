"""What differences of Kubernetes clusters and of StorageClasses can do: rows of the table of
effects."""

from __future__ import annotations

from leadline.analysis.effect import READS, REDUNDANCY, WRITES, ZONES, Effect

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
