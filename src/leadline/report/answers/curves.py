"""Load curves in the JSON answer of `leadline scale`: levels, knee, limits, bottlenecks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator

from leadline.analysis.scaling.curves import LATENCIES, LoadCurve, LoadPoint, refused
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.analysis.scaling.trend import Ending
from leadline.metrics import Metric
from leadline.report.answers.base import Output
from leadline.report.pages.scaling.words import suspect_text, text
from leadline.stats.usl import Interval as UslInterval
from leadline.stats.usl import Unfitted

Interval = tuple[float, float]


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


# Fields that differ in form from the analysis' value of the same name.
Words = Annotated[str, BeforeValidator(text)]
Text = Annotated[str, BeforeValidator(str)]
LevelName = Annotated[str | None, BeforeValidator(lambda at: None if at is None else at.level)]
Client = Annotated[str | None, BeforeValidator(lambda one: one and one.client)]
Count = Annotated[int, BeforeValidator(len)]


def _finite_numbers(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


class PointOutput(Output):
    """A level. `load` is in the curve's `axis`; `in_flight` is the requested number of I/Os;
    `offered_iops` of an open loop is of all clients together. Latencies in seconds. Missing values
    are null. Values refused by an `error` finding are present but used nowhere (`iops_refused`,
    `latency_refused`). `rate_not_reached`: an open loop fell behind its offered rate.
    `bottleneck` lists the named ones, else the suspected ones."""

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
    """The closed-loop level with the highest throughput; `ties` do not differ significantly from
    it; `last`: no higher load was measured."""

    level: str
    load: float
    iops: float
    interval: Interval | None
    ties: list[str]
    last: bool


class EndingOutput(Output):
    """The tested shape of the curve's end: `grows`, `flat`, `falls` or `undecided`. `slope` is the
    growth for twice the load from level `start` to `last`, as a share; `fall` is the last level
    over the highest, minus one, where this decided. `scatter` is the source of the intervals."""

    trend: str
    start: LevelName
    last: LevelName
    slope: float
    slope_interval: Interval | None
    fall: float | None
    fall_interval: Interval | None
    scatter: str


class UnusableLevelOutput(Output):
    """A level above the last usable one: its refused figure, and that over the highest usable one,
    minus one; null where no trial was completed."""

    level: str
    iops: float | None
    share: float | None
    findings: list[str]


class KneeOutput(Output):
    """`interval` (95 %) is cut to the measured levels; it goes on at the end where `before` or
    `beyond` is true. `load` is null where `absence` is set, `level` between levels."""

    method: str
    load: float | None
    level: str | None
    interval: Interval | None
    before: bool
    beyond: bool
    absence: Words


class UslOutput(Output):
    """The fitted Universal Scalability Law X(N) = rate N / (1 + contention (N - 1) + coherence
    N (N - 1)); `absence` is set where there is none. A null end of an interval is unbounded.
    `peak_load` is null where the law's peak lies outside the measured levels. `misfit_p` below
    0.05: the levels do not follow the law."""

    rate: float | None = None
    rate_interval: tuple[float | None, float | None] | None = None
    contention: float | None = None
    contention_interval: tuple[float | None, float | None] | None = None
    coherence: float | None = None
    coherence_interval: tuple[float | None, float | None] | None = None
    peak_load: float | None = None
    peak_iops: float | None = None
    peak_load_interval: Interval | None = None
    r_squared: float | None = None
    misfit_p: float | None = None
    intervals_from: str | None = None
    absence: str = ""


class StandingOutput(Output):
    """A level against a limit: `kept`, `kept in some trials`, `broken` or `unknown`. `value` in
    seconds; `kept` of `trials` trials keep it; `why` is set where there is no usable value."""

    level: str
    op: str
    standing: str
    value: float | None
    kept: int
    trials: int
    why: Words


class LimitOutput(Output):
    """The limit lies between `last_kept` and `first_broken`; null: not among the levels.
    `iops` is the throughput of the last level that keeps it."""

    limit: Text
    loop: Literal["closed", "open"]
    last_kept: LevelName
    iops: float | None
    first_broken: LevelName
    between: list[str]
    unknown: list[str]
    again: list[str]
    levels: list[StandingOutput]


class SuspectOutput(Output):
    """`strength` is `named`, `suspected`, `not measured` or `excluded`; `evidence` in base units
    and shares."""

    bottleneck: str
    strength: str
    evidence: Annotated[dict[str, float], BeforeValidator(_finite_numbers)]
    sentence: str


class BottleneckOutput(Output):
    """The bottlenecks of a level, the most certain first, by the evidence of one trial."""

    level: str
    trial: str
    suspects: list[SuspectOutput]
    notes: list[str]


class FairnessOutput(Output):
    """The clients of a level: the slowest client's rate over the median client's, the worst p99
    over the median client's; null where a client has no value. `lost` clients have no figures in
    some trial."""

    level: str
    op: str
    clients: Count
    iops_share: float | None
    slowest: Client
    p99_ratio: float | None
    lost: int


class CurveOutput(Output):
    """One target, workload and operation over load. `axis` is the unit of load, `clients` or
    `I/Os in flight`; `numjobs` and `iodepth` are set where clients vary. `saturated` is null where
    it is inconclusive. `hard_limit_iops` is a throughput that no level exceeds, flat to the margin.
    `unusable_end` are refused or missing levels above the last usable one. `knee` is the level
    from which on a doubling of the load gives less than a tenth more; `knees` has it by every
    method. `bottleneck` is that of the peak."""

    run: str
    target: str
    workload: str
    op: str
    axis: str
    numjobs: int | None
    iodepth: int | None
    part_of_mix: bool
    points: list[PointOutput]
    ending: EndingOutput | None
    saturated: bool | None
    hard_limit_iops: float | None
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
    unusable_end: list[UnusableLevelOutput]


def curve_output(study: CurveStudy) -> CurveOutput:
    curve, shape = study.curve, study.shape
    leading = {
        part.point.cell: [suspect.bottleneck for suspect in part.leading]
        for part in study.bottlenecks
    }
    points = (*curve.closed, *curve.offered, *curve.disturbed)
    return CurveOutput.from_records(
        curve,
        shape,
        run=study.run.id,
        points=[_point(curve, point, leading.get(point.cell, [])) for point in points],
        ending=_ending(shape.ending),
        hard_limit_iops=shape.limit.iops if shape.limit else None,
        unusable_end=[
            UnusableLevelOutput.from_records(level, level=level.point.level)
            for level in shape.unusable_end
        ],
        knee=shape.knee(KneeMethod.GAIN),
        usl=_usl(shape),
        limit=study.limit,
        open_limit=study.offered_limit,
        bottleneck=_bottleneck(study.at_peak) if study.at_peak else None,
        bottlenecks=[_bottleneck(part) for part in study.bottlenecks],
        fairness=study.fairness,
    )


def _ending(ending: Ending | None) -> EndingOutput | None:
    if ending is None:
        return None
    fall = ending.fall
    return EndingOutput.from_records(
        ending,
        slope=ending.slope.share,
        slope_interval=ending.slope.interval,
        fall=fall.share if fall else None,
        fall_interval=fall.interval if fall else None,
    )


def _point(curve: LoadCurve, point: LoadPoint, bottleneck: Sequence[str]) -> PointOutput:
    rate = point.throughput
    latencies = [point.latency(metric) for metric in LATENCIES]
    codes = [code for figure in (rate, *latencies) for code in figure.findings]
    return PointOutput.from_records(
        point.load,
        level=point.level,
        loop="open" if point.open_loop else "closed",
        load=curve.load_of(point),
        rate_not_reached=point.beyond_capacity,
        trials=sum(trial.value is not None for trial in rate.trials),
        iops=rate.value,
        iops_interval=rate.interval,
        bandwidth=point.figure.metric(Metric.BANDWIDTH).value,
        iops_refused=refused(rate),
        latency_refused=any(map(refused, latencies)),
        findings=list(dict.fromkeys(codes)),
        bottleneck=bottleneck,
        **{figure.metric.value: figure.value for figure in latencies},
    )


def _usl(shape: Shape) -> UslOutput:
    law, peak = shape.law, shape.law_peak
    if isinstance(law, Unfitted):
        return UslOutput(absence=text(law))
    return UslOutput.from_records(
        law,
        law.curve,
        rate_interval=_ends(law.rate_interval),
        contention_interval=_ends(law.contention_interval),
        coherence_interval=_ends(law.coherence_interval),
        peak_load=peak.load if peak else None,
        peak_iops=peak.iops if peak else None,
        peak_load_interval=peak.range.interval if peak else None,
        intervals_from=law.resampling,
    )


def _ends(interval: UslInterval) -> tuple[float | None, float | None]:
    return _finite(interval.low), _finite(interval.high)


def _bottleneck(found: LevelBottleneck) -> BottleneckOutput:
    suspects = [
        SuspectOutput.from_records(suspect, sentence=suspect_text(suspect))
        for suspect in found.suspects
    ]
    notes = found.evidence.notes if found.trial else ["no trial of the level was completed"]
    return BottleneckOutput.from_records(found, suspects=suspects, notes=notes)
