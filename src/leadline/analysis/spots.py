"""The cells of a comparison by what was done where: one operation of one workload on one target,
with all its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.cells import CellFigure
from leadline.analysis.comparison import ComparedCell
from leadline.analysis.verdicts import Verdict
from leadline.findings import Severity
from leadline.metrics import Metric, Op

CHANGED = (Verdict.BETTER, Verdict.WORSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """`cells` are (index in the comparison, cell). `alone`: no other operation shares the depth,
    as far as can be told."""

    target: str
    workload: str
    level: str
    op: Op
    cells: tuple[tuple[int, ComparedCell], ...]
    alone: bool

    @property
    def first(self) -> ComparedCell:
        return self.cells[0][1]

    @property
    def depth(self) -> int | None:
        return self.first.depth

    @property
    def streaming(self) -> bool:
        return self.first.streaming

    @property
    def changed(self) -> bool:
        """Whether any metric is better or worse."""
        return any(cell.verdict in CHANGED for _, cell in self.cells)

    @property
    def verdict(self) -> Verdict:
        """That of the speed; of the mean latency where the speed's is open; else of any metric
        that changed."""
        rates = [cell.verdict for _, cell in self.cells if cell.rate]
        means = [cell.verdict for _, cell in self.cells if cell.metric is Metric.LATENCY_MEAN]
        for verdict in (*rates, *means):
            if verdict in (*CHANGED, Verdict.SAME):
                return verdict
        found = [cell.verdict for _, cell in self.cells if cell.verdict in CHANGED]
        return (found or [cell.verdict for _, cell in self.cells])[0]

    def indices(self, verdicts: Iterable[Verdict]) -> tuple[int, ...]:
        """Of the cells with these verdicts."""
        wanted = set(verdicts)
        return tuple(index for index, cell in self.cells if cell.verdict in wanted)

    @property
    def by_mean(self) -> bool:
        """Whether the extra latency is that of measured means."""
        return None not in self._values(Metric.LATENCY_MEAN)

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
        if ours is not None and theirs is not None:
            return ours, theirs
        ours, theirs = self._values(Metric.IOPS)
        if self.depth is None or not self.alone or not ours or not theirs:
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
        )
        for (target, workload, level, op), found in grouped.items()
    )


def without_sums(spots: Sequence[Spot]) -> list[Spot]:
    """Leaves out totals whose reads and writes are there with latencies of their own."""
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
