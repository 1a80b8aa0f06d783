"""`leadline scale` for programs: the contract `leadline/scale/1`, and the levels as CSV."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint, refused
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.knee import Knee, KneeMethod, Shape
from leadline.analysis.scaling.limits import (
    DensityAnswer,
    Disturbance,
    Fairness,
    LimitAnswer,
    LimitPoint,
)
from leadline.analysis.scaling.speedup import EqualLatency, LevelSpeedup
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck, ScalingStudy
from leadline.analysis.scaling.superlinear import Superlinear
from leadline.metrics import Metric
from leadline.report.answers.base import Output
from leadline.stats.usl import Interval as OutputMakingInterval
from leadline.stats.usl import Unfitted, UslFit

Interval = tuple[float, float]


class PointOutput(Output):
    """A level. `load` is in the curve's `axis`; `in_flight` what was asked for; `offered_iops` of
    an open loop is of all clients together. Latencies in seconds. Values are null where missing;
    those under an `error` finding are there, `iops_refused` and `latency_refused` say so, and
    nothing is made of them. `rate_not_reached`: an open loop that fell behind what was offered.
    `bottleneck` are those named, else suspected."""

    level: str
    loop: Literal["closed", "open"]
    load: float
    clients: int
    numjobs: int
    iodepth: int
    in_flight: int
    neighbours: int
    offered_iops: float | None
    rate_not_reached: bool
    trials: int
    iops: float | None
    iops_interval: Interval | None
    bandwidth: float | None
    latency_mean: float | None
    latency_p50: float | None
    latency_p95: float | None
    latency_p99: float | None
    latency_p999: float | None
    iops_refused: bool
    latency_refused: bool
    findings: list[str]
    bottleneck: list[str]


class PeakOutput(Output):
    """The level with the highest throughput of those measured in closed loop; `ties` cannot be told
    apart from it, and `last` says that no higher load was measured."""

    level: str
    load: float
    iops: float
    interval: Interval | None
    ties: list[str]
    last: bool


class KneeOutput(Output):
    """`interval` holds 95 %, cut to the levels measured: `before` and `beyond` say that it goes on.
    `load` is null where `absence` says why; `level` where it lies between levels."""

    method: str
    load: float | None
    level: str | None
    interval: Interval | None
    before: bool
    beyond: bool
    absence: str


class UslOutput(Output):
    """The fitted Universal Scalability Law X(N) = rate N / (1 + contention (N - 1) + coherence
    N (N - 1)), or `absence` says why there is none. An end of an interval that is null is
    unbounded. `peak_load` is null where the law's peak lies beyond the levels measured.
    `misfit_p` below 0.05: the levels do not follow the law."""

    rate: float | None
    rate_interval: tuple[float | None, float | None] | None
    contention: float | None
    contention_interval: tuple[float | None, float | None] | None
    coherence: float | None
    coherence_interval: tuple[float | None, float | None] | None
    peak_load: float | None
    peak_iops: float | None
    peak_load_interval: Interval | None
    r_squared: float | None
    misfit_p: float | None
    intervals_from: str | None
    absence: str


class StandingOutput(Output):
    """A level against a limit: `kept`, `kept in some trials`, `broken` or `unknown`. `value` in
    seconds; `kept` of `trials` trials keep it."""

    level: str
    op: str
    standing: str
    value: float | None
    kept: int
    trials: int
    why: str


class LimitOutput(Output):
    """The limit is passed between `last_kept` and `first_broken`; null is not among the levels.
    `iops` is the throughput of the last level that keeps it."""

    limit: str
    loop: Literal["closed", "open"]
    last_kept: str | None
    iops: float | None
    first_broken: str | None
    between: list[str]
    unknown: list[str]
    again: list[str]
    levels: list[StandingOutput]


class SuspectOutput(Output):
    """`strength` is `named`, `suspected`, `not measured` or `excluded`; `evidence` in base units
    and shares."""

    bottleneck: str
    strength: str
    evidence: dict[str, float]
    sentence: str


class BottleneckOutput(Output):
    """What held a level back: the surest first, by the evidence of one trial."""

    level: str
    trial: str
    suspects: list[SuspectOutput]
    notes: list[str]


class FairnessOutput(Output):
    """The clients of a level: the slowest one's rate over the median one's, the worst p99 over the
    median one's; null where not every client tells. `lost` clients have no figures in a trial."""

    level: str
    op: str
    clients: int
    iops_share: float | None
    slowest: str | None
    p99_ratio: float | None
    lost: int


