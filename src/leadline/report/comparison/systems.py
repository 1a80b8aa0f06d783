"""The two sides beside each other: what measured, what was measured, and the CRUSH trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from leadline.analysis.comparison import By, Comparison, Side
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory, Osd
from leadline.inventory.differences.layers import way
from leadline.metrics import Op
from leadline.report.change_words import short
from leadline.report.conditions import engine_texts, moment
from leadline.report.document import (
    Block,
    Branch,
    Bullets,
    Columns,
    KeyValues,
    Paragraph,
    Tree,
)
from leadline.report.inventory.kubernetes import kubernetes_document
from leadline.report.inventory.page import inventory_document
from leadline.report.wording import count_text, listed, visible
from leadline.units import format_size

# From here on the cores are what limits. The share is that of whole trials, of which starting and
# ending the engine take about a tenth.
BUSY = 0.80
_LEAVES = 12
_WAYS = 3
_Key = tuple[str, str, str, Op | None]


def columns_block(comparison: Comparison) -> Columns:
    """Each side under its name."""
    sides = (comparison.baseline, comparison.candidate)
    return Columns(
        parts=tuple((short(side.name), tuple(_side(side, comparison.by))) for side in sides)
    )


def _side(side: Side, by: By) -> Iterable[Block]:
    run, plan = side.run, side.run.plan
    host = run.inventory("start")
    pairs = [
        ("run", visible(run.id)),
        ("measured" if not plan.imported else "imported", moment(run.manifest.created_at)),
    ]
    label = run.manifest.cluster_label
    if label:
        pairs.append(("cluster", visible(label)))
    if by in (By.TARGET, By.LABEL):
        pairs.append(("targets", visible(listed(side.targets.values()))))
    if host:
        pairs.append(("load generator", visible(host.hostname)))
        pairs.append(("its system", visible(f"{host.operating_system}, kernel {host.kernel}")))
        cores = count_text(host.cores, "core")
        pairs.append(("its processor", visible(f"{host.cpu_model}, {cores}")))
        pairs.append(("its memory", format_size(host.memory_bytes)))
    below = _below(side)
    if below:
        pairs.append(("below the targets", below))
    pairs.append(("engine", engine_texts(run) or "not recorded"))
    named = visible(plan.description) or visible(plan.name) or "not named"
    profiles = f", profile {visible(listed(plan.profiles))}" if plan.profiles else ""
    pairs.append(("plan", named + profiles))
    if not plan.imported:
        pairs.append(("repeats", f"{plan.repeats:,}, in random order by seed {plan.seed}"))
    yield KeyValues(pairs=tuple(pairs))
    if plan.imported:
        yield Paragraph(
            text="Others measured this; what they did not write down of the system is not known."
        )
    names = dict.fromkeys(plan.target(name).cluster for name in side.targets.values())
    for name in names:
        if name:
            yield from _cluster(side, name)


def _below(side: Side) -> str:
    """The layers below the side's targets in words, each way once; empty where none is known."""
    try:
        stacks = side.run.stacks
    except LeadlineError:
        return ""  # the run's own page says so
    ways = dict.fromkeys(way(stacks[name]) for name in side.targets.values() if name in stacks)
    more = len(ways) - _WAYS
    shown = "; ".join(list(ways)[:_WAYS])
    return f"{shown}; {more} more" if more > 0 else shown


def _cluster(side: Side, name: str) -> Iterable[Block]:
    try:
        around = side.run.kubernetes("start", name)
        inventory = side.run.cluster("start", name)
    except LeadlineError as error:
        yield Paragraph(
            text=f"The inventory of {visible(name)} cannot be read: {visible(error.fact)}."
        )
        return
    if around is not None:
        document = kubernetes_document(around, "")
        yield Bullets(items=(document.title, *document.summary))
        # Without the table, which would have the same anchor on both sides.
        classes = document.sections[0].blocks
        yield from (block for block in classes if isinstance(block, KeyValues))
    if inventory is None:
        if around is not None:
            return
        yield Paragraph(text=f"The archive holds no inventory of {visible(name)}.")
        return
    document = inventory_document(inventory, "")
    yield Bullets(items=(document.title, *document.summary))
    yield crush_tree(inventory)


