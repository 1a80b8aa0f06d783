"""What is wished, what was seen, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.plan.volume_request import RunnerKind, VolumeMode


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
