"""The results of a run as tables and dot plots, one section for each workload."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.scaling.curves import load_curves
from leadline.analysis.workloads import usual_rate
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.metrics import COSTS, Metric
from leadline.plan.workload import Workload
from leadline.report.cells import (
    number_cell,
    number_column,
    records_table,
    section,
    slug,
    table,
    trials_cell,
)
from leadline.report.curves import PageBudget
from leadline.report.document import Block, Cell, Column, Kind, Paragraph, Section, Table
from leadline.report.marks import Marks
from leadline.report.pages.run.charts import dot_plots, workload_curves
from leadline.report.pages.run.findings import shown_rate
from leadline.report.words import (
    NOT_SHOWN,
    absence_text,
    level_name,
    listed,
    op_text,
    share_text,
    title,
    value_text,
    workload_text,
)

if TYPE_CHECKING:
    from leadline.analysis.scaling.study import ScalingStudy

TABLE_METRICS = (
    Metric.IOPS,
    Metric.BANDWIDTH,
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P99,
    Metric.LATENCY_P999,
)
# A stream has no I/O requests to count.
_OF_STREAMS = (Metric.BANDWIDTH,)
# An operation of a lifecycle is a volume in a stage.
_OF_LIFECYCLES = (Metric.LATENCY_MEAN, Metric.LATENCY_P50, Metric.LATENCY_P95, Metric.IOPS)
# A transaction moves no bytes of its own.
_OF_DATABASES = (
    *(Metric.IOPS, Metric.LATENCY_MEAN, Metric.LATENCY_P50, Metric.LATENCY_P95),
    *(Metric.LATENCY_P99, Metric.LATENCY_P999),
)
_NUMBER_COLUMNS = {
    Metric.IOPS: number_column("IOPS"),
    Metric.BANDWIDTH: number_column("MiB/s", 2),
    Metric.LATENCY_MEAN: number_column("mean", 3),
    Metric.LATENCY_P50: number_column("p50", 5),
    Metric.LATENCY_P95: number_column("p95", 5),
    Metric.LATENCY_P99: number_column("p99"),
    Metric.LATENCY_P999: number_column("p99.9", 4),
}

_COST_COLUMNS = {
    Metric.STORAGE_CPU: number_column("storage CPU", 0, "per I/O"),
    Metric.CLIENT_CPU: number_column("client CPU", 0, "per I/O"),
    Metric.DISK_BYTES: number_column("disk bytes", 0, "per I/O"),
    Metric.NETWORK_BYTES: number_column("network bytes", 0, "per I/O"),
    Metric.STORAGE_MEMORY: number_column("storage memory"),
}


def result_sections(
    run: Run,
    figures: Sequence[CellFigure],
    findings: Sequence[Finding],
    marks: Marks,
    budget: PageBudget | None = None,
) -> tuple[Section, ...]:
    """Build a section per workload: findings, table and trials, with a `budget` also curves.

    A run of one target has one table of all workloads.
    """
    groups: dict[str, list[CellFigure]] = {}
    for figure in figures:
        groups.setdefault(figure.planned_workload, []).append(figure)
    workloads = {cell.workload.name: cell.workload for cell in run.plan.cells}
    together = len({figure.target for figure in figures}) == 1
    sections = []
    if together and figures:
        kinds = {_table_metrics(workload) for workload in workloads.values()}
        shown = kinds.pop() if len(kinds) == 1 else TABLE_METRICS
        whole = results_table("results-all", "", figures, marks, by_target=False, metrics=shown)
        sections.append(Section(heading="All workloads", id="all", blocks=(whole,)))
    for number, (name, rows) in enumerate(groups.items(), start=1):
        anchor = f"w{number}-{slug(name)}"
        workload = workloads.get(name)
        rate = usual_rate(workload)
        intro: list[Block] = [Paragraph(text=_description(workload))]
        shown = _table_metrics(workload)
        own = results_table(f"results-{anchor}", "", rows, marks, by_target=True, metrics=shown)
        # The first screen of a page has the trials.
        plots: tuple[Block, ...] = (
            dot_plots(anchor, rows, rate, marks)
            if budget is None
            else workload_curves(anchor, rows, rate, budget)
        )
        blocks: tuple[Block, ...] = (*intro, *plots) if together else (*intro, own, *plots)
        sections.append(Section(heading=name, id=anchor, blocks=blocks))
    return tuple(sections)


def cost_sections(figures: Sequence[CellFigure], marks: Marks) -> tuple[Section, ...]:
    """Build the costs of an I/O of each cell, and what was not measured; empty without any."""
    rows = [figure for figure in figures if figure.costs]
    if not rows:
        return ()
    measured = {cost.metric for figure in rows for cost in figure.costs}
    columns = [
        (_COST_COLUMNS[metric], partial(_cost_cell, metric=metric, marks=marks))
        for metric in COSTS
        if metric in measured
    ]
    found = records_table(
        "costs-table",
        rows,
        ("target", lambda figure: figure.target),
        ("workload", lambda figure: figure.workload),
        ("level", lambda figure: level_name(figure.level)),
        *columns,
        (number_column("trials"), lambda figure: trials_cell(figure, marks)),
        caption="Processor time, bytes and memory: medians of the trials",
        filterable=True,
    )
    lacking = [title(metric) for metric in COSTS if metric not in measured]
    note = f"Not measured: {listed(lacking)}." if lacking else None
    return (section("Costs of an I/O", "costs", found, note),)


def _cost_cell(figure: CellFigure, *, metric: Metric, marks: Marks) -> Cell:
    return number_cell(figure, figure.metric(metric), marks)


def _table_metrics(workload: Workload | None) -> tuple[Metric, ...]:
    if workload is None or workload.in_blocks:
        return TABLE_METRICS
    if workload.database:
        return _OF_DATABASES
    return _OF_STREAMS if workload.streams else _OF_LIFECYCLES


def _description(workload: Workload | None) -> str:
    if workload is None:
        return "The plan does not hold this workload."
    description = workload.description
    what = workload_text(workload)
    return f"{description[:1].upper()}{description[1:]}: {what}." if description else f"{what}."


def results_table(
    anchor: str,
    caption: str,
    figures: Sequence[CellFigure],
    marks: Marks,
    *,
    by_target: bool,
    metrics: Sequence[Metric] = TABLE_METRICS,
) -> Table:
    """Build a table of figures with a column per metric; the first names target or workload."""
    first = "target" if by_target else "workload"
    sections = by_target and any(row.workload != row.planned_workload for row in figures)
    levels: dict[str, set[str]] = {}
    for figure in figures:
        levels.setdefault(figure.workload, set()).add(figure.level)
    leveled = any(len(found) > 1 for found in levels.values())
    rates = [shown_rate(figure) for figure in figures]
    shown = {title(rate, row.op) for row, rate in zip(figures, rates, strict=True)}
    of = f"of {shown.pop()}" if len(shown) == 1 else "of the rate"
    intervals = any(
        figure.metric(rate).interval for figure, rate in zip(figures, rates, strict=True)
    )
    columns: list[str | Column] = [first]
    columns += ["section"] * sections + ["level"] * leveled + ["op"]
    named = {**_NUMBER_COLUMNS}
    if metrics == _OF_LIFECYCLES:
        named[Metric.IOPS] = number_column("volumes/s")
    if metrics == _OF_DATABASES:
        named[Metric.IOPS] = number_column("transactions/s")
    columns += [*(named[metric] for metric in metrics), number_column("trials")]
    columns += [Column(title="range", kind=Kind.NUMBER, unit=of, rank=1)]
    columns += (
        [Column(title="95 % interval", kind=Kind.NUMBER, unit=of, rank=6)] if intervals else []
    )
    rows = []
    for figure, rate in zip(figures, rates, strict=True):
        name = figure.target if by_target else figure.workload
        row: list[str | Cell] = [name]
        row += (
            [figure.workload] * sections
            + [level_name(figure.level)] * leveled
            + [op_text(figure.op)]
        )
        row += [
            number_cell(figure, figure.metric(metric), marks, rate=metrics[0]) for metric in metrics
        ]
        row += [trials_cell(figure, marks), _range(figure.metric(rate))]
        row += [_interval(figure.metric(rate))] if intervals else []
        rows.append(row)
    return table(anchor, columns, rows, caption=caption, filterable=True)


def _range(metric: MetricFigure) -> Cell:
    spread = metric.spread
    if spread is None or metric.low is None or metric.high is None:
        note = "one trial has no range" if metric.trials else absence_text(metric)
        if metric.variation is not None:
            note = f"coefficient of variation {share_text(metric.variation)}"
        return Cell(text=NOT_SHOWN, note=note, missing=True)
    low, high = value_text(metric.metric, metric.low), value_text(metric.metric, metric.high)
    return Cell(text=share_text(spread), sort=spread, note=f"trials from {low} to {high}")


def _interval(metric: MetricFigure) -> Cell:
    if metric.interval is None:
        return Cell(text=NOT_SHOWN, note="a 95 % interval needs 6 trials", missing=True)
    low, high = metric.interval
    text = f"{value_text(metric.metric, low)} to {value_text(metric.metric, high)}"
    return Cell(text=text, sort=high - low)


_MOST_SENTENCES = 2


def study_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> ScalingStudy | None:
    """Study the load curves of a run; None without a workload at two load levels."""
    curves = load_curves(run, figures)
    if not any(len(curve.closed) + len(curve.offered) > 1 or curve.disturbed for curve in curves):
        return None
    from leadline.analysis.scaling.study import study

    evidence = (tuple(figures), tuple(findings))
    found = study((run,), lambda _: evidence)
    return found if found.several_levels else None


def load_sentences(loads: ScalingStudy) -> tuple[str, ...]:
    """Summarise the load curves of a run; nothing of many, which the section on them shows."""
    from leadline.report.pages.scaling.page import scaling_sentences

    sentences = scaling_sentences(loads)
    return sentences if len(sentences) <= _MOST_SENTENCES else ()
