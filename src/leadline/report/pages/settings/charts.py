"""Pictures of a settings study: mean changes, changes of each cell, gain against cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.settings.facts import Change, SettingsStudy, StateEffect
from leadline.metrics import COSTS, Metric
from leadline.report.cells import slug
from leadline.report.document import DeltaChart, DeltaRow, Line, LineChart, Look, Stroke
from leadline.report.pages.comparison.charts import (
    MOST_ROWS,
    cell_labels,
    log_change,
    ratio_scale,
)
from leadline.report.pages.run.charts import keep_largest
from leadline.report.pages.settings.words import PRESENT, change_and_interval, metric_name
from leadline.report.words import change_text, chart_labels, count_text, interval_text, place

_SERIES = (PRESENT, "on the Pareto front", "other states")
_PRESENT, _FRONT, _OTHER = range(3)
_ALL = "all cells"


def mean_panels(study: SettingsStudy) -> tuple[DeltaChart, ...]:
    """Draw the mean change of each state with its interval, a panel for the rate, the p99 latency
    and each cost."""
    panels = []
    for metric in (Metric.IOPS, Metric.LATENCY_P99, *COSTS):
        rows = tuple(
            _panel_row(effect, effect.overall[metric], study.band)
            for effect in study.effects[:MOST_ROWS]
            if metric in effect.overall
        )
        if rows:
            panels.append((metric, rows))
    return tuple(
        DeltaChart(
            id=f"mean-{slug(metric.value)}",
            title=f"Mean change: {metric_name(metric)}",
            scale=ratio_scale("mean change", rows),
            rows=rows,
            panel=True,
        )
        for metric, rows in panels
    )


def _panel_row(effect: StateEffect, change: Change, band: float) -> DeltaRow:
    """A row without its interval as text; states of one setting are a group."""
    (name, value), *more = effect.state.settings.items()
    row = _mean_row(effect.state.name if more else value, change, band, "" if more else name)
    return replace(row, text=change_text(change.ratio))


def _mean_row(label: str, change: Change, band: float, group: str = "") -> DeltaRow:
    return DeltaRow(
        label=label,
        ratio=change.ratio,
        interval=change.interval,
        verdict=change.verdict.value,
        text=change_and_interval(change),
        band=band,
        group=group,
    )


# --- cells --------------------------------------------------------------------------------------


def cell_charts(study: SettingsStudy) -> Iterator[DeltaChart]:
    """Yield the changes of all cells by state, with their mean first: of the rates, and of the p99
    latencies; of many cells the largest changes."""
    for metric in (Metric.IOPS, Metric.LATENCY_P99):
        by_state = [
            (effect, effect.rates if metric is Metric.IOPS else effect.latencies)
            for effect in study.effects
        ]
        every = [cell for _, cells in by_state for cell in cells if cell.judgement.ratio]
        if not every:
            continue
        shown = {id(cell) for cell in keep_largest(every, log_change, MOST_ROWS)}
        rows = tuple(
            row
            for effect, cells in by_state
            for row in _state_rows(
                effect, metric, [cell for cell in cells if id(cell) in shown], study.band
            )
        )
        heading = f"Change of the {metric_name(metric)} in each cell"
        if len(shown) < len(every):
            heading += f": the {len(shown)} largest of {count_text(len(every), 'change')}"
        yield DeltaChart(
            id=f"cells-{slug(metric.value)}",
            title=heading,
            scale=ratio_scale("change, logarithmic axis of ratios", rows),
            rows=rows,
            choice=metric.value,
        )


def _state_rows(
    effect: StateEffect, metric: Metric, cells: Sequence[ComparedCell], band: float
) -> Iterator[DeltaRow]:
    name = effect.state.name
    change = effect.overall.get(metric)
    if change is not None and change.cells > 1:
        yield _mean_row(_ALL, change, band, name)
    for cell, label in zip(cells, cell_labels(cells), strict=True):
        ends = cell.judgement.interval
        text = change_text(cell.judgement.ratio or 1.0)
        yield DeltaRow(
            label=label,
            ratio=cell.judgement.ratio,
            interval=ends,
            verdict=cell.verdict.value,
            text=f"{text} ({interval_text(ends)})" if ends else text,
            band=cell.judgement.band,
            group=name,
        )


# --- gain against cost --------------------------------------------------------------------------


def front_charts(study: SettingsStudy) -> Iterator[LineChart]:
    """Yield the mean change of the rate over that of each cost that every state has; the present
    state is at no change."""
    known = [effect for effect in study.effects if effect.rate is not None]
    labels = chart_labels((PRESENT, *(effect.state.name for effect in known)))
    for metric in study.front_costs:
        rates = [_mean_row("", effect.rate, study.band) for effect in known if effect.rate]
        costs = [_mean_row("", effect.costs[metric], study.band) for effect in known]
        lines = [
            Line(
                label=labels[effect.state.name],
                series=_FRONT if effect.front else _OTHER,
                points=((cost.ratio or 1.0, rate.ratio or 1.0),),
                texts=(
                    place(
                        effect.state.name,
                        f"{metric_name(Metric.IOPS)} {rate.text}",
                        f"{metric_name(metric)} {cost.text}",
                    ),
                ),
            )
            for effect, rate, cost in zip(known, rates, costs, strict=True)
        ]
        yield LineChart(
            id=f"front-{slug(metric.value)}",
            title=f"Change of the rate over {metric_name(metric)}",
            series=_SERIES,
            looks=(
                Look(hue=6, stroke=Stroke.MARKED),
                Look(hue=0, stroke=Stroke.MARKED),
                Look(hue=6, stroke=Stroke.MARKED, hollow=True),
            ),
            x=ratio_scale(f"change of {metric_name(metric)}", costs),
            y=ratio_scale("change of the rate", rates),
            lines=(
                Line(label=PRESENT, series=_PRESENT, points=((1.0, 1.0),), texts=("no change",)),
                *lines,
            ),
            scatter=True,
        )
