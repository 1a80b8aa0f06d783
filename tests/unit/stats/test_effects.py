"""Estimates agree with the tests of textbooks, with limma, and with themselves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leadline.stats.effects import (
    LEAST_DEVIATION,
    Estimate,
    TwoSamples,
    estimate_effects,
    p_beyond,
)

RECORDED = Path(__file__).parents[2] / "recorded" / "limma" / "treat.jsonl"
values = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=5).map(tuple)


def drawn(seed: int, n: int, deviation: float = 0.1) -> tuple[float, ...]:
    generator = np.random.default_rng(seed)
    return tuple(np.exp(deviation * generator.normal(size=n)).tolist())


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 3), (5, 5), (2, 6), (9, 4)])
def test_alone_it_is_welchs_test(n: int, k: int) -> None:
    above, below = drawn(n, n), drawn(100 + k, k)
    (found,) = estimate_effects([TwoSamples(above=above, below=below)])
    expected = stats.ttest_ind(np.log(above), np.log(below), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.interval() == pytest.approx((math.exp(low), math.exp(high)))
    assert found.freedom == pytest.approx(expected.df)
    (p,) = p_beyond([found], np.zeros(1), np.zeros(1))
    assert 2 * p == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_alone_pairs_are_the_test_of_one_sample(n: int) -> None:
    above, below = drawn(n, n), drawn(50 + n, n)
    (found,) = estimate_effects([TwoSamples(above=above, below=below, paired=True)])
    expected = stats.ttest_rel(np.log(above), np.log(below))
    low, high = expected.confidence_interval(0.95)
    assert found.interval() == pytest.approx((math.exp(low), math.exp(high)))


def test_pairs_of_many_cells_are_limmas() -> None:
    """lmFit of an intercept, eBayes and treat (robust) on 40 cells with one wild trial."""
    case = json.loads(RECORDED.read_text(encoding="utf-8"))
    cells = [
        TwoSamples(above=tuple(np.exp(row)), below=tuple(np.full(len(row), 1.0)), paired=True)
        for row in np.array(case["differences"])
    ]
    # Every baseline is the same sample here; limma knows nothing of it.
    cells = [
        TwoSamples(
            above=tuple(factor * value for value in cell.above),
            below=tuple(factor * value for value in cell.below),
            paired=True,
        )
        for factor, cell in zip(np.linspace(1, 2, len(cells)), cells, strict=True)
    ]
    found = estimate_effects(cells)
    assert [one.value for one in found] == pytest.approx(case["coefficient"], abs=1e-9)
    assert [one.error for one in found] == pytest.approx(case["error"], rel=1e-6)
    assert [one.freedom for one in found] == pytest.approx(case["freedom"], rel=1e-6)
    # limma adds the chance of the far edge, which is negligible for what matters.
    edge = np.full(len(found), 0.05)
    p, expected = p_beyond(found, -edge, edge), np.array(case["p_treat"])
    small = expected < 0.05
    assert small.sum() == 1
    assert p[small] == pytest.approx(expected[small], rel=1e-4)


@given(values, values)
def test_exchange_of_the_samples_inverts(
    above: tuple[float, ...], below: tuple[float, ...]
) -> None:
    (one,) = estimate_effects([TwoSamples(above=above, below=below)])
    (other,) = estimate_effects([TwoSamples(above=below, below=above)])
    assert other.value == pytest.approx(-one.value, abs=1e-12)
    assert other.error == pytest.approx(one.error)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_equal_values_have_the_least_deviation(n: int) -> None:
    (found,) = estimate_effects([TwoSamples(above=(100.0,) * n, below=(80.0,) * n)])
    assert found.error == pytest.approx(LEAST_DEVIATION * math.sqrt(2 / n))
    assert found.ratio == pytest.approx(1.25)


@pytest.mark.parametrize("paired", [True, False])
def test_a_wild_trial_is_trimmed_from_six_on(paired: bool) -> None:
    below = drawn(1, 8, 0.02)
    above = (0.1, *drawn(2, 7, 0.02))
    (found,) = estimate_effects([TwoSamples(above=above, below=below, paired=paired)])
    assert found.trimmed
    assert found.ratio == pytest.approx(1, abs=0.05)
    assert found.error < 0.05
    (few,) = estimate_effects([TwoSamples(above=above[:4], below=below[:4], paired=paired)])
    assert not few.trimmed


def test_families_do_not_know_of_each_other() -> None:
    steady = [TwoSamples(above=drawn(n, 3, 0.01), below=drawn(n + 50, 3, 0.01)) for n in range(10)]
    wild = [
        TwoSamples(above=drawn(n, 3, 0.3), below=drawn(n + 50, 3, 0.3), family="p99")
        for n in range(10)
    ]
    both = estimate_effects([*steady, *wild])
    assert both[:10] == estimate_effects(steady)
    assert both[10:] == estimate_effects(wild)


def test_a_noisy_system_does_not_blur_the_other() -> None:
    """The scatter of each system is pooled apart."""
    cells = [TwoSamples(above=drawn(n, 2, 0.2), below=drawn(n + 50, 6, 0.01)) for n in range(30)]
    found = estimate_effects(cells)
    assert found[0].priors[0].variance == pytest.approx(0.04, rel=0.7)
    assert found[0].priors[1].variance == pytest.approx(0.0001, rel=0.7)


def test_samples_in_several_pairs_count_once() -> None:
    """Six targets, fifteen pairs: the prior knows of six variances."""
    targets = [drawn(n, 3) for n in range(6)]
    pairs = [
        TwoSamples(above=one, below=other)
        for index, one in enumerate(targets)
        for other in targets[index + 1 :]
    ]
    found = estimate_effects(pairs)
    assert {prior.cells for one in found for prior in one.priors} == {5}
    assert max(one.freedom for one in found) <= 20


def test_two_runs_add_their_variance() -> None:
    pair = TwoSamples(above=drawn(1, 3, 0.01), below=drawn(2, 3, 0.01))
    days = TwoSamples(above=pair.above, below=pair.below, between=0.05)
    (one,), (other,) = estimate_effects([pair]), estimate_effects([days])
    assert other.error == pytest.approx(math.hypot(one.error, math.sqrt(2) * 0.05))
    assert other.value == one.value
    # Nearly normal: +-1.96 x sqrt(2) x 5 % alone.
    assert other.freedom > 100
    assert math.log(other.interval()[1]) - other.value == pytest.approx(0.139, abs=0.005)


def test_bounds_are_finite() -> None:
    (found,) = estimate_effects([TwoSamples(above=(1.0, 1e9), below=(1e-9, 5.0))])
    assert all(math.isfinite(end) for end in found.interval(0.9999))
    assert math.isfinite(Estimate(value=900.0, error=1.0, freedom=1.0).ratio)