class CurveOutput(Output):
    """One target, workload and operation over load. `axis` is what load is counted in, `clients` or
    `I/Os in flight`; `numjobs` and `iodepth` are set where clients vary. `saturated` is null where
    the trials leave it open. `knee` is the level from which on no doubling of the load brings a
    tenth more; `knees` the same by every method. `bottleneck` is that of the peak."""

    run: str
    target: str
    workload: str
    op: str
    axis: str
    numjobs: int | None
    iodepth: int | None
    part_of_mix: bool
    points: list[PointOutput]
    saturated: bool | None
    peak: PeakOutput | None
    knee: KneeOutput
    knees: list[KneeOutput]
    usl: UslOutput
    limit: LimitOutput | None
    open_limit: LimitOutput | None
    bottleneck: BottleneckOutput | None
    bottlenecks: list[BottleneckOutput]
    fairness: list[FairnessOutput]
    left_out: list[str]


class DensityStepOutput(Output):
    clients: int
    level: str
    standing: str
    parts: list[StandingOutput]
    fairness: list[FairnessOutput]


class DensityOutput(Output):
    """Clients at `rate_iops` each: `kept` is the largest number within the limit, `broken` the
    smallest beyond it, null where none of the numbers measured is. `unsure` lie in between."""

    run: str
    target: str
    workload: str
    ops: list[str]
    rate_iops: float
    limit: str
    kept: int | None
    broken: int | None
    unsure: list[int]
    again: list[int]
    most: int | None
    steps: list[DensityStepOutput]


class EffectOutput(Output):
    """`ratio` to the level without neighbours."""

    metric: str
    unit: str
    value: float | None
    ratio: float | None
    interval: Interval | None
    verdict: str


class NeighbourOutput(Output):
    """One level beside so many neighbours; `alone` names the level without them."""

    run: str
    target: str
    workload: str
    op: str
    alone: str
    level: str
    neighbours: int
    effects: list[EffectOutput]


class ResourceOutput(Output):
    """`kind` is `capacity`, or `copies`, by which nothing is divided."""

    name: str
    kind: str
    baseline: float
    candidate: float
    ratio: float
    told_by: str


class SpeedupLevelOutput(Output):
    """Throughput of two levels, I/Os per second, null where missing or refused. `efficiency` =
    `ratio` / the ratio of the resource that grew most. `evidence` and `reasons` as `compare`
    has them."""

    baseline_level: str
    candidate_level: str
    baseline_load: int
    candidate_load: int
    baseline: float | None
    candidate: float | None
    ratio: float | None
    interval: Interval | None
    efficiency: float | None
    efficiency_interval: Interval | None
    evidence: str
    reasons: list[str]


class EqualLatencyOutput(Output):
    """Highest throughput of both within `limit`, between levels measured. `bound` is `at least` or
    `at most` where one side's levels do not reach the limit, else empty. `absence` says why there
    is no ratio."""

    limit: str | None
    chosen: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    interval: Interval | None
    efficiency: float | None
    efficiency_interval: Interval | None
    evidence: str
    reasons: list[str]
    bound: str
    left_out: list[str]
    absence: str


class SpeedupOutput(Output):
    """One curve on two systems. `by` is what the systems are: `run`, `cluster` or `label`;
    `divisor` names the resource that grew most, null where none is known."""

    by: str
    baseline: str
    candidate: str
    baseline_run: str
    candidate_run: str
    subject: str
    workload: str
    op: str
    iodepth: int | None
    resources: list[ResourceOutput]
    divisor: str | None
    levels: list[SpeedupLevelOutput]
    baseline_alone: list[str]
    candidate_alone: list[str]
    peak: SpeedupLevelOutput | None
    equal_latency: EqualLatencyOutput


class CauseOutput(Output):
    """`stance` is `supported`, `open` or `contradicted` by what the archives tell."""

    code: str
    stance: str
    text: str
    paths: list[str]


class ScaleFindingOutput(Output):
    """As the audit's, with what may have caused it."""

    code: str
    severity: str
    target: str
    workload: str
    level: str
    op: str | None
    trial: str | None
    evidence: dict[str, float]
    message: str
    remedy: str
    causes: list[CauseOutput]


