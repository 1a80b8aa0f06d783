"""What ZFS below a target was configured to be: pool, dataset and module parameters."""

from leadline.inventory.zfs.models import ZfsDataset, ZfsInventory, ZfsPool
from leadline.inventory.zfs.reading import zfs_inventory

__all__ = ["ZfsDataset", "ZfsInventory", "ZfsPool", "zfs_inventory"]
