"""Sections and document of load curves and of systems of different size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from leadline.report.cells import bullets, section, slug, table
from leadline.report.curves import MOST_SERIES, PageBudget
from leadline.report.document import Block, Choices, Document, LineChart, Paragraph, Section, Table
from leadline.report.marks import Marks, finding_list
from leadline.report.pages.comparison.tables import mark_cell, marks_of
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.charts import keep_largest
from leadline.report.pages.scaling.charts import (
    DrawnCurve,
    left_out_texts,
    load_chart,
    response_chart,
    tail_of,
)
from leadline.report.pages.scaling.method import method_section
from leadline.report.pages.scaling.overview import scaling_front, scaling_headline
from leadline.report.pages.scaling.sentences import (
    NamedCurve,
    at_peak_clause,
    bottlenecks_result,
    curve_sentence,
    density_sentence,
    fairness_result,
    growth_result,
    growth_sentence,
    lab_sentences,
    limits_result,
    named_curves,
    peaks_result,
    run_name,
    scaling_bullets,
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
from leadline.report.pages.scaling.words import level_text, short_title, superlinear_finding, text
from leadline.report.words import (
    band_text,
    chart_labels,
    count_text,
    listed,
    op_text,
    place,
    severities_text,
)
from leadline.stats.usl import Unfitted, UslFit

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
    sentences = [growth_sentence(growth) for growth in grown]
    # All labs of a study run on the same machine.
    sentences += [
        line for growth in grown[:1] if growth.labs for line in lab_sentences(growth.labs)
    ]
    sentences += [sentence for sentence, _ in _densities(study)]
    named = [
        named_curve
        for named_curve in named_curves(study)
        if not named_curve.study.curve.part_of_mix
    ]
    searched = {
        (density.target, density.workload) for run in study.runs for density in run.densities
    }
    curves = [
        value.study
        for value in named
        if value.study.curve.closed
        or (value.study.curve.target, value.study.curve.workload) not in searched
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
    return tuple(value for value in (study.limit, study.offered_limit) if value is not None)


# --- the curves ---------------------------------------------------------------------------------


def curve_groups(curves: Sequence[NamedCurve]) -> tuple[_Group, ...]:
    """Group curves by workload, operation and unit of load, in the plan's order; the total of a
    mixed workload before its directions."""
    found: dict[tuple[str, str, Axis], list[NamedCurve]] = {}
    for named in sorted(curves, key=lambda named: named.study.curve.part_of_mix):
        curve = named.study.curve
        found.setdefault((curve.workload, op_text(curve.op), curve.axis), []).append(named)
    order = list(dict.fromkeys(named.study.curve.workload for named in curves))
    axes = Counter((workload, op) for workload, op, _ in found)
    return tuple(
        _Group(
            heading=" · ".join(
                [workload, op] + ([f"by {axis.value}"] if axes[workload, op] > 1 else [])
            ),
            members=tuple(found[workload, op, axis]),
        )
        for workload, op, axis in sorted(found, key=lambda key: order.index(key[0]))
    )


def _drawn(group: _Group) -> tuple[list[DrawnCurve], int]:
    """Choose the curves to draw, the fastest of many, and count the others."""

    def highest(drawn: NamedCurve) -> float:
        peak = drawn.study.shape.peak
        return peak.iops if peak else 0.0

    chosen = sorted(group.members, key=lambda member: -highest(member))[:MOST_SERIES]
    labels = chart_labels(member.label for member in group.members)
    kept = [member for member in group.members if member in chosen]
    return (
        [DrawnCurve(label=labels[member.label], shape=member.study.shape) for member in kept],
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
        tail=tail_of((drawn_curve.curve for drawn_curve in drawn), limit) or Metric.LATENCY_P99,
        choice=choice,
    )
    return (*charts, table) if levels else tuple(charts)


def _points(chart: LineChart) -> int:
    # A computed line is a path without marks: a tenth of the size.
    return sum(len(line.points) if line.texts else len(line.points) // 10 for line in chart.lines)


def _response_title(group: _Group, drawn: Sequence[DrawnCurve]) -> str:
    """The title names the loop, because percentiles of a closed loop are too low."""
    closed = any(drawn_curve.curve.closed for drawn_curve in drawn)
    offered = any(drawn_curve.curve.offered for drawn_curve in drawn)
    loop = {(True, False): ", closed loop", (False, True): ", open loop"}.get((closed, offered), "")
    return f"Latency over throughput{loop}: {group.heading}"


def _levels_caption(
    group: _Group, drawn: Sequence[DrawnCurve], rest: int, limit: LatencyLimit | None
) -> str:
    tail = tail_of((drawn_curve.curve for drawn_curve in drawn), limit) or Metric.LATENCY_MEAN
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
    drawn: list[tuple[str, str]] = []
    every: list[Block] = []
    for number, group in enumerate(groups, start=1):
        anchor = f"load-{number}"
        choice = anchor if len(groups) > 1 else ""
        made = group_blocks(
            group, anchor, study.limit, marks, choice=choice, budget=budget, levels=levels
        )
        every += made
        drawn += [(anchor, group.heading)] if made else []
    choices = Choices(id="load-curve", label="Workload", options=tuple(drawn))
    return (
        section(
            "Load curves",
            "load-curves",
            READING,
            choices if len(drawn) > 1 else None,
            # Charts next to each other share a row.
            *sorted(every, key=lambda block: isinstance(block, Table)),
            budget.omission or None if budget else None,
            sections=(*result_sections(study, curves), *growth_sections(study)),
        ),
    )


READING = (
    "Closed loop: the next I/O starts when one completes, so a stall reduces the load and the "
    "percentiles are too low. Open loop: I/Os are offered at a fixed rate; fio delays I/Os in a "
    "stall, so the percentiles of a target that stalls are too low as well. Knee: the load from "
    "which on a doubling gives less than a tenth more throughput."
)


# --- results ------------------------------------------------------------------------------------


def result_sections(
    study: ScalingStudy, curves: Sequence[NamedCurve], *, in_words: bool = True
) -> tuple[Section, ...]:
    """Build the tables of the curves; `in_words` adds sentences about densities and fits."""
    shapes = [(curve.name, curve.study.shape) for curve in curves if curve.study.curve.closed]
    peaks = [
        (curve.name, curve.study.shape, curve.study.limit)
        for curve in curves
        if curve.study.curve.closed
    ]
    limits = [(curve.name, answer) for curve in curves for answer in limits_of(curve.study)]
    densities = _densities(study)
    clients = [(curve.name, fair) for curve in curves for fair in curve.study.fairness]
    neighbours = [(curve.name, driven) for curve in curves for driven in curve.study.disturbances]
    # Directions of a mixed workload share the bottlenecks of their total.
    limited = [
        (curve.name, curve.study)
        for curve in curves
        if curve.study.bottlenecks and not curve.study.curve.part_of_mix
    ]
    sections = (
        section(
            "Peak and knee",
            "load-peak",
            shapes_table("load-shapes", peaks) if peaks else None,
            result=peaks_result([shape for _, shape in shapes]),
        ),
        section(
            "Latency limit",
            "load-limit",
            limits_table("load-limits", limits) if limits else None,
            result=limits_result([answer for _, answer in limits]),
        ),
        section(
            "Scalability fit",
            "load-law",
            *(block for block in _law(shapes) if in_words or isinstance(block, Table)),
            folded=not in_words,
            result=f"{sum(isinstance(shape.law, UslFit) for _, shape in shapes):,} of "
            f"{count_text(len(shapes), 'curve')} fitted",
        ),
        section(
            "Density",
            "load-density",
            bullets(sentence for sentence, _ in densities) if in_words else None,
            *(
                density_table(f"density-{number}", answer)
                for number, (_, answer) in enumerate(densities, start=1)
            ),
        ),
        section(
            "Fairness among clients",
            "load-fairness",
            fairness_table("fairness", clients) if clients else None,
            result=fairness_result([fair for _, fair in clients]),
        ),
        section(
            "Noisy neighbours",
            "load-neighbours",
            disturbance_table("neighbours", neighbours) if neighbours else None,
        ),
        section(
            "Bottlenecks",
            "load-bottlenecks",
            bottleneck_table("bottlenecks", limited) if limited else None,
            result=bottlenecks_result([study for _, study in limited]),
        ),
    )
    return tuple(made for made in sections if made.blocks)


def _law(shapes: Sequence[tuple[str, Shape]]) -> Iterator[Block]:
    """The table of fits, and a sentence for each reason of curves without one."""
    fitted = [(name, shape, law) for name, shape in shapes if isinstance(law := shape.law, UslFit)]
    if fitted:
        yield law_table("load-laws", fitted)
    laws = (shape.law for _, shape in shapes)
    reasons = Counter(text(law) for law in laws if isinstance(law, Unfitted))
    for reason, number in reasons.items():
        curves = count_text(number, "curve")
        yield Paragraph(text=f"No Universal Scalability Law is fitted to {curves}: {reason}.")


def _densities(study: ScalingStudy) -> list[tuple[str, DensityAnswer]]:
    return [
        (density_sentence(density, run_name(study, run.run)), density)
        for run in study.runs
        for density in run.densities
    ]


def evidence_section(curves: Sequence[NamedCurve]) -> tuple[Section, ...]:
    """Build the table of every bottleneck at each curve's highest level."""
    whole = [curve for curve in curves if not curve.study.curve.part_of_mix]
    blocks: list[Block | None] = []
    for number, curve in enumerate(whole[:_MOST_EVIDENCE], start=1):
        level = curve.study.at_peak
        if level is not None:
            blocks.append(suspects_table(f"suspects-{number}", curve.name, level))
            blocks.append(bullets(level.evidence.notes))
    if not blocks:
        return ()
    return (section("Evidence at the highest level", "load-evidence", *blocks, folded=True),)


