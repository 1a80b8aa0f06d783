"""From a cluster as seen to the targets of a plan. Pure, and the same for the same cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leadline.inventory.kubernetes.volumes import StorageClass
from leadline.plan.kubernetes import KubernetesCluster
from leadline.plan.volume_request import GIB, PRESETS, RunnerKind, VolumeMode
from leadline.planning.models import Draft, DraftTarget, LeftOut, Load, Survey, Wish
from leadline.planning.room import Room, smallest_share
from leadline.planning.unsuitable import too_small, twin_of, unproven, unsuitable
from leadline.units import format_size

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
