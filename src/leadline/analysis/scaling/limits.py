"""The last load level whose latency keeps a limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint, refused
from leadline.analysis.verdicts import Judgement, Pair, Sample, Samples, judge
from leadline.archive.reader import Run, StoredTrial
from leadline.archive.records import TrialStatus
from leadline.findings import Severity
from leadline.formats.result import EngineOutput, JobResult, Operation, by_name
from leadline.metrics import Metric, Op
from leadline.plan.models import Density, LatencyLimit, Workload
from leadline.stats.histogram import LatencyHistogram, samples_needed


class Standing(StrEnum):
    """How a level stands to a limit. `some`: the trials disagree, or the figure of all I/Os
    together lies on the other side than every trial. `unknown`: no latency that may be used."""

    KEPT = "kept"
    SOME = "kept in some trials"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPoint:
    """`value` in seconds is the figure shown, None where it is missing or refused; `kept` of
    `trials` trials are below the limit. `why` says why nothing is known, else empty."""

    point: LoadPoint
    standing: Standing
    value: float | None
    kept: int
    trials: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitAnswer:
    """Where the levels of one line (closed loop, or open) pass a limit, by rising load.

    `last_kept` is the last level that keeps the limit in every trial and before which none breaks
    it; `first_broken` the first that breaks it in every trial. The limit is passed between the two;
    one of them None: not among the levels measured. `between` are levels in between whose trials
    disagree, and `unknown` those without a latency that may be used. `again` are levels beyond
    `first_broken` that keep the limit once more, which a load curve should not do.
    """

    curve: LoadCurve
    limit: LatencyLimit
    open_loop: bool
    points: tuple[LimitPoint, ...]
    last_kept: LimitPoint | None
    first_broken: LimitPoint | None
    between: tuple[str, ...]
    unknown: tuple[str, ...]
    again: tuple[str, ...]

    @property
    def iops(self) -> float | None:
        """Throughput of the last level that keeps the limit, I/Os per second."""
        return self.last_kept.point.usable(Metric.IOPS) if self.last_kept else None


def keeping(curve: LoadCurve, limit: LatencyLimit, *, open_loop: bool = False) -> LimitAnswer:
    """How the curve's closed-loop points stand to the limit, or its open-loop ones."""
    return answer(curve, limit, curve.offered if open_loop else curve.closed, open_loop=open_loop)


def answer(
    curve: LoadCurve, limit: LatencyLimit, points: Iterable[LoadPoint], *, open_loop: bool
) -> LimitAnswer:
    """The same of points by rising load that are chosen otherwise."""
    judged = tuple(standing_of(point, limit) for point in points)
    broken = [one for one in judged if one.standing is Standing.BROKEN]
    first_broken = broken[0] if broken else None
    before = judged[: judged.index(first_broken)] if first_broken else judged
    kept = [one for one in before if one.standing is Standing.KEPT]
    # A level that some trials break is no level before which none breaks the limit.
    some = [one for one in before if one.standing is Standing.SOME]
    if some:
        kept = [one for one in kept if before.index(one) < before.index(some[0])]
    last_kept = kept[-1] if kept else None
    start = judged.index(last_kept) + 1 if last_kept else 0
    behind = judged[start : len(before)]
    after = judged[len(before) :]
    return LimitAnswer(
        curve=curve,
        limit=limit,
        open_loop=open_loop,
        points=judged,
        last_kept=last_kept,
        first_broken=first_broken,
        between=tuple(one.point.level for one in behind if one.standing is not Standing.UNKNOWN),
        unknown=tuple(one.point.level for one in judged if one.standing is Standing.UNKNOWN),
        again=tuple(one.point.level for one in after if one.standing is Standing.KEPT),
    )


