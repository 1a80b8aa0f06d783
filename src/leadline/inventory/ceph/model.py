"""The inventory of a Ceph cluster, built from its dumps (`reading.cluster_inventory`).

Sizes in bytes, shares between 0 and 1. None: unknown, often because a dump was not captured
(`not_captured`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.host import Snapshot


class Health(StrEnum):
    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"


class HealthCheck(Snapshot):
    """A health check. `muted` checks do not affect the status."""

    code: str
    severity: Health
    message: str
    detail: tuple[str, ...] = ()
    muted: bool = False


class DaemonVersion(Snapshot):
    """Daemons of one kind and version: the number (`16.2.15`) and the name (`pacific`)."""

    kind: str
    version: str
    release: str
    daemons: int


class Monitors(Snapshot):
    """The monitors. `v1`: at least one also uses the old messenger, which never encrypts."""

    names: tuple[str, ...]
    in_quorum: tuple[str, ...]
    leader: str | None
    v1: bool | None


class Managers(Snapshot):
    available: bool
    active: str | None
    standbys: tuple[str, ...] | None
    modules: tuple[str, ...] | None


class MdsRank(Snapshot):
    """An active MDS; `state` is Ceph's, such as `up:active`."""

    rank: int
    name: str
    state: str


class Filesystem(Snapshot):
    """A CephFS with its pools by name. Standbys belong to all file systems."""

    name: str
    metadata_pool: str
    data_pools: tuple[str, ...]
    max_mds: int
    ranks: tuple[MdsRank, ...]
    failed_ranks: tuple[int, ...]
    standby_replay: int
    standbys_wanted: int

    @property
    def most_ranks(self) -> int:
        """The active MDS, with those that may still start: `max_mds` where it is higher."""
        return max(len(self.ranks), self.max_mds)


class Place(Snapshot):
    """A bucket of the CRUSH tree: its level and its name."""

    level: str
    name: str


class Crypt(StrEnum):
    """Whether data is encrypted at rest, by the cluster's own knowledge."""

    YES = "yes"
    UNKNOWN = "unknown"


class Osd(Snapshot):
    """An OSD. `location` is from the root down, without the OSD.

    `weight` is CRUSH's (usually TiB), `reweight` the override from 0 to 1. `dm_crypt` is known only
    if the monitors keep the key or the device's name shows it; Rook keeps keys elsewhere.
    """

    id: int
    uuid: str
    device_class: str | None
    weight: float | None
    reweight: float
    primary_affinity: float
    up: bool
    is_in: bool
    location: tuple[Place, ...]
    host: str | None
    pgs: int | None
    size_bytes: int | None
    used_bytes: int | None
    utilisation: float | None
    rotational: bool | None
    store: str | None
    dm_crypt: Crypt

    def at(self, level: str) -> str | None:
        """Return the name of the OSD's bucket of a level."""
        return next((place.name for place in self.location if place.level == level), None)


class Spread(Snapshot):
    """Placement groups per OSD that is in; `deviation` is the population standard deviation."""

    lowest: int
    highest: int
    mean: float
    deviation: float


class PoolType(StrEnum):
    REPLICATED = "replicated"
    ERASURE = "erasure"


class CephfsRole(StrEnum):
    METADATA = "metadata"
    DATA = "data"


class ErasureCode(Snapshot):
    """A pool's profile: `k` data and `m` coding chunks."""

    profile: str
    k: int
    m: int
    plugin: str


class CrushRule(Snapshot):
    """A rule: copies in different buckets of `failure_domain`, below `root`, on OSDs of
    `device_class` (None: any). Other rules have None."""

    id: int
    name: str
    root: str | None
    device_class: str | None
    failure_domain: str | None
    takes: int


