"""Tables of load curves: levels, peak and knee, limits, fitted law, bottlenecks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, Suspect
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limits import LimitAnswer, LimitPoint
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.metrics import Metric
from leadline.report.cells import (
    absent,
    count,
    number,
    number_cell,
    number_column,
    quantity,
    records_table,
    table,
    trials_cell,
    word,
)
from leadline.report.document import Cell, Column, Table
from leadline.report.marks import Marks
from leadline.report.pages.scaling.words import (
    NAMES,
    gain_text,
    interval_text,
    iops_interval,
    level_text,
    load_text,
    number_text,
    short_title,
    signed,
    suspect_text,
    text,
)
from leadline.report.words import (
    NOT_SHOWN,
    evidence_name,
    evidence_text,
    level_name,
    listed,
    share_text,
    value_text,
    value_with_unit,
)
from leadline.stats.usl import MISFIT_P, Interval, Resampling, UslFit


def metric_cell(metric: Metric, value: float | None, absence: str = "") -> Cell:
    return number(value, partial(value_text, metric), absence)


# --- levels -------------------------------------------------------------------------------------


def levels_table(
    anchor: str,
    caption: str,
    curves: Sequence[tuple[str, LoadCurve]],
    marks: Marks,
    *,
    tail: Metric = Metric.LATENCY_P99,
    choice: str = "",
) -> Table:
    """A row for each level of each curve: closed loop, open loop, then levels with neighbours."""
    levels = [
        (name, point)
        for name, curve in curves
        for point in (*curve.closed, *curve.offered, *curve.disturbed)
    ]
    points = [point for _, point in levels]
    open_too = any(point.open_loop for point in points)
    driven = any(point.load.neighbours for point in points)
    clients = any(point.load.clients > 1 for point in points)

    def latency(metric: Metric) -> tuple[Column, Callable[[tuple[str, LoadPoint]], Cell]]:
        column = number_column(short_title(metric))
        return column, lambda level: _latency(level[1], metric, marks)

    def offered(level: tuple[str, LoadPoint]) -> Cell:
        return metric_cell(Metric.IOPS, level[1].load.offered_iops, "a closed loop")

    loop = Column(title="loop", rank=4)
    return records_table(
        anchor,
        levels,
        ("target", lambda level: word(level[0])) if len(curves) > 1 else None,
        ("level", lambda level: level_text(level[1])),
        (loop, lambda level: "open" if level[1].open_loop else "closed") if open_too else None,
        (number_column("clients", 5), lambda level: count(level[1].load.clients))
        if clients
        else None,
        (
            number_column("in flight", 3, "requested"),
            lambda level: count(level[1].load.in_flight),
        ),
        (number_column("neighbours"), lambda level: count(level[1].load.neighbours))
        if driven
        else None,
        (number_column("offered", 2, "IOPS"), offered) if open_too else None,
        (
            number_column("IOPS"),
            lambda level: number_cell(level[1].figure, level[1].throughput, marks),
        ),
        *map(latency, (Metric.LATENCY_MEAN, *_shown(points, tail))),
        (number_column("trials", 6), lambda level: trials_cell(level[1].figure, marks)),
        caption=caption,
        filterable=len(levels) > 12,
        choice=choice,
    )


def _shown(points: Sequence[LoadPoint], tail: Metric) -> list[Metric]:
    """The percentiles of a row: p99 and the one that is drawn or limited, where a level has it."""
    wanted = dict.fromkeys((tail, Metric.LATENCY_P99))
    return [
        metric
        for metric in Metric
        if metric in wanted
        and metric.quantile is not None
        and any(point.latency(metric).value is not None for point in points)
    ]


def _latency(point: LoadPoint, metric: Metric, marks: Marks) -> Cell:
    """A latency; none for an open loop that fell behind, where it depends on the trial's length."""
    if point.beyond_capacity and not point.missing:
        return absent("the offered rate was not reached: the queue kept growing")
    return number_cell(point.figure, point.latency(metric), marks)


# --- peak and knee ------------------------------------------------------------------------------


def shapes_table(anchor: str, shapes: Sequence[tuple[str, Shape, LimitAnswer | None]]) -> Table:
    """A row for each curve: its highest level, growth at the last level, knee, and the last level
    within the limit where one was given."""
    limit = next((answer.limit for _, _, answer in shapes if answer), None)
    loop = ", closed loop" if any(shape.curve.offered for _, shape, _ in shapes) else ""
    columns: tuple[str | Column, ...] = (
        "curve",
        number_column("highest", unit="IOPS"),
        number_column("95 % interval", 4),
        "at",
        Column(title="ties with", rank=5),
        Column(title="at the end", rank=2),
        number_column("for twice the load", 3),
        Column(title="knee", rank=1),
        *([f"within {limit}{loop}"] if limit else []),
    )
    rows = [
        [
            word(name),
            *_peak(shape),
            *_growth(shape),
            _knee(shape),
            *([_within(answer)] if limit else []),
        ]
        for name, shape, answer in shapes
    ]
    return table(anchor, columns, rows)


