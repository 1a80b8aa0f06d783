"""Adjusted p values, and intervals of the levels that decide them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from leadline.stats.families import (
    LEVEL,
    benjamini_hochberg,
    benjamini_hochberg_levels,
    holm,
    holm_levels,
    two_sided,
)

families = st.lists(
    st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.sampled_from([0.0, 0.01, 0.05, 1.0])),
    max_size=30,
)


def slow_holm(p: list[float]) -> list[float]:
    order = sorted(range(len(p)), key=lambda index: p[index])
    found, largest = [0.0] * len(p), 0.0
    for step, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p) - step) * p[index]))
        found[index] = largest
    return found


@given(families)
def test_holm_by_definition(p: list[float]) -> None:
    # Of equal values the first in order is multiplied by most, and its product holds for all.
    assert holm(p) == pytest.approx(slow_holm(p))


@given(families.filter(bool))
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p).tolist())


@given(families, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_nothing_gets_smaller(
    p: list[float], generator: random.Random
) -> None:
    order = list(range(len(p)))
    generator.shuffle(order)
    for adjust in (holm, benjamini_hochberg):
        adjusted = adjust(p)
        assert all(a >= one or a == pytest.approx(one) for a, one in zip(adjusted, p, strict=True))
        assert all(a <= 1 for a in adjusted)
        mixed = adjust([p[index] for index in order])
        assert mixed == pytest.approx([adjusted[index] for index in order])


@given(families)
def test_benjamini_hochberg_is_never_stricter(p: list[float]) -> None:
    both = zip(benjamini_hochberg(p), holm(p), strict=True)
    assert all(softer <= stricter * (1 + 1e-12) for softer, stricter in both)


def test_nothing_and_one() -> None:
    assert holm([]) == benjamini_hochberg([]) == ()
    assert holm([0.03]) == benjamini_hochberg([0.03]) == (0.03,)


@given(families.filter(bool))
@example([1.0, 1.0, 0.01171875, 0.0078125, 0.0078125])
def test_levels_decide_as_the_adjusted_p(p: list[float]) -> None:
    """A bound at half of what is left to its level excludes exactly what is rejected."""
    tested = two_sided(np.array(p)).tolist()
    for adjust, levels in (
        (holm, holm_levels),
        (benjamini_hochberg, benjamini_hochberg_levels),
    ):
        adjusted = adjust(tested)
        for one, corrected, level in zip(tested, adjusted, levels(adjusted), strict=True):
            tail = (1 - level) / 2
            assert level >= 0.95
            if corrected <= LEVEL:
                assert one <= tail * (1 + 1e-9)
            else:
                assert one >= tail * (1 - 1e-9)


@given(families.filter(bool))
def test_equal_values_have_one_level(p: list[float]) -> None:
    """Not one by the order in which they come."""
    levels = holm_levels(holm([*p, *p]))
    assert levels[: len(p)] == levels[len(p) :]


def test_levels_alone_and_of_nothing() -> None:
    assert benjamini_hochberg_levels([]) == holm_levels([]) == ()
    assert benjamini_hochberg_levels([0.3]) == holm_levels([0.3]) == (0.95,)
    assert holm_levels([0.5] * 40) == pytest.approx((1 - 2 * LEVEL / 40,) * 40)
