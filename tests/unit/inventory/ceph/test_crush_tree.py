"""Buckets of a CRUSH map, and what an addition brings."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.ceph.crush_tree import (
    Addition,
    CrushTree,
    plan_addition,
    read_crush_tree,
)
from leadline.inventory.ceph.dumps import parse
from tests.unit.recorded_placements import recorded_map


@pytest.fixture
def tree() -> CrushTree:
    return recorded_map("classes").tree


def added(tree: CrushTree, level: str, count: int) -> list[tuple[int, str | None, str]]:
    osds = plan_addition(tree, {"lab"}, Addition(level=level, count=count), 12)
    return [
        (osd.osd, osd.device_class, "/".join(place.name for place in reversed(osd.location)))
        for osd in osds
    ]


def small(*buckets: tuple[int, str, str, dict[int, float]]) -> CrushTree:
    """A tree of (id, level, name, weights by item)."""
    dump: dict[str, Any] = {
        "devices": [],
        "buckets": [
            {
                "id": number,
                "type_name": level,
                "name": name,
                "items": [{"id": item, "weight": int(w * 65536)} for item, w in items.items()],
            }
            for number, level, name, items in buckets
        ],
    }
    return read_crush_tree(parse("CRUSH map", json.dumps(dump).encode()))


def test_osds_of_a_class_below_a_bucket(tree: CrushTree) -> None:
    root = tree.root("lab")
    assert root is not None
    assert set(tree.osds(root)) == set(range(12))
    assert set(tree.osds(root, "hdd")) == {6, 7, 8, 9, 10, 11}
    assert tree.hosts()[9] == "az1-h2"
    assert not any("~" in bucket.place.name for bucket in tree.buckets.values())


def test_hosts_go_to_the_lightest_zone_in_turn(tree: CrushTree) -> None:
    osds = added(tree, "host", 4)
    assert [osd for osd, _, _ in osds] == list(range(12, 20))
    assert Counter(device_class for _, device_class, _ in osds) == {"ssd": 4, "hdd": 4}
    hosts = list(dict.fromkeys(place for _, _, place in osds))
    assert hosts == ["az1/new-host-1", "az2/new-host-2", "az3/new-host-3", "az1/new-host-4"]


def test_a_zone_has_the_hosts_of_another(tree: CrushTree) -> None:
    osds = added(tree, "zone", 1)
    assert [place for _, _, place in osds] == [
        *2 * ["eu1/new-zone-1/new-zone-1-host-1"],
        *2 * ["eu1/new-zone-1/new-zone-1-host-2"],
    ]


def test_the_copy_is_of_the_bucket_with_the_median_weight() -> None:
    tree = small(
        (-1, "root", "lab", {-2: 1.0, -3: 9.0, -4: 4.0, -5: 0.0}),
        (-2, "host", "small", {0: 1.0}),
        (-3, "host", "large", {1: 9.0}),
        (-4, "host", "new-host-1", {2: 2.0, 3: 2.0, 4: 0.0}),
        (-5, "host", "empty", {}),
    )
    osds = plan_addition(tree, {"lab"}, Addition(level="host", count=1), 7)
    assert [(osd.osd, osd.weight) for osd in osds] == [(7, 2.0), (8, 2.0)]
    assert osds[0].location[0].name == "new-host-1-new", "the name was taken"


@pytest.mark.parametrize("level", ["rack", "root", "osd", "nonsense"])
def test_a_level_without_buckets_is_refused_with_those_that_are_there(
    tree: CrushTree, level: str
) -> None:
    with pytest.raises(LeadlineError, match=f"no {level} with OSDs below lab") as refused:
        added(tree, level, 1)
    assert refused.value.context == ("levels with OSDs: region, zone, host",)


def test_two_roots_are_refused() -> None:
    tree = small(
        (-1, "root", "a", {-2: 1.0}),
        (-2, "host", "h", {0: 1.0}),
        (-3, "root", "b", {-4: 1.0}),
        (-4, "host", "i", {1: 1.0}),
    )
    with pytest.raises(LeadlineError, match="2 roots"):
        plan_addition(tree, {"a", "b"}, Addition(level="host", count=1), 2)
    assert plan_addition(tree, {"a"}, Addition(level="host", count=1), 2)


def test_a_circle_is_no_tree() -> None:
    with pytest.raises(LeadlineError, match="a circle"):
        small(
            (-1, "root", "a", {-2: 1.0}), (-2, "host", "b", {-3: 1.0}), (-3, "host", "c", {-2: 1.0})
        )
