"""The tables of a comparison: changes with their verdicts, totals, scorecards, the matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Verdict
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.changes import (
    EVIDENCE_TEXTS,
    JUDGED,
    OP_NOUNS,
    change_text,
    interval_text,
    judged,
    needed_text,
    p_text,
    ratios,
    reason_text,
    short,
)
from leadline.report.comparison_marks import SideMarks
from leadline.report.conditions import word
from leadline.report.document import Cell, Column, Kind, Mark, Table
from leadline.report.takeaways import rates
from leadline.report.wording import (
    MISSING,
    NOT_SHOWN,
    listed,
    op_text,
    place,
    value_text,
    value_with_unit,
    visible,
)

_WIDEST_MATRIX = 10
_UNITS = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}
_Key = tuple[str, str, str, Op | None]


def key_of(cell: ComparedCell) -> _Key:
    return cell.target, cell.workload, cell.level, cell.op


def _leveled(cells: Iterable[ComparedCell]) -> bool:
    """Whether the level tells rows apart: a level that every row of a workload has does not."""
    seen = {(one.workload, one.level) for one in cells}
    return len(seen) > len({workload for workload, _ in seen})


def _names(cells: Sequence[ComparedCell]) -> list[Column]:
    level = [Column(title="level")] if _leveled(cells) else []
    return [Column(title="target"), Column(title="workload"), *level, Column(title="op")]


def _named(cell: ComparedCell, *, leveled: bool) -> list[Cell]:
    level = [word(cell.level)] if leveled else []
    return [word(cell.target), word(cell.workload), *level, word(op_text(cell.op))]


# --- changes ------------------------------------------------------------------------------------


def delta_table(
    anchor: str,
    comparison: Comparison,
    cells: Sequence[ComparedCell],
    marks: SideMarks,
    *,
    caption: str = "",
    choice: str = "",
) -> Table:
    """One metric of every cell on both sides, the change and what may be said of it."""
    metrics = {one.metric for one in cells}
    unit = _UNITS.get(next(iter(metrics)), "") if len(metrics) == 1 else ""
    intervals = any(
        figure.interval for one in cells for figure in (one.baseline, one.candidate) if figure
    )
    adjusted = any(one.judgement.p_adjusted is not None for one in cells)
    bounded = any(one.judgement.interval is not None for one in cells)
    leveled = _leveled(cells)
    columns = _names(cells)
    for side in (comparison.baseline, comparison.candidate):
        columns.append(Column(title=short(side.name), kind=Kind.NUMBER, unit=unit))
        if intervals:
            columns.append(Column(title="95 % interval", kind=Kind.NUMBER, unit="of it", rank=5))
    columns.append(Column(title="change", kind=Kind.NUMBER))
    if bounded:
        columns.append(Column(title="95 % interval", kind=Kind.NUMBER, unit="of change", rank=2))
    columns.append(Column(title="verdict"))
    if adjusted:
        columns.append(Column(title="p", kind=Kind.NUMBER, unit="adjusted", rank=3))
    # What is said of every row is said once, above them.
    common = _common_reasons(cells)
    own = any(set(one.judgement.reasons) - set(common) for one in cells)
    needed = any(one.judgement.trials_needed is not None for one in cells)
    columns += (
        [Column(title="to decide", kind=Kind.NUMBER, unit="trials a side", rank=4)]
        if needed
        else []
    )
    columns += [Column(title="reasons", rank=6)] if own else []
    rows = []
    for one in cells:
        row = _named(one, leveled=leveled)
        for figure, cell, its in (
            (one.baseline, one.baseline_cell, marks.baseline),
            (one.candidate, one.candidate_cell, marks.candidate),
        ):
            doubts = its.for_number(figure.doubts) if figure else ()
            row.append(_value(figure, cell, doubts, unit=bool(unit)))
            row += [_interval(figure)] if intervals else []
        row.append(_change(one))
        row += [_change_interval(one)] if bounded else []
        row.append(_verdict(one))
        row += [_p(one)] if adjusted else []
        row += [_needed(one)] if needed else []
        row += [_reasons(one, common)] if own else []
        rows.append(tuple(row))
    return Table(
        id=anchor,
        caption="; ".join([caption, *(f"of every row: {reason_text(code)}" for code in common)]),
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=True,
        choice=choice,
    )


def brief_table(
    anchor: str, comparison: Comparison, marks: SideMarks, busy: Mapping[_Key, float] | None = None
) -> Table:
    """A row for each rate with the change of its p99 beside it, for a terminal and a run's page.
    `busy` are shares of the load generator's cores."""
    cells = rates(comparison) or list(comparison.cells)
    tails = {key_of(one): one for one in comparison.cells if one.metric is Metric.LATENCY_P99}
    tails = tails if any(key_of(one) in tails for one in cells) else {}
    metrics = {one.metric for one in cells}
    unit = _UNITS.get(next(iter(metrics)), "") if len(metrics) == 1 else ""
    leveled = _leveled(cells)
    bounded = any(one.judgement.interval is not None for one in cells)
    columns = _names(cells)
    columns += [
        Column(title=short(side.name), kind=Kind.NUMBER, unit=unit, rank=1)
        for side in (comparison.baseline, comparison.candidate)
    ]
    columns.append(Column(title="change", kind=Kind.NUMBER))
    columns += (
        [Column(title="95 % interval", kind=Kind.NUMBER, unit="of change", rank=3)]
        if bounded
        else []
    )
    columns.append(Column(title="verdict"))
    if tails:
        columns.append(Column(title="p99", kind=Kind.NUMBER, rank=2))
        columns.append(Column(title="p99 verdict", rank=4))
    if busy:
        columns.append(Column(title="cores busy", kind=Kind.NUMBER, rank=5))
    rows = []
    for one in cells:
        row = _named(one, leveled=leveled)
        for figure, cell, its in (
            (one.baseline, one.baseline_cell, marks.baseline),
            (one.candidate, one.candidate_cell, marks.candidate),
        ):
            doubts = its.for_number(figure.doubts) if figure else ()
            row.append(_value(figure, cell, doubts, unit=bool(unit)))
        row.append(_change(one))
        row += [_change_interval(one)] if bounded else []
        row.append(_verdict(one))
        if tails:
            tail = tails.get(key_of(one))
            row += _change_and_verdict(tail)
        if busy:
            share = busy.get(key_of(one))
            row.append(_none() if share is None else Cell(text=f"{share:.0%}", sort=share))
        rows.append(tuple(row))
    return Table(id=anchor, caption="", columns=tuple(columns), rows=tuple(rows), filterable=True)


