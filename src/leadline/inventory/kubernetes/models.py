"""The inventory of a Kubernetes cluster, built from its objects (`reading`).

A field with `At` is read from that path of its object (`objects.build`); a reader computes the
others. Sizes in bytes, processors in cores. None: unknown. `gaps` name what could not be read, and
why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.host import Snapshot


@dataclass(frozen=True, slots=True)
class At:
    """The path of a field in its object, with dots between the keys."""

    path: str


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
    name of the cluster. `kms_provider` is the kind of the key management service `kms_id`,
    `key_rotation` the schedule of csi-addons; empty: unknown, none.
    """

    kind: Literal["ceph-rbd", "cephfs"]
    cluster_id: Annotated[str, At("clusterID")]
    pool: Annotated[str, At("pool")]
    data_pool: Annotated[str, At("dataPool")] = ""
    fs_name: Annotated[str, At("fsName")] = ""
    image_features: Annotated[str, At("imageFeatures")] = ""
    mounter: Mounter
    map_options: str = ""
    stripe: str = ""
    encrypted: bool
    encryption_type: Annotated[str, At("encryptionType")] = ""
    kms_id: Annotated[str, At("encryptionKMSID")] = ""
    kms_provider: str = ""
    key_rotation: str = ""
    fs_type: str = ""
    read_affinity: ReadAffinity | None = None


class MayastorVolumes(Snapshot):
    """`replicas` None: the driver's default, one."""

    kind: Literal["mayastor"] = "mayastor"
    replicas: Annotated[int | None, At("repl")]
    protocol: Annotated[str, At("protocol")]
    thin: bool
    encrypted: bool = False
    io_timeout_s: Annotated[int | None, At("ioTimeout")] = None
    fs_type: str = ""


class ZfsVolumes(Snapshot):
    """`dataset` is a ZFS file system, `zvol` a block device with another file system."""

    kind: Literal["zfs"] = "zfs"
    pool: Annotated[str, At("poolname")]
    layout: Literal["dataset", "zvol"]
    fs_type: str
    record_size: Annotated[str, At("recordsize")] = ""
    block_size: Annotated[str, At("volblocksize")] = ""
    compression: Annotated[str, At("compression")] = ""
    dedup: Annotated[str, At("dedup")] = ""
    thin: bool | None = None
    shared: bool = False


class LonghornVolumes(Snapshot):
    """`data_engine` v1 is a process and iSCSI, v2 is SPDK. None: Longhorn's settings apply."""

    kind: Literal["longhorn"] = "longhorn"
    data_engine: str
    replicas: Annotated[int | None, At("numberOfReplicas")]
    data_locality: Annotated[str, At("dataLocality")]
    encrypted: bool
    migratable: bool
    disk_selector: Annotated[str, At("diskSelector")] = ""
    node_selector: Annotated[str, At("nodeSelector")] = ""
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

    name: Annotated[str, At("metadata.name")]
    provisioner: Annotated[str, At("provisioner")]
    default: bool
    default_virt: bool
    reclaim: str
    binding: str
    expansion: Annotated[bool, At("allowVolumeExpansion")]
    mount_options: Annotated[tuple[str, ...], At("mountOptions")]
    parameters: tuple[Parameter, ...]
    volumes: Volumes


# Rook and OpenShift Data Foundation, as configured.


class Resources(Snapshot):
    """Resources of one kind of daemon (`osd`, `mon`); None: not set."""

    daemon: str
    cpu_request: Annotated[float | None, At("requests.cpu")]
    cpu_limit: Annotated[float | None, At("limits.cpu")]
    memory_request_bytes: Annotated[int | None, At("requests.memory")]
    memory_limit_bytes: Annotated[int | None, At("limits.memory")]


class Network(Snapshot):
    """`provider` is `host`, `multus` or empty for the pod network.

    `selectors` name Multus' networks. None: the daemons' settings apply.
    """

    provider: str
    selectors: tuple[str, ...]
    encrypted: Annotated[bool | None, At("connections.encryption.enabled")]
    compressed: Annotated[bool | None, At("connections.compression.enabled")]
    require_msgr2: Annotated[bool | None, At("connections.requireMsgr2")]


class DeviceSet(Snapshot):
    """Disks for OSDs: `count` OSDs on volumes of `storage_class` of `size_bytes`.

    With `replica` (ODF), the count is that of each of `replica` failure domains. `osd`: the
    resources of each OSD, if set.
    """

    name: Annotated[str, At("name")]
    count: int
    replica: Annotated[int | None, At("replica")]
    size_bytes: int | None
    storage_class: str
    portable: Annotated[bool, At("portable")]
    encrypted: Annotated[bool | None, At("encrypted")]
    device_class: str
    osd: Resources | None = None


class CephCluster(Snapshot):
    """Rook's cluster. `fsid`, `health`, `version` are Rook's last observation.

    `zones` are those of monitors in a stretched cluster. `encrypted`: OSDs on dm-crypt, None:
    unknown. `resources`: those set for daemons.
    """

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    external: Annotated[bool, At("spec.external.enable")]
    image: Annotated[str, At("spec.cephVersion.image")]
    version: Annotated[str, At("status.version.version")]
    fsid: Annotated[str, At("status.ceph.fsid")]
    health: Annotated[str, At("status.ceph.health")]
    phase: Annotated[str, At("status.phase")]
    monitors: Annotated[int | None, At("spec.mon.count")]
    zones: tuple[str, ...]
    network: Network
    device_sets: tuple[DeviceSet, ...]
    device_classes: tuple[str, ...]
    encrypted: bool | None
    kms: Annotated[str, At("spec.security.kms.connectionDetails.KMS_PROVIDER")]
    resources: tuple[Resources, ...]
    read_affinity: bool | None
    read_affinity_labels: tuple[str, ...]
    kernel_mount_options: Annotated[str, At("spec.csi.cephfs.kernelMountOptions")]
    fuse_mount_options: Annotated[str, At("spec.csi.cephfs.fuseMountOptions")]


