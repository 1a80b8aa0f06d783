"""What stands behind a StorageClass of a Kubernetes cluster."""

from __future__ import annotations

from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.volumes import CephVolumes


def pool_of_class(inventory: KubernetesInventory, name: str) -> str:
    """Ceph's pool that holds the data of the class's volumes; empty where the class is not of
    Ceph's, is not in the inventory, or does not tell."""
    volumes = _ceph(inventory, name)
    if volumes is None:
        return ""
    named = volumes.data_pool or volumes.pool
    if named or volumes.kind == "ceph-rbd":
        return named
    pools = [
        pool.name
        for one in inventory.filesystems
        if one.name == volumes.fs_name
        for pool in one.data_pools
    ]
    return pools[0] if len(pools) == 1 else ""


def reads_near(inventory: KubernetesInventory, name: str) -> bool:
    """Whether clients of the class's volumes read the copy that is near them."""
    volumes = _ceph(inventory, name)
    if volumes is None:
        return False
    affinity = volumes.read_affinity
    mapped = "read_from_replica=localize" in volumes.map_options
    return mapped or (affinity is not None and affinity.enabled)


def _ceph(inventory: KubernetesInventory, name: str) -> CephVolumes | None:
    item = inventory.storage_class(name)
    return item.volumes if item and isinstance(item.volumes, CephVolumes) else None
