"""What correlated seconds are worth, on series whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from leadline.stats.series import effective_size, mean_standard_error_share

Series = npt.NDArray[np.float64]


def correlated(generator: np.random.Generator, n: int, phi: float, rows: int) -> Series:
    """Stationary AR(1) round 1 with a standard deviation of 0.1, one series a row."""
    series = generator.normal(size=(rows, n))
    for index in range(1, n):
        series[:, index] = phi * series[:, index - 1] + series[:, index] * math.sqrt(1 - phi**2)
    return 1 + 0.1 * series


@pytest.mark.parametrize(
    ("n", "phi", "least", "most"),
    [
        (10, 0.0, 1.0, 1.25),
        (60, 0.0, 1.0, 1.15),
        (60, 0.3, 0.9, 1.1),
        (300, 0.3, 0.93, 1.07),
        (300, 0.6, 0.88, 1.05),
        # Too small where little is known; the page and the function say so.
        (30, 0.6, 0.7, 0.95),
    ],
)
def test_standard_error_is_the_scatter_of_means(
    n: int, phi: float, least: float, most: float
) -> None:
    series = correlated(np.random.default_rng(n), n, phi, 1500)
    shown = [mean_standard_error_share(one) for one in series]
    assert None not in shown
    rms = math.sqrt(sum((one or 0) ** 2 for one in shown) / len(shown))
    assert least <= rms / float(series.mean(axis=1).std()) <= most


def test_effective_size_of_correlated_seconds() -> None:
    series = correlated(np.random.default_rng(1), 2000, 0.5, 40)
    sizes = [effective_size(one) for one in series]
    # AR(1): n (1 - phi) / (1 + phi).
    assert np.mean(sizes) == pytest.approx(2000 / 3, rel=0.15)
    assert effective_size(np.array([1.0, 2.0] * 20)) == 40


def test_scale_does_not_matter() -> None:
    series = correlated(np.random.default_rng(2), 60, 0.3, 1)[0]
    assert mean_standard_error_share(series * 1024) == mean_standard_error_share(series)


def test_nothing_to_say() -> None:
    assert mean_standard_error_share(np.array([])) is None
    assert mean_standard_error_share(np.ones(9)) is None
    assert mean_standard_error_share(np.zeros(20)) is None
    assert mean_standard_error_share(np.ones(20)) == 0
    assert effective_size(np.ones(9)) is None
    assert effective_size(np.ones(20)) == 20
