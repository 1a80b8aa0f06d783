"""From a cluster as seen to the targets of a plan. Pure, and the same for the same cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leadline.inventory.kubernetes.models import KubernetesInventory, Node, StorageClass
from leadline.plan.target_url import GIB, PRESETS, KubernetesCluster, RunnerKind, VolumeMode
from leadline.units import format_size

# What is wished, what was seen, and what becomes of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a plan shall measure. `classes` empty: all; `sizes` in bytes, empty: what fits;
    `vms` are names of presets and count for virtual machines only; `cpu` None: the processors of a
    runner pod that let most targets fit; `memory_bytes` None: the plan's default."""

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
    """What a driver publishes of a class (CSIStorageCapacity), in bytes: the largest volume, and
    what all places together have. Places that share a backend are counted more than once."""

    largest: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A cluster as seen. `patches_volumes` None: the cluster did not tell; `kubevirt` None: this
    user may not see whether it is there. `unseen` are sentences."""

    inventory: KubernetesInventory
    kubevirt: bool | None
    patches_volumes: bool | None
    published: Mapping[str, Published] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the workloads cost on one target, whichever it is. `span_bytes` is their data on a raw
    device, `files_bytes` in files; `io_s` is the time of all `trials`."""

    trials: int
    io_s: float
    span_bytes: int
    files_bytes: int
    prefill: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTarget:
    """A target of the plan. `size_bytes` is of each of `count` volumes; `cpu` and `memory_bytes`
    of each runner; `why` says why it is there; `doubt` says what nothing shows, or is
    empty."""

    name: str
    url: str
    storage_class: str
    mode: VolumeMode
    size_bytes: int
    count: int
    vm: str | None
    cpu: float
    memory_bytes: int
    doubt: str
    labels: Mapping[str, str]
    why: str

    @property
    def claimed_bytes(self) -> int:
        return self.size_bytes * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A StorageClass, or a target of one, that the plan does not have."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """`cpu` is what each runner pod gets; None leaves the plan's default."""

    targets: tuple[DraftTarget, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    cpu: float | None


# Which StorageClasses of a cluster cannot be measured, and why. Pure.

_BUCKETS = re.compile(r"(^|[./])(bucket|obc)$")
_CSI = re.compile(r"(^|[.-])csi([.-]|$)")
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_IN_TREE = "kubernetes.io/"
# The drivers that took over what was built into Kubernetes (its page "Volumes", CSI migration);
# what is not here is gone from Kubernetes for good.
_SUCCESSORS = {
    "aws-ebs": "ebs.csi.aws.com",
    "azure-disk": "disk.csi.azure.com",
    "azure-file": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gce-pd": "pd.csi.storage.gke.io",
    "portworx-volume": "pxd.portworx.com",
    "vsphere-volume": "csi.vsphere.vmware.com",
}


def unsuitable(found: StorageClass, folders: bool, survey: Survey, wish: Wish) -> str | None:
    """Why a class is left out; None where nothing speaks against it. `folders`: its volumes are
    never raw block devices."""
    provisioner = found.provisioner
    if _BUCKETS.search(provisioner):
        return f"makes object buckets ({provisioner}), not volumes"
    if provisioner == _NO_PROVISIONER:
        return "has no provisioner: somebody makes its volumes by hand, and Leadline does not"
    if provisioner.startswith(_IN_TREE):
        return _in_tree(provisioner)
    absent = _absent_driver(provisioner, survey)
    if absent:
        return absent
    if wish.runner is RunnerKind.VM and survey.kubevirt is False:
        return "virtual machines were asked for, and the cluster has no KubeVirt"
    if folders and wish.runner is RunnerKind.VM:
        return "its volumes are folders; a virtual machine takes its data disk as a block device"
    if folders and wish.mode is VolumeMode.BLOCK:
        return "its volumes are folders, and raw block devices were asked for"
    if found.reclaim == "Retain" and survey.patches_volumes is False:
        return (
            "keeps its volumes after use (reclaimPolicy Retain), and this user may not patch "
            "persistentvolumes, so that they would be left behind"
        )
    return None


def unproven(found: StorageClass, survey: Survey) -> str | None:
    """Why it is not known whether the class works."""
    if _driver_known(found.provisioner, survey):
        return None
    return (
        f"{found.provisioner} is no CSI driver, so that nothing tells whether it runs; a run "
        "ends with the reason where its claims stay pending"
    )


def too_small(name: str, size_bytes: int, survey: Survey) -> str | None:
    """Why a volume of that size cannot be had of a class."""
    room = survey.published.get(name)
    if room is None or size_bytes <= room.largest:
        return None
    return (
        f"its driver publishes room for a volume of {format_size(room.largest)} at most; "
        f"{format_size(size_bytes)} are needed"
    )


def twin_of(found: StorageClass, earlier: list[StorageClass]) -> str | None:
    """A class among `earlier` that makes the same volumes: what else a class says (who keeps a
    volume, when it is bound, whether it grows) has no part in its speed."""
    for one in earlier:
        same = (one.provisioner, one.parameters, sorted(one.mount_options))
        if same == (found.provisioner, found.parameters, sorted(found.mount_options)):
            return one.name
    return None


def _in_tree(provisioner: str) -> str:
    successor = _SUCCESSORS.get(provisioner.removeprefix(_IN_TREE))
    more = f"use a class of {successor}, which does its work" if successor else "it was removed"
    return f"{provisioner} was built into Kubernetes and is deprecated: {more}"


def _absent_driver(provisioner: str, survey: Survey) -> str | None:
    """Why a CSI driver cannot serve: no node has it."""
    nodes = [node.csi_drivers for node in survey.inventory.nodes if node.csi_drivers is not None]
    declared = any(one.name == provisioner for one in survey.inventory.csi_drivers)
    if not nodes or not (declared or _CSI.search(provisioner)):
        return None
    if any(provisioner in drivers for drivers in nodes):
        return None
    return f"no node has its CSI driver {provisioner} registered"


def _driver_known(provisioner: str, survey: Survey) -> bool:
    if any(one.name == provisioner for one in survey.inventory.csi_drivers):
        return True
    return any(provisioner in (node.csi_drivers or ()) for node in survey.inventory.nodes)


# What is left of nodes, quotas and published capacity while a plan's targets are placed. All
# targets of a run hold their volumes and runners until its end, so that all must fit at once.
# Pure.

_HINDERING = ("NoSchedule", "NoExecute")


@dataclass(slots=True)
class _NodeRoom:
    cpu: float
    memory_bytes: int


class Room:
    """What is left. Nodes are reckoned empty: what runs on them already is not known."""

    def __init__(self, survey: Survey) -> None:
        self._nodes = [
            _NodeRoom(cpu=node.cpu_allocatable, memory_bytes=node.memory_allocatable_bytes)
            for node in survey.inventory.nodes
            if _usable(node)
            and node.cpu_allocatable is not None
            and node.memory_allocatable_bytes is not None
        ]
        self._known = bool(survey.inventory.nodes)
        self._quotas = [(one.name, dict(one.left)) for one in survey.quotas]
        self._published = {name: one.total for name, one in survey.published.items()}

    def take(self, target: DraftTarget) -> str | None:
        """Give a target its room; else say why there is none, and nothing is taken."""
        refusal = self._over_quota(target) or self._over_capacity(target)
        if refusal:
            return refusal
        if self._known and not self._place(target):
            cores = "1 core" if target.cpu == 1 else f"{target.cpu:g} cores"
            each = f"{cores} and {format_size(target.memory_bytes)}"
            runners = "a runner" if target.count == 1 else f"{target.count} runners"
            return (
                f"the nodes have no room for {runners} of {each} beside the others, as far as "
                "their allocatable processors and memory tell"
            )
        for _, left in self._quotas:
            for key, need in _needs(target).items():
                if key in left:
                    left[key] -= need
        if target.storage_class in self._published:
            self._published[target.storage_class] -= target.claimed_bytes
        return None

    def _over_quota(self, target: DraftTarget) -> str | None:
        for name, left in self._quotas:
            for key, need in _needs(target).items():
                if key in left and need > left[key]:
                    return (
                        f"the quota {name!r} leaves {_told(key, max(0, left[key]))} of {key} "
                        f"beside the others; {_told(key, need)} are needed"
                    )
        return None

    def _over_capacity(self, target: DraftTarget) -> str | None:
        left = self._published.get(target.storage_class)
        if left is None or target.claimed_bytes <= left:
            return None
        return (
            f"its driver publishes {format_size(max(0, left))} beside the others; "
            f"{format_size(target.claimed_bytes)} are needed"
        )

    def _place(self, target: DraftTarget) -> bool:
        """Each runner on the node with most processors left."""
        used: list[_NodeRoom] = []
        for _ in range(target.count):
            fitting = [
                node
                for node in self._nodes
                if node.cpu >= target.cpu and node.memory_bytes >= target.memory_bytes
            ]
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


def _usable(node: Node) -> bool:
    hindered = any(taint.endswith(_HINDERING) for taint in node.taints)
    return node.schedulable and node.ready is not False and not hindered


def _needs(target: DraftTarget) -> Mapping[str, float]:
    """What a quota counts."""
    of_class = f"{target.storage_class}.storageclass.storage.k8s.io"
    cpu, memory = target.cpu * target.count, target.memory_bytes * target.count
    return {
        "requests.storage": target.claimed_bytes,
        "persistentvolumeclaims": target.count,
        f"{of_class}/requests.storage": target.claimed_bytes,
        f"{of_class}/persistentvolumeclaims": target.count,
        "pods": target.count,
        "cpu": cpu,
        "memory": memory,
        "requests.cpu": cpu,
        "requests.memory": memory,
        "limits.cpu": cpu,
        "limits.memory": memory,
    }


def smallest_share(survey: Survey, name: str, volumes: int) -> float | None:
    """Bytes that quotas leave for each of so many volumes of a run, as far as they tell."""
    keys = ("requests.storage", f"{name}.storageclass.storage.k8s.io/requests.storage")
    left: Iterable[float] = (
        quota.left[key] for quota in survey.quotas for key in keys if key in quota.left
    )
    return min((one / max(1, volumes) for one in left), default=None)


def _told(key: str, amount: float) -> str:
    return format_size(amount) if "storage" in key or "memory" in key else f"{amount:g}"


# What a plan asks for where nobody says: large enough that a volume is no corner case of its
# driver, small enough for a cluster in use. The first that fits is taken.
_USUAL_GIB = (20, 10, 5, 2, 1)
# A file system takes some of its volume for itself (as targets.storage_class reckons).
_FILESYSTEM_SHARE = 1.1
# The machine around a guest: QEMU, libvirt and KubeVirt's launcher. KubeVirt reckons 200-300 MiB
# for guests of these sizes (docs, "Virtual machine memory overhead"); the rest is for safety.
_VM_OVERHEAD_BYTES = 512 << 20
_POD_CPUS = (2, 1)
_POD_MEMORY_BYTES = KubernetesCluster().memory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """One cell of the matrix; `size_bytes` None: what fits."""

    vm: str | None
    size_bytes: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A class that can be measured. `folders`: it gives no raw block devices."""

    found: StorageClass
    folders: bool


def draft(survey: Survey, wish: Wish, load: Load, folders: frozenset[str]) -> Draft:
    """The targets of a plan, and what is left out. `folders` are the classes that are known to
    give no raw block devices."""
    kept, left_out = _candidates(survey, wish, folders)
    notes = [*survey.unseen]
    if wish.runner is RunnerKind.VM:
        placed, refused = _place(survey, wish, load, kept, None)
        return _draft(placed, [*left_out, *refused], notes, None)
    tries = [
        (cpu, _place(survey, wish, load, kept, cpu))
        for cpu in ([wish.cpu] if wish.cpu else _POD_CPUS)
    ]
    cpu, (placed, refused) = max(tries, key=lambda one: len(one[1][0]))
    usual = KubernetesCluster().cpu
    return _draft(placed, [*left_out, *refused], notes, None if cpu == usual else cpu)


def _draft(
    placed: Sequence[DraftTarget], left_out: Sequence[LeftOut], notes: list[str], cpu: float | None
) -> Draft:
    return Draft(targets=tuple(placed), left_out=tuple(left_out), notes=tuple(notes), cpu=cpu)


def _candidates(
    survey: Survey, wish: Wish, folders: frozenset[str]
) -> tuple[list[Candidate], list[LeftOut]]:
    kept: list[Candidate] = []
    left_out: list[LeftOut] = []

    def order(one: StorageClass) -> tuple[bool, bool, str]:
        # Of two equal classes the first stays, and what does not fit is what comes last.
        return not one.default, unproven(one, survey) is not None, one.name

    classes = sorted(survey.inventory.storage_classes, key=order)
    for found in classes:
        if wish.classes and found.name not in wish.classes:
            continue
        reason = unsuitable(found, found.name in folders, survey, wish)
        twin = None if reason else twin_of(found, [one.found for one in kept])
        if twin:
            reason = f"differs from {twin!r} by its name only: the same provisioner and parameters"
        if reason:
            left_out.append(LeftOut(name=found.name, reason=reason))
        else:
            kept.append(Candidate(found=found, folders=found.name in folders))
    return kept, left_out


def _variants(wish: Wish) -> Iterator[_Variant]:
    """The matrix from its least to its largest, so that what does not fit is what is large."""
    vms = [name for name in PRESETS if name in wish.vms]
    for vm in vms if wish.runner is RunnerKind.VM else (None,):
        for size in sorted(set(wish.sizes)) or (None,):
            for count in sorted(set(wish.counts)):
                yield _Variant(vm=vm, size_bytes=size, count=count)


def _place(
    survey: Survey, wish: Wish, load: Load, kept: Sequence[Candidate], cpu: float | None
) -> tuple[list[DraftTarget], list[LeftOut]]:
    room = Room(survey)
    placed: list[DraftTarget] = []
    refused: list[LeftOut] = []
    variants = list(_variants(wish))
    volumes = sum(one.count for one in variants) * len(kept)
    for variant in variants:
        for candidate in kept:
            size = _size(candidate, variant, survey, load, volumes, wish)
            target = _target(candidate, variant, size, survey, wish, cpu, len(variants) > 1)
            name = candidate.found.name
            reason = _too_little(size, target.mode, load) or too_small(name, size, survey)
            if reason is None:
                reason = room.take(target)
                if reason and placed:
                    reason += f" (a plan of its own may have it: --class {name})"
            if reason:
                refused.append(LeftOut(name=target.name, reason=reason))
            else:
                placed.append(target)
    return placed, refused


def _mode(candidate: Candidate, wish: Wish) -> VolumeMode:
    """Raw block where the class can, since a file on a file system inside a volume hides it."""
    return VolumeMode.FILESYSTEM if candidate.folders else (wish.mode or VolumeMode.BLOCK)


def needed_bytes(mode: VolumeMode, load: Load) -> int:
    """The smallest volume that holds the data of the workloads."""
    if mode is VolumeMode.BLOCK:
        return load.span_bytes
    return math.ceil(load.files_bytes * _FILESYSTEM_SHARE)


def _too_little(size: int, mode: VolumeMode, load: Load) -> str | None:
    needed = needed_bytes(mode, load)
    if size >= needed:
        return None
    return f"the workloads need {format_size(needed)}; a volume is {format_size(size)}"


def _size(
    candidate: Candidate, variant: _Variant, survey: Survey, load: Load, volumes: int, wish: Wish
) -> int:
    if variant.size_bytes is not None:
        return variant.size_bytes
    name = candidate.found.name
    needed = math.ceil(needed_bytes(_mode(candidate, wish), load) / GIB) * GIB
    share = smallest_share(survey, name, volumes)
    published = survey.published.get(name)
    limits = [] if share is None else [share]
    limits += [published.largest, published.total / variant.count] if published else []
    fitting = [
        one * GIB
        for one in _USUAL_GIB
        if one * GIB >= needed and all(one * GIB <= limit for limit in limits)
    ]
    return fitting[0] if fitting else max(needed, GIB)


def _target(
    candidate: Candidate,
    variant: _Variant,
    size: int,
    survey: Survey,
    wish: Wish,
    cpu: float | None,
    several: bool,
) -> DraftTarget:
    found, mode = candidate.found, _mode(candidate, wish)
    short = size_word(size)
    options = [f"size={short}"]
    if variant.vm is None:
        options.append(f"mode={mode.value}")
    else:
        options += ["runner=vm", f"vm={variant.vm}"]
    if variant.count > 1:
        options.append(f"count={variant.count}")
    parts = [found.name]
    labels: dict[str, str] = {}
    if several:
        parts += [variant.vm] if variant.vm else []
        parts += [short.lower(), f"x{variant.count}"]
        labels = {"class": found.name} | ({"vm": variant.vm} if variant.vm else {})
        labels |= {"volume": short, "volumes": str(variant.count)}
    preset = PRESETS[variant.vm] if variant.vm else None
    return DraftTarget(
        name="-".join(parts),
        url=f"storageclass:{found.name}?{'&'.join(options)}",
        storage_class=found.name,
        mode=mode,
        size_bytes=size,
        count=variant.count,
        vm=variant.vm,
        cpu=preset.cores if preset else (cpu or KubernetesCluster().cpu),
        memory_bytes=preset.memory_bytes + _VM_OVERHEAD_BYTES
        if preset
        else (wish.memory_bytes or _POD_MEMORY_BYTES),
        doubt=unproven(found, survey) or "",
        labels=labels,
        why="; ".join(_why(candidate, mode)),
    )


def size_word(size_bytes: int) -> str:
    """A size as Kubernetes and plans both write it: `150Gi`, or bytes."""
    return f"{size_bytes // GIB}Gi" if size_bytes % GIB == 0 else str(size_bytes)


def _why(candidate: Candidate, mode: VolumeMode) -> Iterator[str]:
    found = candidate.found
    if found.default:
        yield "the default class"
    if found.default_virt:
        yield "the default of virtual machines"
    yield found.provisioner
    told = {one.name: one.value for one in found.parameters}
    for key in ("pool", "dataPool", "fsName", "poolname", "repl", "numberOfReplicas"):
        if told.get(key):
            yield f"{key} {told[key]}"
    if candidate.folders:
        yield "its volumes are folders, so a file system lies between"
    elif mode is VolumeMode.BLOCK:
        yield "raw block"
    if found.reclaim == "Retain":
        yield "Retain: the run tells its volumes to go all the same"


# What a plan costs: time and bytes. Pure.
#  What the cluster will do is not known before it is measured; what is assumed is said with it.

# All volumes of a target together: what one hard disk, or a thin slice of a busy cluster, writes.
PREFILL_BPS = 100 * (1 << 20)
# Claiming and binding volumes, starting runners, and removing all of it. On the tests' cluster of
# one node two targets with four trials each took 53 s besides their I/O; drivers that attach
# volumes over a network take longer.
SET_UP_S = 30.0
# A guest boots, and may have to install fio; not measured, since no machine of ours runs KubeVirt.
VM_SET_UP_S = 180.0
# Starting fio and fetching its results by way of the API server.
BETWEEN_TRIALS_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one target, or of all. `set_up_s` is everything that is neither I/O nor prefill."""

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


def cost_of(target: DraftTarget, load: Load) -> Cost:
    each = load.span_bytes if target.mode is VolumeMode.BLOCK else load.files_bytes
    prefilled = each * target.count if load.prefill else 0
    started = VM_SET_UP_S if target.vm else SET_UP_S
    return Cost(
        trials=load.trials,
        io_s=load.io_s,
        prefill_bytes=prefilled,
        prefill_s=prefilled / PREFILL_BPS,
        set_up_s=started + load.trials * BETWEEN_TRIALS_S,
        claimed_bytes=target.claimed_bytes,
        volumes=target.count,
    )


def total(costs: Sequence[Cost]) -> Cost:
    """Targets are prefilled and measured one after another."""
    return Cost(
        trials=sum(one.trials for one in costs),
        io_s=sum(one.io_s for one in costs),
        prefill_bytes=sum(one.prefill_bytes for one in costs),
        prefill_s=sum(one.prefill_s for one in costs),
        set_up_s=sum(one.set_up_s for one in costs),
        claimed_bytes=sum(one.claimed_bytes for one in costs),
        volumes=sum(one.volumes for one in costs),
    )
