"""Axes of charts: where they begin and end, and at which round values they are marked."""

from __future__ import annotations

import math

# Below it floats have no decades; nothing that is measured is.
NEXT_TO_ZERO = 1e-290
# On so short a log axis powers of ten alone would leave it almost unmarked.
_FEW_DECADES = 2.5
_MOST_TICKS = 6

Axis = tuple[float, float, list[float]]


def linear_axis(largest: float) -> Axis:
    """(low, high, ticks) from zero to a little above `largest`, with about four round ticks."""
    if largest <= NEXT_TO_ZERO:
        return 0.0, 1.0, [0.0]
    rough = largest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    ticks = [step * index for index in range(math.floor(largest / step * 1.0001) + 1)]
    return 0.0, largest * 1.04, ticks


def decades_axis(smallest: float, largest: float) -> Axis:
    """(low, high, ticks) of a log axis from the decade below to the decade above, with ticks at
    powers of ten. Both values are above zero."""
    first = math.floor(math.log10(smallest))
    last = math.ceil(math.log10(largest))
    every = max(1, math.ceil((last - first) / 5))
    ticks = [10.0**power for power in range(first, last + 1, every)]
    return 10.0**first, 10.0**last, ticks


def log_axis(smallest: float, largest: float) -> Axis:
    """(low, high, ticks) of a log axis close round the values, with ticks at 1, 2 and 5 times
    powers of ten, or at powers of ten where it is long. Both values are above zero."""
    low, high = smallest / 1.15, largest * 1.15
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if math.log10(high / low) <= _FEW_DECADES else (1,)
    ticks = [
        tick
        for power in range(first, last + 1)
        for factor in factors
        if low <= (tick := factor * 10.0**power) <= high
    ]
    every = math.ceil(len(ticks) / _MOST_TICKS) if factors == (1,) else 1
    return low, high, ticks[::every] or [math.sqrt(low * high)]
