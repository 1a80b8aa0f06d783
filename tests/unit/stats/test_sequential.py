"""Interim looks: nominal tails, against simulation and against published boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import t as student

from leadline.stats.sequential import SMALL_SAMPLES, Looks, _chance

TAILS = np.array([0.4, 0.1, 0.025, 1e-3, 1e-6, 1e-12, 1e-40])


@pytest.mark.parametrize(("first", "most"), [(2, 6), (3, 12), (3, 4), (2, 100)])
def test_nominal_and_spent_tails_are_inverse(first: int, most: int) -> None:
    looks = Looks(first=first, most=most)
    nominal = looks.nominal(TAILS)
    assert np.all(nominal < TAILS)
    assert np.all(np.diff(nominal) < 0)
    assert looks.spent(nominal) == pytest.approx(TAILS, rel=1e-6)
    # Neither more than the sum of all looks, nor less than one of them.
    assert np.all(nominal >= TAILS / (most - first + 1) * (1 - 1e-9))
    assert looks.spent(np.array([0.0, 1.0])) == pytest.approx([0.0, 1.0], abs=1e-100)


def test_one_look_is_an_ordinary_test() -> None:
    looks = Looks(first=6, most=6)
    assert looks.nominal(TAILS) == pytest.approx(TAILS, rel=1e-9)
    assert looks.level(0.95) == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("count", "constant"),
    # Constants of equally spaced looks, two-sided 5 %: Pocock 1977, Jennison and Turnbull 2000,
    # table 2.1. Looks at 1, 2, ..., K values are equally spaced.
    [(2, 2.178), (3, 2.289), (5, 2.413), (10, 2.555)],
)
def test_chance_agrees_with_pocock(count: int, constant: float) -> None:
    # Both sides are crossed by almost none.
    assert 2 * _chance(constant, 1, count) == pytest.approx(0.05, rel=0.01)


@pytest.mark.parametrize(("first", "most"), [(2, 6), (2, 12), (3, 12)])
def test_t_intervals_hold_at_all_looks_together(first: int, most: int) -> None:
    """Of one cell with its own scatter: the case with the fewest degrees of freedom."""
    generator = np.random.default_rng(20261125)
    number = 100_000
    values = generator.normal(size=(number, most))
    (tail,) = Looks(first=first, most=most).nominal(np.array([0.025])).tolist()
    missed = np.zeros(number, dtype=bool)
    for n in range(first, most + 1):
        part = values[:, :n]
        reach = -student.ppf(tail, n - 1) * part.std(axis=1, ddof=1) / np.sqrt(n)
        missed |= np.abs(part.mean(axis=1)) > reach
    assert 0.04 < missed.mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / number)


def test_small_samples_are_the_reason_for_the_factor() -> None:
    looks = Looks(first=3, most=12)
    (tail,) = looks.nominal(np.array([0.025])).tolist()
    assert SMALL_SAMPLES * _chance(float(-ndtri(tail)), 3, 12) == pytest.approx(0.025, rel=5e-3)
