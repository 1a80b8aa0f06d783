"""Load curves as tables: the levels, what each curve says, the fitted law."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Gain, Knee, KneeMethod, Shape
from leadline.analysis.scaling.limit import LimitAnswer
from leadline.metrics import Metric
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.marks import Marks
from leadline.report.run.results import number_cell, trials_cell
from leadline.report.scaling.wording import (
    interval_text,
    level_text,
    load_text,
    number_text,
    range_text,
    short_title,
)
from leadline.report.wording import (
    NOT_SHOWN,
    listed,
    share_text,
    value_text,
    value_with_unit,
    visible,
)
from leadline.stats.usl import MISFIT_P, Resampling, UslFit

NUMBER = Kind.NUMBER


def absent(why: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=why, missing=True)


def word(text: str) -> Cell:
    shown = visible(text)
    return Cell(text=shown, sort=shown)


def number(value: float | None, text: str, why: str = "") -> Cell:
    return absent(why) if value is None else Cell(text=text, sort=value)


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
    """A row for each level of each curve, named by what stands before it; closed loop, open loop
    and levels with neighbours, in this order."""
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
        Column(title="in flight", kind=NUMBER, unit="asked", rank=3),
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
        row += [number(load.clients, f"{load.clients:,}")] if clients else []
        row += [number(load.in_flight, f"{load.in_flight:,}")]
        row += [number(load.neighbours, f"{load.neighbours:,}")] if driven else []
        if open_too:
            offered = load.offered_iops
            row += [number(offered, value_text(Metric.IOPS, offered or 0.0), "a closed loop")]
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
    """The percentiles of a row: p99 where some level has it, and the one that is drawn or limited,
    where it is another."""
    asked = dict.fromkeys((tail, Metric.LATENCY_P99))
    return [
        metric
        for metric in Metric
        if metric in asked
        and metric.quantile is not None
        and any(one.latency(metric).value is not None for one in points)
    ]


def _latency(point: LoadPoint, metric: Metric, marks: Marks) -> Cell:
    """A latency of an open loop that fell behind says how long it ran, nothing else."""
    if point.beyond_capacity and not point.missing:
        return absent("the offered rate was not reached, so that the queue grew without bound")
    return number_cell(point.figure, point.latency(metric), marks)


# --- what each curve says -----------------------------------------------------------------------


def shapes_table(anchor: str, shapes: Sequence[tuple[str, Shape, LimitAnswer | None]]) -> Table:
    """A row for each curve: its highest level, whether that is the end, the knee, and the last
    level within the limit where one was given."""
    limit = next((answer.limit for _, _, answer in shapes if answer), None)
    columns = [
        Column(title="curve"),
        Column(title="highest", kind=NUMBER, unit="IOPS"),
        Column(title="95 % interval", kind=NUMBER, rank=4),
        Column(title="at"),
        Column(title="not told apart from", rank=5),
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
        why = "no level has a throughput that may be used"
        return [absent(why), absent(why), absent(why), absent("")]
    interval = peak.interval
    return [
        Cell(text=value_text(Metric.IOPS, peak.iops), sort=peak.iops),
        absent("single trials tell no scatter")
        if interval is None
        else Cell(text=iops_interval(interval), sort=interval[1] - interval[0]),
        Cell(text=level_text(peak.point), sort=peak.load),
        word(listed(peak.ties)) if peak.ties else absent("no other level"),
    ]


def iops_interval(interval: tuple[float, float]) -> str:
    low, high = (value_text(Metric.IOPS, end) for end in interval)
    return f"{low} to {high}"


def gain_text(gain: Gain) -> str:
    """`+3.2 % for twice the load (-1 % to +8 %)`."""
    said = f"{signed(gain.share)} for twice the load"
    if gain.interval is None:
        return said
    return f"{said} ({signed(gain.interval[0])} to {signed(gain.interval[1])})"


def signed(share: float) -> str:
    return ("+" if share >= 0 else "-") + share_text(abs(share))


def _growth(shape: Shape) -> list[Cell]:
    gain = shape.last_gain
    if gain is None:
        return [absent("one level tells no growth"), absent("one level tells no growth")]
    state = {True: "no more growth", False: "still grows", None: "not decided"}[shape.saturated]
    return [word(state), Cell(text=signed(gain.share), sort=gain.share, note=gain_text(gain))]


def _knee(shape: Shape, knee: Knee) -> Cell:
    if knee.load is None:
        text = {True: NOT_SHOWN, False: "beyond the last", None: "not decided"}[shape.saturated]
        return Cell(text=text, note=visible(knee.absence), missing=True)
    found = knee.range
    between = f" ({range_text(found)})" if found and found.low != found.high else ""
    return Cell(text=f"{load_text(shape.curve, knee.load)}{between}", sort=knee.load)


def _within(answer: LimitAnswer | None) -> Cell:
    if answer is None:
        return absent("no closed-loop level")
    kept = answer.last_kept
    if kept is None:
        text = "no level" if answer.first_broken else "not known"
        return Cell(text=text, missing=True)
    iops = answer.iops
    rate = f", {value_with_unit(Metric.IOPS, iops)}" if iops is not None else ""
    most = " (the last)" if kept is answer.points[-1] else ""
    return Cell(text=f"{level_text(kept.point)}{most}{rate}", sort=iops)


# --- limits -------------------------------------------------------------------------------------


def limits_table(anchor: str, answers: Sequence[tuple[str, LimitAnswer]]) -> Table:
    """A row for each line of levels: the last that keeps the limit, the first that breaks it, and
    what lies between or is not known."""
    columns = (
        Column(title="curve"),
        Column(title="loop"),
        Column(title="last level within"),
        Column(title="its latency", kind=NUMBER),
        Column(title="its IOPS", kind=NUMBER),
        Column(title="first level beyond"),
        Column(title="undecided", rank=1),
        Column(title="not known", rank=2),
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
                number(value, value_text(answer.limit.metric, value or 0.0)),
                number(iops, value_text(Metric.IOPS, iops or 0.0)),
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
    """The Universal Scalability Law's parameters with 95 % intervals, or why there are none."""
    columns = (
        Column(title="curve"),
        Column(title="contention", kind=NUMBER, unit="σ"),
        Column(title="coherence", kind=NUMBER, unit="κ"),
        Column(title="highest of the law", rank=1),
        Column(title="worst level off", kind=NUMBER, rank=2),
        Column(title="says"),
    )
    return Table(
        id=anchor,
        caption="X(N) = rate × N / (1 + σ (N - 1) + κ N (N - 1)); in brackets 95 % intervals",
        columns=columns,
        rows=tuple((word(name), *_law(shape)) for name, shape in shapes),
    )


