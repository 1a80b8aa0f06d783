"""Choose the targets of a plan from a surveyed Kubernetes cluster, and estimate their cost.

Pure functions: the same survey and request give the same draft.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product

from leadline.inventory.kubernetes.models import KubernetesInventory, Node, StorageClass
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.plan.volume_request import GIB, PRESETS, RunnerKind, VolumeMode
from leadline.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRequest:
    """What a plan shall measure.

    `classes` empty: all. `sizes` in bytes, empty: a usual size that fits. `vms` are names of
    presets, for virtual machines only. `cpu` None: the processors of a runner pod with which most
    targets fit. `memory_bytes` None: the plan's default.
    """

    classes: tuple[str, ...] = ()
    runner: RunnerKind = RunnerKind.POD
    vms: tuple[str, ...] = ("small",)
    sizes: tuple[int, ...] = ()
    counts: tuple[int, ...] = (1,)
    mode: VolumeMode | None = None
    cpu: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a ResourceQuota leaves: bytes, cores or a number of objects by key."""

    name: str
    left: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a driver publishes for a class (CSIStorageCapacity), in bytes.

    `largest` is the largest volume, `total` the sum of all places; places that share a backend
    count more than once.
    """

    largest: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A surveyed cluster.

    `patches_volumes` None: unknown. `kubevirt` None: this user may not see whether it is installed.
    `unseen` are sentences.
    """

    inventory: KubernetesInventory
    kubevirt: bool | None
    patches_volumes: bool | None
    published: Mapping[str, Published] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the workloads need on each target.

    `span_bytes` is their data on a raw device, `files_bytes` in files; `io_s` is the time of all
    `trials`.
    """

    trials: int
    io_s: float
    span_bytes: int
    files_bytes: int
    prefill: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTarget:
    """A target of the plan.

    `size_bytes` is the size of each of `count` volumes; `cpu` and `memory_bytes` are those of each
    runner. `unproven` says why it is unknown whether the class works; empty: it does. `why`
    describes the class.
    """

    name: str
    url: str
    storage_class: str
    mode: VolumeMode
    size_bytes: int
    count: int
    vm: str | None
    cpu: float
    memory_bytes: int
    unproven: str
    labels: Mapping[str, str]
    why: str

    @property
    def claimed_bytes(self) -> int:
        return self.size_bytes * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A StorageClass, or a target of one, that is not in the plan."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The targets of a plan. `cpu` is that of each runner pod; None: the plan's default."""

    targets: tuple[DraftTarget, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    cpu: float | None


# Usual sizes: larger than a driver's corner cases, small enough for a cluster in use. The first
# that fits is taken.
_USUAL_GIB = (20, 10, 5, 2, 1)
# A file system needs some of its volume (the same share as in targets.storage_class).
_FILESYSTEM_SHARE = 1.1
# QEMU, libvirt and KubeVirt's launcher need 200-300 MiB for guests of these sizes (KubeVirt
# documentation, "Virtual machine memory overhead"); the rest is a margin.
_VM_OVERHEAD_BYTES = 512 << 20
_POD_CPUS = (2, 1)


def draft(survey: Survey, request: DraftRequest, load: Load, folders: frozenset[str]) -> Draft:
    """Choose the targets of a plan. `folders` are the classes without raw block devices."""
    study = _Study(survey=survey, request=request, load=load, folders=folders)
    usual = KubernetesCluster().cpu
    cpus = [request.cpu] if request.cpu else list(_POD_CPUS)
    if request.runner is RunnerKind.VM:
        cpus = [usual]
    kept, left_out = study.choose_classes()
    tries = [(cpu, *study.place(kept, cpu)) for cpu in cpus]
    cpu, placed, refused = max(tries, key=lambda attempt: len(attempt[1]))
    return Draft(
        targets=tuple(placed),
        left_out=(*left_out, *refused),
        notes=survey.unseen,
        cpu=None if cpu == usual else cpu,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """A preset, a volume size (None: a usual one) and a number of volumes."""

    vm: str | None
    size_bytes: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Study:
    survey: Survey
    request: DraftRequest
    load: Load
    folders: frozenset[str]

    def choose_classes(self) -> tuple[list[StorageClass], list[LeftOut]]:
        """Return the classes that can be measured, and those that cannot."""
        kept: list[StorageClass] = []
        left_out: list[LeftOut] = []

        def rank(item: StorageClass) -> tuple[bool, bool, str]:
            # The first of two equal classes stays, and the last targets do not fit.
            return not item.default, unproven_reason(item, self.survey) is not None, item.name

        for item in sorted(self.survey.inventory.storage_classes, key=rank):
            if self.request.classes and item.name not in self.request.classes:
                continue
            reason = exclusion_reason(item, item.name in self.folders, self.survey, self.request)
            twin = next((other.name for other in kept if _same_volumes(item, other)), None)
            if not reason and twin:
                reason = f"differs from {twin!r} only by name: the same provisioner and parameters"
            if reason:
                left_out.append(LeftOut(name=item.name, reason=reason))
            else:
                kept.append(item)
        return kept, left_out

    def place(
        self, classes: Sequence[StorageClass], cpu: float
    ) -> tuple[list[DraftTarget], list[LeftOut]]:
        """Return the targets that fit at once, the smallest first, and those that do not."""
        capacity = Capacity(self.survey)
        placed: list[DraftTarget] = []
        refused: list[LeftOut] = []
        virtual = self.request.runner is RunnerKind.VM
        presets = [name for name in PRESETS if name in self.request.vms] if virtual else [None]
        sizes: list[int | None] = [*sorted(set(self.request.sizes))] or [None]
        variants = [
            _Variant(vm=vm, size_bytes=size, count=count)
            for vm in presets
            for size in sizes
            for count in sorted(set(self.request.counts))
        ]
        volumes = sum(variant.count for variant in variants) * len(classes)
        for variant, item in product(variants, classes):
            target = self._target(item, variant, volumes, cpu, labelled=len(variants) > 1)
            reason = self._too_small(target) or _over_published(target, self.survey)
            if reason is None:
                reason = capacity.take(target)
                if reason and placed:
                    reason += f" (it may fit into a plan of its own: --class {item.name})"
            if reason:
                refused.append(LeftOut(name=target.name, reason=reason))
            else:
                placed.append(target)
        return placed, refused

    def _needed_bytes(self, mode: VolumeMode) -> int:
        """Return the smallest volume that holds the data of the workloads."""
        if mode is VolumeMode.BLOCK:
            return self.load.span_bytes
        return math.ceil(self.load.files_bytes * _FILESYSTEM_SHARE)

    def _too_small(self, target: DraftTarget) -> str | None:
        needed, size = self._needed_bytes(target.mode), target.size_bytes
        if size >= needed:
            return None
        return f"the workloads need {format_size(needed)}; a volume has {format_size(size)}"

    def _usual_size(self, name: str, mode: VolumeMode, count: int, volumes: int) -> int:
        """Return the largest usual size that fits, at least the size of the data."""
        needed = math.ceil(self._needed_bytes(mode) / GIB) * GIB
        published = self.survey.published.get(name)
        limits = [published.largest, published.total / count] if published else []
        for quota in self.survey.quotas:
            for key in _storage_keys(name):
                if key in quota.left:
                    limits.append(quota.left[key] / max(1, volumes))
        sizes = (gib * GIB for gib in _USUAL_GIB)
        fitting = (size for size in sizes if needed <= size <= min(limits, default=size))
        return next(fitting, max(needed, GIB))

    def _target(
        self, item: StorageClass, variant: _Variant, volumes: int, cpu: float, *, labelled: bool
    ) -> DraftTarget:
        folders = item.name in self.folders
        # Raw block if the class can: a file system inside the volume would hide it.
        mode = VolumeMode.FILESYSTEM if folders else (self.request.mode or VolumeMode.BLOCK)
        size = variant.size_bytes or self._usual_size(item.name, mode, variant.count, volumes)
        short = format_gib(size)
        options = [f"size={short}"]
        options += ["runner=vm", f"vm={variant.vm}"] if variant.vm else [f"mode={mode.value}"]
        options += [f"count={variant.count}"] if variant.count > 1 else []
        parts, labels = [item.name], {}
        if labelled:
            parts += [variant.vm] if variant.vm else []
            parts += [short.lower(), f"x{variant.count}"]
            labels = {"class": item.name} | ({"vm": variant.vm} if variant.vm else {})
            labels |= {"volume": short, "volumes": str(variant.count)}
        memory = self.request.memory_bytes or KubernetesCluster().memory
        if variant.vm:
            preset = PRESETS[variant.vm]
            cpu, memory = preset.cores, preset.memory_bytes + _VM_OVERHEAD_BYTES
        return DraftTarget(
            name="-".join(parts),
            url=f"storageclass:{item.name}?{'&'.join(options)}",
            storage_class=item.name,
            mode=mode,
            size_bytes=size,
            count=variant.count,
            vm=variant.vm,
            cpu=cpu,
            memory_bytes=memory,
            unproven=unproven_reason(item, self.survey) or "",
            labels=labels,
            why="; ".join(_describe(item, folders, mode)),
        )


def format_gib(size_bytes: int) -> str:
    """Return a size as Kubernetes and plans write it: `150Gi`, or bytes."""
    return f"{size_bytes // GIB}Gi" if size_bytes % GIB == 0 else str(size_bytes)


def _describe(item: StorageClass, folders: bool, mode: VolumeMode) -> Iterator[str]:
    if item.default:
        yield "the default class"
    if item.default_virt:
        yield "the default of virtual machines"
    yield item.provisioner
    values = {parameter.name: parameter.value for parameter in item.parameters}
    for key in ("pool", "dataPool", "fsName", "poolname", "repl", "numberOfReplicas"):
        if values.get(key):
            yield f"{key} {values[key]}"
    if folders:
        yield "its volumes are folders on a file system"
    elif mode is VolumeMode.BLOCK:
        yield "raw block"
    if item.reclaim == "Retain":
        yield "Retain: the run deletes its volumes nevertheless"


# Classes that cannot be measured.

_BUCKETS = re.compile(r"(^|[./])(bucket|obc)$")
_CSI = re.compile(r"(^|[.-])csi([.-]|$)")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_IN_TREE = "kubernetes.io/"
# The CSI drivers that replace in-tree plugins (Kubernetes documentation, Volumes, CSI migration).
# Kubernetes has removed the other plugins.
_SUCCESSORS = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "azure-file": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
    "portworx-volume": "pxd.portworx.com",
    "vsphere-volume": "csi.vsphere.vmware.com",
}


def exclusion_reason(
    item: StorageClass, folders: bool, survey: Survey, request: DraftRequest
) -> str | None:
    """Return why a class is left out; None if it is not.

    Args:
        folders: The class has no raw block devices.
    """
    provisioner, virtual = item.provisioner, request.runner is RunnerKind.VM
    if _BUCKETS.search(provisioner):
        return f"makes object buckets ({provisioner}), not volumes"
    if provisioner == _NO_PROVISIONER:
        return "has no provisioner: its volumes are made by hand, and Leadline makes none"
    if provisioner.startswith(_IN_TREE):
        successor = _SUCCESSORS.get(provisioner.removeprefix(_IN_TREE))
        more = f"use a class of {successor}, which replaces it" if successor else "it was removed"
        return f"{provisioner} was built into Kubernetes and is deprecated: {more}"
    drivers = [node.csi_drivers for node in survey.inventory.nodes if node.csi_drivers is not None]
    is_csi = _is_declared(provisioner, survey) or _CSI.search(provisioner)
    if drivers and is_csi and not any(provisioner in names for names in drivers):
        return f"no node has its CSI driver {provisioner} registered"
    if virtual and survey.kubevirt is False:
        return "virtual machines were requested, and the cluster has no KubeVirt"
    if folders and virtual:
        return "its volumes are folders; a virtual machine takes its data disk as a block device"
    if folders and request.mode is VolumeMode.BLOCK:
        return "its volumes are folders, and raw block devices were requested"
    if item.reclaim == "Retain" and survey.patches_volumes is False:
        return (
            "keeps its volumes after use (reclaimPolicy Retain), and this user may not patch "
            "persistentvolumes: they would be left behind"
        )
    return None


def _is_declared(provisioner: str, survey: Survey) -> bool:
    return any(driver.name == provisioner for driver in survey.inventory.csi_drivers)


def unproven_reason(item: StorageClass, survey: Survey) -> str | None:
    """Return why it is unknown whether a class works; None if its driver is registered."""
    registered = any(
        item.provisioner in (node.csi_drivers or ()) for node in survey.inventory.nodes
    )
    if registered or _is_declared(item.provisioner, survey):
        return None
    return (
        f"{item.provisioner} is not a CSI driver, so its state is unknown; a run ends with the "
        "reason if its claims stay pending"
    )


def _same_volumes(item: StorageClass, other: StorageClass) -> bool:
    """Return whether two classes make the same volumes: binding and reclaim do not affect speed."""
    return (item.provisioner, item.parameters, sorted(item.mount_options)) == (
        other.provisioner,
        other.parameters,
        sorted(other.mount_options),
    )


def _over_published(target: DraftTarget, survey: Survey) -> str | None:
    published = survey.published.get(target.storage_class)
    if published is None or target.size_bytes <= published.largest:
        return None
    return (
        f"its driver publishes capacity for a volume of {format_size(published.largest)} at most; "
        f"{format_size(target.size_bytes)} are needed"
    )


# Capacity. All targets of a run keep their volumes and runners until its end: they must all fit.

_HINDERING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class _NodeCapacity:
    cpu: float
    memory_bytes: int

    def fits(self, target: DraftTarget) -> bool:
        return self.cpu >= target.cpu and self.memory_bytes >= target.memory_bytes


class Capacity:
    """What is left of nodes, quotas and published capacity.

    Nodes count as empty: the pods that already run on them are unknown.
    """

    def __init__(self, survey: Survey) -> None:
        self._nodes = [
            _NodeCapacity(cpu=node.cpu_allocatable, memory_bytes=node.memory_allocatable_bytes)
            for node in survey.inventory.nodes
            if _is_usable(node)
            and node.cpu_allocatable is not None
            and node.memory_allocatable_bytes is not None
        ]
        self._known = bool(survey.inventory.nodes)
        self._quotas = [(quota.name, dict(quota.left)) for quota in survey.quotas]
        self._published = {name: found.total for name, found in survey.published.items()}

    def take(self, target: DraftTarget) -> str | None:
        """Reserve capacity for a target; return the reason if it does not fit."""
        needs = _quota_needs(target)
        for name, left in self._quotas:
            for key, need in needs.items():
                if key in left and need > left[key]:
                    return (
                        f"the quota {name!r} leaves "
                        f"{_format_need(key, max(0, left[key]))} of {key} next to the other "
                        f"targets; {_format_need(key, need)} are needed"
                    )
        published = self._published.get(target.storage_class)
        if published is not None and target.claimed_bytes > published:
            return (
                f"its driver publishes {format_size(max(0, published))} next to the other targets; "
                f"{format_size(target.claimed_bytes)} are needed"
            )
        if self._known and not self._place(target):
            cores = "1 core" if target.cpu == 1 else f"{target.cpu:g} cores"
            runners = "a runner" if target.count == 1 else f"{target.count} runners"
            return (
                f"the nodes have no capacity for {runners} of {cores} and "
                f"{format_size(target.memory_bytes)} next to the other targets, by their "
                "allocatable processors and memory"
            )
        for _, left in self._quotas:
            for key in sorted(needs.keys() & left.keys()):
                left[key] -= needs[key]
        if published is not None:
            self._published[target.storage_class] = published - target.claimed_bytes
        return None

    def _place(self, target: DraftTarget) -> bool:
        """Place each runner on the node with most processors left; all of them, or none."""
        used: list[_NodeCapacity] = []
        for _ in range(target.count):
            fitting = [node for node in self._nodes if node.fits(target)]
            if not fitting:
                for node in used:
                    node.cpu += target.cpu
                    node.memory_bytes += target.memory_bytes
                return False
            chosen = max(fitting, key=lambda node: (node.cpu, node.memory_bytes))
            chosen.cpu -= target.cpu
            chosen.memory_bytes -= target.memory_bytes
            used.append(chosen)
        return True


def _is_usable(node: Node) -> bool:
    hindered = any(taint.endswith(_HINDERING) for taint in node.taints)
    return node.schedulable and node.ready is not False and not hindered


def _storage_keys(name: str) -> tuple[str, str]:
    """Return the keys of a quota for the bytes that claims of a class request."""
    return "requests.storage", f"{name}.storageclass.storage.k8s.io/requests.storage"


def _quota_needs(target: DraftTarget) -> Mapping[str, float]:
    """Return what a target needs, by the keys of a quota."""
    claims = f"{target.storage_class}.storageclass.storage.k8s.io/persistentvolumeclaims"
    cpu, memory = target.cpu * target.count, target.memory_bytes * target.count
    return {
        **dict.fromkeys(_storage_keys(target.storage_class), target.claimed_bytes),
        **dict.fromkeys(("persistentvolumeclaims", claims, "pods"), target.count),
        **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), cpu),
        **dict.fromkeys(("memory", "requests.memory", "limits.memory"), memory),
    }


