"""How many trials find a change of a given size: the power of a plan before it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.figures import CellFigure
from leadline.analysis.samples import Samples
from leadline.analysis.verdicts import BETWEEN_RUNS, REPEATS_DEVIATION, Sample
from leadline.archive.reader import Run
from leadline.metrics import MARGIN, Metric, Op
from leadline.plan.models import Cell, Plan
from leadline.stats.effects import LEAST_DEVIATION, Estimate
from leadline.stats.families import LEVEL
from leadline.stats.moderation import moderate
from leadline.stats.outlook import Scatter, TrialsNeeded, trials_needed

# Coefficients of variation of 180 groups of three runs on a production Ceph cluster: median, 90th
# percentile and worst, standard deviations with n - 1 (methodology, section 3).
REPEATS = Scatter(median=0.02, ninetieth=REPEATS_DEVIATION, worst=0.44)

# Workload, level and operation.
Where = tuple[str, str, Op | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPower:
    """What a workload, level and operation needs on each target. `scatter` is the standard
    deviation of a trial's rate as a share, `measured` in the earlier run or else the published
    median; `trials` is None where 1,000 are not enough."""

    workload: str
    level: str
    op: Op | None
    scatter: float
    measured: bool
    trials: TrialsNeeded | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """Trials that show a `change` of a rate to be beyond the `margin` (shares) with a probability
    of 80 %, where it is the only one among `comparisons`.

    `across_runs`: the plan has one target, which is compared with that of another run. `run` is the
    earlier run that the scatter is of, empty for the published scatter.
    """

    change: float
    margin: float
    run: str
    comparisons: int
    across_runs: bool
    cells: tuple[CellPower, ...]

    def repeats(self, cell: Cell) -> int | None:
        """The trials that a cell of the plan needs; None where 1,000 are not enough."""
        found = [
            one.trials
            for one in self.cells
            if (one.workload, one.level) == (cell.workload.name, cell.level)
        ]
        known = [trials.number for trials in found if trials is not None]
        return max(known) if len(known) == len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scatter:
    """The variance of a trial's log rate, known with `freedom` degrees, of which `own`."""

    variance: float
    freedom: float
    own: float


def plan_power(
    plan: Plan,
    change: float,
    *,
    margin: float = MARGIN,
    like: tuple[Run, Iterable[CellFigure]] | None = None,
) -> Power:
    """Compute what a plan needs, from the scatter of the earlier run `like` with its figures.

    The targets of a plan are interleaved and compared with each other. The trials are those of
    stats.outlook.trials_needed for a true change of that size, one-sided at the level that
    Benjamini-Hochberg gives the only change among all comparisons. Without an earlier run the
    number is that of the published median scatter, its range ends at the 90th percentile. Raises
    ValueError where `change` is not larger than `margin`.
    """
    if not margin < change < math.inf:
        raise ValueError("a change within the margin counts as none")
    measured = _measured_scatter(*like) if like else {}
    across = len(plan.targets) < 2
    places = dict.fromkeys((cell.workload.name, cell.level) for cell in plan.cells)
    ops: dict[tuple[str, str], list[Op | None]] = {}
    for workload, level, op in measured:
        ops.setdefault((workload, level), []).append(op)
    rows: list[Where] = [(*place, op) for place in places for op in ops.get(place, [None])]
    comparisons = len(rows) * max(1, len(plan.targets) - 1)
    median = _Scatter(variance=REPEATS.median**2, freedom=math.inf, own=math.inf)
    worse = replace(median, variance=REPEATS.ninetieth**2)
    needed, at_worst = (
        _needed(
            [measured.get(row, other) for row in rows], change, margin, comparisons, across=across
        )
        for other in (median, worse)
    )
    cells = []
    for row, trials, most in zip(rows, needed, at_worst, strict=True):
        known = measured.get(row)
        if known is None and trials is not None:
            trials = replace(trials, low=trials.number, high=most.number if most else None)
        cells.append(
            CellPower(
                workload=row[0],
                level=row[1],
                op=row[2],
                scatter=math.sqrt((known or median).variance),
                measured=known is not None,
                trials=trials,
            )
        )
    return Power(
        change=change,
        margin=margin,
        run=like[0].id if like else "",
        comparisons=comparisons,
        across_runs=across,
        cells=tuple(cells),
    )


def _needed(
    scatter: list[_Scatter], change: float, margin: float, comparisons: int, *, across: bool
) -> list[TrialsNeeded | None]:
    estimates = [
        Estimate(
            # Upwards a change is nearer to the margin than downwards, on the log scale.
            value=math.log1p(change),
            error=0.0,
            freedom=math.inf,
            scale=math.sqrt(2 * one.variance),
            scale_freedom=one.freedom,
            own_freedom=min(one.own, one.freedom),
            between=math.sqrt(2) * BETWEEN_RUNS if across else 0.0,
            paired=not across,
        )
        for one in scatter
    ]
    count = len(estimates)
    lower, upper = np.full(count, math.log1p(-margin)), np.full(count, math.log1p(margin))
    return trials_needed(estimates, lower, upper, np.full(count, LEVEL / 2 / comparisons))


def _measured_scatter(run: Run, figures: Iterable[CellFigure]) -> Mapping[Where, _Scatter]:
    """The scatter of rates in a run with repeats, moderated over its cells."""
    samples, found = Samples(run), dict[Where, list[Sample]]()
    for figure in figures:
        sample = samples.sample(figure.metric(Metric.IOPS), figure.op)
        if not sample.errors and len(sample.trials) > 1 and min(sample.trials) > 0:
            where = (figure.planned_workload, figure.level, figure.op)
            found.setdefault(where, []).append(sample)
    own = {where: _residuals(group) for where, group in found.items()}
    if not own:
        return {}
    variance, freedom = np.array(list(own.values()), dtype=np.float64).T
    pooled = moderate(np.maximum(variance, LEAST_DEVIATION**2), freedom)
    return {
        where: _Scatter(
            variance=float(pooled.variance[at]), freedom=float(pooled.freedom[at]), own=freedom[at]
        )
        for at, where in enumerate(own)
    }


def _residuals(group: list[Sample]) -> tuple[float, float]:
    """The variance of log trials and its degrees of freedom: without what blocks share where all
    targets have the same two blocks or more; else of each target alone."""
    logs = [dict(zip(one.blocks, np.log(one.trials), strict=True)) for one in group]
    blocks = [block for block in logs[0] if all(block in one for one in logs)]
    if len(group) > 1 and len(blocks) > 1:
        table = np.array([[one[block] for block in blocks] for one in logs])
        left = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        freedom = (len(group) - 1) * (len(blocks) - 1)
        return float((left**2).sum()) / freedom, freedom
    each = [np.array(list(one.values())) for one in logs]
    freedom = sum(len(values) - 1 for values in each)
    return sum(float(((v - v.mean()) ** 2).sum()) for v in each) / freedom, freedom
