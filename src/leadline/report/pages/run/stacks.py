"""What lies below the targets of a run: their layers, and how ZFS was configured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.formats.zfs.status import VdevGroup
from leadline.inventory.diff.host import layer_words, value_text
from leadline.inventory.layer import Layer, LayerKind
from leadline.inventory.zfs import (
    PARAMETERS_PARAMETERS,
    PROPERTIES,
    ZfsInventory,
    ZfsPool,
    zfs_inventory,
)
from leadline.report.cells import word
from leadline.report.document import (
    Block,
    Branch,
    Bullets,
    Cell,
    Column,
    KeyValues,
    Paragraph,
    Section,
    Table,
    Tree,
)
from leadline.report.words import NOT_SHOWN, listed
from leadline.text import percent
from leadline.units import format_size

# Facts that are told in other columns, or say where rather than what.
_LEFT_OUT = ("type", "size_bytes", "connection", "admin_socket", "mount_point", "offset_bytes")
_SHOWN_NAMES = 4


def stack_sections(run: Run) -> tuple[Section, ...]:
    """None for a run of which nothing is known."""
    try:
        stacks = run.stacks
        zfs = _zfs(run, stacks)
    except LeadlineError as error:
        text = f"What lies below the targets cannot be read: {error.fact}."
        return (_section((Paragraph(text=text),), ()),)
    if not stacks:
        return ()
    return (_section((_layers(stacks),), tuple(_zfs_sections(zfs))),)


def _section(blocks: tuple[Block, ...], sections: tuple[Section, ...]) -> Section:
    return Section(
        heading="What lies below the targets",
        id="stacks",
        blocks=blocks,
        sections=sections,
        folded=True,
    )


def _zfs(run: Run, stacks: Mapping[str, tuple[Layer, ...]]) -> dict[str, ZfsInventory]:
    found = {}
    for target in stacks:
        told = zfs_inventory(run.target_dumps(target))
        if told is not None:
            found[target] = told
    return found


# --- layers --------------------------------------------------------------------------------------


def _layers(stacks: Mapping[str, tuple[Layer, ...]]) -> Table:
    """A row for each layer, from the top down; targets that lie on the same share rows."""
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
                    word(shown),
                    Cell(text=str(depth), sort=float(depth)),
                    word(layer_words(layer)),
                    word(_name(layer)),
                    word(", ".join(layer.devices) or NOT_SHOWN),
                    word(_facts(layer)),
                )
            )
    titles = ("target", "layer", "what", "name", "devices", "as configured")
    return Table(
        id="layers-below",
        caption="Layers from the top down",
        columns=tuple(Column(title=title) for title in titles),
        rows=tuple(rows),
    )


def _name(layer: Layer) -> str:
    """Of a file system, which is what its kind is called, the place where it is mounted."""
    if layer.kind is LayerKind.FILESYSTEM:
        return layer.facts.get("mount_point", layer.name)
    return layer.name


def _facts(layer: Layer) -> str:
    texts = []
    for key, value in layer.facts.items():
        if key in _LEFT_OUT:
            continue
        named = key.removesuffix("_bytes").replace("_", " ")
        sized = key.endswith("_bytes") and value.isascii() and value.isdecimal()
        texts.append(f"{named} {format_size(int(value)) if sized else value}")
    return ", ".join(texts) or NOT_SHOWN


# --- ZFS -----------------------------------------------------------------------------------------


def _zfs_sections(found: Mapping[str, ZfsInventory]) -> Iterable[Section]:
    if not found:
        return
    first = next(iter(found.values()))
    pools = {one.pool.name: one.pool for one in found.values() if one.pool is not None}
    blocks: list[Block] = [KeyValues(pairs=tuple(_release(first)))]
    for pool in pools.values():
        blocks.append(KeyValues(pairs=tuple(_pool(pool))))
        if pool.vdevs:
            blocks.append(_vdevs(pool))
    if any(one.dataset is not None for one in found.values()):
        blocks.append(_datasets(found))
    if first.parameters:
        blocks.append(_parameters(first))
    unread = dict.fromkeys(reason for one in found.values() for reason in one.unread)
    if unread:
        blocks.append(
            Bullets(items=tuple(f"not told: {one}" for one in list(unread)[:_SHOWN_NAMES]))
        )
    yield Section(heading="ZFS", id="zfs", blocks=tuple(blocks))


def _release(told: ZfsInventory) -> Iterable[tuple[str, str]]:
    kernel = told.implementation == "kernel"
    yield "implementation", "OpenZFS in the kernel" if kernel else "zfs-fuse, in user space"
    yield "version", told.version or "not told"


def _pool(pool: ZfsPool) -> Iterable[tuple[str, str]]:
    yield "pool", pool.name
    yield "vdevs", pool.layout or "not told"
    texts = (
        ("version", pool.version),
        ("health", pool.health),
        ("ashift", "" if pool.ashift is None else f"{pool.ashift} ({1 << pool.ashift} bytes)"),
        ("size", "" if pool.size_bytes is None else format_size(pool.size_bytes)),
        ("used", "" if pool.capacity_share is None else percent(pool.capacity_share)),
        (
            "fragmentation of free room",
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
            one = rows[index]
            if one.depth < depth:
                break
            if one.depth > depth:
                continue
            group = "" if one.group is VdevGroup.DATA or depth > 1 else f"{one.group.value}: "
            note = "" if one.state in ("ONLINE", "AVAIL") else one.state
            label = group + one.name
            branches.append(Branch(label=label, note=note, below=below(index + 1, depth + 1)))
        return tuple(branches)

    return Tree(caption=f"Vdevs of {pool.name}", roots=below(0, 0))


def _datasets(found: Mapping[str, ZfsInventory]) -> Table:
    """A row for each dataset; a column for each property that any of them tells."""
    datasets = {target: one.dataset for target, one in found.items() if one.dataset is not None}
    known = [
        one
        for one in PROPERTIES
        if any(dataset.value(one.name) not in ("", "-") for dataset in datasets.values())
    ]
    rows = []
    for target, dataset in datasets.items():
        cells = [word(target), word(dataset.name)]
        for one in known:
            value = dataset.value(one.name)
            given = dataset.properties.get(one.name)
            sized = one.size and value.isascii() and value.isdecimal() and int(value) > 0
            shown = format_size(int(value)) if sized else value
            cells.append(
                Cell(
                    text=shown or NOT_SHOWN,
                    sort=float(value) if sized else shown,
                    note=f"{one.label}: {given.source}" if given else "",
                )
            )
        rows.append(tuple(cells))
    columns = ("target", "dataset", *(one.name for one in known))
    return Table(
        id="datasets",
        caption="Properties of the datasets that bear on I/O",
        columns=tuple(Column(title=title, rank=max(0, at - 5)) for at, title in enumerate(columns)),
        rows=tuple(rows),
    )


def _parameters(told: ZfsInventory) -> Table:
    """Those of the module that bear on I/O, what was changed first."""
    rows = []
    for one in PARAMETERS_PARAMETERS:
        value = told.parameters.get(one.name)
        if value is None:
            continue
        changed = one.changed(value, told.version)
        default = one.default(told.version)
        usual = value_text(one, str(default)) if default is not None else one.computed
        texts = (one.name, value_text(one, value), usual or NOT_SHOWN)
        state = "changed" if changed else "default" if default is not None else NOT_SHOWN
        cells = (*map(word, texts), word(state), word(one.does), word(one.evidence))
        rows.append((not changed, cells))
    titles = (
        "parameter",
        "value",
        "default",
        "state",
        "what it does",
        "what shows whether it limits",
    )
    return Table(
        id="zfs-parameters",
        caption="Parameters of the module that bear on I/O",
        columns=tuple(Column(title=title, rank=max(0, at - 1)) for at, title in enumerate(titles)),
        rows=tuple(cells for _, cells in sorted(rows, key=lambda row: row[0])),
    )
