"""Sizes of requests as a distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many requests had which size in bytes. `exact`: the keys are the sizes themselves,
    otherwise each is the lower bound of a bucket that reaches to the next power of two. `source`
    says who counted; `lost` how many requests are known to be missing in it."""

    counts: Mapping[int, int]
    exact: bool
    source: str
    lost: int = 0

    @property
    def requests(self) -> int:
        return sum(self.counts.values())

    @property
    def mean_bytes(self) -> float | None:
        """None where the buckets do not tell it."""
        if not self.exact or not self.requests:
            return None
        return sum(size * count for size, count in self.counts.items()) / self.requests

    def quantile_bytes(self, q: float) -> int | None:
        """The least size that a share `q` in (0, 1] of the requests does not exceed; of buckets
        the lower bound of the one in which it lies. None without requests."""
        wanted = q * self.requests
        sizes = sorted(size for size, count in self.counts.items() if count)
        reached = accumulate(self.counts[size] for size in sizes)
        upto = zip(sizes, reached, strict=True)
        return next((size for size, requests in upto if requests >= wanted), None)

    def share_from(self, size_bytes: int) -> float | None:
        """Share of the requests that have at least that size. None without requests."""
        if not self.requests:
            return None
        large = sum(count for size, count in self.counts.items() if size >= size_bytes)
        return large / self.requests


def added(parts: list[Mapping[int, int]]) -> dict[int, int]:
    """Counts by size of all parts together."""
    total: dict[int, int] = {}
    for part in parts:
        for size, count in part.items():
            total[size] = total.get(size, 0) + count
    return total
