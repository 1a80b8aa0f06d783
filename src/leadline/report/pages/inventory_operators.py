"""The storage operators of a Kubernetes cluster as sections: Rook, Mayastor, ZFS, Longhorn."""

from __future__ import annotations

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
    DeviceSet,
    IoEngine,
    KubernetesInventory,
    Network,
    PoolSpec,
    Resources,
    StorageCluster,
)
from leadline.report.cells import (
    facts_table,
    number_column,
    records_table,
    section,
    table,
)
from leadline.report.document import (
    Column,
    Section,
)
from leadline.report.words import NOT_SHOWN, count_text, listed
from leadline.units import format_size

Pairs = list[tuple[str, str]]


def storage_sections(inventory: KubernetesInventory) -> tuple[Section, ...]:
    return with_content(
        *(_storage_cluster(n, one) for n, one in enumerate(inventory.storage_clusters, 1)),
        *(_ceph_cluster(n, one) for n, one in enumerate(inventory.ceph_clusters, 1)),
        _pools(inventory),
        _mayastor(inventory),
        _zfs(inventory),
        _longhorn(inventory),
    )


def with_content(*sections: Section) -> tuple[Section, ...]:
    return tuple(part for part in sections if part.blocks)


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
    return section(name, f"odf-{number}", facts_table(f"odf-{number}-facts", pairs))


def _osd(sets: tuple[DeviceSet, ...]) -> str:
    return "; ".join(
        dict.fromkeys(format_resources(device_set.osd) for device_set in sets if device_set.osd)
    )


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
    return section(title, f"rook-{number}", facts_table(f"rook-{number}-facts", pairs))


def _network(network: Network, *, host: bool = False) -> str:
    text = format_network(network)
    if host and not network.provider:
        text = "host"
    for what, on in (("encrypted", network.encrypted), ("compressed", network.compressed)):
        if on is not None:
            text += f", {what}" if on else f", not {what}"
    return text + (", messenger v2 only" if network.require_msgr2 else "")


def _resources(given: tuple[Resources, ...]) -> Pairs:
    return [
        (f"resources of {resources.daemon}", format_resources(resources)) for resources in given
    ]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _size(value: int | None) -> str:
    return NOT_SHOWN if value is None else format_size(value)


_POOL_COLUMNS = (
    *("pool", "copies", "apart by", "class"),
    *(Column(title="compression", rank=2), Column(title="for", rank=1)),
    Column(title="phase", rank=3),
)


def _pools(inventory: KubernetesInventory) -> Section:
    rows = [
        (pool.name, *_pool(pool.spec), "rbd" + (", mirrored" if pool.mirrored else ""), pool.phase)
        for pool in inventory.block_pools
    ]
    for filesystem in inventory.filesystems:
        use = f"cephfs {filesystem.name}"
        rows.append((f"{filesystem.name}-metadata", *_pool(filesystem.metadata_pool), use, ""))
        rows += [
            (pool.name, *_pool(pool.spec), use, filesystem.phase) for pool in filesystem.data_pools
        ]
    servers = facts_table(
        "mds",
        (
            (f"MDS of {filesystem.name}", _servers(filesystem))
            for filesystem in inventory.filesystems
        ),
    )
    return section(
        "Pools configured in Rook",
        "rook-pools",
        table("rook-pools", _POOL_COLUMNS, rows) if rows else None,
        servers,
    )


def _servers(filesystem: CephFilesystem) -> str:
    active = NOT_SHOWN if filesystem.active_mds is None else str(filesystem.active_mds)
    text = f"{active} active" + (", each with a hot standby" if filesystem.active_standby else "")
    given = filesystem.mds_resources
    return text + (f"; {format_resources(given)}" if given else "")


def _pool(spec: PoolSpec) -> tuple[str, str, str, str]:
    domain = spec.failure_domain
    domain += f", within by {spec.sub_failure_domain}" if spec.sub_failure_domain else ""
    return format_redundancy(spec), domain, spec.device_class or "any", spec.compression or "none"


def _mayastor(inventory: KubernetesInventory) -> Section:
    pools = records_table(
        "disk-pools",
        inventory.disk_pools,
        ("disk pool", lambda pool: pool.name),
        ("node", lambda pool: pool.node),
        (Column(title="disks", rank=1), lambda pool: listed(pool.disks)),
        (number_column("capacity"), lambda pool: _size(pool.capacity_bytes)),
        (number_column("used"), lambda pool: _size(pool.used_bytes)),
        ("status", lambda pool: pool.status + (", encrypted" if pool.encrypted else "")),
    )
    return section(
        "OpenEBS Mayastor",
        "mayastor",
        *(
            facts_table(f"io-engine-{number}", _engine(engine))
            for number, engine in enumerate(inventory.io_engines, 1)
        ),
        pools if inventory.disk_pools else None,
    )


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


def _zfs(inventory: KubernetesInventory) -> Section:
    pools = records_table(
        "zfs-pools",
        inventory.zfs_pools,
        ("node", lambda pool: pool.node),
        ("pool", lambda pool: pool.name),
        (number_column("free"), lambda pool: _size(pool.free_bytes)),
    )
    return section("ZFS LocalPV", "zfs", pools if inventory.zfs_pools else None)


def _longhorn(inventory: KubernetesInventory) -> Section:
    longhorn = inventory.longhorn
    if longhorn is None:
        return section("Longhorn", "longhorn")
    kinds = listed(longhorn.kinds)
    disks = f"{count_text(longhorn.disks, 'disk')} ({kinds})" if kinds else "no disks"
    pairs: Pairs = [
        ("disks", f"{disks} in {count_text(longhorn.nodes, 'node')}"),
        *((setting.name, setting.value or "not set") for setting in longhorn.settings),
    ]
    return section(
        f"Longhorn {longhorn.version}".rstrip(), "longhorn", facts_table("longhorn-facts", pairs)
    )


def _named(namespace: str, name: str, phase: str) -> str:
    return f"{namespace}/{name}{state_note(phase, 'Ready')}"


def state_note(phase: str, usual: str) -> str:
    return f", {phase}" if phase and phase != usual else ""
