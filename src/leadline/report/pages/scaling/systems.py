"""Tables of clients, of noisy neighbours, and of systems of different size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from leadline.analysis.scaling.clients import (
    METRICS,
    DensityAnswer,
    DensityStep,
    Disturbance,
    Fairness,
)
from leadline.analysis.scaling.curves import LoadPoint
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.speedup import (
    Efficiency,
    EqualLatency,
    LevelSpeedup,
    Resource,
    Speedup,
)
from leadline.analysis.scaling.speedup import Kind as ResourceKind
from leadline.analysis.verdicts import Judgement
from leadline.metrics import Metric, Op
from leadline.report.cells import (
    absent,
    count,
    number,
    number_column,
    quantity,
    records_table,
    table,
    word,
)
from leadline.report.document import Cell, Column, Table
from leadline.report.pages.scaling.tables import metric_cell
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
    absence_text,
    level_name,
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


def _times(ratio: float) -> str:
    return f"× {ratio:.2f}"


def density_table(anchor: str, answer: DensityAnswer) -> Table:
    metric = answer.limit.metric

    def latency(place: int, op: Op) -> tuple[Column, Callable[[DensityStep], Cell]]:
        title = short_title(metric)
        column = number_column(f"{op.value} {title}" if len(answer.ops) > 1 else title)
        return (
            column,
            lambda step: (
                metric_cell(metric, step.parts[place].value, text(step.parts[place].why))
                if place < len(step.parts)
                else absent("not measured")
            ),
        )

    def trials_within(step: DensityStep) -> Cell:
        kept = min((part.kept for part in step.parts), default=0)
        trials = max((part.trials for part in step.parts), default=0)
        return quantity(f"{kept} of {trials}", kept)

    def slowest(step: DensityStep) -> Cell:
        shares = [fair.iops_share for fair in step.fairness if fair.iops_share is not None]
        return number(min(shares, default=None), share_text, _NO_FAIRNESS)

    def worst(step: DensityStep) -> Cell:
        ratios = [fair.p99_ratio for fair in step.fairness if fair.p99_ratio is not None]
        return number(max(ratios, default=None), _times, _NO_FAIRNESS)

    rate = value_text(Metric.IOPS, answer.rate_iops)
    return records_table(
        anchor,
        answer.steps,
        (number_column("clients"), lambda step: count(step.clients)),
        (f"{answer.limit}", lambda step: step.standing.value),
        *(latency(place, op) for place, op in enumerate(answer.ops)),
        (number_column("trials within", 2), trials_within),
        (number_column("slowest client", 1, "of the median's rate"), slowest),
        (number_column("worst p99", 3, "of the median's"), worst),
        caption=f"{answer.workload} on {answer.target}, {rate} IOPS each",
    )


def fairness_table(anchor: str, rows: Sequence[tuple[str, Fairness]]) -> Table:
    """How evenly the clients of each level were served: the slowest against the median client."""

    def slowest_client(fair: Fairness) -> Cell:
        return word(fair.slowest.client) if fair.slowest else absent(_NO_FAIRNESS)

    return records_table(
        anchor,
        rows,
        ("curve", lambda row: word(row[0])),
        ("level", lambda row: word(level_name(row[1].level))),
        (number_column("clients"), lambda row: count(len(row[1].clients))),
        (
            number_column("slowest", unit="of the median's rate"),
            lambda row: number(row[1].iops_share, share_text, _NO_FAIRNESS),
        ),
        (number_column("in single trials", 2), lambda row: _shares(row[1].iops_shares)),
        (
            number_column("worst p99", unit="of the median's"),
            lambda row: number(row[1].p99_ratio, _times, _NO_FAIRNESS),
        ),
        (Column(title="slowest client", rank=1), lambda row: slowest_client(row[1])),
        (number_column("without figures", 3), lambda row: count(row[1].lost)),
    )


def _shares(shares: Sequence[float]) -> Cell:
    if len(shares) < 2:
        return absent("fewer than two trials have it")
    low, high = share_text(min(shares)), share_text(max(shares))
    return quantity(low if low == high else f"{low} to {high}", min(shares))


def disturbance_table(anchor: str, rows: Sequence[tuple[str, Disturbance]]) -> Table:
    """Levels alone and with neighbours, as ratios with intervals."""
    several = len({name for name, _ in rows}) > 1
    metrics = (
        (number_column(short_title(metric), rank), number_column("vs alone", rank))
        for metric, rank in _SHOWN
    )
    columns: tuple[str | Column, ...] = (
        *(["curve"] if several else []),
        *("level", number_column("neighbours")),
        *(column for pair in metrics for column in pair),
    )
    return table(
        anchor,
        columns,
        (
            (word(name), *cells) if several else cells
            for name, disturbance in rows
            for cells in _disturbed(disturbance)
        ),
    )


def _disturbed(disturbance: Disturbance) -> Iterator[tuple[Cell, ...]]:
    alone = disturbance.alone
    cells: list[Cell] = []
    for metric, _ in _SHOWN:
        cells += [metric_cell(metric, alone.usable(metric)), absent("the level alone")]
    yield (word(level_text(alone)), quantity("none", 0), *cells)
    for row in disturbance.rows:
        cells = []
        for metric, _ in _SHOWN:
            effect = row.effects[METRICS.index(metric)]
            cells += [metric_cell(metric, effect.value), _ratio(effect.judgement, verdict=True)]
        yield (word(level_text(row.point)), count(row.neighbours), *cells)


# --- systems of different size --------------------------------------------------------------------


def resources_table(anchor: str, resources: Sequence[Resource]) -> Table:
    return records_table(
        anchor,
        resources,
        ("resource", lambda resource: resource.name),
        (number_column("baseline"), lambda resource: number(resource.baseline, number_text)),
        (number_column("candidate"), lambda resource: number(resource.candidate, number_text)),
        (number_column("ratio"), lambda resource: number(resource.ratio, _times)),
        (
            Column(title="counts as", rank=2),
            lambda resource: "more work" if resource.kind is ResourceKind.COPIES else "capacity",
        ),
        (Column(title="source", rank=1), lambda resource: word(resource.told_by)),
        caption="Added resources",
    )


def speedup_table(anchor: str, speedups: Sequence[Speedup]) -> Table:
    """A row for each level of equal load, then the two peaks, then equal latency. The added
    resource is in the caption where it is the same for all."""
    alike = len({speedup.divisor for speedup in speedups}) == 1
    names = [
        (
            speedup.subject,
            speedup.baseline.workload,
            op_text(speedup.baseline.op),
            speedup.baseline.iodepth,
        )
        for speedup in speedups
    ]
    differ = [len({name[place] for name in names}) > 1 for place in range(4)]
    # An operation that follows from the workload is not shown.
    differ[2] = len({name[1:3] for name in names}) > len({name[1] for name in names})
    columns: tuple[str | Column, ...] = (
        *(["curve"] if any(differ) else []),
        "level",
        *(number_column("baseline", unit="IOPS"), number_column("candidate", unit="IOPS")),
        number_column("speed-up"),
        *([] if alike else [Column(title="added", rank=1)]),
        *(number_column("efficiency"), Column(title="verdict", rank=2)),
    )
    rows: list[tuple[Cell, ...]] = []
    for speedup, parts in zip(speedups, names, strict=True):
        shown = [f"{part}" for part, wanted in zip(parts, differ, strict=True) if wanted and part]
        name = [word(" · ".join(shown))] if any(differ) else []
        rows += [(*name, *cells) for cells in _speedup(speedup, in_caption=alike)]
    divisor = speedups[0].divisor if alike else None
    caption = f"Added: {resource_text(divisor)}" if divisor else ""
    return table(anchor, columns, rows, caption=caption)


def _speedup(speedup: Speedup, *, in_caption: bool) -> Iterator[tuple[Cell, ...]]:
    nothing = absent("no added resource is known")
    cell = word(resource_text(speedup.divisor)) if speedup.divisor else nothing
    added = () if in_caption else (cell,)
    for level in speedup.levels:
        yield (word(level_text(level.baseline)), *_pair(level, added))
    if speedup.peak is not None:
        baseline, candidate = level_text(speedup.peak.baseline), level_text(speedup.peak.candidate)
        both = baseline if baseline == candidate else f"{baseline}, {candidate}"
        yield (word(f"highest: {both}"), *_pair(speedup.peak, added))
    if speedup.equal_latency.limit is not None:
        yield _equal(added, speedup.equal_latency)


def _pair(level: LevelSpeedup, added: tuple[Cell, ...]) -> tuple[Cell, ...]:
    return (
        _rate(level.baseline),
        _rate(level.candidate),
        _ratio(level.judgement),
        *added,
        _efficiency(level.efficiency),
        word(level.judgement.verdict.value),
    )


def _equal(added: tuple[Cell, ...], equal: EqualLatency) -> tuple[Cell, ...]:
    absence = text(equal.absence)
    return (
        word(f"within {equal.limit}", text(equal.chosen)),
        metric_cell(Metric.IOPS, equal.baseline.iops, text(equal.baseline.absence)),
        metric_cell(Metric.IOPS, equal.candidate.iops, text(equal.candidate.absence)),
        _ratio(equal.judgement, absence, equal.bound),
        *added,
        _efficiency(equal.efficiency),
        absent(absence) if equal.absence else word(equal.judgement.verdict.value),
    )


def _rate(point: LoadPoint) -> Cell:
    rate = point.usable(Metric.IOPS)
    why = ", ".join(point.throughput.findings) or absence_text(point.throughput)
    return metric_cell(Metric.IOPS, rate, why)


def _ratio(judgement: Judgement, why: str = "", bound: str = "", *, verdict: bool = False) -> Cell:
    reasons = listed(reason_text(code) for code in judgement.reasons)
    if judgement.ratio is None:
        return absent(why or reasons)
    shown = f"{bound} {ratio_text(judgement.ratio, judgement.interval)}".strip()
    notes = [judgement.verdict.value if verdict else "", reasons]
    return quantity(shown, judgement.ratio, "; ".join(filter(None, notes)))


def _efficiency(efficiency: Efficiency | None) -> Cell:
    if efficiency is None:
        return absent("nothing to divide by")
    interval = efficiency.interval
    between = " to ".join(map(share_text, interval)) if interval else ""
    return number(efficiency.value, share_text, note=between)


def causes_table(anchor: str, growth: Growth) -> Table:
    causes = [
        (row.speedup, cause)
        for row in growth.rows
        if row.superlinear
        for cause in row.superlinear.causes
    ]
    rows = (
        (
            Cell(text=f"{short(speedup.subject)} · {short(speedup.baseline.workload)}"),
            Cell(text=cause.stance.value),
            Cell(text=cause_text(cause)),
        )
        for speedup, cause in causes
    )
    columns = ("curve", "evidence", "candidate")
    return table(anchor, columns, rows, caption="Candidate causes of superlinear growth")