# --- systems of different size ------------------------------------------------------------------


def growth_sections(study: ScalingStudy, *, in_words: bool = True) -> tuple[Section, ...]:
    """Build a section for each system compared with the first: added resources and speed-ups, with
    `in_words` their sentences."""
    found = [growth for growth in study.growths if growth.rows]
    return tuple(
        section(
            f"Speed-up: {growth.candidate.name} vs {growth.baseline.name}",
            f"speedup-{number}",
            *_growth_blocks(growth, number, in_words=in_words),
            result=growth_result(growth),
        )
        for number, growth in enumerate(found, start=1)
    )


def _growth_blocks(growth: Growth, number: int, *, in_words: bool) -> Iterator[Block | str | None]:
    # Directions of a mixed workload are left to its total.
    speedups = [row.speedup for row in growth.rows if not row.speedup.baseline.part_of_mix]
    if in_words:
        yield growth_sentence(growth)
        if growth.labs is not None:
            yield bullets(lab_sentences(growth.labs))
    resources = {
        (resource.name, resource.told_by): resource
        for speedup in speedups
        for resource in speedup.resources
    }
    if resources:
        yield resources_table(f"resources-of-{number}", tuple(resources.values()))
    yield speedup_table(f"speedups-{number}", speedups)
    absences = {
        text(comparison.equal_latency.absence)
        for comparison in speedups
        if comparison.equal_latency.limit is None
    }
    if absences and in_words:
        yield f"At equal latency: {listed(sorted(absences))}."
    findings = [superlinear_finding(row.superlinear) for row in growth.rows if row.superlinear]
    if findings:
        yield finding_list(findings, Marks(findings, suffix="s" * number))
        yield causes_table(f"causes-{number}", growth)


