"""Tables of load curves, limits, bottlenecks, clients and systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.analysis.bottleneck.suspects import Bottleneck, Strength, Suspect
from leadline.analysis.scaling.clients import (
    METRICS,
    DensityAnswer,
    DensityStep,
    Disturbance,
    Fairness,
)
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.knee import Knee, KneeMethod, LoadInterval, Shape
from leadline.analysis.scaling.limits import LimitAnswer, LimitPoint
from leadline.analysis.scaling.speedup import (
    Efficiency,
    EqualLatency,
    LevelSpeedup,
    Resource,
    Speedup,
)
from leadline.analysis.scaling.speedup import Kind as ResourceKind
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.analysis.verdicts import Judgement
from leadline.metrics import Metric
from leadline.report.cells import number_cell, trials_cell
from leadline.report.document import Cell, Column, Kind, Marks, Table
from leadline.report.pages.scaling.words import (
    NAMES,
    cause_text,
    gain_text,
    interval_text,
    iops_interval,
    level_text,
    load_text,
    number_text,
    ratio_text,
    resource_text,
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
    op_text,
    reason_text,
    share_text,
    short,
    value_text,
    value_with_unit,
)
from leadline.stats.usl import MISFIT_P, Resampling, UslFit

NUMBER = Kind.NUMBER


def absent(why: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=why, missing=True)


def word(shown: str) -> Cell:
    return Cell(text=shown, sort=shown)


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
        and any(one.latency(metric).value is not None for one in points)
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
        NAMES[one.bottleneck]
        for one in level.suspects
        if one.strength is strength and one.bottleneck is not Bottleneck.UNKNOWN
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
        rows=tuple(_suspect(one) for one in level.suspects),
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


# --- clients: density, fairness, neighbours -------------------------------------------------------


# Metrics of the neighbours table, with the rank by which columns are dropped.
_SHOWN = ((Metric.IOPS, 0), (Metric.LATENCY_MEAN, 3), (Metric.LATENCY_P99, 0))
_NO_FAIRNESS = "one client, or a client without figures"


def density_table(anchor: str, answer: DensityAnswer) -> Table:
    """A row for each number of clients."""
    metric = answer.limit.metric
    several = len(answer.ops) > 1
    columns = (
        Column(title="clients", kind=NUMBER),
        Column(title=f"{answer.limit}"),
        *(
            Column(
                title=f"{op.value} {short_title(metric)}" if several else short_title(metric),
                kind=NUMBER,
            )
            for op in answer.ops
        ),
        Column(title="trials within", kind=NUMBER, rank=2),
        Column(title="slowest client", kind=NUMBER, unit="of the median's rate", rank=1),
        Column(title="worst p99", kind=NUMBER, unit="of the median's", rank=3),
    )
    rate = value_text(Metric.IOPS, answer.rate_iops)
    return Table(
        id=anchor,
        caption=f"{answer.workload} on {answer.target}, {rate} IOPS each",
        columns=columns,
        rows=tuple(_step(answer, step) for step in answer.steps),
    )


def _step(answer: DensityAnswer, step: DensityStep) -> tuple[Cell, ...]:
    latencies = [_limit_value(answer, one) for one in step.parts]
    latencies += [absent("not measured")] * (len(answer.ops) - len(latencies))
    kept = min((one.kept for one in step.parts), default=0)
    trials = max((one.trials for one in step.parts), default=0)
    shares = [one.iops_share for one in step.fairness if one.iops_share is not None]
    ratios = [one.p99_ratio for one in step.fairness if one.p99_ratio is not None]
    share, ratio = min(shares, default=None), max(ratios, default=None)
    return (
        count_cell(step.clients),
        word(step.standing.value),
        *latencies,
        Cell(text=f"{kept} of {trials}", sort=float(kept)),
        number(share, share_text(share or 0.0), _NO_FAIRNESS),
        number(ratio, f"× {ratio or 0.0:.2f}", _NO_FAIRNESS),
    )


def _limit_value(answer: DensityAnswer, point: LimitPoint) -> Cell:
    value = point.value
    return metric_cell(answer.limit.metric, value, text(point.why))


def fairness_table(anchor: str, rows: Sequence[tuple[str, Fairness]]) -> Table:
    """How evenly the clients of each level were served: the slowest against the median client."""
    columns = (
        Column(title="curve"),
        Column(title="level"),
        Column(title="clients", kind=NUMBER),
        Column(title="slowest", kind=NUMBER, unit="of the median's rate"),
        Column(title="in single trials", kind=NUMBER, rank=2),
        Column(title="worst p99", kind=NUMBER, unit="of the median's"),
        Column(title="slowest client", rank=1),
        Column(title="without figures", kind=NUMBER, rank=3),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple((word(name), *_fairness(one)) for name, one in rows),
    )


def _fairness(one: Fairness) -> tuple[Cell, ...]:
    share, ratio, slowest = one.iops_share, one.p99_ratio, one.slowest
    return (
        word(one.level),
        count_cell(len(one.clients)),
        number(share, share_text(share or 0.0), _NO_FAIRNESS),
        _shares(one.iops_shares),
        number(ratio, f"× {ratio or 0.0:.2f}", _NO_FAIRNESS),
        word(slowest.client) if slowest else absent(_NO_FAIRNESS),
        count_cell(one.lost),
    )


def _shares(shares: Sequence[float]) -> Cell:
    if len(shares) < 2:
        return absent("fewer than two trials have it")
    low, high = share_text(min(shares)), share_text(max(shares))
    return Cell(text=low if low == high else f"{low} to {high}", sort=min(shares))


def disturbance_table(anchor: str, rows: Sequence[tuple[str, Disturbance]]) -> Table:
    """Levels alone and with neighbours, as ratios with intervals."""
    several = len({name for name, _ in rows}) > 1
    columns = (
        *([Column(title="curve")] if several else []),
        Column(title="level"),
        Column(title="neighbours", kind=NUMBER),
        *(
            column
            for metric, rank in _SHOWN
            for column in (
                Column(title=short_title(metric), kind=NUMBER, rank=rank),
                Column(title="vs alone", kind=NUMBER, rank=rank),
            )
        ),
    )
    return Table(
        id=anchor,
        caption="",
        columns=columns,
        rows=tuple(
            (word(name), *cells) if several else cells
            for name, one in rows
            for cells in _disturbed(one)
        ),
    )


def _disturbed(one: Disturbance) -> Iterator[tuple[Cell, ...]]:
    alone: list[Cell] = []
    for metric, _ in _SHOWN:
        value = one.alone.usable(metric)
        alone += [metric_cell(metric, value), absent("the level alone")]
    yield (word(level_text(one.alone)), number(0, "none"), *alone)
    for row in one.rows:
        cells: list[Cell] = []
        for metric, _ in _SHOWN:
            effect = row.effects[METRICS.index(metric)]
            cells += [
                metric_cell(metric, effect.value),
                _ratio(effect.judgement, verdict=True),
            ]
        level = word(level_text(row.point))
        yield (level, count_cell(row.neighbours), *cells)


# --- systems of different size --------------------------------------------------------------------


def resources_table(anchor: str, rows: Sequence[Resource]) -> Table:
    """The resources of both systems."""
    return Table(
        id=anchor,
        caption="Added resources",
        columns=(
            Column(title="resource"),
            Column(title="baseline", kind=NUMBER),
            Column(title="candidate", kind=NUMBER),
            Column(title="ratio", kind=NUMBER),
            Column(title="counts as", rank=2),
            Column(title="source", rank=1),
        ),
        rows=tuple(
            (
                word(one.name),
                number(one.baseline, number_text(one.baseline)),
                number(one.candidate, number_text(one.candidate)),
                number(one.ratio, f"× {one.ratio:.2f}"),
                word("more work" if one.kind is ResourceKind.COPIES else "capacity"),
                word(one.told_by),
            )
            for one in rows
        ),
    )


def speedup_table(anchor: str, speedups: Sequence[Speedup], caption: str = "") -> Table:
    """A row for each level of equal load, then the two peaks, then equal latency. The added
    resource is in the caption where it is the same for all."""
    added = {one.divisor for one in speedups}
    alike = len(added) == 1
    names = [
        (one.subject, one.baseline.workload, op_text(one.baseline.op), one.baseline.iodepth)
        for one in speedups
    ]
    differ = [len({one[place] for one in names}) > 1 for place in range(4)]
    # An operation that follows from the workload is not shown.
    differ[2] = len({one[1:3] for one in names}) > len({one[1] for one in names})
    columns = (
        *([Column(title="curve")] if any(differ) else []),
        Column(title="level"),
        Column(title="baseline", kind=NUMBER, unit="IOPS"),
        Column(title="candidate", kind=NUMBER, unit="IOPS"),
        Column(title="speed-up", kind=NUMBER),
        *([] if alike else [Column(title="added", rank=1)]),
        Column(title="efficiency", kind=NUMBER),
        Column(title="verdict", rank=2),
    )
    rows = []
    for one, parts in zip(speedups, names, strict=True):
        shown = [f"{part}" for part, wanted in zip(parts, differ, strict=True) if wanted and part]
        name = [word(" · ".join(shown))] if any(differ) else []
        rows += [(*name, *cells) for cells in _speedup(one, in_caption=alike)]
    if alike and speedups[0].divisor is not None:
        caption = ". ".join(
            [*([caption] if caption else []), f"Added: {resource_text(speedups[0].divisor)}"]
        )
    return Table(id=anchor, caption=caption, columns=columns, rows=tuple(rows))


def _speedup(one: Speedup, *, in_caption: bool) -> Iterator[tuple[Cell, ...]]:
    nothing = absent("no added resource is known")
    cell = word(resource_text(one.divisor)) if one.divisor else nothing
    added = () if in_caption else (cell,)
    for level in one.levels:
        yield (word(level_text(level.baseline)), *_pair(level, added))
    if one.peak is not None:
        ours, theirs = level_text(one.peak.baseline), level_text(one.peak.candidate)
        both = ours if ours == theirs else f"{ours}, {theirs}"
        yield (word(f"highest: {both}"), *_pair(one.peak, added))
    if one.equal_latency.limit is not None:
        yield _equal(added, one.equal_latency)


def _pair(level: LevelSpeedup, added: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return (
        _rate(level.baseline),
        _rate(level.candidate),
        _ratio(level.judgement),
        *added,
        _efficiency(level.efficiency),
        word(level.judgement.verdict.value),
    )


def _equal(added: tuple[Cell, ...], one: EqualLatency) -> tuple[Cell, ...]:
    ours, theirs = one.baseline.iops, one.candidate.iops
    limit = f"within {one.limit}"
    return (
        Cell(text=limit, sort=limit, note=text(one.chosen)),
        metric_cell(Metric.IOPS, ours, text(one.baseline.absence)),
        metric_cell(Metric.IOPS, theirs, text(one.candidate.absence)),
        _ratio(one.judgement, text(one.absence), one.bound),
        *added,
        _efficiency(one.efficiency),
        absent(text(one.absence)) if one.absence else word(one.judgement.verdict.value),
    )


def _rate(point: LoadPoint) -> Cell:
    rate = point.usable(Metric.IOPS)
    why = ", ".join(point.throughput.findings) or point.throughput.absence
    return metric_cell(Metric.IOPS, rate, why)


def _ratio(judgement: Judgement, why: str = "", bound: str = "", *, verdict: bool = False) -> Cell:
    reasons = listed(reason_text(code) for code in judgement.reasons)
    if judgement.ratio is None:
        return absent(why or reasons)
    shown = f"{bound} {ratio_text(judgement.ratio, judgement.interval)}".strip()
    notes = [judgement.verdict.value if verdict else "", reasons]
    return Cell(text=shown, sort=judgement.ratio, note="; ".join(filter(None, notes)))


def _efficiency(one: Efficiency | None) -> Cell:
    if one is None:
        return absent("nothing to divide by")
    ends = one.interval
    between = f"{share_text(ends[0])} to {share_text(ends[1])}" if ends else ""
    return Cell(text=share_text(one.value), sort=one.value, note=between)


def causes_table(anchor: str, growth: Growth) -> Table:
    """Candidate causes of superlinear growth."""
    rows = [
        (
            Cell(text=f"{short(row.speedup.subject)} · {short(row.speedup.baseline.workload)}"),
            Cell(text=cause.stance.value),
            Cell(text=cause_text(cause)),
        )
        for row in growth.rows
        if row.superlinear
        for cause in row.superlinear.causes
    ]
    return Table(
        id=anchor,
        caption="Candidate causes of superlinear growth",
        columns=(Column(title="curve"), Column(title="evidence"), Column(title="candidate")),
        rows=tuple(rows),
    )
