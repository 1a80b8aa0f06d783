"""How exactly a number is told: published tables give two or three digits."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite

# Of a bandwidth, the unit that was printed is the one in which it has the fewest digits.
_BYTES = (1.0, 1e3, 1024.0, float(1 << 20), float(1 << 30))
_DIGITS = 10


def rounding(value: float, *, of_bytes: bool = False) -> float:
    """One step of the last digit that `value` was told with, as a share of it; trailing zeros are
    taken for rounded, too. About 1e-10 for a number with all its digits, 0 for zero."""
    if not value or not isfinite(value):
        return 0.0
    return max(_step(value / unit) for unit in (_BYTES if of_bytes else (1.0,)))


def _step(value: float) -> float:
    shown = Decimal(f"{value:.{_DIGITS}g}").normalize()
    if not shown:
        return 1.0  # a number so small that no digit of it is left in this unit
    exponent = shown.as_tuple().exponent
    return float(abs(Decimal((0, (1,), int(exponent))) / shown))
