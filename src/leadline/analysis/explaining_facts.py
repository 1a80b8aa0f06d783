"""What the arithmetic of an explanation needs to know of both systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from leadline.inventory.ceph import CephInventory, PoolType
from leadline.inventory.differences.clusters import serving

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
    osds = serving(inventory, [name])
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
