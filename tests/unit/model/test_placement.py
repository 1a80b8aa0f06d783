"""Placement of PGs against osdmaptool's own answer, and properties of loads and movements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.formats.ceph.pg_maps import parse_crush_mappings, parse_mapped_pgs
from leadline.model.placement import (
    Exceptions,
    OsdState,
    PlacedPg,
    PoolShape,
    compute_imbalance,
    compute_loads,
    compute_movement,
    count_objects,
    hash_name,
    pg_shares,
    place,
    stable_mod,
)
from tests.conftest import ROOT

RECORDED = ROOT / "tests" / "recorded" / "pg-maps"
PGS = st.integers(1, 300)


def odd_osds() -> dict[int, OsdState]:
    """The OSDs of tests/recorded/pg-maps/exceptions.osdmap."""
    osds = {osd: OsdState() for osd in range(12)}
    affinities = {0: 0.5, 1: 0.0, 5: 0.25}
    osds |= {osd: OsdState(affinity=affinity) for osd, affinity in affinities.items()}
    return osds | {7: OsdState(weight=0.6)}


@pytest.mark.parametrize(
    ("name", "shape", "exceptions"),
    [
        (
            "rep3",
            PoolShape(pool_id=1, pg_num=64, pgp_num=64, ordered=False),
            Exceptions(swaps={0x39: ((0, 3),)}),
        ),
        (
            "rep2",
            PoolShape(pool_id=2, pg_num=64, pgp_num=64, ordered=False),
            Exceptions(sets={5: (4, 8)}),
        ),
        ("ec-2-1", PoolShape(pool_id=3, pg_num=64, pgp_num=64, ordered=True), Exceptions()),
        (
            "nohash",
            PoolShape(pool_id=5, pg_num=16, pgp_num=16, ordered=False, hashed=False),
            Exceptions(),
        ),
    ],
)
def test_an_osd_map_is_reproduced_from_what_crush_chooses(
    name: str, shape: PoolShape, exceptions: Exceptions
) -> None:
    """With primary affinities, an override of a weight, and exceptions for PGs."""
    dump = parse_mapped_pgs((RECORDED / "dump-exceptions.txt").read_bytes())
    expected = next(pool.pgs for pool in dump.pools if pool.pool == shape.pool_id)
    chosen = parse_crush_mappings((RECORDED / f"mappings-exceptions-{name}.txt").read_bytes())
    first = 0 if shape.hashed else shape.pool_id
    placed = place({x - first: osds for x, osds in chosen.items()}, shape, odd_osds(), exceptions)
    assert placed == expected
    plain = place(
        {x - first: osds for x, osds in chosen.items()},
        shape,
        {osd: OsdState() for osd in range(12)},
        Exceptions(),
    )
    assert plain != expected, "the affinities and exceptions matter"


def test_osds_that_are_down_are_left_out_or_leave_a_hole() -> None:
    osds = {0: OsdState(), 1: OsdState(up=False), 2: OsdState()}
    for ordered, expected in ((False, (0, 2)), (True, (0, None, 2))):
        shape = PoolShape(pool_id=1, pg_num=1, pgp_num=1, ordered=ordered)
        assert place({0: (0, 1, 2)}, shape, osds, Exceptions()) == (
            PlacedPg(osds=expected, primary=0),
        )
    shape = PoolShape(pool_id=1, pg_num=1, pgp_num=1, ordered=False)
    assert place({0: (1, 7)}, shape, osds, Exceptions()) == (PlacedPg(osds=(), primary=None),)


def test_exceptions_to_osds_that_are_out_are_ignored() -> None:
    osds = {0: OsdState(), 1: OsdState(), 2: OsdState(weight=0.0)}
    shape = PoolShape(pool_id=1, pg_num=1, pgp_num=1, ordered=False)
    for exceptions in (
        Exceptions(sets={0: (2, 1)}),
        Exceptions(swaps={0: ((0, 2),)}),
        Exceptions(swaps={0: ((0, 1),)}),
        Exceptions(swaps={0: ((5, 2),)}),
    ):
        (pg,) = place({0: (0, 1)}, shape, osds, exceptions)
        assert pg.osds == (0, 1)


@given(st.integers(0, 1 << 32), PGS)
def test_more_parts_split_parts(number: int, count: int) -> None:
    part = stable_mod(number, count)
    assert 0 <= part < count
    assert stable_mod(number, count + 1) in (part, count)


@given(PGS)
def test_shares_of_pgs_sum_to_all_and_are_even_for_a_power_of_two(pg_num: int) -> None:
    shares = pg_shares(pg_num)
    assert sum(shares) == pytest.approx(1)
    assert max(shares) / min(shares) == (1 if pg_num & (pg_num - 1) == 0 else 2)


def pgs(count: int, osds: int, size: int) -> tuple[PlacedPg, ...]:
    return tuple(
        PlacedPg(
            osds=tuple((7 * pg + 3 * index) % osds for index in range(size)), primary=7 * pg % osds
        )
        for pg in range(count)
    )


@given(PGS, st.integers(3, 30), st.integers(1, 3), st.booleans())
def test_nothing_moves_without_a_change(count: int, osds: int, size: int, ordered: bool) -> None:
    placed = pgs(count, osds, size)
    movement = compute_movement(placed, placed, ordered=ordered)
    assert (movement.data, movement.to_new, movement.primaries) == (0, 0, 0)


@given(PGS, PGS)
def test_splitting_without_placing_moves_nothing(first: int, second: int) -> None:
    """pgp_num decides on places: more PGs with the same pgp_num are where their parents are."""
    few, many = sorted((first, second))
    chosen = {pg: (pg % 5, 5 + pg % 3) for pg in range(few)}
    osds = {osd: OsdState() for osd in range(8)}
    before, after = (
        place(
            chosen,
            PoolShape(pool_id=3, pg_num=pg_num, pgp_num=few, ordered=False),
            osds,
            Exceptions(),
        )
        for pg_num in (few, many)
    )
    assert compute_movement(before, after, ordered=False).data == 0
    assert compute_movement(after, before, ordered=False).data == 0


def test_what_moves_is_counted_by_copies_and_by_primaries() -> None:
    before = (PlacedPg(osds=(0, 1, 2), primary=0), PlacedPg(osds=(1, 2, 0), primary=1))
    after = (PlacedPg(osds=(0, 1, 3), primary=0), PlacedPg(osds=(2, 1, 0), primary=2))
    moved = compute_movement(before, after, ordered=False, new={3})
    assert (moved.data, moved.to_new, moved.primaries) == pytest.approx((1 / 6, 1 / 6, 1 / 2))
    shards = compute_movement(before, after, ordered=True, new={3})
    assert (shards.data, shards.to_new) == pytest.approx((3 / 6, 1 / 6))


@given(PGS, st.integers(4, 30), st.integers(1, 3))
def test_loads_add_up(count: int, osds: int, size: int) -> None:
    placed = pgs(count, osds, size)
    loads = compute_loads(placed, dict.fromkeys(range(osds), 1.0))
    assert len(loads) == osds
    assert sum(load.pgs for load in loads) == count * size
    assert sum(load.primaries for load in loads) == count
    assert sum(load.data for load in loads) == pytest.approx(1)
    assert sum(load.primary_data for load in loads) == pytest.approx(1)
    assert sum(load.weight for load in loads) == pytest.approx(1)


def test_pgs_without_an_osd_are_no_load() -> None:
    loads = compute_loads((PlacedPg(osds=(), primary=None),), {0: 1.0, 1: 0.0})
    assert [(load.osd, load.pgs, load.data) for load in loads] == [(0, 0, 0.0)]


def test_the_imbalance_of_a_load() -> None:
    even = compute_imbalance({0: 4, 1: 4})
    assert even is not None
    assert (even.most_over_mean, even.most_over_fair) == (1, 1)
    # An OSD twice as large has its fair part, the other two do not differ from theirs.
    large = compute_imbalance({0: 8, 1: 4, 2: 4}, {0: 2.0, 1: 1.0, 2: 1.0})
    assert large is not None
    assert large.most_over_mean == pytest.approx(1.5)
    assert large.most_over_fair == pytest.approx(1)
    idle = compute_imbalance({0: 8, 1: 0})
    assert idle is not None
    assert (idle.least, idle.mean, idle.most_over_mean) == (0, 4, 2)
    assert compute_imbalance({0: 0}) is None
    assert compute_imbalance({}) is None


@pytest.mark.parametrize(
    ("name", "pg"),
    [
        ("a", 0x18),
        ("abcdefghijkl", 0xA5),
        ("xxxxxxxxxxxxxxxxxxxxxxx", 0x31),
        ("10000000000.00000000", 0x130),
        ("\u00fc", 0xD5),
        ("rbd_data.10ab.0000000000000001", 0x122),
        ("rbd_data.3.10ab.0000000000000001", 0x42),
        ("rbd_data.a0343f99b69.0000000000000379", 0xF6),
        ("rbd_data.17257cff43b.00000000000001f0", 0x174),
        ("rbd_data.81163da3ed4.00000000000000d5", 0xBB),
        ("rbd_data.9560a5c07b.00000000000002d4", 0x9E),
    ],
)
def test_objects_are_where_ceph_puts_them(name: str, pg: int) -> None:
    """By `osdmaptool --test-map-object NAME`, Ceph 16.2.15, in a pool of 384 PGs."""
    assert stable_mod(hash_name(name), 384) == pg
    assert count_objects([name, name], 384) == {pg: 2}
