"""Sections and document of load curves and of systems of different size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.scaling.clients import DensityAnswer
from leadline.analysis.scaling.curves import Axis
from leadline.analysis.scaling.growth import Growth
from leadline.analysis.scaling.knee import Shape
from leadline.analysis.scaling.limits import LimitAnswer
from leadline.analysis.scaling.study import CurveStudy, RunStudy, ScalingStudy
from leadline.findings import Finding, Severity
from leadline.metrics import Metric
from leadline.plan.models import LatencyLimit
from leadline.report.curves import MOST_SERIES
from leadline.report.document import (
    Block,
    Bullets,
    Choices,
    Document,
    LineChart,
    Marks,
    PageBudget,
    Paragraph,
    Section,
    Table,
    finding_list,
)
from leadline.report.pages.scaling.charts import (
    DrawnCurve,
    left_out_texts,
    load_chart,
    response_chart,
    tail_of,
)
from leadline.report.pages.scaling.sentences import (
    NamedCurve,
    at_peak_clause,
    curve_sentence,
    density_sentence,
    growth_sentence,
    lab_sentences,
    named_curves,
    run_name,
)
from leadline.report.pages.scaling.systems import (
    causes_table,
    density_table,
    disturbance_table,
    fairness_table,
    resources_table,
    speedup_table,
)
from leadline.report.pages.scaling.tables import (
    bottleneck_table,
    law_table,
    levels_table,
    limits_table,
    shapes_table,
    suspects_table,
)
from leadline.report.pages.scaling.timeline import timeline_sections
from leadline.report.pages.scaling.words import short_title, superlinear_finding, text
from leadline.report.words import chart_labels, count_text, listed, op_text
from leadline.stats.usl import Unfitted

# A summary has no more sentences about curves than these.
_MOST_SENTENCES = 6
# A page repeats no more levels than these, which its results already show.
_MOST_LEVELS = 300
# Curves whose evidence is shown in full.
_MOST_EVIDENCE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Curves of one workload, operation and unit of load."""

    heading: str
    members: tuple[NamedCurve, ...]


def scaling_sentences(study: ScalingStudy) -> tuple[str, ...]:
    """Summarise systems and curves, the most important first. Directions of a mixed workload are
    left to its total."""
    # Systems of equal size are not scaling; `leadline compare` compares them.
    grown = [growth for growth in study.growths if any(row.speedup.divisor for row in growth.rows)]
    sentences = [growth_sentence(one) for one in grown]
    # All labs of a study run on the same machine.
    sentences += [line for one in grown[:1] if one.labs for line in lab_sentences(one.labs)]
    sentences += [sentence for sentence, _ in _densities(study)]
    named = [one for one in named_curves(study) if not one.study.curve.part_of_mix]
    searched = {
        (density.target, density.workload) for run in study.runs for density in run.densities
    }
    curves = [
        one.study
        for one in named
        if one.study.curve.closed
        or (one.study.curve.target, one.study.curve.workload) not in searched
    ]
    sentences += [
        curve_sentence(
            curve.shape, limits_of(curve), at_peak_clause(curve), run_name(study, curve.run)
        )
        for curve in curves[:_MOST_SENTENCES]
    ]
    if len(curves) > _MOST_SENTENCES:
        more = count_text(len(curves) - _MOST_SENTENCES, "further load curve")
        sentences.append(f"{more}: see the tables.")
    return tuple(sentences)


def limits_of(study: CurveStudy) -> tuple[LimitAnswer, ...]:
    """Return the answers of the closed loop and of the open loop, where there are any."""
    return tuple(one for one in (study.limit, study.offered_limit) if one is not None)


# --- the curves ---------------------------------------------------------------------------------


def curve_groups(curves: Sequence[NamedCurve]) -> tuple[_Group, ...]:
    """Group curves by workload, operation and unit of load, in the plan's order; the total of a
    mixed workload before its directions."""
    found: dict[tuple[str, str, Axis], list[NamedCurve]] = {}
    for one in sorted(curves, key=lambda curve: curve.study.curve.part_of_mix):
        key = (one.study.curve.workload, op_text(one.study.curve.op), one.study.curve.axis)
        found.setdefault(key, []).append(one)
    order = list(dict.fromkeys(one.study.curve.workload for one in curves))
    axes = {(workload, op): 0 for workload, op, _ in found}
    for workload, op, _ in found:
        axes[workload, op] += 1
    return tuple(
        _Group(
            heading=" · ".join(
                [workload, op] + ([f"by {axis.value}"] if axes[workload, op] > 1 else [])
            ),
            members=tuple(members),
        )
        for (workload, op, axis), members in sorted(
            found.items(), key=lambda item: order.index(item[0][0])
        )
    )


