"""The autoscaler: published numbers, and properties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.inventory.ceph.autoscaler import (
    Mode,
    PoolDemand,
    Reason,
    Rule,
    Settings,
    advise,
    compute_used,
    find_rule,
    nearest_power_of_two,
)

TIB = 1 << 40


def pool(number: int, size: int, ratio: float, pg_num: int = 1, **more: object) -> PoolDemand:
    demand = PoolDemand(
        pool_id=number,
        name=f"p{number}",
        size=size,
        raw_rate=float(size),
        pg_num=pg_num,
        target_ratio=ratio,
    )
    return replace(demand, **more)  # type: ignore[arg-type]


def settings(rule: Rule, osds: int, target: int) -> Settings:
    return Settings(rule=rule, osds=osds, capacity_bytes=osds * TIB, target_pg_per_osd=target)


def settle(pools: Iterable[PoolDemand], settings: Settings) -> tuple[PoolDemand, ...]:
    """Return the pools after the passes of the autoscaler.

    A second pass changes nothing: only acting depends on pg_num, not the result.
    """
    current = tuple(sorted(pools, key=lambda pool: pool.pool_id))
    final = {item.pool.pool_id: item for item in advise(current, settings) if item.acts}
    return tuple(
        replace(pool, pg_num=final[pool.pool_id].final) if pool.pool_id in final else pool
        for pool in current
    )


def numbers(pools: tuple[PoolDemand, ...]) -> list[int]:
    return [one.pg_num for one in pools]


TWO = (pool(1, 3, 0.49), pool(2, 3, 0.49))
ADDED = (pool(3, 2, 0.10), pool(4, 3, 0.10, raw_rate=1.5))  # rep2, EC 2+1
A, B = Rule.WHOLE_BUDGET, Rule.WHAT_IS_LEFT


# io-paths.md 2.9: 24 OSDs, one shot from pg_num 1; every cell of the table.
@pytest.mark.parametrize(
    ("rule", "target", "two", "together", "later"),
    [
        (A, 100, [512, 512], [256, 256, 128, 64], [512, 512, 128, 64]),
        (A, 200, [1024, 1024], [512, 512, 256, 128], [1024, 1024, 256, 128]),
        (B, 100, [512, 256], [256, 256, 32, 32], [512, 256, 32, 32]),
        (B, 200, [1024, 512], [512, 512, 64, 32], [1024, 512, 64, 32]),
    ],
)
def test_24_osds(
    rule: Rule, target: int, two: list[int], together: list[int], later: list[int]
) -> None:
    given_ = settings(rule, 24, target)
    first = settle(TWO, given_)
    assert numbers(first) == two
    assert numbers(settle((*TWO, *ADDED), given_)) == together
    assert numbers(settle((*first, *ADDED), given_)) == later, "old pools stay as they are"


def test_three_osds_of_the_published_cluster_before_it_grew() -> None:
    assert numbers(settle(TWO, settings(B, 3, 200))) == [128, 64]


def test_growing_in_steps_and_at_once_end_differently() -> None:
    small = settle(TWO, settings(B, 3, 200))
    assert numbers(settle(small, settings(B, 24, 200))) == [1024, 512], "at once"
    grown = small
    for osds in (6, 9, 12, 15, 18, 21, 24):
        grown = settle(grown, settings(B, osds, 200))
    assert numbers(grown) == [512, 256], "in steps, as published"


def test_the_published_small_erasure_coded_pool_has_32() -> None:
    started = (pool(1, 3, 0.49, 256), pool(2, 3, 0.49, 128), *ADDED)
    assert numbers(settle(started, settings(B, 12, 200)))[3] == 32


def test_an_even_budget_would_not_give_what_is_seen() -> None:
    """The guide's formula, without a running budget, predicts equal pools."""
    advice = advise(TWO, settings(B, 24, 200))
    assert [one.final for one in advice] == [1024, 512]
    assert [one.budget for one in advice] == [4800, 2400]
    assert [one.raw for one in advice] == [800, 400]


@pytest.mark.parametrize(
    ("version", "rule"),
    [
        ((14, 2, 9), Rule.UNKNOWN),
        ((14, 2, 10), A),
        ((15, 2, 17), A),
        ((16, 2, 15), B),
        ((17, 2, 7), B),
        ((19, 2, 1), B),
        ((20, 2, 0), B),
        ((20, 2, 1), Rule.EAGER_LARGE),
        ((21, 0, 0), Rule.UNKNOWN),
        ((), Rule.UNKNOWN),
    ],
)
def test_the_rule_by_release(version: tuple[int, ...], rule: Rule) -> None:
    assert find_rule(version) is rule


def test_nothing_is_said_where_the_rule_or_the_capacity_is_unknown() -> None:
    assert advise(TWO, settings(Rule.UNKNOWN, 24, 100)) == ()
    assert advise(TWO, Settings(rule=B, osds=24, capacity_bytes=0)) == ()


@pytest.mark.parametrize(
    ("raw", "power"),
    [
        (0, 0), (0.99, 0), (1, 1), (1.99, 1), (2, 2), (2.99, 2), (3, 4), (5.9, 4), (6, 8),
        (47.9, 32), (48, 64), (48.1, 64), (95.99, 64), (96, 128), (400, 512), (383.9, 256),
    ],
)  # fmt: skip
def test_the_nearest_power_of_two_with_the_upper_in_a_tie(raw: float, power: int) -> None:
    assert nearest_power_of_two(raw) == power


