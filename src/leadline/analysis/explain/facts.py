"""What the arithmetic of an explanation needs to know of both systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.inventory.ceph.model import CephInventory, PoolType
from leadline.inventory.diff.ceph import serving_osds
from leadline.metrics import Op

# Levels of CRUSH that are apart by a network worth measuring, the usual one first.
_WIDE = ("zone", "datacenter", "region")


class ReadFrom(StrEnum):
    """Which copy a client reads (`rbd_read_from_replica_policy`)."""

    PRIMARY = "default"
    ANY = "balance"
    NEAREST = "localize"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """One pool on one side. `places` counts the buckets between which the network is long: zones,
    or in a single zone the pool's failure domains, between which a lab measures round trips too.
    `zones` counts zones alone. `apart`: no two copies or shards lie in one place. `k` and `m` are
    0 of replicated pools. `client_local`: every primary is where the client is; None: not known."""

    type: PoolType
    size: int
    zones: int
    places: int
    apart: bool
    k: int = 0
    m: int = 0
    failure_domain: str | None = None
    cephfs: bool = False
    reads: ReadFrom = ReadFrom.PRIMARY
    client_local: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Of both sides: pools by subject, as (baseline, candidate); the measured round trip between
    zones in seconds (None: not measured); whether a Ceph inventory is there. `hosts_known`: the
    load generators' inventories are."""

    pools: Mapping[str, tuple[PoolFacts, PoolFacts]] = field(default_factory=dict)
    base_rtt_s: float | None = None
    candidate_rtt_s: float | None = None
    base_known: bool = False
    candidate_known: bool = False
    hosts_known: bool = False

    @property
    def measured(self) -> bool:
        """Whether there is a round trip to reckon with."""
        return self.base_rtt_s is not None or self.candidate_rtt_s is not None


def facts_of(
    base: CephInventory | None,
    candidate: CephInventory | None,
    pools: Mapping[str, tuple[str, str]],
    base_rtt_s: float | None,
    candidate_rtt_s: float | None,
    *,
    reads: Mapping[str, tuple[str, str]] | None = None,
    clients_local: tuple[bool | None, bool | None] = (None, None),
    hosts_known: bool = False,
) -> Facts:
    """Facts from inventories (None: not known) and what was measured.

    `pools` maps each subject to the names of the pools with its data, (in base, in candidate), as
    for `ceph_differences`; `reads` to the read policies of its targets (`default`, `balance`,
    `localize`; default where it is left out). Round trips in seconds.
    """
    found = {}
    for subject, names in pools.items():
        policies = (reads or {}).get(subject, ("default", "default"))
        sides = [
            _pool(inventory, name, ReadFrom(policy), local) if inventory else None
            for inventory, name, policy, local in zip(
                (base, candidate), names, policies, clients_local, strict=True
            )
        ]
        if sides[0] is not None and sides[1] is not None:
            found[subject] = (sides[0], sides[1])
    return Facts(
        pools=found,
        base_rtt_s=base_rtt_s,
        candidate_rtt_s=candidate_rtt_s,
        base_known=base is not None,
        candidate_known=candidate is not None,
        hosts_known=hosts_known,
    )


def _pool(
    inventory: CephInventory, name: str, reads: ReadFrom, client_local: bool | None
) -> PoolFacts | None:
    pool = inventory.pool(name)
    if pool is None:
        return None
    osds = serving_osds(inventory, [name])
    counts = {level: len({osd.at(level) for osd in osds} - {None}) for level in _WIDE}
    level = next((one for one in _WIDE if counts[one] > 1), None)
    domain = pool.rule.failure_domain if pool.rule else None
    places = counts[level] if level else 1
    apart = level is not None and _at_least(domain, level)
    if level is None and domain is not None:
        places = max(1, len({osd.at(domain) for osd in osds} - {None}))
        apart = True
    return PoolFacts(
        type=pool.type,
        size=pool.size,
        zones=counts[level] if level else 1,
        places=places,
        apart=apart,
        k=pool.erasure.k if pool.erasure else 0,
        m=pool.erasure.m if pool.erasure else 0,
        failure_domain=domain,
        cephfs=pool.cephfs_role is not None,
        reads=reads,
        client_local=client_local,
    )


def _at_least(domain: str | None, level: str) -> bool:
    """Whether buckets of `domain` are of the level or above it."""
    return domain in _WIDE and _WIDE.index(domain) >= _WIDE.index(level)


# How many round trips between zones an I/O waits for, one after the other.
#  From the way of an I/O through Ceph (src/osd/ReplicatedBackend.cc: the primary sends to all
# copies at once and answers when the last has committed; src/osd/ECBackend.cc: a part of a stripe
# is read from k shards before all k + m are written; reads go to the primary). For z zones:
#      client to primary          0 or 1, (z - 1) / z on average over primaries     primary to
# copies          1 with copies in different zones: the farthest counts     read of k shards
# 1 where k > 1, and only of part of a stripe when writing     read of the nearest copy   0 where
# one is in the client's zone


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
