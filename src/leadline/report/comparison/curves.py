"""The curves of a comparison: of a few cells both sides' percentiles, distribution and IOPS over
time, one cell at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from leadline.analysis.cells import CellFigure
from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.formats.fio_log import Window
from leadline.formats.output import FormatError
from leadline.metrics import Metric, Op
from leadline.report.change_words import short, where
from leadline.report.comparison.parts import rates
from leadline.report.curves import (
    TimeRow,
    distribution_chart,
    ladder_chart,
    percentiles_of,
    rate_over_time_chart,
)
from leadline.report.document import Block, Choices, LineChart, Paragraph
from leadline.report.wording import count_text, visible

MOST_CELLS = 8
_POINTS_OVER_TIME = 60


def curve_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """The cells whose rates changed most, of those that have percentiles on both sides; what is
    left out is said. Empty where there are none."""
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
    said: list[Block] = []
    if len(known) > len(chosen):
        text = (
            f"Drawn are the {len(chosen)} cells whose rates changed most, of "
            f"{count_text(len(known), 'cell')}."
        )
        said.append(Paragraph(text=text))
    if len(options) > 1:
        said.append(Choices(id="curves", label="Cell", options=tuple(options)))
    return (*said, *charts)


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
            over_time.append((f"{name}, trial {visible(trial)}", number, windows))
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
    """The trial in the middle by IOPS, and its windows; those of a whole job file are not of one
    of its sections."""
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
        return name, ()  # the audit names the log and its line


def pattern_of(run: Run) -> Mapping[tuple[str, str], str]:
    """`random`, `sequential` or empty for each planned workload and level of a run."""
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
