"""Round trips between zones that an I/O waits for, and what they are expected to cost.

The paths of an I/O are those of `leadline.model.io_paths`. Here they get the placement of a
pool, the client's place and the measured round trips.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from leadline.analysis.explain.accounts import Estimate
from leadline.analysis.explain.systems import Network, PoolFacts, ReadFrom, SystemFacts
from leadline.inventory.ceph.model import PoolType
from leadline.metrics import Op
from leadline.model.io_paths import (
    ActingSet,
    IoPath,
    PathSummary,
    RoundTripTimes,
    draw_placement,
    summarise_paths,
)

# A smaller cost is not tested: it is the time of a few system calls.
LEAST_COST_S = 50e-6
_NORMAL = 1.959964
_UNIT = RoundTripTimes(other_s=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """Round trips in sequence: minimum, maximum, and the mean over placement groups and clients
    (None for a mix of reads and writes with unknown shares, whose path is None, too), as is that of
    messages between zones."""

    least: float
    most: float
    expected: float | None
    path: IoPath | None
    remote_messages: float | None = None


def find_path(op: Op, pool: PoolFacts, *, streaming: bool) -> IoPath:
    """Return the path of a read or write; `streaming` I/Os read and write whole stripes."""
    erasure = pool.type is PoolType.ERASURE
    if op is Op.READ:
        if erasure:
            one = pool.fast_erasure and not streaming
            return IoPath.ONE_SHARD if one else IoPath.DATA_SHARDS
        return IoPath.NEAREST_COPY if pool.reads is ReadFrom.NEAREST else IoPath.PRIMARY
    if not erasure:
        return IoPath.COPIES
    if streaming:
        return IoPath.SHARDS
    return IoPath.PARTIAL_WRITE if pool.fast_erasure else IoPath.READ_MODIFY_WRITE


@cache
def count_round_trips(op: Op, pool: PoolFacts, *, streaming: bool = False) -> RoundTrips:
    """Count the round trips that one I/O waits for."""
    if op is Op.TOTAL:
        read, write = (
            count_round_trips(part, pool, streaming=streaming) for part in (Op.READ, Op.WRITE)
        )
        return RoundTrips(
            least=min(read.least, write.least),
            most=max(read.most, write.most),
            expected=None,
            path=None,
        )
    path = find_path(op, pool, streaming=streaming)
    found = [summary for _, summary in _summaries(path, pool, _UNIT)]
    return RoundTrips(
        least=min(one.least_trips for one in found),
        most=max(one.most_trips for one in found),
        expected=sum(one.trips for one in found) / len(found),
        path=path,
        remote_messages=sum(one.remote_messages for one in found) / len(found),
    )


def _summaries(
    path: IoPath, pool: PoolFacts, times: RoundTripTimes
) -> list[tuple[str, PathSummary]]:
    """Summarise the paths of each client that is possible."""
    placement = pool.placement or _drawn(pool)
    clients = (pool.client,) if pool.client is not None else tuple(place_shares(pool))
    return [(client, summarise_paths(path, placement, client, times)) for client in clients]


def place_shares(pool: PoolFacts) -> dict[str, float]:
    """Return the share of data of each place; equal shares where they are unknown."""
    return dict(pool.shares) or {str(number): 1.0 for number in range(pool.places)}


@cache
def _drawn(pool: PoolFacts) -> tuple[ActingSet, ...]:
    return draw_placement(place_shares(pool), pool.size, apart=pool.apart, data=max(1, pool.k))


# --- cost ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """The round trips between zones on both systems."""

    base: RoundTrips
    candidate: RoundTrips


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(PathChange):
    """Seconds that round trips add to one I/O on the candidate; negative: they save time.

    `base_rtt_s` and `candidate_rtt_s` are the typical round trips between places. `base_placed` and
    `candidate_placed`: the placement is known, not drawn.
    """

    added: Estimate
    base_rtt_s: float
    candidate_rtt_s: float
    base_placed: bool = False
    candidate_placed: bool = False


def network_time_s(
    op: Op,
    pool: PoolFacts,
    network: Network,
    *,
    streaming: bool = False,
    objects: int | None = None,
) -> Estimate:
    """Compute the network time of one I/O, averaged over placement groups.

    The interval contains the scatter of the measured round trips; the clients' possible places; a
    sample of `objects` (None: many) from the placement groups, at 95 %; and for an unknown
    placement a sample of as many placement groups as the pool has, or, where CRUSH does not draw
    them evenly or their number is unknown, every placement.
    """
    if op is Op.TOTAL:
        parts = [
            network_time_s(part, pool, network, streaming=streaming, objects=objects)
            for part in (Op.READ, Op.WRITE)
        ]
        return Estimate(
            value=sum(part.value for part in parts) / 2,
            low=min(part.low for part in parts),
            high=max(part.high for part in parts),
        )
    if not network.high.longest_s:
        return Estimate(value=0.0, low=0.0, high=0.0)
    path = find_path(op, pool, streaming=streaming)
    low, typical, high = (
        [summary for _, summary in _summaries(path, pool, times)]
        for times in (network.low, network.typical, network.high)
    )
    value = sum(one.floor_s for one in typical) / len(typical)
    if not pool.placement and (not pool.even or not pool.pgs):
        least = min(one.least_s for one in low)
        most = max(one.most_s for one in high)
    else:
        share = _NORMAL * math.sqrt(_sampled(pool, objects))
        least = min(max(one.least_s, one.floor_s - share * one.deviation_s) for one in low)
        most = max(min(one.most_s, one.floor_s + share * one.deviation_s) for one in high)
    return Estimate(value=value, low=min(least, value), high=max(most, value))


def _sampled(pool: PoolFacts, objects: int | None) -> float:
    """Return the variance of the mean of `objects` of a pool (None: many) in variances of one."""
    drawn = 0.0 if pool.placement else 1 / (pool.pgs or 1)
    if objects is None:
        return drawn
    # All objects of an image are no sample of it (correction for finite populations).
    known = 1 / pool.objects if pool.objects else 0.0
    return drawn + max(0.0, 1 / objects - known)


def find_cost(
    op: Op, target: str, facts: SystemFacts, *, streaming: bool, objects: int | None = None
) -> Cost | None:
    """Return what round trips add to an I/O on a target; None if unknown, or nothing."""
    pools = facts.pools.get(target)
    networks = facts.networks_of(target)
    if pools is None or not any(networks):
        return None
    times, lengths = [], []
    for pool, network in zip(pools, networks, strict=True):
        if network is None and pool.zones > 1:
            return None
        # The network of a single zone counts as zero where it was not measured.
        network = network or Network.uniform(0.0)
        times.append(network_time_s(op, pool, network, streaming=streaming, objects=objects))
        lengths.append(network.typical_s)
    base, candidate = times
    cost = Cost(
        base=count_round_trips(op, pools[0], streaming=streaming),
        candidate=count_round_trips(op, pools[1], streaming=streaming),
        added=Estimate(
            value=candidate.value - base.value,
            low=candidate.low - base.high,
            high=candidate.high - base.low,
        ),
        base_rtt_s=lengths[0],
        candidate_rtt_s=lengths[1],
        base_placed=bool(pools[0].placement),
        candidate_placed=bool(pools[1].placement),
    )
    return cost if max(abs(cost.added.low), abs(cost.added.high)) >= LEAST_COST_S else None


def with_queue(added: Estimate, latencies_s: tuple[float, float], depth: int | None) -> Estimate:
    """Widen a cost by what queues may hide of it with `depth` I/Os in flight (None: unknown).

    In a closed loop the faster system's latency R is at most N times its service time, so up to
    R (1 - 1/N) of it is waiting, which a delay elsewhere may replace (asymptotic bounds of a closed
    network: Denning and Buzen 1978).
    """
    if depth == 1:
        return added
    if added.low + added.high < 0:
        return -with_queue(-added, (latencies_s[1], latencies_s[0]), depth)
    hidden_s = latencies_s[0] * (1 - 1 / depth) if depth else math.inf
    low = min(added.low, max(0.0, added.low - hidden_s))
    return Estimate(value=added.value, low=low, high=added.high)


def is_hidden(depth: int | None, added: Estimate) -> bool:
    """Return whether queues may hide all of a cost (`with_queue`)."""
    return depth != 1 and added.low <= 0 <= added.high


# --- the inverse: which round trip would account for a change ------------------------------------

_LOCAL = RoundTrips(least=0.0, most=0.0, expected=0.0, path=None)


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


def implied_round_trip_s(added_s: Sequence[float], change: PathChange) -> tuple[float, float]:
    """Return the shortest and the longest round trip, in seconds, that accounts for an added
    latency between the ends of `added_s`."""
    most = abs(change.candidate.most - change.base.most)
    fewest = abs(change.candidate.least - change.base.least)
    # Equal minima give no bound; the means do.
    if not fewest and change.candidate.expected is not None and change.base.expected is not None:
        fewest = abs(change.candidate.expected - change.base.expected)
    lengths = [end / count for count in (most, fewest) if count for end in added_s]
    return min(lengths), max(lengths)
