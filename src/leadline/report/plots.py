"""Dot plots of every trial: the spread of repeats as it is, nothing averaged away."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.metrics import Metric
from leadline.report.document import Dot, DotPlot, DotRow
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


def dot_plots(
    anchor: str, figures: Sequence[CellFigure], rate: Metric, marks: Marks
) -> tuple[DotPlot, ...]:
    """Two plots for each operation of a workload: its rate and its latency, a row per target."""
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
        for kind, metric in (("rate", rate), ("latency", _latency_metric(rows))):
            made = _plot(
                f"plot-{anchor}-{number}-{kind}",
                " · ".join([*parts, title(metric)]),
                metric,
                rows,
                marks,
            )
            if made:
                plots.append(made)
    return tuple(plots)


def _latency_metric(figures: Sequence[CellFigure]) -> Metric:
    """p99, or the mean where a trial has too few I/Os for it."""
    for figure in figures:
        values = figure.metric(Metric.LATENCY_P99).trials
        if any(one.value is None for one in values):
            return Metric.LATENCY_MEAN
    return Metric.LATENCY_P99


# Below it floats have no decades; nothing that is measured is.
_NEXT_TO_ZERO = 1e-290


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
    positive = [value for value in values if value > _NEXT_TO_ZERO]
    log = len(positive) == len(values) and max(values) / min(values) > _LOG_FROM_RATIO
    # Round ticks are round in the unit that is read.
    size = float(1 << 20) if metric is Metric.BANDWIDTH else 1.0
    scaled = [value / size for value in values]
    low, high, ticks = _log_axis(scaled) if log else _linear_axis(max(scaled))
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
        rows=tuple(_row(figure, figure.metric(metric), marks) for figure in figures),
    )


def _row(figure: CellFigure, metric: MetricFigure, marks: Marks) -> DotRow:
    """The mark and its text are the figure of the table: they must never differ from it."""
    shown = [(one, one.value) for one in metric.trials if one.value is not None]
    text = NOT_SHOWN if shown else MISSING
    if metric.value is not None:
        text = value_text(metric.metric, metric.value)
        if metric.spread is not None:
            text += f" (range {share_text(metric.spread)})"
    return DotRow(
        label=visible(figure.target),
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


def _linear_axis(largest: float) -> tuple[float, float, list[float]]:
    """From zero to a little above the largest, with about four round ticks."""
    if largest <= _NEXT_TO_ZERO:
        return 0.0, 1.0, [0.0]
    rough = largest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    ticks = [step * index for index in range(math.floor(largest / step * 1.0001) + 1)]
    return 0.0, largest * 1.04, ticks


def _log_axis(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """From the decade below to the decade above, ticks at powers of ten."""
    first = math.floor(math.log10(min(values)))
    last = math.ceil(math.log10(max(values)))
    every = max(1, math.ceil((last - first) / 5))
    ticks = [10.0**power for power in range(first, last + 1, every)]
    return 10.0**first, 10.0**last, ticks
