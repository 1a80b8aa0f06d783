"""One layer of the storage stack below a target."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from leadline.inventory.record import Record


class LayerKind(StrEnum):
    """What a layer of a target's stack is: a file system, ZFS (file system and volumes in one), a
    file system of a process (FUSE), a mount over the network, a block device, an image that
    librbd or a client of its kind serves, a pool of Ceph."""

    FILESYSTEM = "filesystem"
    ZFS = "zfs"
    FUSE = "fuse"
    NFS = "nfs"
    BLOCK = "block"
    IMAGE = "image"
    POOL = "pool"


class Layer(Record):
    """One layer of what lies below a target. `name` is what its kind calls it: `ext4`, a dataset,
    a mount point, `loop1`, `POOL/IMAGE`, a pool. `devices` are its block devices as
    /proc/diskstats names them: one of a block layer, the vdevs of a pool of ZFS, the parts of a
    RAID. `facts` are words by key, sizes in bytes (`object_size_bytes`)."""

    kind: LayerKind
    name: str
    devices: tuple[str, ...] = ()
    facts: dict[str, str] = Field(default_factory=dict)
