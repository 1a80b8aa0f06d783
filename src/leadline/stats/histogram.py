"""Latency histograms of trials, merged per cell: the only source of percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

_INT32 = np.iinfo(np.int32)
_MOST_AT_ONCE = 256


# Not slotted: several percentiles use the cumulated counts.
@dataclass(frozen=True, eq=False)
class LatencyHistogram:
    """Counts by bucket value: two arrays of equal length, values strictly increasing. They are
    int64, or int32 in a histogram of `narrow`: multiply them as floats.

    Values are nanoseconds, the representative value of the bucket that the engine reports
    (fio: bucket middle, relative error at most 1/128).
    """

    values_ns: npt.NDArray[np.integer]
    counts: npt.NDArray[np.integer]

    @classmethod
    def from_bins(cls, bins: Mapping[int, int]) -> LatencyHistogram:
        """Build from {nanoseconds: count}, in any order; raises ValueError on a negative entry."""
        return cls.from_arrays(
            np.fromiter(bins.keys(), dtype=np.int64, count=len(bins)),
            np.fromiter(bins.values(), dtype=np.int64, count=len(bins)),
        )

    @classmethod
    def from_arrays(
        cls, values_ns: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]
    ) -> LatencyHistogram:
        """Build from distinct values in any order and their counts; raises ValueError on a negative
        entry. The histogram takes over the arrays."""
        if not len(values_ns):
            return cls(values_ns, counts)
        fewest = counts.min()
        ordered = bool((values_ns[1:] > values_ns[:-1]).all())
        if fewest < 0 or (values_ns[0] if ordered else values_ns.min()) < 0:
            raise ValueError("a histogram cannot have negative values or counts")
        if not fewest or not ordered:
            order = np.argsort(values_ns)
            keep = order[counts[order] > 0]
            values_ns, counts = values_ns[keep], counts[keep]
        return cls(values_ns, counts)

    @classmethod
    def merged(cls, parts: Iterable[LatencyHistogram]) -> LatencyHistogram:
        """Merge the I/Os of all parts; exact, independent of order."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        if len(parts) > _MOST_AT_ONCE:
            # The parts of one engine have the same few values: their sum is small.
            batches = (parts[at : at + _MOST_AT_ONCE] for at in range(0, len(parts), _MOST_AT_ONCE))
            return cls.merged(map(cls.merged, batches))
        values = np.concatenate([part.values_ns for part in parts] or [np.empty(0, dtype=np.int64)])
        counts = np.concatenate([part.counts for part in parts] or [np.empty(0, dtype=np.int64)])
        if not len(values):
            return cls(values, counts)
        order = values.argsort(kind="stable")
        values = values[order]
        begins = np.flatnonzero(np.diff(values, prepend=-1))
        return cls(values[begins], np.add.reduceat(counts[order], begins, dtype=np.int64))

    def narrow(self) -> LatencyHistogram:
        """Return the same histogram in half the memory, if all its numbers fit into int32."""
        if not len(self.counts) or max(self.values_ns[-1], self.counts.max()) > _INT32.max:
            return self
        return LatencyHistogram(self.values_ns.astype(np.int32), self.counts.astype(np.int32))

    @cached_property
    def cumulated(self) -> npt.NDArray[np.integer]:
        """I/Os up to each bucket, that bucket included."""
        return self.counts.cumsum()

    @cached_property
    def count(self) -> int:
        """Number of I/Os."""
        return int(self.counts.sum())

    def quantile_s(self, q: float) -> float:
        """Compute the seconds below which a share q in (0, 1] of the I/Os lies, as fio does:
        the first bucket where the cumulated count reaches q x count. Raises ValueError if empty.
        """
        if not len(self.counts):
            raise ValueError("an empty histogram has no quantile")
        # A whole number: numpy would convert all counts to compare them with a fraction.
        index = int(self.cumulated.searchsorted(math.ceil(q * self.count), side="left"))
        return float(self.values_ns[min(index, len(self.cumulated) - 1)]) / 1e9

    def mean_s(self) -> float:
        """Compute the mean in seconds, within the bucket error. Raises ValueError if empty."""
        if not len(self.counts):
            raise ValueError("an empty histogram has no mean")
        # np.average needs twice the time.
        weighted = np.multiply(self.values_ns, self.counts, dtype=np.float64).sum()
        return float(weighted / self.counts.sum(dtype=np.float64)) / 1e9

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LatencyHistogram)
            and np.array_equal(self.values_ns, other.values_ns)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]


def samples_needed(q: float) -> int:
    """Compute the I/Os that a percentile needs: ten above it, 10 / (1 - q)."""
    return round(10 / (1 - q))
