"""The written-down bootstrap against the one that everybody knows."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from leadline.stats import ratios as bootstrap
from leadline.stats.ratios import median_ratio_bounds, median_support

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
