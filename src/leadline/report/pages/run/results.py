"""The results of a run as tables and dot plots, one section for each workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.scaling.curves import load_curves
from leadline.analysis.scaling.study import ScalingStudy, study
from leadline.analysis.workloads import reported_rate, usual_rate
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.findings import Finding, Severity
from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op
from leadline.plan.models import Cell as PlannedCell
from leadline.plan.models import Workload
from leadline.report.cells import number_cell, number_column, slug, table, trials_cell
from leadline.report.curves import (
    MOST_POINTS,
    MOST_SERIES,
    NEXT_TO_ZERO,
    RATE_UNITS,
    TimeRow,
    decades_axis,
    distribution_chart,
    ladder_chart,
    linear_axis,
    percentiles_of,
    rate_over_time_chart,
)
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Choices,
    Column,
    Dot,
    DotPlot,
    DotRow,
    Kind,
    LineChart,
    Mark,
    Marks,
    PageBudget,
    Paragraph,
    Section,
    Table,
)
from leadline.report.pages.scaling.page import scaling_sentences
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    chart_labels,
    count_text,
    listed,
    op_text,
    place,
    share_text,
    title,
    value_text,
    value_with_unit,
    workload_text,
)

# Above this ratio the small values of a linear axis would lie on its first pixels.
_LOG_FROM_RATIO = 30.0

# More rows per plot make a page too large.
DRAWN_ROWS = 40


def dot_plots(
    anchor: str,
    figures: Sequence[CellFigure],
    rate: Metric,
    marks: Marks,
    budget: PageBudget | None = None,
) -> tuple[DotPlot, ...]:
    """Plot rate and latency of each operation of a workload, a row per target.

    With a `budget` only the fastest of very many targets, which the title states, and no plot of
    a single dot.
    """
    plots = []
    groups: dict[tuple[str, str, object], list[CellFigure]] = {}
    for figure in figures:
        groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    workloads = {figure.workload for figure in figures}
    levels = {figure.level for figure in figures}
    for number, rows in enumerate(groups.values(), start=1):
        first = rows[0]
        parts = [first.workload] if len(workloads) > 1 else []
        parts += [first.level] if len(levels) > 1 and first.level else []
        parts += [op_text(first.op)] if first.op else []
        shown = rows if budget is None else _fastest(rows, rate, DRAWN_ROWS)
        among = [f"the {len(shown)} fastest of {len(rows)}"] if len(shown) < len(rows) else []
        for kind, metric in (("rate", rate), ("latency", _latency_metric(shown))):
            made = _plot(
                f"plot-{anchor}-{number}-{kind}",
                " · ".join([*parts, title(metric), *among]),
                metric,
                shown,
                marks,
            )
            if made and (budget is None or _worth(made, budget)):
                plots.append(made)
    return tuple(plots)


def _worth(plot: DotPlot, budget: PageBudget) -> bool:
    dots = sum(len(row.dots) for row in plot.rows)
    return dots > 1 and budget.allows("every trial", len(plot.rows) + dots)


def _fastest(rows: Sequence[CellFigure], rate: Metric, most: int) -> Sequence[CellFigure]:
    """Select the figures of the highest rate, in their order."""
    values = [row.metric(rate).value for row in rows]
    order = sorted(
        range(len(rows)), key=lambda at: -math.inf if (value := values[at]) is None else value
    )
    return [rows[at] for at in sorted(order[-most:])]


def _latency_metric(figures: Sequence[CellFigure]) -> Metric:
    """p99, or the mean where a trial has too few I/Os for it."""
    for figure in figures:
        values = figure.metric(Metric.LATENCY_P99).trials
        if any(trial.value is None for trial in values):
            return Metric.LATENCY_MEAN
    return Metric.LATENCY_P99


def _plot(
    anchor: str, heading: str, metric: Metric, figures: Sequence[CellFigure], marks: Marks
) -> DotPlot | None:
    """Plot a metric; None where no trial has a value."""
    values = [
        trial.value
        for figure in figures
        for trial in figure.metric(metric).trials
        if trial.value is not None
    ]
    if not values:
        return None
    positive = [value for value in values if value > NEXT_TO_ZERO]
    log = len(positive) == len(values) and max(values) / min(values) > _LOG_FROM_RATIO
    # Round ticks are round in the unit that is read.
    size = float(1 << 20) if metric is Metric.BANDWIDTH else 1.0
    scaled = [value / size for value in values]
    low, high, ticks = decades_axis(min(scaled), max(scaled)) if log else linear_axis(max(scaled))
    labels = chart_labels(dict.fromkeys(figure.target for figure in figures))
    unit = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}.get(metric, "")
    return DotPlot(
        id=anchor,
        title=heading,
        unit=unit,
        mark="median" if metric.quantile is None else "all trials together",
        log=log,
        low=low * size,
        high=high * size,
        ticks=tuple((tick * size, value_text(metric, tick * size)) for tick in ticks),
        rows=tuple(_row(labels[figure.target], figure.metric(metric), marks) for figure in figures),
    )


def _row(label: str, metric: MetricFigure, marks: Marks) -> DotRow:
    """Plot the trials of a metric, and its figure as in the table."""
    shown = [(trial, trial.value) for trial in metric.trials if trial.value is not None]
    text = NOT_SHOWN if shown else MISSING
    if metric.value is not None:
        text = value_text(metric.metric, metric.value)
        if metric.spread is not None:
            text += f" (range {share_text(metric.spread)})"
    return DotRow(
        label=label,
        dots=tuple(
            Dot(
                trial=trial.trial,
                value=value,
                text=value_with_unit(metric.metric, value),
                outlier=trial.outlier,
            )
            for trial, value in shown
        ),
        value=metric.value,
        text=text,
        marks=marks.for_number(metric.finding_marks),
    )


# A larger run is drawn over time only where it was not steady: every log is a file to read.
FEW_TRIALS = 100
_MOST_TIME_LINES = 24
_MOST_TIME_POINTS = 900
_Key = tuple[str, str, Op]


def workload_curves(
    run: Run, anchor: str, figures: Sequence[CellFigure], rate: Metric, budget: PageBudget
) -> tuple[Block, ...]:
    """Draw percentiles, distribution and IOPS over time of a workload, with a selector.

    Targets are the series. Totals are left out.
    """
    groups: dict[_Key, list[CellFigure]] = {}
    for figure in figures:
        if figure.op is not None and figure.op is not Op.TOTAL and not figure.missing:
            groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    targets, rest = shown_targets(figures, rate)
    named = _names(list(groups))
    charts: list[tuple[str, LineChart]] = []
    for number, (key, rows) in enumerate(groups.items(), start=1):
        drawn = [figure for figure in rows if figure.target in targets]
        name = f" · {named[key]}" if named[key] else ""
        for label, chart in _charts(run, f"curve-{anchor}-{number}", name, drawn, targets):
            if budget.allows(label, sum(len(line.points) for line in chart.lines)):
                charts.append((f"{label}{name}", chart))
    if not charts:
        return ()
    blocks: list[Block] = []
    if rest:
        of = count_text(len(targets) + len(rest), "target")
        text = (
            f"Drawn: the {len(targets)} fastest of {of} by {title(rate)}; not drawn: "
            f"{listed(rest)}."
        )
        blocks.append(Paragraph(text=text))
    if len(charts) > 1:
        options = tuple((chart.choice, label) for label, chart in charts)
        blocks.append(Choices(id=f"curves-{anchor}", label="Curve", options=options))
    return (*blocks, *(chart for _, chart in charts))


def shown_targets(
    figures: Sequence[CellFigure], rate: Metric
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Select (drawn, left out): at most `MOST_SERIES` targets, by their largest rate.

    Both are in the order of the plan.
    """
    best: dict[str, float] = {}
    for figure in figures:
        value = figure.metric(rate).value
        if value is not None:
            best[figure.target] = max(value, best.get(figure.target, value))
    kept = set(sorted(best, key=lambda target: -best[target])[:MOST_SERIES])
    return (
        tuple(target for target in best if target in kept),
        tuple(target for target in best if target not in kept),
    )


