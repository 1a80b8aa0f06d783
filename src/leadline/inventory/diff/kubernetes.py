"""How two Kubernetes clusters differ, as far as that concerns their storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from leadline.inventory.diff.model import Collector, Difference, Differing, Topic, merged
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephVolumes,
    DeviceSet,
    IoEngine,
    KubernetesInventory,
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
from leadline.text import counted, listed, visible
from leadline.units import format_size

# How the StorageClasses differ that two sides' volumes come from.

# What a fact is called, what it is about, and its text.
Facts = dict[str, tuple[Topic, str]]

_UNSET = "not set"
# What a reader looks for first; of all else only differences are told.
_TOLD_IF_SAME = ("driver", "replicas", "mounter", "data_engine", "layout")
# Parameters that are told as facts, or that name things that are called otherwise in each cluster.
_SPOKEN_FOR = {
    "clusterID", "pool", "dataPool", "fsName", "imageFeatures", "mounter", "mapOptions",
    "kernelMountOptions", "fuseMountOptions", "encrypted", "encryptionType", "encryptionKMSID",
    "stripeUnit", "stripeCount", "objectSize", "repl", "protocol", "thin", "ioTimeout",
    "poolname", "fstype", "fsType", "csi.storage.k8s.io/fstype", "recordsize", "volblocksize",
    "compression", "dedup", "thinprovision", "shared", "numberOfReplicas", "dataLocality",
    "dataEngine", "migratable", "diskSelector", "nodeSelector",
}  # fmt: skip


def compare_classes(
    found: Collector,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    classes: Mapping[str, tuple[str, str]],
) -> None:
    """Each subject's class on both sides, and which classes only one side has."""
    each = Collector()
    for subject, (ours, theirs) in classes.items():
        left, right = base.storage_class(ours), candidate.storage_class(theirs)
        if left is None or right is None:
            found.unknown.append(f"StorageClass of {visible(subject)}, which an inventory lacks")
        else:
            _class(each, subject, left, right)
    take_each(found, each, "storage_classes", len(classes))
    _others(found, base, candidate, classes)


def take_each(found: Collector, each: Collector, prefix: str, subjects: int) -> None:
    """What was noted of subjects one by one; a difference that all of them have is told once, as
    `PREFIX.*.FACT`."""
    by_key: dict[str, list[Difference]] = {}
    for one in each.differences:
        key = one.path.removeprefix(f"{prefix}.{visible(one.target)}.")
        by_key.setdefault(key, []).append(one)
    for key, differences in by_key.items():
        found.differences += merged(differences, subjects, f"{prefix}.*.{key}")
    found.unknown += each.unknown
    found.identical += each.identical


def _class(found: Collector, subject: str, ours: StorageClass, theirs: StorageClass) -> None:
    shown = visible(subject)
    sides = _facts(ours), _facts(theirs)
    if ours.volumes.kind != theirs.volumes.kind or ours.volumes.kind == "other":
        sides[0]["driver"] = (Topic.VOLUMES, _driver(ours))
        sides[1]["driver"] = (Topic.VOLUMES, _driver(theirs))
    for key in dict.fromkeys((*sides[0], *sides[1])):
        if key not in sides[0] or key not in sides[1]:
            continue  # another driver has no word for it
        (topic, left), (_, right) = sides[0][key], sides[1][key]
        what = f"{key.replace('_', ' ')} of {shown}:"
        found.compare(
            f"storage_classes.{shown}.{key}",
            topic,
            left,
            right,
            what=what,
            same=f"{what} {left}" if key in _TOLD_IF_SAME else "",
            target=subject,
        )


def _others(
    found: Collector,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    classes: Mapping[str, tuple[str, str]],
) -> None:
    """Classes that nobody compares have no effect, but tell how alike two clusters are."""
    if base.uid and base.uid == candidate.uid:
        return
    names = [{one.name for one in side.storage_classes} for side in (base, candidate)]
    compared = [{pair[0] for pair in classes.values()}, {pair[1] for pair in classes.values()}]
    texts = [
        listed(visible(name) for name in sorted(mine - used))
        for mine, used in zip(names, compared, strict=True)
    ]
    found.compare("storage_classes.others", Topic.VOLUMES, texts[0], texts[1], same="")


def _driver(item: StorageClass) -> str:
    return f"{item.volumes.kind} ({visible(item.provisioner)})"


