"""What a Kubernetes cluster is: a model built from its objects alone (`reading`).

Sizes in bytes, processors in cores. None means that nothing that was read tells; `gaps` say what
could not be read, and why.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import Snapshot

# What a StorageClass makes volumes of, in the words of the system behind it.
#  Empty text means that the class does not say, so that the driver's default holds; None means
# that nothing that was read says.


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


# What Rook and OpenShift Data Foundation are told to run. Sizes in bytes, processors in cores.


class Resources(Snapshot):
    """Of one kind of daemon (`osd`, `mon`); None where nothing is set."""

    daemon: str
    cpu_request: float | None
    cpu_limit: float | None
    memory_request_bytes: int | None
    memory_limit_bytes: int | None


class Network(Snapshot):
    """`provider` is `host`, `multus` or empty for the pods' own network; `selectors` name Multus'
    networks. None: the daemons' own settings decide."""

    provider: str
    selectors: tuple[str, ...]
    encrypted: bool | None
    compressed: bool | None
    require_msgr2: bool | None


class DeviceSet(Snapshot):
    """Disks for OSDs: `count` OSDs on volumes of `storage_class` of `size_bytes`. `replica` of ODF:
    the count is of each of so many failure domains. `osd`: what each OSD may use, where that is
    set."""

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
    """`fsid`, `health`, `version` as Rook last saw them. `zones` are those of monitors in a
    stretched cluster. `encrypted`: OSDs on dm-crypt, None where nothing is said. `resources`: what
    is set for daemons."""

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
    """Copies, or `data_chunks` and `coding_chunks` of erasure code. `per_domain`: copies within
    one failure domain, where that is more than one."""

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
    """`name` is the pool's in Ceph."""

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
    """OpenShift Data Foundation. `failure_domain` such as `zone`, by the label
    `failure_domain_key` of nodes, whose values are `failure_domain_values`."""

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


def sound(text: str) -> str:
    """Text that can be written as UTF-8: half a character, as in a name of a file or in a
    stranger's JSON, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


Sound = Annotated[str, AfterValidator(sound)]


class Gap(Snapshot):
    """Something that could not be seen, and why: no permission, a damaged file."""

    what: Sound
    reason: Sound


class Place(Snapshot):
    """A topology label of a node that is neither zone nor region."""

    label: str
    value: str


class Node(Snapshot):
    """A machine of the cluster. `cpu` is its processors, `cpu_allocatable` what pods may have."""

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
    """What a driver told Kubernetes of itself. `nodes` counts those that it runs on."""

    name: str
    attach_required: bool
    storage_capacity: bool
    fs_group_policy: str
    modes: tuple[str, ...]
    nodes: int | None


class Workload(Snapshot):
    """A daemon or controller that makes volumes: its images and the containers' processors."""

    kind: Literal["DaemonSet", "Deployment"]
    namespace: str
    name: str
    images: tuple[str, ...]
    ready: int | None
    wanted: int | None


class IoEngine(Snapshot):
    """OpenEBS Mayastor's data path on each node. `cores` are those that it polls without pause, as
    its arguments list them; empty where the arguments do not say."""

    namespace: str
    image: str
    cores: tuple[int, ...]
    cpu_request: float | None
    cpu_limit: float | None
    hugepages_bytes: int | None
    ready: int | None
    wanted: int | None


class DiskPool(Snapshot):
    """A disk of a node in Mayastor's hands."""

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
    """`disks` counts the disks of all its nodes; `kinds` are theirs (`filesystem`, `block`)."""

    version: str
    nodes: int
    disks: int
    kinds: tuple[str, ...]
    settings: tuple[LonghornSetting, ...]


class Operator(Snapshot):
    """KubeVirt or CDI. `gates` are the features that are switched on."""

    version: str
    phase: str
    gates: tuple[str, ...] = ()


class KubernetesInventory(Snapshot):
    """A cluster at one moment. `uid` is that of the namespace `kube-system`, which no other cluster
    has. `ceph` is Ceph's own inventory of the cluster that Rook runs."""

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
        return next((one for one in self.storage_classes if one.name == name), None)
