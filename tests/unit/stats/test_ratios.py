"""Ratios of two samples: what holds them together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leadline.stats.ratios import TwoSamples, estimate_ratios

TAME = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2)


def samples(n: int, k: int, *, paired: bool = False) -> TwoSamples:
    generator = np.random.default_rng(100 * n + k)
    return TwoSamples(
        above=tuple(np.exp(generator.normal(0, 0.1, n)).tolist()),
        below=tuple(np.exp(generator.normal(0, 0.1, k)).tolist()),
        paired=paired,
    )


def test_samples_of_all_sizes_keep_their_order() -> None:
    given = [
        samples(2, 2),
        samples(7, 9),
        samples(6, 6, paired=True),
        samples(3, 3, paired=True),
        samples(7, 9),
        samples(30, 22),
        samples(2, 2, paired=True),
    ]
    together = estimate_ratios(given)
    assert together == tuple(estimate_ratios([one])[0] for one in given)
    assert together[1] == together[4]
    assert [one.paired for one in together] == [False, False, True, True, False, False, False]
    assert estimate_ratios([]) == ()


def test_few_values_by_students_t() -> None:
    one = samples(4, 5)
    found = estimate_ratios([one])[0]
    oracle = stats.ttest_ind(np.log(one.above), np.log(one.below), equal_var=False)
    interval = oracle.confidence_interval()
    assert found.p == pytest.approx(oracle.pvalue)
    assert found.interval == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_many_values_by_the_smaller_of_two_tests_doubled() -> None:
    one = samples(8, 9)
    logs = np.log(one.above), np.log(one.below)
    found = estimate_ratios([one])[0]
    plain, trimmed = (
        stats.ttest_ind(*logs, equal_var=False, trim=trim).pvalue for trim in (0, 0.2)
    )
    assert found.p == pytest.approx(min(1, 2 * min(plain, trimmed)))


def test_a_wild_value_hides_nothing() -> None:
    """One trial of six at a third of the others: Welch's p alone would be 0.14 and more."""
    wild = TwoSamples(above=(30.0, *(0.8 * one for one in TAME[1:])), below=TAME)
    found = estimate_ratios([wild])[0]
    assert found.p < 0.01
    assert found.interval[1] < 0.95


def test_scale_is_the_standard_error_with_one_value() -> None:
    generator = np.random.default_rng(5)
    draws = np.exp(generator.normal(0, 0.1, (300, 2, 5)))
    found = estimate_ratios(
        [TwoSamples(above=tuple(a.tolist()), below=tuple(b.tolist())) for a, b in draws]
    )
    rms = math.sqrt(sum(one.scale**2 for one in found) / len(found))
    assert rms == pytest.approx(0.1 * math.sqrt(2), rel=0.06)


@pytest.mark.parametrize("paired", [False, True])
def test_separated(paired: bool) -> None:
    def separated(above: tuple[float, ...], below: tuple[float, ...]) -> bool:
        return estimate_ratios([TwoSamples(above=above, below=below, paired=paired)])[0].separated

    assert separated((3.0, 4.0, 5.0), (1.0, 2.0, 2.5))
    assert separated((1.0, 2.0, 2.5), (3.0, 4.0, 5.0))
    assert not separated((3.0, 4.0, 5.0), (3.0, 2.0, 2.5))
    # Overlapping as samples, apart in every pair.
    assert separated((1.0, 2.0, 3.0), (0.9, 1.9, 2.9)) is paired
