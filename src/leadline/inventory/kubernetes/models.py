"""What a Kubernetes cluster is: a model built from its objects alone (`reading`).

Sizes in bytes, processors in cores. None means that nothing that was read tells; `gaps` say what
could not be read, and why.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from leadline.inventory.ceph import CephInventory
from leadline.inventory.kubernetes.rook_models import (
    CephBlockPool,
    CephCluster,
    CephFilesystem,
    StorageCluster,
)
from leadline.inventory.kubernetes.volumes import StorageClass
from leadline.inventory.models import Snapshot


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