def standing_of(point: LoadPoint, limit: LatencyLimit) -> LimitPoint:
    """A level's trials against the limit. One that did not reach the rate offered to it breaks
    every limit: its queue grew for as long as it ran."""
    figure = point.latency(limit.metric)
    told = [one.value for one in figure.trials]
    kept = sum(one is not None and one < limit.below_s for one in told)
    value = point.usable(limit.metric)
    trials = len(told) + point.stopped
    if point.beyond_capacity:
        reached = trials - point.behind
        standing, why = Standing.BROKEN, "the offered rate was not reached: the queue kept growing"
        if min(reached, kept) > 0:
            standing, why = Standing.SOME, f"{why} in {point.behind} of {trials} trials"
        kept = min(reached, kept)
    elif value is None:
        standing, kept = Standing.UNKNOWN, 0
        codes = ", ".join(figure.findings)
        why = f"refused: {codes}" if refused(figure) else figure.absence or "not measured"
    else:
        sides = {one < limit.below_s for one in (value, *told) if one is not None}
        standing, why = Standing.SOME, ""
        if len(sides) == 1:
            standing = Standing.KEPT if value < limit.below_s else Standing.BROKEN
    return LimitPoint(
        point=point, standing=standing, value=value, kept=kept, trials=trials, why=why
    )


# What each client got of a level: the slowest beside the median, not the average of all.

_P99 = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """One client's part in one trial: I/Os per second, seconds; None where not told, and a
    percentile also where it has too few I/Os. `client` names the client as the engine does."""

    trial: str
    client: str
    op: Op
    iops: float | None
    latency_mean_s: float | None
    latency_p99_s: float | None
    runtime_s: float | None
    histogram: LatencyHistogram | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSummary:
    """One client over the trials of a level: the median of its rates, the percentile of all its
    I/Os together."""

    client: str
    iops: float | None
    latency_p99_s: float | None
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """How evenly a level's clients fared, in the order of their rates, the slowest first.

    `iops_share` is the slowest client's rate over that of the median client (1: nobody had less),
    and `iops_shares` the same of each trial by itself; `p99_ratio` is the worst client's p99 over
    the median client's. None where not every client tells it: the one that is silent may be the
    slowest. `lost` counts clients that the plan asked for and some trial has no figures of.
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

    @property
    def latest(self) -> ClientSummary | None:
        """The client with the highest p99."""
        if self.p99_ratio is None:
            return None
        return max(self.clients, key=lambda one: one.latency_p99_s or 0.0)


def fairness_of(run: Run, cell: int, op: Op) -> Fairness | None:
    """Of a cell's completed trials; None where nothing tells clients apart, or there is one."""
    planned = {trial.id for trial in run.plan.trials if trial.cell == cell}
    workload = run.plan.cells[cell].workload
    trials = [
        clients_of(stored, workload, op)
        for stored in run.trials
        if stored.record.trial in planned and stored.record.status is TrialStatus.COMPLETED
    ]
    trials = [one for one in trials if one]
    names = dict.fromkeys(one.client for figures in trials for one in figures)
    if max(len(names), workload.clients) < 2 or not names:
        return None
    summaries = [_summary(name, trials) for name in names]
    fewest = min(len(figures) for figures in trials)
    return Fairness(
        level=run.plan.cells[cell].level,
        op=op,
        clients=tuple(
            sorted(summaries, key=lambda one: (one.iops is None, one.iops or 0.0, one.client))
        ),
        iops_share=_share([one.iops for one in summaries]),
        iops_shares=tuple(
            share
            for figures in trials
            if (share := _share([one.iops for one in figures])) is not None
        ),
        p99_ratio=_ratio([one.latency_p99_s for one in summaries]),
        lost=max(0, max(workload.clients, len(names)) - fewest),
    )


def clients_of(stored: StoredTrial, workload: Workload, op: Op) -> tuple[ClientFigures, ...]:
    """Each client's figures in a trial; empty where its output cannot be read or tells no clients.

    Of a workload that Leadline made, only jobs of its own phases count: what else ran beside them
    were neighbours."""
    output = stored.output
    if not isinstance(output, EngineOutput):
        return ()
    own = {phase.name for phase in workload.phases}
    jobs = [job for job in output.jobs if job.host and (not own or job.name in own)]
    names = dict.fromkeys(job.host for job in jobs)
    return tuple(
        figures
        for name in names
        for figures in _figures(
            stored.record.trial, name, op, [job for job in jobs if job.host == name]
        )
    )


