"""The charts of a comparison: changes with intervals, both systems as bars, a heat map, curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison, Side
from leadline.analysis.explain.accounts import Account, Estimate
from leadline.analysis.explain.facts import RoundTripCost
from leadline.analysis.figures import CellFigure, MetricFigure, TrialValue
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.findings import Severity
from leadline.inventory.layer import Layer
from leadline.metrics import STAGES, Metric, Op
from leadline.report.cells import slug
from leadline.report.curves import (
    RATE_UNITS,
    percentile_charts,
    strips,
    variation,
)
from leadline.report.document import (
    SYSTEM_HUES,
    Bar,
    BarChart,
    BarGroup,
    Block,
    DeltaChart,
    DeltaRow,
    HeatCell,
    HeatMap,
    Paragraph,
    Scale,
    StripChart,
    StripRow,
    StripTrack,
)
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.run.charts import (
    dots,
    keep_largest,
    rate_windows,
    value_axis,
)
from leadline.report.pages.trial_events import stacks_of, straggling, with_events
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    OP_NOUNS,
    absent,
    change_text,
    count_text,
    interval_text,
    op_text,
    place,
    short,
    title,
    value_with_unit,
)
from leadline.units import format_latency

# Rows of a chart; the table has all of them.
MOST_ROWS = 40
# The darkest shades of the heat map are half and twice.
_FULL = math.log(2.0)
# Characters of a name in a row label.
_LABEL = 24
_OP_ORDER = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL, Op.SYNC, Op.TRANSACTION, *STAGES, None)
_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
_LOSSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


_Cells = Sequence[ComparedCell]


def leveled_cells(cells: _Cells) -> bool:
    """Return whether workloads have several levels."""
    levels = {(cell.workload, cell.level) for cell in cells}
    return len(levels) > len({workload for workload, _ in levels})


def log_change(cell: ComparedCell) -> float:
    """Return |log ratio|, 0 without a ratio."""
    ratio = cell.judgement.ratio
    return abs(math.log(ratio)) if ratio else 0.0


def _largest_changes(cells: _Cells, heading: str) -> tuple[_Cells, str]:
    """Return (the largest changes, the heading with a note on the rest)."""
    changes = [cell for cell in cells if cell.judgement.ratio]
    if len(changes) <= MOST_ROWS:
        return changes, heading
    count = count_text(len(changes), "cell")
    note = f"the {MOST_ROWS} largest changes of {count}; the table has all"
    return keep_largest(changes, log_change, MOST_ROWS), f"{heading}: {note}"


def cell_labels(cells: _Cells) -> list[str]:
    """Label rows by the parts in which the cells differ."""
    targets = {cell.target for cell in cells}
    workloads = {cell.workload for cell in cells}
    leveled = leveled_cells(cells)
    ops = {cell.op for cell in cells}
    return [
        place(
            short(cell.target, _LABEL) if len(targets) > 1 or len(workloads) == 1 else "",
            short(cell.workload, _LABEL) if len(workloads) > 1 else "",
            cell.level if leveled else "",
            op_text(cell.op) if len(ops) > 1 else "",
        )
        for cell in cells
    ]


# --- changes ------------------------------------------------------------------------------------


def delta_chart(anchor: str, heading: str, cells: _Cells, choice: str = "") -> DeltaChart | None:
    """Chart each change with its interval, writes first, the largest loss first; None if empty."""
    shown, heading = _largest_changes(cells, heading)
    if not shown:
        return None

    def order(cell: ComparedCell) -> tuple[int, float]:
        ratio = cell.judgement.ratio or 1.0
        return _OP_ORDER.index(cell.op), -ratio if cell.metric.lower_is_better else ratio

    worst_first = sorted(shown, key=order)
    rows = tuple(
        DeltaRow(
            label=label,
            ratio=cell.judgement.ratio,
            interval=cell.judgement.interval,
            verdict=cell.verdict.value,
            text=_delta_text(cell),
            band=cell.judgement.band,
        )
        for cell, label in zip(worst_first, cell_labels(worst_first), strict=True)
    )
    scale = ratio_scale("change, logarithmic axis of ratios", rows)
    return DeltaChart(id=anchor, title=heading, scale=scale, rows=rows, choice=choice)


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


# --- expected and measured changes ------------------------------------------------------------

_MOST_TESTS = 12
# Hatched grey for what is computed, the candidate's blue for what was measured.
_TESTED_HUES = (6, 0)


def explanation_chart(comparison: Comparison) -> BarChart | None:
    """Chart what round trips should add to an I/O next to what was added; None without a test of a
    measured change. Where round trips save time, both are the time saved."""
    tests = [
        (test, test.measured)
        for found in comparison.explanations
        if isinstance(found, RoundTripCost)
        for test in found.tests
        if test.measured is not None
    ]
    if not tests:
        return None
    saved = sum(test.expected.value for test, _ in tests) < 0
    shown = keep_largest(tests, lambda pair: abs(pair[0].expected.value), _MOST_TESTS)
    several = len({test.workload for test, _ in shown}) > 1
    groups = []
    for test, measured in shown:
        share = test.share
        text = f", {100 * share.value:,.0f} %" if share.value is not None else ""
        text += "" if share.account is Account.ACCOUNTS_FOR else f" ({share.account.value})"
        workload = short(test.workload, _LABEL) if several else ""
        name = place(short(test.target, _LABEL), workload, test.level)
        groups.append(
            BarGroup(
                label=f"{name} {test.op.value}",
                bars=(
                    _latency_bar(0, test.expected, saved=saved),
                    _latency_bar(1, measured, saved=saved, more=text),
                ),
            )
        )
    ends = [end for group in groups for bar in group.bars for end in bar.interval or ()]
    low, high, ticks = value_axis(Metric.LATENCY_MEAN, ends)
    word = "saved" if saved else "added"
    return BarChart(
        id="explanation-chart",
        title=f"Latency {word} to each I/O by round trips, expected and measured",
        series=("expected", "measured"),
        hues=_TESTED_HUES,
        scale=Scale(
            title="mean latency, share explained", log=False, low=low, high=high, ticks=ticks
        ),
        groups=tuple(groups),
    )


def _latency_bar(series: int, found: Estimate, *, saved: bool, more: str = "") -> Bar:
    shown = -found if saved else found
    return Bar(
        series=series,
        value=max(shown.value, 0.0),
        text=format_latency(abs(shown.value)) + more,
        interval=(max(shown.low, 0.0), max(shown.high, 0.0)),
    )


# --- both systems as bars-------------------------------------------------------------------------


def bar_charts(comparison: Comparison) -> list[tuple[str, BarChart]]:
    """Return (label, chart) for the rate of each workload and operation: bars, trials as dots.

    Reads and writes differ in size: each operation has its own axis.
    """
    groups: dict[tuple[str, Op | None, Metric], list[ComparedCell]] = {}
    for cell in rates(comparison):
        groups.setdefault((cell.workload, cell.op, cell.metric), []).append(cell)
    several = len({workload for workload, _, _ in groups}) > 1
    charts = []
    for number, ((workload, op, metric), group) in enumerate(groups.items(), start=1):
        name = place(short(workload) if several else "", op_text(op))
        choice = f"bars-{number}-{slug(workload)}"
        heading = f"{name}, {title(metric)}"
        chart = _bar_chart(choice, heading, metric, group, system_names(comparison))
        charts += [(name, chart)] if chart else []
    return charts


def _bar_chart(
    choice: str, heading: str, metric: Metric, cells: _Cells, names: tuple[str, str]
) -> BarChart | None:
    changes, note = _largest_changes(cells, heading)
    shown = changes if note != heading else [cell for cell in cells if _has_number(cell)]
    values = [
        end
        for cell in shown
        for figure in _figures(cell)
        if figure and figure.value is not None
        for end in (figure.value, figure.high or 0.0, *(figure.interval or ()))
    ]
    if not values:
        return None
    low, high, ticks = value_axis(metric, values)
    unit = RATE_UNITS.get(metric, title(metric))
    return BarChart(
        id=f"{choice}-chart",
        title=note,
        series=names,
        hues=SYSTEM_HUES,
        scale=Scale(title=unit, log=False, low=low, high=high, ticks=ticks),
        groups=tuple(
            BarGroup(
                label=label,
                bars=tuple(_bar(number, figure) for number, figure in enumerate(_figures(cell))),
            )
            for cell, label in zip(shown, cell_labels(shown), strict=True)
        ),
        choice=choice,
    )


def _has_number(cell: ComparedCell) -> bool:
    return any(figure and figure.value is not None for figure in _figures(cell))


def _figures(cell: ComparedCell) -> tuple[MetricFigure | None, MetricFigure | None]:
    return cell.baseline, cell.candidate


def _bar(series: int, figure: MetricFigure | None) -> Bar:
    if figure is None or figure.value is None:
        return Bar(series=series, value=None, text=MISSING)
    trials = dots(figure)
    return Bar(
        series=series,
        value=figure.value,
        text=value_with_unit(figure.metric, figure.value),
        interval=figure.interval,
        dots=trials if len(trials) > 1 else (),
        refused=figure.severity is Severity.ERROR,
    )


# --- every trial over time ----------------------------------------------------------------------


# Rows of a chart of strips.
MOST_STRIPS = 24
# What the audit says of rates that are not stable, marked with a triangle.
UNSTABLE = frozenset(("unstable-repeats", "not-steady"))


def unstable_text(figures: Iterable[MetricFigure | None]) -> str:
    """`8 of 24 results unstable`: those with a finding of the audit; empty without results."""
    shown = [figure for figure in figures if figure and figure.value is not None]
    unstable = sum(bool(UNSTABLE & set(figure.findings)) for figure in shown)
    return f"{unstable:,} of {count_text(len(shown), 'result')} unstable" if shown else ""


_Trials = Sequence[Mapping[str, StoredTrial]]


def strip_charts(comparison: Comparison) -> tuple[StripChart, ...]:
    """Draw the rate over time of every trial of both systems, a chart for each operation; none
    without logs."""
    found = []
    names, trials = system_names(comparison), _trials(comparison)
    noted = [
        (stacks_of(side.run), _stragglers(side))
        for side in (comparison.baseline, comparison.candidate)
    ]
    for op in (Op.READ, Op.WRITE, Op.TRIM, Op.SYNC, Op.TRANSACTION, *STAGES):
        cells = [cell for cell in rates(comparison) if cell.op is op]
        shown = keep_largest(cells, log_change, MOST_STRIPS)
        tracks = [_tracks(cell, trials, noted) for cell in shown]
        rows = [
            StripRow(label=label, tracks=own)
            for label, own in zip(cell_labels(shown), tracks, strict=True)
            if any(track.strips for track in own)
        ]
        if rows:
            rest = f", {len(shown)} of {len(cells):,} cells" if len(shown) < len(cells) else ""
            heading = (
                f"{OP_NOUNS[op].capitalize()}, {title(shown[0].metric, op)} of each trial{rest}"
            )
            found.append(
                StripChart(
                    id=f"strips-{op.value}",
                    title=heading,
                    series=names,
                    hues=SYSTEM_HUES,
                    rows=tuple(rows),
                    panel=True,
                )
            )
    return tuple(found)


def _trials(comparison: Comparison) -> _Trials:
    return [
        {
            f"{part.run.id}:{trial.record.trial}" if side.repeats else trial.record.trial: trial
            for part in side.parts
            for trial in part.run.trials
        }
        for side in (comparison.baseline, comparison.candidate)
    ]


def _stragglers(side: Side) -> dict[str, str]:
    return {
        f"{part.run.id}:{trial}" if side.repeats else trial: message
        for part in side.parts
        for trial, message in straggling(part.findings).items()
    }


_Noted = Sequence[tuple[Mapping[str, Sequence[Layer]], Mapping[str, str]]]


def _tracks(cell: ComparedCell, trials: _Trials, noted: _Noted) -> tuple[StripTrack, ...]:
    rows = ((cell.baseline_cell, cell.baseline), (cell.candidate_cell, cell.candidate))
    return tuple(
        strip_track(number, row, figure, trials[number], *noted[number])
        for number, (row, figure) in enumerate(rows)
        if row is not None and figure is not None
    )


def strip_track(
    series: int,
    row: CellFigure,
    figure: MetricFigure,
    trials: Mapping[str, StoredTrial],
    stacks: Mapping[str, Sequence[Layer]],
    stragglers: Mapping[str, str],
) -> StripTrack:
    """Draw the trials of a cell in the order in which they ran, with their events. `stragglers` is
    the message about a straggling client by trial."""
    known = [trial for trial in figure.trials if trial.value is not None]
    logged = [
        (rate_windows(trials.get(trial.trial), row), _trial_text(figure, trial)) for trial in known
    ]
    drawn = [
        with_events(
            strip,
            trials.get(trial.trial),
            row.op,
            stacks.get(row.target, ()),
            stragglers.get(trial.trial, ""),
        )
        for strip, trial in zip(strips(logged), known, strict=False)
    ]
    varied = variation([trial.value for trial in known if trial.value is not None])
    flag = "▲ " if UNSTABLE & set(figure.findings) else ""
    return StripTrack(
        series=series,
        # The windows are those of the whole job file, not of a section.
        strips=tuple(drawn) if row.workload == row.planned_workload else (),
        text=f"{flag}CV {100 * varied:.0f} %" if varied is not None else "1 trial",
    )


def _trial_text(figure: MetricFigure, trial: TrialValue) -> str:
    return f"trial {trial.trial}: {value_with_unit(figure.metric, trial.value or 0.0)}"


# --- the map ------------------------------------------------------------------------------------


def heat_map(anchor: str, heading: str, cells: _Cells) -> HeatMap | None:
    """Build the heat map of targets x workloads, of the targets with the largest changes; None if
    empty."""
    at = {(cell.target, cell.workload, cell.level, cell.op): cell for cell in cells}
    columns = {(cell.workload, cell.level, cell.op): cell for cell in cells}
    changes: dict[str, float] = {}
    for cell in cells:
        changes[cell.target] = max(changes.get(cell.target, 0.0), log_change(cell))
    shown = keep_largest(list(changes), changes.__getitem__, MOST_ROWS)
    if not any(cell.judgement.ratio for cell in cells) or len(shown) * len(columns) < 2:
        return None
    if len(shown) < len(changes):
        heading += f": the {MOST_ROWS} of {len(changes):,} targets with the largest changes"
    leveled = leveled_cells(cells)
    titles = (
        place(short(workload, _LABEL), level if leveled else "", op_text(op))
        for workload, level, op in columns
    )
    return HeatMap(
        id=anchor,
        title=heading,
        rows=tuple(map(short, shown)),
        columns=tuple(titles),
        higher_is_better=tuple(not cell.metric.lower_is_better for cell in columns.values()),
        cells=tuple(
            tuple(_heat(at.get((target, *column))) for column in columns) for target in shown
        ),
        baseline=0,
        relative=True,
    )


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
    shade = 0.0 if cell.verdict is Verdict.SAME else -part if cell.metric.lower_is_better else part
    return HeatCell(text=text, shade=shade, value=ratio, note=cell.verdict.value)


# --- latency percentiles --------------------------------------------------------------------------

MOST_CURVES = 12


def percentile_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Draw the latency percentiles of both systems, a chart for each cell, of many cells those with
    the largest changes."""
    known = [
        cell
        for cell in rates(comparison)
        if cell.op is not Op.TOTAL and (cell.baseline_cell or cell.candidate_cell)
    ]
    shown = keep_largest(known, log_change, MOST_CURVES)
    tails = {
        (cell.target, cell.workload, cell.level, cell.op): cell
        for cell in comparison.cells
        if cell.metric is Metric.LATENCY_P99
    }
    charts = percentile_charts(
        [
            (
                f"percentiles-{number}",
                label,
                _tail_text(tails.get((cell.target, cell.workload, cell.level, cell.op))),
                [
                    (system, row)
                    for system, row in enumerate((cell.baseline_cell, cell.candidate_cell))
                    if row is not None
                ],
            )
            for number, (cell, label) in enumerate(
                zip(shown, cell_labels(shown), strict=True), start=1
            )
        ],
        system_names(comparison),
        SYSTEM_HUES,
    )
    if charts and len(known) > len(shown):
        count = count_text(len(known), "cell")
        text = f"The {len(shown)} cells with the largest changes of rates, of {count}."
        return (Paragraph(text=text), *charts)
    return charts


def _tail_text(cell: ComparedCell | None) -> str:
    """`p99 782 us -> 2.61 ms, worse`."""
    if cell is None or not (cell.baseline and cell.candidate):
        return ""
    before, after = cell.baseline.value, cell.candidate.value
    if before is None or after is None:
        return ""
    texts = [value_with_unit(cell.metric, value) for value in (before, after)]
    return f"p99 {' -> '.join(texts)}, {cell.verdict.value}"


def pattern_of(run: Run) -> Mapping[tuple[str, str], str]:
    """Return `random`, `sequential` or empty for each planned workload and level."""
    found = {}
    for cell in run.plan.cells:
        recorded = cell.workload.recorded
        names = [phase.pattern.value for phase in cell.workload.phases]
        names = [recorded.options.get("rw", "")] if recorded else names
        kinds = {"random" if name.startswith("rand") else "sequential" for name in names if name}
        found[cell.workload.name, cell.level] = kinds.pop() if len(kinds) == 1 else ""
    return found
