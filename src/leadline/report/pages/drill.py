"""Drills as sections of a document: the answer of `leadline drill`, and a part of a run's page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from leadline.analysis.drill import (
    HOLD_S,
    DrilledCell,
    DrilledTrial,
    Mean,
    PhaseMean,
    PhaseName,
    find_drills,
)
from leadline.archive.reader import Run
from leadline.formats.fio.histogram_logs import ROW_S
from leadline.metrics import MARGIN
from leadline.plan.drill import Drill
from leadline.report.cells import absent, bullets, number, number_column, section, table
from leadline.report.curves import latency_scale, linear_axis, linear_scale, scale
from leadline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Line,
    LineChart,
    Rule,
    Scale,
    Section,
)
from leadline.report.words import change_text, place, share_text
from leadline.text import count_text, sentence
from leadline.units import (
    format_bandwidth,
    format_duration,
    format_iops,
    format_latency,
    format_size,
)

# More lines hide each other; the table has every trial.
_MOST_LINES = 5
METHOD = (
    "All times count from the begin of the event. Phases: before the event; during it, until it is "
    "undone (an added host stays); recovery, until all OSDs are up and all PGs active+clean; "
    "after. The rate is back if "
    f"every later mean of {HOLD_S} s is within the margin of the rate before: "
    f"{share_text(MARGIN)}, or two standard deviations of its seconds. Lost I/Os are those missing "
    "from the rate before until then, as seconds of that rate. The longest gap is at most "
    f"{ROW_S:g} s too long. Intervals are 95 % (Student's t) over trials."
)


def drill_document(run: Run) -> Document:
    """The drills of a run as a document of its own."""
    cells = find_drills(run)
    return Document(
        title=f"Drills of {run.id}",
        subtitle="",
        summary=tuple(text for cell in cells for text in _sentences(cell))
        or ("The plan of this run has no drill.",),
        sections=tuple(_sections(cells)),
    )


def drill_sections(run: Run) -> tuple[Section, ...]:
    """The drills as a section of the run's page; empty without any."""
    cells = find_drills(run)
    if not cells:
        return ()
    found = tuple(_sections(cells))
    texts = bullets(text for cell in cells for text in _sentences(cell))
    return (section("Drill", "drill", texts, sections=found),)


def _sections(cells: Sequence[DrilledCell]) -> Iterator[Section]:
    for index, cell in enumerate(cells, start=1):
        yield section(
            place(cell.target, cell.workload, cell.level),
            f"drill-{index}",
            f"{sentence(str(cell.drill.event))} {_times(cell.drill)}",
            *_charts(cell, index),
            _phase_table(cell, index),
            _trial_table(cell, index),
            _missing(cell),
            METHOD if index == 1 and cell.trials else None,
        )


def _times(drill: Drill) -> str:
    begins = f"It begins after {format_duration(drill.after)}"
    if not drill.event.is_undone:
        return f"{begins}; before that the host holds no data."
    return f"{begins} and lasts {format_duration(drill.lasts)}."


def _sentences(cell: DrilledCell) -> Iterator[str]:
    """The result of a cell in short."""
    name = place(cell.target, cell.workload, cell.level)
    if not cell.trials:
        yield f"{name}: no trial of the drill has a result."
        return
    gap = cell.longest_gap_s.value or 0.0
    yield f"{name}: the longest time without an I/O was at most {format_duration(gap)}."
    if cell.back_s.value is None:
        missing = sum(trial.back_s is None for trial in cell.trials)
        of = count_text(len(cell.trials), "trial")
        yield f"{name}: the rate was not back within the trial in {missing} of {of}."
    elif cell.back_s.value:
        yield f"{name}: the rate was back after {_with_interval(cell.back_s, format_duration)}."
    else:
        yield f"{name}: the rate stayed within the margin."
    if cell.whole_s.value is not None:
        whole = _with_interval(cell.whole_s, format_duration)
        yield f"{name}: the cluster was whole after {whole}."
    for phase in cell.phases:
        if phase.name is PhaseName.RECOVERY and phase.ratio.value is not None:
            change = _with_interval(phase.ratio, change_text)
            yield f"{name}: during recovery the rate changed by {change}."
    if cell.lost_s.value is not None and cell.lost_s.value > 0:
        lost = _with_interval(cell.lost_s, format_duration)
        yield f"{name}: the drill cost I/Os worth {lost} of the rate before."


def _with_interval(mean: Mean, text: Callable[[float], str]) -> str:
    assert mean.value is not None
    if mean.interval is None:
        return text(mean.value)
    return f"{text(mean.value)} ({' to '.join(map(text, mean.interval))})"


def _mean_cell(mean: Mean, text: Callable[[float], str]) -> Cell:
    if mean.value is None:
        return absent("a trial has no value")
    return Cell(text=_with_interval(mean, text), sort=mean.value)


