"""Compare the configuration of two systems; ids, addresses, names and times are not compared.

A fact that one system does not report is unknown.
"""

from leadline.inventory.diff.ceph import (
    ceph_differences,
    cpu_budget_difference,
    round_trip_difference,
)
from leadline.inventory.diff.facts import facts_differences
from leadline.inventory.diff.host import Below, host_differences, layer_differences, zfs_differences
from leadline.inventory.diff.kubernetes import kubernetes_differences, shared_classes
from leadline.inventory.diff.model import Difference, Differing, PossibleEffect, Topic

__all__ = [
    "Below",
    "Difference",
    "Differing",
    "PossibleEffect",
    "Topic",
    "ceph_differences",
    "cpu_budget_difference",
    "facts_differences",
    "host_differences",
    "kubernetes_differences",
    "layer_differences",
    "round_trip_difference",
    "shared_classes",
    "zfs_differences",
]
