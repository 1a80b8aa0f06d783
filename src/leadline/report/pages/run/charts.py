"""The charts of a run: trials as dots, and curves of latency and of the rate over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op
from leadline.report.curves import (
    MOST_SERIES,
    NEXT_TO_ZERO,
    RATE_UNITS,
    PageBudget,
    decades_axis,
    ladder_chart,
    linear_axis,
    percentiles_of,
)
from leadline.report.document import Block, Choices, Dot, DotPlot, DotRow, LineChart, Paragraph
from leadline.report.marks import Marks
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    chart_labels,
    count_text,
    level_name,
    listed,
    op_text,
    share_text,
    title,
    value_text,
    value_with_unit,
)

_Item = TypeVar("_Item")

# Above this ratio the small values of a linear axis would lie on its first pixels.
_LOG_FROM_RATIO = 30.0


def dot_plots(
    anchor: str,
    figures: Sequence[CellFigure],
    rate: Metric,
    marks: Marks,
) -> tuple[DotPlot, ...]:
    """Plot rate and latency of each operation of a workload, a row per target."""
    plots = []
    groups: dict[tuple[str, str, Op | None], list[CellFigure]] = {}
    for figure in figures:
        groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    named = _names(list(groups), always_op=True)
    for number, (key, rows) in enumerate(groups.items(), start=1):
        for kind, metric in (("rate", rate), ("latency", _latency_metric(rows))):
            heading = " · ".join((*named[key], title(metric, key[2])))
            plot = _plot(f"plot-{anchor}-{number}-{kind}", heading, metric, rows, marks)
            if plot:
                plots.append(plot)
    return tuple(plots)


def keep_largest(items: Sequence[_Item], size: Callable[[_Item], float], most: int) -> list[_Item]:
    """Select the `most` items of the largest size, in their order."""
    ordered = sorted(range(len(items)), key=lambda index: -size(items[index]))
    return [items[index] for index in sorted(ordered[:most])]


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
    values = [dot.value for figure in figures for dot in dots(figure.metric(metric))]
    if not values:
        return None
    log, low, high, ticks = plot_scale(metric, values)
    labels = chart_labels(dict.fromkeys(figure.target for figure in figures))
    return DotPlot(
        id=anchor,
        title=heading,
        unit=RATE_UNITS.get(metric, ""),
        mark="median" if metric.quantile is None else "all trials together",
        log=log,
        low=low,
        high=high,
        ticks=ticks,
        rows=tuple(_row(labels[figure.target], figure.metric(metric), marks) for figure in figures),
    )


def plot_scale(
    metric: Metric, values: Sequence[float]
) -> tuple[bool, float, float, tuple[tuple[float, str], ...]]:
    """Compute (logarithmic, low, high, ticks) of an axis that shows the small values, too."""
    log = min(values) > NEXT_TO_ZERO and max(values) / min(values) > _LOG_FROM_RATIO
    return (log, *value_axis(metric, values, log=log))


def value_axis(
    metric: Metric, values: Sequence[float], *, log: bool = False
) -> tuple[float, float, tuple[tuple[float, str], ...]]:
    """Compute (low, high, ticks) in the metric's base unit; ticks are round in the shown unit."""
    size = float(1 << 20) if metric is Metric.BANDWIDTH else 1.0
    largest = max(values) / size
    low, high, ticks = decades_axis(min(values) / size, largest) if log else linear_axis(largest)
    texts = tuple((tick * size, value_text(metric, tick * size)) for tick in ticks)
    return low * size, high * size, texts


def dots(metric: MetricFigure) -> tuple[Dot, ...]:
    """Draw the trials that have a value."""
    return tuple(
        Dot(
            trial=trial.trial,
            value=trial.value,
            text=value_with_unit(metric.metric, trial.value),
            outlier=trial.outlier,
        )
        for trial in metric.trials
        if trial.value is not None
    )


def _row(label: str, metric: MetricFigure, marks: Marks) -> DotRow:
    """Plot the trials of a metric, and its figure as in the table."""
    shown = dots(metric)
    text = NOT_SHOWN if shown else MISSING
    if metric.value is not None:
        text = value_text(metric.metric, metric.value)
        if metric.spread is not None:
            text += f" (range {share_text(metric.spread)})"
    return DotRow(
        label=label,
        dots=shown,
        value=metric.value,
        text=text,
        marks=marks.for_number(metric.finding_marks),
    )


# A larger run is drawn over time only where it was not steady: every log is a file to read.
FEW_TRIALS = 100
_Key = tuple[str, str, Op | None]


def workload_curves(
    anchor: str, figures: Sequence[CellFigure], rate: Metric, budget: PageBudget
) -> tuple[Block, ...]:
    """Draw the latency percentiles of a workload, with a selector.

    Targets are the series. Totals are left out.
    """
    groups: dict[_Key, list[CellFigure]] = {}
    for figure in figures:
        if figure.op is not None and figure.op is not Op.TOTAL and not figure.missing:
            groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    targets, rest = _shown_targets(figures, rate)
    named = _names(list(groups))
    charts: list[tuple[str, LineChart]] = []
    for number, (key, rows) in enumerate(groups.items(), start=1):
        drawn = [figure for figure in rows if figure.target in targets]
        name = "".join(f" · {part}" for part in named[key])
        labels = chart_labels(targets)
        series = tuple(labels[target] for target in targets)
        rows_of = [
            (labels[row.target], targets.index(row.target), percentiles_of(row)) for row in drawn
        ]
        curve = f"curve-{anchor}-{number}-ladder"
        chart = ladder_chart(curve, f"Latency percentiles{name}", rows_of, series, curve)
        if chart and budget.allows("percentiles", sum(len(line.points) for line in chart.lines)):
            charts.append((f"percentiles{name}", chart))
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


def _shown_targets(figures: Sequence[CellFigure], rate: Metric) -> tuple[list[str], list[str]]:
    """Select (drawn, left out): at most `MOST_SERIES` targets, by their largest rate.

    Both are in the order of the plan.
    """
    best: dict[str, float] = {}
    for figure in figures:
        value = figure.metric(rate).value
        if value is not None:
            best[figure.target] = max(value, best.get(figure.target, value))
    kept = keep_largest(list(best), best.__getitem__, MOST_SERIES)
    return kept, [target for target in best if target not in kept]


def _names(keys: Sequence[_Key], *, always_op: bool = False) -> dict[_Key, list[str]]:
    """Name the charts of a workload by section, level and operation where they differ."""
    section, level, op = (len({key[part] for key in keys}) > 1 for part in range(3))
    shown = (section, level, op or always_op)
    return {
        key: [
            level_name(part)
            for part, differs in zip((*key[:2], op_text(key[2])), shown, strict=True)
            if differs and part
        ]
        for key in keys
    }


def over_time(run: Run, figure: CellFigure) -> bool:
    """Whether the trials of a figure are drawn over time."""
    # The windows are those of the whole job file, not of a section.
    if figure.workload != figure.planned_workload:
        return False
    few = len(run.plan.trials) <= FEW_TRIALS
    return few or "not-steady" in figure.metric(Metric.IOPS).findings


def rate_windows(trial: StoredTrial | None, figure: CellFigure) -> tuple[Window, ...]:
    """Return the rate over time of a trial; empty where it is unknown."""
    if trial is None or figure.op is None or trial.record.status is not TrialStatus.COMPLETED:
        return ()
    try:
        if trial.zfs_stream is not None:
            return trial.zfs_stream.bandwidth_windows()
        return trial.iops_windows.get(figure.op, ())
    except FormatError:
        return ()  # the audit reports the log and its line
