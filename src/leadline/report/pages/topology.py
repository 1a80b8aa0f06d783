"""The CRUSH tree of a cluster as a picture: boxes in boxes, with failure domains or fill."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from leadline.inventory.ceph.distribution import compute_fill
from leadline.inventory.ceph.model import CephInventory, Osd
from leadline.report.document import Branch, Tree
from leadline.report.words import count_text, listed, share_text, short
from leadline.units import format_size

# Boxes of one system that a reader can distinguish, next to another and on their own.
_MOST_BOXES, _MOST_BOXES_ALONE = 40, 120
_LEAVES = 12
_Osds = Sequence[Osd]
# The value of a box and its shade.
_Drawn = tuple[str, float | None]


def crush_tree(inventory: CephInventory) -> Tree:
    """Root > zone > rack > host > OSDs; OSDs of one bucket that are alike share a leaf."""
    return Tree(caption="CRUSH", roots=_roots(inventory, _alike, lambda osds: ("", None)))


def draw_cluster(
    inventory: CephInventory, name: str, hue: int = 0, *, marked: Iterable[str] | None = None
) -> Tree:
    """Draw the CRUSH tree, without its deepest levels where there are too many boxes. Buckets of
    the levels `marked` stand out in the colour `hue`; by default the failure domains of the
    pools."""
    if marked is None:
        marked = (
            pool.rule.failure_domain
            for pool in inventory.pools
            if pool.rule and pool.rule.failure_domain
        )
    starts = tuple("osd." if level == "osd" else f"{level} " for level in marked)
    boxes = cut_boxes(crush_tree(inventory).roots, _MOST_BOXES)
    roots = tuple(_marked(root, starts) for root in boxes)
    return Tree(caption=f"CRUSH tree of {short(name)}", roots=roots, boxes=True, hue=hue)


def draw_fill(inventory: CephInventory) -> tuple[Tree, str]:
    """Draw the CRUSH tree with how full each OSD is, and name the level that is drawn last."""
    near_full = inventory.capacity.near_full_ratio

    def filled(osds: _Osds) -> _Drawn:
        share = compute_fill(osds)
        if share is None:
            return "", None
        return share_text(share), -share if share >= near_full else share

    def leaves(osds: _Osds) -> Iterable[Branch]:
        for osd in osds:
            state = "" if osd.up and osd.is_in else "down" if not osd.up else "out"
            size = "" if osd.size_bytes is None else format_size(osd.size_bytes)
            pgs = "" if osd.pgs is None else f"{osd.pgs:,} PGs"
            value, shade = (state, -1.0) if state else filled((osd,))
            note = ", ".join(filter(None, (osd.device_class, size, pgs)))
            yield Branch(label=f"osd.{osd.id}", note=note, value=value, shade=shade)

    roots = cut_boxes(_roots(inventory, leaves, filled))
    return Tree(caption="CRUSH tree", roots=roots, boxes=True), _deepest(roots)


def _roots(
    inventory: CephInventory,
    leaves: Callable[[_Osds], Iterable[Branch]],
    filled: Callable[[_Osds], _Drawn],
) -> tuple[Branch, ...]:
    placed = [osd for osd in inventory.osds if osd.location]
    nowhere = [osd for osd in inventory.osds if not osd.location]
    roots = list(_branches(placed, 0, leaves, filled))
    if nowhere:
        roots.append(Branch(label="outside the tree", below=tuple(leaves(nowhere))))
    return tuple(roots)


def _branches(
    osds: _Osds,
    depth: int,
    leaves: Callable[[_Osds], Iterable[Branch]],
    filled: Callable[[_Osds], _Drawn],
) -> Iterable[Branch]:
    below: dict[tuple[str, str], list[Osd]] = {}
    for osd in osds:
        place = osd.location[depth]
        below.setdefault((place.level, place.name), []).append(osd)
    for (level, name), inside in sorted(below.items(), key=lambda item: natural(item[0][1])):
        deeper = [osd for osd in inside if len(osd.location) > depth + 1]
        here = [osd for osd in inside if len(osd.location) == depth + 1]
        value, shade = filled(inside)
        yield Branch(
            label=f"{level} {name}",
            note=count_text(len(inside), "OSD"),
            below=(*_branches(deeper, depth + 1, leaves, filled), *leaves(here)),
            value=value,
            shade=shade,
        )


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that orders `host2` before `host10`."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts if part]


def _alike(osds: _Osds) -> Iterable[Branch]:
    alike: dict[tuple[str, str, str], list[int]] = {}
    for osd in osds:
        size = "" if osd.size_bytes is None else format_size(osd.size_bytes)
        state = "" if osd.up and osd.is_in else "down" if not osd.up else "out"
        alike.setdefault((osd.device_class or "", size, state), []).append(osd.id)
    shown = list(alike.items())
    for (device_class, size, state), ids in shown[:_LEAVES]:
        count = f"{len(ids):,}" if len(ids) > 1 else ""
        note = " ".join(filter(None, (count, device_class, size, state)))
        yield Branch(label=f"osd.{_ranges(ids)}", note=note)
    rest = sum(len(ids) for _, ids in shown[_LEAVES:])
    if rest:
        yield Branch(label=f"{count_text(rest, 'more OSD')} of other sizes")


def _ranges(ids: Sequence[int]) -> str:
    """`0-7, 9`."""
    spans: list[list[int]] = []
    for number in sorted(ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in spans]
    return listed(texts, 12).replace(" and ", ", ")


# --- as many boxes as a reader can distinguish ----------------------------------------------------


def cut_boxes(roots: tuple[Branch, ...], most: int = _MOST_BOXES_ALONE) -> tuple[Branch, ...]:
    """Leave out the deepest levels until there are at most so many boxes; of a level below the
    roots that has more, the last ones."""
    depth = _depth(roots)
    while depth > 2 and _count(roots, depth) > most:
        depth -= 1
    if _count(roots, depth) > most:
        each = max(1, most // len(roots) - 1)
        roots = tuple(_first(root, each) for root in roots[:most])
    return tuple(_without(root, depth) for root in roots)


def _first(branch: Branch, most: int) -> Branch:
    """Keep the first children where a bucket has too many."""
    if len(branch.below) <= most:
        return branch
    rest = Branch(label=f"{len(branch.below) - most:,} more")
    return replace(branch, below=(*branch.below[:most], rest))


def _without(branch: Branch, depth: int) -> Branch:
    if depth > 1:
        return replace(branch, below=tuple(_without(one, depth - 1) for one in branch.below))
    if not branch.below:
        return branch
    value = ", ".join(filter(None, (branch.note, branch.value)))
    return replace(branch, note="", value=value, below=())


def _depth(branches: Sequence[Branch]) -> int:
    return 1 + max((_depth(branch.below) for branch in branches), default=0) if branches else 0


def _count(branches: Sequence[Branch], depth: int) -> int:
    if not depth:
        return 0
    return sum(1 + _count(branch.below, depth - 1) for branch in branches)


def _marked(branch: Branch, starts: tuple[str, ...]) -> Branch:
    strong = bool(starts) and branch.label.startswith(starts)
    if strong and branch.label.startswith("osd."):
        return replace(branch, note="", value=branch.note, strong=True)
    below = tuple(_marked(inner, starts) for inner in branch.below)
    return replace(branch, below=below, strong=strong)


def _deepest(roots: Sequence[Branch]) -> str:
    """`OSD`, or the level whose buckets are drawn last: `host`."""
    leaf = roots[0] if roots else None
    while leaf is not None and leaf.below:
        leaf = leaf.below[0]
    if leaf is None or leaf.label.startswith("osd."):
        return "OSD"
    return leaf.label.partition(" ")[0]
