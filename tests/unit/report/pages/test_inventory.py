"""Clusters as they are drawn, and their pages with bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.inventory.ceph.model import CephInventory, Osd, Place
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.report.document import Branch, Bullets, Paragraph
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.topology import crush_tree, draw_fill
from leadline.report.render.html import render
from leadline.report.render.svg import draw

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


def page(inventory: CephInventory) -> str:
    return render(inventory_document(inventory, "dumps"))


def cluster_of(osds: int, hosts: int) -> CephInventory:
    """A cluster with the sizes of a recorded one, its hosts directly below the root."""
    inventory = cluster_inventory(dumps("ceph-multi-az"))
    first = inventory.osds[0]
    root = Place(level="root", name="default")
    placed = [
        first.model_copy(
            update={
                "id": number,
                "location": (root, Place(level="host", name=f"host{number % hosts}")),
                "utilisation": 0.9 if number == 7 else 0.5,
            }
        )
        for number in range(osds)
    ]
    return inventory.model_copy(update={"osds": tuple(placed)})


def test_a_large_cluster_is_drawn_by_host_and_reports_what_is_left_out() -> None:
    inventory = cluster_of(800, 40)
    tree, level = draw_fill(inventory)
    drawn = [leaf for root in tree.roots for leaf in leaves(root)]
    assert level == "host"
    assert [leaf.label for leaf in drawn[:3]] == ["host host0", "host host1", "host host2"]
    assert len(drawn) == 40
    assert all(leaf.value.startswith("20 OSDs") for leaf in drawn)
    html = page(inventory)
    assert "fill of each host (800 OSDs)" in html
    assert "OSDs; 776 more OSDs are closer to the mean" in html
    assert ">7</th>" in html, "the OSD that is fuller than the others is listed"
    assert len(html) < 300_000


def test_hundreds_of_hosts_are_counted_past_a_limit() -> None:
    tree, _ = draw_fill(cluster_of(1000, 500))
    assert len(tree.roots[0].below) <= 121
    assert tree.roots[0].below[-1].label == "381 more"


def test_an_osd_that_is_nearly_full_or_down_stands_out() -> None:
    inventory = cluster_of(4, 2)
    osds = list(inventory.osds)
    osds[0] = osds[0].model_copy(update={"used_bytes": int((osds[0].size_bytes or 0) * 0.97)})
    osds[1] = osds[1].model_copy(update={"up": False})
    tree, level = draw_fill(inventory.model_copy(update={"osds": tuple(osds)}))
    found = {leaf.label: leaf for root in tree.roots for leaf in leaves(root)}
    assert level == "OSD"
    assert found["osd.0"].value == "97 %"
    assert found["osd.0"].shade == pytest.approx(-0.97, abs=0.001)
    assert (found["osd.1"].value, found["osd.1"].shade) == ("down", -1.0)


HOSTILE = "<script>alert(1)</script>"
RIGHT_TO_LEFT = "אחסון-מהיר"


def test_hostile_and_long_names_are_escaped() -> None:
    inventory = cluster_inventory(dumps("ceph-multi-az"))
    names = (HOSTILE, RIGHT_TO_LEFT, "h" * 300)
    osds = [
        osd.model_copy(
            update={"location": (*osd.location[:-1], Place(level="host", name=names[osd.id % 3]))}
        )
        for osd in inventory.osds
    ]
    pools = [
        pool.model_copy(update={"name": names[number % 3] + str(number)})
        for number, pool in enumerate(inventory.pools)
    ]
    hostile = inventory.model_copy(update={"osds": tuple(osds), "pools": tuple(pools)})
    html = page(hostile)
    assert HOSTILE not in html
    assert RIGHT_TO_LEFT in html
    drawn = draw(draw_fill(hostile)[0])
    assert HOSTILE not in drawn
    assert "<title>CRUSH tree</title>" in drawn


def test_a_cluster_of_which_little_is_known() -> None:
    known = ("status.json", "health_detail.json", "osd_dump.json", "osd_tree.json")
    few = {name: content for name, content in dumps("ceph-multi-az").items() if name in known}
    html = page(cluster_inventory(few))
    assert "None" not in html
    assert "Not captured." in html
    empty = cluster_inventory(dumps("ceph-multi-az")).model_copy(
        update={"osds": (), "pools": (), "crush": (), "pgs_per_osd": None, "pg_states": ()}
    )
    document = inventory_document(empty, "dumps")
    assert "0 OSDs" in document.summary[0]
    assert "None" not in render(document)


def test_the_words_outside_of_tables_are_few() -> None:
    document = inventory_document(cluster_inventory(dumps("ceph-multi-az")), "dumps")
    assert len(document.summary[0].split()) <= 20
    paragraphs = [
        block
        for part in document.sections
        for block in part.blocks
        if isinstance(block, Paragraph | Bullets)
    ]
    assert paragraphs == []
