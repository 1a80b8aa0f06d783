"""Load curves drawn: latency against throughput, and throughput against load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.figures import MetricFigure
from leadline.analysis.scaling.curves import LoadCurve, LoadPoint
from leadline.analysis.scaling.knee import Knee, KneeMethod, Shape
from leadline.analysis.scaling.study import CurveStudy, LevelBottleneck
from leadline.archive.reader import Run
from leadline.formats.fio.logs import Window
from leadline.formats.host_rates import MachineRates, rate_series
from leadline.formats.result import FormatError
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit
from leadline.report.curves import MOST_SERIES, thinned
from leadline.report.document import (
    Block,
    Choices,
    Line,
    LineChart,
    Look,
    PageBudget,
    Pin,
    Rule,
    Scale,
    Section,
    Stroke,
    linear_axis,
    log_axis,
)
from leadline.report.pages.scaling.tables import level_text, load_text, short_title
from leadline.report.words import (
    chart_labels,
    count_text,
    share_text,
    value_text,
    value_with_unit,
    visible,
)
from leadline.stats.usl import UslFit
from leadline.units import format_bandwidth, format_latency

# Steps of a curve that is computed, enough that it looks round.
_STEPS = 24
# Percentiles to draw where no limit asks for one, the first that is known.
_TAILS = (Metric.LATENCY_P99, Metric.LATENCY_P95, Metric.LATENCY_P50)
_SOLID, _DASHED, _DOTTED, _DASH_DOT = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCurve:
    """A curve under the name that it has at its chart."""

    label: str
    shape: Shape

    @property
    def curve(self) -> LoadCurve:
        return self.shape.curve


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    name: str
    look: Look
    line: Line


def tail_of(curves: Iterable[LoadCurve], limit: LatencyLimit | None) -> Metric | None:
    """The percentile that is drawn beside the mean: that of the limit, else p99 or the highest
    below it that the levels have I/Os enough for; None where there is none."""
    points = [point for curve in curves for point in (*curve.closed, *curve.offered)]
    wanted = (limit.metric, *_TAILS) if limit else _TAILS
    return next(
        (
            metric
            for metric in wanted
            if metric.quantile is not None and any(one.usable(metric) for one in points)
        ),
        None,
    )


# --- latency against throughput -----------------------------------------------------------------


def response_chart(
    anchor: str,
    heading: str,
    drawn: Sequence[DrawnCurve],
    limit: LatencyLimit | None = None,
    choice: str = "",
) -> LineChart | None:
    """Mean and a percentile over the throughput that was reached; None where nothing may be drawn.

    A latency under an `error` finding has no place here, nor has one of an open loop that fell
    behind. A closed loop asks a stalled target less, so that its percentiles and those of an open
    loop are lines of their own.
    """
    tail = tail_of((one.curve for one in drawn), limit)
    metrics = [Metric.LATENCY_MEAN] if tail is None else [tail, Metric.LATENCY_MEAN]
    open_too = any(one.curve.offered for one in drawn) and any(one.curve.closed for one in drawn)
    made = [
        series
        for hue, one in enumerate(drawn)
        for series in _responses(one, hue, metrics, alone=len(drawn) == 1, loops=open_too)
    ]
    if not made:
        return None
    series, lines = _numbered(made)
    points = [point for one in made for point in one.line.points]
    heights = [y for _, y in points] + ([limit.below_s] if limit else [])
    low, high, ticks = log_axis(min(heights), max(heights))
    return LineChart(
        id=anchor,
        title=heading,
        series=tuple(one.name for one in series),
        x=_rates(x for x, _ in points),
        y=Scale(
            title="latency",
            log=True,
            low=low,
            high=high,
            ticks=tuple((tick, format_latency(tick)) for tick in ticks),
        ),
        lines=lines,
        choice=choice,
        looks=tuple(one.look for one in series),
        rules=(Rule(value=limit.below_s, label=f"limit {limit}"),) if limit else (),
        pins=tuple(
            Pin(x=x, y=y, hue=hue, label="knee", text=knee_text(one.shape, knee))
            for hue, one in enumerate(drawn)
            for knee, point in _knee_point(one.shape)
            for x, y in _placed([point], metrics[0])
        ),
        drawn=True,
    )


def _responses(
    drawn: DrawnCurve, hue: int, metrics: Sequence[Metric], *, alone: bool, loops: bool
) -> Iterator[_Series]:
    for is_open, points in ((False, drawn.curve.closed), (True, drawn.curve.offered)):
        for metric in metrics:
            shown = [one for one in points if _placed([one], metric)]
            if not shown:
                continue
            loop = ("open loop" if is_open else "closed loop") if loops else ""
            what = ", ".join(part for part in (short_title(metric), loop) if part)
            dash = _DASHED if metric is Metric.LATENCY_MEAN else _SOLID
            yield _Series(
                name=what if alone else f"{drawn.label}: {what}",
                # An open loop is a line of dots between outlines, so that nobody joins the two.
                look=Look(
                    hue=hue,
                    dash=dash if not is_open else (_DOTTED if dash == _SOLID else _DASH_DOT),
                    hollow=is_open,
                ),
                line=Line(
                    label=f"{drawn.label}: {what}",
                    series=0,
                    points=tuple(_placed(shown, metric)),
                    texts=tuple(_told(one, metric) for one in shown),
                ),
            )


def _placed(points: Iterable[LoadPoint], metric: Metric) -> list[tuple[float, float]]:
    """(throughput, latency) of the points that have both; no latency of nothing on a log axis."""
    return [
        (rate, latency)
        for one in points
        if (rate := one.usable(Metric.IOPS)) is not None
        and (latency := one.usable(metric)) is not None
        and latency > 0
    ]


def _told(point: LoadPoint, metric: Metric) -> str:
    rate, latency = point.usable(Metric.IOPS), point.usable(metric)
    offered = point.load.offered_iops
    parts = [
        f"{level_text(point)}: {value_with_unit(Metric.IOPS, rate or 0.0)}",
        f"{short_title(metric)} {value_text(metric, latency or 0.0)}",
        f"offered {value_with_unit(Metric.IOPS, offered)}" if offered is not None else "",
        count_text(point.figure.completed, "trial"),
    ]
    return ", ".join(part for part in parts if part)


def left_out_texts(drawn: Sequence[DrawnCurve], metric: Metric) -> list[str]:
    """`c8 of rep3 (throttled-cpu)`: measured levels whose latency is not drawn, and why."""
    found = []
    for one in drawn:
        for point in (*one.curve.closed, *one.curve.offered):
            if point.missing or _placed([point], metric):
                continue
            figure = point.latency(metric)
            why = (
                "the offered rate was not reached"
                if point.beyond_capacity
                else ", ".join(_refusing(figure)) or figure.absence
            )
            of = f" of {one.label}" if len(drawn) > 1 else ""
            level = f"{level_text(point)}{of}"
            found.append(f"{level} ({visible(why)})" if why else level)
    return found


def _refusing(figure: MetricFigure) -> tuple[str, ...]:
    """What is said against it most severely; the lesser doubts did not keep it off the chart."""
    codes = (doubt.code for doubt in figure.doubts if doubt.severity is figure.severity)
    return tuple(dict.fromkeys(codes))


# --- throughput against load --------------------------------------------------------------------


def load_chart(
    anchor: str, heading: str, drawn: Sequence[DrawnCurve], choice: str = ""
) -> LineChart | None:
    """Throughput of the closed loop's levels over their load, with every trial, the fitted law as
    far as was measured, and what the first level's throughput would be if it grew with the load.
    None where no curve has two levels. All curves count their load alike."""
    shown = [(hue, one) for hue, one in enumerate(drawn) if len(_levels(one.curve)) > 1]
    if not shown:
        return None
    rates = [y for _, one in shown for y in _every_rate(one)]
    _, top, _ = linear_axis(max(rates))
    made = [series for hue, one in shown for series in _loads(one, hue, top)]
    series, lines = _numbered(made)
    loads = sorted({x for _, one in shown for x, _ in _levels(one.curve)})
    axis = shown[0][1].curve.axis
    return LineChart(
        id=anchor,
        title=heading,
        series=_named_once(series),
        x=Scale(
            title=axis.value,
            log=True,
            low=loads[0] / 1.2,
            high=loads[-1] * 1.2,
            ticks=tuple((load, f"{load:,g}") for load in loads),
        ),
        y=_rates(rates),
        lines=lines,
        choice=choice,
        looks=tuple(one.look for one in series),
        pins=tuple(
            Pin(
                x=one.curve.load_of(point),
                y=rate,
                hue=hue,
                label="knee",
                text=knee_text(one.shape, knee),
            )
            for hue, one in shown
            for knee, point in _knee_point(one.shape)
            if (rate := point.usable(Metric.IOPS)) is not None
        ),
        drawn=True,
    )


def _levels(curve: LoadCurve) -> list[tuple[float, float]]:
    """(load, throughput) of the closed levels whose throughput may be used."""
    return [
        (curve.load_of(one), rate)
        for one in curve.closed
        if (rate := one.usable(Metric.IOPS)) is not None
    ]


def _every_rate(drawn: DrawnCurve) -> list[float]:
    trials = [rate for one in drawn.curve.closed for rate in one.trials(Metric.IOPS)]
    return [*trials, *(rate for _, rate in _levels(drawn.curve))]


def _loads(drawn: DrawnCurve, hue: int, top: float) -> Iterator[_Series]:
    curve, law = drawn.curve, drawn.shape.law
    levels = _levels(curve)
    first, last = levels[0][0], levels[-1][0]
    per_load = levels[0][1] / first if first else 0.0
    # The ideal ends where it leaves the plot.
    until = min(last, top / per_load) if per_load > 0 else first
    if until > first:
        yield _Series(
            name="in proportion to the first level",
            look=Look(hue=hue, dash=_DOTTED, stroke=Stroke.FAINT),
            line=Line(
                label=f"{drawn.label}: in proportion to the first level",
                series=0,
                points=tuple((load, load * per_load) for load in _steps(first, until)),
            ),
        )
    if isinstance(law, UslFit):
        yield _Series(
            name="fitted law (USL)",
            look=Look(hue=hue, dash=_DASHED, stroke=Stroke.THIN),
            line=Line(
                label=f"{drawn.label}: Universal Scalability Law, fitted",
                series=0,
                points=tuple(
                    (load, min(law.curve.at(load), top))
                    for load in _steps(law.loads[0], law.loads[-1])
                ),
            ),
        )
    dots = [
        (curve.load_of(one), rate, one) for one in curve.closed for rate in one.trials(Metric.IOPS)
    ]
    if len(dots) > len(levels):
        yield _Series(
            name="each trial",
            look=Look(hue=hue, stroke=Stroke.DOTS),
            line=Line(
                label=f"{drawn.label}: each trial",
                series=0,
                points=tuple((load, rate) for load, rate, _ in dots),
                texts=tuple(
                    f"{level_text(one)}: {value_with_unit(Metric.IOPS, rate)}"
                    for _, rate, one in dots
                ),
            ),
        )
    yield _Series(
        name=drawn.label,
        look=Look(hue=hue),
        line=Line(
            label=drawn.label,
            series=0,
            points=tuple(levels),
            texts=tuple(
                f"{level_text(one)}: {value_with_unit(Metric.IOPS, rate)}, "
                f"{count_text(one.figure.completed, 'trial')}"
                for one in curve.closed
                if (rate := one.usable(Metric.IOPS)) is not None
            ),
        ),
    )


def _steps(first: float, last: float) -> list[float]:
    """Loads from `first` to `last`, as far from one another on a log axis."""
    factor = (last / first) ** (1 / _STEPS)
    return [first * factor**step for step in range(_STEPS)] + [last]


# --- both ---------------------------------------------------------------------------------------


def _knee_point(shape: Shape) -> Iterator[tuple[Knee, LoadPoint]]:
    knee = shape.knee(KneeMethod.GAIN)
    for point in shape.curve.closed:
        if knee.level and point.level == knee.level:
            yield knee, point


def knee_text(shape: Shape, knee: Knee) -> str:
    if knee.load is None:
        return ""
    return (
        f"knee at {load_text(shape.curve, knee.load)}: from here on no doubling of the load brings "
        "a tenth more"
    )


def _numbered(made: Sequence[_Series]) -> tuple[tuple[_Series, ...], tuple[Line, ...]]:
    """The series as a legend has them, what was measured first, and the lines in the order in
    which they are drawn, each with the number of its series."""
    ordered = sorted(made, key=lambda one: one.look.stroke is not Stroke.MARKED)
    lines = tuple(replace(one.line, series=ordered.index(one)) for one in made)
    return tuple(ordered), lines


def _named_once(series: Sequence[_Series]) -> tuple[str, ...]:
    """What is drawn alike of every target is in the legend once."""
    names = [one.name for one in series]
    return tuple("" if name in names[:number] else name for number, name in enumerate(names))


def _rates(rates: Iterable[float]) -> Scale:
    low, high, ticks = linear_axis(max(rates))
    return Scale(
        title="IOPS",
        log=False,
        low=low,
        high=high,
        ticks=tuple((tick, value_text(Metric.IOPS, tick)) for tick in ticks),
    )


# What machines did from second to second under each load level, of one trial of it.

_MOST_POINTS = 40
_Told = Callable[[MachineRates], Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What is drawn: `told` gives the value of each line that a machine has at that moment."""

    id: str
    title: str
    unit: str
    told: _Told
    share: bool


