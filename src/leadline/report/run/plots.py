"""Dot plots of every trial: the spread of repeats as it is, nothing averaged away."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.metrics import Metric
from leadline.report.axes import NEXT_TO_ZERO, decades_axis, linear_axis
from leadline.report.budget import PageBudget
from leadline.report.document import Dot, DotPlot, DotRow
from leadline.report.labels import chart_labels
from leadline.report.marks import Marks
from leadline.report.wording import (
    MISSING,
    NOT_SHOWN,
    op_text,
    share_text,
    title,
    value_text,
    value_with_unit,
    visible,
)

# Beyond this ratio the small values of a linear axis from zero would lie on its first pixels.
_LOG_FROM_RATIO = 30.0

# A page with more rows in each plot would be too large, and no one looks at so many.
DRAWN_ROWS = 40


def dot_plots(
    anchor: str,
    figures: Sequence[CellFigure],
    rate: Metric,
    marks: Marks,
    budget: PageBudget | None = None,
) -> tuple[DotPlot, ...]:
    """Two plots for each operation of a workload: its rate and its latency, a row per target.

    With a `budget` only what is worth a place on a page: of very many targets the fastest, which
    the title then says, and no plot of a single dot, which is the table's number.
    """
    plots = []
    groups: dict[tuple[str, str, object], list[CellFigure]] = {}
    for figure in figures:
        groups.setdefault((figure.workload, figure.level, figure.op), []).append(figure)
    workloads = {figure.workload for figure in figures}
    levels = {figure.level for figure in figures}
    for number, rows in enumerate(groups.values(), start=1):
        first = rows[0]
        parts = [visible(first.workload)] if len(workloads) > 1 else []
        parts += [visible(first.level)] if len(levels) > 1 and first.level else []
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
    """Those of the highest rate, in the order given."""
    values = [row.metric(rate).value for row in rows]
    order = sorted(
        range(len(rows)), key=lambda at: -math.inf if (one := values[at]) is None else one
    )
    return [rows[at] for at in sorted(order[-most:])]


def _latency_metric(figures: Sequence[CellFigure]) -> Metric:
    """p99, or the mean where a trial has too few I/Os for it."""
    for figure in figures:
        values = figure.metric(Metric.LATENCY_P99).trials
        if any(one.value is None for one in values):
            return Metric.LATENCY_MEAN
    return Metric.LATENCY_P99


def _plot(
    anchor: str, heading: str, metric: Metric, figures: Sequence[CellFigure], marks: Marks
) -> DotPlot | None:
    """None where no trial has a value: the table says what is missing."""
    values = [
        one.value
        for figure in figures
        for one in figure.metric(metric).trials
        if one.value is not None
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
    """The mark and its text are the figure of the table: they must never differ from it."""
    shown = [(one, one.value) for one in metric.trials if one.value is not None]
    text = NOT_SHOWN if shown else MISSING
    if metric.value is not None:
        text = value_text(metric.metric, metric.value)
        if metric.spread is not None:
            text += f" (range {share_text(metric.spread)})"
    return DotRow(
        label=label,
        dots=tuple(
            Dot(
                trial=one.trial,
                value=value,
                text=value_with_unit(metric.metric, value),
                outlier=one.outlier,
            )
            for one, value in shown
        ),
        value=metric.value,
        text=text,
        marks=marks.for_number(metric.doubts),
    )
