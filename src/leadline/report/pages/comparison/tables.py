"""The tables of a comparison: changes with verdicts, test matrix, configuration differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.explain.accounts import Share
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.figures import CellFigure
from leadline.analysis.verdicts import Evidence
from leadline.findings import Finding, Severity
from leadline.metrics import Metric, Op
from leadline.report.cells import number_column, table, trials_note, word
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
from leadline.report.pages.comparison.charts import (
    cell_labels,
    delta_chart,
    leveled_cells,
    log_change,
)
from leadline.report.pages.comparison.explanations import (
    effect_texts,
    estimate_text,
    explained_text,
    path_text,
    round_trips_text,
)
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.run.charts import keep_largest
from leadline.report.words import (
    EVIDENCE_TEXTS,
    JUDGED,
    MISSING,
    NOT_SHOWN,
    change_text,
    interval_text,
    level_text,
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

_Cells = Sequence[ComparedCell]
# A column of compared cells, and the function that makes its cells.
_ColumnOf = tuple[Column, Callable[[ComparedCell], Cell]]


def nothing(note: str = "") -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def _value(cell: ComparedCell, system: int, marks: Marks, unit: str) -> Cell:
    """Format the figure of a system; without a `unit` of the column with its own."""
    figure = (cell.baseline, cell.candidate)[system]
    row = (cell.baseline_cell, cell.candidate_cell)[system]
    if figure is None or row is None:
        return Cell(text=MISSING, note="no such cell on this system", missing=True)
    labels = marks.for_number(figure.finding_marks)
    if figure.value is None:
        text = MISSING if row.missing else NOT_SHOWN
        return Cell(text=text, note=figure.absence, marks=labels, missing=True)
    text = (value_text if unit else value_with_unit)(figure.metric, figure.value)
    return Cell(text=text, sort=figure.value, marks=labels, note=trials_note(figure))


def _interval(cell: ComparedCell, system: int) -> Cell:
    figure = (cell.baseline, cell.candidate)[system]
    if figure is None or figure.interval is None:
        return nothing("a 95 % interval needs 6 trials")
    low, high = (value_text(figure.metric, end) for end in figure.interval)
    return Cell(text=f"{low} to {high}", sort=figure.interval[1] - figure.interval[0])


def _change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    if ratio is None:
        return nothing(listed(map(reason_text, cell.judgement.reasons)))
    return Cell(text=change_text(ratio), sort=ratio, note=_figures_ratio(cell))


def _figures_ratio(cell: ComparedCell) -> str:
    """Note the ratio of the two figures where the interval of the estimate excludes it."""
    figures = [figure.value for figure in (cell.baseline, cell.candidate) if figure]
    ends = cell.judgement.interval
    if len(figures) < 2 or not all(figures) or ends is None:
        return ""
    ratio = (figures[1] or 0.0) / (figures[0] or 1.0)
    if ends[0] <= ratio <= ends[1]:
        return ""
    return f"estimated from the trials; the two figures differ by {change_text(ratio)}"


def change_and_verdict(cell: ComparedCell | None) -> list[Cell]:
    return [_change(cell), _verdict(cell)] if cell else [nothing(), nothing()]


def _change_interval(cell: ComparedCell) -> Cell:
    ends = cell.judgement.interval
    if ends is None:
        return nothing(EVIDENCE_TEXTS[cell.judgement.evidence])
    judged = cell.judgement
    level = level_text(judged.confidence) if judged.confidence else ""
    notes = [f"at {level}"] if level not in ("", level_text(0.95)) else []
    if judged.interval_alone:
        notes.append(f"alone, at 95 %, {interval_text(judged.interval_alone)}")
    return Cell(text=interval_text(ends), sort=ends[1] - ends[0], note="; ".join(notes))


def _verdict(cell: ComparedCell) -> Cell:
    evidence = cell.judgement.evidence
    return Cell(
        text=cell.verdict.value,
        sort=cell.verdict.value,
        # The method states that the verdicts rest on trials.
        note=EVIDENCE_TEXTS[evidence] if evidence is not Evidence.TRIALS else "",
        missing=cell.verdict not in JUDGED,
    )


def _p_value(cell: ComparedCell) -> Cell:
    adjusted, raw = cell.judgement.p_adjusted, cell.judgement.p
    differs = raw is not None and p_text(raw) != p_text(adjusted)
    note = f"raw p {p_text(raw)}" if differs else ""
    return Cell(text=p_text(adjusted), sort=adjusted, note=note, missing=adjusted is None)


def _common_reasons(cells: _Cells) -> list[str]:
    """Return the reason codes that all changed cells share."""
    compared = [cell.judgement.reasons for cell in cells if cell.judgement.ratio is not None]
    if len(compared) < 2:
        return []
    return [code for code in compared[0] if all(code in reasons for reasons in compared)]


def _trials_needed(cell: ComparedCell) -> Cell:
    needed = cell.judgement.trials_needed
    if needed is None:
        return nothing()
    text = f"{needed:,}"
    if cell.judgement.trials_range:
        low, high = cell.judgement.trials_range
        text += f" ({low:,} to {'over 1,000' if high is None else f'{high:,}'})"
    return Cell(text=text, sort=float(needed), note=needed_text(cell.judgement))


def _reasons(cell: ComparedCell, common: Sequence[str]) -> Cell:
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
        subjects, others = _compared(base, comparison), _compared(other, comparison)
        self._groups: list[tuple[str, tuple[Finding, ...], Marks]] = []
        if of_run or base.run.path == other.run.path:
            findings = _concerning(base, subjects | others)
            self.baseline = self.candidate = of_run or Marks(findings)
            self._groups.append(("", findings, self.baseline))
            return
        findings, more = _concerning(base, subjects), _concerning(other, others)
        self.baseline, self.candidate = Marks(findings, suffix="b"), Marks(more, suffix="c")
        self._groups.append((short(base.name), findings, self.baseline))
        self._groups.append((short(other.name), more, self.candidate))

    @property
    def all(self) -> tuple[Mark, ...]:
        return tuple(mark for _, _, marks in self._groups for mark in marks.all)

    def lists(self, *, without_info: bool = False) -> tuple[tuple[str, FindingList], ...]:
        """Return (system, findings) for each system with findings, optionally without infos."""
        lists = []
        for name, findings, marks in self._groups:
            groups = tuple(
                group
                for group in finding_list(findings, marks).groups
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
    """Return the findings about the compared targets, or about a whole run."""
    found: list[Finding] = []
    for part in side.parts:
        plan = part.run.plan
        target_of = {trial.id: plan.cells[trial.cell].target for trial in plan.trials}
        found += (
            finding
            for finding in part.findings
            if (finding.target or target_of.get(finding.trial or "", "")) in ({""} | wanted)
        )
    return tuple(found)


_WIDEST_MATRIX = 10
_UNITS = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}
CellKey = tuple[str, str, str, Op | None]


def key_of(cell: ComparedCell) -> CellKey:
    return cell.target, cell.workload, cell.level, cell.op


# --- changes ------------------------------------------------------------------------------------


def _name_columns(cells: _Cells) -> list[_ColumnOf]:
    columns: list[_ColumnOf] = [
        (Column(title="target"), lambda cell: word(cell.target)),
        (Column(title="workload"), lambda cell: word(cell.workload)),
        (Column(title="level"), lambda cell: word(cell.level)),
        (Column(title="op"), lambda cell: word(op_text(cell.op))),
    ]
    return columns if leveled_cells(cells) else [*columns[:2], columns[3]]


def _value_columns(
    comparison: Comparison, cells: _Cells, marks: SideMarks, *, brief: bool
) -> list[_ColumnOf]:
    """Show the figures of both systems, with their intervals unless `brief`."""
    metrics = {cell.metric for cell in cells}
    unit = _UNITS.get(next(iter(metrics)), "") if len(metrics) == 1 else ""
    figures = [figure for cell in cells for figure in (cell.baseline, cell.candidate) if figure]
    bounded = not brief and any(figure.interval for figure in figures)
    columns: list[_ColumnOf] = []
    for system, own in enumerate((marks.baseline, marks.candidate)):
        name = system_names(comparison)[system]
        column = Column(title=name, kind=Kind.NUMBER, unit=unit, rank=int(brief))
        columns.append((column, partial(_value, system=system, marks=own, unit=unit)))
        if bounded:
            column = Column(title="95 % interval", kind=Kind.NUMBER, unit="of it", rank=5)
            columns.append((column, partial(_interval, system=system)))
    return columns


def _verdict_columns(cells: _Cells, rank: int) -> list[_ColumnOf]:
    """Show the change, its interval with this `rank`, and the verdict."""
    column = Column(title="interval", kind=Kind.NUMBER, unit="of change", rank=rank)
    bounded = any(cell.judgement.interval is not None for cell in cells)
    return [
        (number_column("change"), _change),
        *([(column, _change_interval)] if bounded else []),
        (Column(title="verdict"), _verdict),
    ]


def _delta_table(choice: _Choice, comparison: Comparison, marks: SideMarks) -> Table:
    """Build the table of one metric: both values, the change and its verdict."""
    cells = choice.cells
    columns = [
        *_name_columns(cells),
        *_value_columns(comparison, cells, marks, brief=False),
        *_verdict_columns(cells, rank=2),
    ]
    if any(cell.judgement.p_adjusted is not None for cell in cells):
        columns.append((Column(title="p", kind=Kind.NUMBER, unit="adjusted", rank=3), _p_value))
    if any(cell.judgement.trials_needed is not None for cell in cells):
        unit = "runs per system" if comparison.has_several_runs else "trials per system"
        column = Column(title="needed", kind=Kind.NUMBER, unit=unit, rank=4)
        columns.append((column, _trials_needed))
    # Reasons of all rows are in the caption.
    common = _common_reasons(cells)
    if any(set(cell.judgement.reasons) - set(common) for cell in cells):
        columns.append((Column(title="reasons", rank=6), partial(_reasons, common=common)))
    caption = ": ".join(filter(None, (choice.label, "; ".join(map(reason_text, common)))))
    whole = _table(f"delta-{choice.key}-table", columns, cells)
    return replace(whole, caption=caption, choice=f"change-{choice.key}")


def brief_table(
    anchor: str,
    comparison: Comparison,
    marks: SideMarks,
    busy: Mapping[CellKey, float] | None = None,
) -> Table:
    """Build a row for each rate with the change of its p99, for a terminal and a run's page.

    `busy` is the busy share of the load generator's cores.
    """
    cells = rates(comparison) or comparison.cells
    columns = [
        *_name_columns(cells),
        *_value_columns(comparison, cells, marks, brief=True),
        *_verdict_columns(cells, rank=3),
    ]
    tails = {key_of(cell): cell for cell in comparison.cells if cell.metric is Metric.LATENCY_P99}
    if any(key_of(cell) in tails for cell in cells):

        def tail(cell: ComparedCell, part: int) -> Cell:
            return change_and_verdict(tails.get(key_of(cell)))[part]

        columns.append((number_column("p99", 2), partial(tail, part=0)))
        columns.append((Column(title="p99 verdict", rank=4), partial(tail, part=1)))
    if busy:

        def cores(cell: ComparedCell) -> Cell:
            share = busy.get(key_of(cell))
            return nothing() if share is None else Cell(text=f"{share:.0%}", sort=share)

        columns.append((number_column("cores busy", 5), cores))
    return _table(anchor, columns, cells)


def _table(anchor: str, columns: Sequence[_ColumnOf], cells: _Cells) -> Table:
    return Table(
        id=anchor,
        caption="",
        columns=tuple(column for column, _ in columns),
        rows=tuple(tuple(make(cell) for _, make in columns) for cell in cells),
        filterable=True,
    )


# --- the matrix ---------------------------------------------------------------------------------


def matrix_table(comparison: Comparison) -> Table:
    """Completed trials of every subject and workload, baseline / candidate."""
    counts: dict[tuple[str, str], list[int]] = {}
    leveled = leveled_cells(comparison.cells)
    for cell in comparison.cells:
        workload = place(cell.workload, cell.level) if leveled else cell.workload
        completed = counts.setdefault((cell.target, workload), [0, 0])
        for system, row in enumerate((cell.baseline_cell, cell.candidate_cell)):
            completed[system] = max(completed[system], row.completed if row else 0)
    targets = dict.fromkeys(target for target, _ in counts)
    workloads = dict.fromkeys(workload for _, workload in counts)
    names = system_names(comparison)
    alone = [
        (subject, f"only on {name}")
        for name, subjects in zip(
            names, (comparison.baseline_alone, comparison.candidate_alone), strict=True
        )
        for subject in subjects
    ]
    columns: list[str | Column]
    rows: list[tuple[str | Cell, ...]]
    if 0 < len(workloads) <= _WIDEST_MATRIX:
        columns = ["target", *(number_column(short(workload)) for workload in workloads)]
        rows = [
            (target, *(_count(counts.get((target, workload))) for workload in workloads))
            for target in targets
        ]
        dashes = [nothing()] * (len(workloads) - 1)
        rows += [(subject, Cell(text=text, missing=True), *dashes) for subject, text in alone]
    else:
        columns = ["target", "workload", number_column("trials")]
        rows = [
            (target, workload, _count(counts.get((target, workload))))
            for target in targets
            for workload in workloads
        ]
        rows += [(subject, text, nothing()) for subject, text in alone]
    return table(
        "matrix",
        columns,
        rows,
        caption=f"Completed trials, {' / '.join(names)}",
        filterable=len(rows) > 12 or len(columns) == 3,
    )


def _count(completed: Sequence[int] | None) -> Cell:
    base, other = completed or (0, 0)
    if not base and not other:
        return Cell(text=MISSING, note="on neither system", missing=True)
    text = f"{base:,} / {other:,}"
    return Cell(text=text, sort=float(base + other), missing=not (base and other))


# Cells of the table of findings; those with the most findings.
_MOST_FOUND = 40


def findings_table(comparison: Comparison, marks: SideMarks) -> Table | None:
    """Build cells x findings of either system, a sign for each; None without any."""
    cells = rates(comparison) or comparison.cells
    found: list[tuple[dict[str, Mark], ...]] = []
    for cell in cells:
        rows = ((cell.baseline_cell, marks.baseline), (cell.candidate_cell, marks.candidate))
        found.append(
            tuple(
                {one.code: one for one in _all_marks(row, own)} if row else {} for row, own in rows
            )
        )
    codes = {
        (-one.severity.order, code) for own in found for each in own for code, one in each.items()
    }
    columns = [
        (code, system)
        for _, code in sorted(codes)
        for system in (0, 1)
        if any(code in own[system] for own in found)
    ]
    if not columns:
        return None
    labelled = list(zip(cell_labels(cells), found, strict=True))
    shown = keep_largest(labelled, lambda row: sum(map(len, row[1])), _MOST_FOUND)
    rest = f", the {len(shown)} of {len(found):,} with the most" if len(shown) < len(found) else ""
    names = system_names(comparison)
    titles = (Column(title=code, unit=names[system]) for code, system in columns)
    return table(
        "findings-by-cell",
        ("cell", *titles),
        (
            (label, *(_sign(own[system].get(code)) for code, system in columns))
            for label, own in shown
        ),
        caption=f"Findings by cell{rest}",
    )


def _all_marks(row: CellFigure, marks: Marks) -> Iterable[Mark]:
    """Yield the marks of a cell, without those of the whole run."""
    for figure in row.metrics:
        yield from marks.for_number(figure.finding_marks)
        yield from marks.for_row(figure.finding_marks)


def _sign(mark: Mark | None) -> Cell:
    return Cell(text="", marks=(mark,) if mark else ())


def round_trips_table(comparison: Comparison) -> Table | None:
    """Build the expected and the measured added latency of each tested cell; None without any."""
    tested = [
        (found.cost, test)
        for found in comparison.explanations
        if isinstance(found, RoundTripCost)
        for test in found.tests
    ]
    several = len({test.workload for _, test in tested}) > 1

    def name(target: str, workload: str, *rest: str) -> str:
        return place(short(target), short(workload) if several else "", *rest)

    rows = [
        (
            Cell(text=name(test.target, test.workload, test.level, test.op.value)),
            path_text(cost),
            round_trips_text(cost),
            Cell(text=estimate_text(test.expected), sort=test.expected.value),
            Cell(text=estimate_text(test.measured), sort=test.measured.value)
            if test.measured
            else nothing("no interval"),
            _explained(test.share),
        )
        for cost, test in tested
    ]
    if not rows:
        return None
    columns: list[str | Column] = [
        "cell",
        Column(title="I/O path", rank=2),
        Column(title="round trips of an I/O", rank=2),
        number_column("expected"),
        number_column("measured"),
        "share explained by round trips",
    ]
    caption = "Added latency by round trips"
    return table("round-trips", columns, rows, caption=caption, filterable=len(rows) > 12)


def _explained(share: Share) -> Cell:
    texts = (explained_text(share), share.account.value)
    return Cell(text=", ".join(filter(None, texts)), sort=share.value)


def differences_table(comparison: Comparison, *, explained: bool = True) -> Table | None:
    """Build the table of configuration differences, with possible effects if `explained`; None
    without differences."""
    if not comparison.differences:
        return None
    explaining = explained and any(difference.explains for difference in comparison.differences)
    rows = []
    for difference in comparison.differences:
        row = [
            word(text)
            for text in (
                difference.topic.value,
                difference.path,
                difference.baseline,
                difference.candidate,
            )
        ]
        if explaining:
            texts = [*filter(None, [difference.meaning]), *effect_texts(difference)]
            row.append(Cell(text=" ".join(texts) or NOT_SHOWN, missing=not texts))
        rows.append(row)
    columns: list[str | Column] = [Column(title="topic", rank=1), "setting"]
    columns += system_names(comparison)
    columns += [Column(title="possible effect", rank=2)] if explaining else []
    return table("differences", columns, rows, filterable=len(rows) > 25)


# A row is about 1 KiB of a page: a limit keeps the page small. The downloads have all rows.
MOST_ROWS = 1200
# In the order of importance for the page.
_ORDER: tuple[Metric | None, ...] = (
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
    """One metric to select, None: the rate."""

    metric: Metric | None
    label: str
    cells: _Cells

    @property
    def key(self) -> str:
        """A part of anchors."""
        return self.metric.value.replace("_", "-") if self.metric else "rate"


def changes_sections(
    comparison: Comparison, marks: SideMarks, *, charted: bool = True
) -> tuple[Section, ...]:
    """Build the section with a table for each metric, and a chart where they are `charted`; none
    without a change."""
    found = _choices(comparison)
    if not found:
        return ()
    shown, left_out = _fitting(found)
    blocks: list[Block] = []
    if left_out:
        text = f"Left out to keep the page small: {listed(left_out)}. The downloads are complete."
        blocks.append(Paragraph(text=text))
    if len(shown) > 1:
        options = tuple((f"change-{choice.key}", choice.label) for choice in shown)
        blocks.append(Choices(id="change-metric", label="Metric", options=options))
    for choice in shown:
        anchor, heading = f"delta-{choice.key}", f"Change of {choice.label}"
        if charted:
            chart = delta_chart(anchor, heading, choice.cells, f"change-{choice.key}")
            blocks += [chart] if chart else []
        blocks.append(_delta_table(choice, comparison, marks))
    return (Section(heading="All results", id="changes", blocks=tuple(blocks)),)


def _choices(comparison: Comparison) -> list[_Choice]:
    """List the rate first, then the other metrics."""
    found = []
    rate = rates(comparison)
    if rate:
        metrics = {cell.metric for cell in rate}
        label = "rate (IOPS; MiB/s of large blocks)"
        label = title(rate[0].metric) if len(metrics) == 1 else label
        found.append(_Choice(metric=None, label=label, cells=rate))
    by_key = {key_of(cell): cell for cell in rate}
    for metric in Metric:
        cells = [cell for cell in comparison.cells if cell.metric is metric]
        changes = any(cell.judgement.ratio is not None for cell in cells)
        if changes and not all(cell.rate or _is_same_change(cell, by_key) for cell in cells):
            found.append(_Choice(metric=metric, label=title(metric), cells=cells))
    return found


def _is_same_change(cell: ComparedCell, rate: Mapping[CellKey, ComparedCell]) -> bool:
    """Return whether a bandwidth of blocks of one size changes as its IOPS do, or the reverse."""
    if cell.metric not in (Metric.IOPS, Metric.BANDWIDTH) or key_of(cell) not in rate:
        return False
    ratio, other = cell.judgement.ratio, rate[key_of(cell)].judgement.ratio
    if ratio is None or other is None:
        return ratio is other
    return math.isclose(ratio, other, rel_tol=1e-3)


def _fitting(found: Sequence[_Choice]) -> tuple[list[_Choice], list[str]]:
    """Select the metrics that fit the page, and word those left out."""
    first, *more = found
    left_out = []
    if len(first.cells) > MOST_ROWS:
        left_out.append(f"of {first.label} all but the {MOST_ROWS:,} largest changes")
        first = replace(first, cells=keep_largest(first.cells, log_change, MOST_ROWS))
    capacity = MOST_ROWS - len(first.cells)
    fitting = set()
    for choice in sorted(more, key=lambda choice: _ORDER.index(choice.metric)):
        if len(choice.cells) <= capacity:
            capacity -= len(choice.cells)
            fitting.add(choice.metric)
        else:
            left_out.append(choice.label)
    return [first, *(choice for choice in more if choice.metric in fitting)], left_out
