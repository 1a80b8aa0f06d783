"""Differences of two Kubernetes clusters that matter for their storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from leadline.inventory.diff.model import Collector, Differing, Fact, Topic, within
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephVolumes,
    DeviceSet,
    IoEngine,
    KubernetesInventory,
    Longhorn,
    LonghornVolumes,
    MayastorVolumes,
    Network,
    Node,
    Operator,
    PoolSpec,
    Resources,
    StorageClass,
    StorageCluster,
    ZfsVolumes,
)
from leadline.text import counted, listed
from leadline.units import format_size

# Subject -> names of its StorageClass, (in base, in candidate).
Classes = Mapping[str, tuple[str, str]]
Inventories = tuple[KubernetesInventory, KubernetesInventory]
Nodes = tuple[Node, ...]

_UNSET = "not set"
_LONGEST_TAG = 60


def kubernetes_differences(
    base: KubernetesInventory, candidate: KubernetesInventory, classes: Classes
) -> Differing:
    """Compare two clusters, or one cluster at two times.

    `classes` maps each subject to the names of its StorageClass. If both inventories hold Ceph's
    own inventory, `ceph_differences` reports more than Rook's resources, which are then left out.
    """
    found = Collector()
    both = base, candidate
    if base.uid and base.uid == candidate.uid:
        found.identical.append("the same Kubernetes cluster")
    found.compare_facts("kubernetes", base, candidate, _SOFTWARE)
    versions = [_driver_versions(inventory) for inventory in both]
    for name in versions[0]:
        if name in versions[1]:
            texts = [images[name] for images in versions]
            found.compare(f"drivers.{name}", Topic.SOFTWARE, texts, what=name, same="")
    if base.nodes and candidate.nodes:
        found.compare_facts("kubernetes", base.nodes, candidate.nodes, _NODES)
    _compare_classes(found, both, classes)
    _compare_rook(found, both, classes)
    if base.io_engines and candidate.io_engines:
        found.compare_facts("mayastor", base.io_engines[0], candidate.io_engines[0], _IO_ENGINE)
        if base.disk_pools and candidate.disk_pools:
            _compare_disk_pools(found, both)
    if base.zfs_pools and candidate.zfs_pools:
        counts = [counted(len(inventory.zfs_pools), "ZFS pool") for inventory in both]
        found.compare("zfs.pools", Topic.TOPOLOGY, counts)
    if base.longhorn and candidate.longhorn:
        _compare_longhorn(found, base.longhorn, candidate.longhorn)
    for system, inventory in (("baseline", base), ("candidate", candidate)):
        found.unknown += [f"{gap.what} ({system}: {gap.reason})" for gap in inventory.gaps]
    return found.result()


def shared_classes(base: KubernetesInventory, candidate: KubernetesInventory) -> Classes:
    """Return the StorageClasses of one name; without any, the only one of both clusters."""
    ours = [item.name for item in base.storage_classes]
    theirs = [item.name for item in candidate.storage_classes]
    found = {name: (name, name) for name in ours if name in theirs}
    if not found and len(ours) == len(theirs) == 1:
        found = {ours[0]: (ours[0], theirs[0])}
    return found


# Software and nodes.


def _operator_version(operator: Operator | None) -> str | None:
    return operator.version if operator else None


_SOFTWARE: tuple[Fact[KubernetesInventory], ...] = (
    Fact("version", Topic.SOFTWARE, lambda item: item.version, what="Kubernetes"),
    Fact("openshift", Topic.SOFTWARE, lambda item: item.openshift, what="OpenShift"),
    Fact(
        "kubevirt", Topic.SOFTWARE, lambda item: _operator_version(item.kubevirt), what="KubeVirt"
    ),
    Fact("cdi", Topic.SOFTWARE, lambda item: _operator_version(item.cdi), what="CDI"),
)


def _driver_versions(inventory: KubernetesInventory) -> dict[str, str]:
    """Return the images of each storage workload, such as `cephcsi:v3.12.0`, by its name."""
    return {
        workload.name: listed(
            sorted(
                {
                    image.rpartition("/")[2].replace("@sha256:", ":")[:_LONGEST_TAG]
                    for image in workload.images
                }
            ),
            limit=3,
        )
        for workload in inventory.workloads
        if workload.images
    }


def _node_fact(
    key: str, text: Callable[[Node], str | None], what: str, topic: Topic = Topic.CLIENT
) -> Fact[Nodes]:
    """Return a fact that lists the distinct values of nodes, not how many have each."""

    def values(nodes: Nodes) -> str | None:
        found = sorted({value for node in nodes if (value := text(node))})
        return listed(found) if found else None

    return Fact(key, topic, values, what=what, same="")


def _zones(nodes: Nodes) -> str | None:
    zones = {node.zone for node in nodes if node.zone}
    return counted(len(zones), "zone") if zones else None


def _mean_memory(nodes: Nodes) -> float | None:
    sizes = [node.memory_bytes for node in nodes if node.memory_bytes]
    return sum(sizes) / len(sizes) if sizes else None


def _format_memory(nodes: Nodes) -> str | None:
    mean = _mean_memory(nodes)
    return None if mean is None else f"{format_size(int(mean))} per node"


def _format_optional_size(size: int | None) -> str | None:
    return None if size is None else format_size(size)


def _format_number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


_NODES: tuple[Fact[Nodes], ...] = (
    Fact("zones", Topic.TOPOLOGY, _zones, what="zones of nodes:"),
    Fact("nodes", Topic.TOPOLOGY, lambda nodes: counted(len(nodes), "node")),
    _node_fact("kernel", lambda node: node.kernel, "kernel of nodes", Topic.SOFTWARE),
    _node_fact("os_image", lambda node: node.os_image, "system of nodes", Topic.SOFTWARE),
    _node_fact("kubelet", lambda node: node.kubelet, "kubelet", Topic.SOFTWARE),
    _node_fact("runtime", lambda node: node.runtime, "container runtime", Topic.SOFTWARE),
    _node_fact("architecture", lambda node: node.architecture, "architecture"),
    _node_fact("instance_type", lambda node: node.instance_type, "type of nodes"),
    _node_fact("cpu", lambda node: _format_number(node.cpu), "processors of a node"),
    _node_fact(
        "hugepages",
        lambda node: _format_optional_size(node.hugepages_bytes),
        "huge pages of a node",
    ),
    # Firmware and kernel reserve a little memory, which differs between boots.
    Fact("memory", Topic.CLIENT, _format_memory, same="", alike=within(0.02, _mean_memory)),
)

# StorageClasses of the compared volumes.

Facts = dict[str, tuple[Topic, str]]
# Facts that are reported also where they are the same.
_LABELLED = ("driver", "replicas", "mounter", "data_engine", "layout")
# Parameters that are facts of their own, or name objects, whose names differ in each cluster.
_KNOWN_PARAMETERS = {
    "clusterID", "pool", "dataPool", "fsName", "imageFeatures", "mounter", "mapOptions",
    "kernelMountOptions", "fuseMountOptions", "encrypted", "encryptionType", "encryptionKMSID",
    "stripeUnit", "stripeCount", "objectSize", "repl", "protocol", "thin", "ioTimeout",
    "poolname", "fstype", "fsType", "csi.storage.k8s.io/fstype", "recordsize", "volblocksize",
    "compression", "dedup", "thinprovision", "shared", "numberOfReplicas", "dataLocality",
    "dataEngine", "migratable", "diskSelector", "nodeSelector",
}  # fmt: skip


def _compare_classes(found: Collector, both: Inventories, classes: Classes) -> None:
    """Compare each subject's class, and list the classes that only one cluster has."""
    facts: dict[str, tuple[Facts, Facts]] = {}
    for subject, names in classes.items():
        left, right = (
            inventory.storage_class(name) for inventory, name in zip(both, names, strict=True)
        )
        if left is None or right is None:
            found.unknown.append(f"StorageClass of {subject}, which an inventory lacks")
            continue
        facts[subject] = ours, theirs = _class_facts(left), _class_facts(right)
        if left.volumes.kind != right.volumes.kind or left.volumes.kind == "other":
            for side, item in ((ours, left), (theirs, right)):
                side["driver"] = Topic.VOLUMES, f"{item.volumes.kind} ({item.provisioner})"
    _compare_each(found, "storage_classes", facts, len(classes), lambda key, _: key in _LABELLED)
    if not both[0].uid or both[0].uid != both[1].uid:
        texts = []
        for at, inventory in enumerate(both):
            present = {item.name for item in inventory.storage_classes}
            texts.append(listed(sorted(present - {pair[at] for pair in classes.values()})))
        found.compare("storage_classes.others", Topic.VOLUMES, texts, same="")


