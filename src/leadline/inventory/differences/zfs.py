"""How ZFS below two targets differs: release, module parameters, pools, datasets."""

from __future__ import annotations

from collections.abc import Callable

from leadline.inventory.differences.layers import Below, BelowFact, Pairs, compare_below
from leadline.inventory.differences.model import Collector, Differing, Topic
from leadline.inventory.differences.words import percent
from leadline.inventory.zfs.models import ZfsInventory, ZfsPool
from leadline.inventory.zfs.parameters import PARAMETERS, Parameter, Unit
from leadline.inventory.zfs.properties import PROPERTIES, DatasetProperty
from leadline.units import format_size
from leadline.visible import visible

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
    for fact in (*_DATASET, *_POOL):
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
    for one in PARAMETERS:
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


_DATASET = tuple(_property(one) for one in PROPERTIES)
_POOL = (
    _pool("layout", lambda pool: visible(pool.layout), "vdevs"),
    _pool("ashift", lambda pool: str(pool.ashift or ""), "ashift"),
    _pool("health", lambda pool: visible(pool.health)),
    _pool("version", lambda pool: visible(pool.version)),
    _pool("fill", _fill),
    _pool("fragmentation", _fragmentation),
    _pool("autotrim", lambda pool: visible(pool.autotrim)),
)
