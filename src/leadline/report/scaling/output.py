"""`leadline scale` for programs: the contract `leadline/scale/1`, and the levels as CSV."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.report.output_model import Output

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
