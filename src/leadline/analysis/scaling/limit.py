"""The last load level whose latency keeps a limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint, refused
from leadline.metrics import Metric
from leadline.plan.latency_limit import LatencyLimit


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
