"""The numbers that a ranking goes by: targets by objectives, with what is missing and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.cells import CellFigure
from leadline.analysis.objectives import Objective
from leadline.analysis.samples import Samples, error_codes
from leadline.analysis.verdicts import Sample
from leadline.analysis.workload_differences import unlike
from leadline.archive.reader import Run
from leadline.metrics import Metric, Op
from leadline.plan.models import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A number that a target lacks, and why."""

    objective: Objective
    reason: str


class RankedNumbers:
    """Targets by objectives: figures, what is missing, samples of one number and of all."""

    def __init__(
        self, run: Run, figures: Sequence[CellFigure], objectives: Sequence[Objective]
    ) -> None:
        self._run = run
        self.objectives = objectives
        self._figures: dict[tuple[str, str, str, Op | None], CellFigure] = {
            (one.target, one.workload, one.level, one.op): one for one in figures
        }
        self._workloads = {
            (cell.target, cell.workload.name, cell.level): cell.workload for cell in run.plan.cells
        }
        self._samples = Samples(run)
        self._made: dict[tuple[str, int], Sample] = {}
        self._usual = [self._usual_workload(one) for one in objectives]

    def _figure(self, target: str, objective: Objective) -> CellFigure | None:
        return self._figures.get((target, *objective.key))

    def _workload(self, figure: CellFigure) -> Workload | None:
        return self._workloads.get((figure.target, figure.planned_workload, figure.level))

    def _usual_workload(self, objective: Objective) -> Workload | None:
        """What most targets did under the name: imported results need not have done the same."""
        found: dict[str, Workload] = {}
        count: Counter[str] = Counter()
        for target in self._run.plan.targets:
            figure = self._figure(target.name, objective)
            workload = self._workload(figure) if figure else None
            if workload is not None:
                text = str(sorted(workload.recorded.options.items())) if workload.recorded else ""
                found.setdefault(text, workload)
                count[text] += 1
        return found[min(count, key=lambda text: (-count[text], text))] if count else None

    def missing(self, target: str) -> tuple[Missing, ...]:
        """What of the objectives the target has no number for that may be used."""
        found = []
        for number, objective in enumerate(self.objectives):
            reason = self._lack(target, number)
            if reason:
                found.append(Missing(objective=objective, reason=reason))
        return tuple(found)

    def _lack(self, target: str, number: int) -> str:
        objective = self.objectives[number]
        figure = self._figure(target, objective)
        if figure is None:
            planned = any(
                cell.workload.name == objective.workload and cell.level == objective.level
                for cell in self._run.plan.cells_of(target)
            )
            return "no completed trial tells it" if planned else "not measured on this target"
        metric = figure.metric(objective.metric)
        refused = error_codes(metric)
        if metric.value is None:
            also = f" ({', '.join(refused)})" if refused else ""
            return f"{metric.absence or 'not measured'}{also}"
        if refused:
            return f"refused by the audit: {', '.join(refused)}"
        if metric.value <= 0:
            return "its figure is 0, of which there is no ratio"
        usual, own = self._usual[number], self._workload(figure)
        if usual and own and usual is not own and usual.recorded:
            other = unlike(usual, own)
            return f"other work than on most targets: {'; '.join(other)}" if other else ""
        return ""

    def values(self, target: str) -> tuple[float | None, ...]:
        """The numbers that may be used, by objective."""
        return tuple(
            None if self._lack(target, number) else self._value(target, number)
            for number in range(len(self.objectives))
        )

    def _value(self, target: str, number: int) -> float:
        value = self.sample(target, number).value
        assert value is not None, "whoever asks knows that nothing is missing"
        return value

    def turned(self, target: str, number: int) -> float:
        """The logarithm of a number, turned so that more is better."""
        return _sign(self.objectives[number].metric) * math.log(self._value(target, number))

    def sample(self, target: str, number: int) -> Sample:
        if (target, number) not in self._made:
            objective = self.objectives[number]
            figure = self._figure(target, objective)
            assert figure is not None, "whoever asks knows that nothing is missing"
            made = self._samples.of(figure.metric(objective.metric), objective.op)
            self._made[target, number] = made
        return self._made[target, number]

    def log_score(self, target: str, baseline: str) -> float:
        """The logarithm of the weighted geometric mean of ratios to the baseline, each turned so
        that more is better."""
        return math.fsum(
            one.weight * (self.turned(target, number) - self.turned(baseline, number))
            for number, one in enumerate(self.objectives)
        )

    def trial_logs(self, target: str) -> list[list[float]]:
        """Logarithms of the trials by objective, turned so that more is better."""
        return [
            [
                _sign(one.metric) * math.log(value)
                for value in self.sample(target, number).trials
                if value > 0
            ]
            for number, one in enumerate(self.objectives)
        ]

    def composite(self, target: str, baseline: str) -> Sample:
        """All objectives of a target as one sample, whose trials are made of what ran in the same
        repeat. Of a single objective it is that objective's own."""
        samples = [self.sample(target, number) for number in range(len(self.objectives))]
        if len(samples) == 1:
            return samples[0]
        weights = [one.weight for one in self.objectives]
        repeats = [self._by_repeat(target, number, baseline) for number in range(len(samples))]
        common = [
            repeat for repeat in repeats[0] if all(repeat in others for others in repeats[1:])
        ]
        imported = any(one.imported for one in samples)
        alone = len(common) == 1
        within = [one.within[0] for one in samples if one.within] if alone else []
        return Sample(
            value=math.exp(self.log_score(target, baseline)),
            trials=tuple(
                math.exp(
                    math.fsum(
                        weight * one[repeat] for weight, one in zip(weights, repeats, strict=True)
                    )
                )
                for repeat in common
            ),
            blocks=tuple((target, repeat) if imported else repeat for repeat in common),
            within=(_pooled(weights, within),) if len(within) == len(samples) else (),
            imported=imported,
        )

    def _by_repeat(self, target: str, number: int, baseline: str) -> dict[int | str, float]:
        """An objective's trials as logarithms of ratios to the baseline's figure."""
        objective = self.objectives[number]
        figure = self._figure(target, objective)
        assert figure is not None, "whoever asks knows that nothing is missing"
        zero = self.turned(baseline, number)
        trials = figure.metric(objective.metric).trials
        if any(one.value is None for one in trials):
            return {}  # a part of the trials would be those that suit
        return {
            self._samples.repeat(one.trial): _sign(objective.metric) * math.log(one.value) - zero
            for one in trials
            if one.value
        }


def _pooled(weights: Sequence[float], shares: Sequence[float | None]) -> float | None:
    """The standard error of a weighted mean of logarithms whose errors are independent."""
    known = [one for one in shares if one is not None]
    if len(known) < len(shares):
        return None
    return math.sqrt(math.fsum((w * s) ** 2 for w, s in zip(weights, known, strict=True)))


def _sign(metric: Metric) -> float:
    return -1.0 if metric.is_latency else 1.0
