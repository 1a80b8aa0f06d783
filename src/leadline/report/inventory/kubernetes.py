"""A Kubernetes cluster's inventory as a document for a terminal or a wiki."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from leadline.inventory.kubernetes.models import KubernetesInventory, Node
from leadline.inventory.kubernetes.volumes import (
    CephVolumes,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    StorageClass,
    ZfsVolumes,
)
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    KeyValues,
    Kind,
    Paragraph,
    Section,
    Table,
)
from leadline.report.inventory.kubernetes_storage import storage_sections
from leadline.report.inventory.page import inventory_document
from leadline.report.wording import count_text, listed, visible
from leadline.units import format_size

_NODES_SHOWN = 40
_UNTOLD = "–"


def kubernetes_document(inventory: KubernetesInventory, source: str) -> Document:
    """StorageClasses first, since they are what is asked for; `source` says where the objects are
    from."""
    sections = [
        _classes(inventory),
        *storage_sections(inventory),
        _nodes(inventory),
        *_drivers(inventory),
        *_ceph(inventory, source),
        *gaps_section(inventory),
    ]
    return Document(
        title=f"Kubernetes {_version(inventory)} · {_extent(inventory)}",
        subtitle=f"{_identity(inventory)} · {visible(source)}",
        summary=summary(inventory),
        sections=tuple(sections),
    )


def _version(inventory: KubernetesInventory) -> str:
    """The API server's, else that of the kubelets, which may not be newer."""
    if inventory.version:
        text = visible(inventory.version)
    else:
        kubelets = sorted({node.kubelet for node in inventory.nodes if node.kubelet})
        told = listed(visible(one) for one in kubelets)
        text = f"with kubelets {told}" if told else "of unknown version"
    return f"{text}, OpenShift {visible(inventory.openshift)}" if inventory.openshift else text


def _extent(inventory: KubernetesInventory) -> str:
    text = count_text(len(inventory.nodes), "node")
    zones = len(inventory.zones)
    text += f" in {count_text(zones, 'zone')}" if zones else ""
    return (
        f"{text} · {count_text(len(inventory.storage_classes), 'StorageClass', 'StorageClasses')}"
    )


def _identity(inventory: KubernetesInventory) -> str:
    return (
        f"cluster {visible(inventory.uid)}" if inventory.uid else "cluster without known identity"
    )


def summary(inventory: KubernetesInventory) -> tuple[str, ...]:
    """What a reader should know first, as sentences."""
    found = []
    if inventory.gaps:
        number = count_text(len(inventory.gaps), "thing")
        found.append(f"{number} could not be seen; Not seen, below, says what and why.")
    away = [node.name for node in inventory.nodes if node.ready is False]
    if away:
        found.append(f"Not ready: {listed(visible(name) for name in away)}.")
    cordoned = [node.name for node in inventory.nodes if not node.schedulable]
    if cordoned:
        found.append(f"No new pods on {listed(visible(name) for name in cordoned)}.")
    default = [one.name for one in inventory.storage_classes if one.default]
    if len(default) > 1:
        names = listed(visible(name) for name in default)
        found.append(f"{names} are all default classes; the newest is taken.")
    elif inventory.storage_classes:
        named = visible(default[0]) if default else "none"
        found.append(f"The default class: {named}.")
    for what, operator in (("KubeVirt", inventory.kubevirt), ("CDI", inventory.cdi)):
        if operator:
            version = visible(operator.version) or "of unknown version"
            found.append(f"{what} {version}{_phase(operator.phase, 'Deployed')}.")
    for cluster in inventory.ceph_clusters:
        if cluster.health and cluster.health != "HEALTH_OK":
            found.append(f"Ceph in {visible(cluster.namespace)}: {visible(cluster.health)}.")
    return tuple(found)


def _phase(phase: str, usual: str) -> str:
    return f", {visible(phase)}" if phase and phase != usual else ""


# --- StorageClasses ------------------------------------------------------------------------------

_CLASS_COLUMNS = (
    Column(title="class"),
    Column(title="volumes"),
    Column(title="of", rank=1),
    Column(title="binding", rank=2),
    Column(title="reclaim", rank=3),
    Column(title="grows", rank=4),
)


