"""Tables of clients, of noisy neighbours, and of systems of different size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.analysis.scaling.clients import (
    METRICS,
    DensityAnswer,
    DensityStep,
    Disturbance,
    Fairness,
)
from leadline.analysis.scaling.curves import LoadPoint
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.limits import LimitPoint
from leadline.analysis.scaling.speedup import (
    Efficiency,
    EqualLatency,
    LevelSpeedup,
    Resource,
    Speedup,
)
from leadline.analysis.scaling.speedup import Kind as ResourceKind
from leadline.analysis.verdicts import Judgement
from leadline.metrics import Metric
from leadline.report.cells import word
from leadline.report.document import Cell, Column, Table
from leadline.report.pages.scaling.tables import NUMBER, absent, count_cell, metric_cell, number
from leadline.report.pages.scaling.words import (
    cause_text,
    level_text,
    number_text,
    ratio_text,
    resource_text,
    short_title,
    text,
)
from leadline.report.words import (
    listed,
    op_text,
    reason_text,
    share_text,
    short,
    value_text,
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
    latencies = [_limit_value(answer, part) for part in step.parts]
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
                word(row.name),
                number(row.baseline, number_text(row.baseline)),
                number(row.candidate, number_text(row.candidate)),
                number(row.ratio, f"× {row.ratio:.2f}"),
                word("more work" if row.kind is ResourceKind.COPIES else "capacity"),
                word(row.told_by),
            )
            for row in rows
        ),
    )


def speedup_table(anchor: str, speedups: Sequence[Speedup], caption: str = "") -> Table:
    """A row for each level of equal load, then the two peaks, then equal latency. The added
    resource is in the caption where it is the same for all."""
    added = {speedup.divisor for speedup in speedups}
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
