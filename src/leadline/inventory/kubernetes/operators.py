"""Read nodes and the resources of storage operators: Rook, ODF, Mayastor, ZFS, Longhorn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
from leadline.inventory.kubernetes.objects import Objects, Part, build


def read_workload(kind: Literal["DaemonSet", "Deployment"]) -> Callable[[Part], Workload]:
    def read(item: Part) -> Workload:
        containers = item.at("spec", "template", "spec", "containers").elements()
        images = [container.at("image").word for container in containers]
        status = item.at("status")
        daemons = kind == "DaemonSet"
        wanted = status.at("desiredNumberScheduled") if daemons else item.at("spec", "replicas")
        return build(
            Workload,
            item,
            kind=kind,
            images=tuple(dict.fromkeys(filter(None, images))),
            ready=status.at("numberReady" if daemons else "readyReplicas").integer,
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

# Node -> names of its drivers; None: CSINodes are unknown.
DriverNodes = Mapping[str, tuple[str, ...]] | None


def driver_nodes(objects: Objects) -> DriverNodes:
    """Return the drivers of each node."""
    if ObjectKind.CSI_NODE not in objects.by_kind:
        return None

    def pair(item: Part) -> tuple[str, tuple[str, ...]]:
        drivers = (driver.at("name").word for driver in item.at("spec", "drivers").elements())
        return item.at("metadata", "name").word, tuple(sorted(drivers))

    return dict(objects.read(ObjectKind.CSI_NODE, pair))


def node_reader(drivers: DriverNodes) -> Callable[[Part], Node]:
    """Return a reader of Nodes, with the drivers of their CSINodes."""

    def read(item: Part) -> Node:
        labels = {key: value.word for key, value in item.at("metadata", "labels").members()}
        status = item.at("status")
        capacity = status.at("capacity")
        pages = [
            size
            for key, value in capacity.members()
            if key.startswith("hugepages-") and (size := value.size_bytes)
        ]
        name = item.at("metadata", "name").word
        return build(
            Node,
            item,
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
            hugepages_bytes=sum(pages) if capacity.there else None,
            taints=tuple(_format_taint(taint) for taint in item.at("spec", "taints").elements()),
            csi_drivers=None if drivers is None else drivers.get(name, ()),
        )

    return read


def _ready(status: Part) -> bool | None:
    """Return the condition Ready. `Unknown`: the node's kubelet does not report."""
    for condition in status.at("conditions").elements():
        if condition.at("type").text == "Ready":
            return {"true": True, "false": False}.get(condition.at("status").word.lower())
    return None


def _format_taint(part: Part) -> str:
    """Return `KEY=VALUE:EFFECT`, as kubectl writes it."""
    key, value, effect = (part.at(name).word for name in ("key", "value", "effect"))
    return f"{key}{'=' if value else ''}{value}:{effect}"


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if name in labels), "")


def read_csi_driver(drivers: DriverNodes) -> Callable[[Part], CsiDriver]:
    """Return a reader of CSIDrivers, with the number of their nodes."""

    def read(item: Part) -> CsiDriver:
        name = item.at("metadata", "name").word
        required = item.at("spec", "attachRequired").flag
        return build(
            CsiDriver,
            item,
            attach_required=True if required is None else required,
            nodes=None if drivers is None else sum(name in names for names in drivers.values()),
        )

    return read


# Custom resources of Rook and OpenShift Data Foundation.


def read_ceph_cluster(item: Part) -> CephCluster:
    spec = item.at("spec")
    affinity = spec.at("csi", "readAffinity")
    sets = tuple(map(_rook_set, spec.at("storage", "storageClassDeviceSets").elements()))
    zones = spec.at("mon", "stretchCluster", "zones").elements()
    classes = item.at("status", "storage", "deviceClasses").elements()
    return build(
        CephCluster,
        item,
        zones=tuple(zone.at("name").word for zone in zones),
        network=read_network(spec.at("network")),
        device_sets=sets,
        device_classes=tuple(named.at("name").word for named in classes),
        encrypted=_encrypted(spec, sets),
        resources=_resources(spec.at("resources")),
        read_affinity=affinity.at("enabled").on if affinity.there else None,
        read_affinity_labels=affinity.at("crushLocationLabels").texts(),
    )