def _none(note: str = "") -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def _value(
    figure: MetricFigure | None,
    cell: CellFigure | None,
    doubts: tuple[Mark, ...],
    *,
    unit: bool,
) -> Cell:
    """`unit`: the column names it."""
    if figure is None or cell is None:
        return Cell(text=MISSING, note="this side has no such cell", missing=True)
    if figure.value is None:
        text = MISSING if cell.missing else NOT_SHOWN
        return Cell(text=text, note=figure.absence, marks=doubts, missing=True)
    text = (value_text if unit else value_with_unit)(figure.metric, figure.value)
    values = [one.value for one in figure.trials if one.value is not None]
    note = ""
    if len(values) > 1:
        low, high = (value_text(figure.metric, end) for end in (min(values), max(values)))
        note = f"{len(values)} trials from {low} to {high}"
    return Cell(text=text, sort=figure.value, marks=doubts, note=note)


def _interval(figure: MetricFigure | None) -> Cell:
    if figure is None or figure.interval is None:
        return _none("a 95 % interval needs 6 trials")
    low, high = (value_text(figure.metric, end) for end in figure.interval)
    return Cell(text=f"{low} to {high}", sort=figure.interval[1] - figure.interval[0])


def _change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    if ratio is None:
        return _none(listed(reason_text(code) for code in cell.judgement.reasons))
    return Cell(text=change_text(ratio), sort=ratio)


def _change_and_verdict(cell: ComparedCell | None) -> list[Cell]:
    return [_change(cell), _verdict(cell)] if cell else [_none(), _none()]


def _change_interval(cell: ComparedCell) -> Cell:
    interval = cell.judgement.interval
    if interval is None:
        return _none(EVIDENCE_TEXTS[cell.judgement.evidence])
    return Cell(text=interval_text(interval), sort=interval[1] - interval[0])


def _verdict(cell: ComparedCell) -> Cell:
    return Cell(
        text=cell.verdict.value,
        sort=cell.verdict.value,
        note=EVIDENCE_TEXTS[cell.judgement.evidence],
        missing=cell.verdict not in JUDGED,
    )


def _p(cell: ComparedCell) -> Cell:
    adjusted, raw = cell.judgement.p_adjusted, cell.judgement.p
    note = f"raw p {p_text(raw)}" if raw is not None else ""
    return Cell(text=p_text(adjusted), sort=adjusted, note=note, missing=adjusted is None)


