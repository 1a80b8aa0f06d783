"""A Ceph cluster's inventory, and the differences of two inventories, as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from leadline.inventory.ceph.autoscaler import Mode, Rule
from leadline.inventory.ceph.model import (
    CephInventory,
    Crypt,
    FileSetting,
    Osd,
    Pool,
    Wire,
    WireMode,
    notes,
    unfit,
)
from leadline.inventory.ceph.placement import (
    Placement,
    RootPlacement,
    compute_placement,
    explain_uneven,
    format_advice,
)
from leadline.inventory.diff import Differing
from leadline.report.cells import (
    bullets,
    known_pairs,
    number_column,
    records_table,
    section,
    table,
)
from leadline.report.document import Block, Column, Document, KeyValues, Section, Table
from leadline.report.pages.comparison.explanations import effect_texts
from leadline.report.words import NOT_SHOWN, count_text, listed, share_text
from leadline.text import counted
from leadline.units import format_bandwidth, format_iops, format_size


def pools_section(inventory: CephInventory) -> Section:
    pools = records_table(
        "pools",
        inventory.pools,
        (number_column("id", 5), lambda pool: pool.id),
        ("pool", lambda pool: pool.name),
        ("copies", _copies),
        (number_column("min", 3), lambda pool: pool.min_size),
        ("apart by", lambda pool: (pool.rule and pool.rule.failure_domain) or ""),
        (Column(title="root", rank=4), _root_name),
        (number_column("PGs"), _pgs),
        ("autoscale", _autoscale),
        (number_column("stored"), lambda pool: _size(pool.stored_bytes)),
        (number_column("used", 2), lambda pool: _size(pool.used_bytes)),
        ("for", _used_for),
    )
    return section("Pools", "pools", pools if inventory.pools else "There are none.")


def _size(size_bytes: int | None) -> str:
    return "" if size_bytes is None else format_size(size_bytes)


def _root_name(pool: Pool) -> str:
    rule = pool.rule
    if not rule or not rule.root:
        return ""
    return rule.root + (f"~{rule.device_class}" if rule.device_class else "")


def _pgs(pool: Pool) -> str:
    changes = f" to {pool.pg_num_target:,}" if pool.pg_num_target != pool.pg_num else ""
    return f"{pool.pg_num:,}{changes}"


def _copies(pool: Pool) -> str:
    """`rep 3`, `EC 2+1`."""
    if pool.erasure is None:
        return f"rep {pool.size}"
    return f"EC {pool.erasure.k}+{pool.erasure.m}"


def _autoscale(pool: Pool) -> str:
    text = pool.autoscale_mode.value if pool.autoscale_mode else NOT_SHOWN
    if pool.target_ratio:
        text += f", ratio {pool.target_ratio:g}"
    elif pool.target_bytes:
        text += f", {format_size(pool.target_bytes)}"
    if pool.bias != 1.0:
        text += f", bias {pool.bias:g}"
    return text + (", bulk" if pool.bulk else "")


def _used_for(pool: Pool) -> str:
    if pool.cephfs_role:
        text = f"cephfs {pool.cephfs_role.value}"
    else:
        text = listed(pool.applications) or "no application"
    if not pool.overwrites:
        text += ", append only"
    if pool.compression != "none":
        text += f", {pool.compression} compression"
    return text


_RULES = {
    Rule.WHOLE_BUDGET: "every pool takes its ratio of the whole budget (Nautilus to Octopus)",
    Rule.WHAT_IS_LEFT: "pools take their ratio of what is left, in the order of their ids "
    "(Pacific to Tentacle)",
    Rule.EAGER_LARGE: "pools take their ratio of what is left, in the order of their ids; growth "
    "to 512 and more needs less (Tentacle 20.2.1)",
}


def placement_section(inventory: CephInventory, placement: Placement) -> Section:
    """The autoscaler's computation per root."""
    blocks: list[Block | str | None] = []
    if placement.rule in _RULES:
        bulk = any(pool.bulk for pool in inventory.pools)
        last = "; pools with the bulk flag come last" if bulk else ""
        blocks.append(f"The rule: {_RULES[placement.rule]}{last}.")
    for root in placement.roots:
        blocks += _root(root)
    if inventory.autoscaler.no_autoscale:
        blocks.append("noautoscale is set: the autoscaler changes no pool.")
    elif inventory.pools and all(pool.autoscale_mode is Mode.OFF for pool in inventory.pools):
        blocks.append(
            "The autoscaler is off for every pool; the table shows its result if it were on."
        )
    if placement.compared:
        blocks.append(_agreement(placement))
    return section("Placement groups", "placement-groups", *blocks or ["There are no pools."])


