"""One effect over many cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leadline.stats.overall import overall_effect


def test_without_errors_it_is_the_t_interval_of_the_mean() -> None:
    logs = [-0.2, -0.1, -0.3, 0.0, -0.15]
    found = overall_effect(logs, [0.0] * 5, 0.0)
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert found.interval() == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)


def test_a_noisy_cell_counts_less() -> None:
    found = overall_effect([0.0, 0.0, 0.0, 1.0], [0.01, 0.01, 0.01, 2.0], 0.0)
    assert abs(found.value) < 0.01


def test_what_all_cells_share_does_not_average_out() -> None:
    logs, errors = [0.0] * 40, [0.02] * 40
    alone, shared = overall_effect(logs, errors, 0.0), overall_effect(logs, errors, 0.07)
    assert alone.error < 0.01
    assert shared.error == pytest.approx(0.07, rel=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("cells", [3, 8, 40])
@pytest.mark.parametrize("spread", [0.0, 0.1])
@pytest.mark.parametrize("between", [0.0, 0.05])
def test_the_interval_covers(cells: int, spread: float, between: float) -> None:
    generator = np.random.default_rng(cells)
    held = []
    for _ in range(600):
        errors = 0.05 * np.exp(generator.normal(size=cells) / 2)
        day = between * generator.normal()
        logs = -0.1 + day + generator.normal(size=cells) * np.hypot(errors, spread)
        low, high = overall_effect(logs.tolist(), errors.tolist(), between).interval()
        held.append(low <= math.exp(-0.1) <= high)
    assert 0.9 <= np.mean(held) <= 0.995


def test_two_cells_are_too_few() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        overall_effect([0.0, 0.1], [0.1, 0.1], 0.0)


def test_equal_cells_have_an_interval() -> None:
    found = overall_effect([0.1] * 5, [0.0] * 5, 0.0)
    assert found.value == pytest.approx(0.1)
    assert found.error > 0