def _classes(inventory: KubernetesInventory) -> Section:
    rows = tuple(
        tuple(Cell(text=text or _UNTOLD) for text in _class(one))
        for one in inventory.storage_classes
    )
    if not rows:
        nothing = Paragraph(text="There are none, or none could be seen.")
        return Section(heading="StorageClasses", id="storage-classes", blocks=(nothing,))
    blocks: list[Block] = [
        Table(id="storage-classes", caption="", columns=_CLASS_COLUMNS, rows=rows)
    ]
    told = tuple(
        (visible(one.name), said)
        for one in inventory.storage_classes
        if (said := "; ".join(matters(one)))
    )
    if told:
        blocks += [Paragraph(text="What matters of each:"), KeyValues(pairs=told)]
    return Section(heading="StorageClasses", id="storage-classes", blocks=tuple(blocks))


def _class(item: StorageClass) -> tuple[str, ...]:
    name = visible(item.name) + (" (default)" if item.default else "")
    kind = item.volumes.kind
    return (
        name,
        visible(item.provisioner) if kind == "other" else kind,
        _of(item),
        {"WaitForFirstConsumer": "first pod", "Immediate": "at once"}.get(
            item.binding, visible(item.binding)
        ),
        visible(item.reclaim).lower(),
        "yes" if item.expansion else "no",
    )


def _of(item: StorageClass) -> str:
    """Where the data lies."""
    volumes = item.volumes
    if isinstance(volumes, CephVolumes):
        pool = volumes.data_pool or volumes.pool
        if volumes.kind == "cephfs":
            return visible(volumes.fs_name + (f" / {pool}" if pool else ""))
        return visible(pool)
    if isinstance(volumes, ZfsVolumes):
        return visible(volumes.pool)
    if isinstance(volumes, LocalVolumes):
        return visible(volumes.path)
    return ""


def matters(item: StorageClass) -> list[str]:
    """What bears on I/O, in short; the same words for every driver."""
    volumes = item.volumes
    found: list[str] = []
    if isinstance(volumes, CephVolumes):
        found = _ceph_matters(volumes)
    elif isinstance(volumes, MayastorVolumes):
        found = [
            count_text(volumes.replicas or 1, "replica"),
            visible(volumes.protocol),
            "thin" if volumes.thin else "thick",
            "encrypted" if volumes.encrypted else "",
        ]
    elif isinstance(volumes, ZfsVolumes):
        found = [
            volumes.layout,
            visible(f"recordsize {volumes.record_size}") if volumes.record_size else "",
            visible(f"volblocksize {volumes.block_size}") if volumes.block_size else "",
            visible(f"compression {volumes.compression}") if volumes.compression else "",
            "dedup" if volumes.dedup == "on" else "",
            "thin" if volumes.thin else "",
        ]
    elif isinstance(volumes, LonghornVolumes):
        copies = "" if volumes.replicas is None else count_text(volumes.replicas, "replica")
        locality = volumes.data_locality
        found = [
            f"engine {visible(volumes.data_engine)}",
            copies,
            f"data locality {visible(locality)}" if locality else "",
            "encrypted" if volumes.encrypted else "",
        ]
    fs_type = getattr(volumes, "fs_type", "")
    found.append(visible(fs_type))
    if item.mount_options:
        found.append(f"mounted {visible(','.join(item.mount_options))}")
    if item.default_virt:
        found.append("default for virtual machines")
    return [one for one in found if one]


def _ceph_matters(volumes: CephVolumes) -> list[str]:
    affinity = volumes.read_affinity
    near = "reads near copies" if affinity is not None and affinity.enabled else ""
    kms = f" (KMS {visible(volumes.kms_id)})" if volumes.kms_id else ""
    data = f"metadata in {visible(volumes.pool)}" if volumes.data_pool else ""
    return [
        volumes.mounter.value,
        data,
        visible(", ".join(volumes.image_features.split(","))),
        visible(volumes.map_options),
        visible(volumes.stripe),
        f"encrypted{kms}" if volumes.encrypted else "",
        near,
    ]


# --- nodes and drivers ---------------------------------------------------------------------------

_NODE_COLUMNS = (
    Column(title="node"),
    Column(title="zone"),
    Column(title="type", rank=2),
    Column(title="processors", kind=Kind.NUMBER),
    Column(title="memory", kind=Kind.NUMBER),
    Column(title="kernel", rank=1),
    Column(title="kubelet", rank=4),
    Column(title="state", rank=3),
)