def _facts(item: StorageClass) -> Facts:
    """What a class says, by name; alike for classes of one kind."""
    volumes = item.volumes
    facts: Facts = {}
    if isinstance(volumes, CephVolumes):
        facts = _ceph(volumes)
    elif isinstance(volumes, MayastorVolumes):
        facts = {
            "replicas": (Topic.REDUNDANCY, _copies(volumes.replicas, 1)),
            "protocol": (Topic.VOLUMES, visible(volumes.protocol) or _UNSET),
            "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
            "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
        }
    elif isinstance(volumes, ZfsVolumes):
        facts = {
            "layout": (Topic.VOLUMES, volumes.layout),
            "record_size": (Topic.VOLUMES, visible(volumes.record_size) or _UNSET),
            "block_size": (Topic.VOLUMES, visible(volumes.block_size) or _UNSET),
            "compression": (Topic.VOLUMES, visible(volumes.compression) or _UNSET),
            "dedup": (Topic.VOLUMES, visible(volumes.dedup) or _UNSET),
            "thin": (Topic.VOLUMES, "thin" if volumes.thin else "thick"),
        }
    elif isinstance(volumes, LonghornVolumes):
        facts = {
            "replicas": (Topic.REDUNDANCY, _copies(volumes.replicas, None)),
            "data_engine": (Topic.VOLUMES, visible(volumes.data_engine)),
            "data_locality": (Topic.VOLUMES, visible(volumes.data_locality) or _UNSET),
            "encryption": (Topic.ENCRYPTION, "on" if volumes.encrypted else "off"),
            "migratable": (Topic.VOLUMES, "yes" if volumes.migratable else "no"),
            "disk_selector": (Topic.MEDIA, visible(volumes.disk_selector) or _UNSET),
            "node_selector": (Topic.VOLUMES, visible(volumes.node_selector) or _UNSET),
        }
    fs_type = getattr(volumes, "fs_type", "")
    facts["fs_type"] = (Topic.VOLUMES, visible(fs_type) or _UNSET)
    options = visible(", ".join(item.mount_options))
    facts["mount_options"] = (Topic.VOLUMES, options or _UNSET)
    for one in item.parameters:
        if one.name not in _SPOKEN_FOR and "secret" not in one.name.lower():
            facts[f"parameters.{visible(one.name)}"] = (Topic.VOLUMES, visible(one.value) or _UNSET)
    return facts


def _ceph(volumes: CephVolumes) -> Facts:
    affinity = volumes.read_affinity
    near = "not told"
    if affinity is not None:
        levels = [visible(label.rpartition("/")[2]) for label in affinity.labels]
        near = f"on{f' ({listed(levels)})' if levels else ''}" if affinity.enabled else "off"
    encryption = "off"
    if volumes.encrypted:
        kms = f", KMS {visible(volumes.kms_id)}" if volumes.kms_id else ""
        kind = "file" if volumes.kind == "cephfs" else "block"
        encryption = f"{visible(volumes.encryption_type) or kind}{kms}"
    return {
        "mounter": (Topic.VOLUMES, volumes.mounter.value),
        "map_options": (Topic.VOLUMES, visible(volumes.map_options) or _UNSET),
        "image_features": (Topic.VOLUMES, visible(volumes.image_features) or _UNSET),
        "stripe": (Topic.VOLUMES, visible(volumes.stripe) or _UNSET),
        "encryption": (Topic.ENCRYPTION, encryption),
        "read_affinity": (Topic.VOLUMES, near),
    }


def _copies(count: int | None, default: int | None) -> str:
    number = default if count is None else count
    return _UNSET if number is None else counted(number, "copy")


# How two clusters differ in what Rook and OpenShift Data Foundation are told to run.


def compare_rook(
    found: Collector,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    classes: Mapping[str, tuple[str, str]],
) -> None:
    """The clusters, and the pools behind the classes that are compared."""
    told_by_ceph = base.ceph is not None and candidate.ceph is not None
    if base.ceph_clusters and candidate.ceph_clusters:
        _clusters(found, base.ceph_clusters[0], candidate.ceph_clusters[0], told_by_ceph)
    if base.storage_clusters and candidate.storage_clusters:
        _storage_clusters(found, base.storage_clusters[0], candidate.storage_clusters[0])
    if told_by_ceph:
        return
    each = Collector()
    for subject, (ours, theirs) in classes.items():
        _pools(each, subject, pool_spec(base, ours), pool_spec(candidate, theirs))
    take_each(found, each, "pools", len(classes))


