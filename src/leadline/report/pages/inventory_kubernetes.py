"""A Kubernetes cluster's inventory as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from leadline.inventory.kubernetes.models import (
    CephVolumes,
    KubernetesInventory,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    Node,
    StorageClass,
    ZfsVolumes,
)
from leadline.report.cells import (
    bullets,
    facts_table,
    number_column,
    records_table,
    section,
    table,
)
from leadline.report.document import (
    Block,
    Branch,
    Column,
    Columns,
    Document,
    Section,
    Tile,
    Tiles,
    Tree,
)
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.inventory_operators import state_note, storage_sections, with_content
from leadline.report.pages.topology import cut_boxes, natural
from leadline.report.words import count_text, listed, short
from leadline.units import format_size

_NODES_SHOWN = 40


def kubernetes_document(inventory: KubernetesInventory, source: str) -> Document:
    """Build the inventory, nodes and StorageClasses first; `source` names the origin of the
    objects."""
    sections = with_content(
        _topology(inventory),
        _classes(inventory),
        *storage_sections(inventory),
        _nodes(inventory),
        _drivers(inventory),
        *_ceph(inventory, source),
        gaps_section(inventory),
    )
    identity = f"cluster {inventory.uid}" if inventory.uid else "cluster without known identity"
    return Document(
        title=f"Kubernetes {identity}",
        subtitle=source,
        summary=summary(inventory),
        sections=sections,
        front=(Tiles(tiles=tuple(_tiles(inventory))),),
    )


def _version(inventory: KubernetesInventory) -> str:
    """The version of the API server, else that of the kubelets."""
    if inventory.version:
        text = inventory.version
    else:
        kubelets = sorted({node.kubelet for node in inventory.nodes if node.kubelet})
        text = f"with kubelets {listed(kubelets)}" if kubelets else "of unknown version"
    return f"{text}, OpenShift {inventory.openshift}" if inventory.openshift else text


def headline(inventory: KubernetesInventory) -> str:
    """`Kubernetes v1.31.2: 6 nodes in 3 zones, 3 StorageClasses of ceph-rbd and cephfs.`"""
    text = count_text(len(inventory.nodes), "node")
    text += f" in {count_text(len(inventory.zones), 'zone')}" if inventory.zones else ""
    classes = count_text(len(inventory.storage_classes), "StorageClass", "StorageClasses")
    kinds = listed(dict.fromkeys(_kind(item) for item in inventory.storage_classes), 3)
    of = f" of {kinds}" if kinds else ""
    return f"Kubernetes {_version(inventory)}: {text}, {classes}{of}."


def _kind(item: StorageClass) -> str:
    return item.provisioner if item.volumes.kind == "other" else item.volumes.kind


def summary(inventory: KubernetesInventory) -> tuple[str, ...]:
    """Return the headline, and what limits a measurement."""
    found = [headline(inventory)]
    default = _defaults(inventory)
    if len(default) > 1:
        names = listed(default)
        found.append(f"{names} are all default classes; Kubernetes uses the newest.")
    for cluster in inventory.ceph_clusters:
        if cluster.health and cluster.health != "HEALTH_OK":
            found.append(f"Ceph in {cluster.namespace}: {cluster.health}.")
    return tuple(found)


def _defaults(inventory: KubernetesInventory) -> list[str]:
    return [item.name for item in inventory.storage_classes if item.default]


def _tiles(inventory: KubernetesInventory) -> Iterator[Tile]:
    """Yield nodes, their resources, StorageClasses, and what provides the volumes."""
    nodes = inventory.nodes
    away = [node for node in nodes if node.ready is False or node in _silent(nodes)]
    zones = count_text(len(inventory.zones), "zone") if inventory.zones else "no zone labels"
    yield Tile(
        title="Nodes",
        unit="ready",
        value=f"{len(nodes) - len(away):,} of {len(nodes):,}",
        verdict="warning" if away else "",
        note=f"{zones}.",
    )
    cores = sum(_cores(node) or 0 for node in nodes)
    memory = sum(node.memory_bytes or 0 for node in nodes)
    yield Tile(
        title="Processors",
        unit="for pods",
        value=f"{cores:,.6g}" if cores else "?",
        verdict="",
        note=f"{format_size(memory)} of memory." if memory else "Memory unknown.",
    )
    default = listed(map(short, _defaults(inventory)), 2)
    yield Tile(
        title="StorageClasses",
        unit="",
        value=f"{len(inventory.storage_classes):,}",
        verdict="",
        note=f"Default: {default or 'none'}.",
    )
    gaps = f"{count_text(len(inventory.gaps), 'object')} not seen"
    yield Tile(
        title="CSI drivers",
        unit="",
        value=f"{len(inventory.csi_drivers):,}",
        verdict="warning" if inventory.gaps else "",
        note=f"{gaps}." if inventory.gaps else "",
    )


def _cores(node: Node) -> float | None:
    return node.cpu if node.cpu_allocatable is None else node.cpu_allocatable


def _topology(inventory: KubernetesInventory) -> Section:
    """Draw the nodes by zone next to the state of the cluster."""
    if not inventory.nodes:
        return section("Topology", "topology")
    state = facts_table("state", kubernetes_rows(inventory)[1:])
    parts: list[tuple[str, tuple[Block, ...]]] = [("Nodes by zone", (draw_nodes(inventory),))]
    parts += [("State", (state,))] if state else []
    zones = len(inventory.zones)
    result = count_text(len(inventory.nodes), "node")
    result += f" in {count_text(zones, 'zone')}" if zones else ""
    return section("Topology", "topology", Columns(parts=tuple(parts)), result=result)


def draw_nodes(inventory: KubernetesInventory, *, marked: bool = False) -> Tree:
    """Draw the nodes in their zones; `marked` zones stand out."""
    zones: dict[str, list[Branch]] = {}
    for node in sorted(inventory.nodes, key=lambda node: natural(node.name)):
        zones.setdefault(node.zone, []).append(_box(node))
    roots = tuple(
        Branch(
            label=f"zone {name}" if name else "without zone",
            note=count_text(len(boxes), "node"),
            below=tuple(boxes),
            strong=marked,
        )
        for name, boxes in sorted(zones.items())
    )
    return Tree(caption="Nodes by zone", roots=cut_boxes(roots), boxes=True)


def _box(node: Node) -> Branch:
    cores, memory = _cores(node), node.memory_bytes
    known = [
        "" if cores is None else f"{cores:g} CPU",
        "" if memory is None else format_size(memory),
    ]
    away = "not ready" if node.ready is False else "" if node.schedulable else "no new pods"
    value = away or ", ".join(filter(None, known))
    return Branch(label=node.name, value=value, shade=-1.0 if away else None)


def kubernetes_rows(inventory: KubernetesInventory) -> tuple[tuple[str, str], ...]:
    """Return the cluster and its state at the capture as (property, text)."""
    rows = [("Kubernetes", headline(inventory))]
    for what, operator in (("KubeVirt", inventory.kubevirt), ("CDI", inventory.cdi)):
        if operator:
            version = operator.version or "of unknown version"
            rows.append((what, f"{version}{state_note(operator.phase, 'Deployed')}"))
    rows += [
        (
            f"Ceph in {cluster.namespace}",
            ", ".join(filter(None, (cluster.version or cluster.image, cluster.health))),
        )
        for cluster in inventory.ceph_clusters
    ]
    nodes = inventory.nodes
    away = [node.name for node in nodes if node.ready is False]
    cordoned = [node.name for node in nodes if not node.schedulable]
    rows += [
        ("not ready", listed(away)),
        ("readiness unknown", listed([node.name for node in _silent(nodes)])),
        ("no new pods", listed(cordoned)),
        ("system", _values(nodes, lambda node: node.os_image)),
        ("container runtime", _values(nodes, lambda node: node.runtime)),
        ("architecture", _values(nodes, lambda node: node.architecture)),
        ("huge pages", _values(nodes, _hugepages)),
    ]
    return tuple((name, text) for name, text in rows if text)


_BINDINGS = {"WaitForFirstConsumer": "first pod", "Immediate": "at once"}


def _classes(inventory: KubernetesInventory) -> Section:
    classes = inventory.storage_classes
    if not classes:
        return section("StorageClasses", "storage-classes", "None, or none could be read.")
    shown = records_table(
        "storage-classes",
        classes,
        ("class", lambda item: item.name + (" (default)" if item.default else "")),
        ("volumes", _kind),
        (Column(title="of", rank=1), _of),
        (Column(title="binding", rank=2), lambda item: _BINDINGS.get(item.binding, item.binding)),
        (Column(title="reclaim", rank=3), lambda item: item.reclaim.lower()),
        (Column(title="grows", rank=4), lambda item: "yes" if item.expansion else "no"),
    )
    properties = facts_table(
        "class-properties",
        ((item.name, "; ".join(matters(item))) for item in classes),
        "Properties that affect I/O",
    )
    default = listed(short(item.name) for item in classes if item.default)
    result = f"{len(classes):,}, {f'{default} is the default' if default else 'no default'}"
    return section("StorageClasses", "storage-classes", shown, properties, result=result)


def _of(item: StorageClass) -> str:
    """The pool or path of the data."""
    volumes = item.volumes
    if isinstance(volumes, CephVolumes):
        pool = volumes.data_pool or volumes.pool
        if volumes.kind == "cephfs":
            return volumes.fs_name + (f" / {pool}" if pool else "")
        return pool
    if isinstance(volumes, ZfsVolumes):
        return volumes.pool
    if isinstance(volumes, LocalVolumes):
        return volumes.path
    return ""


def matters(item: StorageClass) -> list[str]:
    """List the properties that affect I/O, in the same words for every driver."""
    volumes = item.volumes
    found: list[str] = []
    if isinstance(volumes, CephVolumes):
        found = _ceph_matters(volumes)
    elif isinstance(volumes, MayastorVolumes):
        found = [
            count_text(volumes.replicas or 1, "replica"),
            volumes.protocol,
            "thin" if volumes.thin else "thick",
            "encrypted" if volumes.encrypted else "",
        ]
    elif isinstance(volumes, ZfsVolumes):
        found = [
            volumes.layout,
            f"recordsize {volumes.record_size}" if volumes.record_size else "",
            f"volblocksize {volumes.block_size}" if volumes.block_size else "",
            f"compression {volumes.compression}" if volumes.compression else "",
            "dedup" if volumes.dedup == "on" else "",
            "thin" if volumes.thin else "",
        ]
    elif isinstance(volumes, LonghornVolumes):
        copies = "" if volumes.replicas is None else count_text(volumes.replicas, "replica")
        locality = volumes.data_locality
        found = [
            f"engine {volumes.data_engine}",
            copies,
            f"data locality {locality}" if locality else "",
            "encrypted" if volumes.encrypted else "",
        ]
    found.append(getattr(volumes, "fs_type", ""))
    if item.mount_options:
        found.append(f"mounted {','.join(item.mount_options)}")
    if item.default_virt:
        found.append("default for virtual machines")
    return [value for value in found if value]


def _ceph_matters(volumes: CephVolumes) -> list[str]:
    affinity = volumes.read_affinity
    near = "reads near copies" if affinity is not None and affinity.enabled else ""
    keys = [f"KMS {volumes.kms_id}" if volumes.kms_id else "", volumes.kms_provider]
    keys.append(f"keys rotated {volumes.key_rotation}" if volumes.key_rotation else "")
    kms = f" ({', '.join(filter(None, keys))})" if any(keys) else ""
    data = f"metadata in {volumes.pool}" if volumes.data_pool else ""
    return [
        volumes.mounter.value,
        data,
        ", ".join(volumes.image_features.split(",")),
        volumes.map_options,
        volumes.stripe,
        f"encrypted{kms}" if volumes.encrypted else "",
        near,
    ]


def _nodes(inventory: KubernetesInventory) -> Section:
    nodes = inventory.nodes
    if not nodes:
        return section("Nodes", "nodes", "None could be read.")
    shown = records_table(
        "nodes",
        nodes[:_NODES_SHOWN],
        ("node", lambda node: node.name),
        ("zone", lambda node: node.zone),
        (Column(title="type", rank=2), lambda node: node.instance_type),
        (number_column("processors"), lambda node: _part(node.cpu_allocatable, node.cpu)),
        (
            number_column("memory"),
            lambda node: "" if node.memory_bytes is None else format_size(node.memory_bytes),
        ),
        (Column(title="kernel", rank=1), lambda node: node.kernel),
        (Column(title="kubelet", rank=4), lambda node: node.kubelet),
        (Column(title="state", rank=3), _node_state),
    )
    more = len(nodes) - _NODES_SHOWN
    rest = f"{more:,} more are not listed; --format json does." if more > 0 else None
    ready = sum(node.ready is True for node in nodes)
    known = any(node.ready is not None for node in nodes)
    result = f"{ready:,} of {len(nodes):,} ready" if known else f"{len(nodes):,}"
    return section("Nodes", "nodes", shown, rest, result=result)


def _silent(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of unknown readiness; none where no node's is known, as in a capture
    without conditions."""
    if all(node.ready is None for node in nodes):
        return []
    return [node for node in nodes if node.ready is None]


