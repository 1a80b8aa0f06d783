"""The tables of a comparison: changes with their verdicts, the matrix, what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.metrics import Metric, Op
from leadline.report.change_words import (
    reason_text,
    short,
)
from leadline.report.comparison.cells import (
    change,
    change_and_verdict,
    change_interval,
    common_reasons,
    interval,
    leveled_cells,
    nothing,
    p_value,
    reasons,
    trials_to_decide,
    value,
    verdict,
)
from leadline.report.comparison.marks import SideMarks
from leadline.report.comparison.parts import rates
from leadline.report.conditions import word
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.wording import (
    MISSING,
    NOT_SHOWN,
    op_text,
    place,
    visible,
)

_WIDEST_MATRIX = 10
_UNITS = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}
_Key = tuple[str, str, str, Op | None]


def key_of(cell: ComparedCell) -> _Key:
    return cell.target, cell.workload, cell.level, cell.op


def _names(cells: Sequence[ComparedCell]) -> list[Column]:
    level = [Column(title="level")] if leveled_cells(cells) else []
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
    leveled = leveled_cells(cells)
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
    common = common_reasons(cells)
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
        row += _both(one, marks, unit=bool(unit), intervals=bool(intervals))
        row.append(change(one))
        row += [change_interval(one)] if bounded else []
        row.append(verdict(one))
        row += [p_value(one)] if adjusted else []
        row += [trials_to_decide(one)] if needed else []
        row += [reasons(one, common)] if own else []
        rows.append(tuple(row))
    return Table(
        id=anchor,
        caption=": ".join(filter(None, (caption, "; ".join(map(reason_text, common))))),
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=True,
        choice=choice,
    )


def _both(
    one: ComparedCell, marks: SideMarks, *, unit: bool, intervals: bool = False
) -> list[Cell]:
    """The two values with their doubts, and with their intervals where they are shown."""
    cells = []
    for figure, cell, its in (
        (one.baseline, one.baseline_cell, marks.baseline),
        (one.candidate, one.candidate_cell, marks.candidate),
    ):
        doubts = its.for_number(figure.doubts) if figure else ()
        cells.append(value(figure, cell, doubts, unit=unit))
        cells += [interval(figure)] if intervals else []
    return cells


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
    leveled = leveled_cells(cells)
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
        row += _both(one, marks, unit=bool(unit))
        row.append(change(one))
        row += [change_interval(one)] if bounded else []
        row.append(verdict(one))
        if tails:
            tail = tails.get(key_of(one))
            row += change_and_verdict(tail)
        if busy:
            share = busy.get(key_of(one))
            row.append(nothing() if share is None else Cell(text=f"{share:.0%}", sort=share))
        rows.append(tuple(row))
    return Table(id=anchor, caption="", columns=tuple(columns), rows=tuple(rows), filterable=True)


# --- the matrix ---------------------------------------------------------------------------------


def matrix_table(comparison: Comparison) -> Table:
    """Completed trials of every subject and workload, baseline / candidate."""
    counts: dict[tuple[str, str], list[int]] = {}
    leveled = leveled_cells(comparison.cells)
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
    if 0 < len(columns) <= _WIDEST_MATRIX:
        rows = [
            (word(target), *(_count(counts.get((target, column))) for column in columns))
            for target in targets
        ]
        for name, which in alone:
            only = Cell(text=f"only on {names[which]}", missing=True)
            rows.append((word(name), *((only, *(nothing() for _ in columns))[: len(columns)])))
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
        long.append((word(name), word(f"only on {names[which]}"), nothing()))
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


def differences_table(comparison: Comparison, *, explained: bool = True) -> Table | None:
    """What is not the same of the two systems, and if `explained` what that can account for; None
    where all that is known is the same."""
    if not comparison.differences:
        return None
    explaining = explained and any(one.explains for one in comparison.differences)
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