class Pool(Snapshot):
    """A pool. `pg_num` is the current number, `pg_num_target` the target of a change.

    `size` is k + m of erasure-coded pools; `fast_erasure`: they read and write only the chunks that
    they need (`allow_ec_optimizations`, since Tentacle). `stored_bytes` are the clients' bytes,
    `used_bytes` those on OSDs. A `target_ratio` or `target_bytes` of 0 is unset.
    """

    id: int
    name: str
    type: PoolType
    size: int
    min_size: int
    rule: CrushRule | None
    rule_id: int
    pg_num: int
    pgp_num: int
    pg_num_target: int
    autoscale_mode: Mode | None
    target_ratio: float
    target_bytes: int
    pg_num_min: int | None
    pg_num_max: int | None
    bias: float
    bulk: bool
    erasure: ErasureCode | None
    overwrites: bool
    fast_erasure: bool = False
    compression: str
    applications: tuple[str, ...]
    cephfs_role: CephfsRole | None
    filesystem: str | None
    stored_bytes: int | None
    used_bytes: int | None
    objects: int | None
    full: bool
    near_full: bool
    quota_bytes: int

    @property
    def raw_rate(self) -> float:
        """Raw bytes per stored byte: the size, or (k + m) / k."""
        if self.erasure is None:
            return float(self.size)
        return (self.erasure.k + self.erasure.m) / self.erasure.k


class PgState(Snapshot):
    state: str
    count: int


class Activity(Snapshot):
    """Background work and client load: placement groups, objects, bytes per second."""

    recovering_pgs: int
    backfilling_pgs: int
    scrubbing_pgs: int
    deep_scrubbing_pgs: int
    degraded_objects: int
    misplaced_objects: int
    unfound_objects: int
    recovery_bytes_per_s: float
    client_read_bytes_per_s: float
    client_write_bytes_per_s: float
    client_read_iops: float
    client_write_iops: float


class Capacity(Snapshot):
    """Raw bytes of all OSDs, and the ratios of a nearly full, backfill-full and full OSD."""

    total_bytes: int
    used_bytes: int
    available_bytes: int
    near_full_ratio: float
    backfill_full_ratio: float
    full_ratio: float


class CrushLevel(Snapshot):
    """A level, and its number of buckets with OSDs."""

    level: str
    count: int


class CrushRoot(Snapshot):
    """The levels from the root to the OSDs."""

    name: str
    levels: tuple[CrushLevel, ...]


class Wire(StrEnum):
    """The meaning of a messenger mode. The first mode of a list is preferred; the peer may require
    another."""

    SECURE = "secure"
    CRC = "crc"
    SECURE_PREFERRED = "secure preferred"
    CRC_PREFERRED = "crc preferred"
    UNKNOWN = "unknown"


class WireMode(Snapshot):
    """The mode of one kind of connection.

    `wire` is that of a running daemon (`told_by`), otherwise unknown: configuration files override
    the database's value `configured`.
    """

    option: str
    wire: Wire
    configured: str | None
    told_by: str | None


class Encryption(Snapshot):
    """On the wire between daemons, from clients to daemons, from clients; at rest."""

    between_daemons: WireMode
    to_daemons: WireMode
    of_clients: WireMode
    osds_with_dm_crypt: int
    osds_unknown: int


class Setting(Snapshot):
    """A non-default setting of the daemons in `section`, narrowed by `mask`."""

    section: str
    name: str
    value: str
    mask: str = ""


class FileSetting(Snapshot):
    """A setting of a running daemon that is not from the database."""

    daemon: str
    name: str
    value: str
    source: str


class AutoscaleWord(Snapshot):
    """The autoscaler's own numbers of a pool; `ideal` before rounding, `final` after."""

    pool_id: int
    pool: str
    ideal: int
    final: int
    would_adjust: bool
    capacity_bytes: int
    raw_used_bytes: float


class AutoscalerSettings(Snapshot):
    """The autoscaler's settings. `target_told_by` None: the target is assumed, Ceph's default."""

    target_pg_per_osd: int
    target_told_by: str | None
    threshold: float
    no_autoscale: bool


class NotCaptured(Snapshot):
    """A missing dump, and what is unknown without it."""

    dump: str
    purpose: str


