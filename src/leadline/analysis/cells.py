"""The figures of a run: one row for each cell and operation, made from its completed trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from leadline.analysis.doubts import Doubt, DoubtIndex
from leadline.analysis.intervals import median_interval, outliers
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.findings import Finding, Severity
from leadline.metrics import Measurement, Metric, Op
from leadline.plan.models import Cell
from leadline.stats.histogram import LatencyHistogram, samples_needed

METRICS: tuple[Metric, ...] = tuple(Metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialValue:
    """One completed trial's value in the metric's base unit; None where it is not shown."""

    trial: str
    value: float | None
    outlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFigure:
    """One metric of a cell and operation, in the metric's base unit.

    `value` is the median of the trials, for a percentile that of all trials' I/Os together.
    `interval` is the 95 % interval of the median over trials; `low` and `high` are the extremes of
    the trials. `absence` says why `value` is None and is empty otherwise.
    """

    metric: Metric
    value: float | None
    trials: tuple[TrialValue, ...] = ()
    interval: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None
    doubts: tuple[Doubt, ...] = ()
    absence: str = ""

    @property
    def findings(self) -> tuple[str, ...]:
        """Codes of the findings that touch this number, the most severe first."""
        return tuple(dict.fromkeys(doubt.code for doubt in self.doubts))

    @property
    def severity(self) -> Severity | None:
        """The most severe doubt about this number."""
        return self.doubts[0].severity if self.doubts else None

    @property
    def spread(self) -> float | None:
        """(high - low) / median over the trials: the range as a share of the value."""
        values = [one.value for one in self.trials if one.value is not None]
        if len(values) < 2 or self.low is None or self.high is None:
            return None
        middle = median(values)
        return (self.high - self.low) / middle if middle > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigure:
    """A row: one target, workload, level and operation. `completed` and `planned` count trials.

    `planned_workload` is the workload's name in the plan; `workload` adds the section of a job
    file that has several. `op` is None where nothing ran that could tell. `ios` counts the I/Os
    behind the percentiles, all trials together; `histogram` is theirs, None where a trial has none.
    """

    target: str
    workload: str
    planned_workload: str
    level: str
    op: Op | None
    completed: int
    planned: int
    ios: int = 0
    metrics: tuple[MetricFigure, ...]
    histogram: LatencyHistogram | None = field(default=None, repr=False, hash=False)

    @property
    def missing(self) -> bool:
        """No trial was completed, so there is no number."""
        return self.completed == 0

    def metric(self, metric: Metric) -> MetricFigure:
        return self.metrics[METRICS.index(metric)]


_Key = tuple[str, str, str, Op | None]


def figures(run: Run, findings: Iterable[Finding]) -> tuple[CellFigure, ...]:
    """A row per cell and operation in the plan's order; cells without data are there, as missing.

    Values come from completed trials alone. A number under an `error` finding is kept and carries
    the finding: whoever ranks or compares must look.
    """
    doubts = DoubtIndex(run, findings)
    completed = {
        trial.record.trial for trial in run.trials if trial.record.status is TrialStatus.COMPLETED
    }
    position = {trial.id: trial.position for trial in run.plan.trials}
    rows: dict[_Key, list[Measurement]] = {}
    for row in run.measurements():
        rows.setdefault((row.target, row.workload, row.level, row.op), []).append(row)

    found: list[CellFigure] = []
    for index, cell in enumerate(run.plan.cells):
        trials = [trial.id for trial in run.plan.trials if trial.cell == index]
        keys = _keys_of(cell, rows)
        for key in keys:
            ordered = sorted(rows.pop(key, []), key=lambda row: position.get(row.trial, -1))
            found.append(
                _figure(
                    key,
                    cell.workload.name,
                    ordered,
                    planned=len(trials),
                    cell_completed=sum(trial in completed for trial in trials),
                    doubts=doubts,
                )
            )
    # What the plan does not know, as from a plan edited by hand: shown, not dropped in silence.
    for key, left in rows.items():
        count = len({row.trial for row in left})
        found.append(_figure(key, key[1], left, planned=0, cell_completed=count, doubts=doubts))
    return tuple(found)


def _keys_of(cell: Cell, rows: Mapping[_Key, Sequence[Measurement]]) -> list[_Key]:
    """Rows that a cell gives: what it must report, and what it did report."""
    name = cell.workload.name
    own_file = cell.workload.job_file is not None
    measured: list[_Key] = [
        key
        for key in rows
        if key[0] == cell.target
        and key[2] == cell.level
        and (key[1] == name or (own_file and key[1].startswith(f"{name}/")))
    ]
    expected: list[_Key] = [(cell.target, name, cell.level, op) for op in expected_ops(cell)]
    if not expected and not measured:
        expected = [(cell.target, name, cell.level, None)]
    return [*expected, *(key for key in sorted_by_op(measured) if key not in expected)]


def sorted_by_op(keys: Iterable[_Key]) -> list[_Key]:
    order = list(Op)
    return sorted(keys, key=lambda key: (key[1], order.index(key[3]) if key[3] else -1))


def expected_ops(cell: Cell) -> tuple[Op, ...]:
    """Operations that a trial of the cell must report, with the total of a mixed phase."""
    ops = cell.workload.ops
    mixed = any(len(phase.pattern.ops) > 1 for phase in cell.workload.phases)
    return (*ops, Op.TOTAL) if mixed else ops


def _figure(
    key: _Key,
    planned_workload: str,
    rows: Sequence[Measurement],
    *,
    planned: int,
    cell_completed: int,
    doubts: DoubtIndex,
) -> CellFigure:
    target, workload, level, op = key
    by_metric: dict[Metric, list[Measurement]] = {metric: [] for metric in METRICS}
    for row in rows:
        by_metric[row.metric].append(row)
    histograms = [
        row.histogram for row in by_metric[Metric.LATENCY_MEAN] if row.histogram is not None
    ]
    # A part of the trials' I/Os would pass for all of them.
    trials = {row.trial for row in rows}
    whole = len(histograms) == len(trials) and bool(histograms)
    merged = LatencyHistogram.merged(histograms) if whole else None
    made = []
    touching = doubts.touching(
        target=target, workload=workload, planned=planned_workload, level=level, op=op
    )
    for metric in METRICS:
        given = [TrialValue(trial=row.trial, value=row.value) for row in by_metric[metric]]
        about = touching.of(metric)
        made.append(summarise(metric, given, merged, doubts=about, completed=cell_completed))
    return CellFigure(
        target=target,
        workload=workload,
        planned_workload=planned_workload,
        level=level,
        op=op,
        completed=len({row.trial for row in rows}),
        planned=planned,
        ios=merged.count if merged else 0,
        metrics=tuple(made),
        histogram=merged,
    )


def summarise(
    metric: Metric,
    trials: Sequence[TrialValue],
    merged: LatencyHistogram | None,
    *,
    doubts: tuple[Doubt, ...] = (),
    completed: int | None = None,
) -> MetricFigure:
    """One metric from its trials' values and the merged histogram of their I/Os.

    `completed` counts the cell's completed trials, to say why there is no value.
    """
    values = [one.value for one in trials if one.value is not None]
    value: float | None = median(values) if values else None
    absence = ""
    if not trials:
        done = completed if completed is not None else 0
        absence = "the completed trials did not report it" if done else "no completed trial"
    elif metric.quantile is not None and (merged is not None or len(trials) > 1 or not values):
        value, absence = _percentile(metric.quantile, merged)
    elif value is None:
        absence = "not measured"
    flags = iter(outliers(values))
    marked = tuple(
        TrialValue(trial=one.trial, value=one.value, outlier=one.value is not None and next(flags))
        for one in trials
    )
    return MetricFigure(
        metric=metric,
        value=value,
        trials=marked,
        # An interval over a part of the trials would be one over those that suit.
        interval=median_interval(values) if len(values) == len(trials) else None,
        low=min(values) if values else None,
        high=max(values) if values else None,
        doubts=doubts,
        absence=absence,
    )


def _percentile(q: float, merged: LatencyHistogram | None) -> tuple[float | None, str]:
    # One trial may have a percentile that its tool printed; several of those have no sum.
    if merged is None:
        return None, "no latency histogram of every trial"
    needed = samples_needed(q)
    if merged.count < needed:
        return None, f"{merged.count:,} I/Os are fewer than the {needed:,} it needs"
    return merged.quantile_s(q), ""
