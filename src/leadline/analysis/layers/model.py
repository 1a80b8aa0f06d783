"""What a layer did in a trial, figure by figure, each with where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, pairwise

from leadline.formats.zfs.stream import StreamReport
from leadline.inventory.layer import LayerKind
from leadline.metrics import Op
from leadline.plan.models import Workload

# Sizes of requests as a distribution.


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


DIRECTIONS = (Op.READ, Op.WRITE)
# Seconds since the watch began, and bytes until then.
Series = Sequence[tuple[float, float]]


class Basis(StrEnum):
    """Over which seconds a layer's figures are. `totals`: all that it did in the trial, held
    against all that the engine did, which is exact where there was no ramp. `window`: the seconds
    that the engine's figures are of. `whole trial`: means over ramp and measured seconds
    together, since counters were read before and after only, or over the part of the trial in
    which there were counters."""

    TOTALS = "totals"
    WINDOW = "window"
    WHOLE_TRIAL = "whole trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number in base units, who told it (`source`), or None and why not (`absent`)."""

    value: float | None = None
    source: str = ""
    absent: str = ""

    @classmethod
    def of(cls, value: float | None, source: str, absent: str) -> Figure:
        """`value` where there is one, else the reason."""
        return cls(value=value, source=source) if value is not None else cls(absent=absent)


