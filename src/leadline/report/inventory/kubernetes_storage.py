"""What makes the volumes of a Kubernetes cluster, as sections of its inventory."""

from __future__ import annotations

from leadline.inventory.differences.rook import (
    between,
    device_sets_text,
    failure_domain_text,
    network_text,
    redundancy,
    resources_text,
)
from leadline.inventory.kubernetes.models import IoEngine, KubernetesInventory
from leadline.inventory.kubernetes.rook_models import (
    CephCluster,
    CephFilesystem,
    DeviceSet,
    Network,
    PoolSpec,
    Resources,
    StorageCluster,
)
from leadline.report.document import Block, Cell, Column, KeyValues, Kind, Section, Table
from leadline.report.wording import count_text, listed, visible
from leadline.units import format_size

Pairs = list[tuple[str, str]]


def storage_sections(inventory: KubernetesInventory) -> tuple[Section, ...]:
    """One section for each system that is there."""
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
    name = f"OpenShift Data Foundation {visible(cluster.version)}".rstrip()
    pairs: Pairs = [
        ("name", _named(cluster.namespace, cluster.name, cluster.phase)),
        ("failure domain", failure_domain_text(cluster) or "not told"),
        ("device sets", device_sets_text(cluster.device_sets)),
        ("resources of an OSD", _osd(cluster.device_sets)),
        ("resource profile", visible(cluster.resource_profile) or "not set"),
        ("encryption at rest", _encrypted(cluster.encrypted, cluster.kms)),
        ("network", _network(cluster.network, host=cluster.host_network)),
        ("arbiter", "yes" if cluster.arbiter else ""),
        ("flexible scaling", "yes" if cluster.flexible_scaling else ""),
        ("external", "yes" if cluster.external else ""),
        *_resources(cluster.resources),
    ]
    return _section(name, f"odf-{number}", pairs)


def _osd(sets: tuple[DeviceSet, ...]) -> str:
    return "; ".join(dict.fromkeys(resources_text(one.osd) for one in sets if one.osd))


def _encrypted(on: bool | None, kms: bool) -> str:
    if on is None:
        return "not told"
    return ("on, keys in a KMS" if kms else "on") if on else "off"


def _ceph_cluster(number: int, cluster: CephCluster) -> Section:
    title = f"Rook's Ceph {visible(cluster.version) or visible(cluster.image)}".rstrip()
    near = {True: "on", False: "off", None: ""}[cluster.read_affinity]
    labels = listed(visible(label) for label in cluster.read_affinity_labels)
    pairs: Pairs = [
        ("name", _named(cluster.namespace, cluster.name, cluster.phase)),
        ("health", visible(cluster.health)),
        ("external", "yes" if cluster.external else ""),
        ("monitors", "" if cluster.monitors is None else str(cluster.monitors)),
        ("zones of monitors", listed(visible(zone) for zone in cluster.zones)),
        ("device sets", device_sets_text(cluster.device_sets)),
        ("resources of an OSD", _osd(cluster.device_sets)),
        ("device classes", listed(visible(one) for one in cluster.device_classes)),
        ("encryption at rest", _encrypted(cluster.encrypted, bool(cluster.kms))),
        ("network", _network(cluster.network)),
        ("read affinity", f"{near} ({labels})" if near and labels else near),
        ("CephFS mounts", visible(cluster.kernel_mount_options or cluster.fuse_mount_options)),
        *_resources(cluster.resources),
    ]
    return _section(title, f"rook-{number}", pairs)


def _network(network: Network, *, host: bool = False) -> str:
    text = network_text(network)
    if host and not network.provider:
        text = "host"
    for what, on in (("encrypted", network.encrypted), ("compressed", network.compressed)):
        if on is not None:
            text += f", {what}" if on else f", not {what}"
    return text + (", messenger v2 only" if network.require_msgr2 else "")


def _resources(given: tuple[Resources, ...]) -> Pairs:
    return [(f"resources of {visible(one.daemon)}", resources_text(one)) for one in given]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _size(value: int | None) -> str:
    return "–" if value is None else format_size(value)


