"""How much counters grew in the seconds that figures are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from leadline.analysis.layers.model import Basis, Seconds
from leadline.analysis.layers.windows import Window
from leadline.metrics import Op

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