def timeline_sections(
    studies: Sequence[tuple[str, CurveStudy]], budget: PageBudget | None = None
) -> tuple[Section, ...]:
    """One folded section with small charts for each level of which machines were sampled; none
    where nothing was."""
    made: dict[str, tuple[str, list[LineChart]]] = {}
    for name, study, level in _timeline_levels(studies):
        trial = level.evidence.trial
        if trial in made:
            continue
        anchor = f"resources-{len(made) + 1}"
        heading = f"{name} · {level_text(level.point)} · trial {visible(trial)}"
        charts = _charts(study.run, trial, anchor)
        points = sum(len(line.points) for chart in charts for line in chart.lines)
        if charts and (budget is None or budget.allows("resources over time", points)):
            made[trial] = (heading, charts)
    if not made:
        return ()
    ordered = [made[trial] for trial in _in_order(studies) if trial in made]
    blocks: list[Block] = []
    if len(ordered) > 1:
        options = tuple((charts[0].choice, heading) for heading, charts in ordered)
        blocks.append(Choices(id="resources-level", label="Level", options=options))
    blocks += [chart for _, charts in ordered for chart in charts]
    return (
        Section(
            heading="Resources under each level",
            id="resources-over-time",
            blocks=tuple(blocks),
            folded=True,
        ),
    )