def _drawn(group: _Group) -> tuple[list[DrawnCurve], int]:
    """Choose the curves to draw, the fastest of many, and count the others."""

    def highest(one: NamedCurve) -> float:
        peak = one.study.shape.peak
        return peak.iops if peak else 0.0

    chosen = sorted(group.members, key=lambda one: -highest(one))[:MOST_SERIES]
    labels = chart_labels(one.label for one in group.members)
    kept = [member for member in group.members if member in chosen]
    return (
        [DrawnCurve(label=labels[one.label], shape=one.study.shape) for one in kept],
        len(group.members) - len(kept),
    )


def group_blocks(
    group: _Group,
    anchor: str,
    limit: LatencyLimit | None,
    marks: Marks,
    *,
    choice: str = "",
    budget: PageBudget | None = None,
    levels: bool = True,
) -> tuple[Block, ...]:
    """Build the two charts of a group and the table of its levels."""
    drawn, rest = _drawn(group)
    made = (
        load_chart(f"{anchor}-load", f"Throughput over load: {group.heading}", drawn, choice),
        response_chart(f"{anchor}-response", _response_title(group, drawn), drawn, limit, choice),
    )
    charts: list[LineChart] = [
        chart
        for chart in made
        if chart is not None and (budget is None or budget.allows("load curves", _points(chart)))
    ]
    table = levels_table(
        f"{anchor}-levels",
        _levels_caption(group, drawn, rest, limit),
        [(member.label, member.study.curve) for member in group.members],
        marks,
        tail=tail_of((one.curve for one in drawn), limit) or Metric.LATENCY_P99,
        choice=choice,
    )
    return (*charts, table) if levels else tuple(charts)


