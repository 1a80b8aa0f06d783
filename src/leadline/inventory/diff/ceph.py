"""Differences of two Ceph clusters that matter for the compared pools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from statistics import median

from leadline.inventory.ceph.model import CephInventory, Health, Osd, Wire, WireMode
from leadline.inventory.ceph.topology import compute_spread
from leadline.inventory.diff.ceph_pools import compare_media, compare_pools
from leadline.inventory.diff.model import (
    AT_REST,
    Collector,
    Difference,
    Differing,
    Fact,
    Topic,
    within,
)
from leadline.text import counted, listed, percent
from leadline.units import format_latency

Pools = Mapping[str, tuple[str, str]]

# Flags of a release or an upgrade, without effect on I/O.
_QUIET_FLAGS = {"pglog_hardlimit", "purged_snapdirs", "recovery_deletes", "sortbitwise"}
# Pools that managers create for themselves.
_MANAGER_POOLS = ("device_health_metrics",)
# Smaller differences of fill and load have no measurable effect.
_USED_SHARE = 0.05
_PGS_PER_OSD_SHARE = 0.2
_SAME_AGE_DAYS = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class _System:
    """A cluster, its compared pools, and the OSDs that serve them."""

    inventory: CephInventory
    pools: frozenset[str]
    osds: tuple[Osd, ...]


def ceph_differences(base: CephInventory, candidate: CephInventory, pools: Pools) -> Differing:
    """Compare two clusters, or one cluster at two times.

    `pools` maps each subject to its pool's name in base and in candidate.
    """
    found = Collector()
    same_cluster = base.fsid == candidate.fsid
    if same_cluster:
        found.identical.append("the same cluster")
    both = base, candidate
    first, second = (
        _system(inventory, [names[at] for names in pools.values()])
        for at, inventory in enumerate(both)
    )
    found.compare("software.ceph", Topic.SOFTWARE, [*map(_release, both)], what="release")
    found.compare_facts("topology", first, second, _TOPOLOGY)
    compare_media(found, first.osds, second.osds)
    compare_pools(found, base, candidate, pools)
    if not same_cluster:
        found.compare(
            "pools.others",
            Topic.PLACEMENT,
            (_other_pools(first, second), _other_pools(second, first)),
            same="",
            meaning="pools that the other cluster does not have; they share OSDs and placement "
            "groups",
        )
    found.compare_facts("placement", first, second, _PLACEMENT)
    _compare_encryption(found, base, candidate)
    mds = [*map(_mds, both)]
    if mds != ["no MDS", "no MDS"]:
        found.compare("services.mds", Topic.SERVICES, mds, what="CephFS:", same=f"MDS {mds[0]}")
    _compare_capacity(found, base, candidate)
    found.compare_facts("health", first, second, _HEALTH)
    flags = [listed(sorted(set(system.flags) - _QUIET_FLAGS)) for system in both]
    same = "" if flags[0] == "none" else None
    found.compare("health.flags", Topic.CAPACITY, flags, what="flags", same=same)
    _compare_settings(found, base, candidate)
    return found.result()


def _system(inventory: CephInventory, pools: list[str]) -> _System:
    return _System(inventory=inventory, pools=frozenset(pools), osds=serving_osds(inventory, pools))


def serving_osds(inventory: CephInventory, pools: Iterable[str]) -> tuple[Osd, ...]:
    """Return the OSDs that the pools' rules choose from; all OSDs if a rule is unknown."""
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


def _release(inventory: CephInventory) -> str | None:
    if inventory.version is None:
        return None
    text = f"{inventory.version} {inventory.release or ''}".rstrip()
    if inventory.mixed_versions:
        versions = {daemons.version for daemons in inventory.versions or ()}
        text += f", some daemons {listed(sorted(versions - {inventory.version}))}"
    return text


def _levels(system: _System) -> str:
    """Return `1 region > 3 zones`: the CRUSH levels between root and hosts, from the top."""
    names: dict[str, set[str]] = {}
    for osd in system.osds:
        for place in osd.location:
            if place.level not in ("root", "host"):
                names.setdefault(place.level, set()).add(place.name)
    return " > ".join(counted(len(found), level) for level, found in names.items()) or "none"


def _hosts(system: _System) -> str:
    return counted(len({osd.host for osd in system.osds if osd.host}), "host")


