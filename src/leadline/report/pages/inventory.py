"""A Ceph cluster's inventory, and the differences of two inventories, as documents."""

from __future__ import annotations

from leadline.inventory.ceph.autoscaler import Mode, PoolAdvice, Rule
from leadline.inventory.ceph.model import CephInventory, Crypt, Pool, Wire, WireMode, notes, unfit
from leadline.inventory.ceph.placement import (
    Placement,
    RootPlacement,
    compute_placement,
    explain_uneven,
    format_advice,
)
from leadline.inventory.diff import Differing
from leadline.report.cells import number_column, table
from leadline.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    KeyValues,
    Paragraph,
    Section,
    Table,
)
from leadline.report.pages.comparison.explanations import effect_texts
from leadline.report.words import count_text, listed, share_text
from leadline.text import counted
from leadline.units import format_bandwidth, format_iops, format_size

_POOL_COLUMNS = (
    number_column("id", 5),
    "pool",
    "copies",
    number_column("min", 3),
    "apart by",
    Column(title="root", rank=4),
    number_column("PGs"),
    "autoscale",
    number_column("stored"),
    number_column("used", 2),
    "for",
)


def pools_section(inventory: CephInventory) -> Section:
    if not inventory.pools:
        return Section(heading="Pools", id="pools", blocks=(Paragraph(text="There are none."),))
    pools = table("pools", _POOL_COLUMNS, map(_pool, inventory.pools))
    return Section(heading="Pools", id="pools", blocks=(pools,))


def _pool(pool: Pool) -> tuple[str, ...]:
    rule = pool.rule
    root = "–"
    if rule and rule.root:
        root = rule.root + (f"~{rule.device_class}" if rule.device_class else "")
    pgs = f"{pool.pg_num:,}"
    if pool.pg_num_target != pool.pg_num:
        pgs += f" to {pool.pg_num_target:,}"
    return (
        str(pool.id),
        pool.name,
        _copies(pool),
        str(pool.min_size),
        (rule.failure_domain if rule else None) or "–",
        root,
        pgs,
        _autoscale(pool),
        "–" if pool.stored_bytes is None else format_size(pool.stored_bytes),
        "–" if pool.used_bytes is None else format_size(pool.used_bytes),
        _used_for(pool),
    )


def _copies(pool: Pool) -> str:
    """`rep 3`, `EC 2+1`."""
    if pool.erasure is None:
        return f"rep {pool.size}"
    return f"EC {pool.erasure.k}+{pool.erasure.m}"


def _autoscale(pool: Pool) -> str:
    text = pool.autoscale_mode.value if pool.autoscale_mode else "–"
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

_ADVICE_COLUMNS = (
    "pool",
    number_column("ratio"),
    number_column("x budget"),
    number_column("/ size"),
    number_column("x bias", 3),
    number_column("= raw"),
    number_column("pg_num"),
    number_column("has"),
    "outcome",
)


def placement_section(inventory: CephInventory, placement: Placement) -> Section:
    """Show the autoscaler's computation per root."""
    blocks: list[Block] = []
    if placement.rule in _RULES:
        bulk = any(pool.bulk for pool in inventory.pools)
        last = "; pools with the bulk flag come last" if bulk else ""
        blocks.append(Paragraph(text=f"The rule: {_RULES[placement.rule]}{last}."))
    for root in placement.roots:
        blocks += _root(root)
    if inventory.autoscaler.no_autoscale:
        blocks.append(Paragraph(text="noautoscale is set: the autoscaler changes no pool."))
    elif inventory.pools and all(pool.autoscale_mode is Mode.OFF for pool in inventory.pools):
        text = "The autoscaler is off for every pool; the table shows its result if it were on."
        blocks.append(Paragraph(text=text))
    verdict = _agreement(placement)
    if verdict:
        blocks.append(Paragraph(text=verdict))
    if not blocks:
        blocks.append(Paragraph(text="There are no pools."))
    return Section(heading="Placement groups", id="placement-groups", blocks=tuple(blocks))


def _root(root: RootPlacement) -> list[Block]:
    settings = root.settings
    pools = listed(pool.name for pool in root.pools)
    if root.unknown:
        return [Paragraph(text=f"Root {root.name} ({pools}): {root.unknown}.")]
    text = (
        f"Root {root.name}: {count_text(settings.osds, 'OSD')} x "
        f"{settings.target_pg_per_osd} PGs wanted on each = a budget of {settings.budget:,} PG "
        f"replicas; its pools have {root.pg_replicas:,}, {root.pg_replicas / settings.osds:,.0f} "
        "an OSD."
    )
    advice_table = table(f"advice-{root.name}", _ADVICE_COLUMNS, map(_advice, root.advice))
    reason = explain_uneven(root)
    notes = [f"{reason}."] if reason else []
    notes += [
        f"{advice.pool.name}: {format_advice(advice, settings)}."
        for advice in root.advice
        if advice.acts
    ]
    return [Paragraph(text=text), advice_table, *([Bullets(items=tuple(notes))] if notes else [])]


