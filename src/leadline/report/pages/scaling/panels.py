"""Pictures of latency over throughput, a panel for each target and workload, on shared axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit
from leadline.report.curves import latency_scale, linear_scale, log_axis, scale
from leadline.report.document import Line, LineChart, Look, Pin, Rule, Scale, Stroke
from leadline.report.pages.scaling.charts import placed, point_text, tail_of
from leadline.report.pages.scaling.words import short_title
from leadline.report.words import value_text, value_with_unit

# Curves with a larger ratio of their highest rates share a log axis.
_LINEAR = 4.0
_SOLID, _DASHED, _DOTTED, _DASH_DOT = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCurve:
    """The curve of a system, a number of the series. `pins` are marked levels: (level, label,
    tooltip)."""

    series: int
    curve: LoadCurve
    pins: tuple[tuple[LoadPoint, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The curves of one target and workload."""

    title: str
    note: str
    curves: tuple[PanelCurve, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One of the lines of a curve: its name in the legend, its dash, and its (point, text)."""

    name: str
    dash: int
    stroke: Stroke
    points: Callable[[LoadCurve], Iterable[tuple[tuple[float, float], str]]]
    hollow: bool = False


def response_panels(
    anchor: str,
    panels: Sequence[Panel],
    systems: Sequence[str],
    hues: Sequence[int],
    limit: LatencyLimit | None = None,
) -> tuple[LineChart, ...]:
    """Draw latency over throughput: mean and a percentile of each level, and each trial.

    `systems` are the names of the series in the legend, empty for one without a name. A panel
    without a usable latency is left out. One panel is as wide as the page.
    """
    tail = tail_of((drawn.curve for panel in panels for drawn in panel.curves), limit)
    kinds = _kinds(tail or Metric.LATENCY_MEAN)
    made = [(panel, list(_lines(panel, kinds, systems))) for panel in panels]
    made = [(panel, lines) for panel, lines in made if lines]
    points = [point for _, lines in made for line in lines for point in line.points]
    if not points:
        return ()
    x = _rates(max(x for line in lines for x, _ in line.points) for _, lines in made)
    if x.log:
        low, high = min(x for x, _ in points if x > 0), max(x for x, _ in points)
        x = scale("IOPS", log_axis(low, high), partial(value_text, Metric.IOPS), log=True)
    y = latency_scale([y for _, y in points] + ([limit.below_s] if limit else []))
    return tuple(
        LineChart(
            id=f"{anchor}-{number}",
            title=panel.title,
            note=panel.note,
            series=tuple(
                " ".join(filter(None, (name, kind.name))) for kind in kinds for name in systems
            ),
            looks=tuple(
                Look(hue=hue, dash=kind.dash, stroke=kind.stroke, hollow=kind.hollow)
                for kind in kinds
                for hue in hues
            ),
            x=x,
            y=y,
            lines=tuple(lines),
            rules=(Rule(value=limit.below_s, label=f"limit {limit}"),) if limit else (),
            pins=tuple(_pins(panel, tail or Metric.LATENCY_MEAN, hues)),
            panel=len(made) > 1,
            drawn=True,
        )
        for number, (panel, lines) in enumerate(made, start=1)
    )


def _rates(highest: Iterable[float]) -> Scale:
    given = list(highest)
    axis = linear_scale("IOPS", max(given), partial(value_text, Metric.IOPS))
    far = min(given) > 0 and max(given) / min(given) > _LINEAR
    return Scale(title="IOPS", log=far, low=axis.low, high=axis.high, ticks=axis.ticks)


def _kinds(tail: Metric) -> tuple[_Kind, ...]:
    """The lines of a curve, in the order of the legend. Percentiles of a closed loop are too low,
    so the loops have separate lines."""
    kinds = []
    for metric in dict.fromkeys((tail, Metric.LATENCY_MEAN)):
        name, main = short_title(metric), metric is tail
        kinds += [
            _Kind(
                name=name,
                dash=_SOLID if main else _DASHED,
                stroke=Stroke.MARKED if main else Stroke.THIN,
                points=partial(_closed, metric),
            ),
            _Kind(
                name=f"{name}, open loop",
                dash=_DOTTED if main else _DASH_DOT,
                stroke=Stroke.MARKED,
                points=partial(_offered, metric),
                hollow=True,
            ),
        ]
    trials = partial(_trials, tail)
    return (
        *kinds,
        _Kind(name="each trial", dash=_SOLID, stroke=Stroke.DOTS, points=trials),
    )


def _lines(panel: Panel, kinds: Sequence[_Kind], systems: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of a panel, those of the trials below the others."""
    for number, kind in reversed(list(enumerate(kinds))):
        for drawn in panel.curves:
            points = list(kind.points(drawn.curve))
            if points:
                yield Line(
                    label=" ".join(filter(None, (systems[drawn.series], kind.name))),
                    series=number * len(systems) + drawn.series,
                    points=tuple(point for point, _ in points),
                    texts=tuple(text for _, text in points),
                )


_Points = Iterator[tuple[tuple[float, float], str]]


def _placed(points: Iterable[LoadPoint], metric: Metric) -> _Points:
    for point in points:
        for place in placed([point], metric):
            yield place, point_text(point, metric)


def _closed(metric: Metric, curve: LoadCurve) -> _Points:
    return _placed(curve.closed, metric)


def _offered(metric: Metric, curve: LoadCurve) -> _Points:
    return _placed(curve.offered, metric)


def _trials(metric: Metric, curve: LoadCurve) -> _Points:
    """Yield each trial of the closed-loop levels that have several, where its rate and its latency
    are known."""
    for point in curve.closed:
        rates = point.figure.metric(Metric.IOPS).trials
        if not placed([point], metric) or len(rates) < 2:
            continue
        latencies = {trial.trial: trial.value for trial in point.figure.metric(metric).trials}
        for trial in rates:
            latency = latencies.get(trial.trial)
            if trial.value and latency:
                rate = value_with_unit(Metric.IOPS, trial.value)
                latency_text = f"{short_title(metric)} {value_text(metric, latency)}"
                yield (trial.value, latency), f"{trial.trial}: {rate}, {latency_text}"


def _pins(panel: Panel, metric: Metric, hues: Sequence[int]) -> Iterator[Pin]:
    for drawn in panel.curves:
        for point, label, text in drawn.pins:
            for x, y in placed([point], metric):
                yield Pin(x=x, y=y, hue=hues[drawn.series], label=label, text=text)