_POOL_COLUMNS = (
    Column(title="pool"),
    Column(title="copies"),
    Column(title="apart by"),
    Column(title="class"),
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
    cells = tuple(tuple(Cell(text=visible(text) or "–") for text in row) for row in rows)
    blocks: list[Block] = [Table(id="rook-pools", caption="", columns=_POOL_COLUMNS, rows=cells)]
    servers = tuple((f"MDS of {visible(one.name)}", _servers(one)) for one in inventory.filesystems)
    if servers:
        blocks.append(KeyValues(pairs=servers))
    heading = "Pools that Rook is told to make"
    return (Section(heading=heading, id="rook-pools", blocks=tuple(blocks)),)


def _servers(filesystem: CephFilesystem) -> str:
    active = "–" if filesystem.active_mds is None else str(filesystem.active_mds)
    text = f"{active} active" + (", each with a hot standby" if filesystem.active_standby else "")
    given = filesystem.mds_resources
    return text + (f"; {resources_text(given)}" if given else "")


def _pool(spec: PoolSpec) -> tuple[str, str, str, str]:
    domain = spec.failure_domain
    domain += f", within by {spec.sub_failure_domain}" if spec.sub_failure_domain else ""
    return redundancy(spec), domain, spec.device_class or "any", spec.compression or "none"


_DISK_COLUMNS = (
    Column(title="disk pool"),
    Column(title="node"),
    Column(title="disks", rank=1),
    Column(title="capacity", kind=Kind.NUMBER),
    Column(title="used", kind=Kind.NUMBER),
    Column(title="status"),
)


def _mayastor(inventory: KubernetesInventory) -> tuple[Section, ...]:
    if not inventory.io_engines and not inventory.disk_pools:
        return ()
    blocks: list[Block] = []
    for engine in inventory.io_engines:
        blocks.append(KeyValues(pairs=tuple(_engine(engine))))
    rows = tuple(
        tuple(
            Cell(text=visible(text) or "–")
            for text in (
                one.name,
                one.node,
                listed(one.disks),
                _size(one.capacity_bytes),
                _size(one.used_bytes),
                one.status + (", encrypted" if one.encrypted else ""),
            )
        )
        for one in inventory.disk_pools
    )
    if rows:
        blocks.append(Table(id="disk-pools", caption="", columns=_DISK_COLUMNS, rows=rows))
    return (Section(heading="OpenEBS Mayastor", id="mayastor", blocks=tuple(blocks)),)


def _engine(engine: IoEngine) -> Pairs:
    cores = listed((str(core) for core in engine.cores), 16)
    polled = f"{count_text(len(engine.cores), 'core')} ({cores}), polled without pause"
    version = engine.image.rpartition("/")[2]
    return [
        ("io-engine", visible(version)),
        ("cores", polled if engine.cores else "its arguments do not say"),
        ("processors", between(_plain(engine.cpu_request), _plain(engine.cpu_limit))),
        ("huge pages", _size(engine.hugepages_bytes)),
        ("nodes", f"{engine.ready or 0} of {engine.wanted or 0} ready"),
    ]


_ZFS_COLUMNS = (
    Column(title="node"),
    Column(title="pool"),
    Column(title="free", kind=Kind.NUMBER),
)


def _zfs(inventory: KubernetesInventory) -> tuple[Section, ...]:
    rows = tuple(
        tuple(Cell(text=visible(text)) for text in (one.node, one.name, _size(one.free_bytes)))
        for one in inventory.zfs_pools
    )
    if not rows:
        return ()
    table = Table(id="zfs-pools", caption="", columns=_ZFS_COLUMNS, rows=rows)
    return (Section(heading="ZFS LocalPV", id="zfs", blocks=(table,)),)


def _longhorn(inventory: KubernetesInventory) -> tuple[Section, ...]:
    longhorn = inventory.longhorn
    if longhorn is None:
        return ()
    kinds = listed(visible(kind) for kind in longhorn.kinds)
    disks = f"{count_text(longhorn.disks, 'disk')} ({kinds})" if kinds else "no disks"
    pairs: Pairs = [
        ("disks", f"{disks} in {count_text(longhorn.nodes, 'node')}"),
        *((visible(one.name), visible(one.value) or "not set") for one in longhorn.settings),
    ]
    return (_section(f"Longhorn {visible(longhorn.version)}".rstrip(), "longhorn", pairs),)


def _named(namespace: str, name: str, phase: str) -> str:
    text = f"{namespace}/{name}" + (f", {phase}" if phase and phase != "Ready" else "")
    return visible(text)


def _section(heading: str, anchor: str, pairs: Pairs) -> Section:
    """Facts that are known, and those alone."""
    known = tuple((key, text) for key, text in pairs if text)
    return Section(heading=heading, id=anchor, blocks=(KeyValues(pairs=known),))
