"""The trials that a plan needs, against simulated comparisons and an independent estimate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.figures import METRICS, CellFigure, figures
from leadline.analysis.power import plan_power
from leadline.analysis.verdicts import Pair, Sample, Verdict, judge
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.plan.expand import with_repeats
from leadline.plan.models import Plan

ROUNDS = 300
CHANGE = 0.10


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("runs"), small_plan(repeats=6))


def with_scatter(run: Run, scatter: float, blocks: float, seed: int) -> tuple[CellFigure, ...]:
    """The figures of a run with simulated rates, whose blocks are shared by its targets."""
    generator = np.random.default_rng(seed)
    drift = generator.normal(size=run.plan.repeats) * blocks
    block = {trial.id: trial.block for trial in run.plan.trials}
    at = METRICS.index(Metric.IOPS)
    found = []
    for figure in figures(run, ()):
        rate = figure.metrics[at]
        trials = tuple(
            replace(
                one,
                value=1000 * math.exp(drift[block[one.trial]] + scatter * generator.normal()),
            )
            for one in rate.trials
        )
        metrics = (*figure.metrics[:at], replace(rate, trials=trials), *figure.metrics[at + 1 :])
        found.append(replace(figure, metrics=metrics))
    return tuple(found)


def found_share(comparisons: int, trials: int, scatter: float) -> float:
    """How often `judge` finds the only change among interleaved comparisons."""
    generator = np.random.default_rng(20261125)
    hits = 0
    for _ in range(ROUNDS):
        logs = generator.normal(size=(comparisons, 2, trials)) * scatter
        logs[0, 1] += math.log1p(CHANGE)
        samples = [
            [Sample(value=1.0, trials=tuple(side), blocks=tuple(range(trials)), run="r")
             for side in pair]
            for pair in np.exp(logs).tolist()
        ]  # fmt: skip
        pairs = [Pair(metric=Metric.IOPS, baseline=one, candidate=two) for one, two in samples]
        hits += judge(pairs)[0].verdict is Verdict.BETTER
    return hits / ROUNDS


def test_the_published_scatter_gives_trials_that_find_the_change() -> None:
    power = plan_power(small_plan(), CHANGE)
    assert not any(one.measured for one in power.cells)
    trials = {one.trials.number for one in power.cells if one.trials}
    assert len(trials) == 1
    assert found_share(power.comparisons, trials.pop(), 0.02) >= 0.8


@pytest.mark.thorough
@pytest.mark.parametrize("scatter", [0.02, 0.05])
def test_the_scatter_of_a_run_gives_as_many_trials_as_are_needed(run: Run, scatter: float) -> None:
    """Drift that a block shares does not count. The scatter itself is an estimate."""
    powers = [
        plan_power(run.plan, CHANGE, like=(run, with_scatter(run, scatter, 0.2, seed)))
        for seed in range(15)
    ]
    assert all(one.measured for power in powers for one in power.cells)
    numbers = [one.trials.number for power in powers for one in power.cells if one.trials]
    needed = round(float(np.median(numbers)))
    share = found_share(powers[0].comparisons, needed, scatter)
    assert 0.72 <= share <= 0.93, (needed, share)
    assert found_share(powers[0].comparisons, max(2, needed // 2), scatter) < 0.65
    within = [
        one.trials.low <= needed <= (one.trials.high or math.inf)
        for power in powers
        for one in power.cells
        if one.trials
    ]
    assert sum(within) / len(within) >= 0.7


def test_one_target_is_compared_with_another_run() -> None:
    power = plan_power(small_plan(["disk"]), CHANGE)
    assert power.across_runs
    assert {one.trials for one in power.cells} == {None}
    assert power.repeats(small_plan(["disk"]).cells[0]) is None


def test_workloads_that_the_earlier_run_lacks_have_the_published_scatter(run: Run) -> None:
    cells = [
        cell.model_copy(update={"workload": cell.workload.model_copy(update={"name": "new"})})
        if cell.workload == run.plan.cells[0].workload
        else cell
        for cell in run.plan.cells
    ]
    plan = run.plan.model_copy(update={"cells": tuple(cells)})
    power = plan_power(plan, CHANGE, like=(run, with_scatter(run, 0.05, 0.0, 1)))
    assert {one.workload for one in power.cells if not one.measured} == {"new"}


@pytest.mark.parametrize("change", [0.05, 0.0, -0.2, math.nan])
def test_a_change_within_the_margin_is_none(change: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        plan_power(small_plan(), change)


def test_repeats_by_cell_share_the_first_blocks() -> None:
    plan: Plan = small_plan()
    repeats = [number % 3 + 1 for number in range(len(plan.cells))]
    found = with_repeats(plan, repeats)
    assert [sum(one.cell == at for one in found.trials) for at in range(len(repeats))] == repeats
    assert found.repeats == 3
    for at, number in enumerate(repeats):
        assert sorted(one.block for one in found.trials if one.cell == at) == list(range(number))
    # Equal repeats give the order that the plan had before.
    assert with_repeats(plan, [plan.repeats] * len(plan.cells)).trials == plan.trials
