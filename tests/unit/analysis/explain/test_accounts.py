"""How much of a change a cause accounts for: a test that can fail."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.explain.accounts import WIDEST, Account, Estimate, share_explained


def around(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("measured", "interval", "expected", "account"),
    [
        (1.0, (0.9, 1.1), (1.0, 0.95, 1.05), Account.ACCOUNTS_FOR),
        (1.0, (0.9, 1.1), (1.2, 1.05, 1.3), Account.ACCOUNTS_FOR),
        (2.0, (1.9, 2.1), (1.0, 0.95, 1.05), Account.PARTLY),
        (0.5, (0.4, 0.6), (1.0, 0.95, 1.05), Account.EXCEEDS),
        (-0.5, (-0.6, -0.4), (1.0, 0.95, 1.05), Account.EXCEEDS),
        (0.0, (-0.1, 0.1), (1.0, 0.95, 1.05), Account.EXCEEDS),
        (1.0, (0.2, 1.8), (1.0, 0.95, 1.05), Account.INCONCLUSIVE),
        (1.0, (0.9, 1.1), (1.0, 0.0, 2.0), Account.INCONCLUSIVE),
        (1.0, None, (1.0, 0.95, 1.05), Account.INCONCLUSIVE),
        (1.0, (-0.5, 2.5), (1.0, 0.95, 1.05), Account.INCONCLUSIVE),
    ],
)
def test_the_four_results(
    measured: float,
    interval: tuple[float, float] | None,
    expected: tuple[float, float, float],
    account: Account,
) -> None:
    cost = around(*expected)
    assert share_explained(measured, interval, cost).account is account
    back = None if interval is None else (-interval[1], -interval[0])
    assert share_explained(-measured, back, -cost).account is account, "savings mirror costs"


def test_the_share_and_its_interval() -> None:
    found = share_explained(2.0, (1.6, 2.5), around(1.8, 1.5, 2.0))
    assert (found.value, found.low, found.high) == pytest.approx((0.9, 0.6, 1.25))
    opposite = share_explained(-1.0, (-1.1, -0.9), around(1.0, 0.9, 1.1))
    assert (opposite.value, opposite.low, opposite.high) == (None, None, None)
    assert share_explained(1.0, (-1.0, 2.0), around(1.0, 0.9, 1.1)).high == math.inf


finite = st.floats(-10, 10)
ordered = st.tuples(finite, finite, finite).map(sorted)


@given(ordered, ordered)
def test_an_explanation_that_excludes_the_change_never_accounts_for_it(
    measured: list[float], expected: list[float]
) -> None:
    low, value, high = measured
    cost = around(expected[1], expected[0], expected[2])
    found = share_explained(value, (low, high), cost)
    if high < cost.low - 1e-6 or low > cost.high + 1e-6:
        assert found.account in (Account.PARTLY, Account.EXCEEDS)
    if found.account is Account.ACCOUNTS_FOR:
        assert found.low is not None
        assert found.high is not None
        assert 1 / WIDEST <= found.low <= 1 + 1e-6
        assert 1 - 1e-6 <= found.high <= WIDEST


def test_an_estimate_contains_its_value() -> None:
    with pytest.raises(ValueError, match="is not from"):
        around(3.0, 1.0, 2.0)