def _advice(one: PoolAdvice) -> tuple[str, ...]:
    raw = f"{one.raw:,.1f}" if one.raw < 1000 else f"{one.raw:,.0f}"
    return (
        one.pool.name,
        f"{one.ratio:.4f}",
        f"{one.budget:,.0f}",
        str(one.pool.size),
        f"{one.pool.bias:g}",
        raw,
        f"{one.final:,}",
        f"{one.pool.pg_num:,}",
        one.reason.value,
    )


def _agreement(placement: Placement) -> str | None:
    """Compare the computation with the answer of Ceph's manager."""
    if not placement.compared:
        return None
    if not placement.disagreements:
        return (
            f"`ceph osd pool autoscale-status` has the same pg_num for all "
            f"{count_text(placement.compared, 'pool')}."
        )
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
        items = tuple(f"{_capital(gap)}." for gap in gaps)
        sections.append(Section(heading="Unknown", id="unknown", blocks=(Bullets(items=items),)))
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
    counts: dict[str, int] = {}
    for root in inventory.crush:
        for level in root.levels:
            counts[level.level] = counts.get(level.level, 0) + level.count
    order = [level.level for root in inventory.crush for level in root.levels]
    for name in reversed(list(dict.fromkeys(order))):
        if name not in ("osd", "root") and (counts[name] > 1 or name == "host"):
            text += f" in {counted(counts[name], name)}"
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
    down = [osd.id for osd in inventory.osds if not osd.up]
    out = [osd.id for osd in inventory.osds if not osd.is_in]
    for what, ids in (("down", down), ("out", out)):
        if ids:
            found.append(f"OSDs {what}: {listed((str(one) for one in ids), 12)}.")
    states = [f"{one.count:,} {one.state}" for one in inventory.pg_states]
    total = sum(one.count for one in inventory.pg_states)
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
    blocks: list[KeyValues | Table | Paragraph] = [KeyValues(pairs=tuple(pairs))]
    if len(inventory.osds) <= _OSDS_SHOWN:
        blocks.append(_osd_table(inventory))
    else:
        blocks.append(
            Paragraph(text=f"{len(inventory.osds):,} OSDs are not listed; --format json does.")
        )
    return Section(heading="CRUSH and OSDs", id="crush", blocks=tuple(blocks))


_OSD_COLUMNS = (
    "osd",
    "where",
    "class",
    Column(title="store", rank=2),
    Column(title="medium", rank=3),
    "state",
    number_column("weight", 4),
    Column(title="dm-crypt", rank=5),
    number_column("size"),
    number_column("used"),
    number_column("PGs"),
)


def _osd_table(inventory: CephInventory) -> Table:
    rows = []
    for osd in inventory.osds:
        where = " / ".join(place.name for place in osd.location[1:])
        state = ("up" if osd.up else "down") + ("" if osd.is_in else ", out")
        if osd.reweight not in (0.0, 1.0):
            state += f", reweight {osd.reweight:.2f}"
        if osd.primary_affinity != 1.0:
            state += f", primary {osd.primary_affinity:.2f}"
        medium = {True: "rotating", False: "flash", None: "–"}[osd.rotational]
        rows.append(
            (
                str(osd.id),
                where or "nowhere",
                osd.device_class or "",
                osd.store or "",
                medium,
                state,
                "" if osd.weight is None else f"{osd.weight:.3g}",
                "yes" if osd.dm_crypt is Crypt.YES else "?",
                "" if osd.size_bytes is None else format_size(osd.size_bytes),
                "" if osd.utilisation is None else share_text(osd.utilisation),
                "" if osd.pgs is None else f"{osd.pgs:,}",
            )
        )
    return table("osds", _OSD_COLUMNS, rows)


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
    return Section(heading="Encryption", id="encryption", blocks=(KeyValues(pairs=tuple(pairs)),))


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
    for one in inventory.filesystems or ():
        ranks = [f"rank {rank.rank} {rank.name} {rank.state}" for rank in one.ranks]
        failed = f", failed ranks {listed(map(str, one.failed_ranks))}" if one.failed_ranks else ""
        text = f"max_mds {one.max_mds}: {listed(ranks) or 'no MDS'}{failed}"
        text += f"; {len(inventory.mds_standbys or ())} standing by"
        if one.standby_replay:
            text += f", {one.standby_replay} replaying"
        pairs.append((f"CephFS {one.name}", text))
    pairs += _versions(inventory)
    return Section(heading="Daemons", id="daemons", blocks=(KeyValues(pairs=tuple(pairs)),))


