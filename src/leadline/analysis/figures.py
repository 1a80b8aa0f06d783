"""The figures of a run: one row for each cell and operation, made from its completed trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import product
from statistics import median

from leadline.analysis.resource_use import NOTHING, ResourceUse, resource_use
from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.findings import Finding, Severity
from leadline.metrics import COSTS, IO_METRICS, Measurement, Metric, Op, Spread
from leadline.plan.models import Cell
from leadline.stats.histogram import LatencyHistogram, samples_needed

# 2 x (1/2)^n must not exceed 5 %: true from n = 6 on.
TRIALS_FOR_INTERVAL = 6
# Below five values the median absolute deviation is one or two gaps, and flags at random.
TRIALS_FOR_OUTLIERS = 5
_MAD_LIMIT = 14.826


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Compute an interval for the median of the distribution, with a coverage of at least 95 %.

    The order statistics x(k) and x(n+1-k) with the largest k whose coverage
    1 - 2 P(Bin(n, 1/2) < k) is at least 95 %, exact in integers; None below six values, where no
    such pair exists. Source: David and Nagaraja, Order Statistics, section 7.1.
    """
    rank = interval_rank(len(values))
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[-rank]


def interval_rank(count: int) -> int | None:
    """Return the k of `median_interval` for `count` values, counted from 1; None without one."""
    below = 0
    rank = 0
    while rank < count:
        below += math.comb(count, rank)
        if 2 * below * 20 > 2**count:
            break
        rank += 1
    return rank or None


def outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Flag values further than 14.826 x MAD from the median (10 standard deviations of a
    normal distribution). Marked, never removed; nothing is marked below five values."""
    if len(values) < TRIALS_FOR_OUTLIERS:
        return (False,) * len(values)
    middle = median(values)
    spread = median(abs(value - middle) for value in values)
    return tuple(spread > 0 and abs(value - middle) > _MAD_LIMIT * spread for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingMark:
    """A finding about a number: code and severity. `whole_run`: it is about every number."""

    code: str
    severity: Severity
    whole_run: bool = False


class FindingIndex:
    """Findings by target and workload, computed once; the finding of a trial gets the trial's
    cell."""

    def __init__(self, run: Run, findings: Iterable[Finding]) -> None:
        plan = run.plan
        cells = {
            stored.record.trial: (stored.record.target, stored.record.workload, stored.record.level)
            for stored in run.trials
        }
        for trial in plan.trials:
            cell = plan.cells[trial.cell]
            cells[trial.id] = cell.target, cell.workload.name, cell.level
        self._by_place: dict[tuple[str, str], list[Finding]] = {}
        for finding in findings:
            target, workload, level = cells.get(finding.trial or "", ("", "", ""))
            located = replace(
                finding,
                target=finding.target or target,
                workload=finding.workload or workload,
                level=finding.level or level,
            )
            place = located.target or "", located.workload or ""
            self._by_place.setdefault(place, []).append(located)

    def touching(
        self, *, target: str, workload: str, planned: str, level: str, op: Op | None
    ) -> RowFindings:
        """Return the findings about one row of figures.

        `planned` is the workload's name in the plan, which the sections of a job file share.
        """
        places = product(dict.fromkeys(("", target)), dict.fromkeys(("", workload, planned)))
        return RowFindings(
            [
                finding
                for place in places
                for finding in self._by_place.get(place, ())
                if (finding.level or level) == level
                # A total is the sum of its operations: a finding about one is about the total.
                and (None in (finding.op, op) or finding.op is op or op is Op.TOTAL)
            ]
        )


class RowFindings:
    """The findings about a row; some are about its latencies only."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._of_latency = _marks(findings)
        self._of_all = _marks([finding for finding in findings if not finding.latency_only])

    def marks(self, metric: Metric) -> tuple[FindingMark, ...]:
        """Return the findings about one number, the most severe first, without duplicates."""
        return self._of_latency if metric.is_latency else self._of_all


def _marks(findings: Iterable[Finding]) -> tuple[FindingMark, ...]:
    found: dict[tuple[str, Severity], bool] = {}
    for finding in findings:
        key = (finding.code, finding.severity)
        everywhere = not any((finding.target, finding.workload, finding.level, finding.op))
        found[key] = found.get(key, False) or everywhere
    marks = [
        FindingMark(code=code, severity=severity, whole_run=whole)
        for (code, severity), whole in found.items()
    ]
    return tuple(sorted(marks, key=lambda mark: (-mark.severity.order, mark.code)))


METRICS = IO_METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialValue:
    """One completed trial's value in the metric's base unit; None where it is not shown. `spread`
    is set where it is an imported mean over trials."""

    trial: str
    value: float | None
    outlier: bool = False
    spread: Spread | None = None


