"""Pools and network of both systems, as far as they determine how far an I/O travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.inventory.ceph.model import CephInventory, Pool, PoolType
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.facts import find_pool, target_facts
from leadline.inventory.kubernetes.classes import reads_near
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.plan.facts import ClusterFacts
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

# CRUSH levels with a relevant network distance, the usual one first.
_WIDE = ("zone", "datacenter", "region")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """Both systems: pools by subject as (baseline, candidate), and what is known of them.

    Round trips between zones are in seconds, None: not measured. `base_known` and
    `candidate_known`: there is a Ceph inventory; `hosts_known`: there are inventories of the load
    generators. `given`: a user gave facts; what they leave out is unknown.
    """

    pools: Mapping[str, tuple[PoolFacts, PoolFacts]] = field(default_factory=dict)
    base_rtt_s: float | None = None
    candidate_rtt_s: float | None = None
    base_known: bool = False
    candidate_known: bool = False
    hosts_known: bool = False
    given: bool = False

    @property
    def measured(self) -> bool:
        """Whether a round trip between zones was measured."""
        return self.base_rtt_s is not None or self.candidate_rtt_s is not None

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


def find_pool_facts(
    inventory: CephInventory | None,
    target: Target,
    *,
    around: KubernetesInventory | None = None,
    given: ClusterFacts | None = None,
) -> PoolFacts | None:
    """Return the placement of a target's pool; None if it is not known.

    Without an inventory of the pool: from the user's facts of target and cluster (`given`)."""
    reads = read_policy(target, around)
    known = target_facts(inventory, target, around)
    if reads is None or known.size is None:
        return None
    pool = find_pool(inventory, target, around)
    domain = known.failure_domain
    if inventory is not None and pool is not None:
        zones, places, apart = _places(inventory, pool, domain)
    else:
        if given is None or given.zones is None or domain is None:
            return None
        zones = given.zones
        # CRUSH has at least as many failure domains as copies.
        places, apart = (zones, domain in _WIDE) if zones > 1 else (known.size, True)
    k, m = known.chunks or (0, 0)
    return PoolFacts(
        type=PoolType.ERASURE if known.chunks else PoolType.REPLICATED,
        size=known.size,
        zones=zones,
        places=places,
        apart=apart,
        k=k,
        m=m,
        failure_domain=domain,
        cephfs=pool is not None and pool.cephfs_role is not None,
        reads=reads,
    )


def _places(inventory: CephInventory, pool: Pool, domain: str | None) -> tuple[int, int, bool]:
    """Return `zones`, `places` and `apart` of a pool."""
    osds = serving_osds(inventory, [pool.name])
    counts = {level: len({osd.at(level) for osd in osds} - {None}) for level in _WIDE}
    level = next((level for level in _WIDE if counts[level] > 1), None)
    if level is not None:
        apart = domain in _WIDE and _WIDE.index(domain) >= _WIDE.index(level)
        return counts[level], counts[level], apart
    if domain is not None:
        return 1, max(1, len({osd.at(domain) for osd in osds} - {None})), True
    return 1, 1, False
