"""Logs of fio with one value per I/O or per interval.

They are written by `write_iops_log`, `write_bw_log` and `write_lat_log`, with or without
`log_avg_msec`. A line is `time ms, value, direction, block size` and, by version and options, an
offset, a priority and an issue time. The block size is that of an I/O, or 0 in a log of intervals.
With `per_job_logs=0` one file holds several jobs, one after the other."""

from __future__ import annotations

import io
import math
import re
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice, zip_longest
from typing import NamedTuple

import numpy as np

from leadline.formats.fio.histogram_logs import DIRECTIONS, bucket_of, bucket_value
from leadline.formats.result import FormatError, Latency
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

_LINE = re.compile(
    rb"\s*(\d{1,15})\s*,\s*(-?\d{1,19}(?:\.\d{1,9})?)\s*,\s*([012])\s*(?:,\s*(\d{1,15})\s*)?"
    rb"((?:,\s*(?:\d{1,20}|0x[0-9a-fA-F]{1,8})\s*){0,3})"
)
_COLUMNS = range(3, 8)
_LONGEST_LINE = 512
# Lines from which the length of an interval is computed.
_INTERVAL_LINES = 2000
# A log of `log_unix_epoch` counts from 1970; no job ran for three years.
_EPOCH_MS = 10**11
# 4 days of seconds: more windows than that are no one's load, and much memory.
_MOST_WINDOWS = 350_000


class Window(NamedTuple):
    """One interval of a log: its end in seconds since the job began, and the value in it."""

    end_s: float
    value: float


class Progress(NamedTuple):
    """A part of a run: what was done by each reported second, and by its end."""

    seconds: Sequence[tuple[float, int]]
    done: int
    ran_s: float


def progress_windows(parts: Iterable[Progress]) -> tuple[Window, ...]:
    """Compute the rate of each whole second, one part after the other.

    What was done between two reported points (the seconds and the end of a part) is spread evenly:
    of a part shorter than a second only the total is known.
    """
    times, counts = [0.0], [0.0]
    for part in parts:
        before_s, before = times[-1], counts[-1]
        points = [*(point for point in part.seconds if point[0] < part.ran_s)]
        points.append((part.ran_s, part.done))
        times += [before_s + second for second, _ in points]
        counts += [before + done for _, done in points]
    ends = range(1, int(times[-1]) + 1)
    reached = [0.0, *np.interp(ends, times, counts).tolist()]
    return tuple(Window(float(end), reached[end] - reached[end - 1]) for end in ends)


class Line(NamedTuple):
    """One line; `block` is 0 for an interval. `priority`: one of the `columns` has a form that only
    fio 3 writes."""

    number: int
    time_ms: int
    value: float
    op: Op
    block: int
    columns: int
    priority: bool


def read_lines(name: str, content: bytes) -> Iterator[Line]:
    """Yield the lines of a log. Raises FormatError with the line."""
    columns = 0
    for number, raw in enumerate(io.BytesIO(content), start=1):
        text = raw.lstrip(b"\xef\xbb\xbf") if number == 1 else raw
        if not text.strip():
            continue
        match = _LINE.fullmatch(text) if len(text) <= _LONGEST_LINE else None
        rest = match.group(5) if match else b""
        found = 3 + (match.group(4) is not None) + rest.count(b",") if match else 0
        if match is None or (columns and found != columns):
            cut = bool(columns) and not raw.endswith(b"\n")
            raise FormatError.unreadable(
                f"{name} ends within a line" if cut else f"a line of {name} is none of a fio log",
                f"line {number}: {raw[:80]!r}",
                cut=cut,
            )
        columns = found
        yield Line(
            number,
            int(match.group(1)),
            float(match.group(2)),
            DIRECTIONS[int(match.group(3))],
            int(match.group(4) or 0),
            found,
            b"x" in rest,
        )


