"""Student's t, plain and trimmed, against scipy.stats."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leadline.stats.ratios import independent_difference, paired_difference


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 5), (6, 6), (10, 7), (20, 20)])
@pytest.mark.parametrize("trim", [0.0, 0.2])
def test_independent_is_welch_and_yuen(n: int, k: int, trim: float) -> None:
    generator = np.random.default_rng(n * k)
    first, second = generator.normal(0, 1, (50, n)), generator.normal(0.3, 3, (50, k))
    oracle = stats.ttest_ind(first, second, axis=1, equal_var=False, trim=trim)
    ours = independent_difference(first, second, trim=trim)
    assert np.allclose(ours.p(), oracle.pvalue, rtol=1e-10)
    assert np.allclose(ours.freedom, oracle.df, rtol=1e-10)
    if not trim:
        interval = oracle.confidence_interval()
        assert np.allclose(ours.bounds(), (interval.low, interval.high), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_paired_is_the_test_of_one_sample(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.2, 1, (50, n))
    oracle = stats.ttest_1samp(differences, 0, axis=1)
    ours = paired_difference(differences)
    assert np.allclose(ours.p(), oracle.pvalue, rtol=1e-10)
    interval = oracle.confidence_interval()
    assert np.allclose(ours.bounds(), (interval.low, interval.high), rtol=1e-9)


def test_trimmed_pairs_agree_with_winsorised_deviation() -> None:
    differences = np.random.default_rng(1).normal(0.2, 1, (50, 10))
    ours = paired_difference(differences, trim=0.2)
    winsorised = np.asarray(stats.mstats.winsorize(differences, limits=(0.2, 0.2), axis=1))
    # Yuen's form of the standard error: sqrt((n - 1) s_w^2 / (h (h - 1))).
    expected = np.sqrt(9 * winsorised.var(axis=1, ddof=1) / (6 * 5))
    assert np.allclose(ours.error, expected)
    assert np.allclose(ours.difference, stats.trim_mean(differences, 0.2, axis=1))


def test_one_wild_value_does_not_rule() -> None:
    first = np.array([[1.0, 1.1, 0.9, 1.05, 0.95, 50.0]])
    second = np.array([[2.0, 2.1, 1.9, 2.05, 1.95, 2.0]])
    assert independent_difference(first, second, trim=0.2).p()[0] < 0.001
    assert independent_difference(first, second).p()[0] > 0.1


def test_equal_values_have_the_least_deviation() -> None:
    first, second = np.full((1, 3), 5.0), np.full((1, 3), 5.1)
    ours = independent_difference(first, second, least_deviation=0.01)
    assert ours.error[0] == pytest.approx(0.01 * np.sqrt(2 / 3))
    assert ours.freedom[0] == pytest.approx(4)
    assert 0 < ours.p()[0] < 0.001
    alone = paired_difference(first - second, least_deviation=0.01)
    assert alone.error[0] == pytest.approx(0.01 / np.sqrt(3))
