"""How much of a measured change an expected change accounts for, both as intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

# A share whose interval is wider than this, on either side of the whole, decides nothing.
WIDEST = 2.0
# 1.05 ms is inside 1.05 ms, in spite of binary rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its interval, which contains it."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} is not from {self.low} to {self.high}")

    def __neg__(self) -> Estimate:
        return Estimate(value=-self.value, low=-self.high, high=-self.low)


class Account(StrEnum):
    """The result of the test of a cause.

    `accounts for`: the intervals overlap, and the share is known within a factor of `WIDEST`.
    `partly`: the cause explains less than the measured change. `exceeds`: more than it, or another
    direction. `inconclusive`: one of the intervals is unknown or too wide.
    """

    ACCOUNTS_FOR = "accounts for"
    PARTLY = "partly"
    EXCEEDS = "exceeds"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Expected / measured change: `value` with the interval from `low` to `high`, infinite where
    the measured change may be nothing. None: the measured change has no interval, or its direction
    is not that of the cause."""

    account: Account
    value: float | None = None
    low: float | None = None
    high: float | None = None


def share_explained(
    measured: float, interval: tuple[float, float] | None, expected: Estimate
) -> Share:
    """Compare a measured change and its interval with the expected one, in the same unit."""
    # A cause that saves is the mirror image of one that costs.
    sign = -1.0 if expected.low + expected.high < 0 else 1.0
    expected = -expected if sign < 0 else expected
    value = expected.value / (sign * measured) if sign * measured > 0 else None
    if interval is None:
        return Share(account=Account.INCONCLUSIVE, value=value)
    low, high = sorted(sign * end for end in interval)
    slack = _ROUNDING * max(abs(low), abs(high), abs(expected.low), abs(expected.high))
    if high < expected.low - slack:
        account = Account.EXCEEDS
    elif low > expected.high + slack:
        account = Account.PARTLY
    else:
        account = Account.INCONCLUSIVE
    if high <= 0 or value is None:
        return Share(account=account)
    least, most = max(0.0, expected.low) / high, expected.high / low if low > 0 else math.inf
    if account is Account.INCONCLUSIVE and least >= 1 / WIDEST and most <= WIDEST:
        account = Account.ACCOUNTS_FOR
    return Share(account=account, value=value, low=least, high=most)