UNKNOWN = Figure(absent="not told by this layer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One direction at one layer. `rate` operations and `bandwidth` bytes per second, `merged`
    requests per second that went into others before they were counted, `latency` mean seconds of
    an operation, `in_flight` operations at the same time on average. `sizes` is None where nobody
    counted them, and `sizes_absent` says why."""

    op: Op
    rate: Figure = UNKNOWN
    bandwidth: Figure = UNKNOWN
    merged: Figure = UNKNOWN
    latency: Figure = UNKNOWN
    in_flight: Figure = UNKNOWN
    sizes: Sizes | None = None
    sizes_absent: str = ""

    @property
    def mean_size_bytes(self) -> float | None:
        """Bytes of an operation; where operations are not counted, of those of which the size
        is known."""
        if self.rate.value and self.bandwidth.value is not None:
            return self.bandwidth.value / self.rate.value
        return self.sizes.mean_bytes if self.sizes else None


def by_little(rate: Figure, latency: Figure) -> Figure:
    """Operations in flight from rate and latency (Little's law: N = X R)."""
    if rate.value is None or latency.value is None:
        return Figure(absent=rate.absent or latency.absent)
    return Figure(value=rate.value * latency.value, source="rate x latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """The seconds that a layer's bytes are of: `spans` of (begin, end) since the watch began, each
    end of which may as well lie up to `late_s` later. `divided_by_s` is what its bytes were divided
    by to make its bandwidth; there may have been `at_most_times` as many of them."""

    spans: tuple[tuple[float, float], ...]
    late_s: float
    divided_by_s: float
    at_most_times: float = 1.0

    @property
    def length_s(self) -> float:
        return sum(end_s - begin_s for begin_s, end_s in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFlow:
    """A layer of a trial. `kind` is None for the engine on top. `flows` hold the directions in
    which anything was done; `in_flight` both together. `shared`: others use the layer, too, so
    that its figures are not the trial's alone, and why. `unobserved` says why nothing is known of
    the layer at all; `notes` what is missing or known beside its figures.

    `seconds` tell when its bytes were counted, None where that is not known or all of the trial;
    `counted` are its bytes by seconds since the watch began, where they were read again and again.
    `parts` is how many leaf vdevs its figures are of, 0 where it has none."""

    kind: LayerKind | None
    name: str
    devices: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    basis: Basis = Basis.TOTALS
    flows: Mapping[Op, Flow] = field(default_factory=dict)
    in_flight: Figure = UNKNOWN
    shared: str = ""
    unobserved: str = ""
    notes: tuple[str, ...] = ()
    seconds: Seconds | None = None
    counted: Mapping[Op, Series] = field(default_factory=dict)
    parts: int = 0

    @property
    def observed(self) -> bool:
        return not self.unobserved

    @property
    def label(self) -> str:
        """`engine fio`, `block loop1`, `pool rep3`."""
        return f"{self.kind.value if self.kind else 'engine'} {self.name}"

    def size_fact(self, key: str) -> int | None:
        """A fact that is a size in bytes."""
        text = self.facts.get(key, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


# The seconds of a trial that figures are held against each other over.

# Engines take about so long from their start to the first I/O (docs/internals/performance.md).
_STARTING_S = 0.5
# Of a window that begins later than that share of it too little is left.
_MOST_LATE = 0.4
# What is shorter cannot be told from what lies beside it by counters that are read once a second.
_TOLD_APART_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Of one direction. `basis` is what counters that are read each second give: with `totals`
    their whole growth, divided by the `seconds` in which the engine did that direction; with
    `window` their growth in `spans` of (begin, end) after the start of the watch; with `whole
    trial` their whole growth, divided by the seconds with load. `loaded_s` are
    the seconds with load, ramp included, by which the growth of a counter that was read before and
    after the trial only is divided where there was a ramp. `engine_spans` are the engine's own
    seconds if it began with the watch; empty where they are not known apart."""

    basis: Basis
    seconds: float
    spans: tuple[tuple[float, float], ...]
    loaded_s: float
    engine_spans: tuple[tuple[float, float], ...] = ()

    def holds(self, elapsed_s: float) -> bool:
        return any(begin_s <= elapsed_s <= end_s for begin_s, end_s in self.spans)

    @property
    def ends_only(self) -> tuple[Basis, float]:
        """Basis of counters read at the trial's ends, and what their growth is divided by."""
        if self.basis is Basis.TOTALS:
            return Basis.TOTALS, self.seconds
        return Basis.WHOLE_TRIAL, self.loaded_s


def window_of(
    workload: Workload, op: Op, engine_s: float | None, late: float = _STARTING_S
) -> Window | None:
    """The window of a direction; `engine_s` are the seconds in which the engine did it, `late` how
    many behind the watch it may have begun. None where no window holds it alone: several phases
    with a ramp do it, or nobody knows when."""
    phases = workload.phases
    doing = [number for number, one in enumerate(phases) if op in one.pattern.ops]
    if not phases:  # a job file of the user's, or somebody else's results
        file = workload.job_file
        if file is None or file.ramp_s or not engine_s:
            return None
        return _totals(engine_s)
    if not workload.ramp_s:
        seconds = engine_s or workload.runtime_s * (len(doing) or len(phases))
        return _totals(seconds) if seconds else None
    if len(doing) > 1:
        return None
    # What only lower layers did (a file system's reads below writes) belongs to any of the phases.
    each_s = workload.ramp_s + workload.runtime_s
    if not doing and len(phases) > 1:
        return None
    at_once_s = (doing[0] if doing else 0) * each_s + workload.ramp_s
    own = ((at_once_s, at_once_s + workload.runtime_s),)
    most_s = _MOST_LATE * workload.runtime_s
    if late > most_s and len(phases) == 1:
        # No stretch is surely the engine's: what counters grew by is a mean with its ramp.
        return Window(
            basis=Basis.WHOLE_TRIAL,
            seconds=each_s,
            spans=((0.0, math.inf),),
            loaded_s=each_s,
            engine_spans=own,
        )
    # The stretch that is the engine's however long it took to start.
    begin_s = at_once_s + min(late, most_s)
    return Window(
        basis=Basis.WINDOW,
        seconds=workload.runtime_s,
        spans=((begin_s, at_once_s + workload.runtime_s),),
        loaded_s=each_s,
        engine_spans=own,
    )


def late_s(workload: Workload, watched_s: float) -> float:
    """How much later than the watch an engine may have begun: what of the watch its phases leave
    over."""
    phases_s = max(1, len(workload.phases)) * (workload.ramp_s + workload.runtime_s)
    return max(_STARTING_S, watched_s - phases_s)


def _totals(seconds: float) -> Window:
    return Window(basis=Basis.TOTALS, seconds=seconds, spans=((0.0, math.inf),), loaded_s=seconds)


def stream_window(report: StreamReport, watch_began_at: float | None) -> Window:
    """The seconds of the streams counted, without what lies between them (the comparison of what
    was received, its removal). `watch_began_at` is the watch's start in seconds since 1970; where
    it is not known, or streams are too short for counters that are read once a second, totals over
    the seconds of all streams."""
    whole_s = sum(one.seconds for one in report.streams)
    shortest_s = min(one.seconds for one in report.counted)
    begins = [one.began_at for one in report.counted]
    if watch_began_at is None or not all(begins) or shortest_s < _TOLD_APART_S:
        return _totals(whole_s)
    return Window(
        basis=Basis.WINDOW,
        seconds=report.seconds,
        spans=tuple(
            (one.began_at - watch_began_at, one.began_at - watch_began_at + one.seconds)
            for one in report.counted
        ),
        loaded_s=whole_s,
    )


# Numbers in the sentences of layers.


def percent(share: float) -> str:
    """`4 %`, `0.3 %`, `120 %`."""
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == round(value) else f"{value:.1f} %"


# How much counters grew in the seconds that figures are of.

# Samples of less of a window do not speak for it.
_LEAST_COVERED = 0.5
# Samples that lack so much of a trial were taken of a program that lived for a part of it.
_WHOLE = 0.95

# Seconds since the start of the watch, and what was counted until then.
Sample = tuple[float, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What each counter grew by, and the seconds by which that is to be divided."""

    counts: tuple[float, ...]
    seconds: float
    basis: Basis

    def per_s(self, index: int) -> float:
        return self.counts[index] / self.seconds


def growth(samples: Sequence[Sample], window: Window) -> Growth | None:
    """Of counters that were read about once a second: between two samples they are taken to grow
    evenly. Of two samples alone, or of a program that was there for a part of the trial, the growth
    over the seconds that it is of, as WHOLE_TRIAL. None where too little of the window is covered,
    or a counter went backwards."""
    if len(samples) < 2:
        return None
    first_s, last_s = samples[0][0], samples[-1][0]
    span_s = last_s - first_s
    if window.basis is Basis.TOTALS and span_s >= _WHOLE * window.seconds:
        return _grown([(samples[0][1], samples[-1][1])], window.seconds, Basis.TOTALS)
    if window.basis is not Basis.WINDOW or len(samples) == 2:
        seconds = min(span_s, window.loaded_s)
        if seconds < _LEAST_COVERED * window.seconds or seconds <= 0:
            return None
        return _grown([(samples[0][1], samples[-1][1])], seconds, Basis.WHOLE_TRIAL)
    spans = [
        (begin_s, end_s)
        for low_s, high_s in window.spans
        if (begin_s := max(low_s, first_s)) < (end_s := min(high_s, last_s))
    ]
    covered_s = sum(end_s - begin_s for begin_s, end_s in spans)
    if not spans or covered_s < _LEAST_COVERED * window.seconds:
        return None
    ends = [(_at(samples, begin_s), _at(samples, end_s)) for begin_s, end_s in spans]
    asked_s = sum(high_s - low_s for low_s, high_s in window.spans)
    whole = covered_s >= _WHOLE * asked_s
    return _grown(ends, covered_s, Basis.WINDOW if whole else Basis.WHOLE_TRIAL)


def seconds_of(windows: Mapping[Op, Window], basis: Basis) -> Seconds | None:
    """The seconds of figures made by `growth`; None of totals, which are all of the trial, and
    where directions have windows of their own."""
    spans = {one.spans for one in windows.values()}
    if basis is not Basis.WINDOW or len(spans) != 1:
        return None
    inside = spans.pop()
    length_s = sum(end_s - begin_s for begin_s, end_s in inside)
    return Seconds(spans=inside, late_s=0.0, divided_by_s=length_s)


def _grown(
    ends: Sequence[tuple[tuple[float, ...], tuple[float, ...]]], seconds: float, basis: Basis
) -> Growth | None:
    parts = [tuple(b - a for a, b in zip(before, after, strict=True)) for before, after in ends]
    if any(one < 0 for part in parts for one in part):
        return None
    counts = tuple(sum(column) for column in zip(*parts, strict=True))
    return Growth(counts=counts, seconds=seconds, basis=basis)


def _at(samples: Sequence[Sample], moment_s: float) -> tuple[float, ...]:
    """Counters at a moment that the samples cover."""
    for (before_s, before), (after_s, after) in pairwise(samples):
        if before_s <= moment_s < after_s:
            share = (moment_s - before_s) / (after_s - before_s)
            pairs = zip(before, after, strict=True)
            return tuple(low + share * (high - low) for low, high in pairs)
    return samples[-1][1]


# How far windows that lie beside each other can account for a difference of bytes.
#  Two sources count the same bytes over seconds that are not quite the same: `zpool iostat` tells
# whole seconds and not when they began, an engine's own seconds begin when it has started,
# counters are read about once a second. What one saw in the seconds that the other did not is
# bounded by the counter that was read again and again: a window of which the ends lie where they
# may have been holds at most what was counted between the outermost of these moments, and at
# least what was counted between the innermost. A transaction group of ZFS, which is written at
# once and holds up to zfs_txg_timeout of writing, is in that wherever it lies at an end.
#  Where the load is even, second by second, a window that is longer holds more, and its rate is
# the same: then rates are held against each other, which tells more of short windows.

# Seconds that differ by no more than that share of their mean are alike.
_EVEN = 0.5
_LEAST_SECONDS = 3


def ratio_bounds(upper: LayerFlow, lower: LayerFlow, op: Op) -> tuple[float, float] | None:
    """Least and greatest bytes below / above, given where the seconds of `upper` may lie in those
    of `lower`; None where nothing is known of it."""
    if upper.seconds is None or op not in lower.counted or op not in upper.flows:
        return None
    above = upper.flows[op].bandwidth.value
    rates = rates_within(lower.counted[op], upper.seconds)
    if not above or rates is None or not upper.seconds.length_s:
        return None
    rate = above * upper.seconds.divided_by_s / upper.seconds.length_s
    return rates[0] / (rate * upper.seconds.at_most_times), rates[1] / rate


def rates_within(series: Series, seconds: Seconds) -> tuple[float, float] | None:
    """Least and greatest bytes per second over windows of which each end lies within `late_s` of
    its place, or as far away as two samples are from each other: between two samples nobody knows
    when something was counted. None where the samples do not reach into the windows."""
    if len(series) < 2 or not seconds.length_s:
        return None
    apart_s = max(after - before for (before, _), (after, _) in pairwise(series))
    least = most = 0.0
    for begin_s, end_s in seconds.spans:
        begins = _places(series, begin_s - apart_s, begin_s + seconds.late_s + apart_s)
        ends = _places(series, end_s - apart_s, end_s + seconds.late_s + apart_s)
        if ends[-1] <= begins[0]:
            return None
        rates = _even_rates(series, begins, ends) if _is_even(series, begin_s, end_s) else ()
        if rates:
            least += min(rates) * (end_s - begin_s)
            most += max(rates) * (end_s - begin_s)
        else:
            inside = _until(series, ends[0]) - _until(series, begins[-1])
            least += max(0.0, inside)
            most += _until(series, ends[-1]) - _until(series, begins[0])
            most += _unseen(series, begin_s, end_s + seconds.late_s)
    return least / seconds.length_s, most / seconds.length_s


def _even_rates(series: Series, begins: Sequence[float], ends: Sequence[float]) -> list[float]:
    return [
        (_until(series, end_s) - _until(series, begin_s)) / (end_s - begin_s)
        for begin_s in begins
        for end_s in ends
        if end_s > begin_s
    ]


def _is_even(series: Series, begin_s: float, end_s: float) -> bool:
    """Whether the seconds of a window are alike, as far as samples tell."""
    rates = [
        (after - before) / (after_s - before_s)
        for (before_s, before), (after_s, after) in pairwise(series)
        if begin_s <= before_s < after_s <= end_s
    ]
    if len(rates) < _LEAST_SECONDS:
        return False
    return max(rates) - min(rates) <= _EVEN * sum(rates) / len(rates)


def _unseen(series: Series, begin_s: float, end_s: float) -> float:
    """What may have been counted before the first and behind the last sample, at the greatest rate
    that was seen."""
    outside_s = max(0.0, series[0][0] - begin_s) + max(0.0, end_s - series[-1][0])
    rates = (
        (after - before) / (after_s - before_s)
        for (before_s, before), (after_s, after) in pairwise(series)
        if after_s > before_s
    )
    return outside_s * max(rates, default=0.0)


def _places(series: Series, low_s: float, high_s: float) -> Sequence[float]:
    """Both ends, and the samples between, of what the samples cover: a rate is extreme at one."""
    first_s, last_s = series[0][0], series[-1][0]
    ends = (min(max(one, first_s), last_s) for one in (low_s, high_s))
    return sorted({*ends, *(at_s for at_s, _ in series if low_s <= at_s <= high_s)})


def _until(series: Series, moment_s: float) -> float:
    """Bytes until a moment that the samples cover, taken to grow evenly between two of them."""
    for (before_s, before), (after_s, after) in pairwise(series):
        if before_s <= moment_s < after_s:
            return before + (after - before) * (moment_s - before_s) / (after_s - before_s)
    return series[-1][1]
