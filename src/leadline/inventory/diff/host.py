"""Differences of two load generators, and of the layers and ZFS below their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leadline.formats.zfs.status import VdevGroup
from leadline.inventory.diff.model import Collector, Differing, Fact, Topic, within
from leadline.inventory.host import HostInventory, TargetInventory
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
from leadline.text import counted, percent
from leadline.units import format_size

# Firmware and kernel reserve a little memory, which differs between boots.
_MEMORY_SHARE = 0.02


def host_differences(
    base: HostInventory,
    candidate: HostInventory,
    targets: Mapping[str, tuple[str, str]] | None = None,
) -> Differing:
    """Compare the load generators and what is below their targets.

    `targets` maps each subject to its target's name in base and in candidate. By default targets
    of the same name are compared.
    """
    found = Collector()
    found.compare_facts("client", base, candidate, _CLIENT)
    if not found.differences:
        same = base.hostname == candidate.hostname
        which = "the same load generator" if same else "load generators"
        cores, memory = counted(base.cores, "core"), format_size(base.memory_bytes)
        found.identical.append(f"{which}: {base.cpu_model}, {cores}, {memory}")
    first = {target.target: target for target in base.targets}
    second = {target.target: target for target in candidate.targets}
    if targets is None:
        targets = {name: (name, name) for name in first if name in second}
    for subject, (base_name, candidate_name) in targets.items():
        if base_name in first and candidate_name in second:
            pair = (base, first[base_name]), (candidate, second[candidate_name])
            _compare_targets(found, subject, *pair)
    return found.result()


def _client(key: str, text: Callable[[HostInventory], str]) -> Fact[HostInventory]:
    what = f"{key.replace('_', ' ')} of the load generator"
    return Fact(key, Topic.CLIENT, text, what=what, same="")


_CLIENT: tuple[Fact[HostInventory], ...] = (
    _client("architecture", lambda host: host.architecture),
    _client("cpu", lambda host: host.cpu_model),
    _client("cores", lambda host: counted(host.cores, "core")),
    _client("virtualization", lambda host: host.virtualization),
    _client("operating_system", lambda host: host.operating_system),
    _client("kernel", lambda host: host.kernel),
    _client("fio", lambda host: host.fio_version),
    Fact(
        "memory",
        Topic.CLIENT,
        lambda host: format_size(host.memory_bytes),
        same="",
        alike=within(_MEMORY_SHARE, lambda host: host.memory_bytes),
    ),
)


def _compare_targets(
    found: Collector,
    subject: str,
    base: tuple[HostInventory, TargetInventory],
    candidate: tuple[HostInventory, TargetInventory],
) -> None:
    where, found = f"targets.{subject}", found.on(subject)
    mounts = base[1].mount, candidate[1].mount
    kinds = [mount.filesystem if mount else None for mount in mounts]
    found.compare(f"{where}.filesystem", Topic.MEDIA, kinds, what=f"filesystem of {subject}")
    if mounts[0] and mounts[1] and kinds[0] == kinds[1]:
        first, second = (set(mount.options.split(",")) for mount in mounts if mount)
        own = [
            ",".join(sorted(options)) or "not set" for options in (first - second, second - first)
        ]
        found.compare(f"{where}.mount_options", Topic.MEDIA, own, same="")
    disks = _format_disk(*base), _format_disk(*candidate)
    found.compare(f"{where}.device", Topic.MEDIA, disks, what=f"device under {subject}:")


def _format_disk(host: HostInventory, target: TargetInventory) -> str | None:
    """Return the kind of the disk below a target, without its name; None if it is unknown."""
    source = target.device or (target.mount.source if target.mount else "")
    by_name = {device.name: device for device in host.block_devices}
    device = by_name.get(source.rpartition("/")[2])
    seen = set()
    while device and device.parent in by_name and device.name not in seen:
        seen.add(device.name)
        device = by_name[device.parent]
    if device is None:
        return None
    medium = "rotating" if device.rotational else "solid state"
    scheduler = f", scheduler {device.scheduler}" if device.scheduler else ""
    model = device.model.strip() or "unknown model"
    return f"{model}, {medium}, {format_size(device.size_bytes)}{scheduler}"


# Layers below a target.


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """The layers below a target."""

    layers: tuple[Layer, ...]
    zfs: ZfsInventory | None = None


# Subject -> what is below it, (in base, in candidate).
Pairs = Mapping[str, tuple[Below, Below]]


# Facts by group; that of a subject is at `GROUP.SUBJECT.KEY`.
BelowFacts = Mapping[str, Sequence[Fact[Below]]]


def layer_differences(pairs: Pairs) -> Differing:
    """Compare the layers of each subject; a subject with unknown layers is left out."""
    found = Collector()
    _compare_below(found, pairs, _LAYERS)
    return found.result()


def _compare_below(found: Collector, pairs: Pairs, groups: BelowFacts) -> None:
    for group, fact in ((group, fact) for group, facts in groups.items() for fact in facts):
        texts = {
            subject: (fact.text(base), fact.text(candidate))
            for subject, (base, candidate) in pairs.items()
        }
        # A layer that only one system has is a difference of `stacks`.
        known = {subject: pair for subject, pair in texts.items() if None not in pair}
        equal = found.compare_subjects(group, fact.key, fact.topic, known, subjects=len(pairs))
        found.label_subjects(fact.what, equal, len(known), "targets")


def format_layers(layers: Sequence[Layer]) -> str:
    """Return `ext4 on loop on rbd-fuse on an RBD image on a Ceph pool`; empty without layers."""
    return " on ".join(map(format_layer, layers))


def format_layer(layer: Layer) -> str:
    """Return the kind of a layer, without its name."""
    facts = layer.facts
    match layer.kind:
        case LayerKind.FILESYSTEM:
            return layer.name
        case LayerKind.ZFS:
            return "ZFS" if facts.get("implementation") != "fuse" else "zfs-fuse"
        case LayerKind.FUSE:
            return facts.get("program", "FUSE")
        case LayerKind.NFS:
            return f"NFS {facts.get('version', '')}".strip()
        case LayerKind.IMAGE:
            ways = [facts.get("client", ""), facts.get("encryption", "").removeprefix("none")]
            known = ", ".join(filter(None, ways))
            return f"RBD image ({known})" if known else "RBD image"
        case LayerKind.POOL:
            return "Ceph pool"
    kind = facts.get("type", "device")
    transport = facts.get("transport", "")
    names = {
        "dm": facts.get("mapping") or "dm",
        "raid": facts.get("level") or "RAID",
        "nvme": "NVMe" if transport in ("", "pcie") else f"NVMe over {transport}",
    }
    name = names.get(kind, kind)
    return f"{len(layer.devices)} x {name}" if len(layer.devices) > 1 else name


def _layer_fact(kind: LayerKind, key: str) -> Callable[[Below], str | None]:
    """Return a reader of a fact of the lowest layer of a kind."""

    def read(below: Below) -> str | None:
        layer = next((layer for layer in reversed(below.layers) if layer.kind is kind), None)
        value = layer.facts.get(key) if layer else None
        return _format_bytes(value) if value and key.endswith("_bytes") else value

    return read


def _format_bytes(value: str) -> str:
    return format_size(int(value)) if value.isascii() and value.isdecimal() else value


def _features(below: Below) -> str | None:
    """Return the names of an image's features; krbd reports a number only, which is unknown."""
    text = _layer_fact(LayerKind.IMAGE, "features")(below)
    return None if text is None or text.startswith("0x") else text


