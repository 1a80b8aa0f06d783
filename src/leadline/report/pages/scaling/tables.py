"""Load curves as tables: the levels, what each curve says, the fitted law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.bottleneck.evidence import Bottleneck, Strength, Suspect
from leadline.analysis.scaling.curves import Axis, LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Gain, Knee, KneeMethod, Range, Shape
from leadline.analysis.scaling.limits import LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck, ScalingStudy
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.report.cells import number_cell, trials_cell
from leadline.report.document import Cell, Column, Kind, Marks, Table
from leadline.report.words import (
    NOT_SHOWN,
    count_text,
    evidence_name,
    evidence_text,
    listed,
    op_text,
    share_text,
    title,
    value_text,
    value_with_unit,
    visible,
)
from leadline.stats.usl import MISFIT_P, Resampling, UslFit

# Loads, levels and intervals as people read them.


def short_title(metric: Metric) -> str:
    """`p99`, `mean`."""
    return title(metric).split()[0]


def level_text(point: LoadPoint) -> str:
    """The level's own name; of an import, which has none, what is in flight."""
    return visible(point.level) or f"{point.load.in_flight:,} in flight"


def load_text(curve: LoadCurve, load: float) -> str:
    """`3 clients`, `64 I/Os in flight`; what was fitted may lie between: `3.4 clients`."""
    if not load.is_integer():
        noun = "clients" if curve.axis is Axis.CLIENTS else "I/Os in flight"
        return f"{number_text(load)} {noun}"
    if curve.axis is Axis.CLIENTS:
        return count_text(int(load), "client")
    return count_text(int(load), "I/O in flight", "I/Os in flight")


def number_text(value: float) -> str:
    """About three digits: `0.0312`, `3.4`, `12,300`; `∞` for what has no end."""
    if math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def range_text(found: Range) -> str:
    """`2 to 4`; `< 2` and `> 4` where an end lies beyond what was measured."""
    low = f"{'< ' if found.before else ''}{number_text(found.low)}"
    high = f"{'> ' if found.beyond else ''}{number_text(found.high)}"
    return low if low == high else f"{low} to {high}"


def interval_text(low: float, high: float) -> str:
    return f"{number_text(low)} to {number_text(high)}"


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


# What curves are called: as little as tells them apart.


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCurve:
    """A curve that has levels enough. `name` tells it from all others, `label` from those of the
    same workload and operation."""

    name: str
    label: str
    study: CurveStudy

    @property
    def curve(self) -> LoadCurve:
        return self.study.curve


def named_curves(study: ScalingStudy) -> tuple[NamedCurve, ...]:
    """The curves of at least two levels, or with neighbours; what all have in common is in no
    name, unless there is one curve."""
    found = [one for one in study.curves if one.levels > 1 or one.disturbances]
    parts = [
        (run_name(study, one.run), one.curve.target, one.curve.workload, op_text(one.curve.op))
        for one in found
    ]
    told = [len({one[place] for one in parts}) > 1 for place in range(4)]
    if not any(told):
        told = [False, True, True, False]
    system = told[:2] if any(told[:2]) else [False, True]
    names = [_joined(mine, told) for mine in parts]
    return tuple(
        NamedCurve(
            name=name if names.count(name) == 1 else f"{name} · {_depth(one.curve)}",
            label=_joined(mine[:2], system)
            + (f" · {_depth(one.curve)}" if names.count(name) > 1 else ""),
            study=one,
        )
        for one, mine, name in zip(found, parts, names, strict=True)
    )


def _joined(parts: Sequence[str], told: Sequence[bool]) -> str:
    return " · ".join(visible(part) for part, one in zip(parts, told, strict=True) if part and one)


def run_name(study: ScalingStudy, run: Run) -> str:
    """What tells runs apart; empty where there is one."""
    return run.manifest.cluster_label or run.id if len(study.runs) > 1 else ""


def _depth(curve: LoadCurve) -> str:
    if curve.iodepth is None:
        return f"by {curve.axis.value}"
    jobs = f" x {curve.numjobs} jobs" if curve.numjobs not in (None, 1) else ""
    return f"depth {curve.iodepth}{jobs}"


# What held each level back, in words and numbers.

