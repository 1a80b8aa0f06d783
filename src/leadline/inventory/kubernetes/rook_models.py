"""What Rook and OpenShift Data Foundation are told to run. Sizes in bytes, processors in cores."""

from __future__ import annotations

from leadline.inventory.models import Snapshot


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
