"""The tables of a comparison: changes with verdicts, test matrix, configuration differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.findings import Finding, Severity
from leadline.metrics import Metric, Op
from leadline.report.cells import word
from leadline.report.document import (
    Block,
    Cell,
    Choices,
    Column,
    FindingList,
    Kind,
    Mark,
    Marks,
    Paragraph,
    Section,
    Table,
    finding_list,
)
from leadline.report.pages.comparison.charts import delta_chart
from leadline.report.pages.comparison.explanations import effect_texts
from leadline.report.pages.comparison.takeaways import rates
from leadline.report.words import (
    EVIDENCE_TEXTS,
    JUDGED,
    MISSING,
    NOT_SHOWN,
    change_text,
    interval_text,
    listed,
    needed_text,
    op_text,
    p_text,
    place,
    reason_text,
    reason_words,
    short,
    title,
    value_text,
    value_with_unit,
)


def leveled_cells(cells: Iterable[ComparedCell]) -> bool:
    """Return whether workloads have several levels."""
    seen = {(one.workload, one.level) for one in cells}
    return len(seen) > len({workload for workload, _ in seen})


def nothing(note: str = "") -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def value(
    figure: MetricFigure | None,
    cell: CellFigure | None,
    labels: tuple[Mark, ...],
    *,
    unit: bool,
) -> Cell:
    """`unit`: the column names it."""
    if figure is None or cell is None:
        return Cell(text=MISSING, note="no such cell on this system", missing=True)
    if figure.value is None:
        text = MISSING if cell.missing else NOT_SHOWN
        return Cell(text=text, note=figure.absence, marks=labels, missing=True)
    text = (value_text if unit else value_with_unit)(figure.metric, figure.value)
    values = [one.value for one in figure.trials if one.value is not None]
    note = ""
    if len(values) > 1:
        low, high = (value_text(figure.metric, end) for end in (min(values), max(values)))
        note = f"{len(values)} trials from {low} to {high}"
    return Cell(text=text, sort=figure.value, marks=labels, note=note)


def interval(figure: MetricFigure | None) -> Cell:
    if figure is None or figure.interval is None:
        return nothing("a 95 % interval needs 6 trials")
    low, high = (value_text(figure.metric, end) for end in figure.interval)
    return Cell(text=f"{low} to {high}", sort=figure.interval[1] - figure.interval[0])


def change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    if ratio is None:
        return nothing(listed(reason_text(code) for code in cell.judgement.reasons))
    return Cell(text=change_text(ratio), sort=ratio)


def change_and_verdict(cell: ComparedCell | None) -> list[Cell]:
    return [change(cell), verdict(cell)] if cell else [nothing(), nothing()]


def change_interval(cell: ComparedCell) -> Cell:
    interval = cell.judgement.interval
    if interval is None:
        return nothing(EVIDENCE_TEXTS[cell.judgement.evidence])
    return Cell(text=interval_text(interval), sort=interval[1] - interval[0])


def verdict(cell: ComparedCell) -> Cell:
    return Cell(
        text=cell.verdict.value,
        sort=cell.verdict.value,
        note=EVIDENCE_TEXTS[cell.judgement.evidence],
        missing=cell.verdict not in JUDGED,
    )


def p_value(cell: ComparedCell) -> Cell:
    adjusted, raw = cell.judgement.p_adjusted, cell.judgement.p
    note = f"raw p {p_text(raw)}" if raw is not None else ""
    return Cell(text=p_text(adjusted), sort=adjusted, note=note, missing=adjusted is None)


def common_reasons(cells: Sequence[ComparedCell]) -> list[str]:
    """Return the reason codes that all changed cells share."""
    compared = [one for one in cells if one.judgement.ratio is not None]
    if len(compared) < 2:
        return []
    shared = set.intersection(*(set(one.judgement.reasons) for one in compared))
    return [code for code in compared[0].judgement.reasons if code in shared]


def trials_needed(cell: ComparedCell) -> Cell:
    needed = cell.judgement.trials_needed
    if needed is None:
        return nothing()
    return Cell(text=f"{needed:,}", sort=float(needed), note=needed_text(cell.judgement))


def reasons(cell: ComparedCell, common: Sequence[str]) -> Cell:
    """Show short reasons; the note and the methods explain them."""
    codes = [code for code in cell.judgement.reasons if code not in common]
    text = ", ".join(map(reason_words, codes))
    return Cell(text=text, sort=text, note="; ".join(map(reason_text, codes)))


# Marks of two runs on one page: `E1b` is a finding about the baseline, `E1c` about the candidate.


class SideMarks:
    """One set of marks per system, or one for both if they are of one run."""

    def __init__(self, comparison: Comparison, of_run: Marks | None = None) -> None:
        """`of_run` are the marks of the page of the run that has both systems."""
        base, other = comparison.baseline, comparison.candidate
        self.one_run = of_run is not None or base.run.path == other.run.path
        ours, theirs = (_compared(side, comparison) for side in (base, other))
        self._ours = _concerning(base, ours | theirs if self.one_run else ours)
        self._theirs = () if self.one_run else _concerning(other, theirs)
        if of_run is not None:
            self.baseline = self.candidate = of_run
        elif self.one_run:
            self.baseline = self.candidate = Marks(self._ours)
        else:
            self.baseline = Marks(self._ours, suffix="b")
            self.candidate = Marks(self._theirs, suffix="c")
        self._names = (short(base.name), short(other.name))

    @property
    def all(self) -> tuple[Mark, ...]:
        if self.one_run:
            return self.baseline.all
        return (*self.baseline.all, *self.candidate.all)

    def lists(self, *, without_info: bool = False) -> tuple[tuple[str, FindingList], ...]:
        """Return (system, findings) for each system with findings, optionally without infos."""
        if self.one_run:
            found = [("", self._ours, self.baseline)]
        else:
            found = [
                (self._names[0], self._ours, self.baseline),
                (self._names[1], self._theirs, self.candidate),
            ]
        lists = []
        for name, given, marks in found:
            groups = tuple(
                group
                for group in finding_list(given, marks).groups
                if group.items and not (without_info and group.mark.severity is Severity.INFO)
            )
            if groups:
                lists.append((name, FindingList(groups=groups)))
        return tuple(lists)


def _compared(side: Side, comparison: Comparison) -> set[str]:
    """Return the targets that have a partner."""
    alone = {*comparison.baseline_alone, *comparison.candidate_alone}
    return {name for subject, name in side.targets.items() if subject not in alone}


def _concerning(side: Side, wanted: Set[str]) -> tuple[Finding, ...]:
    """Return the findings about the compared targets, or about the whole run."""
    plan = side.run.plan
    target_of = {trial.id: plan.cells[trial.cell].target for trial in plan.trials}
    return tuple(
        one
        for one in side.findings
        if (one.target or target_of.get(one.trial or "", "")) in ({""} | wanted)
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
    """Build the table of one metric: both values, the change and its verdict."""
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
    # Reasons of all rows are in the caption.
    common = common_reasons(cells)
    own = any(set(one.judgement.reasons) - set(common) for one in cells)
    needed = any(one.judgement.trials_needed is not None for one in cells)
    columns += (
        [Column(title="needed", kind=Kind.NUMBER, unit="trials per system", rank=4)]
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
        row += [trials_needed(one)] if needed else []
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
    """Build both values with their marks, and with their intervals if shown."""
    cells = []
    for figure, cell, its in (
        (one.baseline, one.baseline_cell, marks.baseline),
        (one.candidate, one.candidate_cell, marks.candidate),
    ):
        labels = its.for_number(figure.doubts) if figure else ()
        cells.append(value(figure, cell, labels, unit=unit))
        cells += [interval(figure)] if intervals else []
    return cells


def brief_table(
    anchor: str, comparison: Comparison, marks: SideMarks, busy: Mapping[_Key, float] | None = None
) -> Table:
    """Build a row for each rate with the change of its p99, for a terminal and a run's page.

    `busy` is the busy share of the load generator's cores.
    """
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
        return Cell(text=MISSING, note="on neither system", missing=True)
    ours, theirs = pair
    if not ours and not theirs:
        return Cell(text=MISSING, note="on neither system", missing=True)
    text = f"{ours:,} / {theirs:,}"
    return Cell(text=text, sort=float(ours + theirs), missing=not (ours and theirs))


def differences_table(comparison: Comparison, *, explained: bool = True) -> Table | None:
    """Build the table of configuration differences, with possible effects if `explained`; None
    without differences."""
    if not comparison.differences:
        return None
    explaining = explained and any(one.explains for one in comparison.differences)
    rows = []
    for one in comparison.differences:
        row = [word(one.topic.value), word(one.path), word(one.baseline), word(one.candidate)]
        if explaining:
            texts = [*filter(None, [one.meaning]), *effect_texts(one)]
            row.append(Cell(text=" ".join(texts) or NOT_SHOWN, missing=not texts))
        rows.append(tuple(row))
    columns = [
        Column(title="topic", rank=1),
        Column(title="setting"),
        Column(title=short(comparison.baseline.name)),
        Column(title=short(comparison.candidate.name)),
    ]
    columns += [Column(title="possible effect", rank=2)] if explaining else []
    return Table(
        id="differences",
        caption="",
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=len(rows) > 25,
    )


# A row is about 1 KiB of a page: a limit keeps the page small. The downloads have all rows.
MOST_ROWS = 1200
# In the order of importance for the page.
_ORDER = (
    Metric.LATENCY_P99,
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P999,
    Metric.LATENCY_P95,
    Metric.LATENCY_P9999,
    Metric.IOPS,
    Metric.BANDWIDTH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """One metric to select; `key` is part of an anchor."""

    key: str
    label: str
    cells: Sequence[ComparedCell]


def changes_sections(comparison: Comparison, marks: SideMarks) -> tuple[Section, ...]:
    """Build the section with a chart and a table per metric; none without a change."""
    found = _choices(comparison)
    if not found:
        return ()
    shown, left_out = _fitting(found)
    blocks: list[Block] = [Paragraph(text=left_out)] if left_out else []
    if len(shown) > 1:
        options = tuple((f"change-{one.key}", one.label) for one in shown)
        blocks.append(Choices(id="change-metric", label="Metric", options=options))
    for one in shown:
        name, choice = f"delta-{one.key}", f"change-{one.key}"
        chart = delta_chart(name, f"Change of {one.label}", one.cells, choice)
        blocks += [chart] if chart else []
        blocks.append(
            delta_table(
                f"{name}-table", comparison, one.cells, marks, caption=one.label, choice=choice
            )
        )
    return (Section(heading="Changes", id="changes", blocks=tuple(blocks)),)


def _choices(comparison: Comparison) -> list[_Choice]:
    """List the rate first, then the other metrics."""
    found = []
    rate = rates(comparison)
    kinds = {one.metric for one in rate}
    if rate:
        named = "rate (IOPS; MiB/s of large blocks)"
        label = title(next(iter(kinds))) if len(kinds) == 1 else named
        found.append(_Choice(key="rate", label=label, cells=rate))
    for metric in Metric:
        cells = [one for one in comparison.cells if one.metric is metric]
        if not any(one.judgement.ratio is not None for one in cells):
            continue
        if metric.is_latency or not all(one.rate for one in cells):
            key = metric.value.replace("_", "-")
            found.append(_Choice(key=key, label=title(metric), cells=cells))
    return found


def _fitting(found: Sequence[_Choice]) -> tuple[list[_Choice], str]:
    """Select the metrics that fit the page, and word those left out."""
    first, *more = found
    left_out = []
    if len(first.cells) > MOST_ROWS:
        cut = _largest(first.cells)
        left_out.append(f"of {first.label} all but the {MOST_ROWS:,} largest changes")
        first = _Choice(key=first.key, label=first.label, cells=cut)
    capacity = MOST_ROWS - len(first.cells)
    fits = {first.key}
    places = {metric.value.replace("_", "-"): n for n, metric in enumerate(_ORDER)}
    for one in sorted(more, key=lambda one: places[one.key]):
        if len(one.cells) <= capacity:
            capacity -= len(one.cells)
            fits.add(one.key)
        else:
            left_out.append(one.label)
    shown = [first, *(one for one in more if one.key in fits)]
    if not left_out:
        return shown, ""
    return (
        shown,
        f"Left out to keep the page small: {listed(left_out)}. The downloads are complete.",
    )


def _largest(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """Keep the largest changes in their order."""

    def size(index: int) -> float:
        ratio = cells[index].judgement.ratio
        return -abs(math.log(ratio)) if ratio else 0.0

    kept = sorted(range(len(cells)), key=size)[:MOST_ROWS]
    return [cells[index] for index in sorted(kept)]
