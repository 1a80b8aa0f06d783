"""Pools and network of both systems, as far as they determine how far an I/O travels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from leadline.archive.records import RoundTrip
from leadline.inventory.ceph.model import CephInventory, Osd, Pool, PoolType
from leadline.inventory.ceph.topology import PlacementGroup
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.facts import find_pool, target_facts
from leadline.inventory.kubernetes.classes import reads_near
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.layer import Layer, LayerKind
from leadline.model.io_paths import ActingSet, RoundTripTimes, merge_alike
from leadline.model.placement import count_objects
from leadline.plan.facts import ClusterFacts
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

# CRUSH levels with a relevant network distance, the usual one first.
_WIDE = ("zone", "datacenter", "region")
# Among more places (hosts of a large zone) the exact acting sets make no difference.
_MOST_PLACES = 12


class ReadFrom(StrEnum):
    """The copy that a client reads (`rbd_read_from_replica_policy`)."""

    PRIMARY = "default"
    ANY = "balance"
    NEAREST = "localize"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """The placement of one pool.

    `zones` counts zones. `places` counts the buckets with a network distance between them: zones,
    or in a single zone the failure domains of the pool. `apart`: no two copies or shards share a
    place. `k` and `m` are 0 for replicated pools.

    `placement` has the acting sets of its placement groups, empty where they are unknown. `shares`
    are the CRUSH weights of the places, `pgs` the number of placement groups. `even`: CRUSH draws
    primaries in proportion to the weights. `objects`: `placement` is that of so many objects of
    one image, None: of objects in general. `client` is the place of the load generator.
    `fast_erasure`: only the needed shards are read and written.
    """

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
    placement: tuple[ActingSet, ...] = ()
    shares: tuple[tuple[str, float], ...] = ()
    pgs: int | None = None
    even: bool = True
    objects: int | None = None
    client: str | None = None
    fast_erasure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Measured round trips between places: usual minimum, median, and what most stay below."""

    low: RoundTripTimes
    typical: RoundTripTimes
    high: RoundTripTimes

    @classmethod
    def uniform(cls, rtt_s: float) -> Network:
        times = RoundTripTimes(other_s=rtt_s)
        return cls(low=times, typical=times, high=times)

    @property
    def typical_s(self) -> float:
        """The median round trip between any two places."""
        return self.typical.other_s


