"""The inventory of a Kubernetes cluster, built from its objects (`reading`).

Sizes in bytes, processors in cores. None: unknown. `gaps` name what could not be read, and why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import Snapshot

# Volumes of a StorageClass, in the terms of its driver. Empty: the driver's default. None: unknown.


class Mounter(StrEnum):
    """The client on a node that serves a Ceph volume."""

    KRBD = "krbd"
    RBD_NBD = "rbd-nbd"
    KERNEL = "kernel"
    FUSE = "ceph-fuse"


class ReadAffinity(Snapshot):
    """Whether clients read the nearest copy, by `labels` of nodes. `told_by`: the source object."""

    enabled: bool
    labels: tuple[str, ...] = ()
    told_by: str


class CephVolumes(Snapshot):
    """An RBD image, or a subvolume of a CephFS.

    `data_pool` is set if data has its own pool, as with erasure code. `cluster_id` is ceph-csi's
    name of the cluster.
    """

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
    """`dataset` is a ZFS file system, `zvol` a block device with another file system."""

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
    """`data_engine` v1 is a process and iSCSI, v2 is SPDK. None: Longhorn's settings apply."""

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
    """Folders or disks of the pod's node."""

    kind: Literal["local"] = "local"
    path: str = ""


class OtherVolumes(Snapshot):
    """A driver that Leadline does not know, with its parameters only."""

    kind: Literal["other"] = "other"


Volumes = Annotated[
    CephVolumes | MayastorVolumes | ZfsVolumes | LonghornVolumes | LocalVolumes | OtherVolumes,
    Field(discriminator="kind"),
]


class Parameter(Snapshot):
    name: str
    value: str


class StorageClass(Snapshot):
    """A class: its `parameters` without secrets, and their meaning (`volumes`).

    `binding` is `Immediate` or `WaitForFirstConsumer`.
    """

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


# Rook and OpenShift Data Foundation, as configured.


class Resources(Snapshot):
    """Resources of one kind of daemon (`osd`, `mon`); None: not set."""

    daemon: str
    cpu_request: float | None
    cpu_limit: float | None
    memory_request_bytes: int | None
    memory_limit_bytes: int | None


class Network(Snapshot):
    """`provider` is `host`, `multus` or empty for the pod network.

    `selectors` name Multus' networks. None: the daemons' settings apply.
    """

    provider: str
    selectors: tuple[str, ...]
    encrypted: bool | None
    compressed: bool | None
    require_msgr2: bool | None


class DeviceSet(Snapshot):
    """Disks for OSDs: `count` OSDs on volumes of `storage_class` of `size_bytes`.

    With `replica` (ODF), the count is that of each of `replica` failure domains. `osd`: the
    resources of each OSD, if set.
    """

    name: str
    count: int
    replica: int | None
    size_bytes: int | None
    storage_class: str
    portable: bool
    encrypted: bool | None
    device_class: str
    osd: Resources | None = None


class CephCluster(Snapshot):
    """Rook's cluster. `fsid`, `health`, `version` are Rook's last observation.

    `zones` are those of monitors in a stretched cluster. `encrypted`: OSDs on dm-crypt, None:
    unknown. `resources`: those set for daemons.
    """

    namespace: str
    name: str
    external: bool
    image: str
    version: str
    fsid: str
    health: str
    phase: str
    monitors: int | None
    zones: tuple[str, ...]
    network: Network
    device_sets: tuple[DeviceSet, ...]
    device_classes: tuple[str, ...]
    encrypted: bool | None
    kms: str
    resources: tuple[Resources, ...]
    read_affinity: bool | None
    read_affinity_labels: tuple[str, ...]
    kernel_mount_options: str
    fuse_mount_options: str


class PoolSpec(Snapshot):
    """Copies, or `data_chunks` and `coding_chunks` of erasure code.

    `per_domain`: copies in one failure domain, if more than one.
    """

    size: int | None
    data_chunks: int | None
    coding_chunks: int | None
    per_domain: int | None
    failure_domain: str
    sub_failure_domain: str
    device_class: str
    crush_root: str
    compression: str
    target_size_ratio: float | None


class CephBlockPool(Snapshot):
    namespace: str
    name: str
    phase: str
    mirrored: bool
    spec: PoolSpec


class DataPool(Snapshot):
    """A data pool; `name` is its name in Ceph."""

    name: str
    spec: PoolSpec


class CephFilesystem(Snapshot):
    namespace: str
    name: str
    phase: str
    active_mds: int | None
    active_standby: bool
    metadata_pool: PoolSpec
    data_pools: tuple[DataPool, ...]
    mds_resources: Resources | None


