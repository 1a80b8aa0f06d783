"""Latencies from fio's latency logs: of every I/O, or means of intervals that can be weighted."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from leadline.formats.fio_histogram_log import bucket_of, bucket_value
from leadline.formats.fio_log import Line, Log, read_lines
from leadline.formats.output import Latency
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

# int64 nanoseconds, as histograms count them.
_LONGEST_NS = (1 << 63) - 1
# Lines of one direction that a log may have before the other's: they come at the same intervals.
_AHEAD = 16


@dataclass(slots=True)
class _Moments:
    count: int = 0
    total: int = 0
    squares: int = 0
    least: int = 0
    most: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def take(self, value: int) -> None:
        self.least = min(self.least, value) if self.count else value
        self.most = max(self.most, value)
        self.count += 1
        self.total += value
        self.squares += value * value
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def latency(self, unit_ns: int) -> Latency | None:
        if self.most * unit_ns * 2 > _LONGEST_NS:
            return None
        mean = self.total / self.count
        # Exact in integers: the difference of two large sums keeps its digits.
        spread = self.squares * self.count - self.total * self.total
        scale = unit_ns / 1e9
        return Latency(
            min_s=self.least * scale,
            max_s=self.most * scale,
            mean_s=mean * scale,
            stddev_s=math.sqrt(spread / (self.count * (self.count - 1))) * scale
            if self.count > 1
            else 0.0,
            count=self.count,
            histogram=LatencyHistogram.from_bins(
                {bucket_value(index) * unit_ns: count for index, count in self.buckets.items()}
            ),
        )


def latencies_of_ios(logs: Mapping[str, bytes], unit_ns: int) -> Mapping[Op, Latency]:
    """Latencies from logs of every I/O, several jobs' as one, in fio's own buckets. A direction
    with a negative value, or one too large to be, is left out. Raises FormatError with the line."""
    found: dict[Op, _Moments] = {}
    broken: set[Op] = set()
    for name, content in logs.items():
        for line in read_lines(name, content):
            if line.value < 0:
                broken.add(line.op)
            else:
                found.setdefault(line.op, _Moments()).take(int(line.value))
    made = {op: moments.latency(unit_ns) for op, moments in found.items() if op not in broken}
    return {op: latency for op, latency in made.items() if latency}


def weighted_means(
    pairs: Mapping[str, tuple[bytes, Log, bytes]], unit_ns: int
) -> Mapping[Op, Latency] | None:
    """Mean latencies from logs of intervals: each interval's mean weighted with its IOPS.

    `pairs`: by the latency log's name its content, the IOPS log and that one's content, of the
    same job. None where the lines of a direction do not belong together: their number differs, or
    a time by more than a tenth of an interval. fio often ends before the last interval's IOPS line:
    the last line of a direction may be without one. Raises FormatError with the line.
    """
    sums: dict[Op, float] = {}
    weights: dict[Op, float] = {}
    for name, (latencies, log, rates) in pairs.items():
        means, weighing = read_lines(name, latencies), read_lines(name, rates)
        waiting: dict[Op, tuple[deque[Line], deque[Line]]] = {op: (deque(), deque()) for op in Op}
        for pair in zip_longest(means, weighing):
            for side, line in enumerate(pair):
                if line:
                    waiting[line.op][side].append(line)
            for op, (mean, weight) in waiting.items():
                while mean and weight:
                    one, many = mean.popleft(), weight.popleft()
                    apart = abs(one.time_ms - many.time_ms)
                    if apart > log.interval_ms / 10 or one.block or min(one.value, many.value) < 0:
                        return None
                    sums[op] = sums.get(op, 0.0) + one.value * many.value
                    weights[op] = weights.get(op, 0.0) + many.value
                if len(mean) > _AHEAD or len(weight) > _AHEAD:
                    return None
        if any(len(mean) > 1 or weight for mean, weight in waiting.values()):
            return None
    return {
        op: Latency(mean_s=sums[op] / weight * unit_ns / 1e9)
        for op, weight in weights.items()
        if weight
    }
