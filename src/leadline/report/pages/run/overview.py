"""The first screen of a run: tiles, and every cell's rate and p99 latency with its trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.workloads import usual_rate
from leadline.archive.reader import Run
from leadline.findings import Finding
from leadline.metrics import STAGES, Metric, Op
from leadline.report.document import (
    Block,
    DotPlot,
    DotRow,
    Paragraph,
    StripChart,
    StripRow,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.charts import MOST_STRIPS, strip_track
from leadline.report.pages.ranking_charts import trust_tile
from leadline.report.pages.run.charts import dots, keep_largest, over_time, plot_scale
from leadline.report.pages.run.heat_maps import usable
from leadline.report.pages.trial_events import stacks_of, straggling
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    OP_NOUNS,
    chart_labels,
    level_name,
    place,
    short,
    title,
    value_text,
    value_with_unit,
)

_OPS = (Op.READ, Op.WRITE, Op.TRIM, Op.TOTAL, Op.SYNC, Op.TRANSACTION, *STAGES)
# Rows of a panel, and panels of a first screen; the tables have all of them.
MOST_ROWS, MOST_PANELS = 14, 16
_NAME = 22
_MARK = "median; p99 of all trials together"

# A figure with the metric that is shown of it.
_Shown: TypeAlias = tuple[CellFigure, MetricFigure]


def run_front(run: Run, figures: Sequence[CellFigure]) -> tuple[Block, ...]:
    """Build the first screen; empty where nothing was measured."""
    rates = rates_of(run, figures)
    if not any(metric.value is not None for _, metric in rates):
        return ()
    kinds = len({(figure.workload, figure.op) for figure, _ in rates})
    drawn = MOST_PANELS // 2
    text = f"Drawn: {drawn} of {kinds:,} workloads and operations; the tables have all."
    rest = (Paragraph(text=text),) if kinds > drawn else ()
    return (Tiles(tiles=tuple(run_tiles(run, figures))), *_panels(rates), *rest)


def rates_of(run: Run, figures: Sequence[CellFigure]) -> list[_Shown]:
    """Pair each figure of an operation with its rate: IOPS, or bandwidth for large blocks."""
    workloads = {cell.workload.name: cell.workload for cell in run.plan.cells}
    return [
        (figure, figure.metric(usual_rate(workloads.get(figure.planned_workload))))
        for figure in figures
        if figure.op is not None
    ]


def _where(figure: CellFigure) -> str:
    return place(short(figure.target, _NAME), short(figure.workload, _NAME), figure.level)


# --- tiles --------------------------------------------------------------------------------------


def run_tiles(run: Run, figures: Sequence[CellFigure]) -> Iterable[Tile]:
    """Yield the highest rates of two operations, the lowest p99 latency, and trust."""
    rates = rates_of(run, figures)
    accepted = [shown for shown in rates if usable(shown[1])]
    for op in [op for op in _OPS if any(figure.op is op for figure, _ in rates)][:2]:
        yield _fastest(op, [shown for shown in accepted if shown[0].op is op])
    tails = [(figure, figure.metric(Metric.LATENCY_P99)) for figure, _ in rates]
    known = [(figure, metric) for figure, metric in tails if usable(metric)]
    if known:
        ordered = sorted(known, key=_value)
        (low, lowest), (high, highest) = ordered[0], ordered[-1]
        value = value_text(lowest.metric, lowest.value or 0.0)
        most = value_text(highest.metric, highest.value or 0.0)
        note = f"{place(_where(low), _op(low))}; up to {most}: {short(high.target, _NAME)}."
        yield Tile(title="Lowest p99", unit="", value=value, verdict="", note=note)
    yield trust_tile(
        [metric for _, metric in rates if metric.value is not None], "results without a warning"
    )


def _fastest(op: Op, shown: Sequence[_Shown]) -> Tile:
    heading = f"Fastest {OP_NOUNS[op]}"
    if not shown:
        note = "The audit refuses every number, or none is there."
        return Tile(title=heading, unit="", value="none", verdict="inconclusive", note=note)
    # Rates of small and of large blocks are not compared with each other.
    kinds = {one.metric for _, one in shown}
    metric = next(one for one in (Metric.IOPS, Metric.BANDWIDTH, *Metric) if one in kinds)
    same = sorted((one for one in shown if one[1].metric is metric), key=_value)
    # Of a stage of volumes the time is shown, of which less is faster.
    figure, best = same[0] if metric.is_latency else same[-1]
    return Tile(
        title=heading,
        unit="",
        value=value_with_unit(metric, best.value or 0.0),
        verdict="",
        note=f"{_where(figure)}.",
    )


def _value(shown: _Shown) -> float:
    return shown[1].value or 0.0


def _op(figure: CellFigure) -> str:
    return figure.op.value if figure.op else ""


# --- panels -------------------------------------------------------------------------------------


def _panels(rates: Sequence[_Shown]) -> Iterable[DotPlot]:
    """Chart the rate of each workload and operation, then the p99 latency of the same cells."""
    groups: dict[tuple[str, Op | None], list[_Shown]] = {}
    for shown in rates:
        groups.setdefault((shown[0].workload, shown[0].op), []).append(shown)
    several = len({workload for workload, _ in groups}) > 1
    drawn = dict(list(groups.items())[: MOST_PANELS // 2])
    labels = chart_labels(dict.fromkeys(figure.target for figure, _ in rates))
    rows: Mapping[tuple[str, Op | None], list[_Shown]] = {
        key: keep_largest(own, _value, MOST_ROWS) for key, own in drawn.items()
    }
    plots = []
    for number, ((workload, op), cells) in enumerate(rows.items(), start=1):
        every = len(groups[workload, op])
        rest = f", {len(cells)} of {every:,} cells" if len(cells) < every else ""
        name = OP_NOUNS[op].capitalize() if op else "All"
        heading = f"{short(workload, _NAME)}: {name.lower()}" if several else name
        plots.append((number, "rate", f"{heading}, {title(cells[0][1].metric)}{rest}", cells))
        tails = [(figure, figure.metric(Metric.LATENCY_P99)) for figure, _ in cells]
        plots.append((number, "p99", f"{heading}, p99 latency{rest}", tails))
    for number, kind, heading, own in sorted(plots, key=lambda plot: plot[1] == "p99"):
        if plot := _panel(f"front-{kind}-{number}", heading, own, labels):
            yield plot


def _panel(
    anchor: str, heading: str, shown: Sequence[_Shown], labels: Mapping[str, str]
) -> DotPlot | None:
    values = [dot.value for _, metric in shown for dot in dots(metric)]
    values += [metric.value for _, metric in shown if metric.value is not None]
    if not values:
        return None
    leveled = len({figure.level for figure, _ in shown}) > 1
    ordered = sorted(shown, key=lambda one: one[0].level) if leveled else shown
    metric = shown[0][1].metric
    log, low, high, ticks = plot_scale(metric, values)
    return DotPlot(
        id=anchor,
        title=heading,
        unit="",
        mark=_MARK,
        log=log,
        low=low,
        high=high,
        ticks=ticks,
        rows=tuple(
            DotRow(
                label=labels[figure.target],
                dots=dots(one),
                value=one.value,
                text=_text(figure, one),
                group=level_name(figure.level) if leveled else "",
                refused=one.value is not None and not usable(one),
            )
            for figure, one in ordered
        ),
        panel=True,
    )


def _text(figure: CellFigure, metric: MetricFigure) -> str:
    if metric.value is not None:
        return value_text(metric.metric, metric.value)
    return MISSING if figure.missing else NOT_SHOWN


# --- every trial over time ----------------------------------------------------------------------


def run_strips(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding] = ()
) -> tuple[StripChart, ...]:
    """Draw the rate over time of every trial, a chart for each operation; none without logs.

    Of a run of very many trials only cells that were not steady: every log is a file to read.
    """
    trials = {trial.record.trial: trial for trial in run.trials}
    noted = stacks_of(run), straggling(findings)
    labels = chart_labels(dict.fromkeys(figure.target for figure in figures))
    found = []
    for op in (op for op in _OPS if op is not Op.TOTAL):
        own = [
            shown
            for shown in rates_of(run, figures)
            if shown[0].op is op and shown[1].value is not None and over_time(run, shown[0])
        ]
        drawn = keep_largest(own, _value, MOST_STRIPS)
        several = len({(figure.workload, figure.level) for figure, _ in drawn}) > 1
        tracks = [
            (figure, strip_track(0, figure, metric, trials, *noted)) for figure, metric in drawn
        ]
        rows = tuple(
            StripRow(
                label=labels[figure.target],
                tracks=(track,),
                group=place(short(figure.workload, _NAME), figure.level) if several else "",
            )
            for figure, track in sorted(tracks, key=lambda row: (row[0].workload, row[0].level))
            if track.strips
        )
        if rows:
            rest = f", {len(drawn)} of {len(own):,} cells" if len(drawn) < len(own) else ""
            heading = (
                f"{OP_NOUNS[op].capitalize()}, {title(drawn[0][1].metric, op)} of each trial{rest}"
            )
            found.append(
                StripChart(
                    id=f"strips-{op.value}",
                    title=heading,
                    series=("trials",),
                    rows=rows,
                    panel=True,
                )
            )
    return tuple(found)
