"""The CRUSH tree as it is drawn."""

from __future__ import annotations

from pathlib import Path

from leadline.inventory.ceph.model import Osd, Place
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.report.document import Branch
from leadline.report.pages.comparison.totals import crush_tree

RECORDED = Path(__file__).parents[3] / "recorded"


def dumps(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((RECORDED / name).glob("*.json"))}


def depth(branch: Branch) -> int:
    return 1 + max((depth(one) for one in branch.below), default=0)


def leaves(branch: Branch) -> list[Branch]:
    return [leaf for one in branch.below for leaf in leaves(one)] if branch.below else [branch]


def test_every_osd_of_a_recorded_cluster_is_in_the_tree() -> None:
    inventory = cluster_inventory(dumps("ceph-multi-az"))
    tree = crush_tree(inventory)
    levels = max(len(osd.location) for osd in inventory.osds)
    assert max(depth(root) for root in tree.roots) == levels + 1
    drawn = [leaf.label for root in tree.roots for leaf in leaves(root)]
    assert sorted(drawn) == sorted(f"osd.{osd.id}" for osd in inventory.osds)
    assert tree.roots[0].note == f"{len(inventory.osds)} OSDs"


def test_osds_that_are_alike_share_a_leaf() -> None:
    inventory = cluster_inventory(dumps("ceph-multi-az"))
    one: Osd = inventory.osds[0]
    place = (Place(level="root", name="default"), Place(level="host", name="h\u202e1"))
    osds = [
        one.model_copy(update={"id": number, "location": place, "up": number != 3})
        for number in (0, 1, 2, 3, 5, 6)
    ]
    tree = crush_tree(inventory.model_copy(update={"osds": tuple(osds)}))
    host = tree.roots[0].below[0]
    assert host.label == "host h\u202e1", "renderers escape, not the model"
    labels = {leaf.label: leaf.note for leaf in host.below}
    assert set(labels) == {"osd.0-2, 5-6", "osd.3"}
    assert labels["osd.0-2, 5-6"].startswith("5 ")
    assert labels["osd.3"].endswith("down")


def test_osds_outside_of_the_tree_are_reported() -> None:
    inventory = cluster_inventory(dumps("ceph-multi-az"))
    lost = inventory.osds[0].model_copy(update={"location": ()})
    tree = crush_tree(inventory.model_copy(update={"osds": (lost,)}))
    assert [root.label for root in tree.roots] == ["outside the tree"]
