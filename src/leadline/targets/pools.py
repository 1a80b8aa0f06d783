"""Pools as targets look at them: there, with an application, writable in place, with room."""

from __future__ import annotations

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph import Pool, PoolType
from leadline.plan.footprint import Footprint
from leadline.targets.cluster import OpenCluster
from leadline.units import format_size

KEEP_FREE_SHARE = 0.10


def find_pool(cluster: OpenCluster, name: str, where: list[str]) -> Pool:
    """Raises LeadlineError(`pool-missing`) with the pools that there are."""
    inventory = cluster.inventory()
    pool = inventory.pool(name)
    if pool is None:
        known = ", ".join(one.name for one in inventory.pools)
        raise LeadlineError(
            errors.POOL_MISSING,
            f"the cluster {cluster.name!r} has no pool {name!r}",
            context=[*where, f"its pools: {known or 'none'}"],
            hint="`leadline inventory` shows the pools of a cluster",
        )
    return pool


def require_application(pool: Pool, application: str, where: list[str]) -> None:
    """Raises LeadlineError(`pool-unsuitable`) for a pool that is meant for something else, or for
    nothing: Ceph warns of I/O to it."""
    if application in pool.applications or (pool.applications and application == "rados"):
        return
    meant = f"is for {', '.join(pool.applications)}" if pool.applications else "has no application"
    raise LeadlineError(
        errors.POOL_UNSUITABLE,
        f"the pool {pool.name!r} {meant}",
        context=where,
        hint="if that is what the pool is for: "
        f"`ceph osd pool application enable {pool.name} {application}`",
    )


def require_overwrites(pool: Pool, where: list[str]) -> None:
    """Raises LeadlineError(`pool-unsuitable`) for erasure coding that can only be appended to."""
    if pool.type is PoolType.ERASURE and not pool.overwrites:
        raise LeadlineError(
            errors.POOL_UNSUITABLE,
            f"the erasure-coded pool {pool.name!r} does not take overwrites",
            context=where,
            hint=f"`ceph osd pool set {pool.name} allow_ec_overwrites true` (BlueStore only)",
        )


def require_room(
    cluster: OpenCluster, pool: str, footprint: Footprint, claimed_bytes: int, where: list[str]
) -> None:
    """Raises LeadlineError(`target-no-space`). What other targets of the plan claim counts as if
    it went into this pool: near enough, since all draw on the same OSDs."""
    free = cluster.free_bytes(pool)
    needed = footprint.span + claimed_bytes
    if needed > free * (1 - KEEP_FREE_SHARE):
        others = f", {format_size(claimed_bytes)} of it for other targets" if claimed_bytes else ""
        raise LeadlineError(
            errors.TARGET_NO_SPACE,
            f"the pool {pool!r} takes {format_size(free)} more; the plan needs "
            f"{format_size(needed)}{others}, and leaves 10 %",
            context=where,
            hint="make the plan smaller with --size, or make room",
        )
