"""More trials: the least number that decides, and the smallest change that is found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.stats.effects import Estimate, TwoSamples, estimate_effects
from leadline.stats.outlook import (
    MOST,
    POWER,
    decision_probability,
    detectable,
    noise_floor,
    trials_needed,
)

MARGIN = np.array([math.log(0.95)]), np.array([math.log(1.05)])


def needed(estimate: Estimate, tail: float = 0.025) -> tuple[int, int, int | None] | None:
    (found,) = trials_needed([estimate], *MARGIN, np.array([tail]))
    return None if found is None else (found.number, found.low, found.high)


def known(value: float, scale: float, number: int = 4, **more: float) -> Estimate:
    error = math.hypot(scale / math.sqrt(number), more.get("between", 0.0))
    return Estimate(
        value=value,
        error=error,
        freedom=2 * number - 2,
        number=number,
        scale=scale,
        scale_freedom=2 * number - 2,
        own_freedom=2 * number - 2,
        **more,  # type: ignore[arg-type]
    )


@given(st.floats(-0.4, 0.4), st.floats(0.005, 0.2))
def test_more_scatter_needs_more(value: float, scale: float) -> None:
    one, other = needed(known(value, scale)), needed(known(value, 1.5 * scale))
    if other is not None:
        assert one is not None
        assert one[0] <= other[0]
    if one is not None:
        number, low, high = one
        assert 2 <= low <= number <= (high or MOST)


@given(st.floats(-0.4, 0.4), st.floats(0.005, 0.2))
def test_the_number_needed_is_the_first_that_decides_with_the_power(
    value: float, scale: float
) -> None:
    estimate = known(value, scale)
    number = needed(estimate)

    def probability(trials: int) -> float:
        (found,) = decision_probability([estimate], *MARGIN, np.array([0.025]), trials)
        return float(found)

    if number is None:
        assert probability(MOST) < POWER
    else:
        assert probability(number[0]) >= POWER
        assert number[0] == 2 or probability(number[0] - 1) < POWER


def test_a_ratio_at_the_margin_is_hardly_decided() -> None:
    at_the_margin, far = known(math.log(1.05), 0.03), known(math.log(1.3), 0.03)
    for estimate, low, high in ((at_the_margin, 0.0, 0.4), (far, 0.99, 1.0)):
        (found,) = decision_probability([estimate], *MARGIN, np.array([0.005]), 12)
        assert low <= found <= high


def test_a_stricter_level_needs_more() -> None:
    estimate = known(-0.15, 0.08)
    alone, among = needed(estimate), needed(estimate, 0.025 / 40)
    assert alone is not None
    assert among is not None
    assert alone[0] < among[0]


def test_no_number_where_trials_do_not_help() -> None:
    """The variance between runs stays."""
    assert needed(known(-0.15, 0.02, between=math.sqrt(2) * 0.05)) is None
    assert trials_needed([], np.empty(0), np.empty(0), np.empty(0)) == []


@pytest.mark.parametrize("paired", [True, False])
def test_a_detectable_change_is_found_in_four_of_five(paired: bool) -> None:
    generator, n = np.random.default_rng(2), 8
    example = known(0.0, 0.1, n)
    (reach,) = detectable([example], MARGIN[1], np.array([0.025]))
    found = 0
    for _ in range(1_500):
        logs = generator.normal(size=(2, n)) * 0.1 / math.sqrt(2)
        pair = TwoSamples(
            above=tuple(np.exp(logs[0] + reach)), below=tuple(np.exp(logs[1])), paired=paired
        )
        (estimate,) = estimate_effects([pair])
        found += estimate.interval()[0] > 1.05
    assert found / 1_500 == pytest.approx(0.8, abs=0.08)


def test_the_next_pair_stays_below_the_floor() -> None:
    generator = np.random.default_rng(8)
    below = []
    for _ in range(800):
        first, second = (
            TwoSamples(above=tuple(np.exp(0.05 * a)), below=tuple(np.exp(0.05 * b)))
            for a, b in generator.normal(size=(2, 2, 5))
        )
        (seen,), (later,) = estimate_effects([first]), estimate_effects([second])
        below.append(abs(later.value) <= math.log1p(noise_floor(seen)))
    assert 0.92 <= np.mean(below) <= 0.985
