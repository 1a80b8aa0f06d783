"""The metrics of a comparison by operation: reads or writes of one workload on one target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.figures import CellFigure
from leadline.analysis.verdicts import REPEATS_DEVIATION, Judgement, Reason, Verdict
from leadline.findings import Severity
from leadline.metrics import STAGES, Metric, Op
from leadline.stats.effects import Estimate
from leadline.stats.families import ALONE

CHANGED = (Verdict.BETTER, Verdict.WORSE)
_NOT_REACHED = "queue-depth-not-reached"
_CAPS = ("capped-by-limit", "flat-ceiling")
# Share of the requested depth from which latencies contain the wait in the queue.
_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCell:
    """All metrics of one operation of a cell, as (index in the comparison, metric).

    `alone`: no other operation of the workload shares the depth. `mixed`: another one does, since
    there is a total of both.
    """

    target: str
    workload: str
    level: str
    op: Op
    metrics: tuple[tuple[int, ComparedCell], ...]
    alone: bool
    mixed: bool = False

    @property
    def first(self) -> ComparedCell:
        return self.metrics[0][1]

    @property
    def depth(self) -> int | None:
        """I/Os in flight: the requested number, or one per job where they were sequential."""
        return self.first.jobs if self.sequential else self.first.depth

    @property
    def sequential(self) -> bool:
        """Whether the I/Os ran one after the other on both systems, in spite of a larger depth.

        The audit found that the depth was not reached, and the latencies fill it (Little's law):
        they include the wait for the I/Os ahead in the queue.
        """
        cell = self.first
        if cell.depth is None or cell.jobs is None or cell.jobs == cell.depth:
            return False
        figures = (cell.baseline_cell, cell.candidate_cell)
        in_flight = [
            (rate or 0.0) * (mean or 0.0)
            for rate, mean in zip(self.iops, self._values(Metric.LATENCY_MEAN), strict=True)
        ]
        return all(
            figure is not None and _NOT_REACHED in figure.metric(Metric.IOPS).findings
            for figure in figures
        ) and (self.mixed or min(in_flight) >= _FULL * cell.depth)

    @property
    def streaming(self) -> bool:
        return self.first.streaming

    @property
    def changed(self) -> bool:
        """Whether any metric is better or worse."""
        return any(cell.verdict in CHANGED for _, cell in self.metrics)

    @property
    def speed(self) -> Verdict | None:
        """The verdict of the rate, else of the mean latency; None where both are inconclusive."""
        rates = [cell.verdict for _, cell in self.metrics if cell.rate]
        means = [cell.verdict for _, cell in self.metrics if cell.metric is Metric.LATENCY_MEAN]
        tested = (verdict for verdict in (*rates, *means) if verdict in (*CHANGED, Verdict.SAME))
        return next(tested, None)

    @property
    def inconclusive(self) -> bool:
        """Whether rate and mean latency have no verdict, and one of them can be compared."""
        return self.speed is None and any(
            cell.verdict is Verdict.INCONCLUSIVE
            and (cell.rate or cell.metric is Metric.LATENCY_MEAN)
            for _, cell in self.metrics
        )

    @property
    def tail(self) -> Verdict | None:
        """The verdict of the highest percentile that changed; None without one."""
        found = [
            cell.verdict
            for _, cell in self.metrics
            if cell.metric.quantile is not None and cell.verdict in CHANGED
        ]
        return found[-1] if found else None

    @property
    def verdict(self) -> Verdict:
        """The verdict of the speed, else of any metric that changed."""
        found = [cell.verdict for _, cell in self.metrics if cell.verdict in CHANGED]
        return self.speed or (found or [cell.verdict for _, cell in self.metrics])[0]

    @property
    def margin(self) -> float:
        """The widest equivalence margin of its metrics, as a share."""
        return max(cell.judgement.band for _, cell in self.metrics)

    def indices(self, verdicts: Iterable[Verdict]) -> tuple[int, ...]:
        """Return the indices of the metrics with these verdicts."""
        wanted = set(verdicts)
        return tuple(index for index, cell in self.metrics if cell.verdict in wanted)

    @property
    def by_mean(self) -> bool:
        """Whether the added latency is the difference of measured means."""
        return not self.sequential and None not in self._values(Metric.LATENCY_MEAN)

    @property
    def added_s(self) -> float | None:
        """Seconds that one I/O takes longer on the candidate; None where that is unknown.

        The difference of the means, else N (1/X2 - 1/X1) of a closed loop with N I/Os in flight.
        """
        latencies = self.latencies_s
        return None if latencies is None else latencies[1] - latencies[0]

    @property
    def added_interval_s(self) -> tuple[float, float] | None:
        """The 95 % interval of `added_s`, from that of the ratio; None where it is unknown.

        The ratio's scatter belongs to both systems: applied to each latency alone, it bounds the
        scatter of their difference.
        """
        latencies, ends = self.latencies_s, self._latency_ratio_interval()
        if latencies is None or ends is None:
            return None
        before, after = latencies
        low, high = ends
        return (
            min(before * (low - 1), after * (1 - 1 / low), after - before),
            max(before * (high - 1), after * (1 - 1 / high), after - before),
        )

    def _latency_ratio_interval(self) -> tuple[float, float] | None:
        """Return the interval of candidate / baseline of the mean latency, else of 1 / rate."""
        for _, cell in self.metrics:
            if cell.metric is Metric.LATENCY_MEAN and self.by_mean:
                found = _interval(cell.judgement)
                if found is not None:
                    return found
        gain = self.gain_interval
        return (1 / gain[1], 1 / gain[0]) if gain else None

    @property
    def gain_interval(self) -> tuple[float, float] | None:
        """The interval of candidate / baseline of the rate; None without a positive one."""
        return self.gain_interval_among(1)

    def gain_interval_among(self, tests: int) -> tuple[float, float] | None:
        """Return the interval of the gain that is one of `tests`: all of them together contain the
        truth in 95 % of cases (Bonferroni)."""
        found = (_interval(cell.judgement, tests) for _, cell in self.metrics if cell.rate)
        return next(found, None)

    @property
    def single_trial(self) -> bool:
        """Whether a system has one trial, so that intervals are those of published repeats."""
        return any(Reason.SINGLE_TRIAL in cell.judgement.reasons for _, cell in self.metrics)

    @property
    def caps(self) -> tuple[str, ...]:
        """The codes of findings that a limit, not the storage, was measured on a system."""
        codes = (
            code
            for _, cell in self.metrics
            for figure in (cell.baseline, cell.candidate)
            if figure is not None
            for code in figure.findings
            if code in _CAPS
        )
        return tuple(dict.fromkeys(codes))

    @property
    def latencies_s(self) -> tuple[float, float] | None:
        """Mean latency of both systems in seconds, measured or by Little's law."""
        baseline, candidate = self._values(Metric.LATENCY_MEAN)
        if self.by_mean and baseline is not None and candidate is not None:
            return baseline, candidate
        baseline, candidate = self.iops
        # Latencies that fill the queue belong to this operation alone.
        unshared = self.alone or (self.sequential and not self.mixed)
        if self.depth is None or not unshared or not baseline or not candidate:
            return None
        return self.depth / baseline, self.depth / candidate

    @property
    def iops(self) -> tuple[float | None, float | None]:
        return self._values(Metric.IOPS)

    @property
    def rates(self) -> tuple[float, float] | None:
        """The rates of both systems in the base unit of their metric; None where one is missing."""
        cell = next((cell for _, cell in self.metrics if cell.rate), None)
        figures = (cell.baseline, cell.candidate) if cell is not None else ()
        values = [figure.value for figure in figures if figure is not None and figure.value]
        return (values[0], values[1]) if len(values) == 2 else None

    def _values(self, metric: Metric) -> tuple[float | None, float | None]:
        return (
            _usable_value(self.first.baseline_cell, metric),
            _usable_value(self.first.candidate_cell, metric),
        )


def _interval(judgement: Judgement, tests: int = 1) -> tuple[float, float] | None:
    """Return the interval of a ratio, one of `tests`. Where single trials have none, it is the
    factor within which two single runs of one system are in 95 % of cases."""
    ratio, interval, estimate = judgement.ratio, judgement.interval, judgement.estimate
    if interval is None and ratio and Reason.SINGLE_TRIAL in judgement.reasons:
        error = math.sqrt(2) * REPEATS_DEVIATION
        estimate = Estimate(value=math.log(ratio), error=error, freedom=math.inf)
        interval = estimate.interval()
    if interval and tests > 1 and estimate is not None:
        level = max(judgement.confidence or 0.0, 1 - (1 - ALONE) / tests)
        interval = estimate.interval(level, judgement.looks)
    return interval if interval and interval[0] > 0 else None


def _usable_value(figure: CellFigure | None, metric: Metric) -> float | None:
    """Return a value without an `error` finding."""
    found = figure.metric(metric) if figure else None
    return None if found is None or found.severity is Severity.ERROR else found.value


_UNEXPLAINED = (*STAGES, Op.TRANSACTION, Op.SYNC)


def group_metrics(cells: Sequence[ComparedCell]) -> tuple[OperationCell, ...]:
    """Group the metrics by cell and operation, in their order; drop those without an operation, and
    the stages of volumes: what explains I/O does not explain a control plane. It explains a
    transaction neither, nor an fsync without a latency."""
    grouped: dict[tuple[str, str, str, Op], list[tuple[int, ComparedCell]]] = {}
    for index, cell in enumerate(cells):
        if cell.op is not None and cell.op not in _UNEXPLAINED:
            key = (cell.target, cell.workload, cell.level, cell.op)
            grouped.setdefault(key, []).append((index, cell))
    return tuple(
        OperationCell(
            target=target,
            workload=workload,
            level=level,
            op=op,
            metrics=tuple(found),
            # A total counts all I/Os in flight; two operations may or may not run together.
            alone=op is Op.TOTAL
            or not any(
                (target, workload, level, other) in grouped for other in Op if other is not op
            ),
            mixed=op is not Op.TOTAL and (target, workload, level, Op.TOTAL) in grouped,
        )
        for (target, workload, level, op), found in grouped.items()
    )


def drop_redundant_totals(cells: Sequence[OperationCell]) -> list[OperationCell]:
    """Drop totals whose reads and writes have latencies, and sequential reads and writes."""

    def place(cell: OperationCell) -> tuple[str, str, str]:
        return cell.target, cell.workload, cell.level

    sequential = {
        place(cell) for cell in cells if cell.op is Op.TOTAL and cell.changed and cell.sequential
    }
    cells = [cell for cell in cells if cell.op is Op.TOTAL or place(cell) not in sequential]
    parts = {
        place(cell)
        for cell in cells
        if cell.op is not Op.TOTAL and cell.changed and cell.added_s is not None
    }
    return [cell for cell in cells if cell.op is not Op.TOTAL or place(cell) not in parts]
