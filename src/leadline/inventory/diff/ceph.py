"""How two Ceph clusters differ, as far as that concerns the pools that are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from statistics import median

from leadline.inventory.ceph.model import CephInventory, Health, Osd, Wire, WireMode
from leadline.inventory.diff.ceph_pools import compare_media, compare_pools
from leadline.inventory.diff.model import Collector, Difference, Differing, Topic
from leadline.text import counted, listed, percent, visible
from leadline.units import format_latency

# Differences of settings: those of the configuration database, and those of files that change how
# OSDs work.

# Who and where a cluster is, what it logs and shows, what only acts on pools yet to be made, and
# what is compared elsewhere.
_NOISE = re.compile(
    r"fsid|(^|_)(addr|host|hosts|network|path|dir|file|data|keyring|port|url|user|image)($|_)"
    r"|^(public|cluster)_network|^container_|^crash_|^log_|^debug_|^err_to|^mon_(warn|allow|data|"
    r"initial|health|cluster_log|max_pg|target_pg|debug)|^auth_|^ms_(cluster|service|client|mon)_"
    r"|^ms_bind|^mgr/(?!pg_autoscaler/threshold)|^osd_pool_default_|^crush_location$"
    r"|^osd_crush_(chooseleaf|update)|^rgw_|^mds_join|^client_mount|^admin_socket|_on_mkfs$"
)
# Of files (whose daemons' paths and addresses are many), only what OSDs' work depends on.
_OF_OSDS = re.compile(
    r"^(osd_op_|osd_mclock_|osd_memory_|osd_recovery_|osd_max_backfills|osd_scrub_|osd_client_"
    r"|bluestore_(?!block_|bdev_)|ms_async_|ms_inject_|ms_dispatch|rocksdb_)"
)
# Values that daemons find by measuring themselves: they never agree exactly.
_MEASURED_SHARE = 0.2
_DEFAULT = "default"
_LONG = 80


def compare_settings(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    """Each setting that is not the same for a kind of daemon, `settings.KIND.NAME`."""
    if base.configuration is None or candidate.configuration is None:
        if base.configuration is not None or candidate.configuration is not None:
            found.unknown.append("settings in the configuration database")
        return
    ours, theirs = _settings(base), _settings(candidate)
    # A file of one side says nothing where the other side's daemons were not asked.
    with_files = base.file_settings is not None and candidate.file_settings is not None
    if with_files:
        ours, theirs = _of_files(base) | ours, _of_files(candidate) | theirs
    changed = 0
    for key in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(key, []), theirs.get(key, [])
        if not _alike(left, right):
            changed += 1
            kind, name = key
            found.compare(
                f"settings.{visible(kind)}.{visible(name)}",
                Topic.SETTINGS,
                _text(left),
                _text(right),
            )
    if not changed:
        found.identical.append("settings that bear on I/O")


Key = tuple[str, str]


def _settings(inventory: CephInventory) -> dict[Key, list[str]]:
    """Values by kind of daemon and name. What single daemons or hosts have is put together: their
    names are no difference."""
    found: dict[Key, list[str]] = {}
    for one in inventory.configuration or ():
        if not _NOISE.search(one.name):
            found.setdefault((one.section.partition(".")[0], one.name), []).append(one.value)
    return found


def _of_files(inventory: CephInventory) -> dict[Key, list[str]]:
    """From the first OSD that was asked; others are not known to be the same."""
    asked = sorted(
        {one.daemon for one in inventory.file_settings or () if one.daemon.startswith("osd")}
    )
    return {
        ("osd", one.name): [one.value]
        for one in inventory.file_settings or ()
        if asked
        and one.daemon == asked[0]
        and _OF_OSDS.match(one.name)
        # An injected delay of nothing, which a test switched off again, is none.
        and not (one.name.startswith("ms_inject_") and not _injects(inventory))
    }


def _injects(inventory: CephInventory) -> bool:
    return any(
        one.name.startswith("ms_inject_") and (_number(one.value) or 0.0) > 0
        for one in inventory.file_settings or ()
    )


def _alike(left: list[str], right: list[str]) -> bool:
    if sorted(set(left)) == sorted(set(right)):
        return True
    ours, theirs = _numbers(left), _numbers(right)
    if not ours or not theirs:
        return False
    middles = median(ours), median(theirs)
    if len(ours) == len(theirs) == 1:
        return middles[0] == middles[1]
    return abs(middles[0] - middles[1]) <= _MEASURED_SHARE * max(map(abs, middles))


def _numbers(values: Iterable[str]) -> list[float] | None:
    numbers = [_number(value) for value in values]
    return [one for one in numbers if one is not None] if None not in numbers else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(values: list[str]) -> str:
    if not values:
        return _DEFAULT
    if len(set(values)) == 1:
        text = visible(values[0]) or "empty"
        return text if len(text) <= _LONG else f"{text[:_LONG]}..."
    numbers = _numbers(values)
    if numbers:
        return f"{median(numbers):g} in the middle of {counted(len(numbers), 'daemon')}"
    return listed(visible(value) for value in sorted(set(values)))


Pools = Mapping[str, tuple[str, str]]

# Flags that come with a release or an upgrade and have no effect on I/O.
_QUIET_FLAGS = {"pglog_hardlimit", "purged_snapdirs", "recovery_deletes", "sortbitwise"}
# Pools that managers make for themselves.
_OWN_POOLS = ("device_health_metrics",)
# Fill and load shares nearer than this do not make a difference that could be measured.
_USED_SHARE = 0.05
_PGS_PER_OSD_SHARE = 0.2
_SAME_AGE_DAYS = 31


def ceph_differences(base: CephInventory, candidate: CephInventory, pools: Pools) -> Differing:
    """Two clusters, or one at two moments. `pools` maps each subject to the names of the pools
    that hold its data, (in base, in candidate)."""
    found = Collector()
    if base.fsid == candidate.fsid:
        found.identical.append("the same cluster")
    ours = serving(base, [names[0] for names in pools.values()])
    theirs = serving(candidate, [names[1] for names in pools.values()])
    _software(found, base, candidate)
    _topology(found, ours, theirs)
    compare_media(found, ours, theirs)
    compare_pools(found, base, candidate, pools)
    _other_pools(found, base, candidate, pools)
    _placement(found, base, candidate, ours, theirs)
    _encryption(found, base, candidate)
    _services(found, base, candidate)
    _capacity(found, base, candidate, ours, theirs)
    compare_settings(found, base, candidate)
    return found.result()


def serving(inventory: CephInventory, pools: Iterable[str]) -> tuple[Osd, ...]:
    """OSDs that the pools' rules choose from; all OSDs where that cannot be told."""
    roots = set()
    for name in pools:
        pool = inventory.pool(name)
        if pool is None or pool.rule is None or pool.rule.root is None:
            return inventory.osds
        roots.add((pool.rule.root, pool.rule.device_class))
    chosen = tuple(
        osd
        for osd in inventory.osds
        if any(
            device_class in (None, osd.device_class)
            and any(place.name == root for place in osd.location)
            for root, device_class in roots
        )
    )
    return chosen or inventory.osds