_TOPOLOGY: tuple[Fact[_System], ...] = (
    Fact("crush_levels", Topic.TOPOLOGY, _levels, what="CRUSH levels above hosts:"),
    Fact("hosts", Topic.TOPOLOGY, _hosts),
    Fact("osds", Topic.TOPOLOGY, lambda system: counted(len(system.osds), "osd")),
)


def _other_pools(system: _System, other: _System) -> str:
    """Return the pools of one cluster only that share OSDs with the compared pools."""
    here = {pool.name for pool in system.inventory.pools} - system.pools
    there = {pool.name for pool in other.inventory.pools} - other.pools
    alone = here - there - set(_MANAGER_POOLS)
    return listed(sorted(name for name in alone if not name.startswith(".")))


def _pgs_per_osd(system: _System) -> float | None:
    spread = compute_spread(system.osds)
    return spread.mean if spread else None


def _format_pgs_per_osd(system: _System) -> str | None:
    mean = _pgs_per_osd(system)
    return None if mean is None else f"{mean:.0f}"


def _target_pg(system: _System) -> str | None:
    autoscaler = system.inventory.autoscaler
    return str(autoscaler.target_pg_per_osd) if autoscaler.target_told_by else None


def _primary_affinity(system: _System) -> str:
    lowered = [osd for osd in system.osds if osd.primary_affinity != 1.0]
    total = counted(len(system.osds), "osd")
    return f"lowered on {len(lowered)} of {total}" if lowered else "full"


_PLACEMENT: tuple[Fact[_System], ...] = (
    Fact(
        "pgs_per_osd",
        Topic.PLACEMENT,
        _format_pgs_per_osd,
        what="PGs per OSD",
        same="",
        meaning="replicas of placement groups on an average OSD",
        alike=within(_PGS_PER_OSD_SHARE, _pgs_per_osd),
    ),
    Fact("target_pg_per_osd", Topic.PLACEMENT, _target_pg, what="target PGs per OSD", same=""),
    Fact("balancer", Topic.PLACEMENT, lambda system: system.inventory.balancer, what="balancer"),
    Fact(
        "primary_affinity",
        Topic.PLACEMENT,
        _primary_affinity,
        same="",
        meaning="OSDs with less than full affinity serve fewer reads, or none",
    ),
)

# Encryption.

_WIRE = {
    Wire.SECURE: "encrypted",
    Wire.CRC: "not encrypted",
    Wire.SECURE_PREFERRED: "encrypted unless the peer refuses",
    Wire.CRC_PREFERRED: "not encrypted unless the peer refuses",
}


