"""Ratios of two samples: what holds them together."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import nctdtr, stdtrit
from scipy.stats import false_discovery_control

from leadline.report.pages.comparison.takeaways import REPEATS, false_positive_rate
from leadline.stats import ratios as bootstrap
from leadline.stats.ratios import (
    Scatter,
    TwoSamples,
    benjamini_hochberg,
    detectable,
    estimate_ratios,
    holm,
    independent_difference,
    median_ratio_bounds,
    median_support,
    noise_floor,
    paired_difference,
    share_beyond,
    trials_needed,
)

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


# --- bootstrap of the ratio of two medians --------------------------------------------------------


Values = npt.NDArray[np.float64]
SEED = 20261121


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_support_is_that_of_all_resamples(n: int) -> None:
    """n^n resamples, counted one by one."""
    counted: Counter[tuple[int, int]] = Counter()
    for draw in itertools.product(range(n), repeat=n):
        ordered = sorted(draw)
        counted[ordered[(n - 1) // 2], ordered[n // 2]] += 1
    lower, upper, weights = median_support(n)
    given = dict(zip(zip(lower.tolist(), upper.tolist(), strict=True), weights, strict=True))
    for place, count in counted.items():
        assert given.get(place, 0.0) == pytest.approx(float(Fraction(count, n**n)), abs=2e-5)
    assert weights.sum() == pytest.approx(1)


def slow_bounds(above: Values, below: Values, tail: float, resamples: int) -> tuple[float, float]:
    """Resample, take medians, divide, sort."""
    generator = np.random.default_rng(SEED)
    ratios = np.sort(
        [
            np.median(generator.choice(above, len(above)))
            / np.median(generator.choice(below, len(below)))
            for _ in range(resamples)
        ]
    )
    return float(ratios[round(tail * resamples)]), float(ratios[-round(tail * resamples)])


@pytest.mark.parametrize(("n", "k"), [(6, 6), (7, 10), (12, 9), (25, 8), (40, 41)])
def test_bounds_agree_with_monte_carlo(n: int, k: int) -> None:
    """The slow way's bound at 2.5 % has a scatter: it must lie between ours at 2 % and at 3 %."""
    generator = np.random.default_rng(n * 100 + k)
    above = np.exp(generator.normal(0, 0.2, (1, n)))
    below = np.exp(generator.normal(0, 0.2, (1, k)))
    slow = slow_bounds(above[0], below[0], 0.025, 5_000)
    by_tail = {
        tail: [
            float(one[0])
            for one in (bootstrap._independent if max(n, k) <= 20 else bootstrap._drawn)(
                above, below, tail
            )
        ]
        for tail in (0.02, 0.025, 0.031)
    }
    assert by_tail[0.02][0] <= slow[0] <= by_tail[0.031][0]
    assert by_tail[0.031][1] <= slow[1] <= by_tail[0.02][1]
    ours = [float(one[0]) for one in median_ratio_bounds(above, below, paired=False)]
    assert ours == by_tail[0.025]


@pytest.mark.parametrize("n", [6, 9, 20, 21])
def test_medians_of_resamples_are_numpys(n: int) -> None:
    generator = np.random.default_rng(n)
    values = generator.lognormal(size=(7, n))
    drawn = bootstrap._draws(n, SEED)[:50]
    assert (drawn.sum(axis=1) == n).all()
    ordered = np.repeat(values[:, None, :], len(drawn), axis=1)
    slow = [
        [np.median(np.repeat(row, counts)) for row, counts in zip(rows, drawn, strict=True)]
        for rows in ordered
    ]
    assert np.allclose(bootstrap._medians(values, drawn), slow, rtol=1e-14)


