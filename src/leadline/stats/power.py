"""How small a difference so many values find, and how many values a difference needs."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from leadline.stats.ratios import MANY

POWER = 0.8
MOST = 1_000
# The standard error of a median is sqrt(pi / 2) that of the mean for normal noise.
_MEDIAN = math.sqrt(math.pi / 2)


@cache
def _multipliers(paired: bool, level: float, power: float) -> npt.NDArray[np.float64]:
    """By n = 2 ... MOST: the difference in units of `scale` that n values a side find.

    (t(1 - level/2) + t(power)) / sqrt(n): the usual approximation, which for a power of 80 % has
    76 to 86 % by the non-central t. That itself cannot be inverted at small levels: scipy's
    inverse does not come back from 1e-7.
    """
    from scipy.special import stdtrit

    n = np.arange(2, MOST + 1)
    freedom = n - 1 if paired else 2 * n - 2
    reach = (stdtrit(freedom, 1 - level / 2) + stdtrit(freedom, power)) / np.sqrt(n)
    return np.asarray(np.where(n >= MANY, _MEDIAN, 1.0) * reach, dtype=np.float64)


def detectable(scale: float, number: float, *, paired: bool = False) -> float:
    """The difference that `number` values a side (>= 2) tell from none with 80 % power, two-sided
    at 5 %; `scale` as in RatioEstimate, the difference in the same unit."""
    reach = _multipliers(paired, 0.05, POWER)
    return float(scale * reach[min(math.floor(number), MOST) - 2])


def trials_needed(
    difference: float,
    scale: float,
    *,
    paired: bool = False,
    more_than: int = 1,
    level: float = 0.05,
    power: float = POWER,
) -> int | None:
    """The least number a side, above `more_than`, with which a true `difference` is told from none
    with `power`, two-sided at `level`. None where 1,000 do not suffice, or there is none."""
    if not (difference > 0 and math.isfinite(difference) and math.isfinite(scale)):
        return None
    first = max(more_than + 1, 2)
    enough = np.flatnonzero(_multipliers(paired, level, power)[first - 2 :] * scale <= difference)
    return first + int(enough[0]) if len(enough) else None