def _peak(shape: Shape) -> list[Cell]:
    peak = shape.peak
    if peak is None:
        why = "no level has a usable throughput"
        return [absent(why), absent(why), absent(why), absent("")]
    interval = peak.interval
    return [
        metric_cell(Metric.IOPS, peak.iops),
        absent("single trials have no scatter")
        if interval is None
        else quantity(iops_interval(interval), interval[1] - interval[0]),
        quantity(level_text(peak.point), peak.load),
        word(listed(map(level_name, peak.ties))) if peak.ties else absent("no other level"),
    ]


def _growth(shape: Shape) -> list[Cell]:
    ending = shape.ending
    if ending is None:
        return [absent("one level has no growth"), absent("one level has no growth")]
    state = f"{ending.trend}: hard limit" if shape.limit else ending.trend.value
    slope = ending.slope
    levels = f"over the last {ending.levels} levels"
    return [word(state), quantity(signed(slope.share), slope.share, f"{gain_text(slope)} {levels}")]


def _knee(shape: Shape) -> Cell:
    knee = shape.knee(KneeMethod.GAIN)
    if knee.load is None:
        shown = {True: NOT_SHOWN, False: "beyond the last", None: "inconclusive"}[shape.saturated]
        return Cell(text=shown, note=text(knee.absence), missing=True)
    ends = knee.interval
    between = ""
    if ends and ends[0] != ends[1]:
        between = f" ({interval_text(*ends, before=knee.before, beyond=knee.beyond)})"
    return quantity(f"{load_text(shape.curve, knee.load)}{between}", knee.load)


def _within(answer: LimitAnswer | None) -> Cell:
    if answer is None:
        return absent("no closed-loop level")
    kept = answer.last_kept
    if kept is None:
        return Cell(text="no level" if answer.first_broken else "unknown", missing=True)
    iops = answer.iops
    rate = f", {value_with_unit(Metric.IOPS, iops)}" if iops is not None else ""
    most = " (the last)" if kept is answer.levels[-1] else ""
    return Cell(text=f"{level_text(kept.point)}{most}{rate}", sort=iops)


# --- limits -------------------------------------------------------------------------------------


def limits_table(anchor: str, answers: Sequence[tuple[str, LimitAnswer]]) -> Table:
    """A row for each curve and loop: the last level that keeps the limit, the first that breaks it,
    and the inconclusive and unknown levels."""
    limit = answers[0][1].limit

    def level(found: LimitPoint | None, absence: str) -> Cell:
        return word(level_text(found.point)) if found else absent(absence)

    def latency(answer: LimitAnswer) -> Cell:
        return metric_cell(limit.metric, answer.last_kept.value if answer.last_kept else None)

    return records_table(
        anchor,
        answers,
        ("curve", lambda row: word(row[0])),
        ("loop", lambda row: "open" if row[1].open_loop else "closed"),
        ("last level within", lambda row: level(row[1].last_kept, "no level keeps the limit")),
        (number_column("its latency"), lambda row: latency(row[1])),
        (number_column("its IOPS"), lambda row: metric_cell(Metric.IOPS, row[1].iops)),
        (
            "first level beyond",
            lambda row: level(row[1].first_broken, "no level breaks the limit in every trial"),
        ),
        (Column(title="inconclusive", rank=1), lambda row: word(listed(row[1].between))),
        (Column(title="unknown", rank=2), lambda row: word(listed(row[1].unknown))),
        caption=f"The limit {limit}",
    )


# --- the fitted law -----------------------------------------------------------------------------


def law_table(anchor: str, shapes: Sequence[tuple[str, Shape, UslFit]]) -> Table:
    """The parameters of the fitted Universal Scalability Law with 95 % intervals."""

    def parameter(value: float, interval: Interval) -> Cell:
        return quantity(
            f"{number_text(value)} ({interval_text(interval.low, interval.high)})", value
        )

    return records_table(
        anchor,
        shapes,
        ("curve", lambda row: word(row[0])),
        (
            number_column("contention", unit="σ"),
            lambda row: parameter(row[2].curve.contention, row[2].contention_interval),
        ),
        (
            number_column("coherence", unit="κ"),
            lambda row: parameter(row[2].curve.coherence, row[2].coherence_interval),
        ),
        (Column(title="fitted peak", rank=1), lambda row: _law_peak(row[1])),
        (number_column("worst residual", 2), lambda row: number(row[2].worst_residual, share_text)),
        ("interpretation", lambda row: _law_meaning(row[2])),
        caption="X(N) = rate × N / (1 + σ (N - 1) + κ N (N - 1)); in brackets 95 % intervals",
    )


