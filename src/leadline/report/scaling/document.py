"""`leadline scale` as a document for terminal and Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from leadline.analysis.scaling.study import RunStudy, ScalingStudy
from leadline.findings import Finding, Severity
from leadline.report.document import Block, Document, Paragraph, Section
from leadline.report.marks import Marks, finding_list
from leadline.report.scaling.growing import growth_sections
from leadline.report.scaling.names import named_curves
from leadline.report.scaling.sections import (
    READING,
    curve_groups,
    evidence_section,
    group_blocks,
    limits_of,
    saying_sections,
    scaling_sentences,
)
from leadline.report.scaling.sentences import curve_sentence
from leadline.report.scaling.timeline import timeline_sections
from leadline.report.wording import count_text, listed, visible


def scaling_document(study: ScalingStudy) -> Document:
    """Every curve with its charts and levels, what they say, and systems beside each other. A study
    without a curve of two levels says so, and what there is."""
    findings = tuple(one for run in study.runs for one in _touching(run, len(study.runs) > 1))
    marks = Marks(findings)
    curves = named_curves(study)
    named = [(one.name, one.study) for one in curves]
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
    sections += [*growth_sections(study), *saying_sections(study, curves)]
    if findings:
        sections.append(
            Section(
                heading="Findings about these levels",
                id="findings",
                blocks=(finding_list(findings, marks),),
            )
        )
    return Document(
        title=f"Load curves of {listed(visible(one.run.id) for one in study.runs)}",
        subtitle=_subtitle(study),
        summary=scaling_sentences(study) or _without(study),
        sections=(*sections, *evidence_section(curves), *timeline_sections(named)),
        marked=marks.all,
    )


def _subtitle(study: ScalingStudy) -> str:
    levels = sum(one.levels for one in study.curves)
    parts = [
        count_text(len(study.curves), "curve"),
        count_text(levels, "level"),
        f"limit {study.limit}" if study.limit else "",
    ]
    return " · ".join(part for part in parts if part)


def _without(study: ScalingStudy) -> tuple[str, ...]:
    """What is said where there is no curve: a level alone tells no growth."""
    lead = "No workload was measured at two load levels, so that there is no load curve."
    return (lead, *(curve_sentence(one.shape, limits_of(one)) for one in study.curves[:6]))


def _touching(run: RunStudy, several: bool) -> Iterable[Finding]:
    """The errors and warnings of which a level of the curves carries a mark, with the run in front
    of the target where there are several."""
    touched = {
        (doubt.code, doubt.severity)
        for curve in run.curves
        for point in (*curve.curve.closed, *curve.curve.offered, *curve.curve.disturbed)
        for metric in point.figure.metrics
        for doubt in metric.doubts
    }
    name = run.run.manifest.cluster_label or run.run.id
    for one in run.findings:
        if one.severity is not Severity.INFO and (one.code, one.severity) in touched:
            yield replace(one, target=f"{name}: {one.target}") if several else one