def _loop_cache(below: Below) -> str | None:
    loops = (layer for layer in below.layers if layer.facts.get("type") == "loop")
    return next((loop.facts.get("direct_io") for loop in loops), None)


def _facts(kind: LayerKind, labels: Mapping[str, str]) -> Iterator[Fact[Below]]:
    """Yield facts of a kind of layer, with the label of those that are named if they are equal."""
    for key, label in labels.items():
        name = key.removesuffix("_bytes")
        yield Fact(name, Topic.LAYERS, _layer_fact(kind, key), what=label)


_IMAGE = {"object_size_bytes": "object size"} | dict.fromkeys(
    ("client", "encryption", "stripe_count"), ""
)
_BLOCK = {"transport": "transport"} | dict.fromkeys(
    ("queues", "paths", "queue_depth", "rotational", "max_request_bytes", "read_ahead_bytes",
     "logical_block_bytes"), ""
)  # fmt: skip
_NFS = dict.fromkeys(("version", "rsize_bytes", "wsize_bytes", "connections"), "")


def _stack(below: Below) -> str | None:
    return format_layers(below.layers) or None


_LAYERS: BelowFacts = {
    "stacks": (Fact("way", Topic.LAYERS, _stack, what="layers:"),),
    "images": (*_facts(LayerKind.IMAGE, _IMAGE), Fact("features", Topic.LAYERS, _features)),
    "blocks": (
        *_facts(LayerKind.BLOCK, _BLOCK),
        Fact("loop_direct_io", Topic.LAYERS, _loop_cache),
    ),
    "nfs": tuple(_facts(LayerKind.NFS, _NFS)),
}

# ZFS below a target: release, module parameters, datasets, pools.

# Properties that are labelled where they are the same.
_LABELLED = ("recordsize", "volblocksize", "compression", "sync")
# A pool that is less full allocates as fast as an empty one.
_ROOMY = 0.5
_FILL_STEP = 0.1
_FRAGMENTATION_STEP = 0.2
# Values computed from the memory when the module is loaded are never exactly equal.
_COMPUTED_SHARE = 0.05
_IMPLEMENTATIONS = {"kernel": "OpenZFS in the kernel", "fuse": "zfs-fuse"}