def _law(shape: Shape) -> tuple[Cell, ...]:
    law = shape.law
    assert isinstance(law, UslFit), "the others are told of in a sentence"
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
        word(_law_says(law)),
    )


def _law_peak(shape: Shape) -> Cell:
    peak = shape.law_peak
    if peak is None or peak.load is None or peak.iops is None:
        return Cell(text="beyond the levels measured", missing=True)
    at = load_text(shape.curve, peak.load)
    return Cell(
        text=f"{value_with_unit(Metric.IOPS, peak.iops)} at {at} ({range_text(peak.range)})",
        sort=peak.iops,
    )


def _law_says(law: UslFit) -> str:
    """In words: which of the two holds throughput back, as far as the intervals tell."""
    if law.misfit_p is not None and law.misfit_p < MISFIT_P:
        return (
            "the levels lie further off the curve than their trials explain: it does not hold here"
        )
    queueing = law.contention_interval.low > 0
    talking = law.coherence_interval.low > 0
    if queueing and talking:
        said = "a share of the work is done one after the other, and each more waits for the others"
    elif queueing:
        said = "a share of the work is done one after the other"
    elif talking:
        said = "the more there are, the longer each waits for the others"
    else:
        said = "neither of the two can be told from none"
    by = " (few trials)" if law.resampling is Resampling.SCATTER else ""
    return said + by
