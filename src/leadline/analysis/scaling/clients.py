"""Clients of a target: how evenly they are served, how many fit, and how neighbours affect them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from leadline.analysis.samples import Samples
from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint
from leadline.analysis.scaling.limits import LimitPoint, Standing, check_level, split_levels
from leadline.analysis.verdicts import Judgement, Pair, judge
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.archive.trial import StoredTrial
from leadline.formats.result import EngineOutput, Operation, by_name
from leadline.metrics import Metric, Op
from leadline.plan.models import Density, LatencyLimit
from leadline.plan.workload import Workload
from leadline.stats.histogram import LatencyHistogram, samples_needed

# --- fairness: the slowest client against the median client -------------------------------------

_P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSummary:
    """One client over the trials of a level: the median of its rates, and the percentile of all its
    I/Os together."""

    client: str
    iops: float | None
    latency_p99_s: float | None
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How evenly the clients of a level were served; `clients` in the order of their rates, the
    slowest first.

    `iops_share` is the slowest client's rate over the median client's (1: all equal), `iops_shares`
    the same per trial; `p99_ratio` is the worst client's p99 over the median client's. None where a
    client has no value: it may be the slowest. `lost` counts planned clients without figures in
    some trial.
    """

    level: str
    op: Op
    clients: tuple[ClientSummary, ...]
    iops_share: float | None
    iops_shares: tuple[float, ...]
    p99_ratio: float | None
    lost: int

    @property
    def slowest(self) -> ClientSummary | None:
        """The client with the lowest rate."""
        return self.clients[0] if self.iops_share is not None else None


def fairness_of(run: Run, cell: int, op: Op) -> Fairness | None:
    """Compute the fairness of a cell's completed trials; None for one client, or where the output
    does not distinguish clients."""
    planned = {trial.id for trial in run.plan.trials if trial.cell == cell}
    workload = run.plan.cells[cell].workload
    trials = [
        _clients(stored, workload, op)
        for stored in run.trials
        if stored.record.trial in planned and stored.record.status is TrialStatus.COMPLETED
    ]
    trials = [parts for parts in trials if parts]
    names = dict.fromkeys(name for clients in trials for name in clients)
    if max(len(names), workload.clients) < 2 or not names:
        return None
    summaries = sorted(
        (_summary(name, trials) for name in names),
        key=lambda summary: (summary.iops is None, summary.iops or 0.0, summary.client),
    )
    return Fairness(
        level=run.plan.cells[cell].level,
        op=op,
        clients=tuple(summaries),
        iops_share=_over_median(min, [client.iops for client in summaries]),
        iops_shares=tuple(
            share
            for clients in trials
            if (share := _over_median(min, [part.iops for part in clients.values()])) is not None
        ),
        p99_ratio=_over_median(max, [client.latency_p99_s for client in summaries]),
        lost=max(0, max(workload.clients, len(names)) - min(map(len, trials))),
    )


def _clients(stored: StoredTrial, workload: Workload, op: Op) -> dict[str, Operation]:
    """Collect each client's operation in a trial; empty where the output is unreadable or names no
    clients. Jobs outside the workload's own phases are neighbours and do not count."""
    output = stored.output
    if not isinstance(output, EngineOutput):
        return {}
    own = {phase.name for phase in workload.phases}
    jobs = [job for job in output.jobs if job.host and (not own or job.name in own)]
    found = {}
    for name in dict.fromkeys(job.host for job in jobs):
        parts = by_name([job for job in jobs if job.host == name]).values()
        operation = next(
            (candidate for part in parts for candidate in part if candidate.op is op), None
        )
        if operation is not None:
            found[name] = operation
    return found


def _summary(name: str, trials: Sequence[Mapping[str, Operation]]) -> ClientSummary:
    parts = [clients[name] for clients in trials if name in clients]
    rates = [part.iops for part in parts if part.iops is not None]
    histograms = [part.histogram for part in parts if part.histogram is not None]
    p99_s = parts[0].metrics()[Metric.LATENCY_P99] if len(parts) == 1 else None
    if len(histograms) == len(parts):
        merged = LatencyHistogram.merged(histograms)
        enough = merged.count >= samples_needed(_P99)
        p99_s = merged.quantile_s(_P99) if enough else None
    return ClientSummary(
        client=name,
        iops=median(rates) if len(rates) == len(parts) else None,
        latency_p99_s=p99_s,
        trials=len(parts),
    )


def _over_median(
    extreme: Callable[[list[float]], float], values: Sequence[float | None]
) -> float | None:
    """The extreme over the median of at least two values; None where one of them is unknown."""
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)) or median(known) <= 0:
        return None
    return extreme(known) / median(known)


