"""Read vs write, sequential vs random, scorecards, and the two systems of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from leadline.analysis.comparison import By, ComparedCell, Comparison, Side
from leadline.analysis.verdicts import Verdict
from leadline.archive.records import Processor, TrialStatus
from leadline.errors import LeadlineError
from leadline.findings import Severity
from leadline.inventory.diff.host import format_layers
from leadline.metrics import Metric, Op
from leadline.report.cells import absent, number_column, quantity, table, word
from leadline.report.document import (
    SYSTEM_HUES,
    Bar,
    BarChart,
    BarGroup,
    Cell,
    Column,
    Kind,
    Scale,
    Table,
)
from leadline.report.pages.comparison.changes import CellKey, change_and_verdict, key_of
from leadline.report.pages.comparison.charts import leveled_cells
from leadline.report.pages.comparison.explanations import range_text
from leadline.report.pages.comparison.headline import having, rates
from leadline.report.pages.inventory import state_rows
from leadline.report.pages.inventory_kubernetes import kubernetes_rows
from leadline.report.pages.run.charts import keep_largest, value_axis
from leadline.report.pages.run.conditions import engine_texts, moment
from leadline.report.words import (
    NOT_SHOWN,
    OP_NOUNS,
    change_text,
    count_text,
    judged,
    level_name,
    listed,
    place,
    ratios,
    short,
)
from leadline.units import format_iops, format_latency, format_size


def read_write_table(comparison: Comparison) -> Table | None:
    """Build the changes of reads and of writes for each target; None where no cell has both."""
    found: dict[tuple[str, str, str], dict[tuple[Op | None, bool], ComparedCell]] = {}
    for cell in comparison.cells:
        if cell.rate or cell.metric is Metric.LATENCY_P99:
            own = found.setdefault((cell.target, cell.workload, cell.level), {})
            own[cell.op, cell.rate] = cell
    both = {
        key: own for key, own in found.items() if {(Op.READ, True), (Op.WRITE, True)} <= own.keys()
    }
    if not both:
        return None
    known = {key for own in both.values() for key in own}
    shown: list[tuple[Op, bool, str]] = [(Op.READ, True, "read"), (Op.WRITE, True, "write")]
    if any(op is Op.TOTAL for op, _ in known):
        shown.append((Op.TOTAL, True, "total"))
    if any(not rate for _, rate in known):
        shown += [(Op.READ, False, "read p99"), (Op.WRITE, False, "write p99")]
    leveled = leveled_cells([cell for own in both.values() for cell in own.values()])
    columns: list[str | Column] = ["target", "workload", *(["level"] if leveled else [])]
    for number, (_, _, title) in enumerate(shown):
        columns += [number_column(title, number), Column(title="verdict", rank=number + 1)]
    rows = []
    for key, own in both.items():
        row = [word(level_name(name)) for name in key[: 2 + leveled]]
        for op, rate, _ in shown:
            row += change_and_verdict(own.get((op, rate)))
        rows.append(row)
    caption = "Change of reads and of writes"
    return table("read-write", columns, rows, caption=caption, filterable=True)


def patterns_table(comparison: Comparison, pattern: Callable[[ComparedCell], str]) -> Table | None:
    """Build sequential vs random by operation; None with a single pattern."""
    groups: dict[tuple[str, Op], list[ComparedCell]] = {}
    for cell in rates(comparison):
        if cell.op is not None and pattern(cell):
            groups.setdefault((pattern(cell), cell.op), []).append(cell)
    if len({kind for kind, _ in groups}) < 2:
        return None
    rows = [
        (kind, OP_NOUNS[op], *_tally(group), _range(group))
        for (kind, op), group in sorted(groups.items())
    ]
    change = Column(title="change", kind=Kind.NUMBER, unit="of conclusive cells")
    columns: list[str | Column] = ["pattern", "op", *_TALLY_COLUMNS, change]
    return table("patterns", columns, rows, caption="Sequential vs random")


_TALLY_RANKS = {
    Verdict.BETTER: 0,
    Verdict.SAME: 0,
    Verdict.WORSE: 0,
    Verdict.INCONCLUSIVE: 1,
    Verdict.NOT_COMPARABLE: 2,
}
_TALLY_COLUMNS = tuple(
    Column(title=verdict.value, kind=Kind.NUMBER, unit="cells", rank=rank)
    for verdict, rank in _TALLY_RANKS.items()
)


def _tally(cells: Sequence[ComparedCell]) -> list[Cell]:
    counts = [len(having(cells, verdict)) for verdict in _TALLY_RANKS]
    return [quantity(f"{count:,}" if count else NOT_SHOWN, count) for count in counts]


def _range(cells: Sequence[ComparedCell]) -> Cell:
    found = ratios(judged(cells))
    if not found:
        return absent("no cell has a verdict")
    low, high = min(found), max(found)
    return quantity(range_text(change_text(low), change_text(high)), low)


def scorecard(
    anchor: str, comparison: Comparison, subject: Callable[[ComparedCell], str], title: str
) -> Table:
    """Build the verdicts by target or workload, for targets with the geometric mean of the ratios
    if every cell has one that the audit accepts."""
    cells = rates(comparison)
    groups: dict[str, list[ComparedCell]] = {}
    for cell in cells:
        groups.setdefault(subject(cell), []).append(cell)
    wanted = len({(cell.workload, cell.level, cell.op) for cell in cells})
    change = Column(title="change", kind=Kind.NUMBER, unit="of conclusive cells", rank=1)
    columns: list[str | Column] = [title, *_TALLY_COLUMNS, change]
    rows = [[word(name), *_tally(group), _range(group)] for name, group in groups.items()]
    if title == "target":
        columns.append(number_column("mean change", 1))
        for row, group in zip(rows, groups.values(), strict=True):
            row.append(_mean(group, wanted))
    return table(anchor, columns, rows, caption=f"By {title}", filterable=len(rows) > 12)


def _mean(cells: Sequence[ComparedCell], wanted: int) -> Cell:
    """Compute the geometric mean of the ratios, without totals whose parts are listed."""
    parts = {(cell.target, cell.workload, cell.level) for cell in cells if cell.op is not Op.TOTAL}
    chosen = [
        cell
        for cell in cells
        if cell.op is not Op.TOTAL or (cell.target, cell.workload, cell.level) not in parts
    ]
    usable = [
        cell
        for cell in chosen
        if cell.judgement.ratio is not None
        and cell.verdict is not Verdict.NOT_COMPARABLE
        and not _refused(cell)
    ]
    lacking = len(chosen) - len(usable) + max(wanted - len(cells), 0)
    if lacking or not usable:
        return absent(f"incomplete: {lacking} of its cells are not comparable")
    ratio = geometric_mean(ratios(usable))
    unsure = len(having(usable, Verdict.INCONCLUSIVE))
    note = f"over {len(usable)} cells" + (f", {unsure} of them inconclusive" if unsure else "")
    return Cell(text=change_text(ratio), sort=ratio, note=note)


def _refused(cell: ComparedCell) -> bool:
    return any(
        figure is not None and figure.severity is Severity.ERROR
        for figure in (cell.baseline, cell.candidate)
    )


# --- the two systems -----------------------------------------------------------------------------

# Target, workload and level.
_Work = tuple[str, str, str]
_PATHS = 3


def systems_table(comparison: Comparison) -> Table:
    """Build a row for each property and a column for each system."""
    sides = (comparison.baseline, comparison.candidate)
    known = [dict(_properties(side, comparison.by)) for side in sides]
    names = [
        name for name in dict.fromkeys((*known[0], *known[1])) if any(k.get(name) for k in known)
    ]
    rows = ((name, *(own.get(name, "") for own in known)) for name in names)
    return table("systems-table", ("", *(short(side.name) for side in sides)), rows)


def _properties(side: Side, by: By) -> Iterable[tuple[str, str]]:
    """Yield (property, text); a text is empty where the property is unknown."""
    run, plan = side.run, side.run.plan
    host = run.inventory("start")
    yield "runs" if side.repeats else "run", listed(run.id for run in side.runs)
    yield "imported" if plan.imported else "measured", moment(run.manifest.created_at)
    yield "cluster", run.manifest.cluster_label
    yield "targets", listed(side.targets.values()) if by in (By.TARGET, By.LABEL) else ""
    if host:
        yield "load generator", host.hostname
        yield "its system", f"{host.operating_system}, kernel {host.kernel}"
        yield "its processor", f"{host.cpu_model}, {count_text(host.cores, 'core')}"
        yield "its memory", format_size(host.memory_bytes)
    yield "below the targets", _below(side)
    yield "engine", engine_texts(run) or "not recorded"
    profiles = f", profile {listed(plan.profiles)}" if plan.profiles else ""
    yield "plan", f"{plan.description or plan.name or 'not named'}{profiles}"
    if plan.imported:
        yield "inventory", "only recorded properties are known"
    else:
        yield "repeats", f"{plan.repeats:,}, in random order by seed {plan.seed}"
    for name in dict.fromkeys(plan.target(target).cluster for target in side.targets.values()):
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


def _cluster(side: Side, name: str) -> Iterable[tuple[str, str]]:
    try:
        around = side.run.kubernetes("start", name)
        inventory = side.run.cluster("start", name)
    except LeadlineError as error:
        yield "inventory", f"The inventory of {name} cannot be read: {error.fact}."
        return
    rows = [
        *(kubernetes_rows(around) if around is not None else ()),
        *(state_rows(inventory) if inventory is not None else ()),
    ]
    if not rows:
        yield "inventory", f"The archive holds no inventory of {name}."
    yield from rows


# --- the load generator -------------------------------------------------------------------------


def busy_shares(comparison: Comparison) -> Mapping[CellKey, float]:
    """Return the busy share of the load generator's cores by cell, the larger of both systems; the
    median over trials. Empty if not recorded."""
    found: dict[CellKey, float] = {}
    base, other = _busy(comparison.baseline), _busy(comparison.candidate)
    for cell in comparison.cells:
        for shares, row in ((base, cell.baseline_cell), (other, cell.candidate_cell)):
            share = shares.get((row.target, row.planned_workload, row.level)) if row else None
            if share is not None:
                found[key_of(cell)] = max(share, found.get(key_of(cell), 0.0))
    return found


def _busy(side: Side) -> Mapping[_Work, float]:
    shares: dict[_Work, list[float]] = {}
    for key, _, processor in _processors(side):
        shares.setdefault(key, []).append(processor.busy_share)
    return {key: median(values) for key, values in shares.items()}


def _processors(side: Side) -> Iterable[tuple[_Work, str, Processor]]:
    """Yield (target, workload and level; trial; processor) of the completed trials."""
    names = set(side.targets.values())
    for part in side.parts:
        for trial in part.run.trials:
            record = trial.record
            completed = record.status is TrialStatus.COMPLETED and record.target in names
            if completed and record.processor is not None:
                name = f"{part.run.id}:{record.trial}" if side.repeats else record.trial
                yield (record.target, record.workload, record.level), name, record.processor


# Rows of the chart; those with the most processor time.
_MOST_WORK = 24


def processor_chart(comparison: Comparison) -> BarChart | None:
    """Chart the processor time of the load generator's machine for each I/O, the median over
    trials: busy cores / IOPS of all operations. None where it was not recorded.

    In a lab the machine also runs the storage.
    """
    sides = (comparison.baseline, comparison.candidate)
    measured = [_work_done(side, number, comparison) for number, side in enumerate(sides)]
    works = dict.fromkeys((cell.target, cell.workload, cell.level) for cell in comparison.cells)
    known = [work for work in works if all(work in own for own in measured)]
    if not known:
        return None
    shown = keep_largest(known, lambda work: max(own[work].cpu_s for own in measured), _MOST_WORK)
    rest = f", {len(shown)} of {len(known):,}" if len(shown) < len(known) else ""
    several = len({workload for _, workload, _ in shown}) > 1
    times = [own[work].cpu_s for own in measured for work in shown]
    low, high, ticks = value_axis(Metric.LATENCY_MEAN, times)
    return BarChart(
        id="processor-time",
        title=f"Processor time of the load generator's machine for each I/O{rest}",
        series=(short(sides[0].name), short(sides[1].name)),
        hues=SYSTEM_HUES,
        scale=Scale(title="busy cores / IOPS", log=False, low=low, high=high, ticks=ticks),
        groups=tuple(
            BarGroup(
                label=place(short(work[0]), short(work[1]) if several else "", work[2]),
                bars=tuple(
                    Bar(series=number, value=own[work].cpu_s, text=own[work].text)
                    for number, own in enumerate(measured)
                ),
            )
            for work in shown
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkDone:
    """Medians over trials: processor time for each I/O, busy share of all cores, IOPS."""

    cpu_s: float
    busy_share: float
    iops: float

    @property
    def text(self) -> str:
        """`804 us at 1,296 IOPS, 65 % busy`."""
        busy = f"{100 * self.busy_share:.0f} % busy"
        return f"{format_latency(self.cpu_s)} at {format_iops(self.iops)} IOPS, {busy}"


def _work_done(side: Side, system: int, comparison: Comparison) -> Mapping[_Work, _WorkDone]:
    """Compute the work of each compared target, workload and level."""
    iops: dict[_Work, dict[str, float]] = {}
    compared: dict[_Work, _Work] = {}
    for cell in comparison.cells:
        row = (cell.baseline_cell, cell.candidate_cell)[system]
        if cell.metric is not Metric.IOPS or row is None or cell.op is Op.TOTAL:
            continue
        key = (row.target, row.planned_workload, row.level)
        compared[key] = (cell.target, cell.workload, cell.level)
        own = iops.setdefault(key, {})
        for trial in row.metric(Metric.IOPS).trials:
            own[trial.trial] = own.get(trial.trial, 0.0) + (trial.value or 0.0)
    found: dict[_Work, list[_WorkDone]] = {}
    for key, name, processor in _processors(side):
        rate = iops[key].get(name, 0.0) if key in iops else 0.0
        if rate > 0:
            spent_s = processor.busy_share * processor.cores / rate
            done = _WorkDone(cpu_s=spent_s, busy_share=processor.busy_share, iops=rate)
            found.setdefault(compared[key], []).append(done)
    return {
        work: _WorkDone(
            cpu_s=median(one.cpu_s for one in done),
            busy_share=median(one.busy_share for one in done),
            iops=median(one.iops for one in done),
        )
        for work, done in found.items()
    }