def pool_spec(inventory: KubernetesInventory, name: str) -> PoolSpec | None:
    """What Rook is told of the pool that holds the data of a class's volumes; None where it is not
    Rook's."""
    item = inventory.storage_class(name)
    if item is None or not isinstance(item.volumes, CephVolumes):
        return None
    wanted = item.volumes.data_pool or item.volumes.pool
    if item.volumes.kind == "cephfs":
        pools = [
            pool
            for one in inventory.filesystems
            if one.name == item.volumes.fs_name
            for pool in one.data_pools
        ]
        chosen = [pool for pool in pools if not wanted or pool.name == wanted]
        return chosen[0].spec if chosen else None
    return next((one.spec for one in inventory.block_pools if one.name == wanted), None)


def _pools(found: Collector, subject: str, ours: PoolSpec | None, theirs: PoolSpec | None) -> None:
    if ours is None or theirs is None:
        return
    facts: tuple[tuple[str, Topic, Callable[[PoolSpec], str]], ...] = (
        ("failure_domain", Topic.REDUNDANCY, lambda one: visible(one.failure_domain)),
        ("redundancy", Topic.REDUNDANCY, redundancy),
        ("device_class", Topic.MEDIA, lambda one: visible(one.device_class) or "any"),
        ("compression", Topic.SERVICES, lambda one: visible(one.compression) or "none"),
    )
    for key, topic, text in facts:
        what = f"{key.replace('_', ' ')} of {visible(subject)}:"
        path = f"pools.{visible(subject)}.{key}"
        left, right = text(ours), text(theirs)
        same = f"{what} {left}" if topic is Topic.REDUNDANCY else ""
        found.compare(path, topic, left, right, what=what, same=same, target=subject)


def redundancy(spec: PoolSpec) -> str:
    """`3 copies`, `EC 2+1`, `4 copies, 2 in each failure domain`."""
    if spec.data_chunks:
        return f"EC {spec.data_chunks}+{spec.coding_chunks or 0}"
    if spec.size is None:
        return "not set"
    per = spec.per_domain or 1
    return counted(spec.size, "copy") + (f", {per} in each failure domain" if per > 1 else "")


def _clusters(found: Collector, ours: CephCluster, theirs: CephCluster, by_ceph: bool) -> None:
    if not by_ceph:
        found.compare(
            "software.ceph",
            Topic.SOFTWARE,
            visible(ours.version) or None,
            visible(theirs.version) or None,
            what="Ceph",
        )
        found.compare(
            "encryption.wire",
            Topic.ENCRYPTION,
            _switch(ours.network.encrypted),
            _switch(theirs.network.encrypted),
            what="encryption on the wire",
        )
        found.compare(
            "encryption.at_rest",
            Topic.ENCRYPTION,
            _switch(ours.encrypted),
            _switch(theirs.encrypted),
            what="encryption at rest",
        )
    found.compare(
        "rook.network",
        Topic.SERVICES,
        network_text(ours.network),
        network_text(theirs.network),
        what="network of Ceph:",
    )
    found.compare(
        "rook.wire_compression",
        Topic.SERVICES,
        _switch(ours.network.compressed),
        _switch(theirs.network.compressed),
        what="compression on the wire",
        same="",
    )
    _device_sets(found, "rook", ours.device_sets, theirs.device_sets)
    limits = [_rook_limits(one) for one in (ours, theirs)]
    for daemon in dict.fromkeys((*limits[0], *limits[1])):
        found.compare(
            f"rook.resources.{visible(daemon)}",
            Topic.SERVICES,
            limits[0].get(daemon, "not set"),
            limits[1].get(daemon, "not set"),
            what=f"resources of {visible(daemon)}:",
            same="",
        )


def _rook_limits(cluster: CephCluster) -> dict[str, str]:
    return {one.daemon: resources_text(one) for one in cluster.resources}


def resources_text(one: Resources) -> str:
    """`processors 1.5 to 3, memory 5 GiB`: what is requested, to the limit."""
    cpu = between(_plain(one.cpu_request), _plain(one.cpu_limit))
    memory = between(_rook_size(one.memory_request_bytes), _rook_size(one.memory_limit_bytes))
    return f"processors {cpu}, memory {memory}"


def between(requested: str, limit: str) -> str:
    """Two texts, empty where nothing is set: `2 to 4`, `2 without limit`, `at most 4`."""
    if requested == limit:
        return requested or "not set"
    if not limit:
        return f"{requested} without limit"
    return f"{requested} to {limit}" if requested else f"at most {limit}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _rook_size(value: int | None) -> str:
    return "" if value is None else format_size(value)


