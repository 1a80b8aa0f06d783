"""What runs to make volumes and virtual machines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from leadline.inventory.kubernetes.kinds import ObjectKind
from leadline.inventory.kubernetes.models import (
    CephBlockPool,
    CephCluster,
    CephFilesystem,
    CsiDriver,
    DataPool,
    DeviceSet,
    DiskPool,
    IoEngine,
    Longhorn,
    LonghornSetting,
    Network,
    Node,
    Operator,
    Place,
    PoolSpec,
    Resources,
    StorageCluster,
    Workload,
    ZfsPool,
)
from leadline.inventory.kubernetes.objects import Objects, Part


def read_workload(kind: Literal["DaemonSet", "Deployment"]) -> Callable[[Part], Workload]:
    def read(item: Part) -> Workload:
        containers = item.at("spec", "template", "spec", "containers")
        status = item.at("status")
        daemons = kind == "DaemonSet"
        wanted = status.at("desiredNumberScheduled") if daemons else item.at("spec", "replicas")
        ready = status.at("numberReady" if daemons else "readyReplicas")
        return Workload(
            kind=kind,
            namespace=item.at("metadata", "namespace").word,
            name=item.at("metadata", "name").word,
            images=tuple(
                dict.fromkeys(
                    image for one in containers.elements() if (image := one.at("image").word)
                )
            ),
            ready=ready.integer,
            wanted=wanted.integer,
        )

    return read


def read_kubevirt(item: Part) -> Operator:
    settings = item.at("spec", "configuration", "developerConfiguration")
    return Operator(
        version=item.at("status", "observedKubeVirtVersion").word,
        phase=item.at("status", "phase").word,
        gates=tuple(sorted(settings.at("featureGates").texts())),
    )


def read_cdi(item: Part) -> Operator:
    return Operator(
        version=item.at("status", "observedVersion").word,
        phase=item.at("status", "phase").word,
        gates=tuple(sorted(item.at("spec", "config", "featureGates").texts())),
    )


# Nodes, and the CSI drivers on them.

_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ROLE = "node-role.kubernetes.io/"

# Node -> names of its drivers; None where CSINodes were not seen.
DriverNodes = Mapping[str, tuple[str, ...]] | None


def driver_nodes(objects: Objects) -> DriverNodes:
    """Which drivers each node has."""
    if ObjectKind.CSI_NODE not in objects.by_kind:
        return None

    def pair(item: Part) -> tuple[str, tuple[str, ...]]:
        drivers = (one.at("name").word for one in item.at("spec", "drivers").elements())
        return item.at("metadata", "name").word, tuple(sorted(drivers))

    return dict(objects.read(ObjectKind.CSI_NODE, pair))


def node_reader(drivers: DriverNodes) -> Callable[[Part], Node]:
    """Reads a Node, with the drivers that its CSINode names."""

    def read(item: Part) -> Node:
        labels = {key: value.word for key, value in item.at("metadata", "labels").members()}
        about, status = item.at("status", "nodeInfo"), item.at("status")
        capacity, allocatable = status.at("capacity"), status.at("allocatable")
        name = item.at("metadata", "name").word
        pages = [
            size
            for key, value in capacity.members()
            if key.startswith("hugepages-") and (size := value.size_bytes)
        ]
        return Node(
            name=name,
            ready=_ready(status),
            schedulable=not item.at("spec", "unschedulable").on,
            roles=tuple(sorted(key[len(_ROLE) :] for key in labels if key.startswith(_ROLE))),
            zone=_first(labels, _ZONE),
            region=_first(labels, _REGION),
            places=tuple(
                Place(label=key, value=value)
                for key, value in sorted(labels.items())
                if key.startswith("topology.") and key not in (*_ZONE, *_REGION)
            ),
            instance_type=_first(labels, _TYPE),
            architecture=about.at("architecture").word,
            kernel=about.at("kernelVersion").word,
            os_image=about.at("osImage").word,
            kubelet=about.at("kubeletVersion").word,
            runtime=about.at("containerRuntimeVersion").word,
            cpu=capacity.at("cpu").quantity,
            cpu_allocatable=allocatable.at("cpu").quantity,
            memory_bytes=capacity.at("memory").size_bytes,
            memory_allocatable_bytes=allocatable.at("memory").size_bytes,
            hugepages_bytes=sum(pages) if capacity.there else None,
            taints=tuple(_taint(one) for one in item.at("spec", "taints").elements()),
            csi_drivers=None if drivers is None else drivers.get(name, ()),
        )

    return read


def _ready(status: Part) -> bool | None:
    for one in status.at("conditions").elements():
        if one.at("type").text == "Ready":
            return one.at("status").text == "True" or one.at("status").on
    return None


def _taint(part: Part) -> str:
    """`KEY=VALUE:EFFECT`, as kubectl writes it."""
    key, value, effect = (part.at(name).word for name in ("key", "value", "effect"))
    return f"{key}{'=' if value else ''}{value}:{effect}"


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def read_csi_driver(drivers: DriverNodes) -> Callable[[Part], CsiDriver]:
    """Reads a CSIDriver, with the number of nodes that have it."""

    def read(item: Part) -> CsiDriver:
        name, spec = item.at("metadata", "name").word, item.at("spec")
        required = spec.at("attachRequired").flag
        return CsiDriver(
            name=name,
            attach_required=True if required is None else required,
            storage_capacity=spec.at("storageCapacity").on,
            fs_group_policy=spec.at("fsGroupPolicy").word,
            modes=spec.at("volumeLifecycleModes").texts(),
            nodes=None if drivers is None else sum(name in of for of in drivers.values()),
        )

    return read


# Rook's custom resources, and OpenShift Data Foundation's.


def read_ceph_cluster(item: Part) -> CephCluster:
    metadata, spec, status = item.at("metadata"), item.at("spec"), item.at("status")
    affinity = spec.at("csi", "readAffinity")
    sets = tuple(_rook_set(one) for one in spec.at("storage", "storageClassDeviceSets").elements())
    return CephCluster(
        namespace=metadata.at("namespace").word,
        name=metadata.at("name").word,
        external=spec.at("external", "enable").on,
        image=spec.at("cephVersion", "image").word,
        version=status.at("version", "version").word,
        fsid=status.at("ceph", "fsid").word,
        health=status.at("ceph", "health").word,
        phase=status.at("phase").word,
        monitors=spec.at("mon", "count").integer,
        zones=tuple(
            one.at("name").word for one in spec.at("mon", "stretchCluster", "zones").elements()
        ),
        network=read_network(spec.at("network")),
        device_sets=sets,
        device_classes=tuple(
            one.at("name").word for one in status.at("storage", "deviceClasses").elements()
        ),
        encrypted=_encrypted(spec, sets),
        kms=spec.at("security", "kms", "connectionDetails", "KMS_PROVIDER").word,
        resources=tuple(_resources(spec.at("resources"))),
        read_affinity=affinity.at("enabled").on if affinity.there else None,
        read_affinity_labels=affinity.at("crushLocationLabels").texts(),
        kernel_mount_options=spec.at("csi", "cephfs", "kernelMountOptions").word,
        fuse_mount_options=spec.at("csi", "cephfs", "fuseMountOptions").word,
    )


def _encrypted(spec: Part, sets: tuple[DeviceSet, ...]) -> bool | None:
    """Whether all OSDs are made on dm-crypt, as far as the cluster's resource says."""
    told = [one.encrypted for one in sets if one.encrypted is not None]
    config = spec.at("storage", "config", "encryptedDevice").flag
    told += [config] if config is not None else []
    return all(told) if told else None


