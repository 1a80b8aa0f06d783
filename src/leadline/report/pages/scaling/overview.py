"""The first screen of load curves: headline, tiles, and latency over throughput of each curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from leadline.analysis.bottleneck.suspects import Bottleneck, Strength
from leadline.analysis.scaling.curves import LoadCurve
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.knee import Knee, KneeMethod, Shape
from leadline.analysis.scaling.speedup import Speedup
from leadline.analysis.scaling.study import CurveStudy, ScalingStudy
from leadline.analysis.scaling.trend import Trend
from leadline.analysis.verdicts import Judgement, Verdict
from leadline.metrics import Metric
from leadline.report.cells import slug
from leadline.report.document import (
    SYSTEM_HUES,
    Block,
    DeltaChart,
    DeltaRow,
    LineChart,
    Paragraph,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.charts import ratio_scale
from leadline.report.pages.ranking_charts import trust_tile
from leadline.report.pages.scaling.charts import knee_points, knee_text, tail_of
from leadline.report.pages.scaling.panels import Panel, PanelCurve, response_panels
from leadline.report.pages.scaling.sentences import NamedCurve, named_curves
from leadline.report.pages.scaling.words import (
    NAMES,
    PEAK_CLAUSES,
    iops_interval,
    level_text,
    load_text,
    number_text,
    short_title,
    signed,
)
from leadline.report.words import (
    change_text,
    count_text,
    listed,
    op_text,
    place,
    short,
    value_text,
    value_with_unit,
)

# Panels and rows of a first screen; the tables have all curves.
_MOST_PANELS, _MOST_ROWS = 9, 14
_NAME = 24


def whole_curves(study: ScalingStudy) -> tuple[NamedCurve, ...]:
    """Name the curves, without the directions of a mixed workload: its total stands for them."""
    return tuple(named for named in named_curves(study) if not named.study.curve.part_of_mix)


# --- the headline -------------------------------------------------------------------------------


def scaling_headline(study: ScalingStudy) -> str:
    """State what load or hardware adds, in at most 20 words without names."""
    grown = next(filter(None, map(_growth, scaled(study))), "")
    if grown:
        return grown
    curves = whole_curves(study)
    if len(curves) == 1:
        return f"{_curve(curves[0].study)}."
    best = _highest(curves)
    if best is None or best.study.shape.peak is None:
        return f"{count_text(len(curves), 'load curve')}: no level has a usable throughput."
    counts = Counter(named.study.shape.saturated for named in curves)
    words = {True: "saturating", False: "still growing", None: "undecided"}
    states = [
        f"{'all' if number == len(curves) else number} {word}"
        for state, word in words.items()
        if (number := counts[state])
    ]
    top = value_with_unit(Metric.IOPS, best.study.shape.peak.iops)
    name = short(best.name, _NAME)
    return f"{name} reaches {top}; {len(curves)} load curves: {listed(states)}."


def scaled(study: ScalingStudy) -> list[Growth]:
    """Return the systems that have more of a resource than the first."""
    return [growth for growth in study.growths if any(row.speedup.divisor for row in growth.rows)]


def _growth(growth: Growth) -> str:
    ratios = [judged.ratio for judged in _judged(growth) if judged.ratio]
    over = next((row.speedup.divisor for row in growth.rows if row.speedup.divisor), None)
    if not ratios or over is None:
        return ""
    ends = f"{number_text(over.baseline)} to {number_text(over.candidate)}"
    return (
        f"{short(growth.candidate.name, _NAME)} vs {short(growth.baseline.name, _NAME)}: "
        f"{_span(ratios)} highest throughput for {signed(over.ratio - 1)} {over.name} ({ends})."
    )


def _judged(growth: Growth) -> list[Judgement]:
    """The judgements of the highest throughput of each curve, without directions of a mix."""
    return [
        row.speedup.peak.judgement
        for row in growth.rows
        if row.speedup.peak is not None and not row.speedup.baseline.part_of_mix
    ]


def _span(ratios: Sequence[float]) -> str:
    """`+12 % to +90 %`."""
    ends = (min(ratios) - 1, max(ratios) - 1)
    return " to ".join(dict.fromkeys(map(signed, ends)))


def _curve(study: CurveStudy) -> str:
    """`randread-4k on pool grows to 6 clients (9,800 IOPS), then falls`."""
    shape, curve = study.shape, study.curve
    name = f"{short(curve.workload, _NAME)} on {short(curve.target, _NAME)}"
    if shape.peak is None:
        return f"{name}: no level has a usable throughput"
    knee = shape.knee(KneeMethod.GAIN)
    falls = shape.ending is not None and shape.ending.trend is Trend.FALLS
    at, top = load_text(curve, shape.peak.load), value_with_unit(Metric.IOPS, shape.peak.iops)
    if shape.saturated is False:
        return f"{name} still grows at {at}, the highest load ({top})"
    if falls:
        return f"{name} grows to {at} ({top}), then falls"
    if knee.load is not None:
        return f"{name} saturates at {load_text(curve, knee.load)}; highest {top}"
    return f"{name}: highest {top} at {at}; whether it still grows is undecided"


def _highest(curves: Sequence[NamedCurve]) -> NamedCurve | None:
    peaks = [(peak.iops, named) for named in curves if (peak := named.study.shape.peak)]
    return max(peaks, key=lambda pair: pair[0], default=(0.0, None))[1]


# --- tiles --------------------------------------------------------------------------------------


def scaling_tiles(study: ScalingStudy) -> Iterator[Tile]:
    """Yield the highest throughput or the speed-up, the knee, the latency, the bottleneck and
    trust."""
    curves = whole_curves(study)
    grown = scaled(study)
    yield from map(_speedup_tile, grown[:1])
    yield from filter(None, (_highest_tile(curves), None if grown else _knee_tile(curves)))
    yield from filter(None, (_limit_tile(study, curves) or _latency_tile(curves),))
    yield _bottleneck_tile(curves)
    points = [
        point
        for named in curves
        for point in (*named.study.curve.closed, *named.study.curve.offered)
    ]
    known = [point.throughput for point in points if point.throughput.value is not None]
    yield trust_tile(known, "levels without a warning")


def _speedup_tile(growth: Growth) -> Tile:
    found = _judged(growth)
    ratios = [one.ratio for one in found if one.ratio]
    verdicts = Counter(one.verdict for one in found)
    counts = [f"{verdict.value} in {verdicts[verdict]}" for verdict in Verdict if verdicts[verdict]]
    shares = [
        row.speedup.peak.efficiency.value
        for row in growth.rows
        if row.speedup.peak and row.speedup.peak.efficiency
    ]
    ends = dict.fromkeys(f"{100 * end:.0f}" for end in (min(shares), max(shares))) if shares else ()
    efficiency = f"Efficiency {' to '.join(ends)} %; " if ends else ""
    only = next(iter(verdicts)).value if len(verdicts) == 1 else ""
    return Tile(
        title="Speed-up",
        unit="highest throughput",
        value=_span(ratios) if ratios else "unknown",
        verdict=only,
        note=f"{efficiency}{listed(counts)} of {count_text(len(found), 'curve')}.".capitalize(),
    )


def _highest_tile(curves: Sequence[NamedCurve]) -> Tile | None:
    best = _highest(curves)
    peak = best.study.shape.peak if best else None
    if best is None or peak is None:
        return None
    interval = f" ({iops_interval(peak.interval)})" if peak.interval else ""
    name = short(best.name, _NAME) if len(curves) > 1 else ""
    where = place(name, level_text(peak.point))
    return Tile(
        title="Highest throughput",
        unit="IOPS",
        value=value_text(Metric.IOPS, peak.iops),
        verdict="",
        note=f"{where}{interval}.",
    )


def _knee_tile(curves: Sequence[NamedCurve]) -> Tile | None:
    """The knee of the only curve; of several, how many have one."""
    knees = [(named, _gain_knee(named.study.shape)) for named in curves]
    found = [(named, knee) for named, knee in knees if knee.load is not None]
    grows = sum(named.study.shape.saturated is False for named in curves)
    undecided = len(curves) - len(found) - grows
    states = {"still grow": grows, "without a decided knee": undecided}
    note = listed(f"{count} {word}" for word, count in states.items() if count)
    if len(found) == 1 or (found and len(curves) == 1):
        (named, knee), *_ = found
        value = load_text(named.study.curve, knee.load or 0.0)
        where = f"{short(named.name, _NAME)}. " if len(curves) > 1 else ""
        more = f"{note.capitalize()}." if note else "More load adds waiting."
        return Tile(title="Knee", unit="", value=value, verdict="", note=f"{where}{more}")
    value = f"{len(found)} of {len(curves)}" if len(curves) > 1 else "none"
    text = f"{note.capitalize()}." if note else "More load adds waiting."
    if len(curves) == 1:
        text = _no_knee(curves[0].study.shape)
    return Tile(title="Knee", unit="curves that saturate", value=value, verdict="", note=text)


def _gain_knee(shape: Shape) -> Knee:
    return shape.knee(KneeMethod.GAIN)


def _no_knee(shape: Shape) -> str:
    return {
        True: "The curve is saturated at its first level.",
        False: "Throughput still grows at the last level.",
        None: "Whether throughput still grows is undecided.",
    }[shape.saturated]


def _limit_tile(study: ScalingStudy, curves: Sequence[NamedCurve]) -> Tile | None:
    """The highest rate within the requested limit."""
    answers = [(named, one.limit) for named in curves if (one := named.study).limit is not None]
    answers = [(named, answer) for named, answer in answers if answer is not None]
    if study.limit is None or not answers:
        return None
    kept = [(named, answer) for named, answer in answers if answer.iops is not None]
    if not kept:
        return Tile(
            title="Within limit",
            unit=f"{study.limit}",
            value="none",
            verdict="",
            note="No level keeps the limit in every trial.",
        )
    named, answer = max(kept, key=lambda pair: pair[1].iops or 0.0)
    last = answer.last_kept
    where = place(
        short(named.name, _NAME) if len(curves) > 1 else "", level_text(last.point) if last else ""
    )
    return Tile(
        title="Within limit",
        unit=f"{study.limit}",
        value=value_with_unit(Metric.IOPS, answer.iops or 0.0),
        verdict="",
        note=f"{where}; {len(kept)} of {count_text(len(answers), 'curve')} keep it.",
    )


def _latency_tile(curves: Sequence[NamedCurve]) -> Tile | None:
    """What load does to the latency of the curve with the highest throughput."""
    best = _highest(curves)
    tail = tail_of((best.study.curve,), None) if best else None
    metric = tail or Metric.LATENCY_MEAN
    points = [point for point in best.study.curve.closed if point.usable(metric)] if best else []
    if best is None or len(points) < 2:
        return None
    knee = next((point for point in knee_points(best.study.shape) if point in points), points[-1])
    low, high = points[0].usable(metric) or 0.0, knee.usable(metric) or 0.0
    at = "knee" if knee in knee_points(best.study.shape) else "last level"
    times = f"x {high / low:.2g} that of {level_text(points[0])}" if knee is not points[0] else ""
    return Tile(
        title=f"{short_title(metric)} at the {at}",
        unit="",
        value=value_with_unit(metric, high),
        verdict="",
        note=f"{place(short(best.name, _NAME) if len(curves) > 1 else '', times)}.",
    )


def _bottleneck_tile(curves: Sequence[NamedCurve]) -> Tile:
    """The most frequent bottleneck at the highest throughput."""
    found = [(bottleneck_of(named.study)) for named in curves]
    known = Counter((name, certain) for name, certain in found if name)
    if not known:
        note = "No measured resource is used up at the highest throughput."
        return Tile(title="Bottleneck", unit="", value="unknown", verdict="", note=note)
    (name, certain), count = known.most_common(1)[0]
    how = "named" if certain else "suspected"
    others = [f"{other} in {number}" for (other, _), number in known.most_common()[1:3]]
    unknown = len(found) - known.total()
    others += [f"unknown in {unknown}"] if unknown else []
    rest = f"; {listed(others)}" if others else ""
    of = f" of {count_text(len(curves), 'curve')}" if len(curves) > 1 else ""
    where = f"in {count}{of}" if len(curves) > 1 else "at the highest throughput"
    note = f"{how.capitalize()} {where}{rest}."
    return Tile(title="Bottleneck", unit="", value=name, verdict="", note=note)


def bottleneck_of(study: CurveStudy) -> tuple[str, bool]:
    """Return what limits a curve where its throughput is highest, and whether that is certain;
    an empty name where throughput still grows, or nothing is known."""
    found = study.at_peak
    if found is None or study.shape.saturated is False:
        return "", False
    known = [suspect for suspect in found.leading if suspect.bottleneck in PEAK_CLAUSES]
    named = [suspect for suspect in known if suspect.strength is Strength.NAMED]
    names: list[Bottleneck] = [suspect.bottleneck for suspect in named or known]
    return listed(NAMES[name] for name in names[:2]), bool(named)


# --- pictures -----------------------------------------------------------------------------------


def scaling_front(study: ScalingStudy) -> tuple[Block, ...]:
    """Build the first screen; empty without a curve."""
    curves = whole_curves(study)
    if not curves:
        return ()
    names, panels = _growth_panels(study, curves) if study.growths else ([""], [])
    hues: Sequence[int] = (*SYSTEM_HUES, *range(1, len(names) + 1))
    if not panels:
        names, hues = [""], (0,)
        panels = [
            Panel(title=named.name, note=_note(named.study), curves=(_panel_curve(0, named.study),))
            for named in curves
        ]
    drawn: tuple[LineChart, ...] = response_panels(
        "front-load", panels[:_MOST_PANELS], names, hues[: len(names)], study.limit
    )
    more = len(panels) - _MOST_PANELS
    text = f"{_MOST_PANELS} of {len(panels)} load curves are drawn; the tables have all."
    rest = (Paragraph(text=text),) if more > 0 else ()
    speedups = filter(None, map(_speedup_chart, scaled(study)))
    return (Tiles(tiles=tuple(scaling_tiles(study))), *speedups, *drawn, *rest)


def _speedup_chart(growth: Growth) -> DeltaChart | None:
    """Chart the change of the highest throughput of each curve on the larger system."""
    found = [row.speedup for row in growth.rows if not row.speedup.baseline.part_of_mix]
    known = [one for one in found if one.peak is not None and one.peak.judgement.ratio]
    over = next((one.divisor for one in found if one.divisor), None)
    if not known or over is None:
        return None
    several = [len({part(one) for one in known}) > 1 for part in (_subject, _depth)]
    rows = []
    for one in known:
        assert one.peak is not None
        judged, efficiency = one.peak.judgement, one.peak.efficiency
        share = f", efficiency {100 * efficiency.value:.0f} %" if efficiency else ""
        rows.append(
            DeltaRow(
                label=place(
                    short(one.subject, _NAME) if several[0] else "",
                    short(one.baseline.workload, _NAME),
                    op if (op := op_text(one.baseline.op)) not in one.baseline.workload else "",
                    f"depth {_depth(one)}" if several[1] and _depth(one) else "",
                ),
                ratio=judged.ratio,
                interval=judged.interval,
                verdict=judged.verdict.value,
                text=f"{change_text(judged.ratio or 1.0)}{share}",
                band=judged.band,
            )
        )
    names = (short(one.name, _NAME) for one in (growth.candidate, growth.baseline))
    return DeltaChart(
        id=f"front-speedup-{slug(growth.candidate.name)}",
        title=f"Highest throughput, {' vs '.join(names)}",
        scale=ratio_scale(f"{change_text(over.ratio)} would be linear with {over.name}", rows),
        rows=tuple(rows[:_MOST_ROWS]),
    )


def _subject(one: Speedup) -> str:
    return one.subject


def _depth(one: Speedup) -> int | None:
    return one.baseline.iodepth


def _growth_panels(
    study: ScalingStudy, curves: Sequence[NamedCurve]
) -> tuple[list[str], list[Panel]]:
    """A panel for each curve that systems have in common."""
    of = {id(named.study.curve): named.study for named in curves}
    names = [study.growths[0].baseline.name]
    names += [growth.candidate.name for growth in study.growths]
    found: dict[tuple[str, str, str, int | None], dict[int, LoadCurve]] = {}
    several = len({row.speedup.subject for growth in study.growths for row in growth.rows}) > 1
    for number, growth in enumerate(study.growths, start=1):
        for row in growth.rows:
            curve = row.speedup.baseline
            if not curve.part_of_mix:
                key = (row.speedup.subject, curve.workload, op_text(curve.op), curve.iodepth)
                found.setdefault(key, {0: curve})[number] = row.speedup.candidate
    depths = len({key[3] for key in found}) > 1
    return names, [
        Panel(
            title=place(
                short(subject, _NAME) if several else "",
                short(workload, _NAME),
                op if op not in workload else "",
                f"depth {depth}" if depths and depth else "",
            ),
            note=_ratio_note(study, subject, workload),
            curves=tuple(
                _panel_curve(number, of[id(curve)])
                if id(curve) in of
                else PanelCurve(series=number, curve=curve)
                for number, curve in own.items()
            ),
        )
        for (subject, workload, op, depth), own in found.items()
    ]


def _ratio_note(study: ScalingStudy, subject: str, workload: str) -> str:
    peaks = [
        row.speedup.peak.judgement
        for growth in study.growths
        for row in growth.rows
        if (row.speedup.subject, row.speedup.baseline.workload) == (subject, workload)
        and row.speedup.peak
    ]
    if len(peaks) != 1 or not peaks[0].ratio:
        return ""
    return f"highest {signed(peaks[0].ratio - 1)}, {peaks[0].verdict.value}"


def _note(study: CurveStudy) -> str:
    """`knee at 4 clients, 9,800 IOPS; client processors`."""
    shape, curve = study.shape, study.curve
    if shape.peak is None:
        return "no usable throughput"
    knee = _gain_knee(shape)
    top = value_with_unit(Metric.IOPS, shape.peak.iops)
    if knee.load is not None:
        end = f"knee at {load_text(curve, knee.load)}, highest {top}"
    elif shape.saturated is False:
        end = f"still grows at {load_text(curve, shape.peak.load)}, {top}"
    else:
        end = f"highest {top} at {load_text(curve, shape.peak.load)}"
    return "; ".join(filter(None, (end, _limited(study))))


def _limited(study: CurveStudy) -> str:
    name, certain = bottleneck_of(study)
    return name if certain or not name else f"{name}?"


def _panel_curve(series: int, study: CurveStudy) -> PanelCurve:
    shape, limited = study.shape, _limited(study)
    knee = knee_points(shape)[:1]
    peak = shape.peak.point if shape.peak else None
    at_peak = limited if peak in knee else ""
    knee_label = f"knee: {at_peak}" if at_peak else "knee"
    pins = [(point, knee_label, knee_text(shape, _gain_knee(shape))) for point in knee]
    if peak is not None and limited and peak not in knee:
        pins.append((peak, limited, f"{level_text(peak)}: limited by {limited}"))
    return PanelCurve(series=series, curve=study.curve, pins=tuple(pins))