class CephInventory(Snapshot):
    """A cluster at one time. `created` is the day of its creation, such as `2026-11-21`,
    `osd_down` the day on which an OSD was last marked down (None: never, or unknown).
    `quorum_age_s`: how long the quorum of the monitors has been as it is."""

    fsid: str
    created: str | None = None
    osd_down: str | None = None
    quorum_age_s: int | None = None
    release: str | None
    version: str | None
    versions: tuple[DaemonVersion, ...] | None
    health: Health
    checks: tuple[HealthCheck, ...]
    monitors: Monitors
    managers: Managers
    filesystems: tuple[Filesystem, ...] | None
    mds_standbys: tuple[str, ...] | None
    osds: tuple[Osd, ...]
    pgs_per_osd: Spread | None
    pools: tuple[Pool, ...]
    pg_states: tuple[PgState, ...]
    activity: Activity
    flags: tuple[str, ...]
    capacity: Capacity
    crush: tuple[CrushRoot, ...]
    encryption: Encryption
    configuration: tuple[Setting, ...] | None
    file_settings: tuple[FileSetting, ...] | None
    autoscaler: AutoscalerSettings
    autoscale_words: tuple[AutoscaleWord, ...] | None
    balancer: str | None
    not_captured: tuple[NotCaptured, ...]

    @property
    def mixed_versions(self) -> bool:
        return len({daemons.version for daemons in self.versions or ()}) > 1

    @property
    def version_number(self) -> tuple[int, ...]:
        """The version as numbers, such as (16, 2, 15); empty: unknown."""
        parts = (self.version or "").split(".")
        return tuple(int(part) for part in parts if part.isdecimal())

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def buckets(self, level: str) -> tuple[str, ...]:
        """Return the names of the buckets of a level with OSDs."""
        return tuple(sorted({name for osd in self.osds if (name := osd.at(level))}))


# Fitness of a cluster for a measurement.

# Checks of a full cluster, whatever their severity.
_FULL = ("OSD_FULL", "POOL_FULL", "FULL", "MON_DISK_CRIT")
_NEARLY_FULL = ("OSD_NEARFULL", "POOL_NEARFULL", "OSD_BACKFILLFULL", "POOL_BACKFILLFULL")
_FULL_FLAGS = ("full", "pauserd", "pausewr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Why a cluster must not be measured: a fact, and the cluster's details."""

    fact: str
    context: tuple[str, ...]
    hint: str

    def error(self) -> LeadlineError:
        """Return the error `cluster-unfit`."""
        return LeadlineError(errors.CLUSTER_UNFIT, self.fact, context=self.context, hint=self.hint)


def unfit(inventory: CephInventory) -> Unfit | None:
    """Return None if the cluster may be measured, also with warnings or nearly full."""
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
            hint="run `ceph osd unpause` after the reason is removed",
        )
    if inventory.health is Health.ERR:
        grave = [check for check in inventory.checks if check.severity is Health.ERR]
        return Unfit(
            fact="the cluster is in HEALTH_ERR",
            context=tuple(f"{check.code}: {check.message}" for check in grave),
            hint="see `ceph health detail`; measure when the cluster is healthy",
        )
    return None


# With these flags misplaced data does not move.
_UNMOVED_FLAGS = ("nobackfill", "norebalance", "norecover")


def unfit_without(inventory: CephInventory, host: str) -> Unfit | None:
    """Return None if the other hosts can hold all data of a host of CRUSH: enough failure domains
    for all copies, and space below the ratio of a nearly full OSD."""
    usable = [osd for osd in inventory.osds if osd.is_in and osd.up and osd.weight]
    leaving = [osd for osd in usable if osd.at("host") == host]
    if not leaving:
        return Unfit(
            fact=f"the cluster has no host {host!r} with OSDs that are up and in",
            context=(f"its hosts: {', '.join(inventory.buckets('host')) or 'none'}",),
            hint="name a host as `ceph osd tree` does",
        )
    flags = [flag for flag in inventory.flags if flag in _UNMOVED_FLAGS]
    if flags:
        return Unfit(
            fact=f"no data moves in the cluster: the flag {flags[0]} is set",
            context=(),
            hint=f"`ceph osd unset {flags[0]}`",
        )
    staying = [osd for osd in usable if osd not in leaving]
    taking = staying
    for pool in inventory.pools:
        rule = pool.rule
        if rule is None or rule.root is None or rule.failure_domain is None:
            return Unfit(
                fact=f"the failure domain of the pool {pool.name!r} is unknown",
                context=(f"rule: {rule.name if rule is not None else pool.rule_id}",),
                hint="add another host by a command of the drill",
            )
        if not any(_is_used(osd, rule) for osd in leaving):
            continue
        rest = [osd for osd in staying if _is_used(osd, rule)]
        level = rule.failure_domain
        domains = {_domain(osd, level) for osd in rest}
        if len(domains) < pool.size:
            return Unfit(
                fact=f"the pool {pool.name!r} needs {pool.size} failure domains ({level}), and "
                f"without the host {host!r} there are {len(domains)}",
                context=(),
                hint="name a host whose failure domain has others, or use a larger cluster",
            )
        if len(domains) == pool.size:  # each domain keeps its copy
            own = {_domain(osd, level) for osd in leaving}
            rest = [osd for osd in rest if _domain(osd, level) in own] or rest
        if _weight(rest) < _weight(taking):
            taking = rest
    return _unfit_space(inventory.capacity.near_full_ratio, host, leaving, taking)


