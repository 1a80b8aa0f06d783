"""The systems of a run: its clusters, the layers below its targets, and their ZFS."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.formats.zfs.status import VdevGroup
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.diff.host import format_layer, format_parameter
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import (
    ZfsInventory,
    ZfsPool,
    dataset_properties,
    zfs_inventory,
    zfs_parameters,
)
from leadline.report.cells import facts_table, quantity, slug, table, word
from leadline.report.document import (
    Block,
    Branch,
    Bullets,
    Cell,
    Column,
    Columns,
    KeyValues,
    Paragraph,
    Section,
    Table,
    Tree,
)
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.inventory_kubernetes import kubernetes_document
from leadline.report.words import NOT_SHOWN, listed
from leadline.text import percent
from leadline.units import format_latency, format_size

# Facts of other columns, or about the place alone.
_LEFT_OUT = (
    "type",
    "size_bytes",
    "block_name_prefix",
    "connection",
    "admin_socket",
    "mount_point",
    "offset_bytes",
)
_SHOWN_NAMES = 4


def system_sections(run: Run) -> tuple[Section, ...]:
    """A folded section for each cluster, as it was at the start of the run."""
    sections = (_section(run, cluster.name) for cluster in run.plan.clusters)
    return tuple(section for section in sections if section is not None)


def left_out_section(run: Run) -> tuple[Section, ...]:
    """List the optional targets that could not be used, if any."""
    rows = [(target.target, target.reason or "not recorded") for target in run.plan.left_out]
    if not rows:
        return ()
    reasons = table("left-out", ("target", "reason"), rows)
    return (Section(heading="Left out", id="targets-left-out", blocks=(reasons,)),)


def _section(run: Run, name: str) -> Section | None:
    anchor = f"cluster-{slug(name)}"
    heading = f"Cluster {name}"
    blocks: list[Block] = []
    facts = [*_lab_facts(_lab(run, name))]
    source = f"at the start of {run.id}"
    try:
        around = run.kubernetes("start", name)
        start, end = run.cluster("start", name), run.cluster("end", name)
    except LeadlineError as error:
        blocks.append(Paragraph(text=f"Its inventory cannot be read: {error.fact}."))
        return Section(heading=heading, id=anchor, blocks=tuple(blocks), folded=True)
    if around is not None:
        document = kubernetes_document(around, source)
    elif start is not None:
        document = inventory_document(start, source)
    else:
        if run.plan.cluster(name).facts is not None:
            return None  # the section of its facts has all that is known
        blocks.append(Paragraph(text="The archive holds no inventory of it."))
        return Section(heading=heading, id=anchor, blocks=tuple(blocks), folded=True)
    facts = [("system", document.summary[0]), *facts]
    facts += [("warning", text) for text in document.summary[1:]]
    facts += [("at the end", text) for text in (_since(start, end) if start is not None else ())]
    known = facts_table("known", facts)
    whole = Section(
        heading=heading,
        id=anchor,
        blocks=(known,) if known else (),
        sections=tuple(section for section in document.sections if not section.folded),
    )
    return replace(_named(whole, anchor), id=anchor, folded=True)


def _since(start: CephInventory, end: CephInventory | None) -> tuple[str, ...]:
    """List changes of a cluster during the run."""
    if end is None:
        return ("no inventory was taken",)
    changed = []
    if end.health is not start.health:
        codes = ", ".join(check.code for check in end.checks)
        changed.append(f"health {end.health.value} ({codes}), was {start.health.value}")
    for what, before, after in (
        ("OSDs up", sum(osd.up for osd in start.osds), sum(osd.up for osd in end.osds)),
        ("OSDs in", sum(osd.is_in for osd in start.osds), sum(osd.is_in for osd in end.osds)),
        ("placement groups", _pgs(start), _pgs(end)),
    ):
        if before != after:
            changed.append(f"{after} {what}, were {before}")
    return tuple(changed) or ("same health, OSDs and placement groups",)


def _pgs(inventory: CephInventory) -> int:
    return sum(pool.pg_num for pool in inventory.pools)


def _lab(run: Run, name: str) -> dict[str, Any]:
    """Read the description of a lab; empty for any other cluster."""
    raw = run.system_dumps("start", name).get("lab.json")
    try:
        description = json.loads(raw) if raw else {}
    except ValueError:
        return {}
    return description if isinstance(description, dict) else {}


def _lab_facts(lab: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what a lab is; nothing of another cluster."""
    if not lab:
        return
    description = lab.get("description", {})
    shared = "shares its processors with the load: for differences, not for the speed of hardware"
    yield "lab", shared
    yield "topology", f"{description.get('topology')}, store {description.get('store')}"
    cores = description.get("cpu_per_host")
    if isinstance(cores, int | float):
        yield "processor quota", f"{cores:g} cores for the OSDs of each host"
    for key in ("network_note", "cephfs_note"):
        if lab.get(key):
            yield key.removesuffix("_note"), lab[key]
    trips = [
        f"{trip['source']} to {trip['destination']} {format_latency(trip['median_s'])}"
        for trip in lab.get("round_trips", ())
    ]
    yield "round trips at start (median)", ", ".join(trips)