def _compare_each(
    found: Collector,
    group: str,
    facts: Mapping[str, tuple[Facts, Facts]],
    subjects: int,
    labelled: Callable[[str, Topic], bool],
) -> None:
    """Compare the facts that both systems have of each subject."""
    keys = dict.fromkeys(key for ours, theirs in facts.values() for key in (*ours, *theirs))
    for key in keys:
        both = {
            subject: (ours[key], theirs[key])
            for subject, (ours, theirs) in facts.items()
            if key in ours and key in theirs
        }
        topics = [left[0] for left, _ in both.values()]
        if not topics:
            continue
        texts = {subject: (left[1], right[1]) for subject, (left, right) in both.items()}
        equal = found.compare_subjects(group, key, topics[0], texts, subjects=subjects)
        if labelled(key, topics[0]):
            name = key.replace("_", " ")
            found.identical += [f"{name} of {subject}: {text}" for subject, text in equal.items()]


def _class_facts(item: StorageClass) -> Facts:
    """Return the facts of a class by name; classes of one driver have the same names."""
    volumes = item.volumes
    facts: Facts = {}
    match volumes:
        case CephVolumes():
            facts = _ceph_facts(volumes)
        case MayastorVolumes():
            replicas = 1 if volumes.replicas is None else volumes.replicas
            facts = {
                "replicas": (Topic.REDUNDANCY, counted(replicas, "copy")),
                "protocol": (Topic.VOLUMES, volumes.protocol),
                "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
                "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
            }
        case ZfsVolumes():
            facts = {
                "layout": (Topic.VOLUMES, volumes.layout),
                "record_size": (Topic.VOLUMES, volumes.record_size),
                "block_size": (Topic.VOLUMES, volumes.block_size),
                "compression": (Topic.VOLUMES, volumes.compression),
                "dedup": (Topic.VOLUMES, volumes.dedup),
                "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
            }
        case LonghornVolumes():
            count = "" if volumes.replicas is None else counted(volumes.replicas, "copy")
            facts = {
                "replicas": (Topic.REDUNDANCY, count),
                "data_engine": (Topic.VOLUMES, volumes.data_engine),
                "data_locality": (Topic.VOLUMES, volumes.data_locality),
                "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
                "migratable": (Topic.VOLUMES, "yes" if volumes.migratable else "no"),
                "disk_selector": (Topic.MEDIA, volumes.disk_selector),
                "node_selector": (Topic.VOLUMES, volumes.node_selector),
            }
    facts["fs_type"] = (Topic.VOLUMES, getattr(volumes, "fs_type", ""))
    facts["mount_options"] = (Topic.VOLUMES, ", ".join(item.mount_options))
    for parameter in item.parameters:
        if parameter.name not in _KNOWN_PARAMETERS and "secret" not in parameter.name.lower():
            facts[f"parameters.{parameter.name}"] = (Topic.VOLUMES, parameter.value)
    return {key: (topic, text or _UNSET) for key, (topic, text) in facts.items()}