class ScaleOutput(Output):
    """Values in base units. `limit` is what was asked for, null where nothing was."""

    schema_: Literal["leadline/scale/1"] = Field(default="leadline/scale/1", alias="schema")
    runs: list[str]
    limit: str | None
    band: float
    curves: list[CurveOutput]
    density: list[DensityOutput]
    neighbours: list[NeighbourOutput]
    speedups: list[SpeedupOutput]
    findings: list[ScaleFindingOutput]


# From a study to the answer for programs.


def scale_output(study: ScalingStudy) -> ScaleOutput:
    found = [row.superlinear for growth in study.growths for row in growth.rows if row.superlinear]
    ordered = sorted(found, key=lambda one: -one.finding.severity.order)
    return ScaleOutput(
        runs=[one.run.id for one in study.runs],
        limit=str(study.limit) if study.limit else None,
        band=study.band,
        curves=[_curve(one) for one in study.curves],
        density=[_density(one.run.id, answer) for one in study.runs for answer in one.densities],
        neighbours=[
            row for one in study.curves for part in one.disturbances for row in _driven(one, part)
        ],
        speedups=[row for growth in study.growths for row in _speedups(growth)],
        findings=[_finding(one) for one in ordered],
    )


def _curve(one: CurveStudy) -> CurveOutput:
    curve, shape = one.curve, one.shape
    named = {
        part.point.cell: [str(suspect.bottleneck) for suspect in part.leading]
        for part in one.bottlenecks
    }
    points = (*curve.closed, *curve.offered, *curve.disturbed)
    knees = [_knee(knee) for knee in shape.knees]
    return CurveOutput(
        run=one.run.id,
        target=curve.target,
        workload=curve.workload,
        op=curve.op.value,
        axis=curve.axis.value,
        numjobs=curve.numjobs,
        iodepth=curve.iodepth,
        part_of_mix=curve.part_of_mix,
        points=[_point(curve, point, named.get(point.cell, [])) for point in points],
        saturated=shape.saturated,
        peak=_peak(shape),
        knee=_knee(shape.knee(KneeMethod.GAIN)),
        knees=knees,
        usl=_usl(shape),
        limit=_limit(one.limit) if one.limit else None,
        open_limit=_limit(one.offered_limit) if one.offered_limit else None,
        bottleneck=_bottleneck(one.at_peak) if one.at_peak else None,
        bottlenecks=[_bottleneck(part) for part in one.bottlenecks],
        fairness=[_fairness(part) for part in one.fairness],
        left_out=list(shape.left_out),
    )


def _point(curve: LoadCurve, point: LoadPoint, bottleneck: list[str]) -> PointOutput:
    load, rate = point.load, point.throughput
    figures = [rate, *map(point.latency, LATENCIES)]
    return PointOutput(
        level=point.level,
        loop="open" if point.open_loop else "closed",
        load=curve.load_of(point),
        clients=load.clients,
        numjobs=load.numjobs,
        iodepth=load.iodepth,
        in_flight=load.in_flight,
        neighbours=load.neighbours,
        offered_iops=load.offered_iops,
        rate_not_reached=point.beyond_capacity,
        trials=sum(one.value is not None for one in rate.trials),
        iops=rate.value,
        iops_interval=rate.interval,
        bandwidth=point.figure.metric(Metric.BANDWIDTH).value,
        latency_mean=point.latency(Metric.LATENCY_MEAN).value,
        latency_p50=point.latency(Metric.LATENCY_P50).value,
        latency_p95=point.latency(Metric.LATENCY_P95).value,
        latency_p99=point.latency(Metric.LATENCY_P99).value,
        latency_p999=point.latency(Metric.LATENCY_P999).value,
        iops_refused=refused(rate),
        latency_refused=any(refused(point.latency(metric)) for metric in LATENCIES),
        findings=list(dict.fromkeys(code for figure in figures for code in figure.findings)),
        bottleneck=bottleneck,
    )


def _peak(shape: Shape) -> PeakOutput | None:
    peak = shape.peak
    if peak is None:
        return None
    return PeakOutput(
        level=peak.point.level,
        load=peak.load,
        iops=peak.iops,
        interval=peak.interval,
        ties=list(peak.ties),
        last=peak.last,
    )


def _knee(knee: Knee) -> KneeOutput:
    found = knee.range
    return KneeOutput(
        method=knee.method.value,
        load=knee.load,
        level=knee.level or None,
        interval=(found.low, found.high) if found else None,
        before=bool(found and found.before),
        beyond=bool(found and found.beyond),
        absence=knee.absence,
    )


