"""The charts of a comparison: changes with intervals, both systems as bars, a heat map, curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.findings import Severity
from leadline.formats.fio.logs import Window
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op
from leadline.report.cells import slug
from leadline.report.curves import (
    TimeRow,
    distribution_chart,
    ladder_chart,
    linear_axis,
    percentiles_of,
    rate_over_time_chart,
)
from leadline.report.document import (
    Bar,
    BarChart,
    BarGroup,
    Block,
    Choices,
    DeltaChart,
    DeltaRow,
    Dot,
    HeatCell,
    HeatMap,
    LineChart,
    Paragraph,
    Scale,
)
from leadline.report.pages.comparison.takeaways import rates
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    absent,
    change_text,
    count_text,
    interval_text,
    op_text,
    place,
    short,
    title,
    value_text,
    value_with_unit,
    where,
)

# Rows of a chart; the table has all of them.
MOST_ROWS = 40
# The darkest shades of the heat map are half and twice.
_FULL = math.log(2.0)
# Characters of a name in a row label.
_LABEL = 24
_OP_ORDER = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL, None)
_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
_LOSSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


def largest(cells: Iterable[ComparedCell], most: int = MOST_ROWS) -> tuple[list[ComparedCell], str]:
    """Return (the largest changes, a note on the rest)."""
    given = [one for one in cells if one.judgement.ratio]
    if len(given) <= most:
        return given, ""
    ordered = sorted(given, key=lambda one: -abs(math.log(one.judgement.ratio or 1.0)))
    kept = {id(one) for one in ordered[:most]}
    return (
        [one for one in given if id(one) in kept],
        f"the {most} largest changes of {count_text(len(given), 'cell')}; the table has all",
    )


def labels(cells: Sequence[ComparedCell]) -> list[str]:
    """Label rows by the parts in which the cells differ."""
    targets = {one.target for one in cells}
    workloads = {one.workload for one in cells}
    levels = {(one.workload, one.level) for one in cells}
    ops = {one.op for one in cells}
    return [
        place(
            short(one.target, _LABEL) if len(targets) > 1 or len(workloads) == 1 else "",
            short(one.workload, _LABEL) if len(workloads) > 1 else "",
            one.level if len(levels) > len(workloads) else "",
            op_text(one.op) if len(ops) > 1 else "",
        )
        for one in cells
    ]


# --- changes ------------------------------------------------------------------------------------


def delta_chart(
    anchor: str, heading: str, cells: Sequence[ComparedCell], choice: str = ""
) -> DeltaChart | None:
    """Chart each change with its interval, writes first, the largest loss first; None if empty."""
    shown, left_out = largest(cells)
    if not shown:
        return None
    worst_first = sorted(
        shown,
        key=lambda one: (
            _OP_ORDER.index(one.op),
            -(one.judgement.ratio or 1.0) if one.metric.is_latency else one.judgement.ratio or 1.0,
        ),
    )
    rows = tuple(
        DeltaRow(
            label=label,
            ratio=one.judgement.ratio,
            interval=one.judgement.interval,
            verdict=one.verdict.value,
            text=_delta_text(one),
            band=one.judgement.band,
        )
        for one, label in zip(worst_first, labels(worst_first), strict=True)
    )
    return DeltaChart(
        id=anchor,
        title=f"{heading}: {left_out}" if left_out else heading,
        scale=ratio_scale("change, logarithmic axis of ratios", rows),
        rows=rows,
        choice=choice,
    )


def _delta_text(cell: ComparedCell) -> str:
    text = change_text(cell.judgement.ratio or 1.0)
    if cell.judgement.interval:
        text += f" ({interval_text(cell.judgement.interval)})"
    return text


def ratio_scale(heading: str, rows: Sequence[DeltaRow]) -> Scale:
    """Build a log scale of ratios around 1 for every row and its margin. Intervals are cut at twice
    the range of the figures, so that a wide one does not compress the others."""
    ratios = [row.ratio for row in rows if row.ratio]
    bands = [row.band for row in rows]
    least = min(*ratios, *(1 - band for band in bands), 1.0)
    most = max(*ratios, *(1 + band for band in bands), 1.0)
    ends = [end for row in rows if row.interval for end in row.interval if end > 0]
    low = max(min([least, *ends]), least**2, 1e-9)
    high = min(max([most, *ends]), most**2)
    padding = (high / low) ** 0.04
    low, high = low / padding, high * padding
    gap = math.log(high / low) / 7
    ticks = [1.0]
    for steps, sign in ((_LEVELS, 1), (_LOSSES, -1)):
        last = 0.0
        for step in steps:
            at = abs(math.log1p(sign * step))
            if at - last >= gap and low <= 1 + sign * step <= high:
                ticks.append(1 + sign * step)
                last = at
    return Scale(
        title=heading,
        log=True,
        low=low,
        high=high,
        ticks=tuple((tick, _tick_text(tick)) for tick in sorted(ticks)),
    )


def _tick_text(ratio: float) -> str:
    if ratio == 1:
        return "0"
    if ratio >= 11:
        return f"x {ratio:,.0f}"
    percent = (ratio - 1) * 100
    return f"{percent:+.1f} %" if abs(percent) < 1 or ratio < 0.01 else f"{percent:+.0f} %"


# --- both systems as bars-------------------------------------------------------------------------


def bar_charts(
    comparison: Comparison, cells: Sequence[ComparedCell]
) -> list[tuple[str, str, BarChart]]:
    """Return (choice, its label, chart) for each workload and operation: bars, trials as dots.

    Reads and writes differ in size: each operation has its own axis.
    """
    groups: dict[tuple[str, Op | None, Metric], list[ComparedCell]] = {}
    for one in cells:
        groups.setdefault((one.workload, one.op, one.metric), []).append(one)
    several = len({workload for workload, _, _ in groups}) > 1
    charts = []
    for number, ((workload, op, metric), group) in enumerate(groups.items(), start=1):
        name = place(short(workload) if several else "", op_text(op))
        choice = f"bars-{number}-{slug(workload)}"
        made = _bars(choice, name, metric, group, comparison)
        if made:
            charts.append((choice, name, made))
    return charts


def _bars(
    anchor: str, name: str, metric: Metric, cells: Sequence[ComparedCell], comparison: Comparison
) -> BarChart | None:
    shown, left_out = largest(cells)
    if not left_out:
        shown = [one for one in cells if any(_number(side) is not None for side in _sides(one))]
    values = [
        end
        for one in shown
        for figure in _sides(one)
        if figure is not None and figure.value is not None
        for end in (figure.value, figure.high or 0.0, *(figure.interval or ()))
    ]
    if not values:
        return None
    # Round ticks are round in the unit that is read.
    size = float(1 << 20) if metric is Metric.BANDWIDTH else 1.0
    low, high, ticks = linear_axis(max(values) / size)
    heading = f"{name}, {title(metric)}"
    return BarChart(
        id=f"{anchor}-chart",
        title=f"{heading}: {left_out}" if left_out else heading,
        series=(short(comparison.baseline.name), short(comparison.candidate.name)),
        scale=Scale(
            title={Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}.get(metric, title(metric)),
            log=False,
            low=low * size,
            high=high * size,
            ticks=tuple((tick * size, value_text(metric, tick * size)) for tick in ticks),
        ),
        groups=tuple(
            BarGroup(
                label=label,
                bars=tuple(_bar(number, figure) for number, figure in enumerate(_sides(one))),
            )
            for one, label in zip(shown, labels(shown), strict=True)
        ),
        choice=anchor,
    )


def _sides(cell: ComparedCell) -> tuple[MetricFigure | None, MetricFigure | None]:
    return cell.baseline, cell.candidate


def _number(figure: MetricFigure | None) -> float | None:
    return figure.value if figure else None


def _bar(series: int, figure: MetricFigure | None) -> Bar:
    if figure is None or figure.value is None:
        return Bar(series=series, value=None, text=MISSING)
    dots = tuple(
        Dot(
            trial=one.trial,
            value=one.value,
            text=value_with_unit(figure.metric, one.value),
            outlier=one.outlier,
        )
        for one in figure.trials
        if one.value is not None
    )
    return Bar(
        series=series,
        value=figure.value,
        text=value_with_unit(figure.metric, figure.value),
        interval=figure.interval,
        dots=dots if len(dots) > 1 else (),
        refused=figure.severity is Severity.ERROR,
    )


# --- the map ------------------------------------------------------------------------------------


def heat_map(anchor: str, heading: str, cells: Sequence[ComparedCell]) -> HeatMap | None:
    """Build the heat map of targets x workloads, of the targets with the largest changes; None if
    empty."""
    at = {(one.target, one.workload, one.level, one.op): one for one in cells}
    shown, left_out = _targets(cells)
    columns = list(dict.fromkeys(key[1:] for key in at))
    changed = any(one.judgement.ratio for one in cells)
    if not changed or len(shown) * len(columns) < 2:
        return None
    metrics = {key[1:]: one.metric for key, one in at.items()}
    levels = {(workload, level) for workload, level, _ in columns}
    leveled = len(levels) > len({workload for workload, _ in levels})
    titles = [
        place(short(workload, _LABEL), level if leveled else "", op_text(op))
        for workload, level, op in columns
    ]
    return HeatMap(
        id=anchor,
        title=f"{heading}: {left_out}" if left_out else heading,
        rows=tuple(short(target) for target in shown),
        columns=tuple(titles),
        higher_is_better=tuple(not metrics[column].is_latency for column in columns),
        cells=tuple(
            tuple(_heat(at.get((target, *column))) for column in columns) for target in shown
        ),
        baseline=0,
        relative=True,
    )


def _targets(cells: Sequence[ComparedCell]) -> tuple[list[str], str]:
    most: dict[str, float] = {}
    for one in cells:
        ratio = one.judgement.ratio
        size = abs(math.log(ratio)) if ratio else 0.0
        most[one.target] = max(most.get(one.target, 0.0), size)
    if len(most) <= MOST_ROWS:
        return list(most), ""
    kept = set(sorted(most, key=lambda target: -most[target])[:MOST_ROWS])
    note = f"the {MOST_ROWS} of {len(most):,} targets with the largest changes"
    return [target for target in most if target in kept], note


def _heat(cell: ComparedCell | None) -> HeatCell:
    if cell is None:
        return HeatCell(text=MISSING, shade=None, note="on neither system")
    ratio = cell.judgement.ratio
    if not ratio:
        text = MISSING if absent(cell) else NOT_SHOWN
        return HeatCell(text=text, shade=None, note=cell.verdict.value)
    text = change_text(ratio)
    if cell.verdict is Verdict.NOT_COMPARABLE:
        return HeatCell(text=text, shade=None, note=cell.verdict.value, refused=True)
    if cell.verdict is Verdict.INCONCLUSIVE:
        return HeatCell(text=f"{text}?", shade=None, value=ratio, note="inconclusive")
    part = min(max(math.log(ratio) / _FULL, -1.0), 1.0)
    shade = 0.0 if cell.verdict is Verdict.SAME else -part if cell.metric.is_latency else part
    return HeatCell(text=text, shade=shade, value=ratio, note=cell.verdict.value)


# --- curves --------------------------------------------------------------------------------------

MOST_CELLS = 8
_POINTS_OVER_TIME = 60


def curve_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Draw percentiles, distribution and IOPS over time of the cells with the largest changes."""
    known = [
        one
        for one in rates(comparison)
        if one.op is not None and one.op is not Op.TOTAL and _drawable(one)
    ]
    chosen = sorted(known, key=lambda one: -_size(one))[:MOST_CELLS]
    names = (short(comparison.baseline.name), short(comparison.candidate.name))
    trials = tuple(
        {trial.record.trial: trial for trial in side.run.trials}
        for side in (comparison.baseline, comparison.candidate)
    )
    options: list[tuple[str, str]] = []
    charts: list[LineChart] = []
    for number, cell in enumerate(chosen, start=1):
        found = _charts(f"curve-{number}", cell, names, trials)
        if found:
            options.append((f"curve-{number}", where(cell)))
            charts += found
    if not charts:
        return ()
    blocks: list[Block] = []
    if len(known) > len(chosen):
        text = (
            f"The {len(chosen)} cells with the largest changes of rates, of "
            f"{count_text(len(known), 'cell')}."
        )
        blocks.append(Paragraph(text=text))
    if len(options) > 1:
        blocks.append(Choices(id="curves", label="Cell", options=tuple(options)))
    return (*blocks, *charts)


