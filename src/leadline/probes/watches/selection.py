"""Selection of the watches for a target's layers; each writes its own file in a trial's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.inventory.layer import Layer, LayerKind
from leadline.probes.watches.base import Watch
from leadline.probes.watches.block import BlockWatch
from leadline.probes.watches.ceph import ImageWatch
from leadline.probes.watches.mounts import FuseMount, MountWatch
from leadline.probes.watches.zfs import ZfsWatch


def select_watches(layers: Sequence[Layer], folder: Path) -> tuple[Watch, ...]:
    """Return the watches of all layers, not started yet."""
    found: list[Watch] = []
    devices = tuple(dict.fromkeys(name for layer in layers for name in layer.devices))
    if devices:
        found.append(BlockWatch(devices, folder))
    fuse = [
        FuseMount(mount=layer.facts.get("mount_point", layer.name), connection=int(number))
        for layer in layers
        if (number := layer.facts.get("connection", "")).isascii() and number.isdecimal()
    ]
    nfs = [layer.name for layer in layers if layer.kind is LayerKind.NFS]
    if fuse or nfs:
        found.append(MountWatch(fuse, nfs, folder))
    # A trial's file holds one pool and one image: a stack has at most one of each.
    pools = [pool for layer in layers if layer.kind is LayerKind.ZFS and (pool := _pool(layer))]
    found += [ZfsWatch(pool, folder) for pool in pools[:1]]
    sockets = [
        layer for layer in layers if layer.kind is LayerKind.IMAGE and "admin_socket" in layer.facts
    ]
    for socket in sockets[:1]:
        client, place = socket.facts.get("client", ""), Path(socket.facts["admin_socket"])
        found.append(ImageWatch(socket.name, client, place, folder))
    return tuple(found)


def _pool(layer: Layer) -> str:
    return layer.facts.get("pool") or layer.name.partition("/")[0]