def _usl(shape: Shape) -> UslOutput:
    law = shape.law
    fit: UslFit | None = None if isinstance(law, Unfitted) else law
    top = shape.law_peak
    return UslOutput(
        rate=fit.curve.rate if fit else None,
        rate_interval=_ends(fit.rate_interval) if fit else None,
        contention=fit.curve.contention if fit else None,
        contention_interval=_ends(fit.contention_interval) if fit else None,
        coherence=fit.curve.coherence if fit else None,
        coherence_interval=_ends(fit.coherence_interval) if fit else None,
        peak_load=top.load if top else None,
        peak_iops=top.iops if top else None,
        peak_load_interval=(top.range.low, top.range.high) if top else None,
        r_squared=fit.r_squared if fit else None,
        misfit_p=fit.misfit_p if fit else None,
        intervals_from=fit.resampling.value if fit else None,
        absence=law.reason if isinstance(law, Unfitted) else "",
    )


def _ends(interval: OutputMakingInterval) -> tuple[float | None, float | None]:
    """JSON has no infinity."""
    low, high = (one if math.isfinite(one) else None for one in (interval.low, interval.high))
    return low, high


def _limit(answer: LimitAnswer) -> LimitOutput:
    last, first = answer.last_kept, answer.first_broken
    return LimitOutput(
        limit=str(answer.limit),
        loop="open" if answer.open_loop else "closed",
        last_kept=last.point.level if last else None,
        iops=answer.iops,
        first_broken=first.point.level if first else None,
        between=list(answer.between),
        unknown=list(answer.unknown),
        again=list(answer.again),
        levels=[_standing(one) for one in answer.points],
    )


def _standing(one: LimitPoint) -> StandingOutput:
    op = one.point.figure.op
    return StandingOutput(
        level=one.point.level,
        op=op.value if op else "",
        standing=one.standing.value,
        value=one.value,
        kept=one.kept,
        trials=one.trials,
        why=one.why,
    )


def _bottleneck(one: LevelBottleneck) -> BottleneckOutput:
    return BottleneckOutput(
        level=one.point.level,
        trial=one.evidence.trial,
        suspects=[
            SuspectOutput(
                bottleneck=suspect.bottleneck.value,
                strength=suspect.strength.value,
                evidence={
                    name: value for name, value in suspect.evidence.items() if math.isfinite(value)
                },
                sentence=suspect.sentence,
            )
            for suspect in one.suspects
        ],
        notes=list(one.evidence.notes),
    )


def _fairness(one: Fairness) -> FairnessOutput:
    return FairnessOutput(
        level=one.level,
        op=one.op.value,
        clients=len(one.clients),
        iops_share=one.iops_share,
        slowest=one.slowest.client if one.slowest else None,
        p99_ratio=one.p99_ratio,
        lost=one.lost,
    )


def _density(run: str, answer: DensityAnswer) -> DensityOutput:
    return DensityOutput(
        run=run,
        target=answer.target,
        workload=answer.workload,
        ops=[one.value for one in answer.ops],
        rate_iops=answer.rate_iops,
        limit=str(answer.limit),
        kept=answer.kept,
        broken=answer.broken,
        unsure=list(answer.unsure),
        again=list(answer.again),
        most=answer.most,
        steps=[
            DensityStepOutput(
                clients=step.clients,
                level=step.level,
                standing=step.standing.value,
                parts=[_standing(one) for one in step.parts],
                fairness=[_fairness(one) for one in step.fairness],
            )
            for step in answer.steps
        ],
    )


def _driven(study: CurveStudy, part: Disturbance) -> Iterable[NeighbourOutput]:
    for row in part.rows:
        yield NeighbourOutput(
            run=study.run.id,
            target=study.curve.target,
            workload=study.curve.workload,
            op=study.curve.op.value,
            alone=part.alone.level,
            level=row.point.level,
            neighbours=row.neighbours,
            effects=[
                EffectOutput(
                    metric=one.metric.value,
                    unit=one.metric.unit,
                    value=one.value,
                    ratio=one.judgement.ratio,
                    interval=one.judgement.interval,
                    verdict=one.judgement.verdict.value,
                )
                for one in row.effects
            ],
        )