def _timeline_levels(
    studies: Sequence[tuple[str, CurveStudy]],
) -> list[tuple[str, CurveStudy, LevelBottleneck]]:
    """Levels with a trial, those of the peaks first: where there is no room for all, they say
    most."""
    found = [
        (name, study, level)
        for name, study in studies
        for level in study.bottlenecks
        if level.evidence.trial
    ]
    return sorted(found, key=lambda one: one[2] is not one[1].at_peak)


def _in_order(studies: Sequence[tuple[str, CurveStudy]]) -> list[str]:
    trials = [level.evidence.trial for _, study in studies for level in study.bottlenecks]
    return list(dict.fromkeys(trials))


def _charts(run: Run, trial: str, anchor: str) -> list[LineChart]:
    stored = next((one for one in run.trials if one.record.label == trial), None)
    if stored is None:
        return []
    try:
        series = rate_series(stored.resources)
    except FormatError:
        return []  # the audit names the file and its line
    charts = (_chart(f"{anchor}-{kind.id}", kind, series, anchor) for kind in _KINDS)
    return [chart for chart in charts if chart is not None]


def _chart(
    anchor: str, kind: _Kind, series: Mapping[str, Sequence[MachineRates]], choice: str
) -> LineChart | None:
    lines: dict[str, list[Window]] = {}
    begins: dict[str, float] = {}
    for machine, moments in series.items():
        for moment in moments:
            for part, value in kind.told(moment).items():
                name = f"{machine} {part}".strip()
                begins.setdefault(name, moment.begin_s)
                lines.setdefault(name, []).append(Window(end_s=moment.end_s, value=value))
    # Of many lines those that rose highest: what is used up is among them.
    chosen = sorted(lines, key=lambda name: -max(one.value for one in lines[name]))[:MOST_SERIES]
    kept = [name for name in lines if name in chosen]
    if not kept:
        return None
    labels = chart_labels(kept)
    most = max(one.value for name in kept for one in lines[name])
    low, high, ticks = linear_axis(1.0 if kind.share else most)
    begin = min(begins[name] for name in kept)
    end = max(lines[name][-1].end_s for name in kept)
    _, _, seconds = linear_axis(end - begin)
    left_out = len(lines) - len(kept)
    return LineChart(
        id=anchor,
        title=kind.title + (f", the {len(kept)} highest of {len(lines)}" if left_out else ""),
        series=tuple(labels[name] for name in kept),
        x=Scale(
            title="seconds",
            log=False,
            low=0.0,
            high=end - begin,
            ticks=tuple((tick, f"{tick:g} s") for tick in seconds),
        ),
        y=Scale(
            title=kind.unit,
            log=False,
            low=low,
            high=high,
            ticks=tuple((tick, _text(kind, tick) if tick else "0") for tick in ticks),
        ),
        lines=tuple(
            _line(kind, labels[name], number, lines[name], begin)
            for number, name in enumerate(kept)
        ),
        choice=choice,
    )