def _named(section: Section, prefix: str) -> Section:
    """The section with anchors that no other cluster's section has."""
    return replace(
        section,
        id=f"{prefix}-{section.id}",
        blocks=tuple(_renamed(block, prefix) for block in section.blocks),
        sections=tuple(_named(part, prefix) for part in section.sections),
        folded=False,
    )


def _renamed(block: Block, prefix: str) -> Block:
    if isinstance(block, Columns):
        parts = (
            (heading, tuple(_renamed(inner, prefix) for inner in blocks))
            for heading, blocks in block.parts
        )
        return replace(block, parts=tuple(parts))
    return replace(block, id=f"{prefix}-{block.id}") if isinstance(block, Table) else block


def stack_sections(run: Run) -> tuple[Section, ...]:
    """Build the section on the layers below the targets; none where they are unknown."""
    try:
        stacks = run.stacks
        zfs = _zfs(run, stacks)
    except LeadlineError as error:
        text = f"The layers below the targets cannot be read: {error.fact}."
        return (_layers_section((Paragraph(text=text),), ()),)
    if not stacks:
        return ()
    return (_layers_section((_layer_table(stacks),), tuple(_zfs_sections(zfs))),)


def _layers_section(blocks: tuple[Block, ...], sections: tuple[Section, ...]) -> Section:
    return Section(
        heading="Layers below the targets",
        id="stacks",
        blocks=blocks,
        sections=sections,
        folded=True,
    )


def _zfs(run: Run, stacks: Mapping[str, tuple[Layer, ...]]) -> dict[str, ZfsInventory]:
    found = {}
    for target in stacks:
        inventory = zfs_inventory(run.target_dumps(target))
        if inventory is not None:
            found[target] = inventory
    return found


def _layer_table(stacks: Mapping[str, tuple[Layer, ...]]) -> Table:
    """Build a row for each layer, from the top down; targets on the same layers share rows."""
    sharing: dict[str, list[str]] = {}
    for target, layers in stacks.items():
        key = "\n".join(layer.model_dump_json() for layer in layers)
        sharing.setdefault(key, []).append(target)
    rows = []
    for targets in sharing.values():
        shown = listed(targets[:_SHOWN_NAMES])
        if len(targets) > _SHOWN_NAMES:
            shown += f" and {len(targets) - _SHOWN_NAMES} more"
        for depth, layer in enumerate(stacks[targets[0]], start=1):
            rows.append(
                (
                    shown,
                    quantity(str(depth), depth),
                    format_layer(layer),
                    _layer_name(layer),
                    ", ".join(layer.devices),
                    _layer_facts(layer),
                )
            )
    titles = ("target", "layer", "what", "name", "devices", "as configured")
    return table("layers-below", titles, rows, caption="Layers from the top down")


def _layer_name(layer: Layer) -> str:
    """Name a layer; a file system by its mount point."""
    if layer.kind is LayerKind.FILESYSTEM:
        return layer.facts.get("mount_point", layer.name)
    return layer.name


def _layer_facts(layer: Layer) -> str:
    texts = []
    for key, value in layer.facts.items():
        if key in _LEFT_OUT:
            continue
        named = key.removesuffix("_bytes").replace("_", " ")
        sized = key.endswith("_bytes") and value.isascii() and value.isdecimal()
        texts.append(f"{named} {format_size(int(value)) if sized else value}")
    return ", ".join(texts) or NOT_SHOWN


def _zfs_sections(found: Mapping[str, ZfsInventory]) -> Iterable[Section]:
    if not found:
        return
    first = next(iter(found.values()))
    pools = {system.pool.name: system.pool for system in found.values() if system.pool is not None}
    blocks: list[Block] = [KeyValues(pairs=tuple(_release(first)))]
    for pool in pools.values():
        blocks.append(KeyValues(pairs=tuple(_pool(pool))))
        if pool.vdevs:
            blocks.append(_vdevs(pool))
    if any(system.dataset is not None for system in found.values()):
        blocks.append(_datasets(found))
    if first.parameters:
        blocks.append(_parameters(first))
    unread = dict.fromkeys(reason for system in found.values() for reason in system.unread)
    if unread:
        blocks.append(
            Bullets(items=tuple(f"unknown: {reason}" for reason in list(unread)[:_SHOWN_NAMES]))
        )
    yield Section(heading="ZFS", id="zfs", blocks=tuple(blocks))


