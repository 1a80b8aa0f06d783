"""Tables of load curves: levels, peak and knee, limits, fitted law, bottlenecks."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, Suspect
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Knee, KneeMethod, LoadInterval, Shape
from leadline.analysis.scaling.limits import LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.metrics import Metric
from leadline.report.cells import number_cell, trials_cell, word
from leadline.report.document import Cell, Column, Kind, Marks, Table
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
    listed,
    share_text,
    value_text,
    value_with_unit,
)
from leadline.stats.usl import MISFIT_P, Resampling, UslFit

NUMBER = Kind.NUMBER


def absent(why: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=why, missing=True)


def number(value: float | None, shown: str, why: str = "") -> Cell:
    """Make a cell of a number; where it is None, of its absence."""
    return absent(why) if value is None else Cell(text=shown, sort=value)


def metric_cell(metric: Metric, value: float | None, why: str = "") -> Cell:
    return absent(why) if value is None else Cell(text=value_text(metric, value), sort=value)


def count_cell(count: int) -> Cell:
    return Cell(text=f"{count:,}", sort=count)


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
    several = len(curves) > 1
    every = [(name, curve, one) for name, curve in curves for one in _points(curve)]
    open_too = any(one.open_loop for _, _, one in every)
    driven = any(one.load.neighbours for _, _, one in every)
    clients = any(one.load.clients > 1 for _, _, one in every)
    tails = _shown([one for _, _, one in every], tail)
    columns = [
        *([Column(title="target")] if several else []),
        Column(title="level"),
        *([Column(title="loop", rank=4)] if open_too else []),
        *([Column(title="clients", kind=NUMBER, rank=5)] if clients else []),
        Column(title="in flight", kind=NUMBER, unit="requested", rank=3),
        *([Column(title="neighbours", kind=NUMBER)] if driven else []),
        *([Column(title="offered", kind=NUMBER, unit="IOPS", rank=2)] if open_too else []),
        Column(title="IOPS", kind=NUMBER),
        Column(title="mean", kind=NUMBER),
        *(Column(title=short_title(metric), kind=NUMBER) for metric in tails),
        Column(title="trials", kind=NUMBER, rank=6),
    ]
    rows = []
    for name, _, one in every:
        load = one.load
        row = [word(name)] if several else []
        row += [word(level_text(one))]
        row += [word("open" if one.open_loop else "closed")] if open_too else []
        row += [count_cell(load.clients)] if clients else []
        row += [count_cell(load.in_flight)]
        row += [count_cell(load.neighbours)] if driven else []
        if open_too:
            offered = load.offered_iops
            row += [metric_cell(Metric.IOPS, offered, "a closed loop")]
        row += [number_cell(one.figure, one.throughput, marks)]
        row += [_latency(one, Metric.LATENCY_MEAN, marks)]
        row += [_latency(one, metric, marks) for metric in tails]
        row += [trials_cell(one.figure, marks)]
        rows.append(tuple(row))
    return Table(
        id=anchor,
        caption=caption,
        columns=tuple(columns),
        rows=tuple(rows),
        filterable=len(rows) > 12,
        choice=choice,
    )


def _points(curve: LoadCurve) -> tuple[LoadPoint, ...]:
    return (*curve.closed, *curve.offered, *curve.disturbed)


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
    columns = [
        Column(title="curve"),
        Column(title="highest", kind=NUMBER, unit="IOPS"),
        Column(title="95 % interval", kind=NUMBER, rank=4),
        Column(title="at"),
        Column(title="ties with", rank=5),
        Column(title="at the last level", rank=2),
        Column(title="for twice the load", kind=NUMBER, rank=3),
        Column(title="knee", rank=1),
    ]
    loop = ", closed loop" if any(shape.curve.offered for _, shape, _ in shapes) else ""
    columns += [Column(title=f"within {limit}{loop}")] if limit else []
    rows = []
    for name, shape, answer in shapes:
        row = [word(name), *_peak(shape), *_growth(shape)]
        row += [_knee(shape, shape.knee(KneeMethod.GAIN))]
        if limit:
            row += [_within(answer)]
        rows.append(tuple(row))
    return Table(id=anchor, caption="", columns=tuple(columns), rows=tuple(rows))


def _peak(shape: Shape) -> list[Cell]:
    peak = shape.peak
    if peak is None:
        why = "no level has a usable throughput"
        return [absent(why), absent(why), absent(why), absent("")]
    interval = peak.interval
    return [
        Cell(text=value_text(Metric.IOPS, peak.iops), sort=peak.iops),
        absent("single trials have no scatter")
        if interval is None
        else Cell(text=iops_interval(interval), sort=interval[1] - interval[0]),
        Cell(text=level_text(peak.point), sort=peak.load),
        word(listed(peak.ties)) if peak.ties else absent("no other level"),
    ]


def _growth(shape: Shape) -> list[Cell]:
    gain = shape.last_gain
    if gain is None:
        return [absent("one level has no growth"), absent("one level has no growth")]
    state = {True: "no more growth", False: "still grows", None: "inconclusive"}[shape.saturated]
    return [word(state), Cell(text=signed(gain.share), sort=gain.share, note=gain_text(gain))]


def _knee(shape: Shape, knee: Knee) -> Cell:
    if knee.load is None:
        shown = {True: NOT_SHOWN, False: "beyond the last", None: "inconclusive"}[shape.saturated]
        return Cell(text=shown, note=text(knee.absence), missing=True)
    ends = knee.interval
    between = ""
    if ends and ends[0] != ends[1]:
        between = f" ({interval_text(*ends, before=knee.before, beyond=knee.beyond)})"
    return Cell(text=f"{load_text(shape.curve, knee.load)}{between}", sort=knee.load)


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
    columns = (
        Column(title="curve"),
        Column(title="loop"),
        Column(title="last level within"),
        Column(title="its latency", kind=NUMBER),
        Column(title="its IOPS", kind=NUMBER),
        Column(title="first level beyond"),
        Column(title="inconclusive", rank=1),
        Column(title="unknown", rank=2),
    )
    rows = []
    for name, answer in answers:
        kept, broken = answer.last_kept, answer.first_broken
        value, iops = kept.value if kept else None, answer.iops
        rows.append(
            (
                word(name),
                word("open" if answer.open_loop else "closed"),
                word(level_text(kept.point)) if kept else absent("no level keeps the limit"),
                metric_cell(answer.limit.metric, value),
                metric_cell(Metric.IOPS, iops),
                word(level_text(broken.point))
                if broken
                else absent("no level breaks the limit in every trial"),
                word(listed(answer.between)),
                word(listed(answer.unknown)),
            )
        )
    limit = answers[0][1].limit if answers else ""
    return Table(id=anchor, caption=f"The limit {limit}", columns=columns, rows=tuple(rows))


# --- the fitted law -----------------------------------------------------------------------------


def law_table(anchor: str, shapes: Sequence[tuple[str, Shape]]) -> Table:
    """The parameters of the fitted Universal Scalability Law with 95 % intervals."""
    columns = (
        Column(title="curve"),
        Column(title="contention", kind=NUMBER, unit="σ"),
        Column(title="coherence", kind=NUMBER, unit="κ"),
        Column(title="fitted peak", rank=1),
        Column(title="worst residual", kind=NUMBER, rank=2),
        Column(title="interpretation"),
    )
    return Table(
        id=anchor,
        caption="X(N) = rate × N / (1 + σ (N - 1) + κ N (N - 1)); in brackets 95 % intervals",
        columns=columns,
        rows=tuple((word(name), *_law(shape)) for name, shape in shapes),
    )


def _law(shape: Shape) -> tuple[Cell, ...]:
    law = shape.law
    assert isinstance(law, UslFit), "law_table has fitted curves only"
    one = law.curve
    contention, coherence = law.contention_interval, law.coherence_interval
    return (
        Cell(
            text=f"{number_text(one.contention)} "
            f"({interval_text(contention.low, contention.high)})",
            sort=one.contention,
        ),
        Cell(
            text=f"{number_text(one.coherence)} ({interval_text(coherence.low, coherence.high)})",
            sort=one.coherence,
        ),
        _law_peak(shape),
        Cell(text=share_text(law.worst_residual), sort=law.worst_residual),
        word(_law_meaning(law)),
    )


def _law_peak(shape: Shape) -> Cell:
    peak = shape.law_peak
    if peak is None or peak.load is None or peak.iops is None:
        return Cell(text="beyond the measured levels", missing=True)
    at = load_text(shape.curve, peak.load)
    return Cell(
        text=f"{value_with_unit(Metric.IOPS, peak.iops)} at {at} ({_load_interval(peak.range)})",
        sort=peak.iops,
    )


def _load_interval(found: LoadInterval) -> str:
    return interval_text(*found.interval, before=found.before, beyond=found.beyond)


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
    columns = (
        Column(title="curve"),
        Column(title="level"),
        Column(title="limited by"),
        Column(title="excluded", kind=NUMBER, rank=2),
        Column(title="not measured", kind=NUMBER, rank=1),
        Column(title="evidence"),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple(
            (word(name), *_row(level)) for name, study in studies for level in study.bottlenecks
        ),
    )


def _row(level: LevelBottleneck) -> tuple[Cell, ...]:
    leading = level.leading
    sure = bool(leading) and leading[0].strength is Strength.NAMED
    names = listed(NAMES[one.bottleneck] for one in leading)
    held = names if sure else f"suspected: {names}" if names else "unknown"
    return (
        word(level_text(level.point)),
        word(held),
        _those(level, Strength.EXCLUDED, "nothing is excluded"),
        _those(level, Strength.NOT_MEASURED, "everything was measured"),
        _evidence(leading),
    )


def _evidence(leading: Sequence[Suspect]) -> Cell:
    """The evidence of the leading suspects; unmeasured ones are counted in their own column."""
    sentences = " ".join(suspect_text(one) for one in leading)
    if any(one.bottleneck is Bottleneck.UNKNOWN for one in leading):
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
    return Cell(text=f"{len(names)}", sort=float(len(names)), note=note)


def suspects_table(anchor: str, name: str, level: LevelBottleneck) -> Table:
    """Every bottleneck at one level, with its evidence in words and numbers."""
    where = f"{name} at {level_text(level.point)}"
    trial = f", trial {level.evidence.trial}" if level.evidence.trial else ""
    return Table(
        id=anchor,
        caption=f"{where}{trial}",
        columns=(
            Column(title="bottleneck"),
            Column(title="strength"),
            Column(title="numbers", rank=1),
            Column(title="evidence"),
        ),
        rows=tuple(_suspect(suspect) for suspect in level.suspects),
    )


def _suspect(one: Suspect) -> tuple[Cell, ...]:
    numbers = (
        f"{evidence_name(key)} {evidence_text(key, value)}" for key, value in one.evidence.items()
    )
    return (
        word(NAMES[one.bottleneck]),
        word(one.strength.value),
        word(", ".join(numbers)),
        Cell(text=suspect_text(one)),
    )
