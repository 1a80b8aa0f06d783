"""How many round trips between zones an I/O waits for, one after the other.

From the way of an I/O through Ceph (src/osd/ReplicatedBackend.cc: the primary sends to all copies
at once and answers when the last has committed; src/osd/ECBackend.cc: a part of a stripe is read
from k shards before all k + m are written; reads go to the primary). For z zones:

    client to primary          0 or 1, (z - 1) / z on average over primaries
    primary to copies          1 with copies in different zones: the farthest counts
    read of k shards           1 where k > 1, and only of part of a stripe when writing
    read of the nearest copy   0 where one is in the client's zone
"""

from __future__ import annotations

from dataclasses import dataclass

from leadline.analysis.explaining_facts import PoolFacts, ReadFrom
from leadline.inventory.ceph import PoolType
from leadline.metrics import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Legs:
    """Round trips in a row: at least, at most, and on average over primaries and clients that may
    be in any zone (None where reads and writes are mixed in unknown shares). `way` says which."""

    least: float
    most: float
    expected: float | None
    way: str


def legs(op: Op, pool: PoolFacts, *, streaming: bool = False) -> Legs:
    """Round trips that one I/O of `op` waits for. `streaming` I/Os write whole stripes."""
    if op is Op.TOTAL:
        read, write = (legs(one, pool, streaming=streaming) for one in (Op.READ, Op.WRITE))
        return Legs(
            least=min(read.least, write.least),
            most=max(read.most, write.most),
            expected=None,
            way="reads and writes mixed",
        )
    if op is Op.READ:
        return _read(pool)
    return _write(pool, streaming)


def _client(pool: PoolFacts) -> tuple[float, float, float]:
    """From a client to the primary."""
    if pool.client_local or pool.places < 2:
        return 0.0, 0.0, 0.0
    return 0.0, 1.0, (pool.places - 1) / pool.places


def _others(pool: PoolFacts, count: int) -> tuple[float, float, float]:
    """From the primary to `count` other copies or shards at once."""
    if count < 1 or pool.places < 2:
        return 0.0, 0.0, 0.0
    if pool.apart:
        return 1.0, 1.0, 1.0
    # Copies fall anywhere: the wait is there unless all of them share the primary's zone.
    return 0.0, 1.0, 1 - (1 / pool.places) ** count


def _read(pool: PoolFacts) -> Legs:
    if pool.type is PoolType.ERASURE:
        parts = [_client(pool), _others(pool, pool.k - 1)]
        return _sum(parts, "client to primary, then primary to the other data shards")
    if pool.reads is ReadFrom.NEAREST and not pool.client_local:
        near = min(1.0, pool.size / pool.places)
        if not pool.apart:
            near = 1 - (1 - 1 / pool.places) ** pool.size
        return Legs(least=0.0, most=1 - near, expected=1 - near, way="client to the nearest copy")
    return _sum([_client(pool)], "client to primary")


def _write(pool: PoolFacts, streaming: bool) -> Legs:
    if pool.type is PoolType.ERASURE:
        parts = [_client(pool), _others(pool, pool.k + pool.m - 1)]
        if streaming:
            return _sum(parts, "client to primary, then primary to all shards at once")
        return _sum(
            [*parts, _others(pool, pool.k - 1)],
            "client to primary, then the old data read from shards, then all shards written",
        )
    parts = [_client(pool), _others(pool, pool.size - 1)]
    return _sum(parts, "client to primary, then primary to all copies at once")


def _sum(parts: list[tuple[float, float, float]], way: str) -> Legs:
    least, most, expected = (sum(column) for column in zip(*parts, strict=True))
    return Legs(least=least, most=most, expected=expected, way=way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the way costs more at the candidate, in seconds per I/O; below zero: less."""

    base: Legs
    candidate: Legs
    least_s: float
    most_s: float
    expected_s: float | None


def cost(base: Legs, candidate: Legs, base_rtt_s: float, candidate_rtt_s: float) -> Cost:
    """Round trips times their length, candidate less baseline. Where the client stands is the same
    question on both sides, so that least is set against least and most against most."""
    corners = [
        ours * candidate_rtt_s - theirs * base_rtt_s
        for ours, theirs in ((candidate.least, base.least), (candidate.most, base.most))
    ]
    expected = None
    if base.expected is not None and candidate.expected is not None:
        expected = candidate.expected * candidate_rtt_s - base.expected * base_rtt_s
    return Cost(
        base=base,
        candidate=candidate,
        least_s=min(corners),
        most_s=max(corners),
        expected_s=expected,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The way on both sides."""

    base: Legs
    candidate: Legs


def longer_way(op: Op, base: PoolFacts, candidate: PoolFacts, *, streaming: bool) -> Way | None:
    """The way between zones on both sides, a side in one zone having none; None where both are
    alike."""
    ours, theirs = (
        legs(op, pool, streaming=streaming) if pool.zones > 1 else _NO_WAY
        for pool in (base, candidate)
    )
    alike = (ours.least, ours.most) == (theirs.least, theirs.most)
    return None if alike else Way(base=ours, candidate=theirs)


_NO_WAY = Legs(least=0.0, most=0.0, expected=0.0, way="within one zone")


def implied_rtt_s(extra_s: float, way: Way) -> tuple[float, float]:
    """The shortest and the longest round trip, in seconds, that would account for `extra_s`. The
    least number of round trips says nothing where it is the same; then the average does."""
    most = abs(way.candidate.most - way.base.most)
    fewest = abs(way.candidate.least - way.base.least)
    if not fewest and way.candidate.expected is not None and way.base.expected is not None:
        fewest = abs(way.candidate.expected - way.base.expected)
    spans = [extra_s / count for count in (most, fewest) if count]
    return min(spans), max(spans)