def _encrypted(spec: Part, sets: tuple[DeviceSet, ...]) -> bool | None:
    """Return whether the resource puts all OSDs on dm-crypt; None: unknown."""
    config = spec.at("storage", "config", "encryptedDevice").flag
    known = [flag for flag in (*(item.encrypted for item in sets), config) if flag is not None]
    return all(known) if known else None


def _rook_set(part: Part) -> DeviceSet:
    templates = list(part.at("volumeClaimTemplates").elements())
    claim = next(
        (claim for claim in templates if claim.at("metadata", "name").text == "data"),
        templates[0] if templates else Part(f"{part.path}.volumeClaimTemplates", None),
    )
    notes = claim.at("metadata", "annotations")
    return _device_set(part, claim.at("spec"), notes.at("crushDeviceClass").word)


def _device_set(part: Part, claim: Part, device_class: str) -> DeviceSet:
    resources = part.at("resources")
    return build(
        DeviceSet,
        part,
        count=part.at("count").integer or 0,
        size_bytes=claim.at("resources", "requests", "storage").size_bytes,
        storage_class=claim.at("storageClassName").word,
        device_class=device_class,
        osd=build(Resources, resources, daemon="osd") if resources.value else None,
    )


def read_network(part: Part) -> Network:
    """Read the network of a CephCluster or StorageCluster."""
    selectors = {key: value.word for key, value in part.at("selectors").members()}
    return build(
        Network,
        part,
        provider=part.at("provider").word or ("host" if part.at("hostNetwork").on else ""),
        selectors=tuple(f"{key} {selectors[key]}" for key in sorted(selectors)),
    )


def _resources(part: Part) -> tuple[Resources, ...]:
    return tuple(build(Resources, given, daemon=daemon) for daemon, given in part.members())


def read_block_pool(item: Part) -> CephBlockPool:
    # `spec.name` names pools of managers, whose names are invalid for objects.
    name = item.at("spec", "name").word or item.at("metadata", "name").word
    return build(CephBlockPool, item, name=name, spec=_pool(item.at("spec")))


def _pool(part: Part) -> PoolSpec:
    replicated, erasure = part.at("replicated"), part.at("erasureCoded")
    chunks, options = erasure.at("dataChunks").integer, part.at("parameters")
    ratio = replicated.at("targetSizeRatio").quantity
    return build(
        PoolSpec,
        part,
        # Rook writes zeros for the form that a pool does not have.
        size=replicated.at("size").integer or None,
        data_chunks=chunks or None,
        coding_chunks=erasure.at("codingChunks").integer if chunks else None,
        per_domain=replicated.at("replicasPerFailureDomain").integer or None,
        failure_domain=part.at("failureDomain").text or "host",
        compression=options.at("compression_mode").text or part.at("compressionMode").word,
        target_size_ratio=ratio or options.at("target_size_ratio").quantity,
    )


def read_filesystem(item: Part) -> CephFilesystem:
    spec, name = item.at("spec"), item.at("metadata", "name").word
    given = spec.at("metadataServer", "resources")
    return build(
        CephFilesystem,
        item,
        metadata_pool=_pool(spec.at("metadataPool")),
        data_pools=tuple(
            DataPool(name=_data_pool_name(name, number, part), spec=_pool(part))
            for number, part in enumerate(spec.at("dataPools").elements())
        ),
        mds_resources=build(Resources, given, daemon="mds") if given.value else None,
    )


def _data_pool_name(filesystem: str, number: int, part: Part) -> str:
    """Return `FILESYSTEM-POOL`; Rook numbers pools without a name."""
    return f"{filesystem}-{part.at('name').text or f'data{number}'}"


def read_storage_cluster(item: Part) -> StorageCluster:
    spec, status = item.at("spec"), item.at("status")
    key, values = status.at("failureDomainKey").word, status.at("failureDomainValues").texts()
    encryption = spec.at("encryption")
    return build(
        StorageCluster,
        item,
        version=status.at("version").text or spec.at("version").word,
        failure_domain_values=tuple(sorted(values or _topology(status, key))),
        resources=_resources(spec.at("resources")),
        device_sets=tuple(
            _device_set(item, item.at("dataPVCTemplate", "spec"), item.at("deviceClass").word)
            for item in spec.at("storageDeviceSets").elements()
        ),
        encrypted=encryption.at("enable").on or encryption.at("clusterWide").on,
        network=read_network(spec.at("network")),
    )