def _rook_set(part: Part) -> DeviceSet:
    templates = list(part.at("volumeClaimTemplates").elements())
    claim = next(
        (one for one in templates if one.at("metadata", "name").text == "data"),
        templates[0] if templates else Part(f"{part.path}.volumeClaimTemplates", None),
    )
    notes = claim.at("metadata", "annotations")
    return _device_set(part, claim.at("spec"), notes.at("crushDeviceClass").word)


def _device_set(part: Part, claim: Part, device_class: str) -> DeviceSet:
    return DeviceSet(
        name=part.at("name").word,
        count=part.at("count").integer or 0,
        replica=part.at("replica").integer,
        size_bytes=claim.at("resources", "requests", "storage").size_bytes,
        storage_class=claim.at("storageClassName").word,
        portable=part.at("portable").on,
        encrypted=part.at("encrypted").flag,
        device_class=device_class,
        osd=_of_daemon("osd", part.at("resources")) if part.at("resources").value else None,
    )


def read_network(part: Part) -> Network:
    """The network of a CephCluster, and of a StorageCluster, which hands it on."""
    selectors = {key: one.word for key, one in part.at("selectors").members()}
    connections = part.at("connections")
    provider = part.at("provider").word
    return Network(
        provider=provider or ("host" if part.at("hostNetwork").on else ""),
        selectors=tuple(f"{key} {selectors[key]}" for key in sorted(selectors)),
        encrypted=connections.at("encryption", "enabled").flag,
        compressed=connections.at("compression", "enabled").flag,
        require_msgr2=connections.at("requireMsgr2").flag,
    )