def _root(root: RootPlacement) -> Iterator[Block | str | None]:
    settings = root.settings
    if root.unknown:
        yield f"Root {root.name} ({listed(pool.name for pool in root.pools)}): {root.unknown}."
        return
    yield (
        f"Root {root.name}: {count_text(settings.osds, 'OSD')} x "
        f"{settings.target_pg_per_osd} PGs wanted on each = a budget of {settings.budget:,} PG "
        f"replicas; its pools have {root.pg_replicas:,}, {root.pg_replicas / settings.osds:,.0f} "
        "an OSD."
    )
    yield records_table(
        f"advice-{root.name}",
        root.advice,
        ("pool", lambda advice: advice.pool.name),
        (number_column("ratio"), lambda advice: f"{advice.ratio:.4f}"),
        (number_column("x budget"), lambda advice: f"{advice.budget:,.0f}"),
        (number_column("/ size"), lambda advice: advice.pool.size),
        (number_column("x bias", 3), lambda advice: f"{advice.pool.bias:g}"),
        (
            number_column("= raw"),
            lambda advice: f"{advice.raw:,.{1 if advice.raw < 1000 else 0}f}",
        ),
        (number_column("pg_num"), lambda advice: f"{advice.final:,}"),
        (number_column("has"), lambda advice: f"{advice.pool.pg_num:,}"),
        ("outcome", lambda advice: advice.reason.value),
    )
    reason = explain_uneven(root)
    notes = [f"{reason}."] if reason else []
    yield bullets(
        notes
        + [
            f"{advice.pool.name}: {format_advice(advice, settings)}."
            for advice in root.advice
            if advice.acts
        ]
    )


def _agreement(placement: Placement) -> str:
    """Compare the computation with the answer of Ceph's manager."""
    if not placement.disagreements:
        pools = count_text(placement.compared, "pool")
        return f"`ceph osd pool autoscale-status` has the same pg_num for all {pools}."
    pools = listed(
        f"{pool.pool} {pool.theirs} (here {pool.ours})" for pool in placement.disagreements
    )
    return f"`ceph osd pool autoscale-status` differs for {pools}: trust Ceph."


_OSDS_SHOWN = 24
_UNKNOWN = "not captured"


def inventory_document(inventory: CephInventory, source: str) -> Document:
    """Build the inventory, the most important first; `source` names the origin of the dumps."""
    placement = compute_placement(inventory)
    sections = [
        pools_section(inventory),
        placement_section(inventory, placement),
        _crush(inventory),
        _encryption(inventory),
        _daemons(inventory),
        *_configuration(inventory),
    ]
    gaps = [*placement.caveats, *_gaps(inventory)]
    if gaps:
        items = bullets(f"{_capital(gap)}." for gap in gaps)
        sections.append(section("Unknown", "unknown", items))
    return Document(
        title=f"Ceph {_release(inventory)} · {inventory.health.value} · {_extent(inventory)}",
        subtitle=f"cluster {inventory.fsid} · {source}",
        summary=_summary(inventory),
        sections=tuple(sections),
    )