def _release(inventory: ZfsInventory) -> Iterable[tuple[str, str]]:
    kernel = inventory.implementation == "kernel"
    yield "implementation", "OpenZFS in the kernel" if kernel else "zfs-fuse, in user space"
    yield "version", inventory.version or "unknown"


def _pool(pool: ZfsPool) -> Iterable[tuple[str, str]]:
    yield "pool", pool.name
    yield "vdevs", pool.layout or "unknown"
    texts = (
        ("version", pool.version),
        ("health", pool.health),
        ("ashift", ", ".join(f"{ashift} ({1 << ashift} bytes)" for ashift in pool.ashifts)),
        ("size", "" if pool.size_bytes is None else format_size(pool.size_bytes)),
        ("used", "" if pool.capacity_share is None else percent(pool.capacity_share)),
        (
            "fragmentation of free space",
            "" if pool.fragmentation_share is None else percent(pool.fragmentation_share),
        ),
        ("autotrim", pool.autotrim),
        ("scan", pool.scan),
        ("errors", "" if pool.errors == "No known data errors" else pool.errors),
    )
    yield from ((key, value) for key, value in texts if value)


def _vdevs(pool: ZfsPool) -> Tree:
    rows = list(pool.vdevs)

    def below(at: int, depth: int) -> tuple[Branch, ...]:
        branches = []
        for index in range(at, len(rows)):
            vdev = rows[index]
            if vdev.depth < depth:
                break
            if vdev.depth > depth:
                continue
            group = "" if vdev.group is VdevGroup.DATA or depth > 1 else f"{vdev.group.value}: "
            note = "" if vdev.state in ("ONLINE", "AVAIL") else vdev.state
            label = group + vdev.name
            branches.append(Branch(label=label, note=note, below=below(index + 1, depth + 1)))
        return tuple(branches)

    return Tree(caption=f"Vdevs of {pool.name}", roots=below(0, 0))


def _datasets(found: Mapping[str, ZfsInventory]) -> Table:
    """Build a row for each dataset and a column for each property that one of them has."""
    datasets = {
        target: system.dataset for target, system in found.items() if system.dataset is not None
    }
    known = [
        dataset_property
        for dataset_property in dataset_properties()
        if any(
            dataset.value(dataset_property.name) not in ("", "-") for dataset in datasets.values()
        )
    ]
    rows = []
    for target, dataset in datasets.items():
        cells = [word(target), word(dataset.name)]
        for column in known:
            value = dataset.value(column.name)
            given = dataset.properties.get(column.name)
            sized = column.size and value.isascii() and value.isdecimal() and int(value) > 0
            shown = format_size(int(value)) if sized else value
            cells.append(
                Cell(
                    text=shown or NOT_SHOWN,
                    sort=float(value) if sized else shown,
                    note=f"{column.label}: {given.source}" if given else "",
                )
            )
        rows.append(tuple(cells))
    titles = ("target", "dataset", *(column.name for column in known))
    columns = (Column(title=title, rank=max(0, at - 5)) for at, title in enumerate(titles))
    caption = "Properties of the datasets that affect I/O"
    return table("datasets", columns, rows, caption=caption)


def _parameters(inventory: ZfsInventory) -> Table:
    """Build a table of the module parameters that affect I/O, changed ones first."""
    rows = []
    for zfs_parameter in zfs_parameters():
        value = inventory.parameters.get(zfs_parameter.name)
        if value is None:
            continue
        changed = zfs_parameter.changed(value, inventory.version)
        default = zfs_parameter.default(inventory.version)
        usual = (
            format_parameter(zfs_parameter, str(default))
            if default is not None
            else zfs_parameter.computed
        )
        state = "changed" if changed else "default" if default is not None else ""
        cells = (
            zfs_parameter.name,
            format_parameter(zfs_parameter, value),
            usual,
            state,
            zfs_parameter.does,
            zfs_parameter.evidence,
        )
        rows.append((not changed, cells))
    titles = ("parameter", "value", "default", "state", "effect", "evidence of a limit")
    columns = (Column(title=title, rank=max(0, at - 1)) for at, title in enumerate(titles))
    ordered = (cells for _, cells in sorted(rows, key=lambda row: row[0]))
    caption = "Parameters of the module that affect I/O"
    return table("zfs-parameters", columns, ordered, caption=caption)
