"""The totals of a comparison: reads against writes, sequential against random, scorecards."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Verdict
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.change_words import OP_NOUNS, change_text, judged, ratios
from leadline.report.comparison.cells import change_and_verdict, leveled_cells, nothing
from leadline.report.comparison.parts import rates
from leadline.report.conditions import word
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.wording import NOT_SHOWN


def read_write_table(comparison: Comparison) -> Table | None:
    """For every target the change of its reads beside that of its writes; None where no cell has
    both."""
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
        caption="Change of reads beside that of writes, each in its own column",
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=True,
    )


def patterns_table(comparison: Comparison, pattern: Callable[[ComparedCell], str]) -> Table | None:
    """Sequential against random, reads and writes apart; None where there is one pattern only."""
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
        caption="Sequential against random",
        columns=(
            Column(title="pattern"),
            Column(title="op"),
            *_TALLY_COLUMNS,
            Column(title="change", kind=Kind.NUMBER, unit="of cells judged"),
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
    """Verdicts on the rates of each target (or workload); of a target also the geometric mean of
    their ratios, where every cell has one that the audit does not refuse."""
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
            Column(title="change", kind=Kind.NUMBER, unit="of cells judged", rank=1),
            *((Column(title="mean change", kind=Kind.NUMBER, rank=1),) if by_target else ()),
        ),
        rows=tuple(rows),
        filterable=len(rows) > 12,
    )


def _mean(cells: Sequence[ComparedCell], wanted: int) -> Cell:
    """The geometric mean of all ratios. Where reads and writes are told, their total would count
    them twice and is left out."""
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
        return nothing(f"incomplete: {lacking} of its cells cannot be compared")
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
