from __future__ import annotations

from leadline.data import load_table
from leadline.inventory.kubernetes.kinds import KindTable, ObjectKind, find_kind


def test_the_table_has_one_row_for_each_kind() -> None:
    table = load_table("kubernetes_kinds", KindTable)
    assert list(table.kinds) == [kind.resource for kind in ObjectKind]
    assert len({kind.dump for kind in ObjectKind}) == len(ObjectKind)
    assert all(row.versions and row.purpose for row in table.kinds.values())


def test_a_kind_is_found_by_group_and_name() -> None:
    assert find_kind("v1", "Node") is ObjectKind.NODE
    assert find_kind("longhorn.io/v1beta2", "Node") is ObjectKind.LONGHORN_NODE
    assert find_kind("ceph.rook.io/v9", "CephCluster") is ObjectKind.CEPH_CLUSTER
    assert find_kind("apps/v1", "ReplicaSet") is None
