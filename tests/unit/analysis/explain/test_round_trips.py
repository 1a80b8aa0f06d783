"""Round trips of an I/O against a simulation of the messages, one by one."""

from __future__ import annotations

import random
from itertools import product

import pytest
from compared_cells import erasure, replicated
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.round_trips import (
    PoolFacts,
    ReadFrom,
    compute_cost,
    count_round_trips,
    find_path_change,
    implied_round_trip_s,
)
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Op


def slow_round_trips(op: Op, pool: PoolFacts, client: int, places: tuple[int, ...]) -> int:
    """Round trips that leave a zone, counted along the way of one I/O. `places` are the zones of
    the copies or shards, the primary first."""
    primary, others = places[0], places[1:]
    away = int(client != primary)
    if op is Op.READ:
        if pool.type is PoolType.REPLICATED:
            if pool.reads is ReadFrom.NEAREST:
                return int(client not in places)
            return away
        data = places[: pool.k]
        return away + int(any(one != primary for one in data[1:]))
    wait = int(any(one != primary for one in others))
    if pool.type is PoolType.ERASURE:
        data = places[: pool.k]
        wait += int(any(one != primary for one in data[1:]))
    return away + wait


def all_ways(op: Op, pool: PoolFacts) -> list[int]:
    """Over every zone of the client and every placement with one copy a zone."""
    from itertools import permutations

    zones = range(pool.places)
    return [
        slow_round_trips(op, pool, client, places)
        for client, places in product(zones, permutations(zones, pool.size))
    ]


@pytest.mark.parametrize("op", [Op.READ, Op.WRITE])
@pytest.mark.parametrize(
    "pool",
    [
        replicated(size=3),
        replicated(size=2),
        replicated(size=2, zones=4, places=4),
        replicated(size=1),
        replicated(size=3, reads=ReadFrom.NEAREST),
        replicated(size=2, reads=ReadFrom.NEAREST),
        erasure(k=2, m=1),
        erasure(k=1, m=2),
        erasure(k=2, m=2, zones=4),
        erasure(k=4, m=2, zones=6),
    ],
)
def test_legs_are_those_of_every_possible_way(op: Op, pool: PoolFacts) -> None:
    counts = all_ways(op, pool)
    found = count_round_trips(op, pool)
    assert found.expected == pytest.approx(sum(counts) / len(counts))
    assert found.least == min(counts)
    if pool.reads is ReadFrom.PRIMARY:
        assert found.most == max(counts)


def test_copies_that_may_share_a_zone() -> None:
    """Failure domain below the zones: the simulation puts copies anywhere."""
    pool = replicated(size=3, apart=False, failure_domain="host")
    chance = random.Random(5)
    counts = [
        slow_round_trips(
            Op.WRITE, pool, chance.randrange(3), tuple(chance.randrange(3) for _ in range(3))
        )
        for _ in range(20_000)
    ]
    found = count_round_trips(Op.WRITE, pool)
    assert found.expected == pytest.approx(sum(counts) / len(counts), abs=0.02)
    assert (found.least, found.most) == (min(counts), max(counts)) == (0, 2)


def test_numbers_that_the_lab_showed() -> None:
    """Published in docs/internals/multi-zone-study.md: 2/3, 5/3 and 8/3 round trips."""
    assert count_round_trips(Op.READ, replicated()).expected == pytest.approx(2 / 3)
    assert count_round_trips(Op.WRITE, replicated()).expected == pytest.approx(5 / 3)
    assert count_round_trips(Op.READ, erasure()).expected == pytest.approx(5 / 3)
    assert count_round_trips(Op.WRITE, erasure()).expected == pytest.approx(8 / 3)


def test_whole_stripes_are_written_without_reading() -> None:
    assert count_round_trips(Op.WRITE, erasure(), streaming=True).most == 2


def test_a_single_place_has_no_way() -> None:
    pool = replicated(zones=1, places=1)
    for op in Op:
        assert count_round_trips(op, pool).most == 0


pools = st.one_of(
    st.builds(
        lambda size, zones, apart, reads: replicated(
            size=size, zones=zones, places=zones, apart=apart, reads=reads
        ),
        st.integers(1, 5),
        st.integers(1, 6),
        st.booleans(),
        st.sampled_from(ReadFrom),
    ),
    st.builds(
        lambda k, m, zones: erasure(k=k, m=m, zones=zones),
        st.integers(1, 8),
        st.integers(1, 4),
        st.integers(1, 12),
    ),
)
operations = st.sampled_from([Op.READ, Op.WRITE])


@given(operations, pools, pools, st.floats(0, 0.1), st.floats(0, 0.1))
def test_laws_of_the_cost(
    op: Op, ours: PoolFacts, theirs: PoolFacts, base_s: float, candidate_s: float
) -> None:
    left, right = count_round_trips(op, ours), count_round_trips(op, theirs)
    for side in (left, right):
        assert side.expected is not None
        assert 0 <= side.least <= side.expected + 1e-12
        assert side.expected <= side.most + 1e-12
    there = compute_cost(left, right, base_s, candidate_s)
    back = compute_cost(right, left, candidate_s, base_s)
    assert there.least_s <= there.most_s
    assert (there.least_s, there.most_s) == pytest.approx((-back.most_s, -back.least_s))
    assert compute_cost(left, left, base_s, base_s).most_s == 0
    # Nothing costs anything on a network without length.
    assert compute_cost(left, right, 0, 0).most_s == 0


@given(operations, pools, st.floats(1e-5, 0.1))
def test_the_implied_round_trip_gives_back_the_one_that_was(
    op: Op, pool: PoolFacts, rtt_s: float
) -> None:
    """What the average way costs at a length implies a span with that length in it."""
    way = find_path_change(op, replicated(zones=1), pool, streaming=False)
    if way is None:
        assert pool.zones == 1 or count_round_trips(op, pool).most == 0
        return
    assert way.candidate.expected is not None
    low, high = implied_round_trip_s(way.candidate.expected * rtt_s, way)
    assert low <= rtt_s * (1 + 1e-9)
    assert high >= rtt_s * (1 - 1e-9)