def _nodes(inventory: KubernetesInventory) -> Section:
    nodes = inventory.nodes
    if not nodes:
        text = Paragraph(text="None could be seen.")
        return Section(heading="Nodes", id="nodes", blocks=(text,))
    rows = tuple(
        tuple(Cell(text=text or _UNTOLD) for text in _node(node)) for node in nodes[:_NODES_SHOWN]
    )
    table = Table(id="nodes", caption="", columns=_NODE_COLUMNS, rows=rows)
    pairs = [
        ("system", _values(nodes, lambda node: node.os_image)),
        ("container runtime", _values(nodes, lambda node: node.runtime)),
        ("architecture", _values(nodes, lambda node: node.architecture)),
        ("huge pages", _values(nodes, _hugepages)),
    ]
    known = KeyValues(pairs=tuple((key, text) for key, text in pairs if text))
    more = len(nodes) - _NODES_SHOWN
    rest = (Paragraph(text=f"{more:,} more are not listed; --format json does."),)
    blocks = (table, *(rest if more > 0 else ()), known)
    return Section(heading="Nodes", id="nodes", blocks=blocks)


def _node(node: Node) -> tuple[str, ...]:
    roles = listed(visible(role) for role in node.roles)
    states = [{True: "ready", False: "not ready", None: ""}[node.ready], roles]
    states += [] if node.schedulable else ["no new pods"]
    return (
        visible(node.name),
        visible(node.zone),
        visible(node.instance_type),
        _part(node.cpu_allocatable, node.cpu),
        "" if node.memory_bytes is None else format_size(node.memory_bytes),
        visible(node.kernel),
        visible(node.kubelet),
        ", ".join(one for one in states if one),
    )


def _part(allocatable: float | None, capacity: float | None) -> str:
    """`15.5 of 16`: what pods may have."""
    if capacity is None:
        return ""
    if allocatable is None or allocatable == capacity:
        return f"{capacity:g}"
    return f"{allocatable:g} of {capacity:g}"


def _hugepages(node: Node) -> str:
    return format_size(node.hugepages_bytes) if node.hugepages_bytes else ""


def _values(nodes: Sequence[Node], text: Callable[[Node], str]) -> str:
    """Different values with how many nodes have each, where there are several."""
    counts: dict[str, int] = {}
    for node in nodes:
        if text(node):
            counts[text(node)] = counts.get(text(node), 0) + 1
    if len(counts) == 1:
        return visible(next(iter(counts)))
    return listed(f"{visible(value)} ({count})" for value, count in sorted(counts.items()))


def _drivers(inventory: KubernetesInventory) -> tuple[Section, ...]:
    pairs = [
        (visible(one.name), _driver(one.nodes, one.attach_required, one.storage_capacity))
        for one in inventory.csi_drivers
    ]
    pairs += [
        (visible(one.name), listed(_images(one.images)) + _ready(one.ready, one.wanted))
        for one in inventory.workloads
    ]
    if not pairs:
        return ()
    blocks = (KeyValues(pairs=tuple(pairs)),)
    return (Section(heading="Drivers and their versions", id="drivers", blocks=blocks),)


def _driver(nodes: int | None, attach: bool, capacity: bool) -> str:
    said = [] if nodes is None else [f"CSI driver on {count_text(nodes, 'node')}"]
    said += ["volumes are attached"] if attach else ["no attaching"]
    said += ["tells its free capacity"] if capacity else []
    return ", ".join(said)


def _images(images: Iterable[str]) -> Iterable[str]:
    return (visible(image.rpartition("/")[2]) for image in images)


def _ready(ready: int | None, wanted: int | None) -> str:
    if wanted is None or ready == wanted:
        return ""
    return f", {ready or 0} of {wanted} ready"


# --- Ceph itself, and what was not seen ----------------------------------------------------------


def _ceph(inventory: KubernetesInventory, source: str) -> tuple[Section, ...]:
    """Ceph's own inventory as sections of this one."""
    if inventory.ceph is None:
        return ()
    document = inventory_document(inventory.ceph, source)
    return (
        Section(
            heading=document.title,
            id="ceph",
            blocks=(Bullets(items=document.summary),),
            sections=document.sections,
        ),
    )


def gaps_section(inventory: KubernetesInventory) -> tuple[Section, ...]:
    """What could not be seen, and why; none where all was."""
    if not inventory.gaps:
        return ()
    items = tuple(f"{visible(one.what)}: {visible(one.reason)}" for one in inventory.gaps)
    return (Section(heading="Not seen", id="gaps", blocks=(Bullets(items=items),)),)