def _ceph_facts(volumes: CephVolumes) -> Facts:
    affinity, near = volumes.read_affinity, "unknown"
    if affinity is not None:
        levels = [label.rpartition("/")[2] for label in affinity.labels]
        near = f"on{f' ({listed(levels)})' if levels else ''}" if affinity.enabled else "off"
    encryption = "off"
    if volumes.encrypted:
        kms = f", KMS {volumes.kms_id}" if volumes.kms_id else ""
        kind = "file" if volumes.kind == "cephfs" else "block"
        provider = f" ({volumes.kms_provider})" if volumes.kms_provider else ""
        rotation = f", keys rotated {volumes.key_rotation}" if volumes.key_rotation else ""
        encryption = f"{volumes.encryption_type or kind}{kms}{provider}{rotation}"
    return {
        "mounter": (Topic.VOLUMES, volumes.mounter.value),
        "map_options": (Topic.VOLUMES, volumes.map_options),
        "image_features": (Topic.VOLUMES, volumes.image_features),
        "stripe": (Topic.VOLUMES, volumes.stripe),
        "encryption": (Topic.ENCRYPTION, encryption),
        "read_affinity": (Topic.VOLUMES, near),
    }


# Rook and OpenShift Data Foundation.


def _compare_rook(found: Collector, both: Inventories, classes: Classes) -> None:
    """Compare the clusters, and the pools behind the compared classes."""
    base, candidate = both
    has_ceph = base.ceph is not None and candidate.ceph is not None
    if base.ceph_clusters and candidate.ceph_clusters:
        ours, theirs = base.ceph_clusters[0], candidate.ceph_clusters[0]
        if not has_ceph:
            found.compare_facts("software", ours, theirs, _CEPH_SOFTWARE)
            found.compare_facts("encryption", ours, theirs, _CEPH_ENCRYPTION)
        found.compare_facts("rook", ours, theirs, _ROOK)
        _compare_device_sets(found, "rook", ours, theirs)
        limits = [
            {item.daemon: format_resources(item) for item in cluster.resources}
            for cluster in (ours, theirs)
        ]
        for daemon in dict.fromkeys((*limits[0], *limits[1])):
            texts = [side.get(daemon, _UNSET) for side in limits]
            what = f"resources of {daemon}:"
            path = f"rook.resources.{daemon}"
            found.compare(path, Topic.SERVICES, texts, what=what, same="")
    if base.storage_clusters and candidate.storage_clusters:
        odf = base.storage_clusters[0], candidate.storage_clusters[0]
        found.compare_facts("odf", *odf, _ODF)
        _compare_device_sets(found, "odf", *odf)
    if not has_ceph:
        pools: dict[str, tuple[Facts, Facts]] = {}
        for subject, (base_name, candidate_name) in classes.items():
            left, right = _pool_spec(base, base_name), _pool_spec(candidate, candidate_name)
            if left and right:
                pools[subject] = _pool_facts(left), _pool_facts(right)
        _compare_each(
            found, "pools", pools, len(classes), lambda _, topic: topic is Topic.REDUNDANCY
        )


