"""How two Kubernetes clusters differ, as far as that concerns their storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from leadline.inventory.differences.model import Collector, Differing, Topic
from leadline.inventory.differences.rook import compare_rook
from leadline.inventory.differences.storage_classes import compare_classes
from leadline.inventory.differences.words import counted, listed
from leadline.inventory.kubernetes.models import (
    IoEngine,
    KubernetesInventory,
    Node,
    Operator,
)
from leadline.units import format_size
from leadline.visible import visible

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
