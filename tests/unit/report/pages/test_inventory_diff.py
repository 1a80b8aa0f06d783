"""The differences of two clusters as they are drawn and grouped."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from leadline.analysis.explain.conditions import differing
from leadline.inventory.diff import Difference, Differing, PossibleEffect, Topic
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.system import System, system_of
from leadline.report.document import Branch, Columns, Document, Table, Tiles, Tree
from leadline.report.pages.inventory_diff import against_document
from leadline.report.render.html import render
from tests.unit.inventory.conftest import dumps_of
from tests.unit.inventory.kubernetes.conftest import CLUSTERS

NAMES = ("single", "multi")


def ceph(name: str) -> System:
    return system_of(dumps_of(name))


def of_systems(base: System, candidate: System) -> Document:
    return against_document(NAMES, (base, candidate), differing(base, candidate))


def strong(branches: Iterable[Branch]) -> set[str]:
    """The levels that stand out."""
    found: set[str] = set()
    for branch in branches:
        found |= {branch.label.partition(" ")[0].partition(".")[0]} if branch.strong else set()
        found |= strong(branch.below)
    return found


def trees(document: Document) -> list[Tree]:
    (columns,) = (one for one in document.sections[0].blocks if isinstance(one, Columns))
    return [block for _, blocks in columns.parts for block in blocks if isinstance(block, Tree)]


def differences_table(document: Document) -> Table:
    (part,) = (one for one in document.sections if one.id == "differences")
    found = part.blocks[0]
    assert isinstance(found, Table)
    return found


def test_levels_that_differ_are_marked_on_both_systems() -> None:
    base, candidate = ceph("ceph-single-az"), ceph("ceph-multi-az")
    document = of_systems(base, candidate)
    ours, theirs = (strong(tree.roots) for tree in trees(document))
    assert ours == {"zone", "rack", "host", "osd"}
    assert theirs == {"zone", "host", "osd"}
    assert len(document.summary[0].split()) <= 20


def test_the_same_cluster_twice_has_nothing_marked() -> None:
    document = of_systems(ceph("ceph-multi-az"), ceph("ceph-multi-az"))
    assert all(not strong(tree.roots) for tree in trees(document))
    assert document.summary[0] == "0 differences of multi from single."
    assert "No known difference." in render(document)


def test_differences_are_grouped_by_what_they_can_change() -> None:
    document = of_systems(ceph("ceph-single-az"), ceph("ceph-multi-az"))
    groups = {row[0].text: row[1].text for row in differences_table(document).rows}
    assert groups["pools.*.failure_domain"] == "reads and writes"
    assert groups["topology.osds"] == "queued I/O"
    assert groups["health.status"] == "no known effect"
    (tiles,) = document.front
    assert isinstance(tiles, Tiles)
    counts = {tile.title: int(tile.value) for tile in tiles.tiles if tile.title != "Identical"}
    assert sum(counts.values()) == len(groups)


@pytest.mark.parametrize(
    ("operations", "group"),
    [
        (("writes",), "writes"),
        (("reads",), "reads"),
        (("reads", "writes"), "reads and writes"),
        (("every",), "reads and writes"),
        ((), "no known effect"),
    ],
)
def test_groups_follow_from_the_effects(operations: tuple[str, ...], group: str) -> None:
    difference = Difference(
        path="pools.<b>.x",
        topic=Topic.REDUNDANCY,
        baseline="2" * 300,
        candidate="<script>",
        explains=tuple(PossibleEffect(mechanism="m", operations=one) for one in operations),
    )
    both = ceph("ceph-single-az"), ceph("ceph-multi-az")
    names = ("<i>a</i>", "x" * 300)
    document = against_document(names, both, Differing(differences=(difference,)))
    assert differences_table(document).rows[0][1].text == group
    html = render(document)
    assert "<script>" not in html.partition("<body>")[2].partition("<script>")[0]
    assert "<i>a</i>" not in html


def test_kubernetes_zones_are_marked_where_their_number_differs() -> None:
    systems = [
        system_of(read_folder(CLUSTERS / f"odf-{name}-zone", "--from-dir").dumps)
        for name in ("single", "multi")
    ]
    document = of_systems(systems[0], systems[1])
    assert [strong(tree.roots) for tree in trees(document)] == [{"zone"}, {"zone"}]
