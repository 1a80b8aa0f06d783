"""How many clients at a rate each a target carries before latency passes a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.fairness import Fairness, fairness_of
from leadline.analysis.scaling.limit import LimitPoint, Standing, standing_of
from leadline.archive.reader import Run
from leadline.metrics import Op
from leadline.plan.latency_limit import LatencyLimit
from leadline.plan.models import Density


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