class StorageCluster(Snapshot):
    """OpenShift Data Foundation.

    `failure_domain`, such as `zone`, is the label `failure_domain_key` of nodes with the values
    `failure_domain_values`.
    """

    namespace: str
    name: str
    version: str
    phase: str
    external: bool
    failure_domain: str
    failure_domain_key: str
    failure_domain_values: tuple[str, ...]
    arbiter: bool
    flexible_scaling: bool
    resource_profile: str
    resources: tuple[Resources, ...]
    device_sets: tuple[DeviceSet, ...]
    encrypted: bool
    kms: bool
    network: Network
    host_network: bool


def replace_surrogates(text: str) -> str:
    """Replace surrogates in untrusted text, which UTF-8 cannot encode, with question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


Sound = Annotated[str, AfterValidator(replace_surrogates)]


class Gap(Snapshot):
    """Data that could not be read, and the reason: no permission, a damaged file."""

    what: Sound
    reason: Sound


class Place(Snapshot):
    """A topology label of a node that is neither zone nor region."""

    label: str
    value: str


class Node(Snapshot):
    """A node. `cpu` is its processors, `cpu_allocatable` those available to pods."""

    name: str
    ready: bool | None
    schedulable: bool
    roles: tuple[str, ...]
    zone: str
    region: str
    places: tuple[Place, ...]
    instance_type: str
    architecture: str
    kernel: str
    os_image: str
    kubelet: str
    runtime: str
    cpu: float | None
    cpu_allocatable: float | None
    memory_bytes: int | None
    memory_allocatable_bytes: int | None
    hugepages_bytes: int | None
    taints: tuple[str, ...]
    csi_drivers: tuple[str, ...] | None


class CsiDriver(Snapshot):
    """A CSI driver as registered. `nodes` counts the nodes that it runs on."""

    name: str
    attach_required: bool
    storage_capacity: bool
    fs_group_policy: str
    modes: tuple[str, ...]
    nodes: int | None


class Workload(Snapshot):
    """A DaemonSet or Deployment that provides volumes, with its images."""

    kind: Literal["DaemonSet", "Deployment"]
    namespace: str
    name: str
    images: tuple[str, ...]
    ready: int | None
    wanted: int | None


class IoEngine(Snapshot):
    """OpenEBS Mayastor's data path on each node.

    `cores` are the polled cores of its arguments; empty: not in the arguments.
    """

    namespace: str
    image: str
    cores: tuple[int, ...]
    cpu_request: float | None
    cpu_limit: float | None
    hugepages_bytes: int | None
    ready: int | None
    wanted: int | None


class DiskPool(Snapshot):
    """A disk of a node that Mayastor uses."""

    name: str
    node: str
    disks: tuple[str, ...]
    capacity_bytes: int | None
    used_bytes: int | None
    status: str
    encrypted: bool


class ZfsPool(Snapshot):
    node: str
    name: str
    free_bytes: int | None


class LonghornSetting(Snapshot):
    name: str
    value: str


class Longhorn(Snapshot):
    """Longhorn. `disks` counts the disks of all nodes, `kinds` are `filesystem` or `block`."""

    version: str
    nodes: int
    disks: int
    kinds: tuple[str, ...]
    settings: tuple[LonghornSetting, ...]


class Operator(Snapshot):
    """KubeVirt or CDI. `gates` are the enabled feature gates."""

    version: str
    phase: str
    gates: tuple[str, ...] = ()


class KubernetesInventory(Snapshot):
    """A cluster at one time.

    `uid` is that of the namespace `kube-system`, unique to the cluster. `ceph` is Ceph's own
    inventory of the cluster that Rook runs.
    """

    uid: str
    version: str
    openshift: str
    nodes: tuple[Node, ...]
    storage_classes: tuple[StorageClass, ...]
    csi_drivers: tuple[CsiDriver, ...]
    workloads: tuple[Workload, ...]
    ceph_clusters: tuple[CephCluster, ...]
    block_pools: tuple[CephBlockPool, ...]
    filesystems: tuple[CephFilesystem, ...]
    storage_clusters: tuple[StorageCluster, ...]
    io_engines: tuple[IoEngine, ...]
    disk_pools: tuple[DiskPool, ...]
    zfs_pools: tuple[ZfsPool, ...]
    longhorn: Longhorn | None
    kubevirt: Operator | None
    cdi: Operator | None
    ceph: CephInventory | None
    gaps: tuple[Gap, ...]

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(sorted({node.zone for node in self.nodes if node.zone}))

    def storage_class(self, name: str) -> StorageClass | None:
        return next((item for item in self.storage_classes if item.name == name), None)
