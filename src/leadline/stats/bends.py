"""Where a curve of rates over loads bends. Loads rise and are positive; rates come as logarithms,
shape (..., levels), one row for each resample; what is found is an index of levels for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


def growth_per_doubling(loads: Values, logs: Values) -> Values:
    """Growth between neighbouring levels for each doubling of the load, as a share:
    (..., levels - 1)."""
    growth: Values = np.exp2(np.diff(logs) / np.log(2) / np.diff(np.log2(loads))) - 1
    return growth


def first_without_growth(loads: Values, logs: Values, least: float) -> Places:
    """The first level over which no later one has grown by `least` for each doubling; the last
    where none is such. Held against all later levels, no single one decides where noise is large.
    """
    doublings = np.log2(loads)
    over = (logs[..., None, :] - logs[..., :, None]) / np.log(2)
    wanted = np.log2(1 + least) * (doublings[None, :] - doublings[:, None])
    later = np.triu(np.ones(wanted.shape, dtype=bool), 1)
    grows = ((over >= wanted) & later).any(axis=-1)
    found: Places = np.argmin(grows, axis=-1)
    return found


def furthest_above_chord(loads: Values, logs: Values) -> Places:
    """The level furthest above the straight line across the levels, from the lowest rate at the
    first load to the highest at the last. Source: Satopaa, Albrecht, Irwin, Raghavan, Finding a
    "Kneedle" in a Haystack, ICDCS workshops 2011, 166."""
    rates = np.exp(logs - logs.max(axis=-1, keepdims=True))
    lowest = rates.min(axis=-1, keepdims=True)
    # The highest is 1; where the lowest is, too, no level is above another.
    up = (rates - lowest) / np.where(lowest < 1, 1 - lowest, 1.0)
    along = (loads - loads[0]) / (loads[-1] - loads[0])
    found: Places = np.argmax(up - along, axis=-1)
    return found


def usl_doubling_loads(contention: Values, coherence: Values, least: float) -> Values:
    """Where X(2N) / X(N) of the Universal Scalability Law falls to g = 1 + `least`, 0 < least < 1:
    the positive root of
    coherence (2 - 4 g) N^2 + (coherence - contention) (2 g - 2) N + (2 - g) (1 - contention).
    Infinite where it never does, 0 where the rate does not grow at all."""
    g = 1 + least
    a = coherence * (2 - 4 * g)
    b = (coherence - contention) * (2 * g - 2)
    c = (2 - g) * np.maximum(1 - contention, 0.0)
    # The form that does not cancel; a <= 0 <= c.
    with np.errstate(divide="ignore", invalid="ignore"):
        root = 2 * c / (-b + np.sqrt(b * b - 4 * a * c))
    return np.where(c == 0, 0.0, root)