def _common_reasons(cells: Sequence[ComparedCell]) -> list[str]:
    """Codes that every one of several cells has."""
    if len(cells) < 2:
        return []
    shared = set.intersection(*(set(one.judgement.reasons) for one in cells))
    return [code for code in cells[0].judgement.reasons if code in shared]


def _needed(cell: ComparedCell) -> Cell:
    needed = cell.judgement.trials_needed
    if needed is None:
        return _none()
    return Cell(text=f"{needed:,}", sort=float(needed), note=needed_text(cell.judgement))


def _reasons(cell: ComparedCell, common: Sequence[str]) -> Cell:
    """Codes, which are short; pointing at them tells what they mean."""
    codes = [code for code in cell.judgement.reasons if code not in common]
    text = visible(", ".join(codes))
    return Cell(text=text, sort=text, note="; ".join(reason_text(code) for code in codes))


# --- totals -------------------------------------------------------------------------------------


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
    leveled = _leveled(one for at in both.values() for one in at.values())
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
            row += _change_and_verdict(found_cell)
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
        return _none("no cell has a verdict")
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
        return _none(f"incomplete: {lacking} of its cells cannot be compared")
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


# --- the matrix ---------------------------------------------------------------------------------


def matrix_table(comparison: Comparison) -> Table:
    """Completed trials of every subject and workload, baseline / candidate."""
    counts: dict[tuple[str, str], list[int]] = {}
    leveled = _leveled(comparison.cells)
    for one in comparison.cells:
        column = place(one.workload, one.level) if leveled else one.workload
        now = counts.setdefault((one.target, column), [0, 0])
        for side, cell in enumerate((one.baseline_cell, one.candidate_cell)):
            now[side] = max(now[side], cell.completed if cell else 0)
    targets = list(dict.fromkeys(target for target, _ in counts))
    columns = list(dict.fromkeys(column for _, column in counts))
    alone = [
        (name, which)
        for which, names in enumerate((comparison.baseline_alone, comparison.candidate_alone))
        for name in names
    ]
    names = (short(comparison.baseline.name), short(comparison.candidate.name))
    caption = f"Completed trials, {names[0]} / {names[1]}"
    if len(columns) <= _WIDEST_MATRIX:
        rows = [
            (word(target), *(_count(counts.get((target, column))) for column in columns))
            for target in targets
        ]
        for name, which in alone:
            only = Cell(text=f"only on {names[which]}", missing=True)
            rows.append((word(name), *((only, *(_none() for _ in columns))[: len(columns)])))
        titles = [Column(title=short(column), kind=Kind.NUMBER) for column in columns]
        return Table(
            id="matrix",
            caption=caption,
            columns=(Column(title="target"), *titles),
            rows=tuple(rows),
            filterable=len(rows) > 12,
        )
    long = [
        (word(target), word(column), _count(counts.get((target, column))))
        for target in targets
        for column in columns
    ]
    for name, which in alone:
        long.append((word(name), word(f"only on {names[which]}"), _none()))
    return Table(
        id="matrix",
        caption=caption,
        columns=(
            Column(title="target"),
            Column(title="workload"),
            Column(title="trials", kind=Kind.NUMBER),
        ),
        rows=tuple(long),
        filterable=True,
    )


def _count(pair: Sequence[int] | None) -> Cell:
    if pair is None:
        return Cell(text=MISSING, note="on neither side", missing=True)
    ours, theirs = pair
    if not ours and not theirs:
        return Cell(text=MISSING, note="on neither side", missing=True)
    text = f"{ours:,} / {theirs:,}"
    return Cell(text=text, sort=float(ours + theirs), missing=not (ours and theirs))


def differences_table(comparison: Comparison) -> Table | None:
    """What is not the same of the two systems; None where all that is known is."""
    if not comparison.differences:
        return None
    explaining = any(one.explains for one in comparison.differences)
    rows = []
    for one in comparison.differences:
        row = [word(one.topic.value), word(one.path), word(one.baseline), word(one.candidate)]
        if explaining:
            said = [*([one.meaning] if one.meaning else []), *one.explains]
            row.append(Cell(text=visible(" ".join(said)) or NOT_SHOWN, missing=not said))
        rows.append(tuple(row))
    columns = [
        Column(title="topic", rank=1),
        Column(title="what"),
        Column(title=short(comparison.baseline.name)),
        Column(title=short(comparison.candidate.name)),
    ]
    columns += [Column(title="can explain", rank=2)] if explaining else []
    return Table(
        id="differences",
        caption="",
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=len(rows) > 25,
    )
