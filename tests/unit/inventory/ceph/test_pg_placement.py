"""Facts about the placement of PGs, from recorded maps."""

from __future__ import annotations

import json

import pytest

from leadline.errors import LeadlineError
from leadline.inventory.ceph.crush_tree import NewOsd
from leadline.inventory.ceph.dumps import parse
from leadline.inventory.ceph.model import Place, PoolType
from leadline.inventory.ceph.pg_placement import choose_pg_nums, describe_state, read_osd_map
from leadline.inventory.ceph.placement import compute_placement
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.model.placement import OsdState, PlacedPg
from tests.unit.inventory.conftest import dumps_of
from tests.unit.recorded_placements import RECORDED, recorded_map


def test_what_an_osd_map_adds_to_crush() -> None:
    osd_map = recorded_map("classes")
    assert osd_map.first_free_osd == 12
    assert osd_map.unhashed == {5}
    assert osd_map.exceptions[2].sets == {5: (4, 8)}
    # Of the balancer.
    assert osd_map.exceptions[2].swaps[45] == ((7, 11),)
    assert osd_map.osds[0] == OsdState(affinity=0.5)
    assert osd_map.osds[7].weight == pytest.approx(0.6, abs=1e-4)
    by_name = {pool.name: pool for pool in osd_map.pools}
    erasure = osd_map.shape(by_name["ec-2-1"])
    assert (erasure.pool_id, erasure.pg_num, erasure.pgp_num) == (3, 64, 64)
    assert erasure.ordered
    assert erasure.hashed
    assert by_name["ec-2-1"].type is PoolType.ERASURE
    assert not osd_map.shape(by_name["nohash"]).hashed


def test_an_osd_that_only_crush_names_is_out() -> None:
    dump = json.loads((RECORDED / "plain-dump.json").read_bytes())
    dump["osds"] = [osd for osd in dump["osds"] if osd["osd"] != 11]
    crush = (RECORDED / "plain-crush.json").read_bytes()
    osd_map = read_osd_map(parse("OSD map", json.dumps(dump).encode()), parse("CRUSH map", crush))
    assert osd_map.osds[11] == OsdState(up=False, weight=0.0)
    assert osd_map.first_free_osd == 12
    state = describe_state(osd_map.pools[0], (), osd_map.osds, osd_map.tree)
    assert [load.osd for load in state.osds] == list(range(11))
    assert state.pgs is None


def test_an_unknown_pool_is_refused_with_those_that_are_there() -> None:
    osd_map = recorded_map("plain")
    assert [pool.name for pool in osd_map.choose(["rep2", "rep2"])] == ["rep2"]
    assert osd_map.choose([]) == osd_map.pools
    with pytest.raises(LeadlineError, match="no pool 'rep4'") as refused:
        osd_map.choose(["rep4"])
    assert refused.value.context == ("pools: rep3, rep2, ec-2-1",)


def test_incomplete_pgs_and_the_buckets_there_are() -> None:
    osd_map = recorded_map("classes")
    by_name = {pool.name: pool for pool in osd_map.pools}
    pgs = (
        PlacedPg(osds=(0, 1, 2), primary=0),
        PlacedPg(osds=(1, 2, 3, 5), primary=1),
    )
    state = describe_state(by_name["four"], pgs, osd_map.osds, osd_map.tree)
    assert state.incomplete == ("6.0",)
    assert state.domains == 3
    assert len(state.osds) == 12, "OSDs without PGs count"
    assert state.pgs is not None
    assert state.pgs.least == 0
    shards = (PlacedPg(osds=(0, None, 2), primary=0),)
    state = describe_state(by_name["ec-2-1"], shards, osd_map.osds, osd_map.tree)
    assert state.incomplete == ("3.0",)


def test_only_osds_of_the_rules_class_that_are_up_and_in_count() -> None:
    osd_map = recorded_map("classes")
    on_hdd = next(pool for pool in osd_map.pools if pool.name == "onhdd")
    pgs = (PlacedPg(osds=(6, 7, 8), primary=6),)
    state = describe_state(on_hdd, pgs, osd_map.osds, osd_map.tree)
    assert [load.osd for load in state.osds] == [6, 7, 8, 9, 10, 11]
    assert state.domains == 6
    osds = {**osd_map.osds, 9: OsdState(up=False), 10: OsdState(weight=0.0)}
    state = describe_state(on_hdd, pgs, osds, osd_map.tree)
    assert [load.osd for load in state.osds] == [6, 7, 8, 11]
    assert state.domains == 4


def test_the_autoscalers_choice_now_and_with_more_osds() -> None:
    """The manager's own answer, the rule, and the rule with three times the OSDs."""
    inventory = cluster_inventory(dumps_of("ceph-autoscaler-on"))
    now = choose_pg_nums(inventory)
    words = {word.pool_id: word.final for word in inventory.autoscale_words or ()}
    assert {pool: choice.manager for pool, choice in now.items()} == words
    assert {pool: choice.rule for pool, choice in now.items()} == words
    assert all(choice.after is None for choice in now.values())
    (root,) = compute_placement(inventory).roots
    place = next(osd.location for osd in inventory.osds)
    new = [
        NewOsd(
            osd=100 + number,
            weight=1.0,
            device_class=inventory.osds[0].device_class,
            location=(Place(level="host", name="new"), place[1]),
        )
        for number in range(2 * root.settings.osds)
    ]
    grown = choose_pg_nums(inventory, new)
    assert all(choice.after >= choice.rule for choice in grown.values() if choice.rule)
    assert any(choice.after > choice.rule for choice in grown.values() if choice.rule)
    elsewhere = [
        NewOsd(
            osd=osd.osd,
            weight=1.0,
            device_class=osd.device_class,
            location=(Place(level="host", name="new"), Place(level="root", name="elsewhere")),
        )
        for osd in new
    ]
    same = choose_pg_nums(inventory, elsewhere)
    assert all(choice.after == choice.rule for choice in same.values())