def _compare_encryption(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    first, second = base.encryption, candidate.encryption
    kinds = (
        ("between_daemons", "between daemons", first.between_daemons, second.between_daemons),
        ("to_daemons", "to daemons", first.to_daemons, second.to_daemons),
        ("of_clients", "requested by clients", first.of_clients, second.of_clients),
    )
    wires = [
        (key, what, _format_wire(left), _format_wire(right)) for key, what, left, right in kinds
    ]
    known = {(left, right) for _, _, left, right in wires if left and right}
    if len(known) == 1:
        texts = known.pop()
        same = f"wire {texts[0]}"
        found.compare("encryption.wire", Topic.ENCRYPTION, texts, what="on the wire", same=same)
    else:
        for key, what, *both in wires:
            found.compare(f"encryption.wire.{key}", Topic.ENCRYPTION, both, what=f"wire {what}")
    crypts = [_at_rest(inventory) for inventory in (base, candidate)]
    if any(crypts):
        rest = [text or "on no OSD that the cluster knows of" for text in crypts]
        found.compare("encryption.at_rest", Topic.ENCRYPTION, rest, same="dm-crypt on all OSDs")
    else:
        found.unknown.append(AT_REST)


def _format_wire(mode: WireMode) -> str | None:
    if mode.wire in _WIRE:
        return _WIRE[mode.wire]
    return f"configured {mode.configured}" if mode.configured else None


def _at_rest(inventory: CephInventory) -> str | None:
    """Return None if the cluster knows no encrypted OSD, which does not prove that none is."""
    count, total = inventory.encryption.osds_with_dm_crypt, len(inventory.osds)
    if not count:
        return None
    return "dm-crypt on all OSDs" if count == total else f"dm-crypt on {count} of {total} OSDs"


# Services, capacity, health.


def _mds(inventory: CephInventory) -> str | None:
    if inventory.filesystems is None:
        return None
    if not inventory.filesystems:
        return "no MDS"
    active = sum(len(filesystem.ranks) for filesystem in inventory.filesystems)
    replay = sum(filesystem.standby_replay for filesystem in inventory.filesystems)
    failed = sum(len(filesystem.failed_ranks) for filesystem in inventory.filesystems)
    text = f"{active} active, {len(inventory.mds_standbys or ())} standing by"
    text += f", {replay} replaying" if replay else ""
    return text + (f", {failed} failed" if failed else "")


def _compare_capacity(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    used = [_used(inventory) for inventory in (base, candidate)]
    texts = [None if share is None else percent(share) for share in used]
    found.compare(
        "capacity.used",
        Topic.CAPACITY,
        texts,
        what="capacity used",
        same=f"about {texts[0]} of the capacity used",
        alike=abs((used[0] or 0.0) - (used[1] or 0.0)) <= _USED_SHARE,
    )
    days = [date.fromisoformat(day) for day in (base.created, candidate.created) if day]
    found.compare(
        "capacity.created",
        Topic.CAPACITY,
        (base.created, candidate.created),
        what="age",
        same="age to within a month",
        meaning="the day of the cluster's creation; data written and deleted since has fragmented "
        "its OSDs",
        alike=len(days) == 2 and abs((days[0] - days[1]).days) <= _SAME_AGE_DAYS,
    )


def _used(inventory: CephInventory) -> float | None:
    capacity = inventory.capacity
    return capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else None


def _status(system: _System) -> str:
    inventory = system.inventory
    if inventory.health is Health.OK:
        return inventory.health.value
    codes = sorted(check.code for check in inventory.checks if not check.muted)
    return f"{inventory.health.value}: {listed(codes)}"


def _osd_states(system: _System) -> str:
    down = sum(not osd.up for osd in system.osds)
    out = sum(not osd.is_in for osd in system.osds)
    return f"{down} down, {out} out" if down or out else "all up and in"


def _activity(system: _System) -> str:
    activity = system.inventory.activity
    kinds = (
        ("recovering", activity.recovering_pgs),
        ("backfilling", activity.backfilling_pgs),
        ("scrubbing", activity.scrubbing_pgs + activity.deep_scrubbing_pgs),
    )
    return listed(what for what, count in kinds if count)


_HEALTH: tuple[Fact[_System], ...] = (
    Fact("status", Topic.CAPACITY, _status, what="health"),
    Fact("osds", Topic.CAPACITY, _osd_states, what="OSDs", same=""),
    Fact(
        "activity",
        Topic.CAPACITY,
        _activity,
        same="",
        meaning="background work of the cluster at the time of the capture",
    ),
)

# Settings of the configuration database, and settings of files that change the work of OSDs.

# Identity, addresses, logging, defaults of pools to be created, and settings compared elsewhere.
_NOISE = re.compile(
    r"fsid|(^|_)(addr|host|hosts|network|path|dir|file|data|keyring|port|url|user|image)($|_)"
    r"|^(public|cluster)_network|^container_|^crash_|^log_|^debug_|^err_to|^mon_(warn|allow|data|"
    r"initial|health|cluster_log|max_pg|target_pg|debug)|^auth_|^ms_(cluster|service|client|mon)_"
    r"|^ms_bind|^mgr/(?!pg_autoscaler/threshold)|^osd_pool_default_|^crush_location$"
    r"|^osd_crush_(chooseleaf|update)|^rgw_|^mds_join|^client_mount|^admin_socket|_on_mkfs$"
)
# Of settings in files, only those that affect the work of OSDs.
_OSD_SETTINGS = re.compile(
    r"^(osd_op_|osd_mclock_|osd_memory_|osd_recovery_|osd_max_backfills|osd_scrub_|osd_client_"
    r"|bluestore_(?!block_|bdev_)|ms_async_|ms_inject_|ms_dispatch|rocksdb_)"
)
# Daemons measure these values themselves: they are never exactly equal.
_MEASURED_SHARE = 0.2
_LONGEST_VALUE = 80

Key = tuple[str, str]


def _compare_settings(found: Collector, base: CephInventory, candidate: CephInventory) -> None:
    """Compare each setting of a kind of daemon at `settings.KIND.NAME`."""
    if base.configuration is None or candidate.configuration is None:
        if base.configuration is not candidate.configuration:
            found.unknown.append("settings in the configuration database")
        return
    first, second = _database_settings(base), _database_settings(candidate)
    # Settings of files are comparable only if both systems' daemons reported them.
    if base.file_settings is not None and candidate.file_settings is not None:
        first, second = _file_settings(base) | first, _file_settings(candidate) | second
    changed = False
    for key in sorted(first.keys() | second.keys()):
        left, right = first.get(key, []), second.get(key, [])
        if not _alike(left, right):
            changed = True
            texts = _format_values(left), _format_values(right)
            found.compare(f"settings.{key[0]}.{key[1]}", Topic.SETTINGS, texts)
    if not changed:
        found.identical.append("settings that affect I/O")


def _database_settings(inventory: CephInventory) -> dict[Key, list[str]]:
    """Return values by kind of daemon and name; single daemons and hosts are put together."""
    found: dict[Key, list[str]] = {}
    for setting in inventory.configuration or ():
        if not _NOISE.search(setting.name):
            kind = setting.section.partition(".")[0]
            found.setdefault((kind, setting.name), []).append(setting.value)
    return found


def _file_settings(inventory: CephInventory) -> dict[Key, list[str]]:
    """Return the settings of the first OSD that reported them."""
    settings = inventory.file_settings or ()
    osds = sorted({item.daemon for item in settings if item.daemon.startswith("osd")})
    # A test's injected delay that is switched off again has no effect.
    injects = any(
        item.name.startswith("ms_inject_") and (_number(item.value) or 0.0) > 0 for item in settings
    )
    return {
        ("osd", item.name): [item.value]
        for item in settings
        if item.daemon in osds[:1]
        and _OSD_SETTINGS.match(item.name)
        and (injects or not item.name.startswith("ms_inject_"))
    }


def _alike(left: list[str], right: list[str]) -> bool:
    if sorted(set(left)) == sorted(set(right)):
        return True
    baseline, candidate = _numbers(left), _numbers(right)
    if not baseline or not candidate:
        return False
    middles = median(baseline), median(candidate)
    if len(baseline) == len(candidate) == 1:
        return middles[0] == middles[1]
    return abs(middles[0] - middles[1]) <= _MEASURED_SHARE * max(map(abs, middles))


def _numbers(values: Iterable[str]) -> list[float] | None:
    """Return the values as numbers; None if one of them is not a number."""
    numbers = [_number(value) for value in values]
    return [number for number in numbers if number is not None] if None not in numbers else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _format_values(values: list[str]) -> str:
    if not values:
        return "default"
    if len(set(values)) == 1:
        text = values[0] or "empty"
        return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
    numbers = _numbers(values)
    if numbers:
        return f"median {median(numbers):g} of {counted(len(numbers), 'daemon')}"
    return listed(sorted(set(values)))


# Processors and network of a system.

CPU_BUDGET = "lab.cpu_per_host"
ROUND_TRIP = "network.inter_zone_rtt"
NOT_MEASURED = "not measured"
# Two medians of ping on an idle network differ by at most this much.
_ROUND_TRIP_SHARE = 0.1
_ROUND_TRIP_S = 50e-6


def cpu_budget_difference(base: float | None, candidate: float | None) -> Difference | None:
    """Compare the cores that each host of a lab may use (None: no quota)."""
    if base == candidate:
        return None
    return Difference(
        path=CPU_BUDGET,
        topic=Topic.TOPOLOGY,
        baseline=_format_cores(base),
        candidate=_format_cores(candidate),
        meaning="Cores that the OSDs of each host may use together, by a kernel quota.",
    )


def _format_cores(cores: float | None) -> str:
    if cores is None:
        return "no quota"
    return "1 core" if cores == 1 else f"{cores:g} cores"


def round_trip_difference(base_s: float | None, candidate_s: float | None) -> Difference | None:
    """Compare measured round trips between zones, in seconds (None: not measured).

    Returns:
        None if both are unknown, or less than a tenth or 50 us apart.
    """
    if base_s is None and candidate_s is None:
        return None
    if base_s is not None and candidate_s is not None:
        apart = abs(candidate_s - base_s)
        if apart <= max(_ROUND_TRIP_SHARE * max(base_s, candidate_s), _ROUND_TRIP_S):
            return None
    texts = [NOT_MEASURED if rtt is None else format_latency(rtt) for rtt in (base_s, candidate_s)]
    return Difference(
        path=ROUND_TRIP,
        topic=Topic.TOPOLOGY,
        baseline=texts[0],
        candidate=texts[1],
        meaning="Median round trip between zones (of a single zone: between failure domains).",
    )