def _resources(part: Part) -> Iterator[Resources]:
    for daemon, given in part.members():
        yield _of_daemon(daemon, given)


def _of_daemon(daemon: str, given: Part) -> Resources:
    return Resources(
        daemon=daemon,
        cpu_request=given.at("requests", "cpu").quantity,
        cpu_limit=given.at("limits", "cpu").quantity,
        memory_request_bytes=given.at("requests", "memory").size_bytes,
        memory_limit_bytes=given.at("limits", "memory").size_bytes,
    )


def read_block_pool(item: Part) -> CephBlockPool:
    metadata = item.at("metadata")
    return CephBlockPool(
        namespace=metadata.at("namespace").word,
        # `spec.name` is for the pools of managers, whose names no object may have.
        name=item.at("spec", "name").word or metadata.at("name").word,
        phase=item.at("status", "phase").word,
        mirrored=item.at("spec", "mirroring", "enabled").on,
        spec=_pool(item.at("spec")),
    )


def _pool(part: Part) -> PoolSpec:
    replicated, erasure = part.at("replicated"), part.at("erasureCoded")
    size, chunks = replicated.at("size").integer, erasure.at("dataChunks").integer
    ratio = replicated.at("targetSizeRatio").quantity
    options = part.at("parameters")
    return PoolSpec(
        # Rook writes the form that a pool has not as zeros.
        size=size or None,
        data_chunks=chunks or None,
        coding_chunks=erasure.at("codingChunks").integer if chunks else None,
        per_domain=replicated.at("replicasPerFailureDomain").integer or None,
        failure_domain=part.at("failureDomain").text or "host",
        sub_failure_domain=replicated.at("subFailureDomain").word,
        device_class=part.at("deviceClass").word,
        crush_root=part.at("crushRoot").word,
        compression=options.at("compression_mode").text or part.at("compressionMode").word,
        target_size_ratio=ratio or options.at("target_size_ratio").quantity,
    )


def read_filesystem(item: Part) -> CephFilesystem:
    metadata, spec = item.at("metadata"), item.at("spec")
    name = metadata.at("name").word
    server = spec.at("metadataServer")
    pools = [
        DataPool(name=_data_pool_name(name, number, part), spec=_pool(part))
        for number, part in enumerate(spec.at("dataPools").elements())
    ]
    given = server.at("resources")
    return CephFilesystem(
        namespace=metadata.at("namespace").word,
        name=name,
        phase=item.at("status", "phase").word,
        active_mds=server.at("activeCount").integer,
        active_standby=server.at("activeStandby").on,
        metadata_pool=_pool(spec.at("metadataPool")),
        data_pools=tuple(pools),
        mds_resources=_of_daemon("mds", given) if given.value else None,
    )


def _data_pool_name(filesystem: str, number: int, part: Part) -> str:
    """Rook puts the filesystem's name before a pool's, and counts those without one."""
    return f"{filesystem}-{part.at('name').text or f'data{number}'}"


def read_storage_cluster(item: Part) -> StorageCluster:
    metadata, spec, status = item.at("metadata"), item.at("spec"), item.at("status")
    key, values = status.at("failureDomainKey").word, status.at("failureDomainValues").texts()
    encryption = spec.at("encryption")
    return StorageCluster(
        namespace=metadata.at("namespace").word,
        name=metadata.at("name").word,
        version=status.at("version").text or spec.at("version").word,
        phase=status.at("phase").word,
        external=spec.at("externalStorage", "enable").on,
        failure_domain=status.at("failureDomain").word,
        failure_domain_key=key,
        failure_domain_values=tuple(sorted(values or _topology(status, key))),
        arbiter=spec.at("arbiter", "enable").on,
        flexible_scaling=spec.at("flexibleScaling").on,
        resource_profile=spec.at("resourceProfile").word,
        resources=tuple(_resources(spec.at("resources"))),
        device_sets=tuple(
            _device_set(one, one.at("dataPVCTemplate", "spec"), one.at("deviceClass").word)
            for one in spec.at("storageDeviceSets").elements()
        ),
        encrypted=encryption.at("enable").on or encryption.at("clusterWide").on,
        kms=encryption.at("kms", "enable").on,
        network=read_network(spec.at("network")),
        host_network=spec.at("hostNetwork").on,
    )


def _topology(status: Part, key: str) -> tuple[str, ...]:
    """The values of the failure domain's label, as older releases tell them."""
    return status.at("nodeTopologies", "labels", key).texts() if key else ()


