"""The distribution over buckets against the numbers of `ceph osd df tree`."""

from __future__ import annotations

import json

import pytest

from leadline.inventory.ceph.distribution import compute_distribution, compute_variance
from leadline.inventory.ceph.distribution import compute_fill as fill
from leadline.inventory.ceph.reading import cluster_inventory
from tests.unit.inventory.conftest import dumps_of


@pytest.mark.parametrize("name", ["ceph-multi-az", "ceph-single-az", "ceph-autoscaler-on"])
def test_weight_fill_and_var_are_those_of_ceph(name: str) -> None:
    dumps = dumps_of(name)
    inventory = cluster_inventory(dumps)
    nodes = json.loads(dumps["osd_df_tree.json"])["nodes"]
    buckets = {node["name"]: node for node in nodes if node["type"] != "osd"}
    found = compute_distribution(inventory)
    assert {one.name for one in found} <= buckets.keys()
    assert sum(one.level == "host" for one in found) == len(inventory.buckets("host"))
    for one in found:
        theirs = buckets[one.name]
        assert one.fill is not None
        assert one.fill.mean * 100 == pytest.approx(theirs["utilization"], abs=0.01)
        assert one.variance == pytest.approx(theirs["var"], abs=0.001)
    average = fill(inventory.osds)
    for osd in inventory.osds:
        theirs = next(node for node in nodes if node["id"] == osd.id)
        assert compute_variance(osd, average) == pytest.approx(theirs["var"], abs=0.001)


def test_the_spans_are_those_of_the_osds() -> None:
    inventory = cluster_inventory(dumps_of("ceph-multi-az"))
    zone = next(one for one in compute_distribution(inventory) if one.level == "zone")
    inside = [osd for osd in inventory.osds if osd.at("zone") == zone.name]
    pgs = [osd.pgs for osd in inside if osd.pgs is not None]
    assert zone.osds == len(inside) == len(pgs)
    assert zone.pgs is not None
    assert (zone.pgs.low, zone.pgs.high) == (min(pgs), max(pgs))
    assert zone.pgs.mean == pytest.approx(sum(pgs) / len(pgs))
    assert zone.weight == pytest.approx(sum(osd.weight or 0 for osd in inside))


def test_without_sizes_and_placement_groups_nothing_is_made_up() -> None:
    dumps = {
        name: content
        for name, content in dumps_of("ceph-multi-az").items()
        if name != "osd_df_tree.json"
    }
    for one in compute_distribution(cluster_inventory(dumps)):
        assert (one.pgs, one.fill, one.variance) == (None, None, None)
        assert one.weight is not None


def test_uptime_is_what_the_dumps_report() -> None:
    inventory = cluster_inventory(dumps_of("ceph-multi-az"))
    assert inventory.quorum_age_s == 1271
    assert inventory.osd_down == "2026-11-20"
    assert cluster_inventory(dumps_of("ceph-single-az")).osd_down is None
