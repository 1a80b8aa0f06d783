"""Axes, and line charts of latency percentiles, latency distribution, and rates over time.

A row of a chart is (label, series, numbers): the label names the line, `series` is an index into
the chart's `series`, which sets colour and dash.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median, stdev

from leadline.analysis.figures import CellFigure
from leadline.formats.fio.logs import Window
from leadline.metrics import PERCENTILES, Metric
from leadline.report.document import Line, LineChart, Look, Scale, Strip, Stroke
from leadline.report.words import listed, share_text, title
from leadline.units import format_latency

# Readers distinguish at most so many lines by colour and dash.
MOST_SERIES = 8
MOST_POINTS = 120
_MOST_BINS = 60
# Bins for each doubling of latency, the finest first. fio has 64: with eight of its bins in one bin
# of the chart, rounding at the edges is invisible.
_BINS_PER_OCTAVE = (8, 6, 4, 3, 2, 1)

LadderRow = tuple[str, int, Mapping[Metric, float]]
RATE_UNITS = {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "MiB/s"}


# Floats below it have no decades; no measured value is that small.
NEXT_TO_ZERO = 1e-290
# On so short a log axis powers of ten alone would leave it almost unmarked.
_FEW_DECADES = 2.5
_MOST_TICKS = 6

Axis = tuple[float, float, list[float]]


def linear_axis(largest: float) -> Axis:
    """Compute (low, high, ticks) from zero to just above `largest`, with about four ticks."""
    if largest <= NEXT_TO_ZERO:
        return 0.0, 1.0, [0.0]
    rough = largest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    ticks = [step * index for index in range(math.floor(largest / step * 1.0001) + 1)]
    return 0.0, largest * 1.04, ticks


def decades_axis(smallest: float, largest: float) -> Axis:
    """Compute (low, high, ticks) of a log axis of whole decades, with ticks at powers of ten.

    Both values are above zero.
    """
    first = math.floor(math.log10(smallest))
    last = math.ceil(math.log10(largest))
    every = max(1, math.ceil((last - first) / 5))
    ticks = [10.0**power for power in range(first, last + 1, every)]
    return 10.0**first, 10.0**last, ticks


def log_axis(smallest: float, largest: float) -> Axis:
    """Compute (low, high, ticks) of a log axis around the values.

    Ticks are at 1, 2 and 5 times powers of ten, on a long axis at powers of ten. Both values are
    above zero.
    """
    low, high = smallest / 1.15, largest * 1.15
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if math.log10(high / low) <= _FEW_DECADES else (1,)
    ticks = [
        tick
        for power in range(first, last + 1)
        for factor in factors
        if low <= (tick := factor * 10.0**power) <= high
    ]
    every = math.ceil(len(ticks) / _MOST_TICKS) if factors == (1,) else 1
    return low, high, ticks[::every] or [math.sqrt(low * high)]


def scale(title: str, axis: Axis, text: Callable[[float], str], *, log: bool = False) -> Scale:
    """Build a scale whose ticks are formatted by `text`."""
    low, high, ticks = axis
    labelled = tuple((tick, text(tick)) for tick in ticks)
    return Scale(title=title, log=log, low=low, high=high, ticks=labelled)


def linear_scale(title: str, largest: float, text: Callable[[float], str]) -> Scale:
    return scale(title, linear_axis(largest), text)


def latency_scale(latencies_s: Iterable[float]) -> Scale:
    """Build a log axis of latencies in seconds."""
    given = list(latencies_s)
    return scale("latency", log_axis(min(given), max(given)), format_latency, log=True)


def share_tick(share: float) -> str:
    return share_text(share) if share else "0"


def percentiles_of(figure: CellFigure) -> Mapping[Metric, float]:
    """Return the percentiles of a figure in seconds: those with enough I/Os."""
    values = {metric: figure.metric(metric).value for metric in PERCENTILES}
    return {metric: value for metric, value in values.items() if value is not None}


def ladder_chart(
    anchor: str, heading: str, rows: Sequence[LadderRow], series: tuple[str, ...], choice: str = ""
) -> LineChart | None:
    """Draw percentiles in seconds on a log axis over their rank; None where no row has any.

    x is -log10(1 - q), so p99, p99.9 and p99.99 are equally spaced.
    """
    drawn = [
        (label, number, [(metric, values[metric]) for metric in _rungs(values)])
        for label, number, values in rows
        if _rungs(values)
    ]
    if not drawn:
        return None
    found = [metric for metric in PERCENTILES if any(metric in values for _, _, values in rows)]
    return LineChart(
        id=anchor,
        title=heading,
        series=series,
        x=Scale(
            title="percentile",
            log=False,
            low=nines(found[0]) - 0.15,
            high=nines(found[-1]) + 0.15,
            ticks=tuple((nines(metric), _short(metric)) for metric in found),
        ),
        y=latency_scale(value for _, _, rungs in drawn for _, value in rungs),
        lines=tuple(
            Line(
                label=label,
                series=number,
                points=tuple((nines(metric), value) for metric, value in rungs),
                texts=tuple(
                    f"{_short(metric)}: {format_latency(value)}" for metric, value in rungs
                ),
            )
            for label, number, rungs in drawn
        ),
        choice=choice,
    )


# Points of a percentile curve for each power of ten of what is slower.
_POINTS_PER_NINE = 6
# A curve ends where fewer I/Os are slower.
_FEWEST_SLOWER = 10


def percentile_charts(
    cells: Sequence[tuple[str, str, str, Sequence[tuple[int, CellFigure]]]],
    series: tuple[str, ...],
    hues: Sequence[int] = range(MOST_SERIES),
) -> tuple[LineChart, ...]:
    """Draw the latency percentiles of cells in seconds, from p50 on, all on the same log axes.

    A cell is (anchor, title, note, rows), a row (series, figure). x is -log10(1 - q), one step for
    each nine. A curve is of the merged histogram and ends where fewer than ten I/Os are slower;
    without a histogram it joins the reported percentiles. `hues` are the colours of the series.
    """
    drawn = [
        (anchor, heading, note, lines)
        for anchor, heading, note, rows in cells
        if (lines := [line for row in rows if (line := _percentile_curve(*row, series))])
    ]
    points = [point for _, _, _, lines in drawn for line in lines for point in line.points]
    if not points:
        return ()
    last = max(x for x, _ in points)
    ticks = tuple((nines(metric), _short(metric)) for metric in PERCENTILES)
    return tuple(
        LineChart(
            id=anchor,
            title=heading,
            note=note,
            series=series,
            looks=tuple(
                Look(hue=hue, dash=hue % 4, stroke=Stroke.CURVE)
                for _, hue in zip(series, hues, strict=False)
            ),
            x=Scale(
                title="percentile",
                log=False,
                low=nines(Metric.LATENCY_P50) - 0.05,
                high=last + 0.05,
                ticks=tuple(tick for tick in ticks if tick[0] <= last + 0.05),
            ),
            y=latency_scale(y for _, y in points),
            lines=tuple(lines),
            panel=True,
        )
        for anchor, heading, note, lines in drawn
    )


def _percentile_curve(number: int, figure: CellFigure, series: tuple[str, ...]) -> Line | None:
    marked = {
        nines(metric): (value, f"{series[number]}, {_short(metric)}: {format_latency(value)}")
        for metric, value in percentiles_of(figure).items()
        if value > 0
    }
    points = {x: value for x, (value, _) in marked.items()}
    histogram = figure.histogram
    if histogram is not None and histogram.count > 2 * _FEWEST_SLOWER:
        first, last = nines(Metric.LATENCY_P50), math.log10(histogram.count / _FEWEST_SLOWER)
        most = min(last, nines(Metric.LATENCY_P9999))
        steps = math.ceil((most - first) * _POINTS_PER_NINE)
        for step in range(steps + 1):
            x = first + (most - first) * step / max(steps, 1)
            value = histogram.quantile_s(1 - 10**-x)
            if value > 0:
                points.setdefault(x, value)
    if len(points) < 2:
        return None
    ordered = sorted(points.items())
    return Line(
        label=series[number],
        series=number,
        points=tuple(ordered),
        texts=tuple(marked[x][1] if x in marked else "" for x, _ in ordered),
    )


def nines(metric: Metric) -> float:
    """Return the position of a percentile: -log10(1 - q). Raises ValueError for other metrics."""
    if metric.quantile is None:
        raise ValueError(f"{metric.value} is not a percentile")
    return -math.log10(1 - metric.quantile)


def thinned(
    windows: Sequence[Window], most: int = MOST_POINTS
) -> tuple[tuple[float, float, float], ...]:
    """Return (begin, end, mean) of at most `most` spans of neighbouring windows, in seconds and the
    unit of the windows."""
    together = math.ceil(len(windows) / most)
    begins = [0.0, *(window.end_s for window in windows[:-1])]
    spans = []
    for first in range(0, len(windows), together):
        part = windows[first : first + together]
        lengths = [
            window.end_s - begin
            for window, begin in zip(part, begins[first : first + together], strict=True)
        ]
        whole = sum(lengths)
        # Windows that end together (an edited log) have no length as a weight.
        weights = lengths if whole > 0 else [1.0] * len(part)
        total = sum(window.value * weight for window, weight in zip(part, weights, strict=True))
        spans.append((begins[first], part[-1].end_s, total / sum(weights)))
    return tuple(spans)


# Spans of a strip: as many as its few pixels show.
_MOST_SPANS = 40
# Logged seconds differ by a few milliseconds; a longer gap has no sample.
_LATE = 1.5


def strips(trials: Sequence[tuple[Sequence[Window], str]]) -> tuple[Strip, ...]:
    """Build the strips of the trials of a cell, of (windows, text); none without windows.

    A window begins where the last one ended; one that is 1.5 times as long as the median lasted
    the median, and the time before it has no sample.
    """
    ends = [[0.0, *(window.end_s for window in windows)] for windows, _ in trials if windows]
    steps = [after - before for one in ends for before, after in itertools.pairwise(one)]
    if not steps:
        return ()
    usual, last = median(steps), max(one[-1] for one in ends)
    found = []
    for windows, text in trials:
        spans, before = [], 0.0
        for end, rate in windows:
            spans.append((before if end - before <= _LATE * usual else end - usual, end, rate))
            before = end
        together = math.ceil(len(spans) / _MOST_SPANS)
        found.append(Strip(spans=_joined(spans, together), end_s=last, text=text))
    return tuple(found)


def _joined(
    spans: Sequence[tuple[float, float, float]], count: int
) -> tuple[tuple[float, float, float], ...]:
    """Join `count` neighbouring spans into one with their mean, weighted by time."""
    joined = []
    for first in range(0, len(spans), max(count, 1)):
        part = spans[first : first + count]
        whole = sum(end - begin for begin, end, _ in part)
        total = sum((end - begin) * rate for begin, end, rate in part)
        mean = total / whole if whole > 0 else part[0][2]
        joined.append((part[0][0], part[-1][1], mean))
    return tuple(joined)


def variation(values: Sequence[float]) -> float | None:
    """Compute the coefficient of variation (standard deviation with n - 1 / mean); None of fewer
    than two values or a mean of zero."""
    middle = fmean(values) if values else 0.0
    return stdev(values) / middle if len(values) > 1 and middle > 0 else None


def _rungs(values: Mapping[Metric, float]) -> list[Metric]:
    # A log axis has no zero, which edited files may contain.
    return [metric for metric in PERCENTILES if values.get(metric, 0.0) > 0]


def _short(metric: Metric) -> str:
    """`p99.9`."""
    return title(metric).split()[0]


# How much a page may draw; what is left out is reported.

# A point is about 150 bytes of a page, and a chart with its axes as much as fifteen of them.
_MOST_PAGE_POINTS = 4000
_CHART_AS_POINTS = 15


class PageBudget:
    """The points that the charts of a page may have, per kind of chart.

    Otherwise series over time would leave no points for percentile ladders.
    """

    def __init__(self, most: int = _MOST_PAGE_POINTS) -> None:
        self._most = most
        self._spent: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def allows(self, kind: str, points: int) -> bool:
        """Reserve the points of a chart of `kind`; whether there are enough."""
        cost = points + _CHART_AS_POINTS
        if self._spent[kind] + cost > self._most:
            self._left_out[kind] += 1
            return False
        self._spent[kind] += cost
        return True

    @property
    def omission(self) -> str:
        """A sentence about the charts that are left out; empty where there are none."""
        if not self._left_out:
            return ""
        charts = listed(f"{count:,} of {kind}" for kind, count in self._left_out.items())
        return (
            f"Charts that are not drawn, to keep the page small: {charts}. The tables have every "
            "figure, and the downloads every trial."
        )
