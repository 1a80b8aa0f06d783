"""The samples of a run's figures: the trials that verdicts are made of."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from leadline.analysis.figures import MetricFigure, TrialValue
from leadline.analysis.verdicts import Sample
from leadline.analysis.workloads import REACHED, requested_iops
from leadline.archive.reader import Run
from leadline.archive.trial import StoredTrial
from leadline.findings import Severity
from leadline.formats.result import FormatError
from leadline.metrics import Metric, Op
from leadline.plan.guard_rules import budget_of
from leadline.stats.sequential import Looks
from leadline.stats.series import mean_standard_error_share

# Findings that a limit was measured.
CAPS = ("capped-by-limit", "flat-ceiling")
# The finding that the limit is the budget of the plan's own guard.
BUDGET = "capped-by-budget"


def planned_looks(run: Run) -> Looks | None:
    """Return the looks of a run that ends when it is decided; None for other runs."""
    stop = run.plan.stop
    return Looks(most=stop.max_repeats, first=stop.first) if stop else None


class Samples:
    """The samples of one run's figures. The seconds of a trial are read once, and only for a cell
    with one trial."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._imported = run.plan.imported
        self._blocks = {trial.id: trial.block for trial in run.plan.trials}
        self._series = {
            target: group.series for group in run.plan.groups for target in group.targets
        }
        self._looks = planned_looks(run)
        self._cell_of = {trial.id: trial.cell for trial in run.plan.trials}
        self._stored: dict[str, StoredTrial] | None = None
        self._shares: dict[tuple[str, Op], float | None] = {}

    def sample(self, figure: MetricFigure, op: Op | None) -> Sample:
        known = [(trial, trial.value) for trial in figure.trials if trial.value is not None]
        # A part of the trials is no sample.
        whole = known if len(known) == len(figure.trials) else []
        alone = len(whole) == 1 and not self._imported
        return Sample(
            value=figure.value,
            trials=tuple(value for _, value in whole),
            blocks=tuple(self._block(one) for one, _ in whole),
            within=tuple(self._within(one, figure, op) for one, _ in whole) if alone else (),
            imported=self._imported,
            run=self._run.id,
            series=self._series_of(whole[0][0]) if whole else None,
            errors=error_codes(figure),
            spread=whole[0][0].spread if len(whole) == 1 else None,
            capped=any(mark.code in CAPS for mark in figure.finding_marks)
            or self._at_requested_rate(figure, op),
            budget_bps=self._budget_bps(figure, op),
            partial=len(known) < len(figure.trials),
            looks=self._looks,
        )

    def _budget_bps(self, figure: MetricFigure, op: Op | None) -> float | None:
        """Return the guard's budget of a cell that reached it; None for others."""
        if not any(mark.code == BUDGET for mark in figure.finding_marks) or not figure.trials:
            return None
        plan = self._run.plan
        workload = plan.cells[self._cell_of[figure.trials[0].trial]].workload
        phases = [phase for phase in workload.phases if op in phase.pattern.ops]
        return budget_of(plan.guard, workload, (phases or workload.phases)[0])

    def _at_requested_rate(self, figure: MetricFigure, op: Op | None) -> bool:
        """Whether the rate is the one that the workload requested: any system that can give it
        has this figure."""
        if figure.metric is not Metric.IOPS or figure.value is None or not figure.trials:
            return False
        cell = self._cell_of.get(figure.trials[0].trial)
        if cell is None:
            return False
        requested = requested_iops(self._run.plan.cells[cell].workload, op)
        return requested is not None and figure.value >= REACHED * requested

    def _block(self, trial: TrialValue) -> Hashable:
        """Return the block of a trial; imported trials have none in common, nor have those of
        different series, which ran one after the other."""
        alone = self._imported or trial.trial not in self._blocks
        block = trial.trial if alone else self._blocks[trial.trial]
        series = self._series_of(trial)
        return (self._run.id, block) if series is None else (self._run.id, series, block)

    def _series_of(self, trial: TrialValue) -> int | None:
        cell = self._cell_of.get(trial.trial)
        return None if cell is None else self._series.get(self._run.plan.cells[cell].target)

    def repeat(self, trial: str) -> int | str:
        """Return the trial's number among the repeats of its cell."""
        return self._blocks.get(trial, trial)

    def _within(self, trial: TrialValue, figure: MetricFigure, op: Op | None) -> float | None:
        """Compute the standard error of a trial's rate as a share, from its own seconds.

        In a closed loop the mean latency has the same error. Percentiles and costs have none.
        """
        if figure.metric.quantile is not None or figure.metric.is_cost or op is None:
            return None
        key = (trial.trial, op)
        if key not in self._shares:
            if self._stored is None:
                self._stored = {one.record.trial: one for one in self._run.trials}
            self._shares[key] = _error_share(self._stored.get(trial.trial), op)
        return self._shares[key]


def merge_samples(value: float | None, samples: Sequence[Sample]) -> Sample:
    """Merge the samples of one cell's `value` in several runs of a system. An error finding of one
    run, or a capped one, counts for all."""
    return Sample(
        value=value,
        trials=tuple(trial for sample in samples for trial in sample.trials),
        by_run=tuple(sample.trials for sample in samples),
        imported=all(sample.imported for sample in samples),
        run=",".join(sample.run for sample in samples),
        errors=tuple(dict.fromkeys(code for sample in samples for code in sample.errors)),
        capped=any(sample.capped for sample in samples),
        budget_bps=merge_budgets(samples),
        partial=any(sample.partial for sample in samples),
    )


def merge_budgets(samples: Sequence[Sample]) -> float | None:
    """Return the largest budget that one of the samples reached; None without any."""
    known = [sample.budget_bps for sample in samples if sample.budget_bps is not None]
    return max(known, default=None)


def error_codes(figure: MetricFigure) -> tuple[str, ...]:
    """Return the codes of the `error` findings about a figure."""
    refusing = (mark.code for mark in figure.finding_marks if mark.severity is Severity.ERROR)
    return tuple(dict.fromkeys(refusing))


def _error_share(stored: StoredTrial | None, op: Op) -> float | None:
    if stored is None:
        return None
    try:
        windows = stored.iops_windows
    except FormatError:
        return None
    parts = [windows[part] for part in (Op.READ, Op.WRITE) if part in windows]
    chosen = [windows[op]] if op in windows else parts if op is Op.TOTAL else []
    if not chosen or len({len(one) for one in chosen}) > 1:
        return None
    values = np.sum([[window.value for window in one] for one in chosen], axis=0)
    return mean_standard_error_share(np.asarray(values, dtype=np.float64))