def _line(kind: _Kind, label: str, number: int, windows: Sequence[Window], begin: float) -> Line:
    shifted = [Window(end_s=one.end_s - begin, value=one.value) for one in windows]
    spans = thinned(shifted, _MOST_POINTS)
    return Line(
        label=label,
        series=number,
        points=tuple(((first + last) / 2, value) for first, last, value in spans),
        texts=tuple(
            f"{first:.0f} to {last:.0f} s: {_text(kind, value)}" for first, last, value in spans
        ),
    )


def _text(kind: _Kind, value: float) -> str:
    return share_text(value) if kind.share else f"{format_bandwidth(value)} MiB/s"


def _cpu(moment: MachineRates) -> Mapping[str, float]:
    return {"": moment.cpu.busy_share} if moment.cpu else {}


def _disks(moment: MachineRates) -> Mapping[str, float]:
    return {name: one.utilisation for name, one in moment.disks.items()}


def _network(moment: MachineRates) -> Mapping[str, float]:
    """The direction that had more."""
    return {name: max(one.received_bps, one.sent_bps) for name, one in moment.interfaces.items()}


def _throttled(moment: MachineRates) -> Mapping[str, float]:
    return {
        name: one.throttled_share
        for name, one in moment.groups.items()
        if one.throttled_share is not None
    }


_KINDS = (
    _Kind(id="cpu", title="Processors", unit="share busy", told=_cpu, share=True),
    _Kind(id="disks", title="Disks", unit="share of time with I/O", told=_disks, share=True),
    _Kind(id="network", title="Network", unit="busier direction", told=_network, share=False),
    _Kind(
        id="throttled",
        title="Processor quota",
        unit="share of periods that used it up",
        told=_throttled,
        share=True,
    ),
)