def _names(keys: Sequence[_Key]) -> dict[_Key, str]:
    """Name the charts of a workload by section, level and operation where they differ."""
    sections, levels, ops = ({key[part] for key in keys} for part in range(3))
    return {
        key: " · ".join(
            [key[0]] * (len(sections) > 1)
            + [key[1]] * (len(levels) > 1)
            + [op_text(key[2])] * (len(ops) > 1)
        )
        for key in keys
    }


def _charts(
    run: Run, anchor: str, name: str, figures: Sequence[CellFigure], targets: tuple[str, ...]
) -> list[tuple[str, LineChart]]:
    """Draw (kind, chart) of one level and operation; charts without points are left out."""
    labels = chart_labels(targets)
    series = tuple(labels[target] for target in targets)
    shown = [(labels[figure.target], targets.index(figure.target), figure) for figure in figures]
    ladder, spread, over = (f"{anchor}-{kind}" for kind in ("ladder", "distribution", "time"))
    found: list[tuple[str, LineChart | None]] = [
        (
            "percentiles",
            ladder_chart(
                ladder,
                f"Latency percentiles{name}",
                [(label, number, percentiles_of(figure)) for label, number, figure in shown],
                series,
                ladder,
            ),
        ),
        (
            "distribution",
            distribution_chart(
                spread,
                f"Latency distribution{name}",
                [
                    (label, number, figure.histogram)
                    for label, number, figure in shown
                    if figure.histogram is not None
                ],
                series,
                spread,
            ),
        ),
    ]
    rows = _time_rows(run, shown)
    if rows:
        most = max(20, min(MOST_POINTS, _MOST_TIME_POINTS // len(rows)))
        rate = _rate(figures)
        heading = f"{RATE_UNITS[rate]} over time{name}{_thinning(rows, most)}"
        chart = rate_over_time_chart(over, heading, rows, series, over, most=most, rate=rate)
        found.append(("over time", chart))
    return [(kind, chart) for kind, chart in found if chart is not None]


def _thinning(rows: Sequence[TimeRow], most: int) -> str:
    longest = max(len(windows) for _, _, windows in rows)
    together = -(-longest // most)
    return f", means of {together} windows" if together > 1 else ""


def _time_rows(run: Run, shown: Sequence[tuple[str, int, CellFigure]]) -> list[TimeRow]:
    """List a row per trial; of many trials the extremes and some between them."""
    asked = [row for row in shown if _over_time(run, row[2])]
    each = max(1, _MOST_TIME_LINES // len(asked)) if asked else 0
    trials = {trial.record.trial: trial for trial in run.trials}
    rows: list[TimeRow] = []
    for label, number, figure in asked:
        for trial in _chosen(figure, each):
            windows = _windows(trials.get(trial), figure)
            if windows:
                rows.append((f"{label} · {trial}", number, windows))
    return rows


def _over_time(run: Run, figure: CellFigure) -> bool:
    # The windows are those of the whole job file, not of a section.
    if figure.workload != figure.planned_workload:
        return False
    few = len(run.plan.trials) <= FEW_TRIALS
    return few or "not-steady" in figure.metric(Metric.IOPS).findings


def _rate(figures: Sequence[CellFigure]) -> Metric:
    """The rate over time: IOPS, or bytes/s of streams."""
    return reported_rate(
        Metric.IOPS, lambda metric: any(row.metric(metric).value is not None for row in figures)
    )


def _chosen(figure: CellFigure, most: int) -> list[str]:
    """Select at most `most` trials with the slowest and the fastest; a single one is the median."""
    values = [
        (trial.value, trial.trial)
        for trial in figure.metric(_rate([figure])).trials
        if trial.value is not None
    ]
    ordered = [trial for _, trial in sorted(values)]
    if len(ordered) <= most:
        return ordered
    if most == 1:
        return [ordered[len(ordered) // 2]]
    step = (len(ordered) - 1) / (most - 1)
    return [ordered[round(step * place)] for place in range(most)]


def _windows(trial: StoredTrial | None, figure: CellFigure) -> tuple[Window, ...]:
    if trial is None or figure.op is None or trial.record.status is not TrialStatus.COMPLETED:
        return ()
    try:
        if trial.zfs_stream is not None:
            return trial.zfs_stream.bandwidth_windows()
        return trial.iops_windows.get(figure.op, ())
    except FormatError:
        return ()  # the audit reports the log and its line


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
_NUMBER_COLUMNS = {
    Metric.IOPS: number_column("IOPS"),
    Metric.BANDWIDTH: number_column("MiB/s", 2),
    Metric.LATENCY_MEAN: number_column("mean", 3),
    Metric.LATENCY_P50: number_column("p50", 5),
    Metric.LATENCY_P99: number_column("p99"),
    Metric.LATENCY_P999: number_column("p99.9", 4),
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
    findings_of = workload_findings(run, findings, marks)
    sections = []
    if together and figures:
        every = all(workload.streams for workload in workloads.values())
        shown = _OF_STREAMS if every else TABLE_METRICS
        whole = results_table("results-all", "", figures, marks, by_target=False, metrics=shown)
        sections.append(Section(heading="All workloads", id="all", blocks=(whole,)))
    for number, (name, rows) in enumerate(groups.items(), start=1):
        anchor = f"w{number}-{slug(name)}"
        workload = workloads.get(name)
        rate = usual_rate(workload)
        intro: list[Block] = [Paragraph(text=_description(workload))]
        intro += [Bullets(items=findings_of[name])] if name in findings_of else []
        shown = _OF_STREAMS if workload is not None and workload.streams else TABLE_METRICS
        own = results_table(f"results-{anchor}", "", rows, marks, by_target=True, metrics=shown)
        plots: tuple[Block, ...] = dot_plots(anchor, rows, rate, marks, budget)
        if budget is not None:
            plots += workload_curves(run, anchor, rows, rate, budget)
        blocks: tuple[Block, ...] = (*intro, *plots) if together else (*intro, own, *plots)
        sections.append(Section(heading=name, id=anchor, blocks=blocks))
    return tuple(sections)


def workload_findings(
    run: Run, findings: Sequence[Finding], marks: Marks
) -> Mapping[str, tuple[str, ...]]:
    """Format the errors and warnings of each workload, a line per label, the most severe first.

    Findings of the whole run or of a target are in the summary.
    """
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
            found.setdefault(name, {}).setdefault(marks.mark_of(finding), []).append(finding)
    return {
        name: tuple(
            _finding_text(mark, by_mark[mark], cells)
            for mark in sorted(by_mark, key=lambda mark: marks.all.index(mark))
        )
        for name, by_mark in found.items()
    }


def _finding_text(mark: Mark, findings: Sequence[Finding], cells: Mapping[str, PlannedCell]) -> str:
    """Format `E1 cache-served-reads: disk · read: message`, then the places of the others."""
    where = dict.fromkeys(_where(finding, cells) for finding in findings)
    first = findings[0]
    also = [name for name in where if name != _where(first, cells)]
    more = f" Also: {listed(also, limit=3)}." if also else ""
    return f"{mark.label} {mark.code}: {_where(first, cells)}: {first.message}{more}"


def _where(finding: Finding, cells: Mapping[str, PlannedCell]) -> str:
    cell = cells.get(finding.trial or "")
    return place(
        finding.target or (cell.target if cell else ""),
        finding.level or (cell.level if cell else ""),
        finding.op.value if finding.op else "",
    )


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
    of = f"of {title(rates[0])}" if len(set(rates)) == 1 else "of the rate"
    intervals = any(
        figure.metric(rate).interval for figure, rate in zip(figures, rates, strict=True)
    )
    columns: list[str | Column] = [first]
    columns += ["section"] * sections + ["level"] * leveled + ["op"]
    columns += [*(_NUMBER_COLUMNS[metric] for metric in metrics), number_column("trials")]
    columns += [Column(title="range", kind=Kind.NUMBER, unit=of, rank=1)]
    columns += (
        [Column(title="95 % interval", kind=Kind.NUMBER, unit=of, rank=6)] if intervals else []
    )
    rows = []
    for figure, rate in zip(figures, rates, strict=True):
        name = figure.target if by_target else figure.workload
        row: list[str | Cell] = [name]
        row += [figure.workload] * sections + [figure.level] * leveled + [op_text(figure.op)]
        row += [
            number_cell(figure, figure.metric(metric), marks, rate=metrics[0]) for metric in metrics
        ]
        row += [trials_cell(figure, marks), _range(figure.metric(rate))]
        row += [_interval(figure.metric(rate))] if intervals else []
        rows.append(row)
    return table(anchor, columns, rows, caption=caption, filterable=True)


def shown_rate(figure: CellFigure) -> Metric:
    """IOPS, or bandwidth where a figure has nothing else, such as a stream."""
    return reported_rate(Metric.IOPS, lambda metric: figure.metric(metric).value is not None)


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


# The most sentences on load curves in a summary; the section on the curves has them all.
_MOST_SENTENCES = 4


def study_of(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding]
) -> ScalingStudy | None:
    """Study the load curves of a run; None without a workload at two load levels."""
    curves = load_curves(run, figures)
    if not any(len(curve.closed) + len(curve.offered) > 1 or curve.disturbed for curve in curves):
        return None
    evidence = (tuple(figures), tuple(findings))
    found = study((run,), lambda _: evidence)
    return found if found.several_levels else None


def load_sentences(loads: ScalingStudy) -> tuple[str, ...]:
    """Summarise the load curves of a run."""
    sentences = scaling_sentences(loads)
    if len(sentences) <= _MOST_SENTENCES:
        return sentences
    return (*sentences[: _MOST_SENTENCES - 1], "`leadline scale` shows the other load curves.")
