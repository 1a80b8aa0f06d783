"""Summary sentences of load curves and systems, and the names of curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.bottleneck.suspects import Strength
from leadline.analysis.scaling.clients import DensityAnswer
from leadline.analysis.scaling.growth import Growth, LabBounds
from leadline.analysis.scaling.knee import KneeMethod, Shape
from leadline.analysis.scaling.limits import LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, ScalingStudy
from leadline.archive.reader import Run
from leadline.metrics import Metric
from leadline.plan.lab import Store
from leadline.report.pages.scaling.words import (
    PEAK_CLAUSES,
    level_text,
    load_text,
    number_text,
    peak_clause,
    ratio_text,
    resource_text,
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
    joined = "; ".join(filter(None, clauses))
    return f"{short(curve.workload)}{op} on {_target(curve.target, run)}{depth}: {joined}."


def _target(target: str, run: str) -> str:
    return short(target) + (f" of {short(run)}" if run else "")


def _growth(shape: Shape) -> str:
    peak = shape.peak
    if peak is None:
        return "no level has a usable throughput"
    curve = shape.curve
    knee = shape.knee(KneeMethod.GAIN)
    top = value_with_unit(Metric.IOPS, peak.iops)
    if len([point for point in curve.closed if point.usable(Metric.IOPS) is not None]) < 2:
        return f"{top} at the only level"
    at = load_text(curve, peak.load)
    if shape.saturated is None:
        return f"highest at {at} ({top}); whether it still grows there is inconclusive"
    if not shape.saturated:
        return f"throughput still grows at {at}, the highest load measured ({top})"
    if knee.load is None:
        return f"highest at {at} ({top}), where throughput no longer grows"
    rate = next(
        point.usable(Metric.IOPS) for point in curve.closed if (point.level or None) == knee.level
    )
    reached = f" ({value_with_unit(Metric.IOPS, rate)})" if rate is not None else ""
    if knee.load == curve.load_of(curve.closed[0]):
        return f"throughput does not grow beyond {load_text(curve, knee.load)}{reached}"
    return f"throughput grows to {load_text(curve, knee.load)}{reached}, then {_after_knee(shape)}"


def _after_knee(shape: Shape) -> str:
    curve, peak, last = shape.curve, shape.peak, shape.curve.closed[-1]
    rate = last.usable(Metric.IOPS)
    if peak is None or peak.last or rate is None or last.level in peak.ties:
        return "stays"
    at = load_text(curve, curve.load_of(last))
    return f"falls to {value_with_unit(Metric.IOPS, rate)} at {at}"


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


# --- systems of different size ------------------------------------------------------------------


def growth_sentence(growth: Growth) -> str:
    """Format `five-hosts vs three-hosts, randread-4k on rep3 (read): highest throughput × 1.90
    (1.70 to 2.10), 9,800 IOPS; added: hosts 3 to 5 (× 1.67); efficiency 114 %.` Of several curves
    the first with a ratio is shown."""
    systems = f"{short(growth.candidate.name)} vs {short(growth.baseline.name)}"
    for row in growth.rows:
        one, peak = row.speedup, row.speedup.peak
        if peak is None or peak.judgement.ratio is None:
            continue
        rate = peak.candidate.usable(Metric.IOPS)
        curve = one.baseline
        what = f"{short(curve.workload)} on {short(one.subject)} ({op_text(curve.op)})"
        clauses = [
            f"highest throughput {ratio_text(peak.judgement.ratio, peak.judgement.interval)}"
            + (f", {value_with_unit(Metric.IOPS, rate)}" if rate is not None else ""),
            f"added: {resource_text(one.divisor)}" if one.divisor else "",
            f"efficiency {share_text(peak.efficiency.value)}" if peak.efficiency else "",
        ]
        more = len(growth.rows) - 1
        others = f" ({count_text(more, 'further curve')} in the table)" if more else ""
        return f"{systems}, {what}: {'; '.join(filter(None, clauses))}{others}."
    return f"{systems}: no common curve has a ratio."


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
