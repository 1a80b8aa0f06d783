"""The results of a run as tables and dot plots, one section for each workload."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.analysis.workload_differences import rate_told, usual_rate
from leadline.archive.reader import Run
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.plan.models import Cell as PlannedCell
from leadline.plan.models import Workload
from leadline.report.budget import PageBudget
from leadline.report.conditions import word
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Kind,
    Mark,
    Paragraph,
    Section,
    Table,
)
from leadline.report.marks import Marks
from leadline.report.run.plots import dot_plots
from leadline.report.run.workload_curves import workload_curves
from leadline.report.wording import (
    MISSING,
    NOT_SHOWN,
    listed,
    op_text,
    place,
    share_text,
    title,
    value_text,
    value_with_unit,
    visible,
    workload_text,
)

TABLE_METRICS = (
    Metric.IOPS,
    Metric.BANDWIDTH,
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P99,
    Metric.LATENCY_P999,
)
# A stream has no requests of its own whose number or latency could be told.
_OF_STREAMS = (Metric.BANDWIDTH,)
_NUMBER_COLUMNS = {
    Metric.IOPS: Column(title="IOPS", kind=Kind.NUMBER),
    Metric.BANDWIDTH: Column(title="MiB/s", kind=Kind.NUMBER, rank=2),
    Metric.LATENCY_MEAN: Column(title="mean", kind=Kind.NUMBER, rank=3),
    Metric.LATENCY_P50: Column(title="p50", kind=Kind.NUMBER, rank=5),
    Metric.LATENCY_P99: Column(title="p99", kind=Kind.NUMBER),
    Metric.LATENCY_P999: Column(title="p99.9", kind=Kind.NUMBER, rank=4),
}


def result_sections(
    run: Run,
    figures: Sequence[CellFigure],
    findings: Sequence[Finding],
    marks: Marks,
    budget: PageBudget | None = None,
) -> tuple[Section, ...]:
    """One section per workload: what the audit says against it, its table and every trial; with a
    `budget` also curves, and no more than it allows. A run of one target gets one table."""
    groups: dict[str, list[CellFigure]] = {}
    for figure in figures:
        groups.setdefault(figure.planned_workload, []).append(figure)
    workloads = {cell.workload.name: cell.workload for cell in run.plan.cells}
    together = len({figure.target for figure in figures}) == 1
    doubted = doubts_of_workloads(run, findings, marks)
    sections = []
    if together and figures:
        every = all(workload.streams for workload in workloads.values())
        shown = _OF_STREAMS if every else TABLE_METRICS
        table = results_table("results-all", "", figures, marks, by_target=False, metrics=shown)
        sections.append(Section(heading="All workloads", id="all", blocks=(table,)))
    for number, (name, rows) in enumerate(groups.items(), start=1):
        anchor = f"w{number}-{slug(name)}"
        workload = workloads.get(name)
        rate = rate_metric(workload)
        said: list[Block] = [Paragraph(text=text) for text in _said(workload)]
        said += [Bullets(items=doubted[name])] if name in doubted else []
        shown = _OF_STREAMS if workload is not None and workload.streams else TABLE_METRICS
        table = results_table(f"results-{anchor}", "", rows, marks, by_target=True, metrics=shown)
        plots: tuple[Block, ...] = dot_plots(anchor, rows, rate, marks, budget)
        if budget is not None:
            plots += workload_curves(run, anchor, rows, rate, budget)
        blocks: tuple[Block, ...] = (*said, *plots) if together else (*said, table, *plots)
        sections.append(Section(heading=visible(name), id=anchor, blocks=blocks))
    return tuple(sections)


def doubts_of_workloads(
    run: Run, findings: Sequence[Finding], marks: Marks
) -> Mapping[str, tuple[str, ...]]:
    """The errors and warnings about each workload of the plan, a line for each label, the most
    severe first. What concerns the whole run or a whole target is said at the top of the page."""
    cells = {trial.id: run.plan.cells[trial.cell] for trial in run.plan.trials}
    names = {cell.workload.name for cell in run.plan.cells}
    found: dict[str, dict[Mark, list[Finding]]] = {}
    for finding in findings:
        if finding.severity is Severity.INFO:
            continue
        cell = cells.get(finding.trial or "")
        given = finding.workload or (cell.workload.name if cell else "")
        # A section of a job file is `name/section`.
        name = given if given in names else given.partition("/")[0]
        if name:
            found.setdefault(name, {}).setdefault(marks.of(finding), []).append(finding)
    return {
        name: tuple(
            _doubt(mark, by_mark[mark], cells)
            for mark in sorted(by_mark, key=lambda mark: marks.all.index(mark))
        )
        for name, by_mark in found.items()
    }


def _doubt(mark: Mark, findings: Sequence[Finding], cells: Mapping[str, PlannedCell]) -> str:
    """`E1 cache-served-reads: disk · read: the message.`, of several the first, and where the
    others are."""
    where = dict.fromkeys(_where(finding, cells) for finding in findings)
    first = findings[0]
    also = [one for one in where if one != _where(first, cells)]
    more = f" Also: {listed(also, limit=3)}." if also else ""
    return f"{mark.label} {mark.code}: {_where(first, cells)}: {visible(first.message)}{more}"


def _where(finding: Finding, cells: Mapping[str, PlannedCell]) -> str:
    cell = cells.get(finding.trial or "")
    return place(
        finding.target or (cell.target if cell else ""),
        finding.level or (cell.level if cell else ""),
        finding.op.value if finding.op else "",
    )


def _said(workload: Workload | None) -> list[str]:
    if workload is None:
        return ["The plan does not hold this workload."]
    description = visible(workload.description)
    what = workload_text(workload)
    return [f"{description[:1].upper()}{description[1:]}: {what}." if description else f"{what}."]


def rate_metric(workload: Workload | None) -> Metric:
    """IOPS, or bandwidth for a workload of large blocks and for streams."""
    return usual_rate(workload)


def results_table(
    anchor: str,
    caption: str,
    figures: Sequence[CellFigure],
    marks: Marks,
    *,
    by_target: bool,
    metrics: Sequence[Metric] = TABLE_METRICS,
) -> Table:
    """A table of figures whose first column names the target, or else the workload; of `metrics`
    each has a column."""
    first = "target" if by_target else "workload"
    sections = by_target and any(one.workload != one.planned_workload for one in figures)
    levels: dict[str, set[str]] = {}
    for figure in figures:
        levels.setdefault(figure.workload, set()).add(figure.level)
    leveled = any(len(found) > 1 for found in levels.values())
    rates = [told_rate(figure) for figure in figures]
    of = f"of {title(rates[0])}" if len(set(rates)) == 1 else "of the rate"
    intervals = any(
        figure.metric(rate).interval for figure, rate in zip(figures, rates, strict=True)
    )
    columns = [Column(title=first)]
    columns += [Column(title="section")] if sections else []
    columns += [Column(title="level")] if leveled else []
    columns += [Column(title="op"), *(_NUMBER_COLUMNS[metric] for metric in metrics)]
    columns += [Column(title="trials", kind=Kind.NUMBER)]
    columns += [Column(title="range", kind=Kind.NUMBER, unit=of, rank=1)]
    columns += (
        [Column(title="95 % interval", kind=Kind.NUMBER, unit=of, rank=6)] if intervals else []
    )
    rows = []
    for figure, rate in zip(figures, rates, strict=True):
        name = figure.target if by_target else figure.workload
        row = [word(name)]
        row += [word(figure.workload)] if sections else []
        row += [word(figure.level)] if leveled else []
        row += [word(op_text(figure.op))]
        row += [
            number_cell(figure, figure.metric(metric), marks, rate=metrics[0]) for metric in metrics
        ]
        row += [trials_cell(figure, marks), _range(figure.metric(rate))]
        row += [_interval(figure.metric(rate))] if intervals else []
        rows.append(tuple(row))
    return Table(
        id=anchor, caption=caption, columns=tuple(columns), rows=tuple(rows), filterable=True
    )


def told_rate(figure: CellFigure) -> Metric:
    """IOPS, or bandwidth where that alone is told, as of a stream."""
    return rate_told(Metric.IOPS, lambda metric: figure.metric(metric).value is not None)


def number_cell(
    figure: CellFigure, metric: MetricFigure, marks: Marks, *, rate: Metric = Metric.IOPS
) -> Cell:
    """A number with its doubts; in place of the `rate` stands that the whole row is missing."""
    doubts = marks.for_number(metric.doubts)
    if metric.value is None:
        text = MISSING if figure.missing and metric.metric is rate else NOT_SHOWN
        return Cell(text=text, note=metric.absence, marks=doubts, missing=True)
    notes = []
    if metric.low is not None and metric.high is not None and len(metric.trials) > 1:
        low = value_text(metric.metric, metric.low)
        high = value_with_unit(metric.metric, metric.high)
        notes.append(f"trials from {low} to {high}")
    if metric.interval:
        low, high = (value_text(metric.metric, end) for end in metric.interval)
        notes.append(f"95 % interval {low} to {high}")
    text = value_text(metric.metric, metric.value)
    return Cell(text=text, sort=metric.value, marks=doubts, note="; ".join(notes))


def trials_cell(figure: CellFigure, marks: Marks) -> Cell:
    every = [doubt for metric in figure.metrics for doubt in metric.doubts]
    whole = figure.completed == figure.planned
    text = f"{figure.completed}" if whole else f"{figure.completed} of {figure.planned}"
    return Cell(text=text, sort=float(figure.completed), marks=marks.for_row(every))


def _range(metric: MetricFigure) -> Cell:
    spread = metric.spread
    if spread is None or metric.low is None or metric.high is None:
        note = "one trial has no range" if metric.trials else metric.absence
        return Cell(text=NOT_SHOWN, note=note, missing=True)
    low, high = value_text(metric.metric, metric.low), value_text(metric.metric, metric.high)
    return Cell(text=share_text(spread), sort=spread, note=f"trials from {low} to {high}")


def _interval(metric: MetricFigure) -> Cell:
    if metric.interval is None:
        return Cell(text=NOT_SHOWN, note="a 95 % interval needs 6 trials", missing=True)
    low, high = metric.interval
    text = f"{value_text(metric.metric, low)} to {value_text(metric.metric, high)}"
    return Cell(text=text, sort=high - low)


def slug(name: str) -> str:
    """An anchor's part: lower-case ASCII letters, digits and hyphens, at most 40 characters."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "workload"
