"""The overall effect: one mean change over the rates, by operation and by block size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from leadline.analysis.comparison import ComparedCell, OverallEffect
from leadline.analysis.verdicts import Evidence, Verdict
from leadline.metrics import STAGES, Op
from leadline.stats.overall import FEWEST, overall_effect

_OPS = (Op.WRITE, Op.READ, Op.TRIM, Op.TOTAL, Op.SYNC, Op.TRANSACTION, *STAGES)
_BLOCKS = (("small", False), ("large", True))


def overall_effects(
    cells: Sequence[ComparedCell], band: float, between_runs: float
) -> tuple[OverallEffect, ...]:
    """Compute the effect over all rates, by operation, and by block size where an operation has
    both; each of at least three cells.

    `band` is the equivalence margin, `between_runs` the standard deviation between runs as a share,
    0 for systems of one run. Totals whose reads and writes are given count by operation alone.
    """
    found = []
    for op, blocks, group in _groups([cell for cell in cells if _usable(cell)]):
        if len(group) < FEWEST:
            continue
        shared, freedom = _shared_error(group, between_runs)
        effect = overall_effect(
            [math.log(cell.judgement.ratio or 1.0) for cell in group],
            [_own_error(cell) for cell in group],
            shared,
            freedom,
        )
        looks = max((one.judgement.looks for one in group if one.judgement.looks), default=None)
        interval = effect.interval(looks=looks)
        found.append(
            OverallEffect(
                op=op,
                blocks=blocks,
                cells=len(group),
                ratio=effect.ratio,
                interval=interval,
                verdict=_verdict(interval, band),
            )
        )
    return tuple(found)


def without_totals(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """Leave out totals whose reads and writes are given."""
    parts = {(cell.target, cell.workload, cell.level) for cell in cells if cell.op is not Op.TOTAL}
    return [
        cell
        for cell in cells
        if cell.op is not Op.TOTAL or (cell.target, cell.workload, cell.level) not in parts
    ]


def _groups(
    cells: Sequence[ComparedCell],
) -> Iterator[tuple[Op | None, str | None, list[ComparedCell]]]:
    yield None, None, without_totals(cells)
    for op in _OPS:
        group = [cell for cell in cells if cell.op is op]
        yield op, None, group
        split = [(name, [one for one in group if one.streaming is is_]) for name, is_ in _BLOCKS]
        if all(some for _, some in split):
            for name, some in split:
                yield op, name, some


def _usable(cell: ComparedCell) -> bool:
    known = cell.judgement.ratio is not None and cell.verdict is not Verdict.NOT_COMPARABLE
    return cell.rate and known


def _own_error(cell: ComparedCell) -> float:
    """Return the standard error of a cell without the part that all cells share; 0 where unknown:
    the variance between cells then includes it."""
    estimate = cell.judgement.estimate
    if estimate is None or cell.judgement.evidence is Evidence.ONE_NUMBER:
        return 0.0
    return math.sqrt(max(estimate.error**2 - estimate.shared**2, 0.0))


def _shared_error(cells: Sequence[ComparedCell], between_runs: float) -> tuple[float, float]:
    """Return the standard error that runs add to all cells, and its degrees of freedom: the largest
    one that was estimated from several runs, else the one that is assumed."""
    estimates = [cell.judgement.estimate for cell in cells]
    measured = [
        (estimate.shared, estimate.shared_freedom)
        for estimate in estimates
        if estimate is not None and estimate.of_runs
    ]
    return max(measured, default=(math.sqrt(2) * between_runs, math.inf))


def _verdict(interval: tuple[float, float], band: float) -> Verdict:
    low, high = interval
    if low > 1 + band:
        return Verdict.BETTER
    if high < 1 - band:
        return Verdict.WORSE
    return Verdict.SAME if low >= 1 - band and high <= 1 + band else Verdict.INCONCLUSIVE