class PoolSpec(Snapshot):
    """Copies, or `data_chunks` and `coding_chunks` of erasure code.

    `per_domain`: copies in one failure domain, if more than one.
    """

    size: int | None
    data_chunks: int | None
    coding_chunks: int | None
    per_domain: int | None
    failure_domain: str
    sub_failure_domain: Annotated[str, At("replicated.subFailureDomain")]
    device_class: Annotated[str, At("deviceClass")]
    crush_root: Annotated[str, At("crushRoot")]
    compression: str
    target_size_ratio: float | None


class CephBlockPool(Snapshot):
    namespace: Annotated[str, At("metadata.namespace")]
    name: str
    phase: Annotated[str, At("status.phase")]
    mirrored: Annotated[bool, At("spec.mirroring.enabled")]
    spec: PoolSpec


class DataPool(Snapshot):
    """A data pool; `name` is its name in Ceph."""

    name: str
    spec: PoolSpec


class CephFilesystem(Snapshot):
    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    phase: Annotated[str, At("status.phase")]
    active_mds: Annotated[int | None, At("spec.metadataServer.activeCount")]
    active_standby: Annotated[bool, At("spec.metadataServer.activeStandby")]
    metadata_pool: PoolSpec
    data_pools: tuple[DataPool, ...]
    mds_resources: Resources | None


class StorageCluster(Snapshot):
    """OpenShift Data Foundation.

    `failure_domain`, such as `zone`, is the label `failure_domain_key` of nodes with the values
    `failure_domain_values`.
    """

    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    version: str
    phase: Annotated[str, At("status.phase")]
    external: Annotated[bool, At("spec.externalStorage.enable")]
    failure_domain: Annotated[str, At("status.failureDomain")]
    failure_domain_key: Annotated[str, At("status.failureDomainKey")]
    failure_domain_values: tuple[str, ...]
    arbiter: Annotated[bool, At("spec.arbiter.enable")]
    flexible_scaling: Annotated[bool, At("spec.flexibleScaling")]
    resource_profile: Annotated[str, At("spec.resourceProfile")]
    resources: tuple[Resources, ...]
    device_sets: tuple[DeviceSet, ...]
    encrypted: bool
    kms: Annotated[bool, At("spec.encryption.kms.enable")]
    network: Network
    host_network: Annotated[bool, At("spec.hostNetwork")]


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

    name: Annotated[str, At("metadata.name")]
    ready: bool | None
    schedulable: bool
    roles: tuple[str, ...]
    zone: str
    region: str
    places: tuple[Place, ...]
    instance_type: str
    architecture: Annotated[str, At("status.nodeInfo.architecture")]
    kernel: Annotated[str, At("status.nodeInfo.kernelVersion")]
    os_image: Annotated[str, At("status.nodeInfo.osImage")]
    kubelet: Annotated[str, At("status.nodeInfo.kubeletVersion")]
    runtime: Annotated[str, At("status.nodeInfo.containerRuntimeVersion")]
    cpu: Annotated[float | None, At("status.capacity.cpu")]
    cpu_allocatable: Annotated[float | None, At("status.allocatable.cpu")]
    memory_bytes: Annotated[int | None, At("status.capacity.memory")]
    memory_allocatable_bytes: Annotated[int | None, At("status.allocatable.memory")]
    hugepages_bytes: int | None
    taints: tuple[str, ...]
    csi_drivers: tuple[str, ...] | None


class CsiDriver(Snapshot):
    """A CSI driver as registered. `nodes` counts the nodes that it runs on."""

    name: Annotated[str, At("metadata.name")]
    attach_required: bool
    storage_capacity: Annotated[bool, At("spec.storageCapacity")]
    fs_group_policy: Annotated[str, At("spec.fsGroupPolicy")]
    modes: Annotated[tuple[str, ...], At("spec.volumeLifecycleModes")]
    nodes: int | None


class Workload(Snapshot):
    """A DaemonSet or Deployment that provides volumes, with its images."""

    kind: Literal["DaemonSet", "Deployment"]
    namespace: Annotated[str, At("metadata.namespace")]
    name: Annotated[str, At("metadata.name")]
    images: tuple[str, ...]
    ready: int | None
    wanted: int | None


class IoEngine(Snapshot):
    """OpenEBS Mayastor's data path on each node.

    `cores` are the polled cores of its arguments; empty: not in the arguments.
    """

    namespace: Annotated[str, At("metadata.namespace")]
    image: str
    cores: tuple[int, ...]
    cpu_request: float | None
    cpu_limit: float | None
    hugepages_bytes: int | None
    ready: Annotated[int | None, At("status.numberReady")]
    wanted: Annotated[int | None, At("status.desiredNumberScheduled")]


class DiskPool(Snapshot):
    """A disk of a node that Mayastor uses."""

    name: Annotated[str, At("metadata.name")]
    node: Annotated[str, At("spec.node")]
    disks: Annotated[tuple[str, ...], At("spec.disks")]
    capacity_bytes: Annotated[int | None, At("status.capacity")]
    used_bytes: Annotated[int | None, At("status.used")]
    status: str
    encrypted: bool


class ZfsPool(Snapshot):
    node: str
    name: Annotated[str, At("name")]
    free_bytes: Annotated[int | None, At("free")]


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
