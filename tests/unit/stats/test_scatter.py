"""Two single measurements: the false positives of the margin alone."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.power import REPEATS
from leadline.report.pages.comparison.takeaways import false_positive_rate
from leadline.stats.outlook import Scatter, share_beyond

ROUNDS = 40_000


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
    """docs/concepts/comparing.md, for one number per system."""
    assert false_positive_rate(0.05) == pytest.approx(0.273, abs=0.001)


def test_one_deviation_is_the_normal_distribution() -> None:
    """Where all things scatter alike."""
    alike = Scatter(median=0.161, ninetieth=0.161, worst=0.161)
    found = share_beyond(0.95, 1.05, alike)
    normal, deviation = NormalDist(), 0.161 * math.sqrt(2)
    expected = normal.cdf(math.log(0.95) / deviation) + normal.cdf(-math.log(1.05) / deviation)
    assert found == pytest.approx(expected)


@given(st.floats(0.001, 0.9), st.floats(0.001, 0.9))
def test_a_wider_band_calls_less(one: float, other: float) -> None:
    near, far = sorted((one, other))
    assert 0 <= false_positive_rate(far) <= false_positive_rate(near) <= 1


def test_no_lower_edge() -> None:
    assert share_beyond(0.0, math.inf, REPEATS) == pytest.approx(0, abs=1e-12)


def test_quantiles_are_the_published_ones() -> None:
    assert REPEATS.quantile(0) == pytest.approx(0.02)
    assert REPEATS.quantile(1.2815516) == pytest.approx(0.161)
    assert REPEATS.quantile(4) == 0.44
