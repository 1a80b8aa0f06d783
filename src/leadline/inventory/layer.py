"""The base of archived records, and one layer of the storage stack below a target."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """The base of everything that an archive stores as JSON."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False
    )


class LayerKind(StrEnum):
    """The kind of a layer.

    `zfs` is file system and volumes in one, `fuse` a file system of a process, `nfs` a network
    mount, `image` an RBD image of librbd or another client, `pool` a Ceph pool.
    """

    FILESYSTEM = "filesystem"
    ZFS = "zfs"
    FUSE = "fuse"
    NFS = "nfs"
    BLOCK = "block"
    IMAGE = "image"
    POOL = "pool"


class Layer(Record):
    """A layer below a target.

    `name` depends on the kind: `ext4`, a dataset, a mount point, `loop1`, `POOL/IMAGE`, a pool.
    `devices` are its block devices as named in /proc/diskstats: that of a block layer, the vdevs of
    a ZFS pool, the members of a RAID. `facts` are texts by key, sizes in bytes
    (`object_size_bytes`).
    """

    kind: LayerKind
    name: str
    devices: tuple[str, ...] = ()
    facts: dict[str, str] = Field(default_factory=dict)
