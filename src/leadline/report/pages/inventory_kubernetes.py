"""A Kubernetes cluster's inventory as a document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from leadline.inventory.diff.kubernetes import (
    format_device_sets,
    format_failure_domain,
    format_network,
    format_range,
    format_redundancy,
    format_resources,
)
from leadline.inventory.kubernetes.models import (
    CephCluster,
    CephFilesystem,
    CephVolumes,
    DeviceSet,
    IoEngine,
    KubernetesInventory,
    LocalVolumes,
    LonghornVolumes,
    MayastorVolumes,
    Network,
    Node,
    PoolSpec,
    Resources,
    StorageClass,
    StorageCluster,
    ZfsVolumes,
)
from leadline.report.cells import number_column, table
from leadline.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    KeyValues,
    Paragraph,
    Section,
)
from leadline.report.pages.inventory import inventory_document
from leadline.report.words import count_text, listed
from leadline.units import format_size

Pairs = list[tuple[str, str]]


def storage_sections(inventory: KubernetesInventory) -> tuple[Section, ...]:
    """Build a section for each storage system of the cluster."""
    sections = [
        *(_storage_cluster(n, one) for n, one in enumerate(inventory.storage_clusters, 1)),
        *(_ceph_cluster(n, one) for n, one in enumerate(inventory.ceph_clusters, 1)),
        *_pools(inventory),
        *_mayastor(inventory),
        *_zfs(inventory),
        *_longhorn(inventory),
    ]
    return tuple(sections)


def _storage_cluster(number: int, cluster: StorageCluster) -> Section:
    name = f"OpenShift Data Foundation {cluster.version}".rstrip()
    pairs: Pairs = [
        ("name", _named(cluster.namespace, cluster.name, cluster.phase)),
        ("failure domain", format_failure_domain(cluster) or "unknown"),
        ("device sets", format_device_sets(cluster.device_sets)),
        ("resources of an OSD", _osd(cluster.device_sets)),
        ("resource profile", cluster.resource_profile or "not set"),
        ("encryption at rest", _encrypted(cluster.encrypted, cluster.kms)),
        ("network", _network(cluster.network, host=cluster.host_network)),
        ("arbiter", "yes" if cluster.arbiter else ""),
        ("flexible scaling", "yes" if cluster.flexible_scaling else ""),
        ("external", "yes" if cluster.external else ""),
        *_resources(cluster.resources),
    ]
    return _section(name, f"odf-{number}", pairs)


def _osd(sets: tuple[DeviceSet, ...]) -> str:
    return "; ".join(dict.fromkeys(format_resources(one.osd) for one in sets if one.osd))


def _encrypted(on: bool | None, kms: bool) -> str:
    if on is None:
        return "unknown"
    return ("on, keys in a KMS" if kms else "on") if on else "off"


def _ceph_cluster(number: int, cluster: CephCluster) -> Section:
    title = f"Rook's Ceph {cluster.version or cluster.image}".rstrip()
    near = {True: "on", False: "off", None: ""}[cluster.read_affinity]
    labels = listed(cluster.read_affinity_labels)
    pairs: Pairs = [
        ("name", _named(cluster.namespace, cluster.name, cluster.phase)),
        ("health", cluster.health),
        ("external", "yes" if cluster.external else ""),
        ("monitors", "" if cluster.monitors is None else str(cluster.monitors)),
        ("zones of monitors", listed(cluster.zones)),
        ("device sets", format_device_sets(cluster.device_sets)),
        ("resources of an OSD", _osd(cluster.device_sets)),
        ("device classes", listed(cluster.device_classes)),
        ("encryption at rest", _encrypted(cluster.encrypted, bool(cluster.kms))),
        ("network", _network(cluster.network)),
        ("read affinity", f"{near} ({labels})" if near and labels else near),
        ("CephFS mounts", cluster.kernel_mount_options or cluster.fuse_mount_options),
        *_resources(cluster.resources),
    ]
    return _section(title, f"rook-{number}", pairs)


def _network(network: Network, *, host: bool = False) -> str:
    text = format_network(network)
    if host and not network.provider:
        text = "host"
    for what, on in (("encrypted", network.encrypted), ("compressed", network.compressed)):
        if on is not None:
            text += f", {what}" if on else f", not {what}"
    return text + (", messenger v2 only" if network.require_msgr2 else "")


def _resources(given: tuple[Resources, ...]) -> Pairs:
    return [(f"resources of {one.daemon}", format_resources(one)) for one in given]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _size(value: int | None) -> str:
    return "–" if value is None else format_size(value)


_POOL_COLUMNS = (
    "pool",
    "copies",
    "apart by",
    "class",
    Column(title="compression", rank=2),
    Column(title="for", rank=1),
    Column(title="phase", rank=3),
)


def _pools(inventory: KubernetesInventory) -> tuple[Section, ...]:
    rows = [
        (one.name, *_pool(one.spec), "rbd" + (", mirrored" if one.mirrored else ""), one.phase)
        for one in inventory.block_pools
    ]
    for filesystem in inventory.filesystems:
        use = f"cephfs {filesystem.name}"
        rows.append((f"{filesystem.name}-metadata", *_pool(filesystem.metadata_pool), use, ""))
        rows += [
            (pool.name, *_pool(pool.spec), use, filesystem.phase) for pool in filesystem.data_pools
        ]
    if not rows:
        return ()
    blocks: list[Block] = [table("rook-pools", _POOL_COLUMNS, rows)]
    servers = tuple((f"MDS of {one.name}", _servers(one)) for one in inventory.filesystems)
    if servers:
        blocks.append(KeyValues(pairs=servers))
    heading = "Pools configured in Rook"
    return (Section(heading=heading, id="rook-pools", blocks=tuple(blocks)),)


def _servers(filesystem: CephFilesystem) -> str:
    active = "–" if filesystem.active_mds is None else str(filesystem.active_mds)
    text = f"{active} active" + (", each with a hot standby" if filesystem.active_standby else "")
    given = filesystem.mds_resources
    return text + (f"; {format_resources(given)}" if given else "")


def _pool(spec: PoolSpec) -> tuple[str, str, str, str]:
    domain = spec.failure_domain
    domain += f", within by {spec.sub_failure_domain}" if spec.sub_failure_domain else ""
    return format_redundancy(spec), domain, spec.device_class or "any", spec.compression or "none"


_DISK_COLUMNS = (
    "disk pool",
    "node",
    Column(title="disks", rank=1),
    number_column("capacity"),
    number_column("used"),
    "status",
)


def _mayastor(inventory: KubernetesInventory) -> tuple[Section, ...]:
    if not inventory.io_engines and not inventory.disk_pools:
        return ()
    blocks: list[Block] = []
    for engine in inventory.io_engines:
        blocks.append(KeyValues(pairs=tuple(_engine(engine))))
    rows = [
        (
            pool.name,
            pool.node,
            listed(pool.disks),
            _size(pool.capacity_bytes),
            _size(pool.used_bytes),
            pool.status + (", encrypted" if pool.encrypted else ""),
        )
        for pool in inventory.disk_pools
    ]
    if rows:
        blocks.append(table("disk-pools", _DISK_COLUMNS, rows))
    return (Section(heading="OpenEBS Mayastor", id="mayastor", blocks=tuple(blocks)),)


def _engine(engine: IoEngine) -> Pairs:
    cores = listed((str(core) for core in engine.cores), 16)
    polled = f"{count_text(len(engine.cores), 'core')} ({cores}), polled without pause"
    version = engine.image.rpartition("/")[2]
    return [
        ("io-engine", version),
        ("cores", polled if engine.cores else "not in its arguments"),
        ("processors", format_range(_plain(engine.cpu_request), _plain(engine.cpu_limit))),
        ("huge pages", _size(engine.hugepages_bytes)),
        ("nodes", f"{engine.ready or 0} of {engine.wanted or 0} ready"),
    ]


def _zfs(inventory: KubernetesInventory) -> tuple[Section, ...]:
    rows = [(pool.node, pool.name, _size(pool.free_bytes)) for pool in inventory.zfs_pools]
    if not rows:
        return ()
    pools = table("zfs-pools", ("node", "pool", number_column("free")), rows)
    return (Section(heading="ZFS LocalPV", id="zfs", blocks=(pools,)),)


def _longhorn(inventory: KubernetesInventory) -> tuple[Section, ...]:
    longhorn = inventory.longhorn
    if longhorn is None:
        return ()
    kinds = listed(longhorn.kinds)
    disks = f"{count_text(longhorn.disks, 'disk')} ({kinds})" if kinds else "no disks"
    pairs: Pairs = [
        ("disks", f"{disks} in {count_text(longhorn.nodes, 'node')}"),
        *((one.name, one.value or "not set") for one in longhorn.settings),
    ]
    return (_section(f"Longhorn {longhorn.version}".rstrip(), "longhorn", pairs),)


def _named(namespace: str, name: str, phase: str) -> str:
    return f"{namespace}/{name}" + (f", {phase}" if phase and phase != "Ready" else "")


def _section(heading: str, anchor: str, pairs: Pairs) -> Section:
    """Build a section of the known facts."""
    known = tuple((key, text) for key, text in pairs if text)
    return Section(heading=heading, id=anchor, blocks=(KeyValues(pairs=known),))


_NODES_SHOWN = 40


def kubernetes_document(inventory: KubernetesInventory, source: str) -> Document:
    """Build the inventory with StorageClasses first; `source` names the origin of the objects."""
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
        subtitle=f"{_identity(inventory)} · {source}",
        summary=summary(inventory),
        sections=tuple(sections),
    )


def _version(inventory: KubernetesInventory) -> str:
    """The version of the API server, else that of the kubelets."""
    if inventory.version:
        text = inventory.version
    else:
        kubelets = sorted({node.kubelet for node in inventory.nodes if node.kubelet})
        text = f"with kubelets {listed(kubelets)}" if kubelets else "of unknown version"
    return f"{text}, OpenShift {inventory.openshift}" if inventory.openshift else text


def _extent(inventory: KubernetesInventory) -> str:
    text = count_text(len(inventory.nodes), "node")
    zones = len(inventory.zones)
    text += f" in {count_text(zones, 'zone')}" if zones else ""
    return (
        f"{text} · {count_text(len(inventory.storage_classes), 'StorageClass', 'StorageClasses')}"
    )


def _identity(inventory: KubernetesInventory) -> str:
    return f"cluster {inventory.uid}" if inventory.uid else "cluster without known identity"


def summary(inventory: KubernetesInventory) -> tuple[str, ...]:
    """Summarise the cluster in sentences."""
    found = []
    if inventory.gaps:
        number = count_text(len(inventory.gaps), "thing")
        found.append(f"{number} could not be read; see the section Not seen.")
    away = [node.name for node in inventory.nodes if node.ready is False]
    if away:
        found.append(f"Not ready: {listed(away)}.")
    cordoned = [node.name for node in inventory.nodes if not node.schedulable]
    if cordoned:
        found.append(f"No new pods on {listed(cordoned)}.")
    default = [one.name for one in inventory.storage_classes if one.default]
    if len(default) > 1:
        names = listed(default)
        found.append(f"{names} are all default classes; Kubernetes uses the newest.")
    elif inventory.storage_classes:
        named = default[0] if default else "none"
        found.append(f"The default class: {named}.")
    for what, operator in (("KubeVirt", inventory.kubevirt), ("CDI", inventory.cdi)):
        if operator:
            version = operator.version or "of unknown version"
            found.append(f"{what} {version}{_phase(operator.phase, 'Deployed')}.")
    for cluster in inventory.ceph_clusters:
        if cluster.health and cluster.health != "HEALTH_OK":
            found.append(f"Ceph in {cluster.namespace}: {cluster.health}.")
    return tuple(found)


def _phase(phase: str, usual: str) -> str:
    return f", {phase}" if phase and phase != usual else ""


_CLASS_COLUMNS = (
    "class",
    "volumes",
    Column(title="of", rank=1),
    Column(title="binding", rank=2),
    Column(title="reclaim", rank=3),
    Column(title="grows", rank=4),
)


def _classes(inventory: KubernetesInventory) -> Section:
    if not inventory.storage_classes:
        nothing = Paragraph(text="None, or none could be read.")
        return Section(heading="StorageClasses", id="storage-classes", blocks=(nothing,))
    blocks: list[Block] = [
        table("storage-classes", _CLASS_COLUMNS, map(_class, inventory.storage_classes))
    ]
    properties = tuple(
        (item.name, text)
        for item in inventory.storage_classes
        if (text := "; ".join(matters(item)))
    )
    if properties:
        blocks += [Paragraph(text="Properties that affect I/O:"), KeyValues(pairs=properties)]
    return Section(heading="StorageClasses", id="storage-classes", blocks=tuple(blocks))


def _class(item: StorageClass) -> tuple[str, ...]:
    name = item.name + (" (default)" if item.default else "")
    kind = item.volumes.kind
    return (
        name,
        item.provisioner if kind == "other" else kind,
        _of(item),
        {"WaitForFirstConsumer": "first pod", "Immediate": "at once"}.get(
            item.binding, item.binding
        ),
        item.reclaim.lower(),
        "yes" if item.expansion else "no",
    )


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
    fs_type = getattr(volumes, "fs_type", "")
    found.append(fs_type)
    if item.mount_options:
        found.append(f"mounted {','.join(item.mount_options)}")
    if item.default_virt:
        found.append("default for virtual machines")
    return [one for one in found if one]


def _ceph_matters(volumes: CephVolumes) -> list[str]:
    affinity = volumes.read_affinity
    near = "reads near copies" if affinity is not None and affinity.enabled else ""
    kms = f" (KMS {volumes.kms_id})" if volumes.kms_id else ""
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


_NODE_COLUMNS = (
    "node",
    "zone",
    Column(title="type", rank=2),
    number_column("processors"),
    number_column("memory"),
    Column(title="kernel", rank=1),
    Column(title="kubelet", rank=4),
    Column(title="state", rank=3),
)


def _nodes(inventory: KubernetesInventory) -> Section:
    nodes = inventory.nodes
    if not nodes:
        text = Paragraph(text="None could be read.")
        return Section(heading="Nodes", id="nodes", blocks=(text,))
    shown = table("nodes", _NODE_COLUMNS, map(_node, nodes[:_NODES_SHOWN]))
    pairs = [
        ("system", _values(nodes, lambda node: node.os_image)),
        ("container runtime", _values(nodes, lambda node: node.runtime)),
        ("architecture", _values(nodes, lambda node: node.architecture)),
        ("huge pages", _values(nodes, _hugepages)),
    ]
    known = KeyValues(pairs=tuple((key, text) for key, text in pairs if text))
    more = len(nodes) - _NODES_SHOWN
    rest = (Paragraph(text=f"{more:,} more are not listed; --format json does."),)
    blocks = (shown, *(rest if more > 0 else ()), known)
    return Section(heading="Nodes", id="nodes", blocks=blocks)


def _node(node: Node) -> tuple[str, ...]:
    roles = listed(node.roles)
    states = [{True: "ready", False: "not ready", None: ""}[node.ready], roles]
    states += [] if node.schedulable else ["no new pods"]
    return (
        node.name,
        node.zone,
        node.instance_type,
        _part(node.cpu_allocatable, node.cpu),
        "" if node.memory_bytes is None else format_size(node.memory_bytes),
        node.kernel,
        node.kubelet,
        ", ".join(one for one in states if one),
    )


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
    counts: dict[str, int] = {}
    for node in nodes:
        if text(node):
            counts[text(node)] = counts.get(text(node), 0) + 1
    if len(counts) == 1:
        return next(iter(counts))
    return listed(f"{value} ({count})" for value, count in sorted(counts.items()))


def _drivers(inventory: KubernetesInventory) -> tuple[Section, ...]:
    pairs = [
        (one.name, _driver(one.nodes, one.attach_required, one.storage_capacity))
        for one in inventory.csi_drivers
    ]
    pairs += [
        (one.name, listed(_images(one.images)) + _ready(one.ready, one.wanted))
        for one in inventory.workloads
    ]
    if not pairs:
        return ()
    blocks = (KeyValues(pairs=tuple(pairs)),)
    return (Section(heading="Drivers and their versions", id="drivers", blocks=blocks),)


def _driver(nodes: int | None, attach: bool, capacity: bool) -> str:
    parts = [] if nodes is None else [f"CSI driver on {count_text(nodes, 'node')}"]
    parts += ["volumes are attached"] if attach else ["no attaching"]
    parts += ["reports its free capacity"] if capacity else []
    return ", ".join(parts)


def _images(images: Iterable[str]) -> Iterable[str]:
    return (image.rpartition("/")[2] for image in images)


def _ready(ready: int | None, wanted: int | None) -> str:
    if wanted is None or ready == wanted:
        return ""
    return f", {ready or 0} of {wanted} ready"


def _ceph(inventory: KubernetesInventory, source: str) -> tuple[Section, ...]:
    """Include the inventory of a Ceph in the cluster."""
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
    """List what could not be read, with reasons."""
    if not inventory.gaps:
        return ()
    items = tuple(f"{one.what}: {one.reason}" for one in inventory.gaps)
    return (Section(heading="Not seen", id="gaps", blocks=(Bullets(items=items),)),)
