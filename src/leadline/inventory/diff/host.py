"""How two load generators differ, and what local targets stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.diff.model import Collector, Differing, Topic, merged
from leadline.inventory.host import BlockDevice, HostInventory, TargetInventory
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import (
    DatasetProperty,
    Parameter,
    Unit,
    ZfsInventory,
    ZfsPool,
    dataset_properties,
    zfs_parameters,
)
from leadline.text import counted, percent, visible
from leadline.units import format_size

# Firmware and the kernel keep a little for themselves, not always the same.
_MEMORY_SHARE = 0.02


def host_differences(
    base: HostInventory,
    candidate: HostInventory,
    targets: Mapping[str, tuple[str, str]] | None = None,
) -> Differing:
    """The machines that generated the load. `targets` maps each subject to its target's name on
    both sides; by default targets of the same name are compared."""
    found = Collector()
    facts = (
        ("architecture", base.architecture, candidate.architecture),
        ("cpu", base.cpu_model, candidate.cpu_model),
        ("cores", counted(base.cores, "core"), counted(candidate.cores, "core")),
        ("virtualization", base.virtualization, candidate.virtualization),
        ("operating_system", base.operating_system, candidate.operating_system),
        ("kernel", base.kernel, candidate.kernel),
        ("fio", base.fio_version, candidate.fio_version),
    )
    for key, ours, theirs in facts:
        found.compare(
            f"client.{key}",
            Topic.CLIENT,
            visible(ours) or None,
            visible(theirs) or None,
            what=f"{key.replace('_', ' ')} of the load generator",
            same="",
        )
    found.compare(
        "client.memory",
        Topic.CLIENT,
        format_size(base.memory_bytes),
        format_size(candidate.memory_bytes),
        same="",
        alike=lambda: (
            abs(base.memory_bytes - candidate.memory_bytes)
            <= _MEMORY_SHARE * max(base.memory_bytes, candidate.memory_bytes)
        ),
    )
    if not found.differences:
        found.identical.append(_machine(base, candidate))
    pairs = targets
    if pairs is None:
        names = {one.target for one in candidate.targets}
        pairs = {
            one.target: (one.target, one.target) for one in base.targets if one.target in names
        }
    for subject, (ours, theirs) in pairs.items():
        _target(found, subject, base, candidate, ours, theirs)
    return found.result()


def _machine(base: HostInventory, candidate: HostInventory) -> str:
    which = "the same load generator" if base.hostname == candidate.hostname else "load generators"
    cores = counted(base.cores, "core")
    return f"{which}: {visible(base.cpu_model)}, {cores}, {format_size(base.memory_bytes)}"


def _target(
    found: Collector,
    subject: str,
    base: HostInventory,
    candidate: HostInventory,
    base_name: str,
    candidate_name: str,
) -> None:
    ours, theirs = _of(base, base_name), _of(candidate, candidate_name)
    if ours is None or theirs is None:
        return
    shown = visible(subject)
    where = f"targets.{shown}"
    found.compare(
        f"{where}.filesystem",
        Topic.MEDIA,
        visible(ours.mount.filesystem) if ours.mount else None,
        visible(theirs.mount.filesystem) if theirs.mount else None,
        what=f"filesystem of {shown}",
        target=subject,
    )
    if ours.mount and theirs.mount and ours.mount.filesystem == theirs.mount.filesystem:
        options = [set(one.mount.options.split(",")) for one in (ours, theirs) if one.mount]
        found.compare(
            f"{where}.mount_options",
            Topic.MEDIA,
            visible(",".join(sorted(options[0] - options[1]))) or "not set",
            visible(",".join(sorted(options[1] - options[0]))) or "not set",
            same="",
            target=subject,
        )
    found.compare(
        f"{where}.device",
        Topic.MEDIA,
        _device(base, ours),
        _device(candidate, theirs),
        what=f"device under {shown}:",
        target=subject,
    )


def _of(host: HostInventory, target: str) -> TargetInventory | None:
    return next((one for one in host.targets if one.target == target), None)


def _device(host: HostInventory, target: TargetInventory) -> str | None:
    """The disk below a target: what it is, not what it is called. None where there is none or it
    is not known."""
    source = target.device or (target.mount.source if target.mount else "")
    by_name = {one.name: one for one in host.block_devices}
    device = by_name.get(source.rpartition("/")[2])
    seen = set()
    while device and device.parent in by_name and device.name not in seen:
        seen.add(device.name)
        device = by_name[device.parent]
    return _kind(device) if device else None


def _kind(device: BlockDevice) -> str:
    medium = "rotating" if device.rotational else "solid state"
    model = visible(device.model.strip()) or "no model told"
    scheduler = f", scheduler {visible(device.scheduler)}" if device.scheduler else ""
    return f"{model}, {medium}, {format_size(device.size_bytes)}{scheduler}"


# How what lies below two targets differs: the layers themselves, images, devices, mounts.


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """What is known to lie below a target."""

    layers: tuple[Layer, ...]
    zfs: ZfsInventory | None = None


# Subject -> what lies below it, (in base, in candidate).
Pairs = Mapping[str, tuple[Below, Below]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BelowFact:
    """What is compared of each pair at `GROUP.SUBJECT.KEY`. `text` is None where nobody tells, or
    there is no such layer; `label` names it where it is the same and is worth telling."""

    group: str
    key: str
    topic: Topic
    text: Callable[[Below], str | None]
    label: str = ""
    meaning: str = ""


def layer_differences(pairs: Pairs) -> Differing:
    """Of a subject whose layers one side does not tell nothing is compared."""
    found = Collector()
    for fact in _FACTS:
        compare_below(found, pairs, fact)
    return found.result()


def compare_below(found: Collector, pairs: Pairs, fact: BelowFact) -> None:
    """One fact of all pairs; told once where all of several have the same difference."""
    each = Collector()
    told = 0
    for subject, (base, candidate) in pairs.items():
        ours, theirs = fact.text(base), fact.text(candidate)
        # A layer that one side lacks altogether is what the layers' own difference says.
        if ours is None or theirs is None:
            continue
        told += 1
        each.compare(
            f"{fact.group}.{visible(subject)}.{fact.key}",
            fact.topic,
            ours,
            theirs,
            same=ours,
            target=subject,
            meaning=fact.meaning,
        )
    found.differences += merged(each.differences, len(pairs), f"{fact.group}.*.{fact.key}")
    if fact.label and told and len(each.identical) == told:
        values = set(each.identical)
        one = values.pop() if len(values) == 1 else f"of all {told} targets"
        found.identical.append(f"{fact.label} {one}")


# --- layers in words -----------------------------------------------------------------------------


def way(layers: Sequence[Layer]) -> str:
    """`ext4 on loop on rbd-fuse on an RBD image on a Ceph pool`; empty of no layers."""
    return " on ".join(layer_words(layer) for layer in layers)


def layer_words(layer: Layer) -> str:
    """What a layer is, in short: not which one."""
    if layer.kind is LayerKind.FILESYSTEM:
        return visible(layer.name)
    if layer.kind is LayerKind.ZFS:
        return "ZFS" if layer.facts.get("implementation") != "fuse" else "zfs-fuse"
    if layer.kind is LayerKind.FUSE:
        return visible(layer.facts.get("program", "FUSE"))
    if layer.kind is LayerKind.NFS:
        return visible(f"NFS {layer.facts.get('version', '')}".strip())
    if layer.kind is LayerKind.IMAGE:
        client = layer.facts.get("client", "")
        return visible(f"RBD image ({client})" if client else "RBD image")
    if layer.kind is LayerKind.POOL:
        return "Ceph pool"
    kind, count = layer.facts.get("type", "device"), len(layer.devices)
    names = {"dm": layer.facts.get("mapping") or "dm", "raid": layer.facts.get("level") or "RAID"}
    if kind == "nvme":
        transport = layer.facts.get("transport", "")
        over = f" over {transport}" if transport not in ("", "pcie") else ""
        names["nvme"] = f"NVMe{over}"
    shown = visible(names.get(kind, kind))
    return f"{count} x {shown}" if count > 1 else shown


# --- facts ---------------------------------------------------------------------------------------


def _way(below: Below) -> str | None:
    return way(below.layers) or None


def _last(below: Below, kind: LayerKind) -> Layer | None:
    return next((one for one in reversed(below.layers) if one.kind is kind), None)


def _told(kind: LayerKind, key: str) -> Callable[[Below], str | None]:
    """A fact of the lowest layer of a kind."""

    def text(below: Below) -> str | None:
        layer = _last(below, kind)
        value = layer.facts.get(key) if layer else None
        if value is None:
            return None
        sized = key.endswith("_bytes") and value.isascii() and value.isdecimal()
        return format_size(int(value)) if sized else visible(value)

    return text


def _features(below: Below) -> str | None:
    """In names: krbd has them as a number only."""
    told = _told(LayerKind.IMAGE, "features")(below)
    return None if told is None or told.startswith("0x") else told


def _loop_cache(below: Below) -> str | None:
    loop = next((one for one in below.layers if one.facts.get("type") == "loop"), None)
    return loop.facts.get("direct_io") if loop else None


def _fact(group: str, kind: LayerKind, key: str, label: str = "") -> BelowFact:
    name = key.removesuffix("_bytes")
    return BelowFact(group=group, key=name, topic=Topic.LAYERS, text=_told(kind, key), label=label)


_FACTS = (
    BelowFact(group="stacks", key="way", topic=Topic.LAYERS, text=_way, label="layers:"),
    _fact("images", LayerKind.IMAGE, "object_size_bytes", "object size"),
    _fact("images", LayerKind.IMAGE, "client"),
    _fact("images", LayerKind.IMAGE, "stripe_count"),
    BelowFact(group="images", key="features", topic=Topic.LAYERS, text=_features),
    _fact("blocks", LayerKind.BLOCK, "transport", "transport"),
    _fact("blocks", LayerKind.BLOCK, "queues"),
    _fact("blocks", LayerKind.BLOCK, "paths"),
    _fact("blocks", LayerKind.BLOCK, "queue_depth"),
    _fact("blocks", LayerKind.BLOCK, "rotational"),
    _fact("blocks", LayerKind.BLOCK, "max_request_bytes"),
    _fact("blocks", LayerKind.BLOCK, "read_ahead_bytes"),
    _fact("blocks", LayerKind.BLOCK, "logical_block_bytes"),
    BelowFact(group="blocks", key="loop_direct_io", topic=Topic.LAYERS, text=_loop_cache),
    _fact("nfs", LayerKind.NFS, "version"),
    _fact("nfs", LayerKind.NFS, "rsize_bytes"),
    _fact("nfs", LayerKind.NFS, "wsize_bytes"),
    _fact("nfs", LayerKind.NFS, "connections"),
)


# How ZFS below two targets differs: release, module parameters, pools, datasets.

# What is worth telling where it is the same.
_LABELLED = ("recordsize", "volblocksize", "compression", "sync")
# Below this a pool finds room as well as an empty one.
_ROOMY = 0.5
_STEP = 0.1
# What is made of the memory as the module is loaded is never quite the same.
_COMPUTED_SHARE = 0.05


def zfs_differences(pairs: Pairs) -> Differing:
    """Of a subject that has no ZFS on one side nothing is compared: its layers say so."""
    found = Collector()
    both = [
        (base.zfs, candidate.zfs)
        for base, candidate in pairs.values()
        if base.zfs is not None and candidate.zfs is not None
    ]
    if not both:
        return found.result()
    # One machine has one ZFS: what any target tells of it is said of all.
    _module(found, *both[0])
    for fact in (*map(_property, dataset_properties()), *_POOL):
        compare_below(found, pairs, fact)
    return found.result()


def value_text(one: Parameter, value: str) -> str:
    """A parameter's value as people read it."""
    if not (value.isascii() and value.isdecimal()):
        return visible(value) or "not told"
    number = int(value)
    if one.unit is Unit.BYTES and number:
        return format_size(number)
    if one.unit is Unit.SWITCH:
        return {0: "off", 1: "on"}.get(number, value)
    units = {Unit.PERCENT: " %", Unit.SECONDS: " s", Unit.NANOSECONDS: " ns"}
    return f"{value}{units.get(one.unit, '')}"