def zfs_differences(pairs: Pairs) -> Differing:
    """Compare ZFS below each subject; a subject without ZFS in one system is left out."""
    found = Collector()
    both = [
        (base.zfs, candidate.zfs)
        for base, candidate in pairs.values()
        if base.zfs is not None and candidate.zfs is not None
    ]
    if both:
        # A machine has one ZFS module: the first target reports it for all.
        _compare_modules(found, *both[0])
        datasets = [_dataset_fact(item) for item in dataset_properties()]
        _compare_below(found, pairs, {"datasets": datasets, "zpools": _POOL})
    return found.result()


def format_parameter(parameter: Parameter, value: str) -> str:
    """Format a parameter's value with its unit."""
    if not (value.isascii() and value.isdecimal()):
        return value or "unknown"
    number = int(value)
    if parameter.unit is Unit.BYTES and number:
        return format_size(number)
    if parameter.unit is Unit.SWITCH:
        return {0: "off", 1: "on"}.get(number, value)
    units = {Unit.PERCENT: " %", Unit.SECONDS: " s", Unit.NANOSECONDS: " ns"}
    return f"{value}{units.get(parameter.unit, '')}"


def _compare_modules(found: Collector, base: ZfsInventory, candidate: ZfsInventory) -> None:
    implementations = [_IMPLEMENTATIONS[zfs.implementation] for zfs in (base, candidate)]
    found.compare("zfs.implementation", Topic.SOFTWARE, implementations)
    found.compare("zfs.version", Topic.SOFTWARE, (base.version, candidate.version), what="ZFS")
    for parameter in zfs_parameters():
        # Another release may lack the parameter.
        first = base.parameters.get(parameter.name)
        second = candidate.parameters.get(parameter.name)
        if first is not None and second is not None and not _alike(parameter, first, second):
            found.compare(
                f"zfs.parameters.{parameter.name}",
                Topic.SETTINGS,
                (format_parameter(parameter, first), format_parameter(parameter, second)),
                meaning=parameter.does,
                alike=False,
            )


def _alike(parameter: Parameter, left: str, right: str) -> bool:
    if left == right or not parameter.computed or not (left.isdecimal() and right.isdecimal()):
        return left == right
    return within(_COMPUTED_SHARE, int)(left, right)


def _dataset_fact(item: DatasetProperty) -> Fact[Below]:
    def read(below: Below) -> str | None:
        dataset = below.zfs.dataset if below.zfs else None
        value = dataset.value(item.name) if dataset else ""
        if value in ("", "-"):
            return None
        return _format_bytes(value) if item.size and value != "0" else value

    return Fact(item.name, Topic.ZFS, read, what=item.label if item.name in _LABELLED else "")


def _pool_fact(key: str, text: Callable[[ZfsPool], str], label: str = "") -> Fact[Below]:
    def read(below: Below) -> str | None:
        pool = below.zfs.pool if below.zfs else None
        return (text(pool) or None) if pool else None

    return Fact(key, Topic.ZFS, read, what=label)


def _format_step(share: float | None, step: float, least: float) -> str:
    """Return `below 50 %` or `from 70 % on`: a share rounded down to a step."""
    if share is None:
        return ""
    if share < least:
        return f"below {percent(least)}"
    return f"from {percent(int(share / step + 1e-9) * step)} on"


def _fragmentation(pool: ZfsPool) -> str:
    return _format_step(pool.fragmentation_share, _FRAGMENTATION_STEP, _FRAGMENTATION_STEP)


def _group_layout(group: VdevGroup) -> Callable[[ZfsPool], str]:
    """Return the text of a group's vdevs: `none` where the pool is known to have none."""
    return lambda pool: pool.layouts.get(group, "none") if pool.vdevs else ""


# Other vdevs than those of the data; spares take no I/O.
_EXTRA = (VdevGroup.LOG, VdevGroup.CACHE, VdevGroup.SPECIAL, VdevGroup.DEDUP)
_POOL = (
    _pool_fact("layout", _group_layout(VdevGroup.DATA), "vdevs"),
    *(_pool_fact(group.value, _group_layout(group)) for group in _EXTRA),
    _pool_fact("ashift", lambda pool: ", ".join(map(str, pool.ashifts)), "ashift"),
    _pool_fact("health", lambda pool: pool.health),
    _pool_fact("version", lambda pool: pool.version),
    _pool_fact("fill", lambda pool: _format_step(pool.capacity_share, _FILL_STEP, _ROOMY)),
    _pool_fact("fragmentation", _fragmentation),
    _pool_fact("autotrim", lambda pool: pool.autotrim),
)
