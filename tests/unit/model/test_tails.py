"""Tails and smooth functions against simulation and known values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.smooth import alike, continue_to
from leadline.model.tails import tail_ratio, with_branches


def test_the_ratio_of_one_exponential() -> None:
    """ln(100): the 99th percentile of an exponential distribution over its mean."""
    assert tail_ratio(np.array([1.0]))[0] == pytest.approx(np.log(100))


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (3, 1)])
def test_the_slowest_of_several_branches(before: int, after: int) -> None:
    generator = np.random.default_rng(1)

    def simulated(branches: int) -> float:
        slowest = generator.exponential(size=(400_000, branches)).max(axis=1)
        return float(np.quantile(slowest, 0.99) / slowest.mean())

    found = with_branches(np.array([simulated(before)]), before, after)[0]
    assert found == pytest.approx(simulated(after), rel=0.03)


@given(st.floats(1.4, 20.0), st.integers(1, 12), st.integers(1, 12))
def test_more_branches_have_a_shorter_tail_over_a_longer_mean(
    ratio: float, before: int, after: int
) -> None:
    found = with_branches(np.array([ratio]), before, after)[0]
    if after == before:
        assert found == pytest.approx(ratio, rel=1e-3)
    else:
        assert (found < ratio) == (after > before)


def test_no_branches_are_refused() -> None:
    with pytest.raises(ValueError, match="0 branches"):
        with_branches(np.array([2.0]), 1, 0)


def test_a_value_is_continued() -> None:
    """Close to a known load it is the known value; far from all, their level with all of the
    deviation."""
    known, logs = np.array([1.0, 4.0, 16.0]), np.array([0.0, 1.0, 0.5])
    how = {"deviation": 0.5, "noise": 0.01, "octaves": 2.0}
    at, near = continue_to(known, logs, 4.0, **how)
    assert at == pytest.approx(1.0, abs=0.01)
    between = continue_to(known, logs, 8.0, **how)
    assert 0.5 < between[0] < 1.1
    far = continue_to(known, logs, 1e9, **how)
    assert near < between[1] < 0.5 < far[1]
    assert far[0] == pytest.approx(continue_to(known, logs, 1e12, **how)[0], abs=1e-3)


def test_loads_are_alike_by_their_ratio() -> None:
    loads = np.array([1.0, 2.0, 1000.0, 2000.0])
    found = alike(loads, loads, 2.5)
    assert found[0, 1] == pytest.approx(found[2, 3])
    assert np.all(np.linalg.eigvalsh(found) > 0)