def _pool_spec(inventory: KubernetesInventory, name: str) -> PoolSpec | None:
    """Return Rook's specification of the pool that holds a class's data; None if there is none."""
    item = inventory.storage_class(name)
    if item is None or not isinstance(item.volumes, CephVolumes):
        return None
    volumes = item.volumes
    wanted = volumes.data_pool or volumes.pool
    if volumes.kind == "cephfs":
        specs = (
            pool.spec
            for filesystem in inventory.filesystems
            if filesystem.name == volumes.fs_name
            for pool in filesystem.data_pools
            if not wanted or pool.name == wanted
        )
    else:
        specs = (pool.spec for pool in inventory.block_pools if pool.name == wanted)
    return next(specs, None)


def _pool_facts(spec: PoolSpec) -> Facts:
    return {
        "failure_domain": (Topic.REDUNDANCY, spec.failure_domain),
        "redundancy": (Topic.REDUNDANCY, format_redundancy(spec)),
        "device_class": (Topic.MEDIA, spec.device_class or "any"),
        "compression": (Topic.SERVICES, spec.compression or "none"),
    }


def format_redundancy(spec: PoolSpec) -> str:
    """Return `3 copies`, `EC 2+1`, `4 copies, 2 in each failure domain`."""
    if spec.data_chunks:
        return f"EC {spec.data_chunks}+{spec.coding_chunks or 0}"
    if spec.size is None:
        return _UNSET
    per = spec.per_domain or 1
    return counted(spec.size, "copy") + (f", {per} in each failure domain" if per > 1 else "")


