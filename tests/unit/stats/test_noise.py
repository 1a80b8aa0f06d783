"""The floor below which a thing differs from itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leadline.stats.ratios import noise_floor


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
