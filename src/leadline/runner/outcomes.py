"""What a run's trials showed, as far as what the run adds to its plan depends on it."""

from __future__ import annotations

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import Derived, TrialRecord, TrialStatus
from leadline.metrics import Metric, Op
from leadline.plan.follow_up import Outcomes, TrialOutcome

_OVER = (TrialStatus.COMPLETED, TrialStatus.FAILED, TrialStatus.HUNG)


def outcomes(run: Run) -> Outcomes:
    """By the number of each cell of the plan, its trials that are over."""
    cell_of = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[TrialOutcome]] = {}
    for stored in run.trials:
        number = cell_of.get(stored.record.trial)
        if number is not None and stored.record.status in _OVER:
            found.setdefault(number, []).append(_outcome(stored.record, stored.derived))
    return found


def _outcome(record: TrialRecord, derived: Derived | None) -> TrialOutcome:
    if record.status is not TrialStatus.COMPLETED or derived is None:
        problem = record.problem
        overloaded = problem is not None and problem.code == errors.RATE_NOT_REACHED.code
        return TrialOutcome(overloaded=overloaded)
    parts = [one for one in derived.operations if one.op is not Op.TOTAL]
    latencies: dict[Metric, float | None] = {}
    for metric in Metric:
        if metric.is_latency:
            values = [one.metrics.get(metric) for one in parts]
            told = [value for value in values if value is not None]
            # A part of them would pass for all.
            latencies[metric] = max(told) if told and len(told) == len(values) else None
    return TrialOutcome(
        iops=sum(one.metrics.get(Metric.IOPS) or 0.0 for one in parts), latencies=latencies
    )
