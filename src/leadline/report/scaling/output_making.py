"""From a study to the answer for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint, refused
from leadline.analysis.scaling.density import DensityAnswer
from leadline.analysis.scaling.disturbance import Disturbance
from leadline.analysis.scaling.fairness import Fairness
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.knee import Knee, KneeMethod, Shape
from leadline.analysis.scaling.limit import LimitAnswer, LimitPoint
from leadline.analysis.scaling.speedup import EqualLatency, LevelSpeedup
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck, ScalingStudy
from leadline.analysis.scaling.superlinear import Superlinear
from leadline.metrics import Metric
from leadline.report.scaling import output as told
from leadline.stats.usl import Interval, Unfitted, UslFit


def scale_output(study: ScalingStudy) -> told.ScaleOutput:
    found = [row.superlinear for growth in study.growths for row in growth.rows if row.superlinear]
    ordered = sorted(found, key=lambda one: -one.finding.severity.order)
    return told.ScaleOutput(
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


def _curve(one: CurveStudy) -> told.CurveOutput:
    curve, shape = one.curve, one.shape
    named = {
        part.point.cell: [str(suspect.bottleneck) for suspect in part.leading]
        for part in one.bottlenecks
    }
    points = (*curve.closed, *curve.offered, *curve.disturbed)
    knees = [_knee(knee) for knee in shape.knees]
    return told.CurveOutput(
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


def _point(curve: LoadCurve, point: LoadPoint, bottleneck: list[str]) -> told.PointOutput:
    load, rate = point.load, point.throughput
    figures = [rate, *map(point.latency, LATENCIES)]
    return told.PointOutput(
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


def _peak(shape: Shape) -> told.PeakOutput | None:
    peak = shape.peak
    if peak is None:
        return None
    return told.PeakOutput(
        level=peak.point.level,
        load=peak.load,
        iops=peak.iops,
        interval=peak.interval,
        ties=list(peak.ties),
        last=peak.last,
    )


def _knee(knee: Knee) -> told.KneeOutput:
    found = knee.range
    return told.KneeOutput(
        method=knee.method.value,
        load=knee.load,
        level=knee.level or None,
        interval=(found.low, found.high) if found else None,
        before=bool(found and found.before),
        beyond=bool(found and found.beyond),
        absence=knee.absence,
    )


def _usl(shape: Shape) -> told.UslOutput:
    law = shape.law
    fit: UslFit | None = None if isinstance(law, Unfitted) else law
    top = shape.law_peak
    return told.UslOutput(
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


def _ends(interval: Interval) -> tuple[float | None, float | None]:
    """JSON has no infinity."""
    low, high = (one if math.isfinite(one) else None for one in (interval.low, interval.high))
    return low, high


def _limit(answer: LimitAnswer) -> told.LimitOutput:
    last, first = answer.last_kept, answer.first_broken
    return told.LimitOutput(
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


def _standing(one: LimitPoint) -> told.StandingOutput:
    op = one.point.figure.op
    return told.StandingOutput(
        level=one.point.level,
        op=op.value if op else "",
        standing=one.standing.value,
        value=one.value,
        kept=one.kept,
        trials=one.trials,
        why=one.why,
    )


def _bottleneck(one: LevelBottleneck) -> told.BottleneckOutput:
    return told.BottleneckOutput(
        level=one.point.level,
        trial=one.evidence.trial,
        suspects=[
            told.SuspectOutput(
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


def _fairness(one: Fairness) -> told.FairnessOutput:
    return told.FairnessOutput(
        level=one.level,
        op=one.op.value,
        clients=len(one.clients),
        iops_share=one.iops_share,
        slowest=one.slowest.client if one.slowest else None,
        p99_ratio=one.p99_ratio,
        lost=one.lost,
    )


def _density(run: str, answer: DensityAnswer) -> told.DensityOutput:
    return told.DensityOutput(
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
            told.DensityStepOutput(
                clients=step.clients,
                level=step.level,
                standing=step.standing.value,
                parts=[_standing(one) for one in step.parts],
                fairness=[_fairness(one) for one in step.fairness],
            )
            for step in answer.steps
        ],
    )


def _driven(study: CurveStudy, part: Disturbance) -> Iterable[told.NeighbourOutput]:
    for row in part.rows:
        yield told.NeighbourOutput(
            run=study.run.id,
            target=study.curve.target,
            workload=study.curve.workload,
            op=study.curve.op.value,
            alone=part.alone.level,
            level=row.point.level,
            neighbours=row.neighbours,
            effects=[
                told.EffectOutput(
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


def _speedups(growth: Growth) -> Iterable[told.SpeedupOutput]:
    for row in growth.rows:
        one = row.speedup
        yield told.SpeedupOutput(
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
                told.ResourceOutput(
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


def _level(one: LevelSpeedup) -> told.SpeedupLevelOutput:
    judged = one.judgement
    return told.SpeedupLevelOutput(
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


def _equal(one: EqualLatency) -> told.EqualLatencyOutput:
    judged = one.judgement
    left_out = dict.fromkeys((*one.baseline.left_out, *one.candidate.left_out))
    return told.EqualLatencyOutput(
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


def _finding(one: Superlinear) -> told.ScaleFindingOutput:
    finding = one.finding
    return told.ScaleFindingOutput(
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
            told.CauseOutput(
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


def scale_rows(answer: told.ScaleOutput) -> list[Sequence[object]]:
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