# --- the page of `leadline scale` ---------------------------------------------------------------

# Rows of the matrix of findings; the list has all.
_MOST_FOUND = 40


def scaling_page(study: ScalingStudy) -> Document:
    """Build the page of a study: tiles and pictures, then findings, tables and method."""
    findings = _findings(study)
    marks = Marks(findings)
    curves = named_curves(study)
    groups = curve_groups(curves)
    drawn = [(group, chart) for group in groups for chart in _load_charts(group, len(groups))]
    options = tuple((chart.choice, group.heading) for group, chart in drawn)
    tables = [
        group_blocks(group, f"load-{number}", study.limit, marks)[-1]
        for number, group in enumerate(groups, start=1)
    ]
    matrix = _matrix(curves, marks) if findings else None
    sections = (
        *growth_sections(study, in_words=False),
        section(
            "Throughput over load",
            "load-curves",
            Choices(id="load-curve", label="Workload", options=options) if options[1:] else None,
            *(chart for _, chart in drawn),
        ),
        *result_sections(study, curves, in_words=False),
        section(
            "Findings",
            "findings",
            matrix,
            finding_list(findings, marks) if findings else "The audit has no findings.",
            result=severities_text(one.severity for one in findings) if findings else "",
        ),
        section("Levels", "levels", *tables, folded=True, result=_levels_text(curves)),
        *evidence_section(curves),
        *timeline_sections([(curve.name, curve.study) for curve in curves], PageBudget()),
        *redaction_sections(*(run.run for run in study.runs)),
        method_section(study),
    )
    return Document(
        title=f"Load curves of {listed(studied.run.id for studied in study.runs)}",
        subtitle=_subtitle(study),
        summary=(scaling_headline(study), *scaling_bullets(study)) if curves else _without(study),
        sections=tuple(made for made in sections if made.blocks or made.sections),
        marked=marks.all,
        front=scaling_front(study),
    )


