"""The volumes of a StorageClass that a plan asks for, and the pods or machines that use them.

`storageclass:fast?size=20Gi&count=3` has its options here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from leadline.plan.kubernetes_cluster import KubernetesCluster, parse_cpu
from leadline.units import parse_size

GIB = 1 << 30
# Each volume has a pod of its own; more than this is probably a typing error.
MOST_VOLUMES = 256
_MOST_CORES = 1024
_COUNT = re.compile(r"0*[1-9][0-9]{0,3}")
# DNS names, as Kubernetes calls its objects.
OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class VolumeMode(StrEnum):
    """How a pod gets a volume: as a raw block device, or with a file system."""

    BLOCK = "block"
    FILESYSTEM = "filesystem"


class Access(StrEnum):
    """Who may use a volume: one node, several at once, or several that only read."""

    RWO = "rwo"
    RWX = "rwx"
    ROX = "rox"

    @property
    def kubernetes(self) -> str:
        return {"rwo": "ReadWriteOnce", "rwx": "ReadWriteMany", "rox": "ReadOnlyMany"}[self]


class VolumeSharing(StrEnum):
    """What the pods of one volume do I/O on: files or stretches of their own, or the same ones."""

    OWN_FILES = "own-files"
    SAME_FILES = "same-files"


class RunnerKind(StrEnum):
    """What does the I/O: a pod, or a KubeVirt virtual machine."""

    POD = "pod"
    VM = "vm"


class Spread(StrEnum):
    """Over what the runners of a target are spread evenly; empty: the scheduler's choice."""

    NONE = ""
    NODE = "node"
    ZONE = "zone"


class Bus(StrEnum):
    """The bus of a virtual machine's data disk."""

    VIRTIO = "virtio"
    SCSI = "scsi"
    SATA = "sata"


class HostCache(StrEnum):
    """How the host caches a virtual machine's data disk."""

    NONE = "none"
    WRITETHROUGH = "writethrough"
    WRITEBACK = "writeback"


class Lifetime(StrEnum):
    """`same`: one volume for all trials of the target. `fresh`: a new one for each trial."""

    SAME = "same"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The size of a runner: processors, and bytes of memory."""

    cores: float
    memory_bytes: int


# The sizes of the study that this project began with (issue 6).
PRESETS: Mapping[str, Preset] = {
    "small": Preset(cores=2, memory_bytes=4 * GIB),
    "medium": Preset(cores=4, memory_bytes=8 * GIB),
    "large": Preset(cores=8, memory_bytes=16 * GIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeRequest:
    """The options of a `storageclass:` target. `size_bytes` None: what the workloads need;
    `mode` None: raw block where the class supports it; `node` and `zone` empty: the scheduler's
    choice. `cores` and `memory_bytes` None: those of the preset, or of the cluster's runner pods.
    `io_threads` None: as the cluster's virtual machines. `everywhere`: a volume for each node or
    zone that `spread` names; `count` is then known when the cluster has been asked. `sharing` None:
    a volume for each pod, not one for all. `snapshot_class` empty: one of the class's driver."""

    size_bytes: int | None = None
    mode: VolumeMode | None = None
    access: Access = Access.RWO
    runner: RunnerKind = RunnerKind.POD
    vm: str = "small"
    node: str = ""
    zone: str = ""
    count: int = 1
    lifetime: Lifetime = Lifetime.SAME
    cores: float | None = None
    memory_bytes: int | None = None
    io_threads: bool | None = None
    bus: Bus = Bus.VIRTIO
    cache: HostCache = HostCache.NONE
    dedicated: bool = False
    spread: Spread = Spread.NONE
    everywhere: bool = False
    snapshot_class: str = ""
    sharing: VolumeSharing | None = None

    @property
    def volumes(self) -> int:
        """The volumes that exist at once; a read-only one is a copy of the one that was filled."""
        return self.count if self.sharing is None else 1 + (self.access is Access.ROX)

    def runner_size(self, cluster: KubernetesCluster | None) -> Preset:
        """The processors and memory of each runner; those of a pod are the cluster's by default."""
        base = PRESETS[self.vm]
        if self.runner is RunnerKind.POD:
            base = Preset(
                cores=cluster.cpu if cluster else 0.0, memory_bytes=cluster.memory if cluster else 0
            )
        return Preset(
            cores=self.cores or base.cores, memory_bytes=self.memory_bytes or base.memory_bytes
        )