# --- the module ----------------------------------------------------------------------------------


def _module(found: Collector, ours: ZfsInventory, theirs: ZfsInventory) -> None:
    names = {"kernel": "OpenZFS in the kernel", "fuse": "zfs-fuse"}
    found.compare(
        "zfs.implementation",
        Topic.SOFTWARE,
        names[ours.implementation],
        names[theirs.implementation],
        same=names[ours.implementation],
    )
    found.compare(
        "zfs.version",
        Topic.SOFTWARE,
        visible(ours.version) or None,
        visible(theirs.version) or None,
        what="ZFS",
    )
    for one in zfs_parameters():
        left, right = ours.parameters.get(one.name), theirs.parameters.get(one.name)
        # Another release may have no such parameter.
        if left is not None and right is not None and not _alike(one, left, right):
            found.compare(
                f"zfs.parameters.{one.name}",
                Topic.SETTINGS,
                value_text(one, left),
                value_text(one, right),
                meaning=one.does,
                alike=lambda: False,
            )


def _alike(one: Parameter, left: str, right: str) -> bool:
    if left == right or not one.computed or not (left.isdecimal() and right.isdecimal()):
        return left == right
    ours, theirs = int(left), int(right)
    return abs(ours - theirs) <= _COMPUTED_SHARE * max(ours, theirs)


