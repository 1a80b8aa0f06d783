"""Which pool a target lies in, on the recorded clusters."""

from __future__ import annotations

import pytest

from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.facts import find_pool
from leadline.plan.models import Target
from tests.conftest import RECORDED


@pytest.fixture(scope="module")
def inventory() -> CephInventory:
    """One filesystem with two data pools, cephfs_r3 and cephfs_r2."""
    folder = RECORDED.parent / "ceph-multi-az"
    return cluster_inventory({path.name: path.read_bytes() for path in folder.iterdir()})


@pytest.mark.parametrize(
    ("url", "pool"),
    [
        ("rbd:rbd_r3", "rbd_r3"),
        ("rbd:rbd_r3/image", "rbd_r3"),
        ("rbd:rbd_r3?data_pool=ec21_data", "ec21_data"),
        ("rados:rbd_r2", "rbd_r2"),
        ("rbd:gone", None),
        ("cephfs:cephfs_r2", "cephfs_r2"),
        ("cephfs:cephfs_r2/below", "cephfs_r2"),
        ("cephfs:cephfs_meta", None),
        ("cephfs:rbd_r3", None),
        ("cephfs:/mnt/cephfs_r2", None),
    ],
)
def test_the_pool_that_holds_the_data(inventory: CephInventory, url: str, pool: str | None) -> None:
    found = find_pool(inventory, Target(name="t", url=url))
    assert (found.name if found else None) == pool


def test_a_path_lies_in_the_only_data_pool_that_there_is(inventory: CephInventory) -> None:
    assert inventory.filesystems is not None
    (filesystem,) = inventory.filesystems
    one = filesystem.model_copy(update={"data_pools": ("cephfs_r3",)})
    alone = inventory.model_copy(update={"filesystems": (one,)})
    found = find_pool(alone, Target(name="t", url="cephfs:/mnt/anywhere"))
    assert found is not None
    assert found.name == "cephfs_r3"