def summarise_network(trials: Iterable[Sequence[RoundTrip]]) -> Network | None:
    """Summarise the pings before each trial; None without any.

    The ends are the median over trials of the shortest ping and of the 95th percentile; in archives
    without percentiles the longest median.
    """
    pairs: dict[frozenset[str], list[RoundTrip]] = {}
    for trips in trials:
        for trip in trips:
            pairs.setdefault(frozenset((trip.source, trip.destination)), []).append(trip)
    if not pairs:
        return None
    low, typical, high = {}, {}, {}
    for pair, trips in pairs.items():
        known = [trip.p95_s for trip in trips if trip.p95_s is not None]
        typical[pair] = median(trip.median_s for trip in trips)
        low[pair] = min(typical[pair], median(trip.min_s for trip in trips))
        most = median(known) if known else max(trip.median_s for trip in trips)
        high[pair] = max(typical[pair], most)
    return Network(
        low=RoundTripTimes(other_s=min(low.values()), between=low),
        typical=RoundTripTimes(other_s=median(typical.values()), between=typical),
        high=RoundTripTimes(other_s=max(high.values()), between=high),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """Both systems: pools by subject as (baseline, candidate), and what is known of them.

    `networks` are the round trips of a subject's trials, None: not measured. `extents` are the
    bytes that a (subject, workload, level) touches. `base_known` and `candidate_known`: there is a
    Ceph inventory; `hosts_known`: there are inventories of the load generators. `given`: a user
    gave facts; what they leave out is unknown.
    """

    pools: Mapping[str, tuple[PoolFacts, PoolFacts]] = field(default_factory=dict)
    networks: Mapping[str, tuple[Network | None, Network | None]] = field(default_factory=dict)
    extents: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    base_known: bool = False
    candidate_known: bool = False
    hosts_known: bool = False
    given: bool = False

    @property
    def measured(self) -> bool:
        """Whether a round trip between zones was measured."""
        return any(any(pair) for pair in self.networks.values())

    def networks_of(self, target: str) -> tuple[Network | None, Network | None]:
        return self.networks.get(target, (None, None))

    @property
    def both_known(self) -> bool:
        """Whether there is an inventory of both systems."""
        return (self.base_known and self.candidate_known) or self.hosts_known


def read_policy(target: Target, around: KubernetesInventory | None = None) -> ReadFrom | None:
    """Return the copy that clients of a target read: by its StorageClass, else by its URL. None for
    a policy of a newer release."""
    if not target.url:
        return ReadFrom.PRIMARY
    if target.kind is TargetKind.STORAGE_CLASS and around is not None:
        near = reads_near(around, target.parsed.location)
        return ReadFrom.NEAREST if near else ReadFrom.PRIMARY
    try:
        return ReadFrom(target.parsed.options.get("read_policy", ReadFrom.PRIMARY.value))
    except ValueError:
        return None


# Of more objects the placement is that of the pool: two standard deviations of the share of local
# primaries, a third, are 1.5 %.
_MOST_OBJECTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageObjects:
    """The RADOS objects of an image: `count` with the prefix of its data objects."""

    prefix: str
    count: int

    def names(self) -> Iterator[str]:
        """Yield the objects' names (RBD_DATA_PREFIX and 16 hexadecimal digits, src/librbd)."""
        return (f"{self.prefix}.{number:016x}" for number in range(self.count))


def image_objects(layers: Sequence[Layer]) -> ImageObjects | None:
    """Return the objects of the image below a target; None without an image, for a large one, and
    for archives that do not name its objects."""
    facts = next((layer.facts for layer in layers if layer.kind is LayerKind.IMAGE), {})
    prefix = facts.get("block_name_prefix", "")
    sizes = [facts.get(key, "") for key in ("size_bytes", "object_size_bytes")]
    if (
        not prefix
        or facts.get("namespace")
        or not all(size.isascii() and size.isdecimal() for size in sizes)
    ):
        return None
    size, each = map(int, sizes)
    count = math.ceil(size / each) if each else 0
    return ImageObjects(prefix=prefix, count=count) if 0 < count <= _MOST_OBJECTS else None


def find_pool_facts(
    inventory: CephInventory | None,
    target: Target,
    *,
    around: KubernetesInventory | None = None,
    given: ClusterFacts | None = None,
    groups: Mapping[int, Sequence[PlacementGroup]] | None = None,
    client: Mapping[str, str] | None = None,
    image: ImageObjects | None = None,
) -> PoolFacts | None:
    """Return the placement of a target's pool; None if it is not known.

    Without an inventory of the pool: from the user's facts of target and cluster (`given`).
    `groups` are the placement groups by the id of the pool, `client` is the CRUSH location of the
    load generator by level. The placement groups count as often as they have objects of `image`.
    """
    reads = read_policy(target, around)
    known = target_facts(inventory, target, around)
    if reads is None or known.size is None:
        return None
    pool = find_pool(inventory, target, around)
    domain = known.failure_domain
    k, m = known.chunks or (0, 0)
    facts = PoolFacts(
        type=PoolType.ERASURE if known.chunks else PoolType.REPLICATED,
        size=known.size,
        zones=1,
        places=1,
        apart=False,
        k=k,
        m=m,
        failure_domain=domain,
        reads=reads,
    )
    if inventory is not None and pool is not None:
        facts = replace(
            facts,
            cephfs=pool.cephfs_role is not None,
            pgs=pool.pg_num,
            fast_erasure=pool.fast_erasure,
        )
        own = (groups or {}).get(pool.id, ())
        if image is not None and len(own) == pool.pg_num:
            counted = count_objects(image.names(), pool.pg_num)
            own = [group for group in own for _ in range(counted.get(int(group.number, 16), 0))]
            facts = replace(facts, objects=image.count)
        return _place(facts, inventory, pool, own, client or {})
    if given is None or given.zones is None or domain is None:
        return None
    # CRUSH has at least as many failure domains as copies.
    places, apart = (given.zones, domain in _WIDE) if given.zones > 1 else (known.size, True)
    return replace(facts, zones=given.zones, places=places, apart=apart)


def _place(
    facts: PoolFacts,
    inventory: CephInventory,
    pool: Pool,
    groups: Sequence[PlacementGroup],
    client: Mapping[str, str],
) -> PoolFacts:
    """Add the places of a pool: zones, else the failure domains in a single zone."""
    osds = serving_osds(inventory, [pool.name])
    domain = facts.failure_domain
    counts = {level: len({osd.at(level) for osd in osds} - {None}) for level in _WIDE}
    wide = next((level for level in _WIDE if counts[level] > 1), None)
    level = wide or domain
    if level is None:
        return facts
    shares: dict[str, float] = {}
    for osd in osds:
        place = osd.at(level)
        if place is not None:
            shares[place] = shares.get(place, 0.0) + (osd.weight or 0.0) * osd.reweight
    weighted = all(osd.weight for osd in osds) and all(shares.values())
    apart = True
    if wide is not None:
        apart = domain in _WIDE and _WIDE.index(domain) >= _WIDE.index(wide)
    return replace(
        facts,
        zones=counts[wide] if wide else 1,
        places=max(1, len(shares)),
        apart=apart,
        shares=tuple(sorted(shares.items())) if weighted else (),
        even=weighted and all(osd.primary_affinity == 1.0 for osd in osds),
        placement=_acting_sets(groups, level, inventory.osds, facts.k)
        if len(shares) <= _MOST_PLACES
        else (),
        client=client.get(level),
    )


def _acting_sets(
    groups: Sequence[PlacementGroup], level: str, osds: Iterable[Osd], data: int
) -> tuple[ActingSet, ...]:
    """Return the places of placement groups with `data` data shards, 0: with copies, whose primary
    comes first. Empty if an OSD has no place."""
    places = {osd.id: osd.at(level) for osd in osds}
    if any(places.get(osd) is None for group in groups for osd in group.acting if osd is not None):
        return ()
    found = []
    for group in groups:
        acting, primary = list(group.acting), group.acting.index(group.primary)
        if not data:
            acting.insert(0, acting.pop(primary))
            primary = 0
        members = tuple(None if osd is None else places[osd] for osd in acting)
        found.append(
            ActingSet(members=members, primary=primary, data=max(1, min(data, len(members))))
        )
    return merge_alike(found)