def format_resources(resources: Resources) -> str:
    """Return `processors 1.5 to 3, memory 5 GiB`: the request, to the limit."""
    cpu = format_range(_format_number(resources.cpu_request), _format_number(resources.cpu_limit))
    memory = format_range(
        _format_optional_size(resources.memory_request_bytes),
        _format_optional_size(resources.memory_limit_bytes),
    )
    return f"processors {cpu}, memory {memory}"


def format_range(requested: str | None, limit: str | None) -> str:
    """Return `2 to 4`, `2 without limit`, `at most 4`, or `not set`."""
    if requested == limit:
        return requested or _UNSET
    if not limit:
        return f"{requested} without limit"
    return f"{requested} to {limit}" if requested else f"at most {limit}"


def format_network(network: Network) -> str:
    """Return `pod network`, `host`, `multus (public net-a)`."""
    selectors = f" ({listed(network.selectors)})" if network.selectors else ""
    return f"{network.provider or 'pod network'}{selectors}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


_CEPH_SOFTWARE: tuple[Fact[CephCluster], ...] = (
    Fact("ceph", Topic.SOFTWARE, lambda cluster: cluster.version, what="Ceph"),
)
_CEPH_ENCRYPTION: tuple[Fact[CephCluster], ...] = (
    Fact(
        "wire",
        Topic.ENCRYPTION,
        lambda cluster: _switch(cluster.network.encrypted),
        what="encryption on the wire",
    ),
    Fact(
        "at_rest",
        Topic.ENCRYPTION,
        lambda cluster: _switch(cluster.encrypted),
        what="encryption at rest",
    ),
)
_ROOK: tuple[Fact[CephCluster], ...] = (
    Fact(
        "network",
        Topic.SERVICES,
        lambda cluster: format_network(cluster.network),
        what="network of Ceph:",
    ),
    Fact(
        "wire_compression",
        Topic.SERVICES,
        lambda cluster: _switch(cluster.network.compressed),
        what="compression on the wire",
        same="",
    ),
)


def format_failure_domain(cluster: StorageCluster) -> str | None:
    """Return `zone: a, b and c`; None if it is unknown."""
    if not cluster.failure_domain:
        return None
    values = cluster.failure_domain_values
    return f"{cluster.failure_domain}{f': {listed(values)}' if values else ''}"


def _failure_domains_alike(base: StorageCluster, candidate: StorageCluster) -> bool:
    """Return whether kind and number are equal: names of zones are not a difference."""
    return base.failure_domain == candidate.failure_domain and len(
        base.failure_domain_values
    ) == len(candidate.failure_domain_values)


def _odf_fact(
    key: str, text: Callable[[StorageCluster], str | None], topic: Topic
) -> Fact[StorageCluster]:
    what = f"{key.replace('_', ' ')} of OpenShift Data Foundation"
    return Fact(key, topic, lambda cluster: text(cluster) or _UNSET, what=what, same="")


_ODF: tuple[Fact[StorageCluster], ...] = (
    Fact(
        "version",
        Topic.SOFTWARE,
        lambda cluster: cluster.version,
        what="OpenShift Data Foundation",
    ),
    Fact(
        "failure_domain",
        Topic.TOPOLOGY,
        format_failure_domain,
        what="failure domain:",
        alike=_failure_domains_alike,
    ),
    _odf_fact("resource_profile", lambda cluster: cluster.resource_profile, Topic.SERVICES),
    _odf_fact("arbiter", lambda cluster: _switch(cluster.arbiter), Topic.TOPOLOGY),
    _odf_fact("encryption", lambda cluster: _switch(cluster.encrypted), Topic.ENCRYPTION),
    _odf_fact("host_network", lambda cluster: _switch(cluster.host_network), Topic.SERVICES),
)