def _drawable(cell: ComparedCell) -> bool:
    sides = (cell.baseline_cell, cell.candidate_cell)
    return all(
        one is not None and (one.histogram is not None or len(percentiles_of(one)) > 1)
        for one in sides
    )


def _size(cell: ComparedCell) -> float:
    ratio = cell.judgement.ratio
    return abs(math.log(ratio)) if ratio else 0.0


def _charts(
    choice: str,
    cell: ComparedCell,
    names: tuple[str, str],
    trials: Sequence[Mapping[str, StoredTrial]],
) -> list[LineChart]:
    sides = [
        (name, number, figure)
        for number, (name, figure) in enumerate(
            zip(names, (cell.baseline_cell, cell.candidate_cell), strict=True)
        )
        if figure is not None
    ]
    over_time: list[TimeRow] = []
    for name, number, figure in sides:
        trial, windows = _middle(figure, trials[number])
        if windows:
            over_time.append((f"{name}, trial {trial}", number, windows))
    at = where(cell)
    charts = (
        ladder_chart(
            f"{choice}-ladder",
            f"Latency percentiles · {at}",
            [(name, number, percentiles_of(figure)) for name, number, figure in sides],
            names,
            choice,
        ),
        distribution_chart(
            f"{choice}-distribution",
            f"Latency distribution · {at}",
            [
                (name, number, figure.histogram)
                for name, number, figure in sides
                if figure.histogram is not None
            ],
            names,
            choice,
        ),
        rate_over_time_chart(
            f"{choice}-time",
            f"IOPS over time, the middle trial · {at}",
            over_time,
            names,
            choice,
            most=_POINTS_OVER_TIME,
        ),
    )
    return [chart for chart in charts if chart is not None]


