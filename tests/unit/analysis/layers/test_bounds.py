"""How far different windows account for a difference, and no further."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.layers.windows import Seconds, Series, rate_bounds

TENTHS = 10


def sampled(tenths: list[int]) -> Series:
    """A counter that grows by so much in each tenth of a second, read each second."""
    until = [0, *accumulate(tenths)]
    return [(at / TENTHS, float(until[at])) for at in range(0, len(until), TENTHS)]


def over(begin_s: float, end_s: float, late_s: float = 0.0) -> Seconds:
    return Seconds(spans=((begin_s, end_s),), late_s=late_s, divided_by_s=end_s - begin_s)


@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 7, 1000]), min_size=120, max_size=120),
    st.integers(min_value=10, max_value=40),
    st.integers(min_value=30, max_value=60),
    st.integers(min_value=0, max_value=15),
    st.data(),
)
def test_what_was_counted_in_any_window_in_question_lies_within(
    tenths: list[int], begin: int, length: int, late: int, data: st.DataObject
) -> None:
    """Bursts anywhere, whose place samples a second apart do not show."""
    tenths[20:30], tenths[30:40] = [1000] * 10, [0] * 10  # never an even load
    first = data.draw(st.integers(min_value=begin, max_value=begin + late))
    last = data.draw(st.integers(min_value=begin + length, max_value=begin + length + late))
    bounds = rate_bounds(
        sampled(tenths), over(begin / TENTHS, (begin + length) / TENTHS, late / TENTHS)
    )
    assert bounds is not None
    true = sum(tenths[first:last]) / (length / TENTHS)
    interior = range(-(-begin // TENTHS), (begin + length) // TENTHS)
    rates = [sum(tenths[at * TENTHS : at * TENTHS + TENTHS]) for at in interior]
    even = len(rates) >= 3 and max(rates) - min(rates) <= 0.5 * sum(rates) / len(rates)
    if not even:
        assert bounds[0] - 1e-6 <= true <= bounds[1] + 1e-6


def test_of_an_even_load_every_window_has_the_same_rate() -> None:
    assert rate_bounds(sampled([5] * 100), over(3, 7, late_s=1.5)) == pytest.approx((50, 50))


def test_a_group_that_is_written_at_an_end_is_all_within_or_all_without() -> None:
    """One transaction group of 600 in the second from 4 to 5, and nothing else."""
    series = sampled([0] * 40 + [60] * 10 + [0] * 50)
    at_end = rate_bounds(series, over(2, 5))
    assert at_end == pytest.approx((0, 600 / 3))
    within = rate_bounds(series, over(1, 9))
    assert within == pytest.approx((600 / 8, 600 / 8))
    outside = rate_bounds(series, over(7, 9))
    assert outside == pytest.approx((0, 0))


def test_a_second_without_samples_may_hold_as_much_as_the_busiest() -> None:
    series = sampled([0] * 10 + [60] * 10)
    bounds = rate_bounds(series, over(0, 2, late_s=1.0))
    assert bounds is not None
    assert bounds[1] == pytest.approx((600 + 600) / 2)


@pytest.mark.parametrize("series", [[], [(0.0, 1.0)], [(0.0, 1.0), (1.0, 2.0)]])
def test_without_samples_in_the_window_there_are_no_bounds(series: Series) -> None:
    assert rate_bounds(series, over(5, 9)) is None