def parse_iops_log(text: str) -> Mapping[Op, tuple[Window, ...]]:
    """Compute IOPS per window and direction, summed over the jobs of the log.

    For a log whose intervals are one second (`log_avg_msec=1000`). Several jobs write into one
    file, one behind the other, so lines are gathered by second. A last interval below half a second
    is left out: its rate is of a few I/Os. Times since 1970 are counted from one second before the
    first line. Raises FormatError with the line.
    """
    columns = text.partition("\n")[0].count(",") + 1
    if columns in _COLUMNS and _plain(columns).fullmatch(text):
        return _plain_windows(text, columns)
    sums: dict[Op, dict[int, float]] = {}
    start_ms = 0
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line.encode("utf-8", "replace"))
        if match is None:
            raise FormatError.unreadable(
                f"line {number} of a fio log is not understood: {line[:80]!r}"
            )
        end_ms, value = int(match.group(1)), float(match.group(2))
        if number == 1 and end_ms > _EPOCH_MS:
            start_ms = end_ms - 1000
        end_ms -= start_ms
        window = round(end_ms / 1000)
        if abs(end_ms / 1000 - window) < 0.5 and window > 0:
            slot = sums.setdefault(DIRECTIONS[int(match.group(3))], {})
            slot[window] = slot.get(window, 0.0) + value
    return {
        op: tuple(
            Window(end_s=float(window), value=value) for window, value in sorted(slots.items())
        )
        for op, slots in sums.items()
    }


@cache
def _plain(columns: int) -> re.Pattern[str]:
    """Make the pattern of a whole log as fio writes it; `_LINE` matches each of its lines."""
    return re.compile(
        r"(?:[0-9]{1,15}, [0-9]{1,15}, [012]" + ", [0-9]{1,15}" * (columns - 3) + r"\n)+"
    )


