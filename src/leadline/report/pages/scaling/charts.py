"""Charts of load curves: latency over throughput, and throughput over load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Knee, KneeMethod, Shape
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit
from leadline.report.curves import latency_scale, linear_axis, linear_scale
from leadline.report.document import (
    Line,
    LineChart,
    Look,
    Pin,
    Rule,
    Scale,
    Stroke,
)
from leadline.report.pages.scaling.words import level_text, load_text, short_title
from leadline.report.words import count_text, value_text, value_with_unit
from leadline.stats.usl import UslFit

# Points of a computed curve.
_STEPS = 24
# Percentiles to draw without a limit, by preference.
_TAILS = (Metric.LATENCY_P99, Metric.LATENCY_P95, Metric.LATENCY_P50)
_SOLID, _DASHED, _DOTTED, _DASH_DOT = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCurve:
    """A curve with its label in the chart."""

    label: str
    shape: Shape

    @property
    def curve(self) -> LoadCurve:
        return self.shape.curve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """A line with its name in the legend and its look."""

    name: str
    label: str
    look: Look
    points: tuple[tuple[float, float], ...]
    texts: tuple[str, ...] = ()


def tail_of(curves: Iterable[LoadCurve], limit: LatencyLimit | None) -> Metric | None:
    """Choose the percentile to draw with the mean: that of the limit, else the highest of p99, p95
    and p50 that a level has; None without any."""
    points = [point for curve in curves for point in (*curve.closed, *curve.offered)]
    wanted = (limit.metric, *_TAILS) if limit else _TAILS
    return next(
        (
            metric
            for metric in wanted
            if metric.quantile is not None and any(level.usable(metric) for level in points)
        ),
        None,
    )


# --- latency over throughput --------------------------------------------------------------------


def response_chart(
    anchor: str,
    heading: str,
    drawn: Sequence[DrawnCurve],
    limit: LatencyLimit | None = None,
    choice: str = "",
) -> LineChart | None:
    """Draw mean and a percentile over the reached throughput; None without a usable value.

    Latencies that are refused, and those of an open loop that fell behind, are not drawn. Closed
    and open loop have separate lines, because percentiles of a closed loop are too low.
    """
    tail = tail_of((drawn_curve.curve for drawn_curve in drawn), limit)
    metrics = [Metric.LATENCY_MEAN] if tail is None else [tail, Metric.LATENCY_MEAN]
    open_too = any(drawn_curve.curve.offered for drawn_curve in drawn) and any(
        drawn_curve.curve.closed for drawn_curve in drawn
    )
    made = [
        series
        for hue, drawn_curve in enumerate(drawn)
        for series in _responses(drawn_curve, hue, metrics, alone=len(drawn) == 1, loops=open_too)
    ]
    if not made:
        return None
    series, lines = _numbered(made)
    points = [point for line in made for point in line.points]
    heights = [y for _, y in points] + ([limit.below_s] if limit else [])
    knees = (
        (hue, drawn_curve.shape, place)
        for hue, drawn_curve in enumerate(drawn)
        for place in placed(knee_points(drawn_curve.shape), metrics[0])
    )
    return LineChart(
        id=anchor,
        title=heading,
        series=tuple(line.name for line in series),
        x=_rates(x for x, _ in points),
        y=latency_scale(heights),
        lines=lines,
        choice=choice,
        looks=tuple(line.look for line in series),
        rules=(Rule(value=limit.below_s, label=f"limit {limit}"),) if limit else (),
        pins=tuple(_pin(hue, shape, place) for hue, shape, place in knees),
        drawn=True,
    )


def _responses(
    drawn: DrawnCurve, hue: int, metrics: Sequence[Metric], *, alone: bool, loops: bool
) -> Iterator[_Series]:
    for is_open, points in ((False, drawn.curve.closed), (True, drawn.curve.offered)):
        for metric in metrics:
            shown = [point for point in points if placed([point], metric)]
            if not shown:
                continue
            loop = ("open loop" if is_open else "closed loop") if loops else ""
            what = ", ".join(part for part in (short_title(metric), loop) if part)
            # An open loop is dotted with hollow points, to distinguish it from the closed loop.
            closed_dash, open_dash = (
                (_DASHED, _DASH_DOT) if metric is Metric.LATENCY_MEAN else (_SOLID, _DOTTED)
            )
            yield _Series(
                name=what if alone else f"{drawn.label}: {what}",
                label=f"{drawn.label}: {what}",
                look=Look(hue=hue, dash=open_dash if is_open else closed_dash, hollow=is_open),
                points=tuple(placed(shown, metric)),
                texts=tuple(point_text(point, metric) for point in shown),
            )


def placed(points: Iterable[LoadPoint], metric: Metric) -> list[tuple[float, float]]:
    """(throughput, latency) of the points that have both; a log axis has no zero."""
    return [
        (rate, latency)
        for point in points
        if (rate := point.usable(Metric.IOPS)) is not None
        and (latency := point.usable(metric)) is not None
        and latency > 0
    ]


def point_text(point: LoadPoint, metric: Metric) -> str:
    rate, latency = point.usable(Metric.IOPS), point.usable(metric)
    offered = point.load.offered_iops
    parts = [
        _rate_text(point, rate or 0.0),
        f"{short_title(metric)} {value_text(metric, latency or 0.0)}",
        f"offered {value_with_unit(Metric.IOPS, offered)}" if offered is not None else "",
        count_text(point.figure.completed, "trial"),
    ]
    return ", ".join(part for part in parts if part)


def left_out_texts(drawn: Sequence[DrawnCurve], metric: Metric) -> list[str]:
    """Format measured levels without a drawn latency as `c8 of rep3 (throttled-cpu)`."""
    found = []
    for drawn_curve in drawn:
        for point in (*drawn_curve.curve.closed, *drawn_curve.curve.offered):
            if point.missing or placed([point], metric):
                continue
            figure = point.latency(metric)
            worst = (mark.code for mark in figure.finding_marks if mark.severity is figure.severity)
            reason = (
                "the offered rate was not reached"
                if point.beyond_capacity
                else ", ".join(dict.fromkeys(worst)) or figure.absence
            )
            of = f" of {drawn_curve.label}" if len(drawn) > 1 else ""
            found.append(f"{level_text(point)}{of}" + (f" ({reason})" if reason else ""))
    return found


# --- throughput over load -----------------------------------------------------------------------


def load_chart(
    anchor: str, heading: str, drawn: Sequence[DrawnCurve], choice: str = ""
) -> LineChart | None:
    """Draw the throughput of closed-loop levels over load, with every trial, the fitted law within
    the measured levels, and proportional growth from the first level. None where no curve has two
    levels. All curves have one unit of load."""
    shown = [
        (hue, drawn_curve)
        for hue, drawn_curve in enumerate(drawn)
        if len(_levels(drawn_curve.curve)) > 1
    ]
    if not shown:
        return None
    levels = [level for _, drawn_curve in shown for level in _levels(drawn_curve.curve)]
    rates = [rate for _, rate in levels]
    rates += [
        rate
        for _, drawn_curve in shown
        for level in drawn_curve.curve.closed
        for rate in level.trials(Metric.IOPS)
    ]
    _, top, _ = linear_axis(max(rates))
    series, lines = _numbered(
        [series for hue, drawn_curve in shown for series in _loads(drawn_curve, hue, top)]
    )
    names = [line.name for line in series]
    loads = sorted({load for load, _ in levels})
    return LineChart(
        id=anchor,
        title=heading,
        # The legend lists a repeated name once.
        series=tuple("" if name in names[:at] else name for at, name in enumerate(names)),
        x=Scale(
            title=shown[0][1].curve.axis.value,
            log=True,
            low=loads[0] / 1.2,
            high=loads[-1] * 1.2,
            ticks=tuple((load, f"{load:,g}") for load in loads),
        ),
        y=_rates(rates),
        lines=lines,
        choice=choice,
        looks=tuple(line.look for line in series),
        pins=tuple(
            _pin(hue, drawn_curve.shape, (drawn_curve.curve.load_of(point), rate))
            for hue, drawn_curve in shown
            for point in knee_points(drawn_curve.shape)
            if (rate := point.usable(Metric.IOPS)) is not None
        ),
        drawn=True,
    )


def _levels(curve: LoadCurve) -> list[tuple[float, float]]:
    """(load, throughput) of the closed-loop levels with a usable throughput."""
    return [
        (curve.load_of(level), rate)
        for level in curve.closed
        if (rate := level.usable(Metric.IOPS)) is not None
    ]


def _loads(drawn: DrawnCurve, hue: int, top: float) -> Iterator[_Series]:
    curve, law = drawn.curve, drawn.shape.law
    levels = _levels(curve)
    first, last = levels[0][0], levels[-1][0]
    per_load = levels[0][1] / first if first else 0.0
    # Proportional growth ends where it leaves the plot.
    until = min(last, top / per_load) if per_load > 0 else first
    if until > first:
        yield _Series(
            name="proportional to the first level",
            label=f"{drawn.label}: proportional to the first level",
            look=Look(hue=hue, dash=_DOTTED, stroke=Stroke.FAINT),
            points=tuple((load, load * per_load) for load in _steps(first, until)),
        )
    if isinstance(law, UslFit):
        loads = _steps(law.loads[0], law.loads[-1])
        yield _Series(
            name="fitted law (USL)",
            label=f"{drawn.label}: Universal Scalability Law, fitted",
            look=Look(hue=hue, dash=_DASHED, stroke=Stroke.THIN),
            points=tuple((load, min(law.curve.at(load), top)) for load in loads),
        )
    trials = [(point, rate) for point in curve.closed for rate in point.trials(Metric.IOPS)]
    if len(trials) > len(levels):
        yield _Series(
            name="each trial",
            label=f"{drawn.label}: each trial",
            look=Look(hue=hue, stroke=Stroke.DOTS),
            points=tuple((curve.load_of(point), rate) for point, rate in trials),
            texts=tuple(_rate_text(point, rate) for point, rate in trials),
        )
    yield _Series(
        name=drawn.label,
        label=drawn.label,
        look=Look(hue=hue),
        points=tuple(levels),
        texts=tuple(
            f"{_rate_text(point, rate)}, {count_text(point.figure.completed, 'trial')}"
            for point in curve.closed
            if (rate := point.usable(Metric.IOPS)) is not None
        ),
    )


def _rate_text(point: LoadPoint, rate: float) -> str:
    return f"{level_text(point)}: {value_with_unit(Metric.IOPS, rate)}"


def _steps(first: float, last: float) -> list[float]:
    """Loads from `first` to `last`, evenly spaced on a log axis."""
    factor = (last / first) ** (1 / _STEPS)
    return [first * factor**step for step in range(_STEPS)] + [last]


# --- both ---------------------------------------------------------------------------------------


def knee_points(shape: Shape) -> list[LoadPoint]:
    knee = shape.knee(KneeMethod.GAIN)
    return [point for point in shape.curve.closed if point.level and point.level == knee.level]


def _pin(hue: int, shape: Shape, place: tuple[float, float]) -> Pin:
    text = knee_text(shape, shape.knee(KneeMethod.GAIN))
    return Pin(x=place[0], y=place[1], hue=hue, label="knee", text=text)


def knee_text(shape: Shape, knee: Knee) -> str:
    if knee.load is None:
        return ""
    return (
        f"knee at {load_text(shape.curve, knee.load)}: above it a doubling of the load gives less "
        "than a tenth more"
    )


def _numbered(made: Sequence[_Series]) -> tuple[tuple[_Series, ...], tuple[Line, ...]]:
    """Order the series for the legend, measured ones first, and number the lines by series in the
    order in which they are drawn."""
    ordered = sorted(made, key=lambda line: line.look.stroke is not Stroke.MARKED)
    lines = (
        Line(label=line.label, series=ordered.index(line), points=line.points, texts=line.texts)
        for line in made
    )
    return tuple(ordered), tuple(lines)


def _rates(rates: Iterable[float]) -> Scale:
    return linear_scale("IOPS", max(rates), partial(value_text, Metric.IOPS))