def test_pairs_are_drawn_together() -> None:
    """A block's own level falls out of a ratio of pairs, and not out of independent sides."""
    generator = np.random.default_rng(SEED)
    blocks = np.exp(generator.normal(0, 0.5, (1, 11)))
    noise = np.exp(generator.normal(0, 0.001, (2, 1, 11)))
    low, high = median_ratio_bounds(blocks * noise[0], blocks * noise[1], paired=True)
    assert high[0] / low[0] < 1.01
    low, high = median_ratio_bounds(blocks * noise[0], blocks * noise[1], paired=False)
    assert high[0] / low[0] > 1.5


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("n", [6, 9, 24])
def test_order_exchange_and_scale(n: int, paired: bool) -> None:
    generator = np.random.default_rng(n)
    above, below = np.exp(generator.normal(0, 0.2, (2, 20, n)))
    low, high = median_ratio_bounds(above, below, paired=paired)
    mixed = generator.permutation(n)
    again = median_ratio_bounds(above[:, mixed], below[:, mixed], paired=paired)
    assert np.array_equal(again, (low, high))
    assert np.array_equal(
        median_ratio_bounds(above * 4, below / 2, paired=paired), (low * 8, high * 8)
    )
    if paired or n <= 20:
        swapped = median_ratio_bounds(below, above, paired=paired)
        assert np.allclose(swapped, (1 / high, 1 / low), rtol=1e-12)