def _capital(text: str) -> str:
    """Capitalise a sentence, unless it starts with the name of an option."""
    word = text.partition(" ")[0]
    return text if "_" in word else text[:1].upper() + text[1:]


def _release(inventory: CephInventory) -> str:
    if inventory.version is None:
        return "of unknown release"
    mixed = ", mixed versions" if inventory.mixed_versions else ""
    return f"{inventory.version} {inventory.release or ''}".rstrip() + mixed


def _extent(inventory: CephInventory) -> str:
    """Format `24 OSDs in 6 hosts in 3 zones, 40 GiB`, without levels of one node."""
    text = count_text(len(inventory.osds), "OSD")
    counts: Counter[str] = Counter()
    for root in inventory.crush:
        for level in root.levels:
            counts[level.level] += level.count
    for name, number in reversed(counts.items()):
        if name not in ("osd", "root") and (number > 1 or name == "host"):
            text += f" in {counted(number, name)}"
    return f"{text}, {format_size(inventory.capacity.total_bytes)}"


def _summary(inventory: CephInventory) -> tuple[str, ...]:
    capacity, activity = inventory.capacity, inventory.activity
    found = []
    reason = unfit(inventory)
    if reason:
        found.append(f"Not fit for a measurement: {reason.fact}.")
    found += [f"{_capital(note)}." for note in notes(inventory)]
    share = capacity.used_bytes / capacity.total_bytes if capacity.total_bytes else 0.0
    found.append(
        f"{format_size(capacity.used_bytes)} used ({share_text(share)}), "
        f"{format_size(capacity.available_bytes)} available before replication; nearly full at "
        f"{capacity.near_full_ratio:.0%}, full at {capacity.full_ratio:.0%}."
    )
    down = [str(osd.id) for osd in inventory.osds if not osd.up]
    out = [str(osd.id) for osd in inventory.osds if not osd.is_in]
    found += [
        f"OSDs {what}: {listed(ids, 12)}." for what, ids in (("down", down), ("out", out)) if ids
    ]
    states = [f"{state.count:,} {state.state}" for state in inventory.pg_states]
    total = sum(state.count for state in inventory.pg_states)
    found.append(f"{count_text(total, 'placement group')}: {listed(states) or 'none'}.")
    reads, writes = activity.client_read_iops, activity.client_write_iops
    if reads or writes:
        found.append(
            f"Client load during the capture: {format_iops(reads)} reads/s "
            f"({format_bandwidth(activity.client_read_bytes_per_s)} MiB/s), {format_iops(writes)} "
            f"writes/s ({format_bandwidth(activity.client_write_bytes_per_s)} MiB/s)."
        )
    return tuple(found)


def _crush(inventory: CephInventory) -> Section:
    pairs = [
        (
            f"root {root.name}",
            " > ".join(counted(level.count, level.level) for level in root.levels[1:]),
        )
        for root in inventory.crush
    ]
    pgs = inventory.pgs_per_osd
    if pgs:
        text = f"{pgs.mean:,.1f} on average, {pgs.lowest:,} to {pgs.highest:,}"
        pairs.append(("PGs per OSD", f"{text}, deviation {pgs.deviation:.1f}"))
    pairs.append(("balancer", inventory.balancer or _UNKNOWN))
    pairs.append(("flags", ", ".join(inventory.flags) or "none"))
    osds = len(inventory.osds)
    shown = (
        _osd_table(inventory)
        if osds <= _OSDS_SHOWN
        else f"{osds:,} OSDs are not listed; --format json does."
    )
    return section("CRUSH and OSDs", "crush", KeyValues(pairs=tuple(pairs)), shown)


