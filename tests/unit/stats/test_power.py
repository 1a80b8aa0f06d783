"""How many trials, and how small a change: against the non-central t, and by trying."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import nctdtr, stdtrit

from leadline.stats.ratios import TwoSamples, detectable, estimate_ratios, trials_needed


def power_of_t(difference: float, scale: float, n: int, *, paired: bool) -> float:
    freedom = n - 1 if paired else 2 * n - 2
    shift = difference / (scale / math.sqrt(n))
    return float(1 - nctdtr(freedom, shift, stdtrit(freedom, 0.975)))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("n", [3, 4, 5])
def test_few_trials_have_the_power_of_t(n: int, paired: bool) -> None:
    found = power_of_t(detectable(0.1, n, paired=paired), 0.1, n, paired=paired)
    assert 0.76 <= found <= 0.86


@pytest.mark.parametrize("n", [6, 10])
def test_a_detectable_difference_is_found_in_four_of_five(n: int) -> None:
    """By the interval of medians; the promise may be kept better, not worse."""
    generator = np.random.default_rng(20261121)
    difference = detectable(0.1 * math.sqrt(2), n)
    samples = [
        TwoSamples(
            above=tuple(np.exp(generator.normal(difference, 0.1, n)).tolist()),
            below=tuple(np.exp(generator.normal(0, 0.1, n)).tolist()),
        )
        for _ in range(1000)
    ]
    found = sum(one.interval[0] > 1 for one in estimate_ratios(samples)) / 1000
    assert 0.77 <= found <= 0.95


@given(st.floats(0.001, 1), st.floats(0.0001, 1), st.booleans())
def test_the_number_is_the_least_that_detects(
    difference: float, scale: float, paired: bool
) -> None:
    needed = trials_needed(difference, scale, paired=paired)
    if needed is None:
        assert detectable(scale, 1000, paired=paired) > difference
    else:
        assert detectable(scale, needed, paired=paired) <= difference
        assert needed == 2 or detectable(scale, needed - 1, paired=paired) > difference


def test_more_scatter_or_less_difference_needs_more() -> None:
    numbers = [trials_needed(0.1, scale) for scale in (0.02, 0.1, 0.2, 0.4)]
    assert None not in numbers
    assert numbers == sorted(numbers, key=lambda one: one or 0)
    assert trials_needed(0.1, 0.2, level=0.05 / 40) > (trials_needed(0.1, 0.2) or 0)  # type: ignore[operator]
    assert trials_needed(0.1, 0.02, more_than=7) == 8


@pytest.mark.parametrize(
    ("difference", "scale"), [(0.0, 0.1), (-0.1, 0.1), (1e-6, 0.1), (math.inf, 1), (0.1, math.nan)]
)
def test_no_number_where_there_is_none(difference: float, scale: float) -> None:
    assert trials_needed(difference, scale) is None