# --- datasets and pools --------------------------------------------------------------------------


def _property(one: DatasetProperty) -> BelowFact:
    def text(below: Below) -> str | None:
        dataset = below.zfs.dataset if below.zfs else None
        value = dataset.value(one.name) if dataset else ""
        if value in ("", "-"):
            return None
        sized = one.size and value.isascii() and value.isdecimal() and int(value)
        return format_size(int(value)) if sized else visible(value)

    return BelowFact(
        group="datasets",
        key=one.name,
        topic=Topic.ZFS,
        text=text,
        label=one.label if one.name in _LABELLED else "",
    )


def _pool(
    key: str, text: Callable[[ZfsPool], str], label: str = "", meaning: str = ""
) -> BelowFact:
    def told(below: Below) -> str | None:
        pool = below.zfs.pool if below.zfs else None
        return (text(pool) or None) if pool else None

    return BelowFact(
        group="zpools", key=key, topic=Topic.ZFS, text=told, label=label, meaning=meaning
    )


def _fill(pool: ZfsPool) -> str:
    """In steps, and none below half: how full a pool is matters once it looks for room."""
    share = pool.capacity_share
    if share is None:
        return ""
    if share < _ROOMY:
        return f"below {percent(_ROOMY)}"
    return f"from {percent(int(share / _STEP + 1e-9) * _STEP)} on"


def _fragmentation(pool: ZfsPool) -> str:
    share = pool.fragmentation_share
    if share is None:
        return ""
    return "below 20 %" if share < 0.2 else f"from {percent(int(share * 5 + 1e-9) / 5)} on"


_POOL = (
    _pool("layout", lambda pool: visible(pool.layout), "vdevs"),
    _pool("ashift", lambda pool: str(pool.ashift or ""), "ashift"),
    _pool("health", lambda pool: visible(pool.health)),
    _pool("version", lambda pool: visible(pool.version)),
    _pool("fill", _fill),
    _pool("fragmentation", _fragmentation),
    _pool("autotrim", lambda pool: visible(pool.autotrim)),
)
