"""How far windows that lie beside each other can account for a difference of bytes.

Two sources count the same bytes over seconds that are not quite the same: `zpool iostat` tells
whole seconds and not when they began, an engine's own seconds begin when it has started, counters
are read about once a second. What one saw in the seconds that the other did not is bounded by the
counter that was read again and again: a window of which the ends lie where they may have been holds
at most what was counted between the outermost of these moments, and at least what was counted
between the innermost. A transaction group of ZFS, which is written at once and holds up to
zfs_txg_timeout of writing, is in that wherever it lies at an end.

Where the load is even, second by second, a window that is longer holds more, and its rate is the
same: then rates are held against each other, which tells more of short windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from leadline.analysis.layers.model import LayerFlow, Seconds, Series
from leadline.metrics import Op

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
