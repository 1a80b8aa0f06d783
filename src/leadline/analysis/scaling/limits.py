"""Load levels tested against a latency limit, and the throughput within it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.figures import MetricFigure
from leadline.analysis.samples import Samples, error_codes
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint, refused
from leadline.analysis.verdicts import Sample
from leadline.metrics import Metric, Op
from leadline.plan.models import LatencyLimit


class Standing(StrEnum):
    """A level against a limit. `some`: the trials disagree with one another or with the figure of
    all I/Os together. `unknown`: no usable latency."""

    KEPT = "kept"
    SOME = "kept in some trials"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class LatencyGapReason(StrEnum):
    """Why a latency cannot be tested: `error` findings refuse it, it has no value, or the offered
    rate was not reached so that the queue kept growing."""

    REFUSED = "refused"
    NOT_MEASURED = "not-measured"
    RATE_NOT_REACHED = "rate-not-reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyGap:
    """A latency without a usable value. `findings` are codes of the audit, `figure` has
    its own reason; `behind` of `trials` trials did not reach the rate, 0 where all of them."""

    reason: LatencyGapReason
    findings: tuple[str, ...] = ()
    figure: MetricFigure | None = None
    behind: int = 0
    trials: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPoint:
    """One level against a limit: `value` in seconds is None where it is missing or refused; `kept`
    of `trials` trials are below the limit. `why` explains a value that cannot be tested."""

    point: LoadPoint
    standing: Standing
    value: float | None
    kept: int
    trials: int
    why: LatencyGap | None = None

    @property
    def level(self) -> str:
        return self.point.level

    @property
    def op(self) -> Op | None:
        return self.point.figure.op


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitAnswer:
    """Where levels of one loop (closed or open) exceed a limit; `levels` by rising load.

    `last_kept` is the last level that keeps the limit in every trial, with no broken level before
    it; `first_broken` is the first that breaks it in every trial. The limit lies between the two;
    None: not among the measured levels. `between` are levels in between whose trials disagree,
    `unknown` those without a usable latency. `again` are levels above `first_broken` that keep the
    limit again, which contradicts a load curve.
    """

    curve: LoadCurve
    limit: LatencyLimit
    open_loop: bool
    levels: tuple[LimitPoint, ...]
    last_kept: LimitPoint | None
    first_broken: LimitPoint | None
    between: tuple[str, ...]
    unknown: tuple[str, ...]
    again: tuple[str, ...]

    @property
    def iops(self) -> float | None:
        """Throughput of the last level that keeps the limit, I/Os per second."""
        return self.last_kept.point.usable(Metric.IOPS) if self.last_kept else None

    @property
    def loop(self) -> str:
        return "open" if self.open_loop else "closed"


def check_limit(curve: LoadCurve, limit: LatencyLimit, *, open_loop: bool = False) -> LimitAnswer:
    """Test the curve's closed-loop levels, or its open-loop ones, against the limit."""
    points = curve.offered if open_loop else curve.closed
    levels = tuple(check_level(point, limit) for point in points)
    start, end = split_levels([level.standing for level in levels])
    return LimitAnswer(
        curve=curve,
        limit=limit,
        open_loop=open_loop,
        levels=levels,
        last_kept=levels[start - 1] if start else None,
        first_broken=levels[end] if end < len(levels) else None,
        between=_names(levels[start:end], Standing.KEPT, Standing.SOME),
        unknown=_names(levels, Standing.UNKNOWN),
        again=_names(levels[end:], Standing.KEPT),
    )


def split_levels(standings: Sequence[Standing]) -> tuple[int, int]:
    """Split levels by rising load: the last kept level is the one before the first index (0: none),
    the first broken level is at the second index (the length: none).

    A level that some trials break ends the kept levels."""
    end = next((at for at, one in enumerate(standings) if one is Standing.BROKEN), len(standings))
    start = 0
    for at, standing in enumerate(standings[:end]):
        if standing is Standing.SOME:
            break
        start = at + 1 if standing is Standing.KEPT else start
    return start, end


def _names(levels: Iterable[LimitPoint], *standings: Standing) -> tuple[str, ...]:
    return tuple(level.level for level in levels if level.standing in standings)


def check_level(point: LoadPoint, limit: LatencyLimit) -> LimitPoint:
    """Test the trials of a level against the limit. A trial that did not reach its offered rate
    breaks every limit: its queue grew for the whole trial."""
    figure = point.latency(limit.metric)
    values = [trial.value for trial in figure.trials]
    kept = sum(value is not None and value < limit.below_s for value in values)
    value = point.usable(limit.metric)
    trials = len(values) + point.stopped
    why = None
    if point.beyond_capacity:
        kept = min(trials - point.behind, kept)
        standing = Standing.SOME if kept > 0 else Standing.BROKEN
        why = LatencyGap(
            reason=LatencyGapReason.RATE_NOT_REACHED,
            behind=point.behind if kept > 0 else 0,
            trials=trials,
        )
    elif value is None:
        standing, kept = Standing.UNKNOWN, 0
        reason = LatencyGapReason.REFUSED if refused(figure) else LatencyGapReason.NOT_MEASURED
        why = LatencyGap(reason=reason, findings=figure.findings, figure=figure)
    else:
        within_limit = {
            latency < limit.below_s for latency in (value, *values) if latency is not None
        }
        standing = Standing.KEPT if value < limit.below_s else Standing.BROKEN
        standing = standing if len(within_limit) == 1 else Standing.SOME
    return LimitPoint(
        point=point, standing=standing, value=value, kept=kept, trials=trials, why=why
    )


