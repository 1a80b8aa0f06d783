"""What a Ceph pool lies on, and what Ceph's own limits say that this can do."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.inventory.ceph import CephInventory
from leadline.inventory.target_pool import pool_of
from leadline.plan.target_url import TargetUrl

_FLASH = ("ssd", "nvme")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMedia:
    """OSDs that hold a pool's data, by what they are, and how many of them a client's write is
    written to at least."""

    pool: str
    hard_disks: int
    flash: int
    copies: int


def pool_media(inventory: CephInventory, target: TargetUrl) -> PoolMedia | None:
    """None where the pool, its CRUSH rule or the class of one of its OSDs is not known."""
    pool = pool_of(inventory, target)
    if pool is None or pool.rule is None or pool.rule.root is None:
        return None
    root, wanted = pool.rule.root, pool.rule.device_class
    classes = [
        osd.device_class
        for osd in inventory.osds
        if osd.up
        and osd.is_in
        and any(place.name == root for place in osd.location)
        and wanted in (None, osd.device_class)
    ]
    if not classes or not set(classes) <= {"hdd", *_FLASH}:
        return None
    # A partial write of an erasure-coded object touches one data chunk and all coding chunks.
    copies = pool.size if pool.erasure is None else pool.erasure.m + 1
    return PoolMedia(
        pool=pool.name,
        hard_disks=classes.count("hdd"),
        flash=sum(one in _FLASH for one in classes),
        copies=copies,
    )
