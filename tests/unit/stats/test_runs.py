"""Several runs of a system: the run is the replicate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from leadline.stats.runs import RunMeans, estimate_over_runs

LOGS = (0.10, 0.14, 0.03), (0.0, -0.06)


def test_one_cell_is_students_t_of_the_runs() -> None:
    (found,) = estimate_over_runs([RunMeans(above=LOGS[0], below=LOGS[1])])
    expected = ttest_ind(*LOGS, equal_var=True).confidence_interval(0.95)
    assert np.log(found.interval()) == pytest.approx((expected.low, expected.high), rel=1e-6)
    assert found.of_runs
    assert found.freedom == pytest.approx(3.0, rel=1e-6)


def test_a_system_with_one_run_has_the_variance_of_the_other() -> None:
    (found,) = estimate_over_runs([RunMeans(above=(0.1,), below=(0.0, 0.02, -0.02))])
    assert found.error == pytest.approx(0.02 * math.sqrt(1 + 1 / 3))
    assert found.freedom == pytest.approx(2.0, rel=1e-6)


def test_what_all_cells_share_keeps_the_freedom_of_the_runs() -> None:
    """Forty cells with the same slow day are one observation of it."""
    generator = np.random.default_rng(1)
    days = np.array([0.05, -0.05, 0.04, -0.04])
    cells = days + 1e-4 * generator.normal(size=(40, 4))
    found = estimate_over_runs([RunMeans(above=(a, b), below=(c, d)) for a, b, c, d in cells])
    assert all(one.freedom == pytest.approx(2.0, rel=0.02) for one in found)
    assert all(one.shared == pytest.approx(one.error, rel=0.02) for one in found)


def test_days_of_each_cell_alone_are_pooled() -> None:
    generator = np.random.default_rng(2)
    cells = 0.05 * generator.normal(size=(40, 4))
    found = estimate_over_runs([RunMeans(above=(a, b), below=(c, d)) for a, b, c, d in cells])
    assert all(one.freedom > 15 for one in found)
    assert np.mean([one.error for one in found]) == pytest.approx(0.05, rel=0.2)


def test_a_run_that_lacks_a_cell() -> None:
    whole = [RunMeans(above=(0.1, 0.2), below=(0.0, 0.05)) for _ in range(3)]
    lacking = RunMeans(above=(0.1, None), below=(0.0, 0.05))
    found = estimate_over_runs([*whole, lacking])
    assert found[-1].value == pytest.approx(0.1 - 0.025)
    assert found[-1].number == pytest.approx(2 / 1.5)
    assert math.isfinite(found[-1].error)


def test_equal_runs_are_not_without_scatter() -> None:
    (found,) = estimate_over_runs([RunMeans(above=(0.0, 0.0), below=(0.0, 0.0))])
    assert found.error > 0