def _topology(status: Part, key: str) -> tuple[str, ...]:
    """Return the values of the failure domain's label, as older releases report them."""
    return status.at("nodeTopologies", "labels", key).texts() if key else ()


# OpenEBS Mayastor, ZFS LocalPV and Longhorn.

# Settings that affect I/O.
_LONGHORN_SETTINGS = re.compile(
    r"default-replica-count|default-data-locality|default-data-engine|v[12]-data-engine"
    r"|(v2-)?data-engine-.*|v2-data-engine-.*|guaranteed-.*cpu|storage-network.*"
    r"|replica-.*anti-affinity|replica-auto-balance|storage-over-provisioning-percentage"
    r"|fast-replica-rebuild-enabled|instance-manager-.*|engine-replica-timeout"
)
_LONGHORN_VERSION = "current-longhorn-version"


def read_io_engine(item: Part) -> IoEngine | None:
    """Read the DaemonSet of Mayastor's data path; None for another DaemonSet."""
    for container in item.at("spec", "template", "spec", "containers").elements():
        if container.at("name").text != "io-engine":
            continue
        resources = container.at("resources")
        limits = dict(resources.at("limits").members())
        pages = [
            size.size_bytes or 0 for key, size in limits.items() if key.startswith("hugepages-")
        ]
        return build(
            IoEngine,
            item,
            image=container.at("image").word,
            cores=polled_cores(container.at("args").texts()),
            cpu_request=resources.at("requests", "cpu").quantity,
            cpu_limit=resources.at("limits", "cpu").quantity,
            hugepages_bytes=sum(pages) if pages else None,
        )
    return None


def polled_cores(arguments: Iterable[str]) -> tuple[int, ...]:
    """Return the cores of `-l1,2`, `-l 1-3` or `-m 0x6`; empty without such an argument."""
    words = [word for argument in arguments for word in argument.split()]
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        for flag, read in _CORE_FLAGS:
            if word == flag:
                return read(following)
            if word.startswith(flag):
                return read(word[len(flag) :].lstrip("="))
    return ()


def _parse_list(text: str) -> tuple[int, ...]:
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


def _parse_mask(text: str) -> tuple[int, ...]:
    try:
        mask = int(text[:64], 16)
    except ValueError:
        return ()
    return tuple(number for number in range(mask.bit_length()) if mask >> number & 1)


_CORE_FLAGS = (
    ("--core-list", _parse_list),
    ("--reactor-mask", _parse_mask),
    ("-l", _parse_list),
    ("-m", _parse_mask),
)


def read_disk_pool(item: Part) -> DiskPool:
    status = item.at("status")
    encrypted = status.at("encrypted").on or item.at("spec", "encryptionConfig").there
    state = status.at("pool_status").text or status.at("cr_state").word
    return build(DiskPool, item, status=state, encrypted=encrypted)


def read_zfs_node(item: Part) -> tuple[ZfsPool, ...]:
    """Read the pools of a node, whose name is that of the object."""
    node = item.at("metadata", "name").word
    return tuple(build(ZfsPool, pool, node=node) for pool in item.at("pools").elements())


def read_longhorn(objects: Objects) -> Longhorn | None:
    """Read Longhorn; None without its settings and nodes."""
    if not {ObjectKind.LONGHORN_SETTING, ObjectKind.LONGHORN_NODE} & objects.by_kind.keys():
        return None

    def setting(item: Part) -> tuple[str, str]:
        return item.at("metadata", "name").word, item.at("value").word

    def disks(item: Part) -> tuple[str, ...]:
        return tuple(
            disk.at("diskType").text or "filesystem"
            for _, disk in item.at("spec", "disks").members()
        )

    settings = dict(objects.read(ObjectKind.LONGHORN_SETTING, setting))
    nodes = objects.read(ObjectKind.LONGHORN_NODE, disks)
    return Longhorn(
        version=settings.get(_LONGHORN_VERSION, ""),
        nodes=len(nodes),
        disks=sum(map(len, nodes)),
        kinds=tuple(sorted({kind for kinds in nodes for kind in kinds})),
        settings=tuple(
            LonghornSetting(name=name, value=settings[name])
            for name in sorted(settings)
            if _LONGHORN_SETTINGS.fullmatch(name)
        ),
    )