def _levels_text(curves: Sequence[NamedCurve]) -> str:
    levels = count_text(sum(curve.study.levels for curve in curves), "level")
    return f"{levels} of {count_text(len(curves), 'curve')}"


def _load_charts(group: _Group, groups: int) -> list[LineChart]:
    anchor = f"throughput-{slug(group.heading)}"
    chart = load_chart(anchor, group.heading, _drawn(group)[0], choice=anchor if groups > 1 else "")
    return [chart] if chart else []


def _matrix(curves: Sequence[NamedCurve], marks: Marks) -> Table | None:
    """Build levels x findings, a sign for each; None without any."""
    found = [
        (f"{named.name} · {level_text(point)}", own)
        for named in curves
        for point in (*named.study.curve.closed, *named.study.curve.offered)
        if (own := marks_of(point.figure, marks))
    ]
    codes = dict.fromkeys(mark.code for mark in marks.all)
    columns = [code for code in codes if any(code in own for _, own in found)]
    if not columns:
        return None
    shown = keep_largest(found, lambda row: len(row[1]), _MOST_FOUND)
    levels = sum(named.study.levels for named in curves)
    return table(
        "findings-by-level",
        ("level", *columns),
        ((name, *(mark_cell(own.get(code)) for code in columns)) for name, own in shown),
        caption=f"Findings by level: {len(shown):,} of {count_text(levels, 'level')}",
    )


# --- `leadline scale` for terminal and Markdown -------------------------------------------------


def scaling_document(study: ScalingStudy) -> Document:
    """Build the document of a study: charts, levels, results, systems and findings."""
    findings = _findings(study)
    marks = Marks(findings)
    curves = named_curves(study)
    named = [(curve.name, curve.study) for curve in curves]
    sections = [
        section(
            group.heading,
            f"load-{number}",
            *group_blocks(group, f"load-{number}", study.limit, marks),
            READING if number == 1 else None,
        )
        for number, group in enumerate(curve_groups(curves), start=1)
    ]
    sections += [*growth_sections(study), *result_sections(study, curves)]
    if findings:
        listing = finding_list(findings, marks)
        sections.append(section("Findings about these levels", "findings", listing))
    return Document(
        title=f"Load curves of {listed(studied.run.id for studied in study.runs)}",
        subtitle=_subtitle(study),
        summary=scaling_sentences(study) or _without(study),
        sections=(
            *sections,
            *evidence_section(curves),
            *timeline_sections(named),
            *redaction_sections(*(run.run for run in study.runs)),
        ),
        marked=marks.all,
    )


def _subtitle(study: ScalingStudy) -> str:
    curves = count_text(len(study.curves), "curve")
    levels = count_text(sum(curve.levels for curve in study.curves), "level")
    between = f"{band_text(study.between_runs)} between runs" if study.between_runs else ""
    return place(curves, levels, f"limit {study.limit}" if study.limit else "", between)


def _without(study: ScalingStudy) -> tuple[str, ...]:
    """The summary without a load curve."""
    lead = "No load curve: no workload was measured at two load levels."
    return (lead, *(curve_sentence(curve.shape, limits_of(curve)) for curve in study.curves[:6]))


def _findings(study: ScalingStudy) -> tuple[Finding, ...]:
    several = len(study.runs) > 1
    return tuple(finding for run in study.runs for finding in _touching(run, several))


def _touching(run: RunStudy, several: bool) -> Iterable[Finding]:
    """Yield the errors and warnings that concern a level of the curves; of several runs with the
    run before the target."""
    touched = {
        (finding.code, finding.severity)
        for curve in run.curves
        for point in (*curve.curve.closed, *curve.curve.offered, *curve.curve.disturbed)
        for metric in point.figure.metrics
        for finding in metric.finding_marks
    }
    name = run.run.manifest.cluster_label or run.run.id
    for finding in run.findings:
        if finding.severity is not Severity.INFO and (finding.code, finding.severity) in touched:
            yield replace(finding, target=f"{name}: {finding.target}") if several else finding
