"""Correlation from trial to trial: expectations by simulation, and what is found."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.stats.correlation import MOST, estimate_correlation, variance_inflation


def autoregressive(generator: np.random.Generator, value: float, rows: int, n: int) -> np.ndarray:
    found = np.empty((rows, n))
    found[:, 0] = generator.normal(size=rows)
    for at in range(1, n):
        shock = np.sqrt(1 - value**2) * generator.normal(size=rows)
        found[:, at] = value * found[:, at - 1] + shock
    return found


@pytest.mark.parametrize("n", [4, 6, 10, 15])
@pytest.mark.parametrize("value", [0.4, 0.6, 0.8])
def test_many_rows_give_the_true_value(n: int, value: float) -> None:
    generator = np.random.default_rng(n)
    found = estimate_correlation([autoregressive(generator, value, 4_000, n)])
    assert found == pytest.approx(value, abs=0.06)


def test_rows_of_unequal_length_are_one_family() -> None:
    generator = np.random.default_rng(1)
    tables = [autoregressive(generator, 0.5, 1_500, n) for n in (2, 4, 9)]
    assert estimate_correlation(tables) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("n", [3, 6, 15])
def test_independent_trials_are_rarely_accused(rows: int, n: int) -> None:
    generator = np.random.default_rng(rows + n)
    found = [estimate_correlation([generator.normal(size=(rows, n))]) for _ in range(400)]
    assert np.mean(np.array(found) > 0) < 0.035


def test_an_hour_in_which_all_cells_were_slow_is_no_correlation() -> None:
    generator = np.random.default_rng(3)
    found = [
        estimate_correlation([generator.normal(size=(40, 8)) + 2 * generator.normal(size=(1, 8))])
        for _ in range(300)
    ]
    assert np.mean(np.array(found) > 0) < 0.04


def test_two_trials_and_equal_values_show_nothing() -> None:
    assert estimate_correlation([]) == 0
    assert estimate_correlation([np.array([[1.0, 2.0]])]) == 0
    assert estimate_correlation([np.ones((5, 6))]) == 0


def test_the_bound_is_what_the_trials_do_not_exclude() -> None:
    generator = np.random.default_rng(5)

    def bound(rows: int, n: int, value: float = 0.0) -> float:
        return estimate_correlation([autoregressive(generator, value, rows, n)], bound=True)

    # Two trials and one cell show nothing; many trials of many cells exclude nearly all.
    assert bound(40, 2) == MOST
    assert bound(1, 6) == pytest.approx(MOST, abs=0.25)
    assert bound(80, 15) < 0.1 < bound(80, 6) + 0.1
    assert np.mean([bound(80, 3, 0.5) >= 0.5 for _ in range(200)]) >= 0.9
    assert bound(2_000, 15, 0.8) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("n", [3, 8])
def test_inflation_makes_the_variance_that_of_the_mean(n: int) -> None:
    generator = np.random.default_rng(n)
    rows = autoregressive(generator, 0.6, 60_000, n)
    inflation, share = variance_inflation(0.6, n)
    corrected = rows.var(axis=1, ddof=1).mean() * inflation / n
    assert corrected == pytest.approx(rows.mean(axis=1).var(), rel=0.03)
    assert 0 < share < 1
    assert variance_inflation(0.0, n) == pytest.approx((1.0, 1.0))
