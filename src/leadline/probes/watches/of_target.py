"""Which watches a target's layers call for: each writes a file of its own in a trial's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.watches.base import Watch
from leadline.probes.watches.block import BlockWatch
from leadline.probes.watches.ceph import ImageWatch
from leadline.probes.watches.mounts import FuseMount, MountWatch
from leadline.probes.watches.zfs import ZfsWatch


def watches_of(layers: Sequence[Layer], folder: Path) -> tuple[Watch, ...]:
    """Watches of all layers, not begun yet; none for what no probe can see."""
    found: list[Watch] = []
    devices = tuple(dict.fromkeys(name for one in layers for name in one.devices))
    if devices:
        found.append(BlockWatch(devices, folder))
    fuse = [
        FuseMount(mount=one.facts.get("mount_point", one.name), connection=int(number))
        for one in layers
        if (number := one.facts.get("connection", "")).isascii() and number.isdecimal()
    ]
    nfs = [one.name for one in layers if one.kind is LayerKind.NFS]
    if fuse or nfs:
        found.append(MountWatch(fuse, nfs, folder))
    # A file of the trial holds one pool and one image: a stack has no more.
    pools = [pool for one in layers if one.kind is LayerKind.ZFS and (pool := _pool(one))]
    found += [ZfsWatch(pool, folder) for pool in pools[:1]]
    sockets = [one for one in layers if one.kind is LayerKind.IMAGE and "admin_socket" in one.facts]
    for one in sockets[:1]:
        client, place = one.facts.get("client", ""), Path(one.facts["admin_socket"])
        found.append(ImageWatch(one.name, client, place, folder))
    return tuple(found)


def _pool(layer: Layer) -> str:
    return layer.facts.get("pool") or layer.name.partition("/")[0]
