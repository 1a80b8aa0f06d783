"""What a StorageClass makes volumes of, in the words of the system behind it.

Empty text means that the class does not say, so that the driver's default holds; None means that
nothing that was read says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from leadline.inventory.models import Snapshot


class Mounter(StrEnum):
    """The client on a node that serves a volume of Ceph's."""

    KRBD = "krbd"
    RBD_NBD = "rbd-nbd"
    KERNEL = "kernel"
    FUSE = "ceph-fuse"


class ReadAffinity(Snapshot):
    """Whether clients read the copy that is near. `labels` of nodes say what near means; `told_by`
    is the object that says so."""

    enabled: bool
    labels: tuple[str, ...] = ()
    told_by: str


class CephVolumes(Snapshot):
    """An RBD image, or a subvolume of a CephFS. `data_pool` is set where data lies elsewhere than
    the rest, as with erasure code. `cluster_id` is ceph-csi's name of the cluster."""

    kind: Literal["ceph-rbd", "cephfs"]
    cluster_id: str
    pool: str
    data_pool: str = ""
    fs_name: str = ""
    image_features: str = ""
    mounter: Mounter
    map_options: str = ""
    stripe: str = ""
    encrypted: bool
    encryption_type: str = ""
    kms_id: str = ""
    fs_type: str = ""
    read_affinity: ReadAffinity | None = None


class MayastorVolumes(Snapshot):
    """`replicas` None: the driver's default, one."""

    kind: Literal["mayastor"] = "mayastor"
    replicas: int | None
    protocol: str
    thin: bool
    encrypted: bool = False
    io_timeout_s: int | None = None
    fs_type: str = ""


class ZfsVolumes(Snapshot):
    """`dataset` is a filesystem of ZFS, `zvol` a block device of it with another on top."""

    kind: Literal["zfs"] = "zfs"
    pool: str
    layout: Literal["dataset", "zvol"]
    fs_type: str
    record_size: str = ""
    block_size: str = ""
    compression: str = ""
    dedup: str = ""
    thin: bool | None = None
    shared: bool = False


class LonghornVolumes(Snapshot):
    """`data_engine` v1 is a process and iSCSI, v2 is SPDK. None: Longhorn's settings decide."""

    kind: Literal["longhorn"] = "longhorn"
    data_engine: str
    replicas: int | None
    data_locality: str
    encrypted: bool
    migratable: bool
    disk_selector: str = ""
    node_selector: str = ""
    fs_type: str = ""


class LocalVolumes(Snapshot):
    """Folders or disks of the node that the pod is on."""

    kind: Literal["local"] = "local"
    path: str = ""


class OtherVolumes(Snapshot):
    """A driver that Leadline does not know better: its parameters say what there is to say."""

    kind: Literal["other"] = "other"


Volumes = Annotated[
    CephVolumes | MayastorVolumes | ZfsVolumes | LonghornVolumes | LocalVolumes | OtherVolumes,
    Field(discriminator="kind"),
]


class Parameter(Snapshot):
    name: str
    value: str


class StorageClass(Snapshot):
    """`parameters` as the class has them, without what is secret; `volumes` is what they mean.
    `binding` is `Immediate` or `WaitForFirstConsumer`."""

    name: str
    provisioner: str
    default: bool
    default_virt: bool
    reclaim: str
    binding: str
    expansion: bool
    mount_options: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    volumes: Volumes