def _unfit_space(
    ratio: float, host: str, leaving: Sequence[Osd], taking: Sequence[Osd]
) -> Unfit | None:
    """Return None if the used bytes of some OSDs fit on others, by their CRUSH weights."""
    if any(osd.used_bytes is None or not osd.size_bytes for osd in (*leaving, *taking)):
        return Unfit(
            fact="the used space of the OSDs is unknown",
            context=("the manager does not answer `ceph osd df`",),
            hint="see `ceph mgr stat`",
        )
    moved = sum(osd.used_bytes or 0 for osd in leaving)
    fills = {
        osd.id: ((osd.used_bytes or 0) + moved * (osd.weight or 0.0) / _weight(taking))
        / (osd.size_bytes or 1)
        for osd in taking
    }
    fullest = max(fills, key=lambda osd: fills[osd])
    if fills[fullest] < ratio:
        return None
    return Unfit(
        fact=f"the other OSDs cannot hold the data of the host {host!r}",
        context=(f"osd.{fullest} would be {fills[fullest]:.0%} full; {ratio:.0%} is nearly full",),
        hint="free space, or name a host with less data",
    )


def _is_used(osd: Osd, rule: CrushRule) -> bool:
    """Return whether a rule may choose an OSD."""
    below = any(place.name == rule.root for place in osd.location)
    return below and rule.device_class in (None, osd.device_class)


def _domain(osd: Osd, level: str) -> str | None:
    return str(osd.id) if level == "osd" else osd.at(level)


def _weight(osds: Iterable[Osd]) -> float:
    return sum(osd.weight or 0.0 for osd in osds)


def notes(inventory: CephInventory) -> tuple[str, ...]:
    """Return clauses on what may affect a measurement."""
    found = [
        f"{check.code}: {check.message}" + (" (muted)" if check.muted else "")
        for check in inventory.checks
        if check.severity is not Health.OK
    ]
    found += [f"pool {pool.name} is nearly full" for pool in inventory.pools if pool.near_full]
    capacity = inventory.capacity
    used = capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else 0.0
    reported = any(check.code in _NEARLY_FULL for check in inventory.checks)
    if used >= capacity.near_full_ratio and not reported:
        found.append(f"{used:.0%} of the capacity is used")
    found += _background_work(inventory)
    held = [flag for flag in inventory.flags if flag.startswith("no") and flag in _HOLDING]
    if held:
        found.append(f"flags stop the cluster's own work: {', '.join(held)}")
    if inventory.mixed_versions:
        versions = sorted({daemons.version for daemons in inventory.versions or ()})
        found.append(f"daemons run different versions: {', '.join(versions)}")
    return tuple(found)


_HOLDING = {
    "noout", "noin", "noup", "nodown", "nobackfill", "norebalance", "norecover", "noscrub",
    "nodeep-scrub", "nosnaptrim",
}  # fmt: skip


def _background_work(inventory: CephInventory) -> list[str]:
    activity = inventory.activity
    counts = (
        ("recovering", activity.recovering_pgs),
        ("backfilling", activity.backfilling_pgs),
        ("being scrubbed", activity.scrubbing_pgs),
        ("being deep-scrubbed", activity.deep_scrubbing_pgs),
    )
    return [f"{count} placement groups are {what}" for what, count in counts if count]
