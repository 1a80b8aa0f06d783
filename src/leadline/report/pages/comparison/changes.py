"""Changes with verdicts, as tables: the rates in brief, and all results of every metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.verdicts import Evidence
from leadline.metrics import COSTS, Metric, Op
from leadline.report.cells import absent, number_column, records_table, trials_note, word
from leadline.report.document import (
    Block,
    Cell,
    Choices,
    Column,
    Kind,
    Paragraph,
    Section,
    Table,
)
from leadline.report.marks import Marks
from leadline.report.pages.comparison.charts import (
    delta_chart,
    leveled_cells,
    log_change,
)
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.comparison.tables import SideMarks
from leadline.report.pages.run.charts import keep_largest
from leadline.report.words import (
    EVIDENCE_TEXTS,
    JUDGED,
    MISSING,
    NOT_SHOWN,
    absence_text,
    change_text,
    counts_text,
    interval_text,
    level_name,
    level_text,
    listed,
    needed_text,
    op_text,
    p_text,
    reason_text,
    reason_words,
    title,
    value_text,
    value_with_unit,
)

_Cells = Sequence[ComparedCell]
# A column of compared cells, and the function that makes its cells.
_ColumnOf = tuple[Column, Callable[[ComparedCell], Cell]]


def _value(cell: ComparedCell, system: int, marks: Marks, unit: str) -> Cell:
    """Format the figure of a system; without a `unit` of the column with its own."""
    figure = (cell.baseline, cell.candidate)[system]
    row = (cell.baseline_cell, cell.candidate_cell)[system]
    if figure is None or row is None:
        return Cell(text=MISSING, note="no such cell on this system", missing=True)
    labels = marks.for_number(figure.finding_marks)
    if figure.value is None:
        text = MISSING if row.missing else NOT_SHOWN
        return Cell(text=text, note=absence_text(figure), marks=labels, missing=True)
    text = (value_text if unit else value_with_unit)(figure.metric, figure.value)
    return Cell(text=text, sort=figure.value, marks=labels, note=trials_note(figure))


def _interval(cell: ComparedCell, system: int) -> Cell:
    figure = (cell.baseline, cell.candidate)[system]
    if figure is None or figure.interval is None:
        return absent("a 95 % interval needs 6 trials")
    low, high = (value_text(figure.metric, end) for end in figure.interval)
    return Cell(text=f"{low} to {high}", sort=figure.interval[1] - figure.interval[0])


def _change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    if ratio is None:
        return absent(listed(map(reason_text, cell.judgement.reasons)))
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
    return [_change(cell), _verdict(cell)] if cell else [absent(), absent()]


def _change_interval(cell: ComparedCell) -> Cell:
    ends = cell.judgement.interval
    if ends is None:
        return absent(EVIDENCE_TEXTS[cell.judgement.evidence])
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
        return absent()
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


_UNITS = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}
CellKey = tuple[str, str, str, Op | None]


def key_of(cell: ComparedCell) -> CellKey:
    return cell.target, cell.workload, cell.level, cell.op


def _name_columns(cells: _Cells) -> list[_ColumnOf]:
    columns: list[_ColumnOf] = [
        (Column(title="target"), lambda cell: word(cell.target)),
        (Column(title="workload"), lambda cell: word(cell.workload)),
        (Column(title="level"), lambda cell: word(level_name(cell.level))),
        (Column(title="op"), lambda cell: word(op_text(cell.op))),
    ]
    return columns if leveled_cells(cells) else [*columns[:2], columns[3]]


def _value_columns(
    comparison: Comparison, cells: _Cells, marks: SideMarks, *, brief: bool
) -> list[_ColumnOf]:
    """Show the figures of both systems, with their intervals unless `brief`."""
    metrics = {cell.metric for cell in cells}
    unit = _UNITS.get(metrics.pop(), "") if len(metrics) == 1 else ""
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
    return records_table(
        f"delta-{choice.key}-table",
        cells,
        *columns,
        caption=": ".join(filter(None, (choice.label, "; ".join(map(reason_text, common))))),
        filterable=True,
        choice=f"change-{choice.key}",
    )


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
    spent = {key_of(cell): cell for cell in comparison.costs if cell.metric is Metric.STORAGE_CPU}
    if any(key_of(cell) in spent for cell in cells):

        def processor_time(cell: ComparedCell) -> Cell:
            return change_and_verdict(spent.get(key_of(cell)))[0]

        columns.append((number_column("storage CPU", 3, "per I/O"), processor_time))
    if busy:

        def cores(cell: ComparedCell) -> Cell:
            share = busy.get(key_of(cell))
            return absent() if share is None else Cell(text=f"{share:.0%}", sort=share)

        columns.append((number_column("cores busy", 5), cores))
    return records_table(anchor, cells, *columns, filterable=True)


def costs_sections(
    comparison: Comparison, marks: SideMarks, *, folded: bool = False
) -> tuple[Section, ...]:
    """Build the costs of an I/O on both systems, and what was not measured; empty without any."""
    cells = comparison.costs
    if not cells:
        return ()
    shown = keep_largest(cells, log_change, MOST_ROWS)
    rest = (
        f", the {len(shown):,} largest changes of {len(cells):,}" if len(shown) < len(cells) else ""
    )
    rows = records_table(
        "costs-table",
        shown,
        *_name_columns(shown),
        (Column(title="cost"), lambda cell: word(title(cell.metric))),
        *_value_columns(comparison, shown, marks, brief=False),
        *_verdict_columns(shown, rank=2),
        caption=f"Processor time, bytes and memory{rest}",
        filterable=True,
    )
    lacking = [
        f"{name}: {listed(map(title, absent_costs))}"
        for system, name in enumerate(system_names(comparison))
        if (absent_costs := _unmeasured_costs(cells, system))
    ]
    note = [Paragraph(text=f"Not measured in {'; '.join(lacking)}.")] if lacking else []
    changes = [cell for cell in cells if cell.metric is Metric.STORAGE_CPU]
    return (
        Section(
            heading="Costs of an I/O",
            id="costs",
            blocks=(rows, *note),
            folded=folded,
            result=f"storage processor time {counts_text(changes)}" if changes else "",
        ),
    )


def _unmeasured_costs(cells: _Cells, system: int) -> list[Metric]:
    figures = [(cell.baseline, cell.candidate)[system] for cell in cells]
    known = {figure.metric for figure in figures if figure and figure.value is not None}
    return [metric for metric in COSTS if metric not in known]


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
    # fio counts the bytes and the I/Os of a short trial over slightly different times.
    return math.isclose(ratio, other, rel_tol=5e-3)


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