class Absence(StrEnum):
    """Why a figure has no value. `too-few-ios`: fewer than `samples_needed` of the percentile;
    `no-histogram`: not every trial has one, and percentiles of trials have no mean."""

    NO_COMPLETED_TRIAL = "no-completed-trial"
    NOT_REPORTED = "not-reported"
    NOT_MEASURED = "not-measured"
    NO_HISTOGRAM = "no-histogram"
    TOO_FEW_IOS = "too-few-ios"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFigure:
    """One metric of a cell and operation, in the metric's base unit.

    `value` is the median of the trials, for a percentile that of all trials' I/Os together.
    `interval` is the 95 % interval of the median over trials; `low` and `high` are the extremes of
    the trials. `absence` is the reason for a `value` of None; `ios` counts the I/Os of a percentile
    that has too few.
    """

    metric: Metric
    value: float | None
    trials: tuple[TrialValue, ...] = ()
    interval: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None
    finding_marks: tuple[FindingMark, ...] = ()
    absence: Absence | None = None
    ios: int = 0

    @property
    def findings(self) -> tuple[str, ...]:
        """Codes of the findings about this number, the most severe first."""
        return tuple(dict.fromkeys(mark.code for mark in self.finding_marks))

    @property
    def severity(self) -> Severity | None:
        """The severity of the most severe finding."""
        return self.finding_marks[0].severity if self.finding_marks else None

    @property
    def repeats(self) -> int:
        """The number of trials behind the value; an imported mean is of several."""
        return sum(
            trial.spread.number if trial.spread else 1
            for trial in self.trials
            if trial.value is not None
        )

    @property
    def variation(self) -> float | None:
        """The coefficient of variation of the trials behind an imported mean; None elsewhere."""
        spread = self.trials[0].spread if len(self.trials) == 1 else None
        return spread.deviation / self.value if spread and self.value else None

    @property
    def spread(self) -> float | None:
        """(high - low) / median over the trials: the range as a share of the value."""
        values = [trial.value for trial in self.trials if trial.value is not None]
        if len(values) < 2 or self.low is None or self.high is None:
            return None
        middle = median(values)
        return (self.high - self.low) / middle if middle > 0 else None


