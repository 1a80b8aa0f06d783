"""What a target is, as far as it bears on where it saturates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leadline.analysis.explaining_facts import PoolFacts, facts_of
from leadline.analysis.message_counts import legs
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory
from leadline.inventory.target_pool import pool_of
from leadline.metrics import Op
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSystem:
    """What the target is, as far as it bears on where it saturates."""

    on_ceph: bool
    on_lab: bool
    pool: PoolFacts | None = None
    devices: frozenset[str] = field(default_factory=frozenset)
    rotational: bool | None = None

    @classmethod
    def of(cls, run: Run, target: Target) -> TargetSystem:
        clusters = {one.name: one for one in run.plan.clusters}
        cluster = clusters.get(target.cluster)
        inventory = _inventory(run, target)
        devices, rotational = _disks(run, target)
        return cls(
            on_ceph=inventory is not None or (target.kind is not None and target.kind.on_ceph),
            on_lab=cluster is not None and cluster.lab is not None,
            pool=_pool(inventory, target) if inventory else None,
            devices=devices,
            rotational=rotational,
        )


def _inventory(run: Run, target: Target) -> CephInventory | None:
    try:
        return run.cluster("start", target.cluster) if target.cluster else None
    except LeadlineError:
        return None  # the page's section on the cluster says so


def _pool(inventory: CephInventory, target: Target) -> PoolFacts | None:
    pool = pool_of(inventory, target.parsed) if target.url else None
    if pool is None:
        return None
    names = {target.name: (pool.name, pool.name)}
    policy = target.parsed.options.get("read_policy", "default")
    reads = {target.name: (policy, policy)}
    try:
        facts = facts_of(inventory, inventory, names, None, None, reads=reads)
    except ValueError:
        return None  # a policy that no release of ours knows
    return facts.pools[target.name][0] if target.name in facts.pools else None


def _disks(run: Run, target: Target) -> tuple[frozenset[str], bool | None]:
    """The whole disks that a target on the load generator stands on, and whether all turn (None:
    not known)."""
    host = run.inventory("start")
    if host is None or target.kind not in (TargetKind.DIR, TargetKind.DEVICE):
        return frozenset(), None
    known = {one.name: one for one in host.block_devices}
    mine = next((one for one in host.targets if one.target == target.name), None)
    source = "" if mine is None else mine.device or (mine.mount.source if mine.mount else "")
    name = source.rpartition("/")[2]
    for _ in known:
        if name in known and known[name].parent in known:
            name = known[name].parent
    if name not in known:
        return frozenset(), None
    # Guests are told that their disks turn, whatever they are.
    bare = host.virtualization == "none"
    return frozenset({name}), known[name].rotational if bare else None


def trips_of(pool: PoolFacts | None, by_op: Mapping[Op, float], *, measured: bool) -> float | None:
    """Round trips between zones that an I/O waits for on average over its operations; None where
    the way is not known. A single zone has a way only where its network was measured."""
    if pool is None:
        return None
    if pool.zones < 2 and not measured:
        return 0.0
    whole = sum(by_op.values())
    expected = [(rate, legs(op, pool).expected) for op, rate in by_op.items()]
    if not whole or any(one is None for _, one in expected):
        return None
    return sum(rate * (one or 0.0) for rate, one in expected) / whole