def _law_peak(shape: Shape) -> Cell:
    peak = shape.law_peak
    if peak is None or peak.load is None or peak.iops is None:
        return Cell(text="beyond the measured levels", missing=True)
    rate, at = value_with_unit(Metric.IOPS, peak.iops), load_text(shape.curve, peak.load)
    found = peak.range
    between = interval_text(*found.interval, before=found.before, beyond=found.beyond)
    return quantity(f"{rate} at {at} ({between})", peak.iops)


def _law_meaning(law: UslFit) -> str:
    """Interpret the fit: whether contention or coherence differs from zero."""
    if law.misfit_p is not None and law.misfit_p < MISFIT_P:
        return "does not fit: the residuals exceed the scatter of the trials"
    queueing = law.contention_interval.low > 0
    talking = law.coherence_interval.low > 0
    if queueing and talking:
        meaning = "part of the work is serial, and coordination grows with the load"
    elif queueing:
        meaning = "part of the work is serial"
    elif talking:
        meaning = "coordination grows with the load"
    else:
        meaning = "neither differs from zero"
    by = " (few trials)" if law.resampling is Resampling.SCATTER else ""
    return meaning + by


# --- bottlenecks ----------------------------------------------------------------------------------


def bottleneck_table(anchor: str, studies: Sequence[tuple[str, CurveStudy]]) -> Table:
    """A row for each level: the named or suspected bottlenecks and their evidence, and the numbers
    of excluded and unmeasured ones."""
    return records_table(
        anchor,
        [(name, level) for name, study in studies for level in study.bottlenecks],
        ("curve", lambda row: word(row[0])),
        ("level", lambda row: level_text(row[1].point)),
        ("limited by", lambda row: _limited_by(row[1].leading)),
        (
            number_column("excluded", 2),
            lambda row: _those(row[1], Strength.EXCLUDED, "nothing is excluded"),
        ),
        (
            number_column("not measured", 1),
            lambda row: _those(row[1], Strength.NOT_MEASURED, "everything was measured"),
        ),
        ("evidence", lambda row: _evidence(row[1].leading)),
    )


def _limited_by(leading: Sequence[Suspect]) -> str:
    names = listed(NAMES[suspect.bottleneck] for suspect in leading)
    if leading and leading[0].strength is Strength.NAMED:
        return names
    return f"suspected: {names}" if names else "unknown"


def _evidence(leading: Sequence[Suspect]) -> Cell:
    """The evidence of the leading suspects; unmeasured ones are counted in their own column."""
    # Processors that load and storage share are two suspects with the same evidence.
    sentences = " ".join(dict.fromkeys(suspect_text(suspect) for suspect in leading))
    if any(suspect.bottleneck is Bottleneck.UNKNOWN for suspect in leading):
        return Cell(text="no measured resource was used up", note=sentences)
    return Cell(text=sentences)


def _those(level: LevelBottleneck, strength: Strength, nothing: str) -> Cell:
    """The number of suspects of a strength, with their names as a note."""
    names = [
        NAMES[suspect.bottleneck]
        for suspect in level.suspects
        if suspect.strength is strength and suspect.bottleneck is not Bottleneck.UNKNOWN
    ]
    note = listed(names, limit=len(NAMES)) if names else nothing
    return quantity(f"{len(names)}", len(names), note)


def suspects_table(anchor: str, name: str, level: LevelBottleneck) -> Table:

    def numbers(suspect: Suspect) -> Cell:
        evidence = suspect.evidence.items()
        return word(
            ", ".join(
                f"{evidence_name(key)} {evidence_text(key, value)}" for key, value in evidence
            )
        )

    trial = f", trial {level.evidence.trial}" if level.evidence.trial else ""
    return records_table(
        anchor,
        level.suspects,
        ("bottleneck", lambda suspect: NAMES[suspect.bottleneck]),
        ("strength", lambda suspect: suspect.strength.value),
        (Column(title="numbers", rank=1), numbers),
        ("evidence", lambda suspect: Cell(text=suspect_text(suspect))),
        caption=f"{name} at {level_text(level.point)}{trial}",
    )
