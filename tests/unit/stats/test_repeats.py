"""How often a band calls two measurements of one thing different: the formula against trying."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.report.pages.comparison.takeaways import REPEATS, false_positive_rate
from leadline.stats.ratios import Scatter, share_beyond

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
