"""Facts about a target's storage and a cluster, from the inventory or from the user.

Every analysis reads pools here. What an inventory reports comes first; facts that a user gave with
imported results (`plan.facts`) are the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from leadline.inventory.ceph.model import (
    CephfsRole,
    CephInventory,
    Crypt,
    Filesystem,
    Pool,
)
from leadline.inventory.diff.ceph import serving_osds
from leadline.inventory.kubernetes.classes import pool_of_class
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.plan.facts import Access, ClusterFacts, TargetFacts
from leadline.plan.models import Cluster, Target
from leadline.plan.target_url import TargetKind, TargetUrl
from leadline.text import listed


def find_pool(
    inventory: CephInventory | None, target: Target, around: KubernetesInventory | None = None
) -> Pool | None:
    """Return the pool that holds a target's data.

    An imported target without a URL is the pool that its facts name, else the one of its own name.
    None: unknown for a path in a cluster with several file systems, for a StorageClass without the
    Kubernetes inventory `around` it, or not in the inventory.
    """
    if inventory is None:
        return None
    if target.facts is not None and target.facts.pool is not None:
        return inventory.pool(target.facts.pool)
    if not target.url:
        return inventory.pool(target.name)
    if target.kind is TargetKind.STORAGE_CLASS:
        name = pool_of_class(around, target.parsed.location) if around else None
        return inventory.pool(name) if name else None
    return _pool_of_url(inventory, target.parsed)


def _pool_of_url(inventory: CephInventory, url: TargetUrl) -> Pool | None:
    if url.kind.on_kubernetes:
        return None
    if url.kind is not TargetKind.CEPHFS:
        return inventory.pool(url.options.get("data_pool", url.pool))
    pools = [pool for filesystem in inventory.filesystems or () for pool in filesystem.data_pools]
    if not url.location.startswith("/") and url.pool in pools:
        # A lab has a folder of the same name for each data pool.
        return inventory.pool(url.pool)
    return inventory.pool(pools[0]) if len(pools) == 1 else None


def find_filesystem(
    inventory: CephInventory | None, target: Target, around: KubernetesInventory | None = None
) -> Filesystem | None:
    """Return the CephFS whose data pool holds a target's files; None for another target, and where
    `find_pool` does not know the pool."""
    pool = find_pool(inventory, target, around)
    known = (inventory.filesystems if inventory is not None else None) or ()
    return next((one for one in known if pool is not None and pool.name in one.data_pools), None)


def target_facts(
    inventory: CephInventory | None, target: Target, around: KubernetesInventory | None = None
) -> TargetFacts:
    """Return what the inventory reports about a target's pool, and for the rest what the user gave;
    the import has refused facts that contradict the inventory."""
    given = target.facts or TargetFacts()
    pool = find_pool(inventory, target, around)
    if inventory is None or pool is None:
        return given
    return given.overridden(_pool_facts(inventory, pool, named=bool(target.url)))


def _pool_facts(inventory: CephInventory, pool: Pool, *, named: bool) -> TargetFacts:
    """`named`: the target's URL says how it is accessed."""
    code, rule = pool.erasure, pool.rule
    osds = [osd for osd in serving_osds(inventory, [pool.name]) if osd.is_in]
    access: tuple[Access, ...] | None = None
    if not named and pool.cephfs_role is CephfsRole.DATA:
        access = (Access.RWO, Access.RWX)
    elif not named and "rbd" in pool.applications:
        access = (Access.RWO,)
    classes = {osd.device_class for osd in osds}
    return TargetFacts.model_construct(
        pool=pool.name,
        copies=None if code else pool.size,
        erasure_code=f"{code.k}+{code.m}" if code else None,
        min_size=pool.min_size,
        failure_domain=rule.failure_domain if rule else None,
        # The OSDs that may hold a part of the pool: unknown encryption of one of them is unknown.
        encrypted=True if osds and all(osd.dm_crypt is Crypt.YES for osd in osds) else None,
        access=access,
        media=classes.pop() if len(classes) == 1 else None,
        raw_per_stored=pool.raw_rate,
    )


def cluster_facts(inventory: CephInventory | None, given: ClusterFacts | None) -> ClusterFacts:
    """Return what the inventory reports about a cluster, and for the rest what the user gave."""
    facts = {key: getattr(given, key) for key in ClusterFacts.model_fields} if given else {}
    if inventory is not None:
        zones = len(inventory.buckets("zone"))
        counted = {"nodes": len(inventory.buckets("host")), "zones": zones}
        counted["osds"] = len(inventory.osds)
        facts |= {key: count for key, count in counted.items() if count}
    return ClusterFacts.model_construct(**facts)


# What an inventory reports exactly; media have several names.
_EXACT = ("redundancy", "min_size", "failure_domain", "encrypted", "raw_per_stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """A fact of the user that an inventory contradicts; `reason` has both values. `target` is empty
    for a fact of the cluster."""

    target: str
    key: str
    reason: str


def contradictions(
    inventory: CephInventory, cluster: Cluster, targets: Iterable[Target]
) -> Iterator[Contradiction]:
    """Yield the facts of the user that the inventory contradicts."""
    found = cluster_facts(inventory, None)
    for key, value in (cluster.facts.known if cluster.facts else {}).items():
        reported = getattr(found, key, None)
        if reported not in (None, value):
            yield Contradiction(target="", key=key, reason=_against(value, reported))
    for target in targets:
        given = target.facts
        if given is None:
            continue
        pool = find_pool(inventory, target)
        if pool is None:
            if given.pool is not None:
                pools = listed([one.name for one in inventory.pools], 20)
                reason = f"the inventory has no pool {given.pool!r}; its pools: {pools}"
                yield Contradiction(target=target.name, key="pool", reason=reason)
            continue
        reported_facts = _pool_facts(inventory, pool, named=bool(target.url))
        for key in _EXACT:
            value, reported = getattr(given, key), getattr(reported_facts, key)
            if value is not None and reported is not None and not _agree(value, reported):
                reason = _against(value, reported, pool.name)
                coded = "erasure_code" if given.erasure_code else "copies"
                written = coded if key == "redundancy" else key
                yield Contradiction(target=target.name, key=written, reason=reason)


def _agree(given: object, reported: object) -> bool:
    if isinstance(given, float) and isinstance(reported, float):
        return math.isclose(given, reported, rel_tol=0.01)
    return given == reported


def _against(given: object, reported: object, pool: str = "") -> str:
    of_pool = f" of the pool {pool}" if pool else ""
    return f"given is {given}, and the inventory{of_pool} reports {reported}"
