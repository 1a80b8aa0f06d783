"""The cells of a comparison by what was done where: one operation of one workload on one target,
with all its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import CellFigure
from leadline.analysis.verdicts import Verdict
from leadline.findings import Severity
from leadline.metrics import Metric, Op

CHANGED = (Verdict.BETTER, Verdict.WORSE)
_NOT_REACHED = "queue-depth-not-reached"
# Share of the depth asked for from which on latencies fill the queue.
_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """`cells` are (index in the comparison, cell). `alone`: no other operation shares the depth,
    as far as can be told; `mixed`: another one does, a total of them being there."""

    target: str
    workload: str
    level: str
    op: Op
    cells: tuple[tuple[int, ComparedCell], ...]
    alone: bool
    mixed: bool = False

    @property
    def first(self) -> ComparedCell:
        return self.cells[0][1]

    @property
    def depth(self) -> int | None:
        """I/Os in flight: those asked for, or one of each job where they went in turn."""
        return self.first.jobs if self.in_turn else self.first.depth

    @property
    def in_turn(self) -> bool:
        """Whether I/Os went one after the other on both sides though a queue was asked for: the
        audit says that its depth was not reached, and the latencies fill it (Little's law), so
        that they hold the wait for the I/Os before. They are then no time that one I/O took."""
        cell = self.first
        if cell.depth is None or cell.jobs is None or cell.jobs == cell.depth:
            return False
        figures = (cell.baseline_cell, cell.candidate_cell)
        products = [
            (rate or 0.0) * (mean or 0.0)
            for rate, mean in zip(self.iops, self._values(Metric.LATENCY_MEAN), strict=True)
        ]
        return all(
            figure is not None and _NOT_REACHED in figure.metric(Metric.IOPS).findings
            for figure in figures
        ) and (self.mixed or min(products) >= _FULL * cell.depth)

    @property
    def streaming(self) -> bool:
        return self.first.streaming

    @property
    def changed(self) -> bool:
        """Whether any metric is better or worse."""
        return any(cell.verdict in CHANGED for _, cell in self.cells)

    @property
    def speed(self) -> Verdict | None:
        """The verdict of the speed, or of the mean latency where that is open; None where both
        are."""
        rates = [cell.verdict for _, cell in self.cells if cell.rate]
        means = [cell.verdict for _, cell in self.cells if cell.metric is Metric.LATENCY_MEAN]
        decided = (one for one in (*rates, *means) if one in (*CHANGED, Verdict.SAME))
        return next(decided, None)

    @property
    def tail(self) -> Verdict | None:
        """The verdict of the highest percentile that changed; None where none did."""
        found = [
            cell.verdict
            for _, cell in self.cells
            if cell.metric.quantile is not None and cell.verdict in CHANGED
        ]
        return found[-1] if found else None

    @property
    def verdict(self) -> Verdict:
        """That of the speed; where it is open that of any metric that changed."""
        found = [cell.verdict for _, cell in self.cells if cell.verdict in CHANGED]
        return self.speed or (found or [cell.verdict for _, cell in self.cells])[0]

    def indices(self, verdicts: Iterable[Verdict]) -> tuple[int, ...]:
        """Of the cells with these verdicts."""
        wanted = set(verdicts)
        return tuple(index for index, cell in self.cells if cell.verdict in wanted)

    @property
    def by_mean(self) -> bool:
        """Whether the extra latency is that of measured means."""
        return not self.in_turn and None not in self._values(Metric.LATENCY_MEAN)

    @property
    def extra_s(self) -> float | None:
        """Seconds that one I/O takes longer at the candidate: the difference of means; without
        them N (1/X2 - 1/X1), the closed loop's, with N I/Os in flight. None where neither can be
        had."""
        latencies = self.latencies_s
        return None if latencies is None else latencies[1] - latencies[0]

    @property
    def latencies_s(self) -> tuple[float, float] | None:
        """Mean latency on both sides in seconds, measured or by Little's law."""
        ours, theirs = self._values(Metric.LATENCY_MEAN)
        if self.by_mean and ours is not None and theirs is not None:
            return ours, theirs
        ours, theirs = self._values(Metric.IOPS)
        # Where latencies of its own fill the queue, no other operation is in it.
        unshared = self.alone or (self.in_turn and not self.mixed)
        if self.depth is None or not unshared or not ours or not theirs:
            return None
        return self.depth / ours, self.depth / theirs

    @property
    def iops(self) -> tuple[float | None, float | None]:
        return self._values(Metric.IOPS)

    def _values(self, metric: Metric) -> tuple[float | None, float | None]:
        ours, theirs = self.first.baseline_cell, self.first.candidate_cell
        return _believed(ours, metric), _believed(theirs, metric)


def _believed(figure: CellFigure | None, metric: Metric) -> float | None:
    """A value under no `error` finding."""
    found = figure.metric(metric) if figure else None
    return None if found is None or found.severity is Severity.ERROR else found.value


def spots_of(cells: Sequence[ComparedCell]) -> tuple[Spot, ...]:
    """In the order of the cells; those of no operation, where nothing ran, are left out."""
    grouped: dict[tuple[str, str, str, Op], list[tuple[int, ComparedCell]]] = {}
    for index, cell in enumerate(cells):
        if cell.op is not None:
            key = (cell.target, cell.workload, cell.level, cell.op)
            grouped.setdefault(key, []).append((index, cell))
    return tuple(
        Spot(
            target=target,
            workload=workload,
            level=level,
            op=op,
            cells=tuple(found),
            # A total holds all that was in flight; beside another operation one cannot tell
            # whether the two ran together.
            alone=op is Op.TOTAL
            or not any(
                (target, workload, level, other) in grouped for other in Op if other is not op
            ),
            mixed=op is not Op.TOTAL and (target, workload, level, Op.TOTAL) in grouped,
        )
        for (target, workload, level, op), found in grouped.items()
    )


def without_sums(spots: Sequence[Spot]) -> list[Spot]:
    """Leaves out totals whose reads and writes are there with latencies of their own, and reads
    and writes that went in turn with each other."""
    turns = {
        (spot.target, spot.workload, spot.level)
        for spot in spots
        if spot.op is Op.TOTAL and spot.changed and spot.in_turn
    }
    spots = [
        spot
        for spot in spots
        if spot.op is Op.TOTAL or (spot.target, spot.workload, spot.level) not in turns
    ]
    parts = {
        (spot.target, spot.workload, spot.level)
        for spot in spots
        if spot.op is not Op.TOTAL and spot.changed and spot.extra_s is not None
    }
    return [
        spot
        for spot in spots
        if spot.op is not Op.TOTAL or (spot.target, spot.workload, spot.level) not in parts
    ]