def _middle(
    figure: CellFigure, trials: Mapping[str, StoredTrial]
) -> tuple[str, tuple[Window, ...]]:
    """Return the median trial by IOPS and its windows; none for a section of a job file."""
    values = [
        (one.value, one.trial) for one in figure.metric(Metric.IOPS).trials if one.value is not None
    ]
    if not values or figure.workload != figure.planned_workload or figure.op is None:
        return "", ()
    name = sorted(values)[len(values) // 2][1]
    stored = trials.get(name)
    if stored is None or stored.record.status is not TrialStatus.COMPLETED:
        return name, ()
    try:
        return name, stored.iops_windows.get(figure.op, ())
    except FormatError:
        return name, ()  # the audit reports the log and its line


def pattern_of(run: Run) -> Mapping[tuple[str, str], str]:
    """Return `random`, `sequential` or empty for each planned workload and level."""
    found = {}
    for cell in run.plan.cells:
        recorded = cell.workload.recorded
        names = (
            {recorded.options.get("rw", "")}
            if recorded
            else {phase.pattern.value for phase in cell.workload.phases}
        )
        kinds = {"random" if name.startswith("rand") else "sequential" for name in names if name}
        found[cell.workload.name, cell.level] = kinds.pop() if len(kinds) == 1 else ""
    return found
