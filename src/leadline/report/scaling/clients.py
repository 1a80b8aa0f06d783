"""Clients beside each other as tables: how many fit, how evenly they fared, how neighbours disturb
one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.analysis.scaling.density import DensityAnswer, DensityStep
from leadline.analysis.scaling.disturbance import METRICS, Disturbance, Effect
from leadline.analysis.scaling.fairness import Fairness
from leadline.analysis.scaling.limit import LimitPoint
from leadline.metrics import Metric
from leadline.report.change_words import reason_text
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.scaling.tables import absent, number, word
from leadline.report.scaling.wording import level_text, short_title
from leadline.report.wording import listed, share_text, value_text, visible

NUMBER = Kind.NUMBER
# With what may be left out where there is no room.
_SHOWN = ((Metric.IOPS, 0), (Metric.LATENCY_MEAN, 3), (Metric.LATENCY_P99, 0))


def density_table(anchor: str, answer: DensityAnswer) -> Table:
    """A row for each number of clients that was tried."""
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
        caption=f"{visible(answer.workload)} on {visible(answer.target)}, {rate} IOPS each",
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
        number(step.clients, f"{step.clients:,}"),
        word(step.standing.value),
        *latencies,
        Cell(text=f"{kept} of {trials}", sort=float(kept)),
        number(share, share_text(share or 0.0), _UNTOLD),
        number(ratio, f"× {ratio or 0.0:.2f}", _UNTOLD),
    )


_UNTOLD = "not every client's figures are told, or there is one"


def _limit_value(answer: DensityAnswer, point: LimitPoint) -> Cell:
    value = point.value
    return number(value, value_text(answer.limit.metric, value or 0.0), point.why)


def fairness_table(anchor: str, rows: Sequence[tuple[str, Fairness]]) -> Table:
    """How evenly the clients of each level fared, the slowest against the one in the middle."""
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
        number(len(one.clients), f"{len(one.clients):,}"),
        number(share, share_text(share or 0.0), _UNTOLD),
        _shares(one.iops_shares),
        number(ratio, f"× {ratio or 0.0:.2f}", _UNTOLD),
        word(slowest.client) if slowest else absent(_UNTOLD),
        number(one.lost, f"{one.lost:,}"),
    )


def _shares(shares: Sequence[float]) -> Cell:
    if len(shares) < 2:
        return absent("fewer than two trials tell it")
    low, high = share_text(min(shares)), share_text(max(shares))
    return Cell(text=low if low == high else f"{low} to {high}", sort=min(shares))


def disturbance_table(anchor: str, rows: Sequence[tuple[str, Disturbance]]) -> Table:
    """A level alone, and what becomes of it beside neighbours, as ratios with intervals."""
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
                Column(title="against alone", kind=NUMBER, rank=rank),
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
        alone += [number(value, value_text(metric, value or 0.0)), absent("the level alone")]
    yield (word(level_text(one.alone)), number(0, "none"), *alone)
    for row in one.rows:
        cells: list[Cell] = []
        for metric, _ in _SHOWN:
            effect = row.effects[METRICS.index(metric)]
            cells += [number(effect.value, value_text(metric, effect.value or 0.0)), _ratio(effect)]
        level = word(level_text(row.point))
        yield (level, number(row.neighbours, f"{row.neighbours:,}"), *cells)


def _ratio(effect: Effect) -> Cell:
    judged = effect.judgement
    why = listed(reason_text(one) for one in judged.reasons)
    if judged.ratio is None:
        return absent(why)
    return Cell(
        text=f"× {times(judged.ratio, judged.interval)}",
        sort=judged.ratio,
        note="; ".join(part for part in (judged.verdict.value, why) if part),
    )


def times(ratio: float, interval: tuple[float, float] | None) -> str:
    """`1.94 (1.70 to 2.20)`."""
    said = f"{ratio:.2f}"
    if interval is None:
        return said
    return f"{said} ({interval[0]:.2f} to {interval[1]:.2f})"
