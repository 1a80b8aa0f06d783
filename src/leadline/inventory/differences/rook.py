"""How two clusters differ in what Rook and OpenShift Data Foundation are told to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leadline.inventory.differences.model import Collector, Topic
from leadline.inventory.differences.storage_classes import take_each
from leadline.inventory.differences.words import counted, listed
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.rook_models import (
    CephCluster,
    DeviceSet,
    Network,
    PoolSpec,
    Resources,
    StorageCluster,
)
from leadline.inventory.kubernetes.volumes import CephVolumes
from leadline.units import format_size
from leadline.visible import visible


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
    limits = [_limits(one) for one in (ours, theirs)]
    for daemon in dict.fromkeys((*limits[0], *limits[1])):
        found.compare(
            f"rook.resources.{visible(daemon)}",
            Topic.SERVICES,
            limits[0].get(daemon, "not set"),
            limits[1].get(daemon, "not set"),
            what=f"resources of {visible(daemon)}:",
            same="",
        )


def _limits(cluster: CephCluster) -> dict[str, str]:
    return {one.daemon: resources_text(one) for one in cluster.resources}


def resources_text(one: Resources) -> str:
    """`processors 1.5 to 3, memory 5 GiB`: what is requested, to the limit."""
    cpu = between(_plain(one.cpu_request), _plain(one.cpu_limit))
    memory = between(_size(one.memory_request_bytes), _size(one.memory_limit_bytes))
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


def _size(value: int | None) -> str:
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
