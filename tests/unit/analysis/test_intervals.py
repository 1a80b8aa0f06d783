"""The interval of a median covers what it promises."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.figures import interval_rank, median_interval, outliers


def interval_coverage(count: int) -> float:
    """The coverage of the interval by order statistics, exact in integers."""
    rank = interval_rank(count)
    assert rank is not None
    outside = 2 * sum(math.comb(count, below) for below in range(rank))
    return 1 - outside / float(2**count)


values = st.lists(st.floats(0, 1e12, allow_nan=False), min_size=6, max_size=60)


@pytest.mark.parametrize("count", range(6))
def test_no_interval_below_six(count: int) -> None:
    assert interval_rank(count) is None
    assert median_interval([1.0] * count) is None


@pytest.mark.parametrize(
    ("count", "rank"), [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (100, 40)]
)
def test_ranks_of_the_published_table(count: int, rank: int) -> None:
    assert interval_rank(count) == rank


@given(st.integers(6, 500))
def test_coverage_is_enough_and_the_next_rank_would_not_be(count: int) -> None:
    rank = interval_rank(count)
    coverage = interval_coverage(count)
    assert rank is not None
    assert coverage >= 0.95
    narrower = 1 - 2 * sum(math.comb(count, below) for below in range(rank + 1)) / 2**count
    assert narrower < 0.95


@given(values, st.randoms(use_true_random=False))
def test_order_does_not_matter(given_values: list[float], generator: random.Random) -> None:
    shuffled = list(given_values)
    generator.shuffle(shuffled)
    assert median_interval(shuffled) == median_interval(given_values)


@given(values, st.integers(-20, 20))
def test_scale_moves_the_interval_along(given_values: list[float], power: int) -> None:
    factor = 2.0**power  # exact in binary
    interval = median_interval(given_values)
    assert interval is not None
    scaled = median_interval([value * factor for value in given_values])
    assert scaled == (interval[0] * factor, interval[1] * factor)


@pytest.mark.parametrize("count", [6, 9, 12, 25])
def test_simulated_coverage(count: int) -> None:
    generator = random.Random(20261121)
    trials = 4000
    true_median = math.exp(0.0)
    hits = 0
    for _ in range(trials):
        interval = median_interval([generator.lognormvariate(0, 1) for _ in range(count)])
        assert interval is not None
        hits += interval[0] <= true_median <= interval[1]
    coverage = interval_coverage(count)
    # Four standard deviations of the binomial count: a false alarm once in 16,000 seeds.
    allowed = 4 * math.sqrt(trials * coverage * (1 - coverage))
    assert abs(hits - trials * coverage) <= allowed


def test_outliers_are_marked_from_five_on() -> None:
    assert outliers([1.0, 1.1, 100.0]) == (False, False, False)
    assert outliers([1.0, 1.1, 0.9, 1.05, 100.0]) == (False, False, False, False, True)
    assert not any(outliers([2.0] * 6))
