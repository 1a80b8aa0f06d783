"""Which pool of a cluster a target's data lies in."""

from __future__ import annotations

from leadline.inventory.ceph import CephInventory, Pool
from leadline.plan.target_url import TargetKind, TargetUrl


def pool_of(inventory: CephInventory, target: TargetUrl) -> Pool | None:
    """The pool that holds the data; None where the target does not tell, as a path in a cluster
    with several filesystems or a StorageClass, or the pool is not in the inventory."""
    if target.kind.on_kubernetes:
        return None
    if target.kind is not TargetKind.CEPHFS:
        return inventory.pool(target.options.get("data_pool", target.pool))
    pools = [pool for one in inventory.filesystems or () for pool in one.data_pools]
    if not target.location.startswith("/") and target.pool in pools:
        # A lab lays out one folder for each data pool, and names it so.
        return inventory.pool(target.pool)
    return inventory.pool(pools[0]) if len(pools) == 1 else None
