"""Round trips between zones that an I/O waits for, their cost, and whether a change agrees with it.

From the path of an I/O through Ceph: the primary sends to all copies at once and acknowledges when
the last has committed (src/osd/ReplicatedBackend.cc); a partial stripe is read from k shards
before all k + m are written (src/osd/ECBackend.cc); reads go to the primary. For z zones:

    client to primary           0 or 1; (z - 1) / z on average over primaries
    primary to copies           1 with copies in different zones: the farthest counts
    read of k shards            1 where k > 1; for writes only of a partial stripe
    read of the nearest copy    0 with a copy in the client's zone
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.explain.systems import PoolFacts, ReadFrom, SystemFacts
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Op

# Accepted deviation from the cost: pings are medians, latencies are means, and both have noise.
TOLERANCE = 0.2
LEAST_TOLERANCE_S = 50e-6
_ROUNDING_S = 1e-6


class IoPath(StrEnum):
    """The hops of an I/O between zones."""

    LOCAL = "local"
    MIXED = "mixed"
    PRIMARY = "primary"
    NEAREST_COPY = "nearest-copy"
    PRIMARY_AND_DATA_SHARDS = "primary-and-data-shards"
    PRIMARY_AND_COPIES = "primary-and-copies"
    PRIMARY_AND_SHARDS = "primary-and-shards"
    READ_MODIFY_WRITE = "read-modify-write"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """Round trips in sequence: minimum, maximum, and the mean over primaries and clients in any
    zone (None for a mix of reads and writes with unknown shares)."""

    least: float
    most: float
    expected: float | None
    path: IoPath


_LOCAL = RoundTrips(least=0.0, most=0.0, expected=0.0, path=IoPath.LOCAL)


def count_round_trips(op: Op, pool: PoolFacts, *, streaming: bool = False) -> RoundTrips:
    """Count the round trips that one I/O waits for; `streaming` I/Os write whole stripes."""
    if op is Op.TOTAL:
        read, write = (
            count_round_trips(part, pool, streaming=streaming) for part in (Op.READ, Op.WRITE)
        )
        return RoundTrips(
            least=min(read.least, write.least),
            most=max(read.most, write.most),
            expected=None,
            path=IoPath.MIXED,
        )
    many = pool.places > 1
    client = (0.0, 1.0, (pool.places - 1) / pool.places) if many else (0.0, 0.0, 0.0)
    if op is Op.READ:
        if pool.type is PoolType.ERASURE:
            return _add(IoPath.PRIMARY_AND_DATA_SHARDS, client, _to_others(pool, pool.k - 1))
        if pool.reads is ReadFrom.NEAREST:
            near = min(1.0, pool.size / pool.places)
            if not pool.apart:
                near = 1 - (1 - 1 / pool.places) ** pool.size
            return _add(IoPath.NEAREST_COPY, (0.0, 1 - near, 1 - near))
        return _add(IoPath.PRIMARY, client)
    if pool.type is not PoolType.ERASURE:
        return _add(IoPath.PRIMARY_AND_COPIES, client, _to_others(pool, pool.size - 1))
    shards = _to_others(pool, pool.k + pool.m - 1)
    if streaming:
        return _add(IoPath.PRIMARY_AND_SHARDS, client, shards)
    return _add(IoPath.READ_MODIFY_WRITE, client, shards, _to_others(pool, pool.k - 1))


def _to_others(pool: PoolFacts, count: int) -> tuple[float, float, float]:
    """From the primary to `count` other copies or shards at once."""
    if count < 1 or pool.places < 2:
        return 0.0, 0.0, 0.0
    if pool.apart:
        return 1.0, 1.0, 1.0
    # Copies may be in any place: no wait only if all of them share the zone of the primary.
    return 0.0, 1.0, 1 - (1 / pool.places) ** count


def _add(path: IoPath, *hops: tuple[float, float, float]) -> RoundTrips:
    least, most, expected = (sum(column) for column in zip(*hops, strict=True))
    return RoundTrips(least=least, most=most, expected=expected, path=path)


# --- cost ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """The round trips between zones on both systems."""

    base: RoundTrips
    candidate: RoundTrips


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(PathChange):
    """Seconds that round trips add to one I/O on the candidate; negative: they save time."""

    least_s: float
    most_s: float
    expected_s: float | None

    @property
    def largest_s(self) -> float:
        return max(abs(self.least_s), abs(self.most_s))


def compute_cost(
    base: RoundTrips, candidate: RoundTrips, base_rtt_s: float, candidate_rtt_s: float
) -> Cost:
    """Multiply round trips by their length, candidate minus baseline.

    The client's zone is the same question on both systems: minimum is compared with minimum.
    """
    ends = [
        after * candidate_rtt_s - before * base_rtt_s
        for after, before in ((candidate.least, base.least), (candidate.most, base.most))
    ]
    expected = None
    if base.expected is not None and candidate.expected is not None:
        expected = candidate.expected * candidate_rtt_s - base.expected * base_rtt_s
    return Cost(
        base=base, candidate=candidate, least_s=min(ends), most_s=max(ends), expected_s=expected
    )


def find_cost(op: Op, target: str, facts: SystemFacts, *, streaming: bool) -> Cost | None:
    """Return what round trips add to an I/O on a target; None if unknown, or nothing."""
    pools = facts.pools.get(target)
    if pools is None or not facts.measured:
        return None
    lengths_s = []
    for pool, rtt_s in zip(pools, (facts.base_rtt_s, facts.candidate_rtt_s), strict=True):
        if rtt_s is None and pool.zones > 1:
            return None
        # The network of a single zone counts as zero where it was not measured.
        lengths_s.append(rtt_s or 0.0)
    trips = [count_round_trips(op, pool, streaming=streaming) for pool in pools]
    cost = compute_cost(trips[0], trips[1], lengths_s[0], lengths_s[1])
    return cost if cost.largest_s >= LEAST_TOLERANCE_S else None


class Agreement(StrEnum):
    """A measured change compared with the cost of round trips."""

    WITHIN = "within"
    TOLERATED = "tolerated"
    LESS = "less"
    MORE = "more"
    OPPOSITE = "opposite"

    @property
    def agrees(self) -> bool:
        return self in (Agreement.WITHIN, Agreement.TOLERATED)


def compare_with_cost(added_s: float, cost: Cost) -> Agreement:
    """Classify a measured change by the minimum and the maximum cost."""
    least_s, most_s = cost.least_s, cost.most_s
    if (least_s >= 0 > added_s) or (most_s <= 0 < added_s):
        return Agreement.OPPOSITE
    if least_s - _ROUNDING_S <= added_s <= most_s + _ROUNDING_S:
        return Agreement.WITHIN
    slack = max(TOLERANCE * cost.largest_s, LEAST_TOLERANCE_S)
    if least_s - slack <= added_s <= most_s + slack:
        return Agreement.TOLERATED
    below = added_s < least_s
    return Agreement.LESS if below == (most_s > 0) else Agreement.MORE


# --- the inverse: which round trip would account for a change ------------------------------------


def find_path_change(
    op: Op, base: PoolFacts, candidate: PoolFacts, *, streaming: bool
) -> PathChange | None:
    """Count round trips between zones on both systems, none within one zone; None if equal."""
    before, after = (
        count_round_trips(op, pool, streaming=streaming) if pool.zones > 1 else _LOCAL
        for pool in (base, candidate)
    )
    alike = (before.least, before.most) == (after.least, after.most)
    return None if alike else PathChange(base=before, candidate=after)


def implied_round_trip_s(added_s: float, change: PathChange) -> tuple[float, float]:
    """Return the shortest and the longest round trip, in seconds, that accounts for a change."""
    most = abs(change.candidate.most - change.base.most)
    fewest = abs(change.candidate.least - change.base.least)
    # Equal minima give no bound; the means do.
    if not fewest and change.candidate.expected is not None and change.base.expected is not None:
        fewest = abs(change.candidate.expected - change.base.expected)
    lengths = [added_s / count for count in (most, fewest) if count]
    return min(lengths), max(lengths)
