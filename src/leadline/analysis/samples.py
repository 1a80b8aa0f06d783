"""From figures to the samples that verdicts are made of."""

from __future__ import annotations

import numpy as np

from leadline.analysis.cells import MetricFigure, TrialValue
from leadline.analysis.verdicts import Sample
from leadline.archive.reader import Run, StoredTrial
from leadline.findings import Severity
from leadline.formats.output import FormatError
from leadline.metrics import Op
from leadline.stats.effective_size import mean_standard_error_share


class Samples:
    """Samples of one run's figures; a trial's seconds are read once, and only where it is the only
    one of its cell."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._imported = run.plan.imported
        self._blocks = {trial.id: trial.block for trial in run.plan.trials}
        self._stored: dict[str, StoredTrial] | None = None
        self._shares: dict[tuple[str, Op], float | None] = {}

    def of(self, figure: MetricFigure, op: Op | None) -> Sample:
        told = [(one, one.value) for one in figure.trials if one.value is not None]
        # A part of the trials would be those that suit.
        whole = told if len(told) == len(figure.trials) else []
        alone = len(whole) == 1 and not self._imported
        return Sample(
            value=figure.value,
            trials=tuple(value for _, value in whole),
            blocks=tuple(self._block(one) for one, _ in whole),
            within=tuple(self._within(one, figure, op) for one, _ in whole) if alone else (),
            imported=self._imported,
            errors=error_codes(figure),
        )

    def _block(self, trial: TrialValue) -> tuple[str, int | str]:
        """Nobody knows what an imported trial ran next to."""
        alone = self._imported or trial.trial not in self._blocks
        return self._run.id, trial.trial if alone else self._blocks[trial.trial]

    def repeat(self, trial: str) -> int | str:
        """The trial's number among the repeats of its cell."""
        return self._blocks.get(trial, trial)

    def _within(self, trial: TrialValue, figure: MetricFigure, op: Op | None) -> float | None:
        """The standard error of a trial's rate as a share of it, from its own seconds. A mean
        latency has the same in a closed loop, where rate x latency is the queue's depth; the
        seconds tell nothing of percentiles."""
        if figure.metric.quantile is not None or op is None:
            return None
        key = (trial.trial, op)
        if key not in self._shares:
            if self._stored is None:
                self._stored = {one.record.trial: one for one in self._run.trials}
            self._shares[key] = _error_share(self._stored.get(trial.trial), op)
        return self._shares[key]


def error_codes(figure: MetricFigure) -> tuple[str, ...]:
    """Codes of the `error` findings about a figure."""
    refusing = (doubt.code for doubt in figure.doubts if doubt.severity is Severity.ERROR)
    return tuple(dict.fromkeys(refusing))


def _error_share(stored: StoredTrial | None, op: Op) -> float | None:
    if stored is None:
        return None
    try:
        windows = stored.iops_windows
    except FormatError:
        return None
    parts = [windows[one] for one in (Op.READ, Op.WRITE) if one in windows]
    chosen = [windows[op]] if op in windows else parts if op is Op.TOTAL else []
    if not chosen or len({len(one) for one in chosen}) > 1:
        return None
    values = np.sum([[window.value for window in one] for one in chosen], axis=0)
    return mean_standard_error_share(np.asarray(values, dtype=np.float64))