# OpenEBS Mayastor, ZFS LocalPV and Longhorn.

# The settings that bear on I/O.
_LONGHORN_SETTINGS = re.compile(
    r"default-replica-count|default-data-locality|default-data-engine|v[12]-data-engine"
    r"|(v2-)?data-engine-.*|v2-data-engine-.*|guaranteed-.*cpu|storage-network.*"
    r"|replica-.*anti-affinity|replica-auto-balance|storage-over-provisioning-percentage"
    r"|fast-replica-rebuild-enabled|instance-manager-.*|engine-replica-timeout"
)
_LONGHORN_VERSION = "current-longhorn-version"


def read_io_engine(item: Part) -> IoEngine | None:
    """The DaemonSet of Mayastor's data path; None of any other."""
    for container in item.at("spec", "template", "spec", "containers").elements():
        if container.at("name").text != "io-engine":
            continue
        resources = container.at("resources")
        limits = dict(resources.at("limits").members())
        pages = [one.size_bytes or 0 for key, one in limits.items() if key.startswith("hugepages-")]
        return IoEngine(
            namespace=item.at("metadata", "namespace").word,
            image=container.at("image").word,
            cores=polled_cores(container.at("args").texts()),
            cpu_request=resources.at("requests", "cpu").quantity,
            cpu_limit=resources.at("limits", "cpu").quantity,
            hugepages_bytes=sum(pages) if pages else None,
            ready=item.at("status", "numberReady").integer,
            wanted=item.at("status", "desiredNumberScheduled").integer,
        )
    return None


def polled_cores(arguments: Iterable[str]) -> tuple[int, ...]:
    """The cores of `-l1,2`, `-l 1-3` or `-m 0x6`; none where the arguments do not say."""
    words = [word for one in arguments for word in one.split()]
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        for flag, read in _CORE_FLAGS:
            if word == flag:
                return read(following)
            if word.startswith(flag):
                return read(word[len(flag) :].lstrip("="))
    return ()


def _listed(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.strip("[]()").split(","):
        low, _, high = part.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            return ()
        first, last = int(low), int(high or low)
        if last - first > 4096:
            return ()
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _masked(text: str) -> tuple[int, ...]:
    try:
        mask = int(text[:64], 16)
    except ValueError:
        return ()
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


_CORE_FLAGS = (
    ("--core-list", _listed),
    ("--reactor-mask", _masked),
    ("-l", _listed),
    ("-m", _masked),
)


def read_disk_pool(item: Part) -> DiskPool:
    spec, status = item.at("spec"), item.at("status")
    return DiskPool(
        name=item.at("metadata", "name").word,
        node=spec.at("node").word,
        disks=spec.at("disks").texts(),
        capacity_bytes=status.at("capacity").size_bytes,
        used_bytes=status.at("used").size_bytes,
        status=status.at("pool_status").text or status.at("cr_state").word,
        encrypted=status.at("encrypted").on or spec.at("encryptionConfig").there,
    )


def read_zfs_node(item: Part) -> tuple[ZfsPool, ...]:
    """The pools of one node, the name of which is the object's."""
    return tuple(
        ZfsPool(
            node=item.at("metadata", "name").word,
            name=one.at("name").word,
            free_bytes=one.at("free").size_bytes,
        )
        for one in item.at("pools").elements()
    )


def read_longhorn(objects: Objects) -> Longhorn | None:
    """None where there are neither settings nor nodes of Longhorn's."""
    if not {ObjectKind.LONGHORN_SETTING, ObjectKind.LONGHORN_NODE} & objects.by_kind.keys():
        return None

    def setting(item: Part) -> tuple[str, str]:
        return item.at("metadata", "name").word, item.at("value").word

    def disks(item: Part) -> tuple[str, ...]:
        return tuple(
            one.at("diskType").text or "filesystem" for _, one in item.at("spec", "disks").members()
        )

    settings = dict(objects.read(ObjectKind.LONGHORN_SETTING, setting))
    nodes = objects.read(ObjectKind.LONGHORN_NODE, disks)
    return Longhorn(
        version=settings.get(_LONGHORN_VERSION, ""),
        nodes=len(nodes),
        disks=sum(len(one) for one in nodes),
        kinds=tuple(sorted({kind for one in nodes for kind in one})),
        settings=tuple(
            LonghornSetting(name=name, value=settings[name])
            for name in sorted(settings)
            if _LONGHORN_SETTINGS.fullmatch(name)
        ),
    )
