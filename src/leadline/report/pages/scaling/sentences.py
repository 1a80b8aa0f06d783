"""Summary sentences of load curves and systems, and the names of curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leadline.analysis.bottleneck.suspects import Strength
from leadline.analysis.scaling.clients import DensityAnswer, Fairness
from leadline.analysis.scaling.growth import Growth, LabBounds
from leadline.analysis.scaling.knee import Shape
from leadline.analysis.scaling.limits import LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, ScalingStudy
from leadline.analysis.scaling.trend import Ending, Scatter, Trend, UnusableLevel
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.plan.lab import Store
from leadline.report.pages.scaling.words import (
    NAMES,
    PEAK_CLAUSES,
    below_earlier,
    gain_text,
    level_text,
    load_text,
    number_text,
    peak_clause,
    share_of_highest,
    signed,
    speedup_text,
)
from leadline.report.words import (
    count_text,
    listed,
    op_text,
    share_text,
    short,
    value_with_unit,
)

# --- names of curves: the parts in which they differ --------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCurve:
    """A curve with its names: `name` is unique, `label` is unique within its workload and
    operation."""

    name: str
    label: str
    study: CurveStudy


def named_curves(study: ScalingStudy) -> tuple[NamedCurve, ...]:
    """Name the curves with at least two levels, or with neighbours. Parts that all names share are
    omitted, unless there is suspect curve."""
    found = [curve for curve in study.curves if curve.levels > 1 or curve.disturbances]
    parts = [
        (
            run_name(study, suspect.run),
            suspect.curve.target,
            suspect.curve.workload,
            op_text(suspect.curve.op),
        )
        for suspect in found
    ]
    differ = [len({part[place] for part in parts}) > 1 for place in range(4)]
    if not any(differ):
        differ = [False, True, True, False]
    system = differ[:2] if any(differ[:2]) else [False, True]
    names = [_joined(part, differ) for part in parts]
    return tuple(
        NamedCurve(
            name=name if names.count(name) == 1 else f"{name} · {_depth(one)}",
            label=_joined(part[:2], system)
            + ("" if names.count(name) == 1 else f" · {_depth(one)}"),
            study=one,
        )
        for one, part, name in zip(found, parts, names, strict=True)
    )


def _joined(parts: Sequence[str], shown: Sequence[bool]) -> str:
    return " · ".join(part for part, wanted in zip(parts, shown, strict=True) if part and wanted)


def run_name(study: ScalingStudy, run: Run) -> str:
    """Return the name of a run among several; empty where there is one."""
    return run.manifest.cluster_label or run.id if len(study.runs) > 1 else ""


def _depth(study: CurveStudy) -> str:
    curve = study.curve
    if curve.iodepth is None:
        return f"by {curve.axis.value}"
    jobs = f" x {curve.numjobs} jobs" if curve.numjobs not in (None, 1) else ""
    return f"depth {curve.iodepth}{jobs}"


# --- load curves --------------------------------------------------------------------------------


def curve_sentence(
    shape: Shape, limits: Sequence[LimitAnswer] = (), full: str = "", run: str = ""
) -> str:
    """Format `randread-4k on rep3: throughput grows to 3 clients (9,800 IOPS), then stays; p99<20
    ms is kept up to c4 ...`. `limits` are those of closed and open loop, `full` is a clause on the
    bottleneck, `run` the name of the run among several."""
    curve = shape.curve
    op = "" if curve.op.value in curve.workload else f" ({op_text(curve.op)})"
    depth = f" at depth {curve.iodepth}" if curve.iodepth is not None else ""
    # Percentiles of a closed loop are too low: its limit is shown with that of the open loop.
    loops = any(answer.open_loop for answer in limits)
    clauses = [_growth(shape), *(_limit(answer, loops=loops) for answer in limits), full]
    if curve.from_bandwidth:
        clauses.append("IOPS are bandwidth over block size")
    joined = "; ".join(filter(None, clauses))
    return f"{short(curve.workload)}{op} on {_target(curve.target, run)}{depth}: {joined}."


def _target(target: str, run: str) -> str:
    return short(target) + (f" of {short(run)}" if run else "")


def _growth(shape: Shape) -> str:
    """Format the tested shape of a curve, then the levels above the last usable one."""
    unusable = (_unusable(level) for level in shape.unusable_end)
    return "; ".join([_shape(shape), *unusable])


def _shape(shape: Shape) -> str:
    peak, ending, curve = shape.peak, shape.ending, shape.curve
    if peak is None:
        return "no level has a usable throughput"
    top = value_with_unit(Metric.IOPS, peak.iops)
    if ending is None:
        return f"{top} at the only usable level"
    at = load_text(curve, peak.load)
    start = load_text(curve, curve.load_of(ending.start))
    begin = value_with_unit(Metric.IOPS, ending.start.usable(Metric.IOPS) or 0.0)
    from_first = ending.start is curve.closed[0]
    if ending.trend is Trend.FALLS:
        return f"throughput {_before_fall(shape, at, top)} {_fall(shape, ending)}"
    if shape.limit is not None:
        rate = value_with_unit(Metric.IOPS, shape.limit.iops)
        flat = f"flat from {start} on: a hard limit of {rate}, not a queue"
        return f"throughput is {flat}" if from_first else f"throughput grows, then is {flat}"
    if ending.trend is Trend.FLAT:
        slope = gain_text(ending.slope)
        if from_first:
            return f"throughput is flat from {start} on ({begin}), {slope}"
        return f"throughput grows to {start} ({begin}), then is flat, {slope}"
    if ending.trend is Trend.GROWS and shape.saturated:
        return f"throughput grows to {start} ({begin}), then by {gain_text(ending.slope)}"
    if ending.trend is Trend.GROWS:
        return f"throughput still grows at {at}, the highest load measured ({top})"
    if ending.dip is not None:
        low = value_with_unit(Metric.IOPS, ending.dip.point.usable(Metric.IOPS) or 0.0)
        there = load_text(curve, curve.load_of(ending.dip.point))
        return (
            f"highest at {at} ({top}); throughput falls to {low} at {there}, "
            f"{below_earlier(ending.dip.below)}, and recovers: no single shape"
        )
    scatter = {
        Scatter.TRIALS: "",
        Scatter.LEVELS: "; single trials",
        Scatter.PUBLISHED: "; single trials, which may differ by the published scatter",
    }[ending.scatter]
    return (
        f"highest at {at} ({top}); undecided whether it grows, is flat or falls from {start} on "
        f"({gain_text(ending.slope)}{scatter})"
    )


def _before_fall(shape: Shape, at: str, top: str) -> str:
    first = shape.peak is not None and shape.peak.point is shape.curve.closed[0]
    return f"falls from {top} at {at}" if first else f"grows to {at} ({top}), then falls"


def _fall(shape: Shape, ending: Ending) -> str:
    rate = value_with_unit(Metric.IOPS, ending.last.usable(Metric.IOPS) or 0.0)
    at = load_text(shape.curve, shape.curve.load_of(ending.last))
    if ending.fall is None:
        return f"to {rate} at {at}, {gain_text(ending.slope)}"
    return f"to {rate} at {at}, {share_of_highest(ending.fall)}"


def _unusable(level: UnusableLevel) -> str:
    name = level_text(level.point)
    if level.iops is None:
        return f"{name} has no figure"
    codes = listed(level.findings) or "not every trial has a rate"
    rate = value_with_unit(Metric.IOPS, level.iops)
    against = f", {signed(level.share)} vs the highest" if level.share is not None else ""
    return f"{name} is refused ({codes}): {rate}{against}"


def _limit(answer: LimitAnswer, *, loops: bool) -> str:
    limit, kept, broken = answer.limit, answer.last_kept, answer.first_broken
    loop = f" in {'an open' if answer.open_loop else 'a closed'} loop" if loops else ""
    if kept and broken:
        rate = f" ({value_with_unit(Metric.IOPS, answer.iops)})" if answer.iops is not None else ""
        between = (
            f", and {count_text(len(answer.between), 'level')} between them "
            f"{'is' if len(answer.between) == 1 else 'are'} inconclusive"
            if answer.between
            else ""
        )
        return (
            f"{limit} is kept up to {level_text(kept.point)}{rate} and exceeded at "
            f"{level_text(broken.point)}{between}{loop}"
        )
    if kept and kept is answer.levels[-1]:
        return f"{limit} is kept by every level{loop}"
    if kept:
        return f"{limit} is kept up to {level_text(kept.point)}, inconclusive above it{loop}"
    if broken:
        return f"no level keeps {limit}{loop}"
    return f"whether {limit} is kept is unknown: no level has a usable latency{loop}"


def at_peak_clause(study: CurveStudy) -> str:
    """Format the bottleneck at the highest throughput as a clause; empty where throughput still
    grows or no bottleneck is known."""
    found = study.at_peak
    if found is None or study.shape.saturated is False:
        return ""
    known = [suspect for suspect in found.leading if suspect.bottleneck in PEAK_CLAUSES]
    named = [suspect.bottleneck for suspect in known if suspect.strength is Strength.NAMED]
    return peak_clause(named or [suspect.bottleneck for suspect in known], certain=bool(named))


def density_sentence(answer: DensityAnswer, run: str = "") -> str:
    """Format `randread-4k on rep3, clients at 500 IOPS each: 12 clients keep p99<5 ms, 13 exceed
    it.`"""
    each = value_with_unit(Metric.IOPS, answer.rate_iops)
    what = f"{short(answer.workload)} on {_target(answer.target, run)}, clients at {each} each"
    if answer.kept is None and answer.broken is None:
        return f"{what}: whether {answer.limit} is kept is inconclusive."
    if answer.kept is None:
        return f"{what}: {count_text(answer.broken or 0, 'client')} already exceed {answer.limit}."
    kept = count_text(answer.kept, "client")
    if answer.broken is None:
        return f"{what}: {answer.limit} is kept up to {kept}, the most that was measured."
    within = (
        f"; {count_text(len(answer.unsure), 'number')} of clients between them inconclusive"
        if answer.unsure
        else ""
    )
    return f"{what}: {kept} keep {answer.limit}, {answer.broken:,} exceed it{within}."


_MOST_BULLETS = 5


def scaling_bullets(study: ScalingStudy) -> tuple[str, ...]:
    """Word what no picture of the page shows, at most five sentences: densities, refused levels,
    and the limits of labs."""
    labs = next((growth.labs for growth in study.growths if growth.labs), None)
    densities = [
        density_sentence(density, run_name(study, run.run))
        for run in study.runs
        for density in run.densities
    ]
    refused = [level for curve in study.curves for level in curve.shape.unusable_end]
    superlinear = len(study.superlinear)
    found = [
        f"Labs on one machine: latencies are refused at {labs.throttled} of {labs.levels} levels."
        if labs
        else "",
        f"{count_text(superlinear, 'speed-up')} larger than the added resources: see the causes."
        if superlinear
        else "",
        *densities,
        f"Highest levels without a usable figure: {listed(map(_unusable, refused), 1)}."
        if refused
        else "",
    ]
    return tuple(filter(None, found))[:_MOST_BULLETS]


# --- systems of different size ------------------------------------------------------------------


def growth_sentence(growth: Growth) -> str:
    """Format `five-hosts vs three-hosts, randread-4k on rep3 (read): highest throughput +90 %
    (+70 % to +110 %), 9,800 IOPS, for +67 % hosts (3 to 5); efficiency 114 %.` Of several curves
    the first with a ratio is shown."""
    systems = f"{short(growth.candidate.name)} vs {short(growth.baseline.name)}"
    for row in growth.rows:
        one, peak = row.speedup, row.speedup.peak
        if peak is None or peak.judgement.ratio is None:
            continue
        rate = peak.candidate.usable(Metric.IOPS)
        curve = one.baseline
        what = f"{short(curve.workload)} on {short(one.subject)} ({op_text(curve.op)})"
        reached = f", {value_with_unit(Metric.IOPS, rate)}" if rate is not None else ""
        faster = speedup_text(peak.judgement.ratio, peak.judgement.interval, one.divisor, reached)
        efficiency = f"; efficiency {share_text(peak.efficiency.value)}" if peak.efficiency else ""
        more = len(growth.rows) - 1
        others = f" ({count_text(more, 'further curve')} in the table)" if more else ""
        return f"{systems}, {what}: highest throughput {faster}{efficiency}{others}."
    return f"{systems}: no common curve has a ratio."


# What a page has next to the heading of a section.


def growth_result(growth: Growth) -> str:
    """`highest throughput +12 % to +90 %, efficiency 67 % to 114 %`; empty without a ratio."""
    peaks = [row.speedup.peak for row in growth.rows if not row.speedup.baseline.part_of_mix]
    ratios = [peak.judgement.ratio for peak in peaks if peak and peak.judgement.ratio]
    shares = [peak.efficiency.value for peak in peaks if peak and peak.efficiency]
    parts = [f"highest throughput {_span(signed(one - 1) for one in _ends(ratios))}"]
    parts += [f"efficiency {_span(map(share_text, _ends(shares)))}"] if shares else []
    return ", ".join(parts) if ratios else ""


def peaks_result(shapes: Sequence[Shape]) -> str:
    """`highest 3,243 IOPS to 5,514 IOPS, 2 of 4 curves saturate`."""
    rates = [shape.peak.iops for shape in shapes if shape.peak]
    saturated = sum(shape.saturated is True for shape in shapes)
    highest = _span(value_with_unit(Metric.IOPS, rate) for rate in _ends(rates))
    of = f"{saturated:,} of {count_text(len(shapes), 'curve')} saturate"
    return f"highest {highest}, {of}" if rates else ""


def limits_result(answers: Sequence[LimitAnswer]) -> str:
    """`kept up to 2,459 IOPS to 4,180 IOPS`; empty where no level keeps the limit."""
    rates = [answer.iops for answer in answers if answer.iops is not None]
    kept = _span(value_with_unit(Metric.IOPS, rate) for rate in _ends(rates))
    return f"kept up to {kept}" if rates else ""


def fairness_result(found: Sequence[Fairness]) -> str:
    """`the slowest client has 62 % to 98 % of the median client's rate`."""
    shares = [one.iops_share for one in found if one.iops_share is not None]
    span = _span(map(share_text, _ends(shares)))
    return f"the slowest client has {span} of the median client's rate" if shares else ""


def bottlenecks_result(studies: Sequence[CurveStudy]) -> str:
    """`client processors at the peak of 3 of 4 curves`: the most frequent one that is named."""
    named = Counter(
        suspect.bottleneck
        for study in studies
        for suspect in (study.at_peak.leading if study.at_peak else ())
        if suspect.strength is Strength.NAMED
    )
    most = named.most_common(1)
    curves = count_text(len(studies), "curve")
    return f"{NAMES[most[0][0]]} at the peak of {most[0][1]:,} of {curves}" if most else ""


def _ends(values: Sequence[float]) -> tuple[float, ...]:
    return (min(values), max(values)) if values else ()


def _span(texts: Iterable[str]) -> str:
    """`12 % to 90 %`, equal ends once."""
    return " to ".join(dict.fromkeys(texts))


def lab_sentences(bounds: LabBounds) -> tuple[str, ...]:
    """State what two labs on one machine can show, then what they cannot."""
    cores = f" of {count_text(bounds.cores, 'core')}" if bounds.cores is not None else ""
    no_latency = (
        f" (refused at {bounds.throttled} of {bounds.levels} levels)" if bounds.throttled else ""
    )
    labs = (bounds.baseline, bounds.candidate)
    budget = any(lab.cpu_per_host is not None for lab in labs)
    cause = "budgets stop a host as no real host stops" if budget else "hosts share processors"
    in_memory = all(lab.store is not Store.BLUESTORE for lab in labs)
    media = "separate disks" + (" (all data is in memory)" if in_memory else "")
    return (
        f"Both systems are labs: one machine{cores} runs all their hosts. {_budgets(bounds)}",
        (
            f"They cannot show latency{no_latency}, because {cause}; {media}; networks; or the "
            "limits of the machine, which also runs load generator, monitor and manager (its cores "
            f"were used up at {bounds.saturated} of {bounds.levels} levels)."
        ),
    )


def _budgets(bounds: LabBounds) -> str:
    first, second = bounds.baseline.cpu_per_host, bounds.candidate.cpu_per_host
    if first is None or second is None:
        return (
            "Hosts have no processor budget (cpu_per_host): more hosts share the same cores, so "
            "the result does not transfer to real hosts."
        )
    each = f"{number_text(first)} of a core"
    if second != first:
        each += f", in the second {number_text(second)}"
    whole = []
    for lab, budget in ((bounds.baseline, first), (bounds.candidate, second)):
        hosts = lab.domains * lab.hosts_per_domain
        whole.append(f"{number_text(hosts * budget)} for {count_text(hosts, 'host')}")
    return (
        f"Each host may use {each}: {listed(whole)}. They can show throughput that is limited by "
        "the processors of OSDs."
    )