def _node_state(node: Node) -> str:
    ready = {True: "ready", False: "not ready", None: ""}[node.ready]
    states = (ready, listed(node.roles), "" if node.schedulable else "no new pods")
    return ", ".join(filter(None, states))


def _part(allocatable: float | None, capacity: float | None) -> str:
    """Format `15.5 of 16`, the share for pods."""
    if capacity is None:
        return ""
    if allocatable is None or allocatable == capacity:
        return f"{capacity:g}"
    return f"{allocatable:g} of {capacity:g}"


def _hugepages(node: Node) -> str:
    return format_size(node.hugepages_bytes) if node.hugepages_bytes else ""


def _values(nodes: Sequence[Node], text: Callable[[Node], str]) -> str:
    """List the values, with counts of nodes where there are several."""
    counts = Counter(filter(None, map(text, nodes)))
    if len(counts) == 1:
        return next(iter(counts))
    return listed(f"{value} ({count})" for value, count in sorted(counts.items()))


def _drivers(inventory: KubernetesInventory) -> Section:
    pairs = [
        (driver.name, _driver(driver.nodes, driver.attach_required, driver.storage_capacity))
        for driver in inventory.csi_drivers
    ]
    for workload in inventory.workloads:
        images = listed(image.rpartition("/")[2] for image in workload.images)
        pairs.append((workload.name, images + _ready(workload.ready, workload.wanted)))
    heading, result = "Drivers and their versions", f"{len(inventory.csi_drivers):,} of CSI"
    return section(heading, "drivers", facts_table("drivers-facts", pairs), result=result)


def _driver(nodes: int | None, attach: bool, capacity: bool) -> str:
    parts = [] if nodes is None else [f"CSI driver on {count_text(nodes, 'node')}"]
    parts += ["volumes are attached"] if attach else ["no attaching"]
    parts += ["reports its free capacity"] if capacity else []
    return ", ".join(parts)


def _ready(ready: int | None, wanted: int | None) -> str:
    if wanted is None or ready == wanted:
        return ""
    return f", {ready or 0} of {wanted} ready"


def _ceph(inventory: KubernetesInventory, source: str) -> Iterator[Section]:
    if inventory.ceph is not None:
        document = inventory_document(inventory.ceph, source)
        yield section(
            document.summary[0],
            "ceph",
            *document.front,
            bullets(document.summary[1:]),
            sections=document.sections,
        )


def gaps_section(inventory: KubernetesInventory) -> Section:
    rows = [(gap.what, gap.reason) for gap in inventory.gaps]
    shown = table("gaps", ("not seen", "reason"), rows) if rows else None
    return section("Not seen", "gaps", shown, result=count_text(len(rows), "kind"))
