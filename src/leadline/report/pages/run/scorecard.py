"""Targets of a run compared: heat maps, read vs write, clusters, labels, and the ranking."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from leadline import errors
from leadline.analysis.compare import compare
from leadline.analysis.comparison import (
    By,
    Comparison,
    Judged,
    places,
    undecided_pairs,
    values_of,
    within_run,
)
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.noise import floor_of_objectives
from leadline.analysis.objectives import every_rate
from leadline.analysis.ranking import Ranking, rank
from leadline.analysis.requirements import protections
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.metrics import Metric, Op
from leadline.plan.labels import is_number
from leadline.report.cells import number_column, table
from leadline.report.document import Cell, Column, Paragraph, Section
from leadline.report.marks import Marks
from leadline.report.pages.ranking import order_table, ranking_result
from leadline.report.pages.run.heat_maps import grid, usable
from leadline.report.words import MISSING, NOT_SHOWN, absence_text, level_name, value_with_unit


def read_write_sections(
    run: Run, figures: Sequence[CellFigure], marks: Marks
) -> tuple[Section, ...]:
    """Build a table of the cells that read and write; none without such a cell."""
    found = grid(run, figures)
    loads = dict.fromkeys(column[:2] for column in found.columns)
    rows = []
    totals = False
    for (workload, level), target in itertools.product(loads, found.targets):
        ops = {
            op: found.at[target, (workload, level, op)]
            for op in (Op.READ, Op.WRITE, Op.TOTAL)
            if (target, (workload, level, op)) in found.at
        }
        if Op.READ not in ops or Op.WRITE not in ops:
            continue
        totals = totals or Op.TOTAL in ops
        rate = found.rates[found.columns.index((workload, level, Op.READ))]
        rows.append(_read_write_row(workload, target, level, rate, ops, marks))
    if not rows:
        return ()
    text = "Reads and writes of the same cell. The ratio is read / write."
    if totals:
        text += " There is a total only where both ran at the same time."
    columns = (
        "workload",
        "target",
        Column(title="level", rank=5),
        number_column("read"),
        number_column("write"),
        number_column("ratio", 2),
        number_column("total", 1),
        number_column("read p99", 3),
        number_column("write p99", 3),
        number_column("p99 ratio", 4),
    )
    pairs = table("read-write-table", columns, rows, filterable=True)
    blocks = (Paragraph(text=text), pairs)
    ratios = [float(cell.sort) for row in rows if isinstance(cell := row[5], Cell) and cell.sort]
    ends = dict.fromkeys(f"×{ratio:.2f}" for ratio in (min(ratios), max(ratios))) if ratios else ()
    result = f"reads {' to '.join(ends)} of writes" if ends else ""
    return (Section(heading="Read vs write", id="read-write", blocks=blocks, result=result),)


def _read_write_row(
    workload: str,
    target: str,
    level: str,
    rate: Metric,
    ops: Mapping[Op, CellFigure],
    marks: Marks,
) -> tuple[str | Cell, ...]:
    read, write = ops[Op.READ], ops[Op.WRITE]
    total = (
        _number(ops[Op.TOTAL], rate, marks)
        if Op.TOTAL in ops
        else Cell(text=NOT_SHOWN, note="reads and writes ran one after the other", missing=True)
    )
    return (
        workload,
        target,
        level_name(level),
        _number(read, rate, marks),
        _number(write, rate, marks),
        _ratio(read.metric(rate), write.metric(rate)),
        total,
        _number(read, Metric.LATENCY_P99, marks),
        _number(write, Metric.LATENCY_P99, marks),
        _ratio(read.metric(Metric.LATENCY_P99), write.metric(Metric.LATENCY_P99)),
    )


def _number(figure: CellFigure, metric: Metric, marks: Marks) -> Cell:
    found = figure.metric(metric)
    labels = marks.for_number(found.finding_marks)
    if found.value is None:
        text = MISSING if figure.missing and not metric.is_latency else NOT_SHOWN
        return Cell(text=text, note=absence_text(found), marks=labels, missing=True)
    return Cell(text=value_with_unit(metric, found.value), sort=found.value, marks=labels)


def _ratio(read: MetricFigure, write: MetricFigure) -> Cell:
    if not usable(read) or not usable(write):
        note = "one of the two has an error finding" if read.value and write.value else ""
        return Cell(text=NOT_SHOWN, note=note, missing=True)
    if read.value is None or not write.value:
        return Cell(text=NOT_SHOWN, missing=True)
    ratio = read.value / write.value
    return Cell(text=f"{ratio:,.3g}" if ratio < 1000 else f"{ratio:,.0f}", sort=ratio)


# More values of a label are a curve, which the sections on scaling draw.
_MOST_VALUES = 3
_MOST_PAIRS = 4


def label_comparisons(run: Run, evidence: Judged) -> tuple[Comparison, ...]:
    """Compare each value of a numeric label (cores, replicas) with the lowest.

    All other labels are held fixed. A target without a label that its partners have is compared
    with each of them.
    """
    found = [
        compare(*within_run(run, By.LABEL, *names, evidence), by=By.LABEL) for names in _pairs(run)
    ]
    return tuple(comparison for comparison in found if comparison.cells)


def _pairs(run: Run) -> Iterator[tuple[str, str]]:
    for key in dict.fromkeys(key for target in run.plan.targets for key in target.labels):
        values = values_of(run, key)
        if not 1 < len(values) <= _MOST_VALUES or not all(map(is_number, values)):
            continue
        for value in values[1:]:
            names = f"{key}={values[0]}", f"{key}={value}"
            try:
                within_run(run, By.LABEL, *names, lambda _: ((), ()))
            except LeadlineError as error:
                # Partners are ambiguous: compare each pair of them.
                if error.kind is errors.NOT_COMPARABLE:
                    yield from undecided_pairs(run, *names)[:_MOST_PAIRS]
                continue
            yield names


def comparisons_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> tuple[Comparison, ...]:
    """Compare every further cluster with the plan's first, and every value of a numeric label
    with the lowest; none where there is only one."""
    names = places(run)
    evidence = (tuple(figures), tuple(findings))
    found = []
    for name in names[1:]:
        sides = within_run(run, By.CLUSTER, names[0], name, lambda _: evidence)
        found.append(compare(*sides, by=By.CLUSTER))
    by_label = label_comparisons(run, lambda _: evidence)
    return (*(comparison for comparison in found if comparison.cells), *by_label)


def comparison_sections(comparisons: Sequence[Comparison], marks: Marks) -> tuple[Section, ...]:
    """Build one section with a part for each comparison."""
    if not comparisons:
        return ()
    from leadline.report.pages.comparison.page import comparison_section

    parts = tuple(comparison_section(comparison, marks) for comparison in comparisons)
    if len(parts) < 2:
        return parts
    return (Section(heading="Side by side", id="side-by-side", sections=parts),)


# Every pair of targets is compared; `leadline rank` ranks more targets.
MOST_TARGETS = 60


def ranking_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> Ranking | None:
    """Rank targets by the rate of every workload.

    None for one target, for very many, without a workload of all targets, and without a figure.
    """
    targets = {figure.target for figure in figures}
    if not 2 <= len(targets) <= MOST_TARGETS:
        return None
    planned: dict[str, set[str]] = {}
    for cell in run.plan.cells:
        planned.setdefault(cell.workload.name, set()).add(cell.target)
    if not any(targets <= on for on in planned.values()):
        return None
    try:
        question = every_rate(run, figures)
    except LeadlineError as error:
        if error.kind is not errors.NOTHING_TO_RANK:
            raise
        return None
    noise = floor_of_objectives(run, tuple(figures), tuple(findings))
    return rank(run, figures, question, noise=noise)


def ranking_sections(run: Run, ranking: Ranking | None, targets: int) -> tuple[Section, ...]:
    """Build the ranking as a table; for very many targets a hint; else nothing."""
    if ranking is None:
        if targets <= MOST_TARGETS:
            return ()
        text = f"{targets} targets are too many to rank here: `leadline rank {run.id}`."
        return (Section(heading="Ranking", id="ranking", blocks=(Paragraph(text=text),)),)
    order = order_table("ranking-table", ranking, protections(run), whole=True)
    result = ranking_result(ranking)
    return (Section(heading="Ranking", id="ranking", blocks=(order,), result=result),)
