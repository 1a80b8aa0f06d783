"""Paths of an I/O against counts by hand, and placements against what CRUSH draws."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.io_paths import (
    ActingSet,
    IoPath,
    RoundTripTimes,
    draw_placement,
    find_paths,
    merge_alike,
    summarise_paths,
)

FAR = RoundTripTimes(
    other_s=9e-3,
    between={frozenset("ab"): 1e-3, frozenset("ac"): 2e-3, frozenset("bc"): 4e-3},
)


@pytest.mark.parametrize(
    ("path", "client", "floor_ms", "messages", "remote"),
    [
        (IoPath.PRIMARY, "a", 1, 2, 2),
        (IoPath.PRIMARY, "b", 0, 2, 0),
        (IoPath.NEAREST_COPY, "a", 0, 2, 0),
        (IoPath.NEAREST_COPY, "d", 9, 2, 2),
        # The farthest copy counts: b to c takes 4 ms.
        (IoPath.COPIES, "a", 1 + 4, 6, 6),
        (IoPath.COPIES, "b", 4, 6, 4),
    ],
)
def test_the_paths_of_copies(
    path: IoPath, client: str, floor_ms: float, messages: int, remote: int
) -> None:
    acting = ActingSet(members=("b", "a", "c"))
    found = summarise_paths(path, [acting], client, FAR)
    assert found.floor_s == pytest.approx(floor_ms * 1e-3)
    assert (found.messages, found.remote_messages) == (messages, remote)
    assert (found.least_s, found.most_s, found.deviation_s) == (found.floor_s, found.floor_s, 0)


@pytest.mark.parametrize(
    ("path", "floor_ms", "messages"),
    [
        # Data shards in a and b, coding in c; the primary is a, the client, too.
        (IoPath.DATA_SHARDS, 1, 2 + 2),
        (IoPath.ONE_SHARD, (0 + 1) / 2, 2 + (0 + 2) / 2),
        (IoPath.SHARDS, 2, 2 + 4),
        (IoPath.READ_MODIFY_WRITE, 1 + 2, 2 + 2 + 4),
        # Shard a: b is read, c written. Shard b: a is read, b and c written.
        (IoPath.PARTIAL_WRITE, ((1 + 2) + (0 + 2)) / 2, 2 + ((2 + 2) + (0 + 4)) / 2),
    ],
)
def test_the_paths_of_erasure_code(path: IoPath, floor_ms: float, messages: float) -> None:
    acting = ActingSet(members=("a", "b", "c"), data=2)
    found = summarise_paths(path, [acting], "a", FAR)
    assert found.floor_s == pytest.approx(floor_ms * 1e-3)
    assert found.messages == pytest.approx(messages)


@pytest.mark.parametrize(
    ("k", "m", "reads", "writes"),
    # The Ceph documentation's table of partial writes with 16 KiB chunks (models.md, 2.4).
    [(2, 2, 1, 3), (4, 2, 3, 3), (6, 2, 3, 3), (8, 2, 3, 3), (2, 1, 1, 2)],
)
def test_partial_writes_read_what_is_fewer(k: int, m: int, reads: int, writes: int) -> None:
    """The primary is coding shard k, so it is among the written ones."""
    members = tuple(str(number) for number in range(k + m))
    acting = ActingSet(members=members, primary=k, data=k)
    for _, read, written in find_paths(IoPath.PARTIAL_WRITE, acting, "0"):
        # The old parity of the primary is read locally.
        assert len(read) in (reads, reads - 1)
        assert len(written) == writes - 1


def test_a_missing_member_costs_nothing_and_a_missing_primary_is_an_error() -> None:
    degraded = ActingSet(members=("a", None, "a"))
    assert summarise_paths(IoPath.COPIES, [degraded], "a", FAR).floor_s == 0
    with pytest.raises(ValueError, match="primary"):
        find_paths(IoPath.PRIMARY, ActingSet(members=(None, "a")), "a")
    with pytest.raises(ValueError, match="without acting sets"):
        summarise_paths(IoPath.PRIMARY, [], "a", FAR)


def test_acting_sets_are_averaged_by_weight() -> None:
    placement = [
        ActingSet(members=("a",), weight=3),
        ActingSet(members=("b",), weight=1),
    ]
    found = summarise_paths(IoPath.PRIMARY, placement, "a", FAR)
    assert found.floor_s == pytest.approx(0.25e-3)
    assert (found.least_trips, found.trips, found.most_trips) == (0, 0.25, 1)
    assert found.deviation_s == pytest.approx((0.25 * 0.75) ** 0.5 * 1e-3)


# --- placements ----------------------------------------------------------------------------------


def slow_draws(
    shares: dict[str, float], size: int, *, apart: bool, count: int = 20_000
) -> Counter[tuple[str, frozenset[str]]]:
    """CRUSH as a lottery: primaries and the set of the others, per mille."""
    chance = random.Random(7)
    found: Counter[tuple[str, frozenset[str]]] = Counter()
    for _ in range(count):
        left = dict(shares)
        drawn = []
        for _ in range(size):
            (place,) = chance.choices(list(left), list(left.values()))
            drawn.append(place)
            if apart:
                del left[place]
        found[drawn[0], frozenset(drawn[1:])] += 1000 / count  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("shares", [{"a": 1, "b": 1, "c": 1}, {"a": 4, "b": 2, "c": 1, "d": 1}])
def test_drawn_placements_have_the_probabilities_of_a_lottery(
    shares: dict[str, float], apart: bool
) -> None:
    slow = slow_draws(shares, 3, apart=apart)
    found: Counter[tuple[str, frozenset[str]]] = Counter()
    placement = draw_placement(shares, 3, apart=apart)
    whole = sum(acting.weight for acting in placement)
    for acting in placement:
        primary, *others = (member for member in acting.members if member is not None)
        found[primary, frozenset(others)] += 1000 * acting.weight / whole  # type: ignore[assignment]
    assert set(slow) <= set(found)
    for key, share in found.items():
        assert slow[key] == pytest.approx(share, abs=12)


def test_many_alike_places_are_rotated() -> None:
    placement = draw_placement(dict.fromkeys(map(str, range(40)), 1.0), 6, apart=True, data=4)
    assert len(placement) == 40
    unit = RoundTripTimes(other_s=1.0)
    assert summarise_paths(IoPath.PRIMARY, placement, "0", unit).floor_s == pytest.approx(39 / 40)
    near = summarise_paths(IoPath.NEAREST_COPY, placement, "0", unit)
    assert near.floor_s == pytest.approx(34 / 40)


def test_more_copies_than_places_share_them_in_turn() -> None:
    for acting in draw_placement({"a": 1.0, "b": 1.0}, 4, apart=True):
        assert Counter(acting.members) == {"a": 2, "b": 2}
    with pytest.raises(ValueError, match="cannot be placed"):
        draw_placement({"a": 0.0}, 2, apart=True)


members = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(members, st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=8),
    st.sampled_from(IoPath),
    st.sampled_from("abcd"),
)
def test_merging_changes_no_average(
    drawn: list[tuple[list[str], int, int]], path: IoPath, client: str
) -> None:
    placement = [
        ActingSet(members=tuple(places), primary=primary % len(places), data=min(data, len(places)))
        for places, primary, data in drawn
    ]
    before = summarise_paths(path, placement, client, FAR)
    after = summarise_paths(path, merge_alike(placement), client, FAR)
    for name in before.__slots__:
        assert getattr(after, name) == pytest.approx(getattr(before, name), abs=1e-7)


@given(st.sampled_from(IoPath), st.permutations("abc"), st.sampled_from("abc"), st.floats(0, 10))
def test_longer_round_trips_never_make_a_shorter_floor(
    path: IoPath, places: list[str], client: str, factor: float
) -> None:
    acting = [ActingSet(members=tuple(places), data=2)]
    longer = RoundTripTimes(
        other_s=FAR.other_s,
        between={pair: seconds * (1 + factor) for pair, seconds in FAR.between.items()},
    )
    short, long = (summarise_paths(path, acting, client, times) for times in (FAR, longer))
    assert short.floor_s <= long.floor_s * (1 + 1e-9)
    assert short.trips == long.trips
    assert short.remote_messages <= short.messages
    assert short.trips <= len(list(itertools.chain(*find_paths(path, acting[0], client))))
