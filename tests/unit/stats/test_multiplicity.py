"""Adjusted p values against scipy and against the definitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from leadline.stats.ratios import benjamini_hochberg, holm

families = st.lists(st.floats(0, 1), max_size=30)


def slow_holm(p: list[float]) -> list[float]:
    """p of each: the worst, over all that are at least as small, of what the step asks of it."""
    ordered = sorted(p)
    return [
        min(1.0, max((len(p) - rank) * q for rank, q in enumerate(ordered) if q <= one))
        for one in p
    ]


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