def network_text(network: Network) -> str:
    """`pods' own`, `host`, `multus (public net-a)`."""
    provider = visible(network.provider) or "the pods' own"
    chosen = listed(visible(one) for one in network.selectors) if network.selectors else ""
    return f"{provider}{f' ({chosen})' if chosen else ''}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _storage_clusters(found: Collector, ours: StorageCluster, theirs: StorageCluster) -> None:
    found.compare(
        "odf.version",
        Topic.SOFTWARE,
        visible(ours.version) or None,
        visible(theirs.version) or None,
        what="OpenShift Data Foundation",
    )
    found.compare(
        "odf.failure_domain",
        Topic.TOPOLOGY,
        failure_domain_text(ours),
        failure_domain_text(theirs),
        what="failure domain:",
        # Names of zones are no difference.
        alike=lambda: (
            (ours.failure_domain, len(ours.failure_domain_values))
            == (theirs.failure_domain, len(theirs.failure_domain_values))
        ),
    )
    for key, topic, left, right in (
        ("resource_profile", Topic.SERVICES, ours.resource_profile, theirs.resource_profile),
        ("arbiter", Topic.TOPOLOGY, _switch(ours.arbiter), _switch(theirs.arbiter)),
        ("encryption", Topic.ENCRYPTION, _switch(ours.encrypted), _switch(theirs.encrypted)),
        ("host_network", Topic.SERVICES, _switch(ours.host_network), _switch(theirs.host_network)),
    ):
        found.compare(
            f"odf.{key}",
            topic,
            visible(left or "") or "not set",
            visible(right or "") or "not set",
            what=f"{key.replace('_', ' ')} of OpenShift Data Foundation",
            same="",
        )
    _device_sets(found, "odf", ours.device_sets, theirs.device_sets)


def failure_domain_text(cluster: StorageCluster) -> str | None:
    """`zone: a, b and c`; None where it is not told."""
    if not cluster.failure_domain:
        return None
    values = [visible(one) for one in cluster.failure_domain_values]
    return f"{visible(cluster.failure_domain)}{f': {listed(values)}' if values else ''}"


def _device_sets(
    found: Collector, prefix: str, ours: tuple[DeviceSet, ...], theirs: tuple[DeviceSet, ...]
) -> None:
    if not ours or not theirs:
        return
    texts = [device_sets_text(side) for side in (ours, theirs)]
    found.compare(f"{prefix}.device_sets", Topic.MEDIA, texts[0], texts[1], what="device sets:")
    limits = [
        {resources_text(one.osd) for one in side if one.osd is not None} for side in (ours, theirs)
    ]
    found.compare(
        f"{prefix}.resources.osd",
        Topic.SERVICES,
        listed(sorted(limits[0])) if limits[0] else "not set",
        listed(sorted(limits[1])) if limits[1] else "not set",
        what="resources of an OSD:",
        same="",
    )


def device_sets_text(sets: tuple[DeviceSet, ...]) -> str:
    """`6 x 2 TiB of gp3-csi, class ssd, portable`: sets that are alike are one."""
    counts: dict[str, int] = {}
    for one in sets:
        size = "unknown size" if one.size_bytes is None else format_size(one.size_bytes)
        text = size + (f" of {visible(one.storage_class)}" if one.storage_class else "")
        text += f", class {visible(one.device_class)}" if one.device_class else ""
        text += ", portable" if one.portable else ""
        counts[text] = counts.get(text, 0) + one.count * (one.replica or 1)
    return "; ".join(f"{count} x {text}" for text, count in counts.items())


# Subject -> names of its StorageClass, (in base, in candidate).
Classes = Mapping[str, tuple[str, str]]

# Firmware and the kernel keep a little for themselves, not always the same.
_MEMORY_SHARE = 0.02


def kubernetes_differences(
    base: KubernetesInventory, candidate: KubernetesInventory, classes: Classes
) -> Differing:
    """Two clusters, or one at two moments. `classes` maps each subject to the names of the
    StorageClasses that its volumes come from. Of a Ceph that both inventories know themselves,
    `ceph_differences` says more than Rook's resources, which are then left out."""
    found = Collector()
    if base.uid and base.uid == candidate.uid:
        found.identical.append("the same Kubernetes cluster")
    _software(found, base, candidate)
    _nodes(found, base.nodes, candidate.nodes)
    compare_classes(found, base, candidate, classes)
    compare_rook(found, base, candidate, classes)
    _mayastor(found, base, candidate)
    _zfs(found, base, candidate)
    _longhorn(found, base, candidate)
    for side, inventory in (("baseline", base), ("candidate", candidate)):
        found.unknown += [f"{one.what} ({side}: {one.reason})" for one in inventory.gaps]
    return found.result()


