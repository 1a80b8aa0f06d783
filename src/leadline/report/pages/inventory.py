"""A Ceph cluster's inventory as a document: what it is, drawn, and in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leadline.inventory.ceph.model import (
    CephInventory,
    FileSetting,
    Health,
    Wire,
    WireMode,
    notes,
    unfit,
)
from leadline.inventory.ceph.placement import compute_placement
from leadline.report.cells import facts_table, section, table
from leadline.report.document import Columns, Document, Section, Tile, Tiles
from leadline.report.pages.inventory_osds import osds_section
from leadline.report.pages.inventory_pools import placement_section, pools_section
from leadline.report.pages.topology import draw_fill
from leadline.report.words import count_text, listed, share_text
from leadline.text import counted, sentence
from leadline.units import format_bandwidth, format_duration, format_iops, format_size

_UNKNOWN = "not captured"
# Notes below the headline; `ceph health detail` has all.
_MOST_NOTES = 5
_TITLE = "Ceph cluster"


def inventory_document(inventory: CephInventory, source: str) -> Document:
    """Build the inventory, the most important first; `source` names the origin of the dumps."""
    placement = compute_placement(inventory)
    sections = (
        _crush(inventory),
        pools_section(inventory, placement),
        osds_section(inventory),
        placement_section(inventory, placement),
        _encryption(inventory),
        _daemons(inventory),
        *_configuration(inventory),
        _gaps(inventory, placement.caveats),
    )
    return Document(
        title=f"{_TITLE} {inventory.fsid}",
        subtitle=source,
        summary=_summary(inventory),
        sections=tuple(part for part in sections if part.blocks),
        front=(Tiles(tiles=tuple(_tiles(inventory))),),
    )


def _release(inventory: CephInventory) -> str:
    if inventory.version is None:
        return "of unknown release"
    mixed = ", mixed versions" if inventory.mixed_versions else ""
    return f"{inventory.version} {inventory.release or ''}".rstrip() + mixed


def _extent(inventory: CephInventory) -> str:
    """Format `24 OSDs in 6 hosts in 3 zones, 40 GiB`, without levels of one node."""
    text = count_text(len(inventory.osds), "OSD")
    places = _places(inventory)
    return f"{text}{f' in {places}' if places else ''}"


def _places(inventory: CephInventory) -> str:
    """`6 hosts in 3 zones`."""
    counts: Counter[str] = Counter()
    for root in inventory.crush:
        for level in root.levels:
            counts[level.level] += level.count
    return " in ".join(
        counted(number, name)
        for name, number in reversed(counts.items())
        if name not in ("osd", "root") and (number > 1 or name == "host")
    )


def headline(inventory: CephInventory) -> str:
    """`Ceph 16.2.15 pacific, HEALTH_OK: 6 OSDs in 6 hosts in 3 zones, 49 % of 24 GiB used.`"""
    reason = unfit(inventory)
    refused = f"Not fit for a measurement, {reason.fact}. " if reason else ""
    return (
        f"{refused}Ceph {_release(inventory)}, {inventory.health.value}: {_extent(inventory)}, "
        f"{_used(inventory)}."
    )


def _used(inventory: CephInventory) -> str:
    capacity = inventory.capacity
    share = capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else 0.0
    return f"{share_text(share)} of {format_size(capacity.total_bytes)} used"


def _summary(inventory: CephInventory) -> tuple[str, ...]:
    found = [
        sentence(note) if "_" not in note.split(" ")[0] else f"{note}." for note in notes(inventory)
    ]
    rest = len(found) - _MOST_NOTES
    more = [f"{count_text(rest, 'more warning')}: `ceph health detail`."] if rest > 0 else []
    return (headline(inventory), *found[:_MOST_NOTES], *more)


# --- the first screen -----------------------------------------------------------------------------

_VERDICTS = {Health.OK: "better", Health.WARN: "warning", Health.ERR: "worse"}


def _tiles(inventory: CephInventory) -> Iterator[Tile]:
    """Yield health, fill, OSDs, placement groups, and stored data."""
    capacity, osds = inventory.capacity, inventory.osds
    yield Tile(
        title="Health",
        unit="",
        value=inventory.health.value.removeprefix("HEALTH_"),
        verdict=_VERDICTS[inventory.health],
        note=f"{_clean(inventory)}.",
    )
    share = capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else 0.0
    fullest = max((osd.utilisation for osd in osds if osd.utilisation is not None), default=None)
    of = f"of {format_size(capacity.total_bytes)}"
    yield Tile(
        title="Used",
        unit=of,
        value=share_text(share),
        verdict="warning" if (fullest or share) >= capacity.near_full_ratio else "",
        note=f"Fullest OSD {share_text(fullest)}." if fullest is not None else "",
    )
    active = sum(osd.up and osd.is_in for osd in osds)
    yield Tile(
        title="OSDs",
        unit="up and in",
        value=f"{active:,} of {len(osds):,}",
        verdict="" if active == len(osds) else "warning",
        note=f"{_places(inventory) or 'Without hosts'}.",
    )
    pgs = inventory.pgs_per_osd
    yield Tile(
        title="PGs",
        unit="per OSD",
        value=" to ".join(dict.fromkeys((f"{pgs.lowest:,}", f"{pgs.highest:,}"))) if pgs else "?",
        verdict="",
        note=f"{pgs.mean:,.0f} on average." if pgs else "Not captured.",
    )
    objects = sum(pool.objects or 0 for pool in inventory.pools)
    stored = [pool.stored_bytes for pool in inventory.pools if pool.stored_bytes is not None]
    yield Tile(
        title="Stored",
        unit=f"in {count_text(len(inventory.pools), 'pool')}",
        value=format_size(sum(stored)) if stored else "?",
        verdict="",
        note=f"{count_text(objects, 'object')}." if stored else "Not captured.",
    )


def _clean(inventory: CephInventory) -> str:
    """`144 of 144 placement groups active+clean`."""
    total = sum(state.count for state in inventory.pg_states)
    clean = sum(state.count for state in inventory.pg_states if state.state == "active+clean")
    return f"{clean:,} of {count_text(total, 'PG')} active+clean"


def _crush(inventory: CephInventory) -> Section:
    """The CRUSH tree next to the state of the cluster."""
    tree, level = draw_fill(inventory)
    osds = len(inventory.osds)
    grouped = f" of each {level} ({count_text(osds, 'OSD')})" if level != "OSD" else " of each OSD"
    heading = f"CRUSH tree, fill{grouped}"
    state = facts_table("state", state_rows(inventory)[1:])
    assert state, "the flags are always a row"
    parts = ((heading, (tree,)), ("State", (state,)))
    return section("Topology", "topology", Columns(parts=parts), result=_extent(inventory))


def state_rows(inventory: CephInventory) -> tuple[tuple[str, str], ...]:
    """Return the cluster and its state at the capture as (property, text)."""
    capacity, activity, pgs = inventory.capacity, inventory.activity, inventory.pgs_per_osd
    near_full, full = (share_text(one) for one in (capacity.near_full_ratio, capacity.full_ratio))
    states = [f"{state.count:,} {state.state}" for state in inventory.pg_states]
    down = [str(osd.id) for osd in inventory.osds if not osd.up]
    out = [str(osd.id) for osd in inventory.osds if not osd.is_in]
    spread = (
        f"{pgs.mean:,.1f} on average, {pgs.lowest:,} to {pgs.highest:,}, deviation "
        f"{pgs.deviation:.1f}"
        if pgs
        else _UNKNOWN
    )
    rows = [
        ("Ceph", headline(inventory)),
        ("placement groups", listed(states) or "none"),
        ("PGs per OSD", spread),
        ("limits", f"nearly full at {near_full}, full at {full}"),
        ("available", f"{format_size(capacity.available_bytes)} before replication"),
        ("OSDs down", listed(down, 12)),
        ("OSDs out", listed(out, 12)),
        ("client load", _load(inventory)),
        (
            "recovery",
            f"{format_bandwidth(activity.recovery_bytes_per_s)} MiB/s"
            if activity.recovery_bytes_per_s
            else "",
        ),
        ("created", inventory.created or ""),
        ("last OSD down", inventory.osd_down or ""),
        (
            "quorum unchanged for",
            "" if inventory.quorum_age_s is None else format_duration(inventory.quorum_age_s),
        ),
        ("balancer", inventory.balancer or _UNKNOWN),
        ("flags", ", ".join(inventory.flags) or "none"),
    ]
    return tuple((name, text) for name, text in rows if text)


def _load(inventory: CephInventory) -> str:
    activity = inventory.activity
    kinds = (
        ("reads/s", activity.client_read_iops, activity.client_read_bytes_per_s),
        ("writes/s", activity.client_write_iops, activity.client_write_bytes_per_s),
    )
    return ", ".join(
        f"{format_iops(iops)} {noun} ({format_bandwidth(rate)} MiB/s)"
        for noun, iops, rate in kinds
        if iops
    )


# --- encryption, daemons, settings ----------------------------------------------------------------

_WIRE = {
    Wire.SECURE: "encrypted (secure)",
    Wire.CRC: "not encrypted (crc)",
    Wire.SECURE_PREFERRED: "encrypted unless the peer requests crc (secure crc)",
    Wire.CRC_PREFERRED: "not encrypted unless the peer requires secure (crc secure)",
    Wire.UNKNOWN: "unknown: set in configuration files of daemons or clients",
}


def _encryption(inventory: CephInventory) -> Section:
    encryption, monitors = inventory.encryption, inventory.monitors
    osds = len(inventory.osds)
    at_rest = f"dm-crypt on {encryption.osds_with_dm_crypt} of {osds} OSDs"
    if encryption.osds_unknown:
        at_rest += f", unknown for {encryption.osds_unknown}: the cluster has no key of them"
    pairs = [
        ("between daemons", _mode(encryption.between_daemons)),
        ("clients to daemons", _mode(encryption.to_daemons)),
        ("asked by clients", _mode(encryption.of_clients)),
        ("at rest", at_rest),
    ]
    if monitors.v1 is not None:
        text = "offered too; it never encrypts" if monitors.v1 else "not offered"
        pairs.append(("old messenger (v1)", text))
    wire = _WIRE[encryption.between_daemons.wire].partition(" (")[0].partition(" unless")[0]
    result = f"{wire.partition(':')[0]} between daemons"
    shown = facts_table("encryption-facts", pairs)
    return section("Encryption", "encryption", shown, result=result)


def _mode(mode: WireMode) -> str:
    text = _WIRE[mode.wire]
    if mode.told_by:
        text += f", source {mode.told_by}"
    elif mode.configured:
        text += f"; the database has {mode.configured}"
    return text


def _daemons(inventory: CephInventory) -> Section:
    monitors, managers = inventory.monitors, inventory.managers
    lead = f", led by {monitors.leader}" if monitors.leader else ""
    quorum = f"{len(monitors.in_quorum)} of {len(monitors.names)} in quorum{lead}"
    manager = managers.active or ("available" if managers.available else "none active")
    standbys = "" if managers.standbys is None else f", {len(managers.standbys)} standing by"
    pairs = [("monitors", quorum), ("manager", manager + standbys)]
    for filesystem in inventory.filesystems or ():
        ranks = [f"rank {rank.rank} {rank.name} {rank.state}" for rank in filesystem.ranks]
        text = f"max_mds {filesystem.max_mds}: {listed(ranks) or 'no MDS'}"
        if filesystem.failed_ranks:
            text += f", failed ranks {listed(map(str, filesystem.failed_ranks))}"
        text += f"; {len(inventory.mds_standbys or ())} standing by"
        if filesystem.standby_replay:
            text += f", {filesystem.standby_replay} replaying"
        pairs.append((f"CephFS {filesystem.name}", text))
    pairs += _versions(inventory)
    result = (
        f"{len(monitors.in_quorum):,} of {count_text(len(monitors.names), 'monitor')} in quorum"
    )
    return section("Daemons", "daemons", facts_table("daemons-facts", pairs), result=result)


def _versions(inventory: CephInventory) -> list[tuple[str, str]]:
    """Format the versions in one line where all are the same, else in one per kind."""
    versions = inventory.versions
    if versions is None:
        return [("versions", _UNKNOWN)]
    if versions and not inventory.mixed_versions:
        total = sum(version.daemons for version in versions)
        kinds = listed(f"{version.daemons} {version.kind}" for version in versions)
        first = f"{versions[0].version} {versions[0].release}".rstrip()
        return [("versions", f"all {count_text(total, 'daemon')} on {first}: {kinds}")]
    pairs = []
    for kind in dict.fromkeys(version.kind for version in versions):
        of_kind = [version for version in versions if version.kind == kind]
        text = listed(
            f"{group.daemons} on {group.version} {group.release}".rstrip() for group in of_kind
        )
        pairs.append((f"{kind} versions", text))
    return pairs


_CONFIG_COLUMNS = ("for", "setting", "value")
# Paths of a lab or a container do not affect the cluster.
_PLUMBING = {
    "admin_socket", "chdir", "cluster_addr", "crash_dir", "daemonize", "err_to_stderr", "keyring",
    "log_file", "log_to_stderr", "mgr_data", "mon_cluster_log_file", "mon_data", "mon_host",
    "monmap", "no_config_file", "osd_data", "osd_journal", "pid_file", "public_addr", "run_dir",
    "setgroup", "setuser", "setuser_match_path",
}  # fmt: skip


def _configuration(inventory: CephInventory) -> Iterator[Section]:
    """The settings of the database, and folded those of files."""
    database = [
        (
            setting.section + (f" ({setting.mask})" if setting.mask else ""),
            setting.name,
            setting.value,
        )
        for setting in inventory.configuration or ()
    ]
    if database:
        settings = table("settings", _CONFIG_COLUMNS, database)
        heading = "Settings in the configuration database"
        yield section(heading, "settings", settings, result=f"{len(database):,}")
    files = [
        (f"{setting.daemon} ({setting.source})", setting.name, setting.value)
        for setting in _file_settings(inventory)
    ]
    if files:
        heading = "Settings from configuration files and commands"
        settings = table("settings", _CONFIG_COLUMNS, files)
        result = f"{len(files):,}"
        yield section(heading, "file-settings", settings, folded=True, result=result)


def _file_settings(inventory: CephInventory) -> list[FileSetting]:
    return [setting for setting in inventory.file_settings or () if setting.name not in _PLUMBING]


def _gaps(inventory: CephInventory, caveats: tuple[str, ...]) -> Section:
    """List what is unknown, and which dump would have it."""
    rows = [("assumed", caveat) for caveat in caveats]
    rows += [(gap.dump, gap.purpose) for gap in inventory.not_captured]
    settings = _file_settings(inventory)
    if settings:
        daemons = listed(sorted({setting.daemon for setting in settings}))
        count = count_text(len(settings), "setting")
        rows.append(("other daemons", f"{count} of {daemons} from files or commands (--full)"))
    shown = table("unknown", ("not captured", "unknown without it"), rows) if rows else None
    return section("Unknown", "unknown", shown, result=count_text(len(rows), "fact"))