# --- CRUSH trees --------------------------------------------------------------------------------


def crush_tree(inventory: CephInventory) -> Tree:
    """Root > zone > rack > host > OSDs; OSDs of one bucket that are alike share a leaf."""
    placed = [osd for osd in inventory.osds if osd.location]
    nowhere = [osd for osd in inventory.osds if not osd.location]
    roots = list(_branches(placed, 0))
    if nowhere:
        roots.append(Branch(label="outside of the tree", below=tuple(_leaves(nowhere))))
    return Tree(caption="CRUSH", roots=tuple(roots))


def _branches(osds: Sequence[Osd], depth: int) -> Iterable[Branch]:
    below: dict[tuple[str, str], list[Osd]] = {}
    for osd in osds:
        place = osd.location[depth]
        below.setdefault((place.level, place.name), []).append(osd)
    for (level, name), inside in below.items():
        deeper = [osd for osd in inside if len(osd.location) > depth + 1]
        here = [osd for osd in inside if len(osd.location) == depth + 1]
        yield Branch(
            label=f"{visible(level)} {visible(name)}",
            note=count_text(len(inside), "OSD"),
            below=(*_branches(deeper, depth + 1), *_leaves(here)),
        )


def _leaves(osds: Sequence[Osd]) -> Iterable[Branch]:
    alike: dict[tuple[str, str, str], list[int]] = {}
    for osd in osds:
        size = "" if osd.size_bytes is None else format_size(osd.size_bytes)
        state = "" if osd.up and osd.is_in else "down" if not osd.up else "out"
        alike.setdefault((visible(osd.device_class or ""), size, state), []).append(osd.id)
    shown = list(alike.items())
    for (device_class, size, state), ids in shown[:_LEAVES]:
        label = f"osd.{_ranges(ids)}"
        count = f"{len(ids):,} " if len(ids) > 1 else ""
        yield Branch(
            label=label,
            note=" ".join(filter(None, (f"{count}{device_class}".strip(), size, state))),
        )
    rest = [number for _, ids in shown[_LEAVES:] for number in ids]
    if rest:
        yield Branch(label=f"{count_text(len(rest), 'more OSD')} of other sizes")


def _ranges(ids: Sequence[int]) -> str:
    """`0-7, 9`."""
    spans: list[list[int]] = []
    for number in sorted(ids):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in spans]
    return listed(texts, 12).replace(" and ", ", ")


# --- the load generator -------------------------------------------------------------------------


def busy_shares(comparison: Comparison) -> Mapping[_Key, float]:
    """For each compared cell the larger share of its load generator's cores that was busy, the
    median over a side's trials; empty where nothing recorded it."""
    found: dict[_Key, float] = {}
    for side, which in ((comparison.baseline, 0), (comparison.candidate, 1)):
        shares = _busy(side)
        if not shares:
            continue
        for one in comparison.cells:
            cell = (one.baseline_cell, one.candidate_cell)[which]
            if cell is None:
                continue
            share = shares.get((cell.target, cell.planned_workload, cell.level))
            if share is not None:
                key = (one.target, one.workload, one.level, one.op)
                found[key] = max(share, found.get(key, 0.0))
    return found


def _busy(side: Side) -> Mapping[tuple[str, str, str], float]:
    shares: dict[tuple[str, str, str], list[float]] = {}
    names = set(side.targets.values())
    for trial in side.run.trials:
        record = trial.record
        completed = record.status is TrialStatus.COMPLETED and record.target in names
        if completed and record.processor is not None:
            key = (record.target, record.workload, record.level)
            shares.setdefault(key, []).append(record.processor.busy_share)
    return {key: median(values) for key, values in shares.items()}


def busy_text(shares: Mapping[_Key, float]) -> str:
    """That the cores were the limit, with the number of rows; empty where they were not."""
    busy = sum(share >= BUSY for share in shares.values())
    if not busy:
        return ""
    return (
        f"In {busy:,} of {count_text(len(shares), 'cell')} the load generator's cores were busy "
        f"{BUSY:.0%} of the time or more: there the processor is the limit, and the change says "
        "less of the storage."
    )
