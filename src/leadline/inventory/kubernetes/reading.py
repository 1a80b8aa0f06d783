"""Builds the model of a Kubernetes cluster from a capture. Pure: no cluster is asked."""

from __future__ import annotations

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import STATUS, is_dump
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.kubernetes.classes import class_reader
from leadline.inventory.kubernetes.kinds import VERSION, ObjectKind
from leadline.inventory.kubernetes.models import Gap, KubernetesInventory, sound
from leadline.inventory.kubernetes.objects import Dumps, Malformed, Objects, decode, objects_in
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
    """The cluster that `dumps` (file name -> content) describe. What is damaged or was refused is
    in its `gaps`; raises LeadlineError(`dumps-invalid`) where nothing is left."""
    objects = objects_in(dumps)
    if not objects.by_kind and VERSION not in dumps:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            "there are no objects of a Kubernetes cluster in what was saved",
            context=[f"{one.what}: {one.reason}" for one in objects.gaps[:5]],
            hint="save them: kubectl get storageclasses,nodes -o yaml > cluster.yaml",
        )
    drivers = driver_nodes(objects)
    ceph_clusters = objects.read(ObjectKind.CEPH_CLUSTER, read_ceph_cluster)
    longhorn = read_longhorn(objects)
    io_engines = tuple(
        one for one in objects.read(ObjectKind.DAEMON_SET, read_io_engine) if one is not None
    )
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
        gaps=_gaps(objects),
    )


def _gaps(objects: Objects) -> tuple[Gap, ...]:
    return tuple(dict.fromkeys(objects.gaps))


def _ceph(objects: Objects, dumps: Dumps, expected: bool) -> CephInventory | None:
    """Ceph's own inventory, where its dumps are among these."""
    of_ceph = {name: content for name, content in dumps.items() if is_dump(name)}
    if STATUS.name not in of_ceph:
        told = any(gap.what == "Ceph" for gap in objects.gaps)
        if expected and not told:
            objects.note("Ceph", "its own answers are not there: only what Rook is told to run")
        return None
    try:
        return cluster_inventory(of_ceph)
    except LeadlineError as error:
        objects.note("Ceph", error.fact)
        return None


def _uid(objects: Objects) -> str:
    """Of the namespace kube-system, else of OpenShift's version; empty where neither is there."""
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
    """`v1.34.4`, of the API server; empty where it is not there."""
    if VERSION not in dumps:
        return ""
    decoded = decode(objects, VERSION, dumps[VERSION])
    told = decoded.get("gitVersion") if isinstance(decoded, dict) else None
    return sound(told) if isinstance(told, str) else ""


def _cluster_version(objects: Objects, *keys: str) -> str:
    """Return a field of OpenShift's ClusterVersion; empty outside OpenShift."""
    found = objects.read(ObjectKind.CLUSTER_VERSION, lambda item: item.at(*keys).word)
    return next(iter(found), "")
