"""The figures of one run as rows of a history, each with all that makes it comparable."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.samples import Samples, error_codes
from leadline.analysis.verdicts import Reason
from leadline.analysis.workloads import reported_rate, usual_rate, work_settings
from leadline.archive.reader import Run
from leadline.stats.effects import location


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One metric of a cell and operation in one run. `value` is the geometric mean of the trials in
    the metric's base unit, `rate`: the metric is the usual rate of the cell. `codes` are reasons
    against its use. `settings` are all that the fingerprint is made of, as JSON."""

    target: str
    workload: str
    level: str
    op: str
    metric: str
    value: float
    trials: int
    rate: bool
    codes: tuple[str, ...]
    settings: str

    @property
    def place(self) -> tuple[str, ...]:
        return self.target, self.workload, self.level, self.op, self.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRun:
    """A run with its rows. `at_s` is when it began, in seconds since 1970; `dated` is False where
    only the time of its import is known. `clock_back`: the clock was set back within the run."""

    path: Path
    run: str
    seal: str
    at_s: float
    dated: bool
    clock_back: bool
    rows: tuple[HistoryRow, ...]


def history_rows(run: Run, figures: Sequence[CellFigure]) -> tuple[HistoryRow, ...]:
    """Return the rows of a run: every metric of every cell that has a value above zero."""
    samples = Samples(run)
    cells = {(one.target, one.workload.name, one.level): one.workload for one in run.plan.cells}
    engines = {
        (one.record.target, one.record.workload, one.record.level): one.record.engine
        for one in run.trials
    }
    found = []
    for figure in figures:
        key = (figure.target, figure.planned_workload, figure.level)
        workload = cells.get(key)
        if workload is None:
            continue
        there = {one.metric for one in figure.metrics if one.value is not None}
        rate = reported_rate(usual_rate(workload), there.__contains__)
        settings = {
            **_target_settings(run, figure.target),
            "engine": engines.get(key, ""),
            **{f"workload.{name}": value for name, value in work_settings(workload).items()},
        }
        text = json.dumps({name: str(value) for name, value in settings.items()}, sort_keys=True)
        subject = run.plan.target(figure.target).subject or figure.target
        for one in figure.metrics:
            value = _value(one)
            if value is None:
                continue
            budget = samples.sample(one, figure.op).budget_bps
            found.append(
                HistoryRow(
                    target=subject,
                    workload=figure.workload,
                    level=figure.level,
                    op=figure.op.value if figure.op else "",
                    metric=one.metric.value,
                    value=value,
                    trials=one.repeats,
                    rate=one.metric is rate,
                    codes=(
                        *error_codes(one),
                        *([] if budget is None else [Reason.CAPPED_BY_BUDGET.value]),
                    ),
                    settings=text,
                )
            )
    return tuple(found)


def _value(figure: MetricFigure) -> float | None:
    """Return the geometric mean of the trials, else the figure; None if it is not above zero."""
    trials = [trial.value for trial in figure.trials]
    whole = [value for value in trials if value is not None and 0 < value < math.inf]
    if len(whole) > 1 and len(whole) == len(trials):
        return math.exp(location(whole))
    value = figure.value
    return value if value is not None and 0 < value < math.inf else None


def _target_settings(run: Run, name: str) -> dict[str, str]:
    target = run.plan.target(name)
    return {
        "target.url": target.url,
        "cluster": run.manifest.cluster_label or target.place or target.cluster,
        **{f"label.{key}": value for key, value in target.labels.items()},
    }
