"""Placements of recorded OSD maps (tests/recorded/pg-maps), without Ceph's tools."""

from __future__ import annotations

from leadline.formats.ceph.pg_maps import parse_mapped_pgs
from leadline.inventory.ceph.crush_tree import Addition, plan_addition
from leadline.inventory.ceph.dumps import parse
from leadline.inventory.ceph.pg_placement import (
    AutoscalerChoice,
    OsdMap,
    PoolPlacement,
    PoolPlacements,
    Unforecast,
    describe_state,
    read_osd_map,
)
from leadline.model.placement import Movement
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "pg-maps"


def recorded_map(name: str) -> OsdMap:
    dump, crush = ((RECORDED / f"{name}-{kind}.json").read_bytes() for kind in ("dump", "crush"))
    return read_osd_map(parse("OSD map", dump), parse("CRUSH map", crush))


def erasure_placements() -> PoolPlacements:
    """The pool ec-2-1 of the map `plain`, with one more zone that only its numbers know, and the
    pool rep3 without a forecast."""
    osd_map = recorded_map("plain")
    (mapped,) = parse_mapped_pgs((RECORDED / "dump-ec-2-1.txt").read_bytes()).pools
    by_name = {pool.name: pool for pool in osd_map.pools}
    addition = Addition(level="zone", count=1)
    erasure = by_name["ec-2-1"]
    now = describe_state(erasure, mapped.pgs, osd_map.osds, osd_map.tree)
    none = describe_state(by_name["rep3"], mapped.pgs[:24], osd_map.osds, osd_map.tree)
    return PoolPlacements(
        fsid=osd_map.fsid,
        epoch=osd_map.epoch,
        pools=(
            PoolPlacement(
                pool=erasure,
                now=now,
                after=describe_state(erasure, mapped.pgs[:48], osd_map.osds, osd_map.tree),
                movement=Movement(data=0.375, to_new=0.25, primaries=0.3),
                autoscaler=AutoscalerChoice(
                    manager=32, rule=32, after=64, acts=False, acts_after=None
                ),
            ),
            PoolPlacement(pool=by_name["rep3"], now=none, unforecast=Unforecast.NOT_REPRODUCED),
        ),
        addition=addition,
        new_osds=plan_addition(osd_map.tree, {"lab"}, addition, osd_map.first_free_osd),
        pg_num=None,
        temporary=2,
        hosts=osd_map.tree.hosts(),
    )
