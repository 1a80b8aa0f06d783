"""Build the inventory of a Kubernetes cluster from a capture."""

from __future__ import annotations

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import STATUS, is_dump
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.kubernetes.classes import class_reader
from leadline.inventory.kubernetes.kinds import VERSION, ObjectKind
from leadline.inventory.kubernetes.models import KubernetesInventory, replace_surrogates
from leadline.inventory.kubernetes.objects import Dumps, Malformed, Objects, decode, read_objects
from leadline.inventory.kubernetes.operators import (
    driver_nodes,
    node_reader,
    read_block_pool,
    read_cdi,
    read_ceph_cluster,
    read_csi_driver,
    read_disk_pool,
    read_filesystem,
    read_io_engine,
    read_kubevirt,
    read_longhorn,
    read_storage_cluster,
    read_workload,
    read_zfs_node,
)


def kubernetes_inventory(dumps: Dumps) -> KubernetesInventory:
    """Build the inventory of the cluster that `dumps` (file name -> content) describe.

    Damaged and refused data is in its `gaps`.

    Raises:
        LeadlineError: `dumps-invalid`: there is no data.
    """
    objects = read_objects(dumps)
    if not objects.by_kind and VERSION not in dumps:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            "the dumps hold no Kubernetes objects",
            context=[f"{gap.what}: {gap.reason}" for gap in objects.gaps[:5]],
            hint="save them: kubectl get storageclasses,nodes -o yaml > cluster.yaml",
        )
    drivers = driver_nodes(objects)
    ceph_clusters = objects.read(ObjectKind.CEPH_CLUSTER, read_ceph_cluster)
    longhorn = read_longhorn(objects)
    io_engines = tuple(filter(None, objects.read(ObjectKind.DAEMON_SET, read_io_engine)))
    ceph = _ceph(objects, dumps, bool(ceph_clusters))
    kubevirt = objects.read(ObjectKind.KUBEVIRT, read_kubevirt)
    cdi = objects.read(ObjectKind.CDI, read_cdi)
    read_class = class_reader(objects, ceph_clusters)
    return KubernetesInventory(
        uid=_uid(objects),
        version=_version(objects, dumps),
        openshift=_cluster_version(objects, "status", "desired", "version"),
        nodes=objects.read(ObjectKind.NODE, node_reader(drivers)),
        storage_classes=objects.read(ObjectKind.STORAGE_CLASS, read_class),
        csi_drivers=objects.read(ObjectKind.CSI_DRIVER, read_csi_driver(drivers)),
        workloads=(
            *objects.read(ObjectKind.DAEMON_SET, read_workload("DaemonSet")),
            *objects.read(ObjectKind.DEPLOYMENT, read_workload("Deployment")),
        ),
        ceph_clusters=ceph_clusters,
        block_pools=objects.read(ObjectKind.CEPH_BLOCK_POOL, read_block_pool),
        filesystems=objects.read(ObjectKind.CEPH_FILESYSTEM, read_filesystem),
        storage_clusters=objects.read(ObjectKind.STORAGE_CLUSTER, read_storage_cluster),
        io_engines=io_engines,
        disk_pools=objects.read(ObjectKind.DISK_POOL, read_disk_pool),
        zfs_pools=tuple(
            pool for pools in objects.read(ObjectKind.ZFS_NODE, read_zfs_node) for pool in pools
        ),
        longhorn=longhorn,
        kubevirt=next(iter(kubevirt), None),
        cdi=next(iter(cdi), None),
        ceph=ceph,
        gaps=tuple(dict.fromkeys(objects.gaps)),
    )


def _ceph(objects: Objects, dumps: Dumps, expected: bool) -> CephInventory | None:
    """Build Ceph's own inventory, if its dumps are present."""
    of_ceph = {name: content for name, content in dumps.items() if is_dump(name)}
    if STATUS.name not in of_ceph:
        noted = any(gap.what == "Ceph" for gap in objects.gaps)
        if expected and not noted:
            objects.note("Ceph", "its own dumps are missing: only Rook's configuration is known")
        return None
    try:
        return cluster_inventory(of_ceph)
    except LeadlineError as error:
        objects.note("Ceph", error.fact)
        return None


def _uid(objects: Objects) -> str:
    """Return the uid of the namespace kube-system, or OpenShift's cluster id; empty: unknown."""
    for item in objects.by_kind.get(ObjectKind.NAMESPACE, ()):
        try:
            if item.at("metadata", "name").text == "kube-system":
                return item.at("metadata", "uid").word
        except Malformed:
            continue
    clusters = objects.read(
        ObjectKind.CLUSTER_VERSION, lambda one: one.at("spec", "clusterID").word
    )
    return next(iter(clusters), "")


def _version(objects: Objects, dumps: Dumps) -> str:
    """Return the version of the API server, such as `v1.34.4`; empty: unknown."""
    if VERSION not in dumps:
        return ""
    decoded = decode(objects, VERSION, dumps[VERSION])
    version = decoded.get("gitVersion") if isinstance(decoded, dict) else None
    return replace_surrogates(version) if isinstance(version, str) else ""


def _cluster_version(objects: Objects, *keys: str) -> str:
    """Return a field of OpenShift's ClusterVersion; empty outside OpenShift."""
    found = objects.read(ObjectKind.CLUSTER_VERSION, lambda item: item.at(*keys).word)
    return next(iter(found), "")