def test_rows_do_not_know_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it matter how many are computed at once."""
    generator = np.random.default_rng(SEED)
    above, below = np.exp(generator.normal(0, 0.2, (2, 9, 8)))
    whole = {paired: median_ratio_bounds(above, below, paired=paired) for paired in (True, False)}
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 1)
    for paired, expected in whole.items():
        assert np.array_equal(median_ratio_bounds(above, below, paired=paired), expected)


# --- adjusted p values ----------------------------------------------------------------------------


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


# --- noise floor ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_next_pair_stays_below_the_floor(n: int) -> None:
    """Scatter alone: 95 % of later measurements of the same thing differ by less."""
    generator = np.random.default_rng(n)
    rounds = 3000
    first, second, third, fourth = np.exp(generator.normal(0, 0.05, (4, rounds, n)))
    floors = [noise_floor(*one) for one in zip(first.tolist(), second.tolist(), strict=True)]
    assert None not in floors
    seen = np.abs(np.log(np.median(third, axis=1) / np.median(fourth, axis=1)))
    below = int((seen <= np.log1p(np.array(floors, dtype=np.float64))).sum())
    assert below >= 0.95 * rounds - 3 * math.sqrt(rounds * 0.95 * 0.05)


def test_what_was_seen_counts_where_it_is_more_than_scatter() -> None:
    first, second = [100.0, 100.1, 99.9], [120.0, 120.1, 119.9]
    assert noise_floor(first, second) == pytest.approx(0.2)
    assert noise_floor(second, first) == noise_floor(first, second)
    assert noise_floor([100.0], [110.0]) == pytest.approx(0.1)


def test_order_and_scale_do_not_matter() -> None:
    first, second = [1.0, 1.2, 0.9], [1.1, 1.0, 1.3]
    floor = noise_floor(first, second)
    assert noise_floor(first[::-1], second) == pytest.approx(floor)
    assert noise_floor([8 * one for one in first], [8 * one for one in second]) == pytest.approx(
        floor
    )


@pytest.mark.parametrize(("first", "second"), [([], [1.0]), ([1.0], [0.0]), ([1.0], [math.inf])])
def test_nothing_to_say(first: list[float], second: list[float]) -> None:
    assert noise_floor(first, second) is None


# --- detectable differences -----------------------------------------------------------------------


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


# --- two single measurements ----------------------------------------------------------------------


ROUNDS = 200_000


@pytest.mark.parametrize("band", [0.02, 0.05, 0.2])
def test_as_simulated(band: float) -> None:
    generator = np.random.default_rng(20261121)
    spread = math.log(REPEATS.ninetieth / REPEATS.median) / 1.281552
    drawn = REPEATS.median * np.exp(spread * generator.normal(size=ROUNDS))
    deviation = np.minimum(drawn, REPEATS.worst)
    logs = deviation * (generator.normal(size=ROUNDS) - generator.normal(size=ROUNDS))
    ratios = np.exp(logs)
    share = float(np.mean((ratios < 1 - band) | (ratios > 1 + band)))
    assert false_positive_rate(band) == pytest.approx(share, abs=4 * math.sqrt(0.25 / ROUNDS))


def test_as_the_page_on_comparing_tells() -> None:
    """docs/concepts/comparing.md: 23.6 % of 2,000 simulated comparisons."""
    assert false_positive_rate(0.05) == pytest.approx(
        0.236, abs=3 * math.sqrt(0.236 * 0.764 / 2000)
    )


def test_one_deviation_is_the_normal_distribution() -> None:
    """Where all things scatter alike: 80.2 % at 13.5 % of deviation (same page)."""
    alike = Scatter(median=0.135, ninetieth=0.135, worst=0.135)
    found = share_beyond(0.95, 1.05, alike)
    assert found == pytest.approx(0.802, abs=3 * math.sqrt(0.8 * 0.2 / 2000))


@given(st.floats(0.001, 0.9), st.floats(0.001, 0.9))
def test_a_wider_band_calls_less(one: float, other: float) -> None:
    near, far = sorted((one, other))
    assert 0 <= false_positive_rate(far) <= false_positive_rate(near) <= 1


def test_no_lower_edge() -> None:
    assert share_beyond(0.0, math.inf, REPEATS) == pytest.approx(0, abs=1e-12)


def test_quantiles_are_the_published_ones() -> None:
    assert REPEATS.quantile(0) == pytest.approx(0.016)
    assert REPEATS.quantile(1.2815516) == pytest.approx(0.135)
    assert REPEATS.quantile(4) == 0.36


# --- Student's t ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(2, 2), (3, 5), (6, 6), (10, 7), (20, 20)])
@pytest.mark.parametrize("trim", [0.0, 0.2])
def test_independent_is_welch_and_yuen(n: int, k: int, trim: float) -> None:
    generator = np.random.default_rng(n * k)
    first, second = generator.normal(0, 1, (50, n)), generator.normal(0.3, 3, (50, k))
    oracle = stats.ttest_ind(first, second, axis=1, equal_var=False, trim=trim)
    ours = independent_difference(first, second, trim=trim)
    assert np.allclose(ours.p(), oracle.pvalue, rtol=1e-10)
    assert np.allclose(ours.freedom, oracle.df, rtol=1e-10)
    if not trim:
        interval = oracle.confidence_interval()
        assert np.allclose(ours.bounds(), (interval.low, interval.high), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_paired_is_the_test_of_one_sample(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.2, 1, (50, n))
    oracle = stats.ttest_1samp(differences, 0, axis=1)
    ours = paired_difference(differences)
    assert np.allclose(ours.p(), oracle.pvalue, rtol=1e-10)
    interval = oracle.confidence_interval()
    assert np.allclose(ours.bounds(), (interval.low, interval.high), rtol=1e-9)


def test_trimmed_pairs_agree_with_winsorised_deviation() -> None:
    differences = np.random.default_rng(1).normal(0.2, 1, (50, 10))
    ours = paired_difference(differences, trim=0.2)
    winsorised = np.asarray(stats.mstats.winsorize(differences, limits=(0.2, 0.2), axis=1))
    # Yuen's form of the standard error: sqrt((n - 1) s_w^2 / (h (h - 1))).
    expected = np.sqrt(9 * winsorised.var(axis=1, ddof=1) / (6 * 5))
    assert np.allclose(ours.error, expected)
    assert np.allclose(ours.difference, stats.trim_mean(differences, 0.2, axis=1))


def test_one_wild_value_does_not_rule() -> None:
    first = np.array([[1.0, 1.1, 0.9, 1.05, 0.95, 50.0]])
    second = np.array([[2.0, 2.1, 1.9, 2.05, 1.95, 2.0]])
    assert independent_difference(first, second, trim=0.2).p()[0] < 0.001
    assert independent_difference(first, second).p()[0] > 0.1


def test_equal_values_have_the_least_deviation() -> None:
    first, second = np.full((1, 3), 5.0), np.full((1, 3), 5.1)
    ours = independent_difference(first, second, least_deviation=0.01)
    assert ours.error[0] == pytest.approx(0.01 * np.sqrt(2 / 3))
    assert ours.freedom[0] == pytest.approx(4)
    assert 0 < ours.p()[0] < 0.001
    alone = paired_difference(first - second, least_deviation=0.01)
    assert alone.error[0] == pytest.approx(0.01 / np.sqrt(3))
