"""How the targets of a plan divide the image that they share in a pool of Ceph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from leadline.plan.footprint import Footprint, target_footprint
from leadline.plan.models import Plan
from leadline.plan.target_url import TargetKind, TargetUrl

OBJECT_BYTES = 4 << 20
# Metadata and journal of ext4, and the room that it needs not to become slow.
_EXT4_SHARE, _EXT4_MORE = 1.15, 128 << 20
# A pool of ZFS writes in new places only and slows down as it fills: the data, a copy that is
# received, half as much again, and what a pool keeps for itself.
_ZFS_SHARE, _ZFS_MORE = 2.5, 512 << 20


class Part(Enum):
    """Sorts of targets, in the order of their stretches."""

    LIBRBD = "librbd"
    EXT4 = "ext4"
    ZFS = "ZFS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes from `offset` on."""

    offset: int
    size: int


def part_of(url: TargetUrl) -> Part | None:
    """None for a target that shares no image."""
    if url.kind is TargetKind.RBD:
        return Part.LIBRBD if url.options.get("shared") == "yes" else None
    parts = {TargetKind.EXT4_ON_RBD: Part.EXT4, TargetKind.ZFS_ON_RBD: Part.ZFS}
    return parts.get(url.kind)


def image_of(url: TargetUrl) -> tuple[str, str]:
    """Targets of one cluster that have this in common share an image: the pool, and the pool of
    its data where one is named."""
    return url.pool, url.options.get("data_pool", "")


def layout(wanted: Sequence[tuple[Part, Footprint]]) -> dict[Part, Stretch]:
    """The stretches of the parts that any target wants, one behind the other, in whole objects.
    That of librbd comes first, since fio's engine begins at 0; its targets all work on the same,
    one after the other."""
    found: dict[Part, Stretch] = {}
    offset = 0
    for part in Part:
        mine = [footprint for one, footprint in wanted if one is part]
        if not mine:
            continue
        size = -(-_needed(part, mine) // OBJECT_BYTES) * OBJECT_BYTES
        found[part] = Stretch(offset=offset, size=size)
        offset += size
    return found


def image_bytes(wanted: Sequence[tuple[Part, Footprint]]) -> int:
    return sum(stretch.size for stretch in layout(wanted).values())


def shared_layouts(plan: Plan) -> Mapping[tuple[str, str], dict[Part, Stretch]]:
    """The layout of every shared image of a plan, by its cluster and pool."""
    wanted: dict[tuple[str, str, str], list[tuple[Part, Footprint]]] = {}
    for target in plan.targets:
        part = part_of(target.parsed)
        if part is not None:
            key = (target.cluster, *image_of(target.parsed))
            wanted.setdefault(key, []).append((part, target_footprint(plan, target.name)))
    return {
        (cluster, data_pool or pool): layout(one)
        for (cluster, pool, data_pool), one in wanted.items()
    }


def _needed(part: Part, footprints: Sequence[Footprint]) -> int:
    """Bytes of a stretch."""
    match part:
        case Part.LIBRBD:
            return max(one.span for one in footprints)
        case Part.EXT4:
            return int(sum(one.total_bytes for one in footprints) * _EXT4_SHARE) + _EXT4_MORE
        case Part.ZFS:
            return int(sum(one.total_bytes for one in footprints) * _ZFS_SHARE) + _ZFS_MORE
