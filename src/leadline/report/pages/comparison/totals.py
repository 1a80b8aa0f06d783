"""Read vs write, sequential vs random, scorecards, and the two systems of a comparison."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.verdicts import Verdict
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.inventory.ceph.model import CephInventory, Osd
from leadline.inventory.diff.host import format_layers
from leadline.metrics import Metric, Op
from leadline.report.cells import word
from leadline.report.document import (
    Block,
    Branch,
    Bullets,
    Cell,
    Column,
    Columns,
    KeyValues,
    Kind,
    Paragraph,
    Table,
    Tree,
)
from leadline.report.pages.comparison.tables import change_and_verdict, leveled_cells, nothing
from leadline.report.pages.comparison.takeaways import rates
from leadline.report.pages.inventory import inventory_document
from leadline.report.pages.inventory_kubernetes import kubernetes_document
from leadline.report.pages.run.conditions import engine_texts, moment
from leadline.report.words import (
    NOT_SHOWN,
    OP_NOUNS,
    change_text,
    count_text,
    judged,
    listed,
    ratios,
    short,
)
from leadline.units import format_size


def read_write_table(comparison: Comparison) -> Table | None:
    """Build the changes of reads and of writes for each target; None where no cell has both."""
    found: dict[tuple[str, str, str], dict[tuple[Op | None, bool], ComparedCell]] = {}
    for one in comparison.cells:
        if one.rate or one.metric is Metric.LATENCY_P99:
            at = found.setdefault((one.target, one.workload, one.level), {})
            at[one.op, one.rate] = one
    both = {
        key: at for key, at in found.items() if (Op.READ, True) in at and (Op.WRITE, True) in at
    }
    if not both:
        return None
    leveled = leveled_cells(one for at in both.values() for one in at.values())
    tails = any(not rate for at in both.values() for _, rate in at)
    totals = any(op is Op.TOTAL for at in both.values() for op, _ in at)
    asked: list[tuple[Op, bool, str]] = [(Op.READ, True, "read"), (Op.WRITE, True, "write")]
    asked += [(Op.TOTAL, True, "total")] if totals else []
    asked += [(Op.READ, False, "read p99"), (Op.WRITE, False, "write p99")] if tails else []
    columns = [Column(title="target"), Column(title="workload")]
    columns += [Column(title="level")] if leveled else []
    for number, (_, _, title) in enumerate(asked):
        columns.append(Column(title=title, kind=Kind.NUMBER, rank=number))
        columns.append(Column(title="verdict", rank=number + 1))
    rows = []
    for (target, workload, level), at in both.items():
        row = [word(target), word(workload), *([word(level)] if leveled else [])]
        for op, rate, _ in asked:
            found_cell = at.get((op, rate))
            row += change_and_verdict(found_cell)
        rows.append(tuple(row))
    return Table(
        id="read-write",
        caption="Change of reads and of writes",
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=True,
    )


def patterns_table(comparison: Comparison, pattern: Callable[[ComparedCell], str]) -> Table | None:
    """Build sequential vs random by operation; None with a single pattern."""
    cells = rates(comparison)
    groups: dict[tuple[str, Op], list[ComparedCell]] = {}
    for one in cells:
        if one.op is not None and pattern(one):
            groups.setdefault((pattern(one), one.op), []).append(one)
    if len({kind for kind, _ in groups}) < 2:
        return None
    rows = [
        (word(kind), word(OP_NOUNS[op]), *_tally(group), _range(group))
        for (kind, op), group in sorted(groups.items())
    ]
    return Table(
        id="patterns",
        caption="Sequential vs random",
        columns=(
            Column(title="pattern"),
            Column(title="op"),
            *_TALLY_COLUMNS,
            Column(title="change", kind=Kind.NUMBER, unit="of conclusive cells"),
        ),
        rows=tuple(rows),
    )


_TALLY_COLUMNS = tuple(
    Column(title=verdict.value, kind=Kind.NUMBER, unit="cells", rank=rank)
    for verdict, rank in (
        (Verdict.BETTER, 0),
        (Verdict.SAME, 0),
        (Verdict.WORSE, 0),
        (Verdict.INCONCLUSIVE, 1),
        (Verdict.NOT_COMPARABLE, 2),
    )
)


def _tally(cells: Sequence[ComparedCell]) -> list[Cell]:
    order = (
        Verdict.BETTER,
        Verdict.SAME,
        Verdict.WORSE,
        Verdict.INCONCLUSIVE,
        Verdict.NOT_COMPARABLE,
    )
    counts = [sum(one.verdict is verdict for one in cells) for verdict in order]
    return [Cell(text=f"{count:,}" if count else NOT_SHOWN, sort=float(count)) for count in counts]


def _range(cells: Sequence[ComparedCell]) -> Cell:
    found = sorted(ratios(judged(cells)))
    if not found:
        return nothing("no cell has a verdict")
    texts = list(dict.fromkeys((change_text(found[0]), change_text(found[-1]))))
    return Cell(text=" to ".join(texts), sort=found[0])


def scorecard(
    anchor: str, comparison: Comparison, subject: Callable[[ComparedCell], str], title: str
) -> Table:
    """Build the verdicts by target or workload, for targets with the geometric mean of the ratios
    if every cell has one that the audit accepts."""
    groups: dict[str, list[ComparedCell]] = {}
    for one in rates(comparison):
        groups.setdefault(subject(one), []).append(one)
    columns = list(dict.fromkeys((one.workload, one.level, one.op) for one in rates(comparison)))
    by_target = title == "target"
    rows = []
    for name, group in groups.items():
        mean = [_mean(group, len(columns))] if by_target else []
        rows.append((word(name), *_tally(group), _range(group), *mean))
    return Table(
        id=anchor,
        caption=f"By {title}",
        columns=(
            Column(title=title),
            *_TALLY_COLUMNS,
            Column(title="change", kind=Kind.NUMBER, unit="of conclusive cells", rank=1),
            *((Column(title="mean change", kind=Kind.NUMBER, rank=1),) if by_target else ()),
        ),
        rows=tuple(rows),
        filterable=len(rows) > 12,
    )


def _mean(cells: Sequence[ComparedCell], wanted: int) -> Cell:
    """Compute the geometric mean of the ratios, without totals whose parts are listed."""
    parts = {(one.target, one.workload, one.level) for one in cells if one.op is not Op.TOTAL}
    chosen = [
        one
        for one in cells
        if one.op is not Op.TOTAL or (one.target, one.workload, one.level) not in parts
    ]
    usable = [
        one
        for one in chosen
        if one.judgement.ratio is not None
        and one.verdict is not Verdict.NOT_COMPARABLE
        and not _refused(one)
    ]
    if len(usable) < len(chosen) or len(cells) < wanted or not usable:
        lacking = max(len(chosen) - len(usable), 0) + max(wanted - len(cells), 0)
        return nothing(f"incomplete: {lacking} of its cells are not comparable")
    logs = [math.log(one.judgement.ratio) for one in usable if one.judgement.ratio]
    ratio = math.exp(sum(logs) / len(logs))
    unsure = sum(one.verdict is Verdict.INCONCLUSIVE for one in usable)
    note = f"over {len(logs)} cells" + (f", {unsure} of them inconclusive" if unsure else "")
    return Cell(text=change_text(ratio), sort=ratio, note=note)


def _refused(cell: ComparedCell) -> bool:
    return any(
        figure is not None and figure.severity is Severity.ERROR
        for figure in (cell.baseline, cell.candidate)
    )


# --- the two systems -----------------------------------------------------------------------------

# Busy share from which the cores are the limit. The share is of whole trials: starting and ending
# the engine takes about a tenth of one.
BUSY = 0.80
_LEAVES = 12
_PATHS = 3
_Key = tuple[str, str, str, Op | None]


def columns_block(comparison: Comparison) -> Columns:
    """Build one column per system."""
    sides = (comparison.baseline, comparison.candidate)
    return Columns(
        parts=tuple((short(side.name), tuple(_side(side, comparison.by))) for side in sides)
    )


def _side(side: Side, by: By) -> Iterable[Block]:
    run, plan = side.run, side.run.plan
    host = run.inventory("start")
    pairs = [
        ("run", run.id),
        ("measured" if not plan.imported else "imported", moment(run.manifest.created_at)),
    ]
    label = run.manifest.cluster_label
    if label:
        pairs.append(("cluster", label))
    if by in (By.TARGET, By.LABEL):
        pairs.append(("targets", listed(side.targets.values())))
    if host:
        pairs.append(("load generator", host.hostname))
        pairs.append(("its system", f"{host.operating_system}, kernel {host.kernel}"))
        cores = count_text(host.cores, "core")
        pairs.append(("its processor", f"{host.cpu_model}, {cores}"))
        pairs.append(("its memory", format_size(host.memory_bytes)))
    below = _below(side)
    if below:
        pairs.append(("below the targets", below))
    pairs.append(("engine", engine_texts(run) or "not recorded"))
    named = plan.description or plan.name or "not named"
    profiles = f", profile {listed(plan.profiles)}" if plan.profiles else ""
    pairs.append(("plan", named + profiles))
    if not plan.imported:
        pairs.append(("repeats", f"{plan.repeats:,}, in random order by seed {plan.seed}"))
    yield KeyValues(pairs=tuple(pairs))
    if plan.imported:
        yield Paragraph(text="Imported: only recorded properties of the system are known.")
    names = dict.fromkeys(plan.target(name).cluster for name in side.targets.values())
    for name in names:
        if name:
            yield from _cluster(side, name)


def _below(side: Side) -> str:
    """Word the layers below the targets, each I/O path once; empty if unknown."""
    try:
        stacks = side.run.stacks
    except LeadlineError:
        return ""  # the run's own page reports it
    ways = dict.fromkeys(
        format_layers(stacks[name]) for name in side.targets.values() if name in stacks
    )
    more = len(ways) - _PATHS
    shown = "; ".join(list(ways)[:_PATHS])
    return f"{shown}; {more} more" if more > 0 else shown


def _cluster(side: Side, name: str) -> Iterable[Block]:
    try:
        around = side.run.kubernetes("start", name)
        inventory = side.run.cluster("start", name)
    except LeadlineError as error:
        yield Paragraph(text=f"The inventory of {name} cannot be read: {error.fact}.")
        return
    if around is not None:
        document = kubernetes_document(around, "")
        yield Bullets(items=(document.title, *document.summary))
        # Without the table, whose anchor would be on the page twice.
        classes = document.sections[0].blocks
        yield from (block for block in classes if isinstance(block, KeyValues))
    if inventory is None:
        if around is not None:
            return
        yield Paragraph(text=f"The archive holds no inventory of {name}.")
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
        roots.append(Branch(label="outside the tree", below=tuple(_leaves(nowhere))))
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
            label=f"{level} {name}",
            note=count_text(len(inside), "OSD"),
            below=(*_branches(deeper, depth + 1), *_leaves(here)),
        )


def _leaves(osds: Sequence[Osd]) -> Iterable[Branch]:
    alike: dict[tuple[str, str, str], list[int]] = {}
    for osd in osds:
        size = "" if osd.size_bytes is None else format_size(osd.size_bytes)
        state = "" if osd.up and osd.is_in else "down" if not osd.up else "out"
        alike.setdefault((osd.device_class or "", size, state), []).append(osd.id)
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
    """Return the busy share of the load generator's cores by cell, the larger of both systems; the
    median over trials. Empty if not recorded."""
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
    """Word the number of cells where the load generator's cores were the limit."""
    busy = sum(share >= BUSY for share in shares.values())
    if not busy:
        return ""
    return (
        f"In {busy:,} of {count_text(len(shares), 'cell')} the load generator's CPU was at least "
        f"{BUSY:.0%} busy: the client is the limit, and the storage may be faster."
    )
