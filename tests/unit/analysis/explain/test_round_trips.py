"""Round trips of an I/O against a simulation of the messages, one by one."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from compared_cells import erasure, networks, replicated
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.explain.round_trips import (
    PoolFacts,
    ReadFrom,
    count_round_trips,
    find_cost,
    find_path_change,
    implied_round_trip_s,
    network_time_s,
    with_queue,
)
from leadline.analysis.explain.systems import Network, SystemFacts, summarise_network
from leadline.archive.records import RoundTrip
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Op
from leadline.model.io_paths import ActingSet, IoPath, merge_alike, summarise_paths


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
    there, back = (
        find_cost(
            op,
            "x",
            SystemFacts(pools={"x": pair}, networks=networks(*lengths, "x")),
            streaming=False,
        )
        for pair, lengths in (
            ((ours, theirs), (base_s, candidate_s)),
            ((theirs, ours), (candidate_s, base_s)),
        )
    )
    assert (there is None) is (back is None)
    if there is not None and back is not None:
        mirrored = (-back.added.high, -back.added.low)
        assert (there.added.low, there.added.high) == pytest.approx(mirrored)
        longest = max(left.most * base_s, right.most * candidate_s)
        assert max(abs(there.added.low), abs(there.added.high)) <= longest * (1 + 1e-9)


def test_the_network_is_the_scatter_of_its_pings() -> None:
    def ping(median_s: float, p95_s: float | None) -> RoundTrip:
        return RoundTrip(
            source="a",
            destination="b",
            asked_s=1e-3,
            min_s=1e-3,
            median_s=median_s,
            p95_s=p95_s,
            samples=50,
        )

    found = summarise_network([[ping(1.1e-3, 1.3e-3)], [ping(1.2e-3, 1.5e-3)], []])
    assert found is not None
    ends = [times.seconds("b", "a") for times in (found.low, found.typical, found.high)]
    assert ends == pytest.approx([1e-3, 1.15e-3, 1.4e-3])
    old = summarise_network([[ping(1.1e-3, None)], [ping(1.2e-3, None)]])
    assert old is not None
    assert old.high.seconds("a", "c") == 1.2e-3, "an unmeasured pair is like the others"
    assert summarise_network([[], []]) is None


@given(st.floats(0, 1e-2), st.floats(1e-5, 1e-2), st.integers(1, 256))
def test_a_queue_hides_at_most_its_wait(cost_s: float, latency_s: float, depth: int) -> None:
    cost = Estimate(value=cost_s, low=cost_s, high=cost_s)
    found = with_queue(cost, (latency_s, latency_s + cost_s), depth)
    assert found.high == cost_s
    assert found.low == pytest.approx(max(0.0, cost_s - latency_s * (1 - 1 / depth)))
    back = with_queue(-cost, (latency_s + cost_s, latency_s), depth)
    if cost_s:
        assert (back.low, back.high) == (-found.high, -found.low)


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
    low, high = implied_round_trip_s([way.candidate.expected * rtt_s], way)
    assert low <= rtt_s * (1 + 1e-9)
    assert high >= rtt_s * (1 - 1e-9)


@pytest.mark.parametrize("objects", [16, 64])
@pytest.mark.parametrize("known", [True, False])
def test_the_interval_covers_the_images_of_simulated_clusters(objects: int, known: bool) -> None:
    """Placement groups drawn from three zones, and images whose objects are drawn from them."""
    chance = random.Random(11)
    network, covered, images = Network.uniform(1e-3), 0, 400
    for _ in range(images):
        groups = [ActingSet(members=tuple(chance.sample("abc", 3))) for _ in range(32)]
        pool = replicated(pgs=32, client="a", shares=tuple((zone, 1.0) for zone in "abc"))
        image = [chance.choice(groups) for _ in range(objects)]
        truth = summarise_paths(IoPath.PRIMARY, image, "a", network.typical).floor_s
        placed = replace(pool, placement=merge_alike(groups)) if known else pool
        found = network_time_s(Op.READ, placed, network, objects=objects)
        covered += found.low <= truth <= found.high
    # 95 % of a discrete number: 11 of 16 objects is the next to 12.
    assert covered / images >= 0.92