def scaled(figure: MetricFigure, metric: Metric, factor: float) -> MetricFigure:
    """Return a figure as another metric, all its values times `factor`."""

    def times(value: float | None) -> float | None:
        return None if value is None else value * factor

    ends = figure.interval
    return replace(
        figure,
        metric=metric,
        value=times(figure.value),
        trials=tuple(
            replace(
                trial,
                value=times(trial.value),
                spread=trial.spread
                and replace(trial.spread, deviation=trial.spread.deviation * factor),
            )
            for trial in figure.trials
        ),
        interval=ends and (ends[0] * factor, ends[1] * factor),
        low=times(figure.low),
        high=times(figure.high),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigure:
    """A row: one target, workload, level and operation. `completed` and `planned` count trials.

    `planned_workload` is the workload's name in the plan; `workload` adds the section of a job
    file that has several. `op` is None if no operation ran. `ios` counts the I/Os
    behind the percentiles, all trials together; `histogram` is theirs, None where a trial has none.
    `costs` are those of an I/O that were measured, in the row of all I/Os of the trials.
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
    costs: tuple[MetricFigure, ...] = ()
    histogram: LatencyHistogram | None = field(default=None, repr=False, hash=False)

    @property
    def missing(self) -> bool:
        """Whether no trial was completed."""
        return self.completed == 0

    def metric(self, metric: Metric) -> MetricFigure:
        if not metric.is_cost:
            return self.metrics[METRICS.index(metric)]
        known = (figure for figure in self.costs if figure.metric is metric)
        absent = MetricFigure(metric=metric, value=None, absence=Absence.NOT_MEASURED)
        return next(known, absent)


_Key = tuple[str, str, str, Op | None]


def figures(run: Run, findings: Iterable[Finding]) -> tuple[CellFigure, ...]:
    """Compute a row per cell and operation in the plan's order, including cells without data.

    Values are of completed trials. A number with an `error` finding is kept with its finding;
    rankings and comparisons check it.
    """
    index = FindingIndex(run, findings)
    completed = {
        trial.record.trial for trial in run.trials if trial.record.status is TrialStatus.COMPLETED
    }
    position = {trial.id: trial.position for trial in run.plan.trials}
    rows: dict[_Key, list[Measurement]] = {}
    for row in run.measurements():
        rows.setdefault((row.target, row.workload, row.level, row.op), []).append(row)

    trials_of: dict[int, list[str]] = {}
    for trial in run.plan.trials:
        trials_of.setdefault(trial.cell, []).append(trial.id)
    # Cells are many, and each has few of the rows. The sections of a job file of the user have
    # names of their own.
    reported: dict[tuple[str, str, str | None], list[_Key]] = {}
    for key in rows:
        for workload in (key[1], None):
            reported.setdefault((key[0], key[2], workload), []).append(key)

    uses = _Uses(run)
    found: list[CellFigure] = []
    for number, cell in enumerate(run.plan.cells):
        trials = trials_of.get(number, [])
        done = sum(trial in completed for trial in trials)
        own_name = None if cell.workload.job_file else cell.workload.name
        left_over = [
            key for key in reported.get((cell.target, cell.level, own_name), ()) if key in rows
        ]
        keys = _keys_of(cell, left_over)
        whole = _row_of_all_ios(cell, keys)
        for key in keys:
            ordered = sorted(rows.pop(key, []), key=lambda row: position.get(row.trial, -1))
            figure = _figure(key, cell.workload.name, ordered, len(trials), done, index)
            if key == whole:
                figure = replace(figure, costs=_costs(figure, cell, uses))
            found.append(figure)
    # Measurements outside the plan, for example after an edit of the plan, are kept.
    for key, left in rows.items():
        done = len({row.trial for row in left})
        found.append(_figure(key, key[1], left, 0, done, index))
    return tuple(found)


def _keys_of(cell: Cell, reported: Iterable[_Key]) -> list[_Key]:
    """Return the rows of a cell: the expected ones, and its own of those `reported` of its target
    and level."""
    name = cell.workload.name
    own_file = cell.workload.job_file is not None
    measured: list[_Key] = [
        key for key in reported if key[1] == name or (own_file and key[1].startswith(f"{name}/"))
    ]
    expected: list[_Key] = [(cell.target, name, cell.level, op) for op in expected_ops(cell)]
    if not expected and not measured:
        expected = [(cell.target, name, cell.level, None)]
    order = list(Op)
    measured.sort(key=lambda key: (key[1], order.index(key[3]) if key[3] else -1))
    return [*expected, *(key for key in measured if key not in expected)]


def expected_ops(cell: Cell) -> tuple[Op, ...]:
    """Return the operations that a trial must report, with the total of a mixed phase."""
    ops = cell.workload.ops
    if cell.workload.database:
        return ops
    mixed = any(len(phase.pattern.ops) > 1 for phase in cell.workload.phases)
    return (*ops, Op.TOTAL) if mixed else ops


def _row_of_all_ios(cell: Cell, keys: Sequence[_Key]) -> _Key | None:
    """Return the row whose rate is that of all I/Os of a trial, which its resources were used for;
    None where there is none. An fsync belongs to the writes before it."""
    work = cell.workload
    if work.job_file is not None or work.lifecycle or len(work.phases) > 1:
        return None
    total = [key for key in keys if key[3] is Op.TOTAL]
    parts = [key for key in keys if key[3] not in (None, Op.SYNC)]
    whole = total or parts
    return whole[0] if len(whole) == 1 else None


class _Uses:
    """The resources that the completed trials of a run used, computed when they are needed."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._trials = {trial.record.trial: trial for trial in run.trials}

    @cached_property
    def _devices(self) -> dict[str, frozenset[str]]:
        """The disks below each target on this machine, by target."""
        try:
            stacks = self._run.stacks
        except LeadlineError:
            return {}  # the run's page reports it
        blocks = {
            target: [layer.devices for layer in layers if layer.devices]
            for target, layers in stacks.items()
        }
        return {target: frozenset(found[-1]) for target, found in blocks.items() if found}

    def of_trial(self, name: str, cell: Cell) -> ResourceUse:
        trial = self._trials.get(name)
        if trial is None:
            return NOTHING
        return resource_use(trial, cell.workload, self._devices.get(cell.target, frozenset()))


def _costs(figure: CellFigure, cell: Cell, uses: _Uses) -> tuple[MetricFigure, ...]:
    """Compute the costs of an I/O from the rates of the trials; those that no trial measured are
    left out. The findings about the rate are about them too."""
    rate = figure.metric(Metric.IOPS)
    by_trial = {
        trial.trial: uses.of_trial(trial.trial, cell).costs(trial.value)
        for trial in rate.trials
        if trial.value is not None
    }
    return tuple(
        summarise(
            metric,
            [
                TrialValue(trial=trial.trial, value=by_trial.get(trial.trial, {}).get(metric))
                for trial in rate.trials
            ],
            None,
            finding_marks=rate.finding_marks,
            completed=figure.completed,
        )
        for metric in COSTS
        if any(metric in found for found in by_trial.values())
    )


def _figure(
    key: _Key,
    planned_workload: str,
    rows: Sequence[Measurement],
    planned: int,
    completed: int,
    index: FindingIndex,
) -> CellFigure:
    """`planned` and `completed` count the cell's trials."""
    target, workload, level, op = key
    by_metric: dict[Metric, list[Measurement]] = {metric: [] for metric in METRICS}
    for row in rows:
        by_metric[row.metric].append(row)
    histograms = [
        row.histogram for row in by_metric[Metric.LATENCY_MEAN] if row.histogram is not None
    ]
    # The histogram must cover all trials.
    trials = {row.trial for row in rows}
    whole = len(histograms) == len(trials) and bool(histograms)
    merged = LatencyHistogram.merged(histograms) if whole else None
    about = index.touching(
        target=target, workload=workload, planned=planned_workload, level=level, op=op
    )
    return CellFigure(
        target=target,
        workload=workload,
        planned_workload=planned_workload,
        level=level,
        op=op,
        completed=len(trials),
        planned=planned,
        ios=merged.count if merged else 0,
        metrics=tuple(
            summarise(
                metric,
                [
                    TrialValue(trial=row.trial, value=row.value, spread=row.spread)
                    for row in by_metric[metric]
                ],
                merged,
                finding_marks=about.marks(metric),
                completed=completed,
            )
            for metric in METRICS
        ),
        histogram=merged,
    )


def merge_runs(rows: Sequence[tuple[str, CellFigure]]) -> CellFigure:
    """Merge the rows of one cell in several runs, each given with its run, as if they were of one:
    the trials of all, named RUN:TRIAL."""
    first = rows[0][1]
    histograms = [row.histogram for _, row in rows if row.histogram is not None]
    measured = [row for _, row in rows if not row.missing]
    whole = len(histograms) == len(measured) and bool(histograms)
    merged = LatencyHistogram.merged(histograms) if whole else None
    completed = sum(row.completed for _, row in rows)

    def merge(metric: Metric) -> MetricFigure:
        return summarise(
            metric,
            [
                replace(trial, trial=f"{run}:{trial.trial}")
                for run, row in rows
                for trial in row.metric(metric).trials
            ],
            merged if metric.quantile is not None else None,
            finding_marks=_merge_marks(
                mark for _, row in rows for mark in row.metric(metric).finding_marks
            ),
            completed=completed,
        )

    return replace(
        first,
        completed=completed,
        planned=sum(row.planned for _, row in rows),
        ios=merged.count if merged else 0,
        histogram=merged,
        metrics=tuple(merge(metric) for metric in METRICS),
        costs=tuple(
            merge(metric) for metric in COSTS if any(row.metric(metric).trials for _, row in rows)
        ),
    )


def _merge_marks(marks: Iterable[FindingMark]) -> tuple[FindingMark, ...]:
    found: dict[tuple[str, Severity], FindingMark] = {}
    for mark in marks:
        known = found.get((mark.code, mark.severity))
        if known is None or mark.whole_run:
            found[mark.code, mark.severity] = mark
    return tuple(sorted(found.values(), key=lambda mark: (-mark.severity.order, mark.code)))


def summarise(
    metric: Metric,
    trials: Sequence[TrialValue],
    merged: LatencyHistogram | None,
    *,
    finding_marks: tuple[FindingMark, ...] = (),
    completed: int = 0,
) -> MetricFigure:
    """Summarise one metric from its trials' values and the merged histogram of their I/Os.

    `completed` counts the cell's completed trials, for the reason of a missing value.
    """
    values = [trial.value for trial in trials if trial.value is not None]
    value: float | None = median(values) if values else None
    absence = None
    if not trials:
        absence = Absence.NOT_REPORTED if completed else Absence.NO_COMPLETED_TRIAL
    elif metric.quantile is not None and merged is not None:
        enough = merged.count >= samples_needed(metric.quantile)
        value = merged.quantile_s(metric.quantile) if enough else None
        absence = None if enough else Absence.TOO_FEW_IOS
    # One trial may have a percentile that its tool printed; several of those have no sum.
    elif metric.quantile is not None and (len(trials) > 1 or value is None):
        value, absence = None, Absence.NO_HISTOGRAM
    elif value is None:
        absence = Absence.NOT_MEASURED
    flagged = outliers(values)
    if any(flagged):
        flags = iter(flagged)
        trials = [
            replace(trial, outlier=trial.value is not None and next(flags)) for trial in trials
        ]
    return MetricFigure(
        metric=metric,
        value=value,
        trials=tuple(trials),
        # An interval needs all trials.
        interval=median_interval(values) if len(values) == len(trials) else None,
        low=min(values) if values else None,
        high=max(values) if values else None,
        finding_marks=finding_marks,
        absence=absence,
        ios=merged.count if merged and absence is Absence.TOO_FEW_IOS else 0,
    )
