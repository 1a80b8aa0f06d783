"""What a Ceph cluster is: a model built from its dumps alone (`ceph_reading.cluster_inventory`).

Sizes in bytes, shares between 0 and 1. None means that the dump which would tell was not captured
or does not tell; `not_captured` names the dumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.autoscaler import Mode
from leadline.inventory.host import Snapshot
from leadline.plan.target_url import TargetKind, TargetUrl


class Health(StrEnum):
    OK = "HEALTH_OK"
    WARN = "HEALTH_WARN"
    ERR = "HEALTH_ERR"


class HealthCheck(Snapshot):
    """`muted` checks do not count towards the status."""

    code: str
    severity: Health
    message: str
    detail: tuple[str, ...] = ()
    muted: bool = False


class DaemonVersion(Snapshot):
    """`version` is the number (`16.2.15`), `release` the name (`pacific`)."""

    kind: str
    version: str
    release: str
    daemons: int


class Monitors(Snapshot):
    """`v1`: some monitor also listens with the old messenger, which never encrypts."""

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
    """One MDS at work; `state` is Ceph's, such as `up:active`."""

    rank: int
    name: str
    state: str


class Filesystem(Snapshot):
    """Pools by name. `standbys_wanted` as configured; standbys belong to all filesystems."""

    name: str
    metadata_pool: str
    data_pools: tuple[str, ...]
    max_mds: int
    ranks: tuple[MdsRank, ...]
    failed_ranks: tuple[int, ...]
    standby_replay: int
    standbys_wanted: int


class Place(Snapshot):
    """A bucket of the CRUSH tree: its level and its name."""

    level: str
    name: str


class Crypt(StrEnum):
    """Whether data is encrypted on the medium, as far as the cluster itself knows."""

    YES = "yes"
    UNKNOWN = "unknown"


class Osd(Snapshot):
    """`location` from the root down, without the OSD. `weight` is CRUSH's (TiB by custom),
    `reweight` the override from 0 to 1. `dm_crypt` is only known where the monitors keep the key
    or the device is named so; an operator such as Rook keeps keys elsewhere."""

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
        """The name of the bucket of a level in which the OSD stands."""
        return next((place.name for place in self.location if place.level == level), None)


class Spread(Snapshot):
    """Placement groups per OSD that is in; `deviation` is that of the whole population."""

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
    """What a rule chooses: copies in different buckets of `failure_domain`, below `root`, on
    OSDs of `device_class` (None: of any). None where the rule does something else."""

    id: int
    name: str
    root: str | None
    device_class: str | None
    failure_domain: str | None
    takes: int


class Pool(Snapshot):
    """`pg_num` is what the pool has, `pg_num_target` where it is going. `size` is k + m of
    erasure-coded pools. `stored_bytes` is what clients wrote, `used_bytes` what it takes on OSDs.
    Of `target_ratio`, `target_bytes` 0 is unset."""

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
    """What goes on besides clients: placement groups by activity, objects, bytes per second."""

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
    """Raw bytes of all OSDs, and the ratios at which an OSD is nearly full, no target of
    backfill, and full."""

    total_bytes: int
    used_bytes: int
    available_bytes: int
    near_full_ratio: float
    backfill_full_ratio: float
    full_ratio: float


class CrushLevel(Snapshot):
    """A level that has OSDs below, and how many buckets of it do."""

    level: str
    count: int


class CrushRoot(Snapshot):
    """The levels from the root to the OSDs."""

    name: str
    levels: tuple[CrushLevel, ...]


class Wire(StrEnum):
    """What a messenger mode means. The first mode of a list is preferred, but the other side may
    insist on another."""

    SECURE = "secure"
    CRC = "crc"
    SECURE_PREFERRED = "secure preferred"
    CRC_PREFERRED = "crc preferred"
    UNKNOWN = "unknown"


class WireMode(Snapshot):
    """One connection kind. `wire` is what a running daemon has; without its word it is unknown,
    since configuration files override the database, where `configured` stands."""

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
    """A setting that is not the default. `section` is whom it is for, `mask` narrows that."""

    section: str
    name: str
    value: str
    mask: str = ""


class FileSetting(Snapshot):
    """A setting that a running daemon has from elsewhere than the database."""

    daemon: str
    name: str
    value: str
    source: str


class AutoscaleWord(Snapshot):
    """What the autoscaler itself says of a pool; `ideal` before rounding, `final` after."""

    pool_id: int
    pool: str
    ideal: int
    final: int
    would_adjust: bool
    capacity_bytes: int
    raw_used_bytes: float


class AutoscalerSettings(Snapshot):
    """`target_told_by` None: the target is Ceph's default, assumed. `on`: None where unknown."""

    target_pg_per_osd: int
    target_told_by: str | None
    threshold: float
    no_autoscale: bool


class NotCaptured(Snapshot):
    """A dump that is missing, and what is unknown for that."""

    dump: str
    purpose: str


class CephInventory(Snapshot):
    """A cluster at one moment. `created` is the day on which it began, as `2026-11-21`."""

    fsid: str
    created: str | None = None
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
        return len({one.version for one in self.versions or ()}) > 1

    @property
    def version_number(self) -> tuple[int, ...]:
        """(16, 2, 15); empty where the version is unknown."""
        parts = (self.version or "").split(".")
        return tuple(int(part) for part in parts if part.isdecimal())

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)

    def buckets(self, level: str) -> tuple[str, ...]:
        """Names of the buckets of a level that have OSDs below."""
        return tuple(sorted({name for osd in self.osds if (name := osd.at(level))}))


# Which pool of a cluster a target's data lies in.


def pool_of(inventory: CephInventory, target: TargetUrl) -> Pool | None:
    """The pool that holds the data; None where the target does not tell, as a path in a cluster
    with several filesystems or a StorageClass, or the pool is not in the inventory."""
    if target.kind.on_kubernetes:
        return None
    if target.kind is not TargetKind.CEPHFS:
        return inventory.pool(target.options.get("data_pool", target.pool))
    pools = [pool for one in inventory.filesystems or () for pool in one.data_pools]
    if not target.location.startswith("/") and target.pool in pools:
        # A lab lays out one folder for each data pool, and names it so.
        return inventory.pool(target.pool)
    return inventory.pool(pools[0]) if len(pools) == 1 else None


# Whether a cluster is fit to be measured.

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
