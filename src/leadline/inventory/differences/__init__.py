"""What differs between two systems in meaning: ids, addresses, names and times are no difference.

Of a fact that one side does not tell nothing is said but that it is unknown.
"""

from leadline.inventory.differences.clusters import ceph_differences
from leadline.inventory.differences.hosts import host_differences
from leadline.inventory.differences.kubernetes import kubernetes_differences, shared_classes
from leadline.inventory.differences.layers import Below, layer_differences
from leadline.inventory.differences.model import Difference, Differing, Topic
from leadline.inventory.differences.network import round_trip_difference
from leadline.inventory.differences.processor import cpu_budget_difference
from leadline.inventory.differences.zfs import zfs_differences

__all__ = [
    "Below",
    "Difference",
    "Differing",
    "Topic",
    "ceph_differences",
    "cpu_budget_difference",
    "host_differences",
    "kubernetes_differences",
    "layer_differences",
    "round_trip_difference",
    "shared_classes",
    "zfs_differences",
]