def _compare_device_sets(
    found: Collector,
    prefix: str,
    base: CephCluster | StorageCluster,
    candidate: CephCluster | StorageCluster,
) -> None:
    if base.device_sets and candidate.device_sets:
        found.compare_facts(prefix, base.device_sets, candidate.device_sets, _DEVICE_SETS)


def format_device_sets(sets: Iterable[DeviceSet]) -> str:
    """Return `6 x 2 TiB of gp3-csi, class ssd, portable`; equal sets are added up."""
    counts: dict[str, int] = {}
    for item in sets:
        text = "unknown size" if item.size_bytes is None else format_size(item.size_bytes)
        text += f" of {item.storage_class}" if item.storage_class else ""
        text += f", class {item.device_class}" if item.device_class else ""
        text += ", portable" if item.portable else ""
        counts[text] = counts.get(text, 0) + item.count * (item.replica or 1)
    return "; ".join(f"{count} x {text}" for text, count in counts.items())


def _osd_resources(sets: tuple[DeviceSet, ...]) -> str:
    limits = {format_resources(item.osd) for item in sets if item.osd is not None}
    return listed(sorted(limits)) if limits else _UNSET


_DEVICE_SETS: tuple[Fact[tuple[DeviceSet, ...]], ...] = (
    Fact("device_sets", Topic.MEDIA, format_device_sets, what="device sets:"),
    Fact(
        "resources.osd",
        Topic.SERVICES,
        _osd_resources,
        what="resources of an OSD:",
        same="",
    ),
)

# Other storage: Mayastor, Longhorn.


def _engine_processors(engine: IoEngine) -> str | None:
    if engine.cpu_request is None and engine.cpu_limit is None:
        return None
    request, limit = (
        _format_number(value) or "–" for value in (engine.cpu_request, engine.cpu_limit)
    )
    return f"{request} requested, {limit} at most"


def _engine_fact(
    key: str, text: Callable[[IoEngine], str | None], topic: Topic = Topic.SERVICES
) -> Fact[IoEngine]:
    return Fact(key, topic, text, what=f"{key} of io-engine:")


_IO_ENGINE = (
    _engine_fact(
        "cores", lambda engine: counted(len(engine.cores), "core") if engine.cores else None
    ),
    _engine_fact("cpu", _engine_processors),
    _engine_fact("hugepages", lambda engine: _format_optional_size(engine.hugepages_bytes)),
    _engine_fact(
        "nodes",
        lambda engine: None if engine.wanted is None else counted(engine.wanted, "node"),
        Topic.TOPOLOGY,
    ),
)


def _compare_disk_pools(found: Collector, both: Inventories) -> None:
    pools = [inventory.disk_pools for inventory in both]
    counts = [counted(len(side), "disk pool") for side in pools]
    found.compare("mayastor.disk_pools", Topic.TOPOLOGY, counts)
    encrypted = [_switch(all(pool.encrypted for pool in side)) for side in pools]
    what = "encryption of disk pools"
    found.compare("encryption.disk_pools", Topic.ENCRYPTION, encrypted, what=what)


def _compare_longhorn(found: Collector, base: Longhorn, candidate: Longhorn) -> None:
    both = base, candidate
    versions = base.version, candidate.version
    found.compare("longhorn.version", Topic.SOFTWARE, versions, what="Longhorn")
    counts = [f"{counted(item.disks, 'disk')} in {counted(item.nodes, 'node')}" for item in both]
    found.compare("longhorn.disks", Topic.TOPOLOGY, counts)
    settings = [
        {setting.name: setting.value or _UNSET for setting in item.settings} for item in both
    ]
    for name in dict.fromkeys((*settings[0], *settings[1])):
        values = [side.get(name) for side in settings]
        what = f"Longhorn's {name}"
        found.compare(f"longhorn.{name}", Topic.SETTINGS, values, what=what, same="")