def _osd_table(inventory: CephInventory) -> Table:
    media = {True: "rotating", False: "flash", None: ""}
    return records_table(
        "osds",
        inventory.osds,
        ("osd", lambda osd: osd.id),
        ("where", lambda osd: " / ".join(place.name for place in osd.location[1:]) or "nowhere"),
        ("class", lambda osd: osd.device_class or ""),
        (Column(title="store", rank=2), lambda osd: osd.store or ""),
        (Column(title="medium", rank=3), lambda osd: media[osd.rotational]),
        ("state", _osd_state),
        (
            number_column("weight", 4),
            lambda osd: "" if osd.weight is None else f"{osd.weight:.3g}",
        ),
        (Column(title="dm-crypt", rank=5), lambda osd: "yes" if osd.dm_crypt is Crypt.YES else "?"),
        (number_column("size"), lambda osd: _size(osd.size_bytes)),
        (
            number_column("used"),
            lambda osd: "" if osd.utilisation is None else share_text(osd.utilisation),
        ),
        (number_column("PGs"), lambda osd: "" if osd.pgs is None else f"{osd.pgs:,}"),
    )


def _osd_state(osd: Osd) -> str:
    state = ("up" if osd.up else "down") + ("" if osd.is_in else ", out")
    if osd.reweight not in (0.0, 1.0):
        state += f", reweight {osd.reweight:.2f}"
    if osd.primary_affinity != 1.0:
        state += f", primary {osd.primary_affinity:.2f}"
    return state


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
    return section("Encryption", "encryption", known_pairs(pairs))


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
    return section("Daemons", "daemons", known_pairs(pairs))


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
        yield section("Settings in the configuration database", "settings", settings)
    files = [
        (f"{setting.daemon} ({setting.source})", setting.name, setting.value)
        for setting in _file_settings(inventory)
    ]
    if files:
        heading = "Settings from configuration files and commands"
        settings = table("settings", _CONFIG_COLUMNS, files)
        yield section(heading, "file-settings", settings, folded=True)


def _file_settings(inventory: CephInventory) -> list[FileSetting]:
    return [setting for setting in inventory.file_settings or () if setting.name not in _PLUMBING]


def _gaps(inventory: CephInventory) -> Iterator[str]:
    yield from (f"not captured: {gap.dump} ({gap.purpose})" for gap in inventory.not_captured)
    settings = _file_settings(inventory)
    if settings:
        daemons = listed(sorted({setting.daemon for setting in settings}))
        yield (
            f"{count_text(len(settings), 'setting')} of {daemons} come from configuration files or "
            "commands (--full lists them); other daemons may have others"
        )


def against_document(baseline: str, candidate: str, differing: Differing) -> Document:
    differences = differing.differences
    explained = (
        f"{difference.path}: "
        f"{' '.join((*filter(None, [difference.meaning]), *effect_texts(difference)))}"
        for difference in differences
        if difference.meaning or difference.explains
    )
    table = records_table(
        "differences",
        differences,
        (Column(title="topic", rank=1), lambda difference: difference.topic.value),
        ("what", lambda difference: difference.path),
        ("baseline", lambda difference: difference.baseline),
        ("this", lambda difference: difference.candidate),
        filterable=len(differences) > 25,
    )
    sections = (
        section(
            "Configuration differences",
            "differences",
            table if differences else "No known difference.",
        ),
        section("Explanation", "explains", bullets(explained)),
        section("Identical", "identical", bullets(differing.identical)),
        section("Unknown", "unknown", bullets(differing.unknown)),
    )
    return Document(
        title=f"{count_text(len(differences), 'difference')} of {candidate} from {baseline}",
        subtitle=f"baseline {baseline}",
        summary=_against_summary(differing),
        sections=tuple(part for part in sections if part.blocks),
    )


def _against_summary(differing: Differing) -> tuple[str, ...]:
    topics = dict.fromkeys(difference.topic.value for difference in differing.differences)
    sentences = [f"Differences in {listed(topics, 12)}."] if topics else ["No differences."]
    if differing.unknown:
        facts = count_text(len(differing.unknown), "fact")
        sentences.append(f"{facts} unknown for one of the two.")
    return tuple(sentences)