# --- density: how many clients at a rate each keep a latency limit -------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityStep:
    """One number of clients. `parts` are its operations (reads and writes separately) against the
    limit; the step keeps it where all do. `fairness` has the same operations."""

    clients: int
    level: str
    standing: Standing
    parts: tuple[LimitPoint, ...]
    fairness: tuple[Fairness, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityAnswer:
    """Clients at `rate_iops` each (I/Os per second, reads and writes together) and the limit.

    `kept` is the largest number that keeps the limit in every trial, with no broken one below it;
    `broken` is the smallest that breaks it in every trial: the answer lies between. `kept` is None
    where the fewest clients already break it, `broken` where the most keep it. `unsure` are
    numbers in between that are inconclusive; `again` are larger than `broken` and keep the limit
    again. `most` is the largest number that the plan allowed.
    """

    target: str
    workload: str
    ops: tuple[Op, ...]
    rate_iops: float
    limit: LatencyLimit
    steps: tuple[DensityStep, ...]
    kept: int | None
    broken: int | None
    unsure: tuple[int, ...]
    again: tuple[int, ...]
    most: int | None


def densities(
    run: Run, curves: Sequence[LoadCurve], limit: LatencyLimit | None = None
) -> tuple[DensityAnswer, ...]:
    """Compute an answer for each density search of the plan, by its own limit unless another is
    given; with a limit also for other levels with a growing number of clients at a fixed rate."""
    found: list[DensityAnswer | None] = []
    parts: dict[tuple[str, str], list[LoadCurve]] = {}
    for curve in curves:
        if curve.op is not Op.TOTAL:
            parts.setdefault((curve.target, curve.workload), []).append(curve)
    for (target, workload), group in parts.items():
        for shape in dict.fromkeys(_shape(point) for curve in group for point in curve.offered):
            searches = (
                density
                for density in run.plan.follow_ups
                if isinstance(density, Density)
                and (density.target, density.workload.name) == (target, workload)
                and any(phase.rate_iops == shape[0] for phase in density.workload.phases)
            )
            search = next(searches, None)
            below = limit or (search.limit if search else None)
            if below is not None:
                found.append(_answer(run, group, shape, below, search))
    return tuple(answer for answer in found if answer is not None)


_Shape = tuple[float, tuple[int, int]]
_WORST_FIRST = (Standing.BROKEN, Standing.UNKNOWN, Standing.SOME, Standing.KEPT)


def _shape(point: LoadPoint) -> _Shape:
    """Rate of each client, jobs and depth: equal for the steps of one search."""
    return point.load.offered_per_client or 0.0, (point.load.numjobs, point.load.iodepth)


def _answer(
    run: Run, parts: Sequence[LoadCurve], shape: _Shape, limit: LatencyLimit, search: Density | None
) -> DensityAnswer | None:
    by_clients: dict[int, list[tuple[Op, LoadPoint]]] = {}
    for curve in parts:
        for point in curve.offered:
            if _shape(point) == shape:
                by_clients.setdefault(point.load.clients, []).append((curve.op, point))
    if len(by_clients) < 2 and search is None:
        return None
    steps = [_step(run, number, by_clients[number], limit) for number in sorted(by_clients)]
    start, end = split_levels([step.standing for step in steps])
    return DensityAnswer(
        target=parts[0].target,
        workload=parts[0].workload,
        ops=tuple(dict.fromkeys(curve.op for curve in parts)),
        rate_iops=shape[0],
        limit=limit,
        steps=tuple(steps),
        kept=steps[start - 1].clients if start else None,
        broken=steps[end].clients if end < len(steps) else None,
        unsure=tuple(step.clients for step in steps[start:end]),
        again=tuple(step.clients for step in steps[end:] if step.standing is Standing.KEPT),
        most=search.most if search else None,
    )


def _step(
    run: Run, clients: int, points: Sequence[tuple[Op, LoadPoint]], limit: LatencyLimit
) -> DensityStep:
    tested = [check_level(point, limit) for _, point in points]
    fair = [fairness_of(run, point.cell, op) for op, point in points]
    return DensityStep(
        clients=clients,
        level=points[0][1].level,
        standing=min((part.standing for part in tested), key=_WORST_FIRST.index),
        parts=tuple(tested),
        fairness=tuple(share for share in fair if share is not None),
    )


# --- noisy neighbours: a level with neighbours against the same level alone ----------------------

METRICS: tuple[Metric, ...] = (Metric.IOPS, *LATENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One metric with neighbours: its value (None where it is missing or refused), and its tested
    ratio to the value without neighbours."""

    metric: Metric
    value: float | None
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbedRow:
    """A level with `neighbours` load generators next to it; `effects` in the order of METRICS."""

    neighbours: int
    point: LoadPoint
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One load alone, and with a rising number of neighbours."""

    curve: LoadCurve
    alone: LoadPoint
    rows: tuple[DisturbedRow, ...]


def disturbances(curve: LoadCurve, samples: Samples) -> tuple[Disturbance, ...]:
    """Compare each level with neighbours to the same level alone; none where the level alone was
    not measured."""
    found = []
    for alone in (*curve.closed, *curve.offered):
        driven = [
            point for point in curve.disturbed if replace(point.load, neighbours=0) == alone.load
        ]
        if driven:
            rows = _rows(alone, driven, samples, curve.op)
            found.append(Disturbance(curve=curve, alone=alone, rows=rows))
    return tuple(found)


def _rows(
    alone: LoadPoint, driven: Sequence[LoadPoint], samples: Samples, op: Op
) -> tuple[DisturbedRow, ...]:
    pairs = [
        Pair(
            metric=metric,
            baseline=samples.sample(alone.figure.metric(metric), op),
            candidate=samples.sample(point.figure.metric(metric), op),
        )
        for point in driven
        for metric in METRICS
    ]
    judgements = iter(judge(pairs))
    return tuple(
        DisturbedRow(
            neighbours=point.load.neighbours,
            point=point,
            effects=tuple(
                Effect(metric=metric, value=point.usable(metric), judgement=next(judgements))
                for metric in METRICS
            ),
        )
        for point in driven
    )
