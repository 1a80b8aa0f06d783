"""Moderated variances agree with limma, whose output is recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from leadline.stats.moderation import FEWEST_CELLS, fit_prior, inverse_trigamma, moderate

RECORDED = Path(__file__).parents[2] / "recorded" / "limma" / "moderation.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
cases = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def numbers(case: dict[str, list[object]], name: str) -> np.ndarray:
    return np.array([float(str(value)) for value in case[name]])


@cases
def test_prior_by_moments_is_limmas(case: dict[str, list[object]]) -> None:
    prior = fit_prior(numbers(case, "variances"), numbers(case, "freedom"))
    assert prior.variance == pytest.approx(numbers(case, "scale")[0], rel=1e-9)
    assert prior.freedom == pytest.approx(numbers(case, "d0")[0], rel=1e-9)


@cases
def test_robust_posterior_is_limmas(case: dict[str, list[object]]) -> None:
    found = moderate(numbers(case, "variances"), numbers(case, "freedom"))
    assert found.prior.variance == pytest.approx(numbers(case, "robust_scale")[0], rel=1e-6)
    assert found.prior.freedom == pytest.approx(numbers(case, "robust_d0")[0], rel=1e-6)
    assert found.variance == pytest.approx(numbers(case, "robust_post"), rel=1e-6)
    # eBayes: no more degrees of freedom than there are residuals.
    freedom = numbers(case, "freedom")
    expected = np.minimum(freedom + numbers(case, "robust_weights"), freedom.sum())
    assert found.freedom == pytest.approx(np.maximum(expected, freedom), rel=1e-6)


@given(st.floats(1e-5, 1e6))
def test_inverse_of_trigamma(value: float) -> None:
    assert float(polygamma(1, inverse_trigamma(value))) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("count", [1, FEWEST_CELLS - 1])
def test_too_few_cells_keep_their_variance(count: int) -> None:
    variances, freedom = np.linspace(1, 9, count), np.full(count, 4.0)
    found = moderate(variances, freedom)
    assert found.variance == pytest.approx(variances)
    assert found.freedom == pytest.approx(freedom)
    assert (found.prior.cells, found.prior.freedom) == (count, 0.0)


def test_a_wild_cell_neither_widens_nor_borrows() -> None:
    generator = np.random.default_rng(4)
    variances, freedom = 0.0025 * generator.chisquare(2, 40) / 2, np.full(40, 2.0)
    clean = moderate(variances, freedom)
    variances[7] = 0.3
    found = moderate(variances, freedom)
    assert found.variance[7] > 0.1
    assert found.freedom[7] < 6
    others = np.arange(40) != 7
    change = found.variance[others] / clean.variance[others]
    assert np.median(change) == pytest.approx(1, abs=0.25)
    # The plain fit gives every cell less weight for it.
    assert found.prior.freedom > 1.2 * fit_prior(variances, freedom).freedom


def test_no_more_freedom_than_residuals() -> None:
    generator = np.random.default_rng(5)
    found = moderate(generator.chisquare(2, 21) / 2, np.full(21, 2.0), most_freedom=7.0)
    assert found.freedom.max() <= 7


@given(st.lists(st.floats(-20, 5).map(math.exp), min_size=1, max_size=30))
def test_posteriors_are_between_own_and_prior(variances: list[float]) -> None:
    given_ = np.array(variances)
    found = moderate(given_, np.full(len(given_), 3.0))
    assert np.isfinite(found.variance).all()
    assert (found.freedom >= 3 - 1e-9).all()
    if found.prior.freedom > 0:
        low, high = (
            np.minimum(given_, found.prior.variance),
            np.maximum(given_, found.prior.variance),
        )
        assert (found.variance >= low * (1 - 1e-9)).all()
        assert (found.variance <= high * (1 + 1e-9)).all()


def test_two_trials_of_uneven_cells_are_not_pooled() -> None:
    """One degree of freedom each: variances over eight orders of magnitude; nearly equal ones."""
    uneven = moderate(np.logspace(-8, 0, 40), np.ones(40))
    assert (uneven.prior.cells, uneven.prior.freedom) == (40, 0)
    assert uneven.variance.tolist() == np.logspace(-8, 0, 40).tolist()
    assert uneven.freedom.tolist() == [1] * 40
    even = moderate(np.linspace(0.9, 1.1, 40), np.ones(40))
    assert even.prior.freedom > 0
    # Two degrees of freedom show it.
    assert moderate(np.logspace(-8, 0, 40), np.full(40, 2.0)).prior.freedom > 0