def _figures(trial: str, client: str, op: Op, jobs: Sequence[JobResult]) -> Iterable[ClientFigures]:
    found = [one for parts in by_name(jobs).values() for one in parts if one.op is op]
    if not found:
        return
    operation: Operation = found[0]
    metrics = operation.metrics()
    yield ClientFigures(
        trial=trial,
        client=client,
        op=op,
        iops=operation.iops,
        latency_mean_s=metrics[Metric.LATENCY_MEAN],
        latency_p99_s=metrics[Metric.LATENCY_P99],
        runtime_s=operation.runtime_s,
        histogram=operation.histogram,
    )


def _summary(name: str, trials: Sequence[Sequence[ClientFigures]]) -> ClientSummary:
    mine = [one for figures in trials for one in figures if one.client == name]
    rates = [one.iops for one in mine if one.iops is not None]
    histograms = [one.histogram for one in mine if one.histogram is not None]
    p99_s = mine[0].latency_p99_s if len(mine) == 1 else None
    if len(histograms) == len(mine):
        merged = LatencyHistogram.merged(histograms)
        enough = merged.count >= samples_needed(_P99)
        p99_s = merged.quantile_s(_P99) if enough else None
    return ClientSummary(
        client=name,
        iops=median(rates) if len(rates) == len(mine) else None,
        latency_p99_s=p99_s,
        trials=len(mine),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    """The values where all are known and there are two at least; else none."""
    given = list(values)
    known = [one for one in given if one is not None]
    return known if len(known) == len(given) and len(known) > 1 else []


def _share(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    middle = median(known) if known else 0.0
    return min(known) / middle if middle > 0 else None


def _ratio(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    middle = median(known) if known else 0.0
    return max(known) / middle if middle > 0 else None


# How many clients at a rate each a target carries before latency passes a limit.


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityStep:
    """One number of clients. `parts` are its operations (reads and writes of a mix apart) against
    the limit; the step keeps it where all do. `fairness` is of the same operations."""

    clients: int
    level: str
    standing: Standing
    parts: tuple[LimitPoint, ...]
    fairness: tuple[Fairness, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DensityAnswer:
    """Clients at `rate_iops` each (I/Os per second, reads and writes together) and the limit.

    `kept` is the largest number that keeps the limit in every trial and below which none breaks
    it; `broken` the smallest that breaks it in every trial: the answer lies between. `kept` is None
    where the fewest clients do not keep it already, `broken` where the most do. `unsure` are
    numbers in between that trials disagree about or of which nothing is known; `again` larger than
    `broken` that keep the limit once more. `most` is up to where the plan would have gone.
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

    def step(self, clients: int) -> DensityStep:
        return next(one for one in self.steps if one.clients == clients)


def densities(
    run: Run, curves: Sequence[LoadCurve], limit: LatencyLimit | None = None
) -> tuple[DensityAnswer, ...]:
    """An answer for each search of the plan, by its own limit unless another is given; with a limit
    also for other levels where clients grow at a rate each that stays."""
    searches = [one for one in run.plan.follow_ups if isinstance(one, Density)]
    found: list[DensityAnswer] = []
    named = dict.fromkeys((curve.target, curve.workload) for curve in curves)
    for target, workload in named:
        parts = [
            curve
            for curve in curves
            if (curve.target, curve.workload) == (target, workload) and curve.op is not Op.TOTAL
        ]
        asked = [one for one in searches if (one.target, one.workload.name) == (target, workload)]
        shapes = dict.fromkeys(_shape(point) for curve in parts for point in curve.offered)
        for shape in shapes:
            search = next((one for one in asked if _offers(one, shape[0])), None)
            below = limit or (search.limit if search else None)
            if below is None:
                continue
            answer = _answer(run, parts, shape, below, search)
            if answer is not None:
                found.append(answer)
    return tuple(found)


_Shape = tuple[float, tuple[int, int]]


def _shape(point: LoadPoint) -> _Shape:
    """Rate of each client, and jobs and depth; clients apart, what makes two steps alike."""
    return point.load.offered_per_client or 0.0, (point.load.numjobs, point.load.iodepth)


def _offers(search: Density, rate: float) -> bool:
    return any(phase.rate_iops == rate for phase in search.workload.phases)


def _answer(
    run: Run,
    parts: Sequence[LoadCurve],
    shape: _Shape,
    limit: LatencyLimit,
    search: Density | None,
) -> DensityAnswer | None:
    by_clients: dict[int, list[tuple[Op, LoadPoint]]] = {}
    for curve in parts:
        for point in curve.offered:
            if _shape(point) == shape:
                by_clients.setdefault(point.load.clients, []).append((curve.op, point))
    if len(by_clients) < 2 and search is None:
        return None
    steps = [_step(run, number, by_clients[number], limit) for number in sorted(by_clients)]
    broken = next((one for one in steps if one.standing is Standing.BROKEN), None)
    before = steps[: steps.index(broken)] if broken else steps
    after = steps[len(before) :]
    kept: DensityStep | None = None
    for one in before:
        if one.standing is Standing.SOME:
            break
        kept = one if one.standing is Standing.KEPT else kept
    behind = before[before.index(kept) + 1 :] if kept else before
    return DensityAnswer(
        target=parts[0].target,
        workload=parts[0].workload,
        ops=tuple(dict.fromkeys(curve.op for curve in parts)),
        rate_iops=shape[0],
        limit=limit,
        steps=tuple(steps),
        kept=kept.clients if kept else None,
        broken=broken.clients if broken else None,
        unsure=tuple(one.clients for one in behind),
        again=tuple(one.clients for one in after if one.standing is Standing.KEPT),
        most=search.most if search else None,
    )


def _step(
    run: Run, clients: int, points: Sequence[tuple[Op, LoadPoint]], limit: LatencyLimit
) -> DensityStep:
    judged = [standing_of(point, limit) for _, point in points]
    fair = [fairness_of(run, point.cell, op) for op, point in points]
    return DensityStep(
        clients=clients,
        level=points[0][1].level,
        standing=_worst([one.standing for one in judged]),
        parts=tuple(judged),
        fairness=tuple(one for one in fair if one is not None),
    )


def _worst(standings: Sequence[Standing]) -> Standing:
    order = (Standing.BROKEN, Standing.UNKNOWN, Standing.SOME, Standing.KEPT)
    return min(standings, key=order.index)


# How much throughput two load curves give within the same latency.


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A curve's highest throughput within a latency, I/Os per second, between measured levels.

    `at_least`: no level breaks the limit, so that more load might give more. `iops` is None where
    nothing can be said, and `absence` says why. `left_out` are levels without a latency that may
    be used. `sample` holds the same of every repeat by itself, where each tells all levels.
    """

    iops: float | None
    at_least: bool = False
    left_out: tuple[str, ...] = ()
    absence: str = ""
    sample: Sample


# Throughput and latency of levels by rising load.
_Path = Sequence[tuple[float, float]]


def within(curve: LoadCurve, limit: LatencyLimit, samples: Samples) -> Within:
    """Of the curve's closed-loop levels. Between the last level that keeps the limit and the first
    that breaks it, latency and throughput are taken to rise as a power of each other (a straight
    line of logarithms); nothing is said beyond the levels measured."""
    points = [one for one in curve.closed if one.usable(Metric.IOPS) is not None]
    known = [one for one in points if one.usable(limit.metric) is not None]
    left_out = tuple(one.level for one in curve.closed if one not in known)
    absence = no_latency(curve, limit.metric)
    path = [_equal_latency_figures(one, limit.metric) for one in known]
    if not absence and path[0][1] > limit.below_s:
        absence = f"the lowest level measured is not within {limit}"
    if absence:
        empty = Sample(value=None)
        return Within(iops=None, left_out=left_out, absence=absence, sample=empty)
    value = crossing(path, limit.below_s)
    return Within(
        iops=value,
        at_least=all(latency <= limit.below_s for _, latency in path),
        left_out=left_out,
        sample=_sample(value, known, limit, samples),
    )


def no_latency(curve: LoadCurve, metric: Metric) -> str:
    """Why no closed-loop level has a throughput with this latency, as a clause; else empty."""
    points = [one for one in curve.closed if one.usable(Metric.IOPS) is not None]
    if not points:
        return "no level has a throughput that may be used"
    if any(one.usable(metric) is not None for one in points):
        return ""
    figures = [one.latency(metric) for one in points]
    codes = dict.fromkeys(
        doubt.code for one in figures for doubt in one.doubts if doubt.severity is Severity.ERROR
    )
    return f"latency is refused: {', '.join(codes)}" if codes else "no level has this latency"


def _equal_latency_figures(point: LoadPoint, metric: Metric) -> tuple[float, float]:
    iops, latency = point.usable(Metric.IOPS), point.usable(metric)
    assert iops is not None
    assert latency is not None
    return iops, latency


def crossing(path: _Path, below_s: float) -> float:
    """The highest throughput before latency passes the limit for the first time. `path` begins
    within it."""
    best = 0.0
    for index, (iops, latency) in enumerate(path):
        if latency <= below_s:
            best = max(best, iops)
            continue
        before_iops, before = path[index - 1]
        if min(before_iops, before, iops) > 0:
            share = math.log(below_s / before) / math.log(latency / before)
            best = max(best, before_iops * (iops / before_iops) ** share)
        break
    return best


def _sample(
    value: float, points: Sequence[LoadPoint], limit: LatencyLimit, samples: Samples
) -> Sample:
    """The answer of each repeat: one trial of every level. Empty where a repeat lacks a level, or
    does not begin within the limit."""
    repeats: dict[int | str, list[tuple[float, float]]] = {}
    for point in points:
        rates = {one.trial: one.value for one in point.throughput.trials}
        for one in point.latency(limit.metric).trials:
            rate = rates.get(one.trial)
            if rate is not None and one.value is not None:
                repeats.setdefault(samples.repeat(one.trial), []).append((rate, one.value))
    first = samples.of(points[0].throughput, None)
    trials = [samples.repeat(one.trial) for one in points[0].throughput.trials]
    blocks = dict(zip(trials, first.blocks, strict=False))
    whole = blocks.keys() == repeats.keys() and all(
        len(path) == len(points) and path[0][1] <= limit.below_s for path in repeats.values()
    )
    return Sample(
        value=value,
        trials=tuple(crossing(path, limit.below_s) for path in repeats.values()) if whole else (),
        blocks=tuple(blocks[one] for one in repeats) if whole else (),
        imported=first.imported,
    )


# A level beside neighbours against the same level alone.

METRICS: tuple[Metric, ...] = (Metric.IOPS, *LATENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One metric beside neighbours: its value (None where it is missing or refused), and its ratio
    to the one without neighbours with interval and verdict."""

    metric: Metric
    value: float | None
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class DisturbedRow:
    """A level beside so many neighbours; `effects` in the order of METRICS."""

    neighbours: int
    point: LoadPoint
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One load alone, and beside more and more neighbours."""

    curve: LoadCurve
    alone: LoadPoint
    rows: tuple[DisturbedRow, ...]


def disturbances(curve: LoadCurve, samples: Samples) -> tuple[Disturbance, ...]:
    """For each level that was measured alone and beside neighbours; none without the level alone,
    to which nothing could be held."""
    found = []
    for alone in (*curve.closed, *curve.offered):
        driven = [one for one in curve.disturbed if _load(one) == _load(alone)]
        if driven:
            found.append(
                Disturbance(curve=curve, alone=alone, rows=_rows(alone, driven, samples, curve.op))
            )
    return tuple(found)


def _load(point: LoadPoint) -> tuple[object, ...]:
    load = point.load
    return load.clients, load.numjobs, load.iodepth, load.offered_iops


def _rows(
    alone: LoadPoint, driven: Sequence[LoadPoint], samples: Samples, op: Op
) -> tuple[DisturbedRow, ...]:
    pairs = [
        Pair(
            metric=metric,
            baseline=samples.of(alone.figure.metric(metric), op),
            candidate=samples.of(point.figure.metric(metric), op),
        )
        for point in driven
        for metric in METRICS
    ]
    judged = iter(judge(pairs))
    return tuple(
        DisturbedRow(
            neighbours=point.load.neighbours,
            point=point,
            effects=tuple(
                Effect(metric=metric, value=point.usable(metric), judgement=next(judged))
                for metric in METRICS
            ),
        )
        for point in driven
    )