# --- what it runs, where it stands ---------------------------------------------------------------


def _software(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    found.compare(
        "software.ceph",
        Topic.SOFTWARE,
        _release(base),
        _release(candidate),
        what="release",
    )


def _release(inventory: CephInventory) -> str | None:
    if inventory.version is None:
        return None
    text = f"{inventory.version} {inventory.release or ''}".rstrip()
    if inventory.mixed_versions:
        others = sorted({one.version for one in inventory.versions or ()} - {inventory.version})
        text += f", some daemons {listed(others)}"
    return visible(text)


def _topology(found: Collector, ours: tuple[Osd, ...], theirs: tuple[Osd, ...]) -> None:
    found.compare(
        "topology.crush_levels",
        Topic.TOPOLOGY,
        _levels(ours),
        _levels(theirs),
        what="CRUSH levels above hosts:",
    )
    for key, noun, counts in (
        ("hosts", "host", [len({osd.host for osd in side if osd.host}) for side in (ours, theirs)]),
        ("osds", "osd", [len(ours), len(theirs)]),
    ):
        texts = [counted(count, noun) for count in counts]
        found.compare(f"topology.{key}", Topic.TOPOLOGY, texts[0], texts[1])


def _levels(osds: tuple[Osd, ...]) -> str:
    """`1 region > 3 zones`: what stands between the roots and the hosts, from the top down."""
    names: dict[str, set[str]] = {}
    for osd in osds:
        for place in osd.location:
            if place.level not in ("root", "host"):
                names.setdefault(place.level, set()).add(place.name)
    return " > ".join(counted(len(found), visible(level)) for level, found in names.items()) or (
        "none"
    )


# --- placement groups ----------------------------------------------------------------------------


def _other_pools(
    found: Collector, base: CephInventory, candidate: CephInventory, pools: Pools
) -> None:
    """Pools beside those compared, which share OSDs and the budget of placement groups. Two pools
    of one cluster have the same others."""
    if base.fsid == candidate.fsid:
        return
    ours = {one.name for one in base.pools} - {names[0] for names in pools.values()}
    theirs = {one.name for one in candidate.pools} - {names[1] for names in pools.values()}
    alone = [
        sorted(
            visible(name)
            for name in side - other
            if not name.startswith(".") and name not in _OWN_POOLS
        )
        for side, other in ((ours, theirs), (theirs, ours))
    ]
    found.compare(
        "pools.others",
        Topic.PLACEMENT,
        listed(alone[0]),
        listed(alone[1]),
        same="",
        meaning="pools that the other cluster does not have; they share OSDs and placement groups",
    )


def _placement(
    found: Collector,
    base: CephInventory,
    candidate: CephInventory,
    ours: tuple[Osd, ...],
    theirs: tuple[Osd, ...],
) -> None:
    means = [_pgs_per_osd(side) for side in (ours, theirs)]
    found.compare(
        "placement.pgs_per_osd",
        Topic.PLACEMENT,
        None if means[0] is None else f"{means[0]:.0f}",
        None if means[1] is None else f"{means[1]:.0f}",
        what="PGs per OSD",
        same="",
        meaning="replicas of placement groups on an average OSD",
        alike=lambda: _near(means[0], means[1], _PGS_PER_OSD_SHARE),
    )
    targets = [
        str(side.autoscaler.target_pg_per_osd) if side.autoscaler.target_told_by else None
        for side in (base, candidate)
    ]
    found.compare(
        "placement.target_pg_per_osd",
        Topic.PLACEMENT,
        targets[0],
        targets[1],
        what="PGs wanted per OSD",
        same="",
    )
    balancers = [visible(one.balancer) if one.balancer else None for one in (base, candidate)]
    found.compare(
        "placement.balancer", Topic.PLACEMENT, balancers[0], balancers[1], what="balancer"
    )
    found.compare(
        "placement.primary_affinity",
        Topic.PLACEMENT,
        _affinity(ours),
        _affinity(theirs),
        same="",
        meaning="OSDs with less than full affinity serve fewer reads, or none",
    )


def _pgs_per_osd(osds: tuple[Osd, ...]) -> float | None:
    counts = [osd.pgs for osd in osds if osd.is_in and osd.weight != 0 and osd.pgs is not None]
    return sum(counts) / len(counts) if counts else None


def _near(ours: float | None, theirs: float | None, share: float) -> bool:
    return (
        ours is not None and theirs is not None and abs(ours - theirs) <= share * max(ours, theirs)
    )


def _affinity(osds: tuple[Osd, ...]) -> str:
    lowered = [osd for osd in osds if osd.primary_affinity != 1.0]
    return f"lowered on {len(lowered)} of {counted(len(osds), 'osd')}" if lowered else "full"


# --- encryption ----------------------------------------------------------------------------------

_WIRE = {
    Wire.SECURE: "encrypted",
    Wire.CRC: "not encrypted",
    Wire.SECURE_PREFERRED: "encrypted unless the other side insists",
    Wire.CRC_PREFERRED: "not encrypted unless the other side insists",
}


def _encryption(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    ours, theirs = base.encryption, candidate.encryption
    kinds = (
        ("between_daemons", "between daemons", ours.between_daemons, theirs.between_daemons),
        ("to_daemons", "to daemons", ours.to_daemons, theirs.to_daemons),
        ("of_clients", "asked by clients", ours.of_clients, theirs.of_clients),
    )
    told = [(_wire(one[2]), _wire(one[3])) for one in kinds]
    known = {pair for pair in told if None not in pair}
    if len(known) == 1:
        ((left, right),) = known
        found.compare(
            "encryption.wire",
            Topic.ENCRYPTION,
            left,
            right,
            what="on the wire",
            same=f"wire {left}",
        )
    else:
        for (key, what, _, _), (left, right) in zip(kinds, told, strict=True):
            name = f"wire {what}"
            found.compare(f"encryption.wire.{key}", Topic.ENCRYPTION, left, right, what=name)
    crypts = [_at_rest(one) for one in (base, candidate)]
    if any(crypts):
        texts = [text or "on no OSD that the cluster knows of" for text in crypts]
        found.compare(
            "encryption.at_rest", Topic.ENCRYPTION, texts[0], texts[1], same="dm-crypt on all OSDs"
        )
    else:
        found.unknown.append("encryption at rest")


def _wire(mode: WireMode) -> str | None:
    if mode.wire in _WIRE:
        return _WIRE[mode.wire]
    return f"configured {visible(mode.configured)}" if mode.configured else None


def _at_rest(inventory: CephInventory) -> str | None:
    """None where the cluster knows of no encrypted OSD, which is no proof that there is none."""
    count, total = inventory.encryption.osds_with_dm_crypt, len(inventory.osds)
    if not count:
        return None
    return "dm-crypt on all OSDs" if count == total else f"dm-crypt on {count} of {total} OSDs"


# --- services, capacity, health ------------------------------------------------------------------


def _services(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    ours, theirs = _mds(base), _mds(candidate)
    if ours == theirs == "no MDS":
        return
    found.compare("services.mds", Topic.SERVICES, ours, theirs, what="CephFS:", same=f"MDS {ours}")


def _mds(inventory: CephInventory) -> str | None:
    if inventory.filesystems is None:
        return None
    if not inventory.filesystems:
        return "no MDS"
    active = sum(len(one.ranks) for one in inventory.filesystems)
    replay = sum(one.standby_replay for one in inventory.filesystems)
    failed = sum(len(one.failed_ranks) for one in inventory.filesystems)
    text = f"{active} active, {len(inventory.mds_standbys or ())} standing by"
    text += f", {replay} replaying" if replay else ""
    return text + (f", {failed} failed" if failed else "")


def _capacity(
    found: Collector,
    base: CephInventory,
    candidate: CephInventory,
    ours: tuple[Osd, ...],
    theirs: tuple[Osd, ...],
) -> None:
    used = [_used(one) for one in (base, candidate)]
    found.compare(
        "capacity.used",
        Topic.CAPACITY,
        None if used[0] is None else percent(used[0]),
        None if used[1] is None else percent(used[1]),
        what="capacity used",
        same=None if used[0] is None else f"about {percent(used[0])} of the capacity used",
        alike=lambda: (
            used[0] is not None and used[1] is not None and abs(used[0] - used[1]) <= _USED_SHARE
        ),
    )
    found.compare(
        "capacity.created",
        Topic.CAPACITY,
        base.created,
        candidate.created,
        what="age",
        same="age to within a month",
        meaning="the day on which the cluster began; what was written and deleted since lies in "
        "pieces on its OSDs",
        alike=lambda: _days_apart(base.created, candidate.created) <= _SAME_AGE_DAYS,
    )
    found.compare("health.status", Topic.CAPACITY, _health(base), _health(candidate), what="health")
    found.compare(
        "health.osds", Topic.CAPACITY, _unwell(ours), _unwell(theirs), what="OSDs", same=""
    )
    found.compare(
        "health.activity",
        Topic.CAPACITY,
        _activity(base),
        _activity(candidate),
        same="",
        meaning="what the cluster did beside serving clients, as it was captured",
    )
    flags = [{flag for flag in one.flags if flag not in _QUIET_FLAGS} for one in (base, candidate)]
    found.compare(
        "health.flags",
        Topic.CAPACITY,
        listed(sorted(map(visible, flags[0]))),
        listed(sorted(map(visible, flags[1]))),
        same="" if not flags[0] else f"flags {listed(sorted(map(visible, flags[0])))}",
        what="flags",
    )


def _days_apart(one: str | None, other: str | None) -> int:
    if one is None or other is None:
        return 0
    return abs((date.fromisoformat(one) - date.fromisoformat(other)).days)


def _used(inventory: CephInventory) -> float | None:
    capacity = inventory.capacity
    return capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else None


def _health(inventory: CephInventory) -> str:
    if inventory.health is Health.OK:
        return inventory.health.value
    codes = listed(sorted(visible(check.code) for check in inventory.checks if not check.muted))
    return f"{inventory.health.value}: {codes}"


def _unwell(osds: tuple[Osd, ...]) -> str:
    down, out = sum(not osd.up for osd in osds), sum(not osd.is_in for osd in osds)
    return f"{down} down, {out} out" if down or out else "all up and in"


def _activity(inventory: CephInventory) -> str:
    activity = inventory.activity
    kinds = (
        ("recovering", activity.recovering_pgs),
        ("backfilling", activity.backfilling_pgs),
        ("scrubbing", activity.scrubbing_pgs + activity.deep_scrubbing_pgs),
    )
    return listed(what for what, count in kinds if count)


# Differences of the processor that the storage may use.

CPU_BUDGET = "lab.cpu_per_host"


def cpu_budget_difference(base: float | None, candidate: float | None) -> Difference | None:
    """The cores that each host of a lab may use (None: all that there are)."""
    if base == candidate:
        return None
    return Difference(
        path=CPU_BUDGET,
        topic=Topic.TOPOLOGY,
        baseline=_processor_text(base),
        candidate=_processor_text(candidate),
        meaning="Cores that the OSDs of each host may use together, by a quota of the kernel's.",
    )


def _processor_text(cores: float | None) -> str:
    if cores is None:
        return "no quota"
    return "1 core" if cores == 1 else f"{cores:g} cores"


# Differences of the network, as measured.

ROUND_TRIP = "network.inter_zone_rtt"
NOT_MEASURED = "not measured"
# Two ping medians on an idle network differ by so much at most.
_ALIKE_SHARE = 0.1
_ALIKE_S = 50e-6


def round_trip_difference(base_s: float | None, candidate_s: float | None) -> Difference | None:
    """Measured round trips between zones, in seconds (None: not measured on that side). None where
    both are unknown, or alike: less than a tenth or 50 us apart."""
    if base_s is None and candidate_s is None:
        return None
    if base_s is not None and candidate_s is not None:
        apart = abs(candidate_s - base_s)
        if apart <= max(_ALIKE_SHARE * max(base_s, candidate_s), _ALIKE_S):
            return None
    return Difference(
        path=ROUND_TRIP,
        topic=Topic.TOPOLOGY,
        baseline=_network_text(base_s),
        candidate=_network_text(candidate_s),
        meaning="Median round trip between zones (of a single zone: between failure domains).",
    )


def _network_text(rtt_s: float | None) -> str:
    return NOT_MEASURED if rtt_s is None else format_latency(rtt_s)
