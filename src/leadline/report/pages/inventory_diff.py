"""The differences of two clusters as a document: both drawn, and a table by possible effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.diff import Difference, Differing
from leadline.inventory.system import System
from leadline.report.cells import facts_table, section, table
from leadline.report.document import (
    SYSTEM_HUES,
    Block,
    Columns,
    Document,
    Section,
    Tile,
    Tiles,
    Tree,
)
from leadline.report.pages.comparison.explanations import effect_texts
from leadline.report.pages.inventory import headline as ceph_headline
from leadline.report.pages.inventory_kubernetes import draw_nodes
from leadline.report.pages.inventory_kubernetes import headline as kubernetes_headline
from leadline.report.pages.topology import draw_cluster
from leadline.report.words import count_text, listed, short

# What a difference can change, the most first, with the heading of its tile.
_GROUPS = {
    "reads and writes": "Reads and writes",
    "writes": "Writes alone",
    "reads": "Reads alone",
    "queued I/O": "Queued I/O alone",
    "no known effect": "No known effect",
}
_NAMES_SHOWN = 2


def against_document(
    names: tuple[str, str], systems: tuple[System, System], differing: Differing
) -> Document:
    """Build the differences of the second system from the first, the baseline."""
    groups = _grouped(differing.differences)
    base, other = map(short, names)
    total = count_text(len(differing.differences), "difference")
    counts = listed(f"{len(own)} can change {what}" for what, own in groups.items() if what in _IO)
    result = f"{total} of {other} from {base}{f': {counts}' if counts else ''}."
    sections = (
        _systems((base, other), systems, differing.differences),
        _differences((base, other), groups),
        _facts("Identical", differing.identical, folded=True),
        _facts("Unknown", differing.unknown),
    )
    return Document(
        title="Configuration differences",
        subtitle=f"{names[1]} against {names[0]}",
        summary=(result,),
        sections=tuple(part for part in sections if part.blocks),
        front=(Tiles(tiles=tuple(_tiles(groups, differing))),),
    )


_IO = ("reads and writes", "writes", "reads")


def _grouped(differences: Iterable[Difference]) -> Mapping[str, list[Difference]]:
    """Group differences by what they can change."""
    found: dict[str, list[Difference]] = {group: [] for group in _GROUPS}
    for difference in differences:
        found[_group(difference)].append(difference)
    return {group: own for group, own in found.items() if own}


def _group(difference: Difference) -> str:
    effects = difference.explains
    if not effects:
        return "no known effect"
    if all(effect.concurrent_only for effect in effects):
        return "queued I/O"
    operations = {effect.operations for effect in effects}
    return operations.pop() if operations in ({"reads"}, {"writes"}) else "reads and writes"


def _tiles(groups: Mapping[str, Sequence[Difference]], differing: Differing) -> Iterable[Tile]:
    for group, own in groups.items():
        subjects = dict.fromkeys(_setting(difference.path) for difference in own)
        yield Tile(
            title=_GROUPS[group],
            unit="differences",
            value=f"{len(own):,}",
            verdict="",
            note=f"{listed(subjects, _NAMES_SHOWN)}.",
        )
    identical, unknown = len(differing.identical), len(differing.unknown)
    yield Tile(
        title="Identical",
        unit="facts",
        value=f"{identical:,}",
        verdict="",
        note=f"{unknown:,} unknown." if unknown else "None unknown.",
    )


def _setting(path: str) -> str:
    """`failure domain` of `pools.rep3.failure_domain`."""
    return path.rpartition(".")[2].replace("_", " ")


# --- the two systems ------------------------------------------------------------------------------


def _systems(
    names: tuple[str, str], systems: tuple[System, System], differences: Sequence[Difference]
) -> Section:
    """Draw both systems, with what differs marked."""
    parts: list[tuple[str, tuple[Block, ...]]] = []
    for at, (name, system) in enumerate(zip(names, systems, strict=True)):
        trees: list[Tree] = []
        if system.kubernetes is not None:
            zones = [len(one.kubernetes.zones) for one in systems if one.kubernetes]
            trees.append(draw_nodes(system.kubernetes, marked=len(set(zones)) > 1))
        if system.ceph is not None:
            marked = _differing_levels([one.ceph for one in systems if one.ceph], differences, at)
            trees.append(draw_cluster(system.ceph, name, SYSTEM_HUES[at], marked=marked))
        parts.append((name, tuple(tree for tree in trees if tree.roots)))
    drawn = any(blocks for _, blocks in parts)
    return section(
        "The two systems, differences marked",
        "systems",
        Columns(parts=tuple(parts)) if drawn else None,
        facts_table("headlines", zip(names, map(_headline, systems), strict=True)),
    )


def _headline(system: System) -> str:
    if system.kubernetes is not None:
        return kubernetes_headline(system.kubernetes)
    return ceph_headline(system.ceph) if system.ceph is not None else ""


def _differing_levels(
    clusters: Sequence[CephInventory], differences: Iterable[Difference], at: int
) -> set[str]:
    """Return the CRUSH levels with another number of buckets on the other cluster, the failure
    domains that differ, and OSDs whose media differ."""
    counts = [
        Counter({level.level: level.count for root in one.crush for level in root.levels})
        for one in clusters
    ]
    found = {
        level for one in counts for level in one if len({other[level] for other in counts}) > 1
    }
    for difference in differences:
        if difference.path.endswith(".failure_domain"):
            found.add((difference.baseline, difference.candidate)[at])
        if difference.path.startswith("media."):
            found.add("osd")
    return found


# --- tables ---------------------------------------------------------------------------------------


def _differences(names: tuple[str, str], groups: Mapping[str, Sequence[Difference]]) -> Section:
    """Build the differences by what they can change, and what each can do."""
    rows = [
        (difference.path, group, difference.baseline, difference.candidate)
        for group, own in groups.items()
        for difference in own
    ]
    if not rows:
        return section("Differences", "differences", "No known difference.")
    columns = ("setting", "can change", *names)
    effects = [
        (
            difference.path,
            " ".join((*filter(None, [difference.meaning]), *effect_texts(difference))),
        )
        for own in groups.values()
        for difference in own
    ]
    return section(
        "Differences by what they can change",
        "differences",
        table("differences", columns, rows, filterable=len(rows) > 25),
        facts_table("effects", effects, "Possible effects"),
        result=", ".join(f"{group} {len(own):,}" for group, own in groups.items() if own),
    )


def _facts(heading: str, facts: Sequence[str], *, folded: bool = False) -> Section:
    anchor = heading.lower()
    shown = table(anchor + "-facts", ("fact",), [(fact,) for fact in facts]) if facts else None
    return section(heading, anchor, shown, folded=folded, result=count_text(len(facts), "fact"))
