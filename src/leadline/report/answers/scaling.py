"""JSON answer of `leadline scale` (contract `leadline/scale/1`), and the levels as CSV.

The models declare the contract. Their fields are read from the dataclasses of the analysis; words
come from the templates of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from leadline.analysis.scaling.clients import Disturbance
from leadline.analysis.scaling.growth import Growth, GrowthRow
from leadline.analysis.scaling.speedup import Efficiency, EqualLatency, LevelSpeedup
from leadline.analysis.scaling.study import CurveStudy, ScalingStudy
from leadline.analysis.scaling.superlinear import Superlinear
from leadline.metrics import Metric
from leadline.report.answers.base import FindingOutput, Output
from leadline.report.answers.curves import (
    CurveOutput,
    FairnessOutput,
    Interval,
    StandingOutput,
    Text,
    Words,
    curve_output,
)
from leadline.report.pages.scaling.words import cause_text, superlinear_finding


class DensityStepOutput(Output):
    clients: int
    level: str
    standing: str
    parts: list[StandingOutput]
    fairness: list[FairnessOutput]


class DensityOutput(Output):
    """Clients at `rate_iops` each: `kept` is the largest number within the limit, `broken` the
    smallest above it, null where none was measured. `unsure` are inconclusive."""

    run: str
    target: str
    workload: str
    ops: list[str]
    rate_iops: float
    limit: Text
    kept: int | None
    broken: int | None
    unsure: list[int]
    again: list[int]
    most: int | None
    steps: list[DensityStepOutput]


class EffectOutput(Output):
    """One metric; `ratio` to the level without neighbours."""

    metric: str
    unit: str
    value: float | None
    ratio: float | None
    interval: Interval | None
    verdict: str


class NeighbourOutput(Output):
    """One level with neighbours; `alone` names the level without them."""

    run: str
    target: str
    workload: str
    op: str
    alone: str
    level: str
    neighbours: int
    effects: list[EffectOutput]


ResourceName = Annotated[str | None, BeforeValidator(lambda one: one and one.name)]


class ResourceOutput(Output):
    """`kind` is `capacity`, or `copies`, which divide no speed-up."""

    name: str
    kind: str
    baseline: float
    candidate: float
    ratio: float
    told_by: str


class SpeedupLevelOutput(Output):
    """Throughput of two levels, I/Os per second, null where missing or refused. `efficiency` =
    `ratio` / the ratio of the resource that grew most. `evidence` and `reasons` as in `compare`."""

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
    chosen: Words
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
    absence: Words


class SpeedupOutput(Output):
    """One curve on two systems. `by` is `run`, `cluster` or `label`; `divisor` names the resource
    that grew most, null where none is known."""

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
    divisor: ResourceName
    levels: list[SpeedupLevelOutput]
    baseline_alone: list[str]
    candidate_alone: list[str]
    peak: SpeedupLevelOutput | None
    equal_latency: EqualLatencyOutput


class CauseOutput(Output):
    """`stance` is `supported`, `open` or `contradicted` by the archives."""

    code: str
    stance: str
    text: str
    paths: list[str]


class ScaleFindingOutput(FindingOutput):
    """A finding as the audit's, with its candidate causes."""

    causes: list[CauseOutput]


class ScaleOutput(Output):
    """Values in base units. `limit` is as requested, else null. `between_runs` is the standard
    deviation of a system between runs, a share, that intervals of separate runs include."""

    schema_: Literal["leadline/scale/1"] = Field(default="leadline/scale/1", alias="schema")
    runs: list[str]
    limit: str | None
    band: float
    curves: list[CurveOutput]
    density: list[DensityOutput]
    neighbours: list[NeighbourOutput]
    speedups: list[SpeedupOutput]
    findings: list[ScaleFindingOutput]
    between_runs: float = 0.0


def scale_output(study: ScalingStudy) -> ScaleOutput:
    return ScaleOutput(
        runs=[run.run.id for run in study.runs],
        limit=str(study.limit) if study.limit else None,
        band=study.band,
        between_runs=study.between_runs,
        curves=[curve_output(curve) for curve in study.curves],
        density=[
            DensityOutput.from_records(answer, run=part.run.id)
            for part in study.runs
            for answer in part.densities
        ],
        neighbours=[
            row
            for curve in study.curves
            for part in curve.disturbances
            for row in _neighbours(curve, part)
        ],
        speedups=[_speedup(growth, row) for growth in study.growths for row in growth.rows],
        findings=[_finding(found) for found in study.superlinear],
    )


def _neighbours(study: CurveStudy, part: Disturbance) -> Iterable[NeighbourOutput]:
    for row in part.rows:
        yield NeighbourOutput.from_records(
            study.curve,
            run=study.run.id,
            alone=part.alone.level,
            level=row.point.level,
            neighbours=row.neighbours,
            effects=[
                EffectOutput.from_records(effect, effect.metric, effect.judgement)
                for effect in row.effects
            ],
        )


def _speedup(growth: Growth, row: GrowthRow) -> SpeedupOutput:
    speedup = row.speedup
    return SpeedupOutput.from_records(
        speedup,
        speedup.candidate,
        by=growth.by,
        baseline=growth.baseline.name,
        candidate=growth.candidate.name,
        baseline_run=growth.baseline.run.id,
        candidate_run=growth.candidate.run.id,
        levels=[_level(level) for level in speedup.levels],
        peak=_level(speedup.peak) if speedup.peak else None,
        equal_latency=_equal_latency(speedup.equal_latency),
    )


def _efficiency(efficiency: Efficiency | None) -> dict[str, object]:
    return {
        "efficiency": efficiency.value if efficiency else None,
        "efficiency_interval": efficiency.interval if efficiency else None,
    }


def _level(level: LevelSpeedup) -> SpeedupLevelOutput:
    return SpeedupLevelOutput.from_records(
        level.judgement,
        baseline_level=level.baseline.level,
        candidate_level=level.candidate.level,
        baseline_load=level.baseline.load.in_flight,
        candidate_load=level.candidate.load.in_flight,
        baseline=level.baseline.usable(Metric.IOPS),
        candidate=level.candidate.usable(Metric.IOPS),
        **_efficiency(level.efficiency),
    )


def _equal_latency(equal: EqualLatency) -> EqualLatencyOutput:
    return EqualLatencyOutput.from_records(
        equal,
        equal.judgement,
        limit=str(equal.limit) if equal.limit else None,
        baseline=equal.baseline.iops,
        candidate=equal.candidate.iops,
        reasons=[] if equal.absence else equal.judgement.reasons,
        left_out=list(dict.fromkeys((*equal.baseline.left_out, *equal.candidate.left_out))),
        **_efficiency(equal.efficiency),
    )


def _finding(found: Superlinear) -> ScaleFindingOutput:
    causes = [CauseOutput.from_records(cause, text=cause_text(cause)) for cause in found.causes]
    return ScaleFindingOutput.from_records(superlinear_finding(found), causes=causes)


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
