"""Pools and network of both systems, as far as they determine how far an I/O travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.inventory.ceph.model import CephInventory, PoolType
from leadline.inventory.diff.ceph import serving_osds

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
    generators.
    """

    pools: Mapping[str, tuple[PoolFacts, PoolFacts]] = field(default_factory=dict)
    base_rtt_s: float | None = None
    candidate_rtt_s: float | None = None
    base_known: bool = False
    candidate_known: bool = False
    hosts_known: bool = False

    @property
    def measured(self) -> bool:
        """Whether a round trip between zones was measured."""
        return self.base_rtt_s is not None or self.candidate_rtt_s is not None

    @property
    def both_known(self) -> bool:
        """Whether there is an inventory of both systems."""
        return (self.base_known and self.candidate_known) or self.hosts_known


def collect_facts(
    base: CephInventory | None,
    candidate: CephInventory | None,
    pools: Mapping[str, tuple[str, str]],
    base_rtt_s: float | None,
    candidate_rtt_s: float | None,
    *,
    reads: Mapping[str, tuple[str, str]] | None = None,
    hosts_known: bool = False,
) -> SystemFacts:
    """Collect facts from inventories (None: unknown) and measured round trips in seconds.

    `pools` maps each subject to the names of its pools (baseline, candidate), `reads` to the read
    policies of its targets (`default`, `balance`, `localize`).
    """
    found = {}
    for subject, names in pools.items():
        policies = (reads or {}).get(subject, ("default", "default"))
        pair = [
            find_pool_facts(inventory, name, ReadFrom(policy)) if inventory else None
            for inventory, name, policy in zip((base, candidate), names, policies, strict=True)
        ]
        if pair[0] is not None and pair[1] is not None:
            found[subject] = (pair[0], pair[1])
    return SystemFacts(
        pools=found,
        base_rtt_s=base_rtt_s,
        candidate_rtt_s=candidate_rtt_s,
        base_known=base is not None,
        candidate_known=candidate is not None,
        hosts_known=hosts_known,
    )


def find_pool_facts(inventory: CephInventory, name: str, reads: ReadFrom) -> PoolFacts | None:
    """Return the placement of a pool; None if the cluster has no such pool."""
    pool = inventory.pool(name)
    if pool is None:
        return None
    osds = serving_osds(inventory, [name])
    counts = {level: len({osd.at(level) for osd in osds} - {None}) for level in _WIDE}
    level = next((level for level in _WIDE if counts[level] > 1), None)
    domain = pool.rule.failure_domain if pool.rule else None
    places = counts[level] if level else 1
    apart = level is not None and domain in _WIDE and _WIDE.index(domain) >= _WIDE.index(level)
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
    )