def _versions(inventory: CephInventory) -> list[tuple[str, str]]:
    """Format the versions in one line where all are the same, else in one per kind."""
    versions = inventory.versions
    if versions is None:
        return [("versions", _UNKNOWN)]
    if versions and not inventory.mixed_versions:
        total = sum(one.daemons for one in versions)
        kinds = listed(f"{one.daemons} {one.kind}" for one in versions)
        first = f"{versions[0].version} {versions[0].release}".rstrip()
        return [("versions", f"all {count_text(total, 'daemon')} on {first}: {kinds}")]
    pairs = []
    for kind in dict.fromkeys(one.kind for one in versions):
        of_kind = [one for one in versions if one.kind == kind]
        text = listed(f"{one.daemons} on {one.version} {one.release}".rstrip() for one in of_kind)
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


def _configuration(inventory: CephInventory) -> list[Section]:
    """The settings of the database, and folded those of files."""
    database = [
        (one.section + (f" ({one.mask})" if one.mask else ""), one.name, one.value)
        for one in inventory.configuration or ()
    ]
    files = [
        (f"{one.daemon} ({one.source})", one.name, one.value)
        for one in inventory.file_settings or ()
        if one.name not in _PLUMBING
    ]
    sections = []
    if database:
        heading = "Settings in the configuration database"
        sections.append(
            Section(
                heading=heading,
                id="settings",
                blocks=(table("settings", _CONFIG_COLUMNS, database),),
            )
        )
    if files:
        heading = "Settings from configuration files and commands"
        blocks = (table("settings", _CONFIG_COLUMNS, files),)
        sections.append(Section(heading=heading, id="file-settings", blocks=blocks, folded=True))
    return sections


def _gaps(inventory: CephInventory) -> list[str]:
    found = [f"not captured: {one.dump} ({one.purpose})" for one in inventory.not_captured]
    if inventory.file_settings is not None:
        shown = [one for one in inventory.file_settings if one.name not in _PLUMBING]
        daemons = sorted({one.daemon for one in shown})
        if daemons:
            found.append(
                f"{count_text(len(shown), 'setting')} of {listed(daemons)} come from configuration "
                "files or commands (--full lists them); other daemons may have others"
            )
    return found


def against_document(baseline: str, candidate: str, differing: Differing) -> Document:
    """Show differences of two inventories, their explanations, and what is unknown."""
    number = len(differing.differences)
    blocks: tuple[Block, ...] = (
        (_table(differing),) if number else (Paragraph(text="No known difference."),)
    )
    sections = [Section(heading="Configuration differences", id="differences", blocks=blocks)]
    explained = tuple(
        f"{one.path}: {' '.join((*filter(None, [one.meaning]), *effect_texts(one)))}"
        for one in differing.differences
        if one.meaning or one.explains
    )
    for heading, anchor, items in (
        ("Explanation", "explains", explained),
        ("Identical", "identical", tuple(differing.identical)),
        ("Unknown", "unknown", tuple(differing.unknown)),
    ):
        if items:
            block = Bullets(items=tuple(items))
            sections.append(Section(heading=heading, id=anchor, blocks=(block,)))
    what = f"{candidate} from {baseline}"
    return Document(
        title=f"{count_text(number, 'difference')} of {what}",
        subtitle=f"baseline {baseline}",
        summary=_against_summary(differing),
        sections=tuple(sections),
    )


def _against_summary(differing: Differing) -> tuple[str, ...]:
    topics = dict.fromkeys(one.topic.value for one in differing.differences)
    sentences = [f"Differences in {listed(topics, 12)}."] if topics else ["No differences."]
    if differing.unknown:
        facts = count_text(len(differing.unknown), "fact")
        sentences.append(f"{facts} unknown for one of the two.")
    return tuple(sentences)


def _table(differing: Differing) -> Table:
    rows = [
        (difference.topic.value, difference.path, difference.baseline, difference.candidate)
        for difference in differing.differences
    ]
    columns = (Column(title="topic", rank=1), "what", "baseline", "this")
    return table("differences", columns, rows, filterable=len(rows) > 25)
