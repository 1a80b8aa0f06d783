"""Reads the CRUSH tree and its rules from dumps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.inventory.ceph import CrushLevel, CrushRoot, CrushRule, Place
from leadline.inventory.ceph_dumps import Node

OSD_LEVEL = "osd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an OSD stands: its places from the root down, its class and its CRUSH weight."""

    location: tuple[Place, ...]
    device_class: str | None
    weight: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The buckets of `osd tree`. `roots` have no parent; `ranks` orders levels (osd is 0)."""

    roots: tuple[int, ...]
    names: Mapping[int, str]
    levels: Mapping[int, str]
    ranks: Mapping[str, int]
    children: Mapping[int, tuple[int, ...]]
    standings: Mapping[int, Standing]

    def osds_below(self, root: str, device_class: str | None = None) -> frozenset[int]:
        """OSDs below the bucket of a name, of a class."""
        return frozenset(
            osd
            for osd, standing in self.standings.items()
            if any(place.name == root for place in standing.location)
            and device_class in (None, standing.device_class)
        )


def read_tree(tree: Node) -> Tree:
    """`osd tree`: OSDs have ids from 0, buckets negative ones."""
    names, levels, ranks, children, nodes = {}, {}, {}, {}, {}
    for node in tree["nodes"]:
        number = node["id"].integer
        names[number] = node["name"].text
        levels[number] = node["type"].text
        ranks[levels[number]] = node["type_id"].integer
        below = node.get("children")
        children[number] = tuple(child.integer for child in below) if below else ()
        nodes[number] = node
    lower = {child for below in children.values() for child in below}
    roots = tuple(number for number in names if number < 0 and number not in lower)
    standings: dict[int, Standing] = {}

    def walk(number: int, above: tuple[Place, ...]) -> None:
        if number not in names:
            raise tree["nodes"].wrong(f"a tree: there is no node {number}")
        if number >= 0:
            node = nodes[number]
            standings.setdefault(number, _standing(node, above))
            return
        if len(above) > len(names):
            raise tree["nodes"].wrong("a tree: it has a circle")
        here = (*above, Place(level=levels[number], name=names[number]))
        for child in children[number]:
            walk(child, here)

    for root in roots:
        walk(root, ())
    strays = tree.get("stray")
    for node in [*nodes.values(), *(strays or ())]:
        number = node["id"].integer
        if number >= 0:
            standings.setdefault(number, _standing(node, ()))
    return Tree(
        roots=roots,
        names=names,
        levels=levels,
        ranks=ranks,
        children=children,
        standings=standings,
    )


def _standing(node: Node, above: tuple[Place, ...]) -> Standing:
    weight, device_class = node.get("crush_weight"), node.get("device_class")
    return Standing(
        location=above,
        device_class=(device_class.text or None) if device_class else None,
        weight=weight.number if weight else None,
    )


def crush_roots(tree: Tree) -> tuple[CrushRoot, ...]:
    """Roots with OSDs, their levels from the root down."""
    found = []
    for root in tree.roots:
        name = tree.names[root]
        below = [
            standing.location
            for standing in tree.standings.values()
            if standing.location and standing.location[0].name == name
        ]
        if not below:
            continue
        buckets: dict[str, set[str]] = {}
        for location in below:
            for place in location:
                buckets.setdefault(place.level, set()).add(place.name)
        order = sorted(buckets, key=lambda level: -tree.ranks[level])
        levels = [CrushLevel(level=level, count=len(buckets[level])) for level in order]
        levels.append(CrushLevel(level=OSD_LEVEL, count=len(below)))
        found.append(CrushRoot(name=name, levels=tuple(levels)))
    return tuple(found)


def read_rules(crush: Node | None, rules: Node | None) -> dict[int, CrushRule] | None:
    """Rules by id, from `osd crush dump` or `osd crush rule dump`; None where there is neither."""
    listed = crush["rules"] if crush is not None else rules
    if listed is None:
        return None
    return {rule.id: rule for rule in map(_rule, listed)}


def _rule(node: Node) -> CrushRule:
    root, device_class, domain, takes = None, None, None, 0
    choosing: list[tuple[int, str]] = []
    for step in node["steps"]:
        operation = step["op"].text
        if operation == "take":
            takes += 1
            if takes == 1:
                # `default~ssd` is the part of `default` on OSDs of a class.
                root, _, named = step["item_name"].text.partition("~")
                device_class = named or None
        elif operation.startswith("choose"):
            choosing.append((step["num"].integer, step["type"].text))
    if takes == 1:
        domain = _failure_domain(choosing)
    return CrushRule(
        id=node["rule_id"].integer,
        name=node["rule_name"].text,
        root=root,
        device_class=device_class,
        failure_domain=domain,
        takes=takes,
    )


def _failure_domain(choosing: Sequence[tuple[int, str]]) -> str | None:
    """The level of which every copy gets a bucket of its own: that of the last choice. (`choose 2
    zones`, then `chooseleaf 2 hosts` puts two copies into a zone: only hosts are their own.) One
    bucket chosen inside each of several adds no place of its own, so the choice before counts.
    """
    for number, level in reversed(choosing):
        if number != 1:
            return level
    return choosing[0][1] if choosing else None
