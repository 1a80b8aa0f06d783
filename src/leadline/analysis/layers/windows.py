"""Which seconds of a trial a layer's counters cover, and how far two such windows can differ."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from leadline.formats.zfs.stream import StreamReport
from leadline.metrics import Op
from leadline.plan.workload import Workload

# Engines take about so long from their start to the first I/O (docs/internals/performance.md).
_STARTUP_S = 0.5
# An engine that begins later than this share of its window leaves too little of it.
_LATEST_START = 0.4
# Counters that are read once a second cannot separate shorter windows.
_SHORTEST_WINDOW_S = 5.0
# Samples of less than this share do not represent a window.
_LEAST_COVERED = 0.5
# Samples of less than this share of a trial are of a program that lived for a part of it.
_WHOLE = 0.95
# Per-second rates that differ by no more than this share of their mean are even.
_EVEN = 0.5
_LEAST_SECONDS = 3

# Seconds since the watch began, and bytes until then.
Series = Sequence[tuple[float, float]]
# Seconds since the watch began, and several counters.
Sample = tuple[float, tuple[float, ...]]


class Basis(StrEnum):
    """The seconds of a layer's figures. `totals`: all I/O of the trial, compared with all I/O of
    the engine; exact without a ramp. `window`: the seconds of the engine's figures. `whole trial`:
    means that include the ramp, because counters were read only before and after the trial, or
    cover only a part of it."""

    TOTALS = "totals"
    WINDOW = "window"
    WHOLE_TRIAL = "whole trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """The seconds of a layer's bytes: `spans` of (begin, end) since the watch began, each end up
    to `late_s` later. The bandwidth is the bytes divided by `divided_by_s`; there may be
    `at_most_times` as many bytes."""

    spans: tuple[tuple[float, float], ...]
    late_s: float
    divided_by_s: float
    at_most_times: float = 1.0

    @property
    def length_s(self) -> float:
        return sum(end_s - begin_s for begin_s, end_s in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured seconds of one direction. `totals`: the whole growth of a counter, divided by
    `seconds`. `window`: its growth within `spans` of (begin, end) after the start of the watch.
    `whole trial`: its whole growth, divided by `loaded_s`, the seconds with load including the
    ramp. `engine_spans` are the engine's own seconds if it began with the watch; empty if
    unknown."""

    basis: Basis
    seconds: float
    spans: tuple[tuple[float, float], ...]
    loaded_s: float
    engine_spans: tuple[tuple[float, float], ...] = ()

    def holds(self, elapsed_s: float) -> bool:
        return any(begin_s <= elapsed_s <= end_s for begin_s, end_s in self.spans)

    @property
    def ends_only(self) -> tuple[Basis, float]:
        """Basis and divisor of counters that were read only before and after the trial."""
        if self.basis is Basis.TOTALS:
            return Basis.TOTALS, self.seconds
        return Basis.WHOLE_TRIAL, self.loaded_s


def workload_window(
    workload: Workload, op: Op, engine_s: float | None, late: float = _STARTUP_S
) -> Window | None:
    """Return the window of a direction.

    Args:
        engine_s: seconds in which the engine did this direction.
        late: largest delay of the engine behind the watch, in seconds.
    Returns:
        None if no window holds the direction alone: several phases with a ramp do it, or the
        seconds are unknown.
    """
    phases = workload.phases
    doing = [number for number, phase in enumerate(phases) if op in phase.pattern.ops]
    if not phases:  # a user's job file, or imported results
        file = workload.job_file
        if file is None or file.ramp_s or not engine_s:
            return None
        return _totals(engine_s)
    if not workload.ramp_s:
        seconds = engine_s or workload.runtime_s * (len(doing) or len(phases))
        return _totals(seconds) if seconds else None
    # Reads of a file system below writes can belong to any of several phases.
    if len(doing) > 1 or (not doing and len(phases) > 1):
        return None
    each_s = workload.ramp_s + workload.runtime_s
    begin_s = (doing[0] if doing else 0) * each_s + workload.ramp_s
    end_s = begin_s + workload.runtime_s
    latest_s = _LATEST_START * workload.runtime_s
    if late > latest_s and len(phases) == 1:
        # No second certainly belongs to the engine: counters give a mean that includes the ramp.
        return Window(
            basis=Basis.WHOLE_TRIAL,
            seconds=each_s,
            spans=((0.0, math.inf),),
            loaded_s=each_s,
            engine_spans=((begin_s, end_s),),
        )
    return Window(
        basis=Basis.WINDOW,
        seconds=workload.runtime_s,
        spans=((begin_s + min(late, latest_s), end_s),),
        loaded_s=each_s,
        engine_spans=((begin_s, end_s),),
    )