def _format_need(key: str, amount: float) -> str:
    return format_size(amount) if "storage" in key or "memory" in key else f"{amount:g}"


# Cost: estimates of time and bytes.

# All volumes of a target together: the write bandwidth of one hard disk or of a busy cluster.
PREFILL_BPS = 100 * (1 << 20)
# Time to claim and bind volumes, start runners and remove them. On the tests' cluster of one node
# two targets with four trials each took 53 s without their I/O; drivers that attach volumes over a
# network take longer.
SET_UP_S = 30.0
# A guest boots and may have to install fio. Assumed: no machine of the tests runs KubeVirt.
VM_SET_UP_S = 180.0
# Time to start fio and to fetch its results through the API server.
BETWEEN_TRIALS_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of targets. `set_up_s` is all time that is neither I/O nor prefill."""

    trials: int
    io_s: float
    prefill_bytes: int
    prefill_s: float
    set_up_s: float
    claimed_bytes: int
    volumes: int

    @property
    def total_s(self) -> float:
        return self.io_s + self.prefill_s + self.set_up_s


def estimate_cost(target: DraftTarget, load: Load) -> Cost:
    """Return the cost of one target."""
    data_bytes = load.span_bytes if target.mode is VolumeMode.BLOCK else load.files_bytes
    prefill_bytes = data_bytes * target.count if load.prefill else 0
    set_up_s = VM_SET_UP_S if target.vm else SET_UP_S
    return Cost(
        trials=load.trials,
        io_s=load.io_s,
        prefill_bytes=prefill_bytes,
        prefill_s=prefill_bytes / PREFILL_BPS,
        set_up_s=set_up_s + load.trials * BETWEEN_TRIALS_S,
        claimed_bytes=target.claimed_bytes,
        volumes=target.count,
    )


def sum_costs(costs: Sequence[Cost]) -> Cost:
    """Return the cost of targets that are prefilled and measured one after another."""
    names = [item.name for item in fields(Cost)]
    return Cost(**{name: sum(getattr(cost, name) for cost in costs) for name in names})