@given(st.floats(2, 1e6))
def test_the_nearest_power_is_a_power_and_nearest(raw: float) -> None:
    power = nearest_power_of_two(raw)
    assert power.bit_count() == 1
    for other in (power // 2, power * 2):
        assert abs(raw - power) <= abs(raw - other)


def test_what_counts_as_used_depends_on_the_release() -> None:
    assert compute_used((16, 2, 15), 100, 350, 3.0) == 300
    assert compute_used((17, 2, 0), 100, 350, 3.0) == 350


@pytest.mark.parametrize(
    ("has", "acts", "reason"),
    [
        (512, False, Reason.AS_WANTED),
        (256, False, Reason.WITHIN_THRESHOLD),
        (171, False, Reason.WITHIN_THRESHOLD),
        (170, True, Reason.WOULD_CHANGE),
        (1536, False, Reason.WITHIN_THRESHOLD),
        (2048, True, Reason.WOULD_CHANGE),
    ],
)
def test_only_more_than_three_times_off_is_acted_on(has: int, acts: bool, reason: Reason) -> None:
    (advice,) = advise([pool(1, 3, 1.0, has)], settings(B, 15, 100))
    assert (advice.final, advice.acts, advice.reason) == (512, acts, reason)


def test_2021_grows_to_512_and_1024_at_once_and_shrinks_as_before() -> None:
    grow = settings(Rule.EAGER_LARGE, 15, 100)
    assert advise([pool(1, 3, 1.0, 256)], grow)[0].acts
    assert not advise([pool(1, 3, 1.0, 1024)], grow)[0].acts, "shrinking keeps its threshold"
    larger = settings(Rule.EAGER_LARGE, 60, 100)
    assert not advise([pool(1, 3, 1.0, 1024)], larger)[0].acts, "2048 needs more than twice"
    assert advise([pool(1, 3, 1.0, 1000)], larger)[0].acts


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"mode": Mode.OFF}, Reason.MODE),
        ({"mode": Mode.WARN}, Reason.MODE),
        ({"raw_used_bytes": 100.0 * TIB}, Reason.OVERCOMMITTED),
    ],
)
def test_what_keeps_a_pool_from_being_changed(more: dict[str, object], reason: Reason) -> None:
    (advice,) = advise([pool(1, 3, 1.0, 1, **more)], settings(B, 24, 100))
    assert (advice.acts, advice.reason) == (False, reason)


def test_bounds_of_a_pool_come_after_rounding() -> None:
    least, most = advise(
        [pool(1, 3, 0.0, 16, pg_num_min=16), pool(2, 3, 1.0, 16, pg_num_max=100)],
        settings(B, 24, 100),
    )
    assert (least.nearest, least.final) == (0, 16)
    assert (most.nearest, most.final) == (1024, 100)


def test_bulk_pools_share_what_the_others_leave() -> None:
    pools = [
        pool(1, 3, 0.0, bulk=True),
        pool(2, 3, 0.0, raw_used_bytes=6.0 * TIB),
        pool(3, 3, 0.0, bulk=True),
    ]
    first, small, third = advise(pools, settings(B, 24, 100))
    assert small.budget == 2400
    assert small.share == pytest.approx(600)
    assert first.budget == third.budget == 1800
    assert first.raw == third.raw == pytest.approx(300)


def test_target_bytes_take_their_part_before_ratios_are_applied() -> None:
    half = pool(1, 2, 0.0, target_bytes=6 * TIB)  # x 2 of 24 TiB
    ratio = pool(2, 3, 0.3)
    first, second = advise([half, ratio], settings(B, 24, 100))
    assert first.ratio == pytest.approx(0.5)
    assert second.effective_target_ratio == pytest.approx(0.5)


POOLS = st.lists(
    st.tuples(
        st.integers(1, 6), st.floats(0, 4), st.floats(0, 3.0 * TIB), st.booleans(),
        st.sampled_from([0.5, 1.0, 4.0]),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


def drawn(rows: list[tuple[int, float, float, bool, float]]) -> list[PoolDemand]:
    return [
        pool(number, size, ratio, raw_used_bytes=used, bulk=bulk, bias=bias)
        for number, (size, ratio, used, bulk, bias) in enumerate(rows, 1)
    ]


@given(rows=POOLS, rule=st.sampled_from([A, B, Rule.EAGER_LARGE]), osds=st.integers(1, 500))
def test_every_pool_gets_advice_whatever_the_order_in_which_they_are_given(
    rows: list[tuple[int, float, float, bool, float]], rule: Rule, osds: int
) -> None:
    pools = drawn(rows)
    given_ = Settings(rule=rule, osds=osds, capacity_bytes=40 * TIB)
    advice = advise(pools, given_)
    assert [one.pool.pool_id for one in advice] == [one.pool_id for one in pools]
    assert advise(pools[::-1], given_) == advice
    assert all(one.final >= 32 for one in advice)
    assert settle(settle(pools, given_), given_) == settle(pools, given_), "one pass settles"


@given(ratios=st.lists(st.floats(0.01, 1), min_size=1, max_size=8), osds=st.integers(1, 500))
def test_shares_of_what_is_left_never_exceed_the_budget(ratios: list[float], osds: int) -> None:
    pools = [pool(number, 3, ratio) for number, ratio in enumerate(ratios, 1)]
    given_ = Settings(rule=B, osds=osds, capacity_bytes=TIB)
    advice = advise(pools, given_)
    # A share's fraction is not taken from what is left.
    assert sum(one.share for one in advice) <= given_.budget + len(pools)