def shared_classes(base: KubernetesInventory, candidate: KubernetesInventory) -> Classes:
    """The StorageClasses of one name; where there is none, the only ones of both sides."""
    theirs = {one.name for one in candidate.storage_classes}
    found = {one.name: (one.name, one.name) for one in base.storage_classes if one.name in theirs}
    if not found and len(base.storage_classes) == len(candidate.storage_classes) == 1:
        ours, its = base.storage_classes[0].name, candidate.storage_classes[0].name
        found = {ours: (ours, its)}
    return found


# --- software and nodes --------------------------------------------------------------------------


def _software(found: Collector, base: KubernetesInventory, candidate: KubernetesInventory) -> None:
    for key, what, text in (
        ("version", "Kubernetes", lambda one: one.version or None),
        ("openshift", "OpenShift", lambda one: one.openshift or None),
        ("kubevirt", "KubeVirt", lambda one: _operator(one.kubevirt)),
        ("cdi", "CDI", lambda one: _operator(one.cdi)),
    ):
        _compare(found, f"kubernetes.{key}", Topic.SOFTWARE, base, candidate, text, what)
    drivers = [_drivers(one) for one in (base, candidate)]
    for name in dict.fromkeys((*drivers[0], *drivers[1])):
        ours, theirs = (one.get(name, "not there") for one in drivers)
        if "not there" not in (ours, theirs):
            found.compare(f"drivers.{name}", Topic.SOFTWARE, ours, theirs, what=name, same="")


def _operator(operator: Operator | None) -> str | None:
    return visible(operator.version) or None if operator else None


def _drivers(inventory: KubernetesInventory) -> dict[str, str]:
    """The image's version of each daemon that makes volumes, by its name."""
    return {
        visible(one.name): visible(listed(sorted({_tag(image) for image in one.images}), limit=3))
        for one in inventory.workloads
        if one.images
    }


def _tag(image: str) -> str:
    """`cephcsi:v3.12.0` of `registry/cephcsi/cephcsi:v3.12.0`."""
    return image.rpartition("/")[2].replace("@sha256:", ":")[:60]


def _nodes(found: Collector, ours: Sequence[Node], theirs: Sequence[Node]) -> None:
    if not ours or not theirs:
        return
    zones = [len({node.zone for node in side if node.zone}) for side in (ours, theirs)]
    texts = [counted(count, "zone") if count else None for count in zones]
    found.compare("kubernetes.zones", Topic.TOPOLOGY, *texts, what="zones of nodes:")
    counts = [counted(len(side), "node") for side in (ours, theirs)]
    found.compare("kubernetes.nodes", Topic.TOPOLOGY, counts[0], counts[1])
    facts: tuple[tuple[str, Topic, str, Callable[[Node], str | None]], ...] = (
        ("kernel", Topic.SOFTWARE, "kernel of nodes", lambda node: node.kernel),
        ("os_image", Topic.SOFTWARE, "system of nodes", lambda node: node.os_image),
        ("kubelet", Topic.SOFTWARE, "kubelet", lambda node: node.kubelet),
        ("runtime", Topic.SOFTWARE, "container runtime", lambda node: node.runtime),
        ("architecture", Topic.CLIENT, "architecture", lambda node: node.architecture),
        ("instance_type", Topic.CLIENT, "type of nodes", lambda node: node.instance_type),
        ("cpu", Topic.CLIENT, "processors of a node", _cpu),
        ("hugepages", Topic.CLIENT, "huge pages of a node", _hugepages),
    )
    for key, topic, what, text in facts:
        texts = [_values(side, text) for side in (ours, theirs)]
        found.compare(f"kubernetes.{key}", topic, texts[0], texts[1], what=what, same="")
    _memory(found, ours, theirs)


def _values(nodes: Iterable[Node], text: Callable[[Node], str | None]) -> str | None:
    """The different values of nodes; how many have each is no difference of a kind."""
    values = sorted({visible(one) for node in nodes if (one := text(node))})
    return listed(values) if values else None


def _cpu(node: Node) -> str | None:
    return None if node.cpu is None else f"{node.cpu:g}"


