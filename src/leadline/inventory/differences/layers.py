"""How what lies below two targets differs: the layers themselves, images, devices, mounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leadline.archive.records import Layer, LayerKind
from leadline.inventory.differences.model import Collector, Differing, Topic, merged
from leadline.inventory.zfs.models import ZfsInventory
from leadline.units import format_size
from leadline.visible import visible


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