_NAMES = {
    Bottleneck.CLIENT_NETWORK: "clients' network",
    Bottleneck.CLIENT_CPU: "clients' processors",
    Bottleneck.STORAGE_NETWORK: "storage's network",
    Bottleneck.OSD_MEDIA: "media",
    Bottleneck.OSD_CPU: "storage's processors",
    Bottleneck.TARGET_CORES: "processor limit",
    Bottleneck.QUEUE_DEPTH: "queue not filled",
    Bottleneck.ROUND_TRIPS: "round trips",
    Bottleneck.NOT_SATURATED: "nothing yet",
    Bottleneck.UNKNOWN: "not known",
}
# What is said of the level with the highest throughput; "there" is that level.
_CLAUSES = {
    Bottleneck.CLIENT_NETWORK: "the clients' network is full there",
    Bottleneck.CLIENT_CPU: "the clients' processors are full there",
    Bottleneck.STORAGE_NETWORK: "the storage's network is full there",
    Bottleneck.OSD_MEDIA: "the storage's media are busy without a pause there",
    Bottleneck.OSD_CPU: "the storage's processors are full there",
    Bottleneck.TARGET_CORES: "the storage's processor limit is used up there",
    Bottleneck.QUEUE_DEPTH: "the queue that was asked for is not reached there",
    Bottleneck.ROUND_TRIPS: "round trips between zones make up the latency there",
}


def bottleneck_name(one: Bottleneck) -> str:
    return _NAMES[one]


def at_peak_clause(study: CurveStudy) -> str:
    """What is used up where throughput is highest, as a clause; empty where it still grows, or
    nothing is named or suspected."""
    found = study.at_peak
    if found is None or study.shape.saturated is False:
        return ""
    told = [one for one in found.leading if one.bottleneck in _CLAUSES]
    named = [one for one in told if one.strength is Strength.NAMED]
    if named:
        return listed(_CLAUSES[one.bottleneck] for one in named)
    if told:
        names = listed(_NAMES[one.bottleneck] for one in told)
        return f"what holds it back is not certain; suspected: {names}"
    return ""


def bottleneck_table(anchor: str, studies: Sequence[tuple[str, CurveStudy]]) -> Table:
    """A row for each level: what is named or suspected and why, what is ruled out, and what nobody
    measured."""
    columns = (
        Column(title="curve"),
        Column(title="level"),
        Column(title="held back by"),
        Column(title="ruled out", kind=Kind.NUMBER, rank=2),
        Column(title="not measured", kind=Kind.NUMBER, rank=1),
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
    names = listed(_NAMES[one.bottleneck] for one in leading)
    held = names if sure else f"perhaps: {names}" if names else "not known"
    return (
        word(level_text(level.point)),
        word(held),
        _those(level, Strength.EXCLUDED, "nothing is ruled out"),
        _those(level, Strength.NOT_MEASURED, "everything was measured"),
        _evidence(leading),
    )


def _evidence(leading: Sequence[Suspect]) -> Cell:
    """What nobody measured is counted beside it, and named when pointed at."""
    told = " ".join(visible(one.sentence) for one in leading)
    if any(one.bottleneck is Bottleneck.UNKNOWN for one in leading):
        return Cell(text="nothing that was measured was used up", note=told)
    return Cell(text=told)


def _those(level: LevelBottleneck, strength: Strength, nothing: str) -> Cell:
    """How many, and which when pointed at: the evidence at the highest level names them in full."""
    names = [
        _NAMES[one.bottleneck]
        for one in level.suspects
        if one.strength is strength and one.bottleneck is not Bottleneck.UNKNOWN
    ]
    told = listed(names, limit=len(_NAMES)) if names else nothing
    return Cell(text=f"{len(names)}", sort=float(len(names)), note=told)


def suspects_table(anchor: str, name: str, level: LevelBottleneck) -> Table:
    """Every bottleneck at one level, with its evidence as sentence and numbers."""
    where = f"{name} at {level_text(level.point)}"
    trial = f", trial {visible(level.evidence.trial)}" if level.evidence.trial else ""
    return Table(
        id=anchor,
        caption=f"{where}{trial}",
        columns=(
            Column(title="bottleneck"),
            Column(title="verdict of the evidence"),
            Column(title="numbers", rank=1),
            Column(title="evidence"),
        ),
        rows=tuple(_suspect(one) for one in level.suspects),
    )


def _suspect(one: Suspect) -> tuple[Cell, ...]:
    numbers = (
        f"{evidence_name(key)} {evidence_text(key, value)}" for key, value in one.evidence.items()
    )
    return (
        word(_NAMES[one.bottleneck]),
        word(one.strength.value),
        word(", ".join(numbers)),
        Cell(text=visible(one.sentence)),
    )
