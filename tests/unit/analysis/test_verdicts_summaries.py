"""Verdicts on imported means with their scatter, and on figures at a cap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leadline.analysis.verdicts import (
    Evidence,
    Judgement,
    Pair,
    Reason,
    Sample,
    Verdict,
    judge,
)
from leadline.metrics import Metric, Spread
from leadline.stats.correlation import MOST, variance_inflation


def mean(value: float, deviation: float, number: int) -> Sample:
    spread = Spread(deviation=deviation, number=number)
    return Sample(value=value, trials=(value,), imported=True, spread=spread)


def judged(baseline: Sample, candidate: Sample) -> Judgement:
    (found,) = judge([Pair(metric=Metric.IOPS, baseline=baseline, candidate=candidate)])
    return found


def test_the_interval_is_welch_s_of_the_logarithms() -> None:
    found = judged(mean(1000, 20, 5), mean(800, 24, 3))
    assert found.interval is not None
    assert (found.verdict, found.evidence) == (Verdict.WORSE, Evidence.TRIALS)
    assert Reason.NOT_INTERLEAVED in found.reasons
    # Repeats of published tables ran in a row, as far as is known.
    inflation, left = np.transpose([variance_inflation(MOST, 5), variance_inflation(MOST, 3)])
    parts = np.array([0.02**2 / 5, 0.03**2 / 3]) * inflation
    freedom = parts.sum() ** 2 / (parts**2 / ([4, 2] * left)).sum()
    half = stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum())
    assert np.log(found.interval) == pytest.approx([np.log(0.8) - half, np.log(0.8) + half])


@pytest.mark.parametrize(
    ("candidate", "deviation", "verdict"),
    [
        (1010, 5, Verdict.SAME),
        (1030, 60, Verdict.INCONCLUSIVE),
        (1200, 10, Verdict.BETTER),
        (900, 120, Verdict.INCONCLUSIVE),
        (1000, 0, Verdict.SAME),
    ],
)
def test_the_verdict_follows_the_interval(
    candidate: float, deviation: float, verdict: Verdict
) -> None:
    found = judged(mean(1000, deviation, 5), mean(candidate, deviation, 5))
    assert found.verdict is verdict
    assert "single-trial" not in found.reasons


def test_a_summary_against_trials_and_against_a_single_number() -> None:
    trials = Sample(value=905.0, trials=(900.0, 905.0, 910.0), blocks=(1, 2, 3))
    assert judged(mean(1000, 10, 5), trials).verdict is Verdict.WORSE
    alone = Sample(value=900.0, trials=(900.0,), imported=True)
    found = judged(mean(1000, 10, 5), alone)
    assert (found.evidence, found.interval) == (Evidence.ONE_NUMBER, None)


def test_the_interval_covers_the_truth() -> None:
    generator = np.random.default_rng(20261123)
    covered = 0
    for _ in range(400):
        sides = [generator.normal(1000, 50, size) for size in (3, 6)]
        made = [mean(float(one.mean()), float(one.std(ddof=1)), len(one)) for one in sides]
        interval = judged(*made).interval
        assert interval is not None
        covered += interval[0] <= 1 <= interval[1]
    assert covered >= 0.93 * 400


def test_figures_at_a_cap_are_no_tie() -> None:
    capped = Sample(value=500.0, trials=(500.0, 501.0, 499.0), blocks=(1, 2, 3), capped=True)
    free = Sample(value=500.0, trials=(500.0, 502.0, 499.0), blocks=(4, 5, 6))
    for pair in ((capped, free), (free, capped), (capped, capped)):
        found = judged(*pair)
        assert (found.verdict, found.reasons[0]) == (Verdict.INCONCLUSIVE, "capped")
        assert found.trials_needed is None
    faster = Sample(value=900.0, trials=(900.0, 901.0, 899.0), blocks=(7, 8, 9))
    assert judged(capped, faster).verdict is Verdict.BETTER


def at_budget(value: float, budget_bps: float | None, first: int) -> Sample:
    trials = (value, value * 1.002, value * 0.998)
    blocks = (first, first + 1, first + 2)
    return Sample(value=value, trials=trials, blocks=blocks, budget_bps=budget_bps)


@pytest.mark.parametrize(
    ("metric", "baseline", "candidate", "verdict"),
    [
        # A rate at its budget is the least that a system can do.
        (Metric.IOPS, (500.0, 2e6), (500.0, 2e6), Verdict.INCONCLUSIVE),
        (Metric.IOPS, (500.0, 2e6), (500.0, None), Verdict.INCONCLUSIVE),
        (Metric.IOPS, (500.0, 2e6), (1000.0, 4e6), Verdict.INCONCLUSIVE),
        (Metric.IOPS, (500.0, 2e6), (1000.0, None), Verdict.INCONCLUSIVE),
        (Metric.IOPS, (500.0, 2e6), (300.0, None), Verdict.WORSE),
        (Metric.IOPS, (300.0, None), (500.0, 2e6), Verdict.BETTER),
        # Latencies compare at one load.
        (Metric.LATENCY_MEAN, (2e-3, 2e6), (1e-3, 2e6), Verdict.BETTER),
        (Metric.LATENCY_MEAN, (2e-3, 2e6), (2e-3, 2e6), Verdict.SAME),
        (Metric.LATENCY_MEAN, (2e-3, 2e6), (1e-3, None), Verdict.INCONCLUSIVE),
        (Metric.LATENCY_MEAN, (2e-3, 2e6), (1e-3, 4e6), Verdict.INCONCLUSIVE),
    ],
)
def test_the_budget_of_a_guard_is_no_result_of_a_system(
    metric: Metric,
    baseline: tuple[float, float | None],
    candidate: tuple[float, float | None],
    verdict: Verdict,
) -> None:
    pair = Pair(metric=metric, baseline=at_budget(*baseline, 1), candidate=at_budget(*candidate, 4))
    (found,) = judge([pair])
    assert found.verdict is verdict
    assert (found.reasons[0] == "capped-by-budget") is (verdict is Verdict.INCONCLUSIVE)