# --- throughput within a latency ----------------------------------------------------------------


class NoThroughputReason(StrEnum):
    """Why no throughput within a latency is known."""

    THROUGHPUT_UNUSABLE = "throughput-unusable"
    LATENCY_REFUSED = "latency-refused"
    LATENCY_MISSING = "latency-missing"
    LOWEST_LEVEL_ABOVE = "lowest-level-above"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoThroughput:
    """The absence of a throughput within a latency; `findings` are the codes that refuse it."""

    reason: NoThroughputReason
    findings: tuple[str, ...] = ()
    limit: LatencyLimit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A curve's highest throughput within a latency, I/Os per second, between measured levels.

    `at_least`: no level breaks the limit, so more load may give more. `iops` is None where
    `absence` is set. `left_out` are levels without a usable latency. `sample` holds the values of
    the repeats, where each repeat has all levels.
    """

    iops: float | None
    at_least: bool = False
    left_out: tuple[str, ...] = ()
    absence: NoThroughput | None = None
    sample: Sample


# Throughput and latency of levels by rising load.
_Path = Sequence[tuple[float, float]]


def within(curve: LoadCurve, limit: LatencyLimit, samples: Samples) -> Within:
    """Compute the throughput of the curve's closed-loop levels within the limit. Between the last
    level that keeps it and the first that breaks it, throughput is interpolated as a power of
    latency (a straight line of logarithms); nothing is extrapolated."""
    path: list[tuple[float, float]] = []
    known: list[LoadPoint] = []
    for point in curve.closed:
        iops, latency = point.usable(Metric.IOPS), point.usable(limit.metric)
        if iops is not None and latency is not None:
            path.append((iops, latency))
            known.append(point)
    left_out = tuple(point.level for point in curve.closed if point not in known)
    absence = no_latency(curve, limit.metric)
    if absence is None and path[0][1] > limit.below_s:
        absence = NoThroughput(reason=NoThroughputReason.LOWEST_LEVEL_ABOVE, limit=limit)
    if absence is not None:
        empty = Sample(value=None)
        return Within(iops=None, left_out=left_out, absence=absence, sample=empty)
    value = crossing(path, limit.below_s)
    return Within(
        iops=value,
        at_least=all(latency <= limit.below_s for _, latency in path),
        left_out=left_out,
        sample=_sample(value, known, limit, samples),
    )


def no_latency(curve: LoadCurve, metric: Metric) -> NoThroughput | None:
    """Return why no closed-loop level has a usable throughput with this latency; else None."""
    points = [point for point in curve.closed if point.usable(Metric.IOPS) is not None]
    if not points:
        return NoThroughput(reason=NoThroughputReason.THROUGHPUT_UNUSABLE)
    if any(point.usable(metric) is not None for point in points):
        return None
    codes = dict.fromkeys(code for point in points for code in error_codes(point.latency(metric)))
    if codes:
        return NoThroughput(reason=NoThroughputReason.LATENCY_REFUSED, findings=tuple(codes))
    return NoThroughput(reason=NoThroughputReason.LATENCY_MISSING)


def crossing(path: _Path, below_s: float) -> float:
    """Compute the highest throughput before latency first exceeds the limit. `path` begins within
    it."""
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
    """The values of the repeats, each with one trial of every level. Empty where a repeat lacks a
    level or does not begin within the limit."""
    repeats: dict[int | str, list[tuple[float, float]]] = {}
    for point in points:
        rates = {trial.trial: trial.value for trial in point.throughput.trials}
        for trial in point.latency(limit.metric).trials:
            rate = rates.get(trial.trial)
            if rate is not None and trial.value is not None:
                repeats.setdefault(samples.repeat(trial.trial), []).append((rate, trial.value))
    first = samples.sample(points[0].throughput, None)
    trials = [samples.repeat(trial.trial) for trial in points[0].throughput.trials]
    blocks = dict(zip(trials, first.blocks, strict=False))
    whole = blocks.keys() == repeats.keys() and all(
        len(path) == len(points) and path[0][1] <= limit.below_s for path in repeats.values()
    )
    return Sample(
        value=value,
        trials=tuple(crossing(path, limit.below_s) for path in repeats.values()) if whole else (),
        blocks=tuple(blocks[repeat] for repeat in repeats) if whole else (),
        imported=first.imported,
    )