def _phase_table(cell: DrilledCell, index: int) -> Block | None:
    if not cell.phases:
        return None
    names = ("IOPS", "vs before", "p99")
    columns: list[str | Column] = ["phase", *map(number_column, names)]

    def row(phase: PhaseMean) -> tuple[object, ...]:
        change = (
            absent() if phase.name is PhaseName.BEFORE else _mean_cell(phase.ratio, change_text)
        )
        few = "too few I/Os"
        p99 = number(phase.latency_p99_s, format_latency, few)
        return phase.name.value, _mean_cell(phase.iops, format_iops), change, p99

    rows = [row(phase) for phase in cell.phases]
    return table(f"drill-{index}-phases", columns, rows, caption="Phases")


def _trial_table(cell: DrilledCell, index: int) -> Block | None:
    if not cell.trials:
        return None
    names = ("undone after", "longest gap", "rate back after", "whole after", "lost", "recovered")
    rows = [
        (
            trial.trial,
            number(trial.ended_s, format_duration, "the host stays"),
            number(trial.longest_gap_s, format_duration),
            number(trial.back_s, format_duration, "not within the trial"),
            number(trial.whole_s, format_duration, "not within the bound, or no health known"),
            number(trial.lost_s, format_duration),
            number(trial.recovered_bytes, format_size, "no samples of the cluster"),
        )
        for trial in cell.trials
    ]
    columns: list[str | Column] = ["trial", *map(number_column, names)]
    return table(f"drill-{index}-trials", columns, rows, caption="Trials")


def _missing(cell: DrilledCell) -> Block | None:
    return bullets(
        f"Trial {trial.trial} ({trial.status.value}) has no result: "
        f"{trial.fact or 'its drill or its log is incomplete'}."
        for trial in cell.missing
    )


def _charts(cell: DrilledCell, index: int) -> Iterator[Block]:
    """Rate, p99 and recovery traffic over time, with the phases marked by lines."""
    trials = cell.trials[:_MOST_LINES]
    if not trials:
        return
    x = _time_scale(trials)
    rules = tuple(_rules(trials))
    series = tuple(trial.trial for trial in trials)

    def chart(
        kind: str,
        heading: str,
        y: Scale,
        points: Sequence[Sequence[tuple[float, float]]],
        text: Callable[[float], str],
    ) -> LineChart:
        lines = tuple(
            Line(
                label=series[number],
                series=number,
                points=tuple(mine),
                texts=tuple(f"{at:g} s: {text(value)}" for at, value in mine),
            )
            for number, mine in enumerate(points)
            if mine
        )
        return LineChart(
            id=f"drill-{index}-{kind}",
            title=heading,
            series=series,
            x=x,
            y=y,
            lines=lines,
            rules=rules,
            drawn=kind == "rate",
        )

    rates = [[(one.begin_s + 0.5, one.iops) for one in trial.seconds] for trial in trials]
    largest = max(value for mine in rates for _, value in mine)
    axis = linear_scale("IOPS", largest, format_iops)
    yield chart("rate", "Rate over time", axis, rates, lambda value: f"{format_iops(value)} IOPS")
    p99 = [
        [(one.begin_s + 0.5, one.latency_p99_s) for one in trial.seconds if one.latency_p99_s]
        for trial in trials
    ]
    known = [value for mine in p99 for _, value in mine]
    if known:
        yield chart("p99", "p99 over time", latency_scale(known), p99, format_latency)
    traffic = [
        [(one.at_s, one.recovering_bps) for one in trial.recovery if one.at_s <= x.high]
        for trial in trials
    ]
    most = max((value for mine in traffic for _, value in mine), default=0.0)
    if most:
        axis = linear_scale("MiB/s", most, format_bandwidth)
        heading = "Recovery traffic over time"
        yield chart(
            "recovery", heading, axis, traffic, lambda bps: f"{format_bandwidth(bps)} MiB/s"
        )


def _time_scale(trials: Sequence[DrilledTrial]) -> Scale:
    low = min(trial.seconds[0].begin_s for trial in trials)
    high = max(trial.seconds[-1].begin_s + 1 for trial in trials)
    ticks = linear_axis(float(max(high, -low)))[2]
    step = ticks[1] if len(ticks) > 1 else 1.0
    shown = [step * place for place in range(-int(-low // step), int(high // step) + 1)]
    return scale("seconds from the event", (float(low), float(high), shown), lambda at: f"{at:g}")


def _rules(trials: Sequence[DrilledTrial]) -> Iterator[Rule]:
    yield Rule(value=0.0, label="event begins", upright=True)
    if ended := [trial.ended_s for trial in trials if trial.ended_s is not None]:
        yield Rule(value=statistics.median(ended), label="undone", upright=True)
    last = max(trial.seconds[-1].begin_s + 1 for trial in trials)
    whole = [trial.whole_s for trial in trials if trial.whole_s is not None]
    if whole and (at := statistics.median(whole)) <= last:
        yield Rule(value=at, label="whole", upright=True)
