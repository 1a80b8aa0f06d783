"""Whether a cluster is fit to be measured."""

from __future__ import annotations

from dataclasses import dataclass

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory, Health

# Checks that mean "writing more would do harm, or is refused already", at any severity.
_FULL = ("OSD_FULL", "POOL_FULL", "FULL", "MON_DISK_CRIT")
_NEARLY_FULL = ("OSD_NEARFULL", "POOL_NEARFULL", "OSD_BACKFILLFULL", "POOL_BACKFILLFULL")
_FULL_FLAGS = ("full", "pauserd", "pausewr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Why a cluster must not be measured: a fact, and what the cluster says in detail."""

    fact: str
    context: tuple[str, ...]
    hint: str

    def error(self) -> LeadlineError:
        """`cluster-unfit`, ready to be raised."""
        return LeadlineError(errors.CLUSTER_UNFIT, self.fact, context=self.context, hint=self.hint)


def unfit(inventory: CephInventory) -> Unfit | None:
    """None where the cluster may be measured; a warning, or being nearly full, is no hindrance."""
    full = [check for check in inventory.checks if check.code in _FULL]
    paused = [flag for flag in inventory.flags if flag in _FULL_FLAGS]
    pools = [pool.name for pool in inventory.pools if pool.full]
    if full or pools:
        context = [f"{check.code}: {check.message}" for check in full]
        context += [f"pool {name} is full" for name in pools]
        return Unfit(
            fact="the cluster is full",
            context=tuple(context),
            hint="free space or raise the quota; a full cluster refuses writes",
        )
    if paused:
        return Unfit(
            fact=f"the cluster has paused I/O: the flag {paused[0]} is set",
            context=(),
            hint="`ceph osd unpause` when the reason is gone",
        )
    if inventory.health is Health.ERR:
        grave = [check for check in inventory.checks if check.severity is Health.ERR]
        return Unfit(
            fact="the cluster is in HEALTH_ERR",
            context=tuple(f"{check.code}: {check.message}" for check in grave),
            hint="`ceph health detail` says more; measure when it is healthy again",
        )
    return None


def notes(inventory: CephInventory) -> tuple[str, ...]:
    """What may bend a measurement without forbidding it, each as a sentence without full stop."""
    found = [
        f"{check.code}: {check.message}" + (" (muted)" if check.muted else "")
        for check in inventory.checks
        if check.severity is not Health.OK
    ]
    found += [f"pool {pool.name} is nearly full" for pool in inventory.pools if pool.near_full]
    capacity = inventory.capacity
    used = capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else 0.0
    told = any(check.code in _NEARLY_FULL for check in inventory.checks)
    if used >= capacity.near_full_ratio and not told:
        found.append(f"{used:.0%} of the capacity is used")
    found += _goings_on(inventory)
    held = [flag for flag in inventory.flags if flag.startswith("no") and flag in _HOLDING]
    if held:
        found.append(f"flags hold back what the cluster does by itself: {', '.join(held)}")
    if inventory.mixed_versions:
        versions = sorted({one.version for one in inventory.versions or ()})
        found.append(f"daemons run different versions: {', '.join(versions)}")
    return tuple(found)


_HOLDING = {
    "noout", "noin", "noup", "nodown", "nobackfill", "norebalance", "norecover", "noscrub",
    "nodeep-scrub", "nosnaptrim",
}  # fmt: skip


def _goings_on(inventory: CephInventory) -> list[str]:
    activity = inventory.activity
    counts = (
        ("recovering", activity.recovering_pgs),
        ("backfilling", activity.backfilling_pgs),
        ("being scrubbed", activity.scrubbing_pgs),
        ("being deep-scrubbed", activity.deep_scrubbing_pgs),
    )
    return [f"{count} placement groups are {what}" for what, count in counts if count]