def _plain_windows(text: str, columns: int) -> Mapping[Op, tuple[Window, ...]]:
    """Parse a plain log as `parse_iops_log`, several times as fast."""
    table = np.fromstring(text.rstrip("\n").replace("\n", ","), dtype=np.int64, sep=",")
    table = table.reshape(-1, columns)
    if table[0, 0] > _EPOCH_MS:
        table[:, 0] -= table[0, 0] - 1000
    ends_s = table[:, 0] / 1000
    windows = np.rint(ends_s)
    taken = (np.abs(ends_s - windows) < 0.5) & (windows > 0)
    windows, values, ways = windows[taken], table[taken, 1], table[taken, 2]
    found: dict[Op, tuple[Window, ...]] = {}
    for way in dict.fromkeys(ways.tolist()):
        mine = ways == way
        places, sums = windows[mine], values[mine].astype(np.float64)
        if (places[1:] <= places[:-1]).any():  # several jobs
            places, slot = np.unique(places, return_inverse=True)
            sums = np.bincount(slot, weights=sums)
        pairs = zip(places.tolist(), sums.tolist(), strict=True)
        found[DIRECTIONS[way]] = tuple(map(Window._make, pairs))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One direction of a log. `rate` is the mean of the values over the time of the log, in a log
    of I/Os their number per second, and `byte_rate` their bytes; jobs are added up; None where a
    value or the time cannot be. `silent` counts intervals without a line. `amounts` are value x
    seconds (I/Os) by window of the log's `window_ms`."""

    rate: float | None
    byte_rate: float | None
    ios: int
    io_bytes: int
    silent: int
    amounts: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A whole log. `each_io`: its lines are I/Os, else intervals of `interval_ms`. `jobs` follow
    each other in it. `backwards` and `impossible` are lines where the clock went back or a value
    is negative, 0 for none; `by_clock`: times count from 1970."""

    each_io: bool
    interval_ms: float
    window_ms: float
    span_s: float
    jobs: int
    by_clock: bool
    only_fio_3: bool
    backwards: int
    impossible: int
    series: Mapping[Op, Series]


@dataclass(slots=True)
class _Sums:
    """Sums of one direction while a log is read; `job_*` are of the current job."""

    amounts: dict[int, float]
    last_ms: float = 0.0
    job_amount: float = 0.0
    job_bytes: int = 0
    rate: float = 0.0
    byte_rate: float = 0.0
    ios: int = 0
    io_bytes: int = 0
    silent: int = 0
    timeless: bool = False


def read_log(name: str, content: bytes) -> Log:
    """Adds a log up, in memory that grows with its windows alone. Raises FormatError with the line.

    A line of an interval covers the time since the line before it, as fio writes one when an
    interval is over. It writes none for an interval without an I/O in the direction
    (`__add_samples` in stat.c), so after a gap of more than half an interval the line covers
    one interval, and the gap for none done. With `log_max_value`, of which the file says nothing,
    values are not means but largest ones.
    """
    head = list(islice(read_lines(name, content), _INTERVAL_LINES))
    if not head:
        raise FormatError.empty(f"{name} is empty", "line 1")
    first = head[0]
    by_clock = first.time_ms > _EPOCH_MS
    start_ms = first.time_ms if by_clock else 0
    each_io = first.block > 0
    interval_ms = 0.0 if each_io else _interval_ms(head, start_ms)
    # Windows shorter than intervals would repeat one value.
    window_ms = 1000.0 * max(1, math.ceil(0.95 * interval_ms / 1000))
    reader = _Reader(start_ms, interval_ms, window_ms, each_io)
    for line in read_lines(name, content):
        if (line.block > 0) != each_io:
            raise FormatError.unreadable(
                f"{name} mixes lines of single I/Os with lines of intervals",
                f"line {line.number}: the block size is {line.block}",
            )
        reader.take(line)
    reader.end_job()
    sound = not reader.impossible and not reader.backwards
    return Log(
        each_io=each_io,
        interval_ms=interval_ms,
        window_ms=window_ms,
        span_s=reader.span_ms / 1000,
        jobs=reader.jobs,
        by_clock=by_clock,
        only_fio_3=first.columns > 5 or first.priority,
        backwards=reader.backwards,
        impossible=reader.impossible,
        series={
            op: Series(
                rate=sums.rate if sound and not sums.timeless else None,
                byte_rate=sums.byte_rate if each_io and sound and not sums.timeless else None,
                ios=sums.ios,
                io_bytes=sums.io_bytes,
                silent=sums.silent,
                amounts=sums.amounts,
            )
            for op, sums in reader.sums.items()
        },
    )


def _interval_ms(lines: Iterable[Line], start_ms: int) -> float:
    """Compute the median time between lines of a direction; the whole time for a single line."""
    before: dict[Op, int] = {}
    gaps: list[int] = []
    only = 0
    for line in lines:
        since = line.time_ms - before.get(line.op, line.time_ms)
        if since > 0:
            gaps.append(since)
        before[line.op] = line.time_ms
        only = max(only, line.time_ms - start_ms)
    return max(1.0, statistics.median(gaps) if gaps else only)


class _Reader:
    """Sums lines, job by job."""

    def __init__(self, start_ms: int, interval_ms: float, window_ms: float, each_io: bool) -> None:
        self.sums: dict[Op, _Sums] = {}
        self.jobs = 0
        self.span_ms = 0
        self.backwards = 0
        self.impossible = 0
        self._start_ms, self._interval_ms = start_ms, interval_ms
        self._window_ms, self._each_io = window_ms, each_io
        self._first_ms = self._last_ms = -1
        self._seen: set[Op] = set()

    def take(self, line: Line) -> None:
        time_ms = line.time_ms - self._start_ms
        sums = self.sums.setdefault(line.op, _Sums({}))
        if self._first_ms >= 0 and self._restarts(time_ms, line.op, sums):
            self.end_job()
        if self._first_ms < 0:
            self._first_ms = time_ms
        if time_ms < self._last_ms:
            # Lines of two directions that end together may change places by a tick.
            if self._last_ms - time_ms > max(self._interval_ms, 1):
                self.backwards = self.backwards or line.number
            time_ms = self._last_ms
        self._last_ms = time_ms
        if line.value < 0:
            self.impossible = self.impossible or line.number
        self._seen.add(line.op)
        if self._each_io:
            sums.ios += 1
            sums.io_bytes += line.block
            sums.job_amount += 1
            sums.job_bytes += line.block
            _add(sums.amounts, int(time_ms // self._window_ms), 1.0)
            return
        gap_ms = time_ms - sums.last_ms
        held_ms = gap_ms
        if gap_ms >= 1.5 * self._interval_ms > 0:
            held_ms = self._interval_ms
            sums.silent += round(gap_ms / self._interval_ms) - 1
        sums.last_ms = time_ms
        sums.job_amount += line.value * held_ms / 1000
        self._spread(sums.amounts, line.value, time_ms - held_ms, time_ms)

    def end_job(self) -> None:
        """Add the rate of a job, its sums by its runtime, to the rates of the log."""
        if self._last_ms < 0:
            return
        self.jobs += 1
        self.span_ms = max(self.span_ms, self._last_ms)
        for op in self._seen:
            sums = self.sums[op]
            if self._last_ms:
                sums.rate += sums.job_amount * 1000 / self._last_ms
                sums.byte_rate += sums.job_bytes * 1000 / self._last_ms
            else:
                sums.timeless = True
            sums.job_amount, sums.job_bytes, sums.last_ms = 0.0, 0, 0.0
        self._seen.clear()
        self._first_ms = self._last_ms = -1

    def _restarts(self, time_ms: int, op: Op, sums: _Sums) -> bool:
        """Another job's lines begin: the time falls back to where jobs begin, or an interval is
        repeated. A small step back is clock jitter."""
        if not self._each_io and op in self._seen and time_ms == sums.last_ms:
            return True
        begin = max(self._last_ms / 2, 2 * self._first_ms + self._interval_ms / 2)
        return time_ms < self._last_ms and time_ms <= begin

    def _spread(
        self, amounts: dict[int, float], value: float, from_ms: float, to_ms: float
    ) -> None:
        """A value held over less than two windows, into at most three."""
        while from_ms < to_ms:
            window = int(from_ms // self._window_ms)
            end_ms = min(to_ms, (window + 1) * self._window_ms)
            _add(amounts, window, value * (end_ms - from_ms) / 1000)
            if end_ms <= from_ms:
                return
            from_ms = end_ms


def _add(amounts: dict[int, float], window: int, amount: float) -> None:
    if window < _MOST_WINDOWS:
        amounts[window] = amounts.get(window, 0.0) + amount


def windows(logs: Iterable[Log]) -> Mapping[Op, tuple[Window, ...]]:
    """I/Os per second in windows of equal length, the logs added up, intervals without a line as
    none; the last window only if it is whole. Empty where intervals differ, a line cannot be or
    the logs are too long to hold."""
    given = tuple(logs)
    lengths = {log.window_ms for log in given}
    ends = [int((log.span_s * 1000 + 0.05 * log.window_ms) // log.window_ms) for log in given]
    sound = not any(log.impossible or log.backwards for log in given)
    if not sound or len(lengths) != 1 or max(ends) > _MOST_WINDOWS:
        return {}
    length_s = lengths.pop() / 1000
    found: dict[Op, tuple[Window, ...]] = {}
    for op in sorted({op for log in given for op in log.series}):
        parts = [log.series[op].amounts for log in given if op in log.series]
        found[op] = tuple(
            Window(
                end_s=(number + 1) * length_s,
                value=sum(part.get(number, 0.0) for part in parts) / length_s,
            )
            for number in range(max(ends))
        )
    return found


# Latencies from fio's latency logs: of every I/O, or means of intervals that can be weighted.

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


def add_windows(series: Sequence[Sequence[Window]]) -> tuple[Window, ...]:
    """Add up windows of volumes or clients that ran in parallel, up to the end of the shortest.

    A series without I/O in a window has no line for it.
    """
    last_s = min(windows[-1].end_s if windows else 0.0 for windows in series)
    sums: dict[float, float] = {}
    for window in chain.from_iterable(series):
        if window.end_s <= last_s:
            sums[window.end_s] = sums.get(window.end_s, 0.0) + window.value
    return tuple(Window(end_s=end_s, value=value) for end_s, value in sorted(sums.items()))