# Options of virtual machines alone.
_OF_MACHINES = ("vm", "io_threads", "bus", "cache", "dedicated")
OPTIONS = (
    *("size", "mode", "access", "runner", "vm", "cores", "memory", "io_threads", "bus", "cache"),
    *("dedicated", "node", "zone", "spread", "count", "volume", "sharing", "snapshot_class"),
)
_YES_OR_NO = ("yes", "no")
ALL = "all"
CHOICES: Mapping[str, tuple[str, ...]] = {
    "io_threads": _YES_OR_NO,
    "bus": tuple(Bus),
    "cache": tuple(HostCache),
    "dedicated": _YES_OR_NO,
    "spread": (Spread.NODE, Spread.ZONE),
    "mode": tuple(VolumeMode),
    "access": tuple(Access),
    "runner": tuple(RunnerKind),
    "vm": tuple(PRESETS),
    "volume": tuple(Lifetime),
    "sharing": tuple(VolumeSharing),
}


def volume_request(options: Mapping[str, str]) -> VolumeRequest:
    """Parse the options of a target. Raises ValueError with a sentence."""
    count = options.get("count", "1")
    everywhere = count == ALL
    if everywhere:
        count = "1"
        if "spread" not in options:
            raise ValueError("count=all is one volume for each node or zone: add spread=node")
    if not _COUNT.fullmatch(count) or int(count) > MOST_VOLUMES:
        raise ValueError(f"count is a number from 1 to {MOST_VOLUMES}, got {count[:20]!r}")
    runner = RunnerKind(options.get("runner", RunnerKind.POD))
    mode = VolumeMode(options["mode"]) if "mode" in options else None
    if runner is RunnerKind.VM and mode is VolumeMode.FILESYSTEM:
        raise ValueError("a virtual machine takes its volume as a block device: leave mode away")
    for key in _OF_MACHINES:
        if key in options and runner is not RunnerKind.VM:
            raise ValueError(f"{key} has an effect with runner=vm only")
    cores = _cores(options["cores"], runner) if "cores" in options else None
    bus = Bus(options.get("bus", Bus.VIRTIO))
    if options.get("io_threads") == "yes" and bus is not Bus.VIRTIO:
        raise ValueError("a disk has a thread of its own with bus=virtio only")
    for key, pattern in (("node", OBJECT_NAME), ("zone", _LABEL)):
        if key in options and not pattern.fullmatch(options[key]):
            raise ValueError(f"{options[key]!r} is no name of a {key}")
    if "snapshot_class" in options and not OBJECT_NAME.fullmatch(options["snapshot_class"]):
        raise ValueError(f"{options['snapshot_class']!r} is no name of a VolumeSnapshotClass")
    if "node" in options and "zone" in options:
        raise ValueError("a node lies in one zone: give node or zone, not both")
    spread = Spread(options.get("spread", ""))
    if spread and (spread.value in options or "node" in options):
        raise ValueError(f"runners in one place cannot be spread over {spread.value}s")
    sizes = {key: parse_size(options[key]) for key in ("size", "memory") if key in options}
    for key, given in sizes.items():
        if given <= 0:
            raise ValueError(f"{key} must be more than zero")
    access = Access(options.get("access", Access.RWO))
    # A read-only volume is written before its pods exist, so they have the same files.
    sharing = options.get("sharing", VolumeSharing.SAME_FILES if access is Access.ROX else None)
    return VolumeRequest(
        size_bytes=sizes.get("size"),
        mode=mode,
        access=access,
        runner=runner,
        vm=options.get("vm", "small"),
        node=options.get("node", ""),
        zone=options.get("zone", ""),
        count=int(count),
        lifetime=Lifetime(options.get("volume", Lifetime.SAME)),
        cores=cores,
        memory_bytes=sizes.get("memory"),
        io_threads=options["io_threads"] == "yes" if "io_threads" in options else None,
        bus=bus,
        cache=HostCache(options.get("cache", HostCache.NONE)),
        dedicated=options.get("dedicated") == "yes",
        spread=spread,
        everywhere=everywhere,
        snapshot_class=options.get("snapshot_class", ""),
        sharing=VolumeSharing(sharing) if sharing else None,
    )


def _cores(text: str, runner: RunnerKind) -> float:
    try:
        cores = float(str(parse_cpu(text)))
    except ValueError as error:
        raise ValueError(f"cores is a number like 2 or 0.5, got {text[:20]!r}") from error
    if not 0 < cores <= _MOST_CORES:
        raise ValueError(f"cores is more than 0 and at most {_MOST_CORES}, got {text[:20]!r}")
    if runner is RunnerKind.VM and cores != int(cores):
        raise ValueError(f"a virtual machine has whole processors, got cores={text[:20]}")
    return cores