def _hugepages(node: Node) -> str | None:
    return None if node.hugepages_bytes is None else format_size(node.hugepages_bytes)


def _memory(found: Collector, ours: Sequence[Node], theirs: Sequence[Node]) -> None:
    sides = [[one.memory_bytes for one in side if one.memory_bytes] for side in (ours, theirs)]
    if not sides[0] or not sides[1]:
        return
    means = [sum(side) / len(side) for side in sides]
    found.compare(
        "kubernetes.memory",
        Topic.CLIENT,
        f"{format_size(int(means[0]))} a node",
        f"{format_size(int(means[1]))} a node",
        same="",
        alike=lambda: abs(means[0] - means[1]) <= _MEMORY_SHARE * max(means),
    )


# --- storage beside Ceph -------------------------------------------------------------------------


def _mayastor(found: Collector, base: KubernetesInventory, candidate: KubernetesInventory) -> None:
    if not base.io_engines or not candidate.io_engines:
        return
    ours, theirs = base.io_engines[0], candidate.io_engines[0]
    facts: tuple[tuple[str, Topic, Callable[[IoEngine], str | None]], ...] = (
        (
            "cores",
            Topic.SERVICES,
            lambda one: counted(len(one.cores), "core") if one.cores else None,
        ),
        ("cpu", Topic.SERVICES, _limits),
        ("hugepages", Topic.SERVICES, lambda one: _size(one.hugepages_bytes)),
        ("nodes", Topic.TOPOLOGY, lambda one: _count(one.wanted, "node")),
    )
    for key, topic, text in facts:
        what = f"{key} of io-engine:"
        found.compare(f"mayastor.{key}", topic, text(ours), text(theirs), what=what)
    pools = [one.disk_pools for one in (base, candidate)]
    if pools[0] and pools[1]:
        counts = [counted(len(one), "disk pool") for one in pools]
        found.compare("mayastor.disk_pools", Topic.TOPOLOGY, counts[0], counts[1])
        encrypted = ["on" if all(one.encrypted for one in side) else "off" for side in pools]
        what = "encryption of disk pools"
        found.compare("encryption.disk_pools", Topic.ENCRYPTION, *encrypted, what=what)


def _limits(engine: IoEngine) -> str | None:
    if engine.cpu_request is None and engine.cpu_limit is None:
        return None
    texts = ["–" if one is None else f"{one:g}" for one in (engine.cpu_request, engine.cpu_limit)]
    return f"{texts[0]} requested, {texts[1]} at most"


def _size(size: int | None) -> str | None:
    return None if size is None else format_size(size)


def _count(count: int | None, noun: str) -> str | None:
    return None if count is None else counted(count, noun)


def _zfs(found: Collector, base: KubernetesInventory, candidate: KubernetesInventory) -> None:
    if base.zfs_pools and candidate.zfs_pools:
        counts = [counted(len(one.zfs_pools), "ZFS pool") for one in (base, candidate)]
        found.compare("zfs.pools", Topic.TOPOLOGY, counts[0], counts[1])


def _longhorn(found: Collector, base: KubernetesInventory, candidate: KubernetesInventory) -> None:
    ours, theirs = base.longhorn, candidate.longhorn
    if ours is None or theirs is None:
        return
    found.compare(
        "longhorn.version",
        Topic.SOFTWARE,
        visible(ours.version) or None,
        visible(theirs.version) or None,
        what="Longhorn",
    )
    counts = [
        f"{counted(one.disks, 'disk')} in {counted(one.nodes, 'node')}" for one in (ours, theirs)
    ]
    found.compare("longhorn.disks", Topic.TOPOLOGY, counts[0], counts[1])
    settings = [{one.name: one.value for one in side.settings} for side in (ours, theirs)]
    for name in dict.fromkeys((*settings[0], *settings[1])):
        values = [visible(one[name]) or "not set" if name in one else None for one in settings]
        found.compare(
            f"longhorn.{visible(name)}", Topic.SETTINGS, *values, what=f"Longhorn's {name}", same=""
        )


def _compare(
    found: Collector,
    path: str,
    topic: Topic,
    base: KubernetesInventory,
    candidate: KubernetesInventory,
    text: Callable[[KubernetesInventory], str | None],
    what: str,
) -> None:
    values = [text(one) for one in (base, candidate)]
    shown = [None if one is None else visible(one) for one in values]
    found.compare(path, topic, shown[0], shown[1], what=what)
