"""p values of many questions asked at once, adjusted so that 5 % means 5 % again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p: Sequence[float]) -> tuple[float, ...]:
    """Adjusted so that in 1 - alpha of families no rejection at all is wrong, whatever the
    dependence. Source: Holm, Scandinavian Journal of Statistics 6 (1979) 65."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return tuple(adjusted.tolist())


def benjamini_hochberg(p: Sequence[float]) -> tuple[float, ...]:
    """Adjusted so that on average a share alpha of the rejections at most is wrong, for values
    that are independent or depend on each other positively. Source: Benjamini and Hochberg,
    Journal of the Royal Statistical Society B 57 (1995) 289."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = values[order] * len(values) / np.arange(1, len(values) + 1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return tuple(adjusted.tolist())
