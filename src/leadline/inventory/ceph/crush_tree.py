"""The buckets of a CRUSH map, and the OSDs that more buckets of a level would bring.

A new bucket is a copy of one that is there: of those of its level, the one with the median weight.
It has the same buckets, OSDs, weights and device classes below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import Node
from leadline.inventory.ceph.model import Place

# Weights in CRUSH maps have 16 bits behind the point.
_UNIT = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A bucket: `items` are the ids of what is directly in it, with their weights."""

    id: int
    place: Place
    items: tuple[tuple[int, float], ...]

    @property
    def weight(self) -> float:
        return sum(weight for _, weight in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrushTree:
    """Buckets by id, without Ceph's copies of them for each device class; classes by OSD."""

    buckets: Mapping[int, Bucket]
    classes: Mapping[int, str]

    def root(self, name: str) -> Bucket | None:
        """Return the bucket of that name, from which a rule takes."""
        return next((item for item in self.buckets.values() if item.place.name == name), None)

    def below(self, bucket: Bucket) -> Iterator[Bucket]:
        """Yield a bucket and all buckets below it."""
        yield bucket
        for number, _ in bucket.items:
            if number in self.buckets:
                yield from self.below(self.buckets[number])

    def osds(self, bucket: Bucket, device_class: str | None = None) -> dict[int, float]:
        """Return the OSDs below a bucket, of a class if it is named, with their weights."""
        return {
            number: weight
            for inner in self.below(bucket)
            for number, weight in inner.items
            if number >= 0 and device_class in (None, self.classes.get(number))
        }

    def parent(self, bucket: Bucket) -> Bucket | None:
        return next(
            (
                above
                for above in self.buckets.values()
                if any(number == bucket.id for number, _ in above.items)
            ),
            None,
        )

    def hosts(self) -> dict[int, str]:
        """Return the name of the bucket that each OSD is directly in."""
        return {
            number: bucket.place.name
            for bucket in self.buckets.values()
            for number, _ in bucket.items
            if number >= 0
        }


def read_crush_tree(crush: Node) -> CrushTree:
    """Read the buckets of `osd crush dump`, or of `crushtool --dump`.

    Raises:
        LeadlineError: `dumps-invalid`, also for a bucket that contains itself.
    """
    buckets = {}
    for node in crush["buckets"]:
        name = node["name"].text
        if "~" not in name:
            number = node["id"].integer
            buckets[number] = Bucket(
                id=number,
                place=Place(level=node["type_name"].text, name=name),
                items=tuple(
                    (item["id"].integer, item["weight"].count / _UNIT) for item in node["items"]
                ),
            )
    # Parents first, each bucket after the last of its parents; a circle has no first.
    parents = Counter(number for bucket in buckets.values() for number, _ in bucket.items)
    waiting = [number for number in buckets if not parents[number]]
    reached = 0
    while waiting:
        reached += 1
        for number, _ in buckets[waiting.pop()].items:
            parents[number] -= 1
            if not parents[number] and number in buckets:
                waiting.append(number)
    if reached < len(buckets):
        raise crush["buckets"].wrong("a tree: it has a circle")
    classes = {
        node["id"].integer: node["class"].text for node in crush["devices"] if node.get("class")
    }
    return CrushTree(buckets=buckets, classes=classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """`count` more buckets of a level: `host`, `rack`, `zone`."""

    level: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOsd:
    """An OSD that an addition brings. `location` is from its own bucket up to the first bucket
    that is there already."""

    osd: int
    weight: float
    device_class: str | None
    location: tuple[Place, ...]


def plan_addition(
    tree: CrushTree, roots: Collection[str], addition: Addition, first_osd: int
) -> tuple[NewOsd, ...]:
    """Return the OSDs of an addition below the roots, with ids from `first_osd`.

    Each new bucket goes into the lightest of the buckets that have one of its level.

    Raises:
        LeadlineError: `usage`: there is no bucket of that level with OSDs, or it is in several
            roots.
    """
    found = {name: top for name in roots if (top := tree.root(name)) is not None}
    alike = {
        name: [
            bucket
            for bucket in tree.below(top)
            if bucket.place.level == addition.level
            and bucket.id != top.id
            and any(tree.osds(bucket).values())
        ]
        for name, top in found.items()
    }
    holding = [name for name, buckets in alike.items() if buckets]
    if not holding:
        raise _no_such_level(tree, found, addition.level)
    if len(holding) > 1:
        raise LeadlineError(
            errors.USAGE,
            f"pools are below {len(holding)} roots with buckets of type {addition.level!r}",
            context=[f"roots: {', '.join(sorted(holding))}"],
            hint="name the pools of one root with --pool",
        )
    candidates = sorted(
        alike[holding[0]], key=lambda bucket: (_weight(tree, bucket), bucket.place.name)
    )
    template = candidates[(len(candidates) - 1) // 2]
    parents = {
        above.id: above for bucket in candidates if (above := tree.parent(bucket)) is not None
    }
    weights = {number: _weight(tree, parent) for number, parent in parents.items()}
    names = {bucket.place.name for bucket in tree.buckets.values()}
    osds: list[NewOsd] = []
    for number in range(1, addition.count + 1):
        lightest = min(weights, key=lambda key: (weights[key], parents[key].place.name))
        weights[lightest] += _weight(tree, template)
        name = _unused(f"new-{addition.level}-{number}", names)
        into = (parents[lightest].place,)
        osds += _copy(tree, template, name, into, first_osd + len(osds))
    return tuple(osds)


def _weight(tree: CrushTree, bucket: Bucket) -> float:
    return sum(tree.osds(bucket).values())


def _unused(name: str, names: Collection[str]) -> str:
    while name in names:
        name += "-new"
    return name


def _copy(
    tree: CrushTree, template: Bucket, name: str, above: tuple[Place, ...], first_osd: int
) -> list[NewOsd]:
    """Return the OSDs of a copy of a bucket. OSDs without weight are not copied."""
    here = (Place(level=template.place.level, name=name), *above)
    osds: list[NewOsd] = []
    inner = 0
    for number, weight in template.items:
        if number in tree.buckets:
            inner += 1
            below = tree.buckets[number]
            osds += _copy(
                tree, below, f"{name}-{below.place.level}-{inner}", here, first_osd + len(osds)
            )
        elif weight > 0:
            osds.append(
                NewOsd(
                    osd=first_osd + len(osds),
                    weight=weight,
                    device_class=tree.classes.get(number),
                    location=here,
                )
            )
    return osds


def _no_such_level(tree: CrushTree, roots: Mapping[str, Bucket], level: str) -> LeadlineError:
    levels: Sequence[str] = list(
        dict.fromkeys(
            bucket.place.level
            for top in roots.values()
            for bucket in tree.below(top)
            if bucket.id != top.id and any(tree.osds(bucket).values())
        )
    )
    return LeadlineError(
        errors.USAGE,
        f"the CRUSH map has no {level} with OSDs below {', '.join(sorted(roots)) or 'any root'}",
        context=[f"levels with OSDs: {', '.join(levels) or 'none'}"],
        hint=f"--add copies a bucket that is there: --add {levels[-1] if levels else 'host'}=1",
    )