def _speedups(growth: Growth) -> Iterable[SpeedupOutput]:
    for row in growth.rows:
        one = row.speedup
        yield SpeedupOutput(
            by=growth.by.value,
            baseline=growth.baseline.name,
            candidate=growth.candidate.name,
            baseline_run=growth.baseline.run.id,
            candidate_run=growth.candidate.run.id,
            subject=one.subject,
            workload=one.candidate.workload,
            op=one.candidate.op.value,
            iodepth=one.candidate.iodepth,
            resources=[
                ResourceOutput(
                    name=part.name,
                    kind=part.kind.value,
                    baseline=part.baseline,
                    candidate=part.candidate,
                    ratio=part.ratio,
                    told_by=part.told_by,
                )
                for part in one.resources
            ],
            divisor=one.divisor.name if one.divisor else None,
            levels=[_level(part) for part in one.levels],
            baseline_alone=list(one.baseline_alone),
            candidate_alone=list(one.candidate_alone),
            peak=_level(one.peak) if one.peak else None,
            equal_latency=_equal(one.equal_latency),
        )


def _level(one: LevelSpeedup) -> SpeedupLevelOutput:
    judged = one.judgement
    return SpeedupLevelOutput(
        baseline_level=one.baseline.level,
        candidate_level=one.candidate.level,
        baseline_load=one.baseline.load.in_flight,
        candidate_load=one.candidate.load.in_flight,
        baseline=one.baseline.usable(Metric.IOPS),
        candidate=one.candidate.usable(Metric.IOPS),
        ratio=judged.ratio,
        interval=judged.interval,
        efficiency=one.efficiency.value if one.efficiency else None,
        efficiency_interval=one.efficiency.interval if one.efficiency else None,
        evidence=judged.evidence.value,
        reasons=list(judged.reasons),
    )


def _equal(one: EqualLatency) -> EqualLatencyOutput:
    judged = one.judgement
    left_out = dict.fromkeys((*one.baseline.left_out, *one.candidate.left_out))
    return EqualLatencyOutput(
        limit=str(one.limit) if one.limit else None,
        chosen=one.chosen,
        baseline=one.baseline.iops,
        candidate=one.candidate.iops,
        ratio=judged.ratio,
        interval=judged.interval,
        efficiency=one.efficiency.value if one.efficiency else None,
        efficiency_interval=one.efficiency.interval if one.efficiency else None,
        evidence=judged.evidence.value,
        reasons=[] if one.absence else list(judged.reasons),
        bound=one.bound,
        left_out=list(left_out),
        absence=one.absence,
    )


def _finding(one: Superlinear) -> ScaleFindingOutput:
    finding = one.finding
    return ScaleFindingOutput(
        code=finding.code,
        severity=finding.severity.value,
        target=finding.target,
        workload=finding.workload,
        level=finding.level,
        op=finding.op.value if finding.op else None,
        trial=finding.trial,
        evidence=dict(finding.evidence),
        message=finding.message,
        remedy=finding.remedy,
        causes=[
            CauseOutput(
                code=cause.code, stance=cause.stance.value, text=cause.text, paths=list(cause.paths)
            )
            for cause in one.causes
        ],
    )


SCALE_COLUMNS = (
    "run", "target", "workload", "op", "axis", "load", "level", "loop", "clients", "numjobs",
    "iodepth", "in_flight", "neighbours", "offered_iops", "rate_not_reached", "trials", "iops",
    "iops_low", "iops_high", "bandwidth", "latency_mean", "latency_p50", "latency_p95",
    "latency_p99", "latency_p999", "iops_refused", "latency_refused", "findings", "bottleneck",
)  # fmt: skip


def scale_rows(answer: ScaleOutput) -> list[Sequence[object]]:
    """A row for each level of each curve under SCALE_COLUMNS, in base units."""
    rows: list[Sequence[object]] = []
    for curve in answer.curves:
        for point in curve.points:
            low, high = point.iops_interval or (None, None)
            cells = curve.model_dump(include={"run", "target", "workload", "op", "axis"})
            cells |= point.model_dump() | {
                "iops_low": low,
                "iops_high": high,
                "findings": " ".join(point.findings),
                "bottleneck": " ".join(point.bottleneck),
            }
            for name in ("rate_not_reached", "iops_refused", "latency_refused"):
                cells[name] = "yes" if cells[name] else "no"
            rows.append([cells[name] for name in SCALE_COLUMNS])
    return rows