def _points(chart: LineChart) -> int:
    # A computed line is a path without marks: a tenth of the size.
    return sum(len(line.points) if line.texts else len(line.points) // 10 for line in chart.lines)


def _response_title(group: _Group, drawn: Sequence[DrawnCurve]) -> str:
    """The title names the loop, because percentiles of a closed loop are too low."""
    closed = any(one.curve.closed for one in drawn)
    offered = any(one.curve.offered for one in drawn)
    loop = {(True, False): ", closed loop", (False, True): ", open loop"}.get((closed, offered), "")
    return f"Latency over throughput{loop}: {group.heading}"


def _levels_caption(
    group: _Group, drawn: Sequence[DrawnCurve], rest: int, limit: LatencyLimit | None
) -> str:
    tail = tail_of((one.curve for one in drawn), limit) or Metric.LATENCY_MEAN
    left_out = left_out_texts(drawn, tail)
    parts = [f"Levels of {group.heading}"]
    if rest:
        parts.append(f"{rest:,} slower curves are not drawn")
    if left_out:
        parts.append(f"no {short_title(tail)} drawn of {listed(left_out, limit=4)}")
    return "; ".join(parts)


def curve_section(
    study: ScalingStudy, marks: Marks, budget: PageBudget | None = None
) -> tuple[Section, ...]:
    """Build the section of a run's page: charts of one workload at a time, then the tables. Empty
    where no curve has two levels."""
    curves = named_curves(study)
    if not curves:
        return ()
    groups = curve_groups(curves)
    levels = sum(curve.study.levels for curve in curves) <= _MOST_LEVELS
    blocks: list[Block] = [Paragraph(text=READING)]
    chosen = [(f"load-{number}", group) for number, group in enumerate(groups, start=1)]
    made = {
        anchor: group_blocks(
            group, anchor, study.limit, marks, choice=anchor if len(groups) > 1 else "",
            budget=budget, levels=levels,
        )
        for anchor, group in chosen
    }  # fmt: skip
    drawn = [(anchor, group.heading) for anchor, group in chosen if made[anchor]]
    if len(drawn) > 1:
        blocks.append(Choices(id="load-curve", label="Workload", options=tuple(drawn)))
    # Charts next to each other share a row.
    every = [block for anchor, _ in drawn for block in made[anchor]]
    blocks += sorted(every, key=lambda block: isinstance(block, Table))
    if budget is not None and budget.omission:
        blocks.append(Paragraph(text=budget.omission))
    return (
        Section(
            heading="Load curves",
            id="load-curves",
            blocks=tuple(blocks),
            sections=(
                *result_sections(study, curves),
                *growth_sections(study),
            ),
        ),
    )


READING = (
    "Closed loop: the next I/O starts when one completes, so a stall reduces the load and the "
    "percentiles are too low. Open loop: I/Os are offered at a fixed rate; fio delays I/Os in a "
    "stall, so the percentiles of a target that stalls are too low as well. Knee: the load from "
    "which on a doubling gives less than a tenth more throughput."
)


# --- results ------------------------------------------------------------------------------------


def result_sections(study: ScalingStudy, curves: Sequence[NamedCurve]) -> tuple[Section, ...]:
    """Build the sections on peak, limit, fit, density, fairness, neighbours and bottlenecks."""
    closed = [curve for curve in curves if curve.study.curve.closed]
    shapes = [(one.name, one.study.shape) for one in closed]
    limits = [(one.name, answer) for one in curves for answer in limits_of(one.study)]
    parts: list[tuple[str, str, list[Block]]] = [
        (
            "Peak and knee",
            "load-peak",
            [
                shapes_table(
                    "load-shapes", [(one.name, one.study.shape, one.study.limit) for one in closed]
                )
            ]
            if closed
            else [],
        ),
        ("Latency limit", "load-limit", [limits_table("load-limits", limits)] if limits else []),
        ("Scalability fit", "load-law", _law(shapes)),
        ("Density", "load-density", _density(study)),
        ("Fairness among clients", "load-fairness", _fairness(curves)),
        ("Noisy neighbours", "load-neighbours", _neighbours(curves)),
        ("Bottlenecks", "load-bottlenecks", _bottlenecks(curves)),
    ]
    return tuple(
        Section(heading=heading, id=anchor, blocks=tuple(blocks))
        for heading, anchor, blocks in parts
        if blocks
    )


def _law(shapes: Sequence[tuple[str, Shape]]) -> list[Block]:
    """The table of fits, and a sentence for each reason of curves without one."""
    fitted = [(name, shape) for name, shape in shapes if not isinstance(shape.law, Unfitted)]
    laws = (shape.law for _, shape in shapes)
    reasons = Counter(text(law) for law in laws if isinstance(law, Unfitted))
    table: list[Block] = [law_table("load-laws", fitted)] if fitted else []
    return [
        *table,
        *(
            Paragraph(
                text=f"No Universal Scalability Law is fitted to {count_text(count, 'curve')}: "
                f"{reason}."
            )
            for reason, count in reasons.items()
        ),
    ]


def _densities(study: ScalingStudy) -> list[tuple[str, DensityAnswer]]:
    """Pair each answer with its sentence."""
    return [
        (density_sentence(density, run_name(study, run.run)), density)
        for run in study.runs
        for density in run.densities
    ]


def _density(study: ScalingStudy) -> list[Block]:
    found = _densities(study)
    if not found:
        return []
    return [
        Bullets(items=tuple(sentence for sentence, _ in found)),
        *(
            density_table(f"density-{number}", one)
            for number, (_, one) in enumerate(found, start=1)
        ),
    ]


def _fairness(curves: Sequence[NamedCurve]) -> list[Block]:
    rows = [(curve.name, fair) for curve in curves for fair in curve.study.fairness]
    return [fairness_table("fairness", rows)] if rows else []


def _neighbours(curves: Sequence[NamedCurve]) -> list[Block]:
    rows = [(curve.name, driven) for curve in curves for driven in curve.study.disturbances]
    return [disturbance_table("neighbours", rows)] if rows else []


def _bottlenecks(curves: Sequence[NamedCurve]) -> list[Block]:
    """The table of bottlenecks. Directions of a mixed workload share that of their total."""
    whole = [
        (curve.name, curve.study)
        for curve in curves
        if curve.study.bottlenecks and not curve.study.curve.part_of_mix
    ]
    return [bottleneck_table("bottlenecks", whole)] if whole else []


def evidence_section(curves: Sequence[NamedCurve]) -> tuple[Section, ...]:
    """Build the table of every bottleneck at each curve's highest level."""
    whole = [curve for curve in curves if not curve.study.curve.part_of_mix]
    blocks: list[Block] = []
    for number, one in enumerate(whole[:_MOST_EVIDENCE], start=1):
        level = one.study.at_peak
        if level is None:
            continue
        blocks.append(suspects_table(f"suspects-{number}", one.name, level))
        if level.evidence.notes:
            blocks.append(Bullets(items=level.evidence.notes))
    if not blocks:
        return ()
    return (
        Section(
            heading="Evidence at the highest level",
            id="load-evidence",
            blocks=tuple(blocks),
            folded=True,
        ),
    )


# --- systems of different size ------------------------------------------------------------------


def growth_sections(study: ScalingStudy) -> tuple[Section, ...]:
    """Build a section for each system compared with the first: added resources and speed-ups."""
    found = [growth for growth in study.growths if growth.rows]
    return tuple(
        Section(
            heading=f"Speed-up: {one.candidate.name} vs {one.baseline.name}",
            id=f"speedup-{number}",
            blocks=tuple(_growth_blocks(one, number)),
        )
        for number, one in enumerate(found, start=1)
    )


def _growth_blocks(growth: Growth, number: int) -> Iterable[Block]:
    # Directions of a mixed workload are left to its total.
    speedups = [row.speedup for row in growth.rows if not row.speedup.baseline.part_of_mix]
    yield Paragraph(text=growth_sentence(growth))
    if growth.labs is not None:
        yield Bullets(items=lab_sentences(growth.labs))
    resources = {
        (resource.name, resource.told_by): resource
        for speedup in speedups
        for resource in speedup.resources
    }
    if resources:
        yield resources_table(f"resources-of-{number}", tuple(resources.values()))
    yield speedup_table(f"speedups-{number}", speedups)
    absences = {
        text(one.equal_latency.absence) for one in speedups if one.equal_latency.limit is None
    }
    if absences:
        yield Paragraph(text=f"At equal latency: {listed(sorted(absences))}.")
    findings = [superlinear_finding(row.superlinear) for row in growth.rows if row.superlinear]
    if findings:
        yield finding_list(findings, Marks(findings, suffix="s" * number))
        yield causes_table(f"causes-{number}", growth)


# --- `leadline scale` for terminal and Markdown -------------------------------------------------


def scaling_document(study: ScalingStudy) -> Document:
    """Build the document of a study: charts, levels, results, systems and findings."""
    findings = tuple(one for run in study.runs for one in _touching(run, len(study.runs) > 1))
    marks = Marks(findings)
    curves = named_curves(study)
    named = [(curve.name, curve.study) for curve in curves]
    sections = [
        Section(
            heading=group.heading,
            id=f"load-{number}",
            blocks=group_blocks(group, f"load-{number}", study.limit, marks),
        )
        for number, group in enumerate(curve_groups(curves), start=1)
    ]
    if sections:
        first = sections[0]
        reading: tuple[Block, ...] = (Paragraph(text=READING),)
        sections[0] = replace(first, blocks=(*first.blocks, *reading))
    sections += [*growth_sections(study), *result_sections(study, curves)]
    if findings:
        sections.append(
            Section(
                heading="Findings about these levels",
                id="findings",
                blocks=(finding_list(findings, marks),),
            )
        )
    return Document(
        title=f"Load curves of {listed(one.run.id for one in study.runs)}",
        subtitle=_subtitle(study),
        summary=scaling_sentences(study) or _without(study),
        sections=(*sections, *evidence_section(curves), *timeline_sections(named)),
        marked=marks.all,
    )


def _subtitle(study: ScalingStudy) -> str:
    levels = sum(curve.levels for curve in study.curves)
    parts = [
        count_text(len(study.curves), "curve"),
        count_text(levels, "level"),
        f"limit {study.limit}" if study.limit else "",
    ]
    return " · ".join(part for part in parts if part)


def _without(study: ScalingStudy) -> tuple[str, ...]:
    """The summary without a load curve."""
    lead = "No load curve: no workload was measured at two load levels."
    return (lead, *(curve_sentence(curve.shape, limits_of(curve)) for curve in study.curves[:6]))


def _touching(run: RunStudy, several: bool) -> Iterable[Finding]:
    """Yield the errors and warnings that concern a level of the curves; of several runs with the
    run before the target."""
    touched = {
        (finding.code, finding.severity)
        for curve in run.curves
        for point in (*curve.curve.closed, *curve.curve.offered, *curve.curve.disturbed)
        for metric in point.figure.metrics
        for finding in metric.doubts
    }
    name = run.run.manifest.cluster_label or run.run.id
    for one in run.findings:
        if one.severity is not Severity.INFO and (one.code, one.severity) in touched:
            yield replace(one, target=f"{name}: {one.target}") if several else one
