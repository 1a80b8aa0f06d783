"""What a target promises besides speed: failures survived, raw space, access, encryption.

All of it from the inventory of the run's clusters; what that does not tell is unknown, never
assumed. None is "not known" throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.analysis.use_cases import Access
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory, Crypt, Pool
from leadline.inventory.models import HostInventory
from leadline.inventory.target_pool import pool_of
from leadline.plan.models import Target
from leadline.plan.target_url import TargetKind

# CRUSH's levels as Ceph makes them, the smallest first.
LEVELS = (
    "osd", "host", "chassis", "rack", "row", "pdu", "pod", "room", "datacenter", "zone", "region",
)  # fmt: skip
_SHARED_FILESYSTEMS = ("ceph", "fuse.ceph", "fuse.ceph-fuse", "nfs", "nfs4", "cifs", "smb3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """`copies` of a replicated pool, `data` and `coding` chunks of an erasure-coded one (k, m).
    `domain` is the CRUSH level that copies or chunks do not share. `losses` counts the domains that
    may be lost with no data lost, `writable` those with which I/O goes on. `overhead` is raw bytes
    per stored byte. `at_rest`: True where every OSD of the pool encrypts."""

    pool: str = ""
    copies: int | None = None
    data: int | None = None
    coding: int | None = None
    domain: str | None = None
    losses: int | None = None
    writable: int | None = None
    overhead: float | None = None
    at_rest: bool | None = None
    access: tuple[Access, ...] | None = None

    @property
    def known(self) -> bool:
        return self.losses is not None

    def survives(self, level: str) -> bool | None:
        """Whether no data is lost with any one bucket of a level."""
        if self.losses is None:
            return None
        if self.losses == 0:
            return False
        if self.domain not in LEVELS:
            return None
        return LEVELS.index(self.domain) >= LEVELS.index(level)


def protections(run: Run) -> Mapping[str, Protection]:
    """By target, for every target of the plan."""
    clusters: dict[str, CephInventory] = {}
    for cluster in run.plan.clusters:
        try:
            inventory = run.cluster("start", cluster.name)
        except LeadlineError:
            continue  # dumps that cannot be understood are told where they are shown
        if inventory is not None:
            clusters[cluster.name] = inventory
    host = run.inventory("start")
    return {
        target.name: _protection(target, clusters.get(target.cluster), host)
        for target in run.plan.targets
    }


def _protection(
    target: Target, inventory: CephInventory | None, host: HostInventory | None
) -> Protection:
    access = _access(target, host)
    pool = pool_of(inventory, target.parsed) if inventory and target.url else None
    if pool is None or inventory is None:
        return Protection(access=access)
    code = pool.erasure
    losses = code.m if code else pool.size - 1
    return Protection(
        pool=pool.name,
        copies=None if code else pool.size,
        data=code.k if code else None,
        coding=code.m if code else None,
        domain=pool.rule.failure_domain if pool.rule else None,
        losses=losses,
        writable=max(0, min(losses, pool.size - pool.min_size)),
        overhead=pool.raw_rate,
        at_rest=_at_rest(pool, inventory),
        access=access,
    )


def _access(target: Target, host: HostInventory | None) -> tuple[Access, ...] | None:
    if not target.url:
        return None
    both = (Access.RWO, Access.RWX)
    kind = target.parsed.kind
    if kind is TargetKind.CEPHFS:
        return both
    if kind is TargetKind.RADOS:
        return ()
    if kind is TargetKind.HOSTS:
        return None  # what stores it is behind the hosts
    if kind is TargetKind.DIR:
        mounts = [one.mount for one in host.targets if one.target == target.name] if host else []
        filesystem = mounts[0].filesystem if mounts and mounts[0] else None
        if filesystem is None:
            return None
        return both if filesystem in _SHARED_FILESYSTEMS else (Access.RWO,)
    return (Access.RWO,)


def _at_rest(pool: Pool, inventory: CephInventory) -> bool | None:
    """None as soon as one OSD that may hold a part of the pool does not tell."""
    rule = pool.rule
    osds = [
        osd
        for osd in inventory.osds
        if osd.is_in
        and (rule is None or rule.device_class in (None, osd.device_class))
        and (
            rule is None or rule.root is None or any(one.name == rule.root for one in osd.location)
        )
    ]
    return True if osds and all(osd.dm_crypt is Crypt.YES for osd in osds) else None