def start_delay_s(workload: Workload, watched_s: float) -> float:
    """Return the largest possible start delay of an engine: watched seconds without its phases."""
    phases_s = max(1, len(workload.phases)) * (workload.ramp_s + workload.runtime_s)
    return max(_STARTUP_S, watched_s - phases_s)


def _totals(seconds: float) -> Window:
    return Window(basis=Basis.TOTALS, seconds=seconds, spans=((0.0, math.inf),), loaded_s=seconds)


def stream_window(report: StreamReport, watch_began_at: float | None) -> Window:
    """Return the seconds of the counted streams, without the verification between them.

    `watch_began_at` is in seconds since 1970. Without it, and for streams too short for counters
    that are read once a second, the window is the total of all streams."""
    whole_s = sum(round_.seconds for round_ in report.all_rounds)
    shortest_s = min(round_.seconds for round_ in report.rounds)
    known = watch_began_at is not None and all(stream.began_at for stream in report.counted)
    if watch_began_at is None or not known or shortest_s < _SHORTEST_WINDOW_S:
        return _totals(whole_s)
    begins = [(round_.began_at - watch_began_at, round_.seconds) for round_ in report.rounds]
    return Window(
        basis=Basis.WINDOW,
        seconds=report.seconds,
        spans=tuple((begin_s, begin_s + seconds) for begin_s, seconds in begins),
        loaded_s=whole_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of each counter, and the seconds to divide it by."""

    counts: tuple[float, ...]
    seconds: float
    basis: Basis

    def per_s(self, index: int) -> float:
        return self.counts[index] / self.seconds


def growth(samples: Sequence[Sample], window: Window) -> Growth | None:
    """Return the growth of sampled counters within a window, interpolated between samples.

    Two samples alone, or samples of a part of the trial, give the growth over their own seconds
    as WHOLE_TRIAL. None if too little of the window is covered, or a counter went backwards."""
    if len(samples) < 2:
        return None
    first_s, last_s = samples[0][0], samples[-1][0]
    span_s = last_s - first_s
    whole = [(samples[0][1], samples[-1][1])]
    if window.basis is Basis.TOTALS and span_s >= _WHOLE * window.seconds:
        return _growth_between(whole, window.seconds, Basis.TOTALS)
    if window.basis is not Basis.WINDOW or len(samples) == 2:
        seconds = min(span_s, window.loaded_s)
        if seconds < _LEAST_COVERED * window.seconds or seconds <= 0:
            return None
        return _growth_between(whole, seconds, Basis.WHOLE_TRIAL)
    spans = [
        (begin_s, end_s)
        for low_s, high_s in window.spans
        if (begin_s := max(low_s, first_s)) < (end_s := min(high_s, last_s))
    ]
    covered_s = sum(end_s - begin_s for begin_s, end_s in spans)
    if not spans or covered_s < _LEAST_COVERED * window.seconds:
        return None
    ends = [
        (_counters_at(samples, begin_s), _counters_at(samples, end_s)) for begin_s, end_s in spans
    ]
    window_s = sum(high_s - low_s for low_s, high_s in window.spans)
    basis = Basis.WINDOW if covered_s >= _WHOLE * window_s else Basis.WHOLE_TRIAL
    return _growth_between(ends, covered_s, basis)


def common_seconds(windows: Mapping[Op, Window], basis: Basis) -> Seconds | None:
    """Return the seconds of figures made by `growth`. None for totals, which are the whole trial,
    and if directions have different windows."""
    spans = {window.spans for window in windows.values()}
    if basis is not Basis.WINDOW or len(spans) != 1:
        return None
    inside = spans.pop()
    length_s = sum(end_s - begin_s for begin_s, end_s in inside)
    return Seconds(spans=inside, late_s=0.0, divided_by_s=length_s)


def _growth_between(
    ends: Sequence[tuple[tuple[float, ...], tuple[float, ...]]], seconds: float, basis: Basis
) -> Growth | None:
    parts = [tuple(b - a for a, b in zip(before, after, strict=True)) for before, after in ends]
    if any(count < 0 for part in parts for count in part):
        return None
    counts = tuple(sum(column) for column in zip(*parts, strict=True))
    return Growth(counts=counts, seconds=seconds, basis=basis)


def _counters_at(samples: Sequence[Sample], moment_s: float) -> tuple[float, ...]:
    columns = zip(*(counters for _, counters in samples), strict=True)
    times = [at_s for at_s, _ in samples]
    return tuple(_interpolate(times, column, moment_s) for column in columns)


def _interpolate(times: Sequence[float], values: Sequence[float], moment_s: float) -> float:
    """Return a counter at a moment that the samples cover, with even growth between samples."""
    after = bisect_right(times, moment_s)
    if after == len(times):
        return values[-1]
    before = max(0, after - 1)
    length_s = times[after] - times[before]
    if not length_s:
        return values[before]
    share = (moment_s - times[before]) / length_s
    return values[before] + share * (values[after] - values[before])


# Bounds of the ratio of two layers. Two counters of the same bytes cover slightly different
# seconds: `zpool iostat` prints whole seconds and not when they began, an engine's seconds begin
# when it has started, counters are read about once a second. A window whose ends may move holds at
# most the bytes between its outermost ends and at least the bytes between its innermost ends. A
# transaction group of ZFS, which is written at once, stays within these bounds. Under an even load
# a longer window only holds more bytes at the same rate: then the bounds are of rates.


def rate_bounds(series: Series, seconds: Seconds) -> tuple[float, float] | None:
    """Return the least and greatest bytes per second over all possible windows.

    Each end of a window may lie `late_s` later, and one sample away on either side. None if the
    samples do not reach into the windows."""
    if len(series) < 2 or not seconds.length_s:
        return None
    times, values = [at_s for at_s, _ in series], [value for _, value in series]

    def until(moment_s: float) -> float:
        return _interpolate(times, values, moment_s)

    def places(low_s: float, high_s: float) -> Sequence[float]:
        """Both ends and the samples between: a rate is extreme at one of them."""
        ends = (min(max(end_s, times[0]), times[-1]) for end_s in (low_s, high_s))
        return sorted({*ends, *(at_s for at_s in times if low_s <= at_s <= high_s)})

    sample_s = max(after - before for before, after in pairwise(times))
    least = most = 0.0
    for begin_s, end_s in seconds.spans:
        begins = places(begin_s - sample_s, begin_s + seconds.late_s + sample_s)
        ends = places(end_s - sample_s, end_s + seconds.late_s + sample_s)
        if ends[-1] <= begins[0]:
            return None
        rates = (
            [
                (until(end) - until(begin)) / (end - begin)
                for begin in begins
                for end in ends
                if end > begin
            ]
            if _is_even(series, begin_s, end_s)
            else []
        )
        if rates:
            least += min(rates) * (end_s - begin_s)
            most += max(rates) * (end_s - begin_s)
        else:
            least += max(0.0, until(ends[0]) - until(begins[-1]))
            most += until(ends[-1]) - until(begins[0])
            # Seconds without samples may hold as much as the busiest second.
            outside_s = max(0.0, times[0] - begin_s) + max(0.0, end_s + seconds.late_s - times[-1])
            most += outside_s * max(_rates(series), default=0.0)
    return least / seconds.length_s, most / seconds.length_s


def _is_even(series: Series, begin_s: float, end_s: float) -> bool:
    """Whether the sampled seconds of a window have similar rates."""
    rates = _rates([point for point in series if begin_s <= point[0] <= end_s])
    if len(rates) < _LEAST_SECONDS:
        return False
    return max(rates) - min(rates) <= _EVEN * sum(rates) / len(rates)


def _rates(series: Series) -> list[float]:
    return [
        (after - before) / (after_s - before_s)
        for (before_s, before), (after_s, after) in pairwise(series)
        if after_s > before_s
    ]
