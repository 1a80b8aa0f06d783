"""The page of one run as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leadline.analysis.comparison import Comparison
from leadline.analysis.figures import TRIALS_FOR_INTERVAL, TRIALS_FOR_OUTLIERS, CellFigure
from leadline.analysis.ranking import Ranking
from leadline.analysis.requirements import protections
from leadline.archive.reader import Run
from leadline.archive.verify import Verification
from leadline.findings import Finding, Severity
from leadline.metrics import PERCENTILES
from leadline.report.cells import section, table
from leadline.report.curves import MOST_SERIES, PageBudget
from leadline.report.document import (
    Block,
    Bullets,
    Document,
    LineChart,
    Paragraph,
    Section,
    StripChart,
    Stroke,
    Table,
)
from leadline.report.marks import Marks
from leadline.report.pages.comparison.charts import unstable_text
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.drill import drill_sections
from leadline.report.pages.layers import layers_of_page
from leadline.report.pages.ranking import ranking_headline
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.charts import FEW_TRIALS
from leadline.report.pages.run.conditions import (
    checked_text,
    condition_blocks,
    described_methods,
    engine_texts,
    matrix_blocks,
    reproduction_blocks,
)
from leadline.report.pages.run.facts import facts_sections
from leadline.report.pages.run.findings import (
    audit_sentences,
    findings_section,
    measured_sentence,
    subtitle,
    unfinished_sections,
)
from leadline.report.pages.run.guard import guard_sections
from leadline.report.pages.run.heat_maps import scorecard_sections
from leadline.report.pages.run.overview import rates_of, run_front, run_strips
from leadline.report.pages.run.places import place_sections
from leadline.report.pages.run.results import (
    cost_sections,
    load_sentences,
    result_sections,
    study_of,
)
from leadline.report.pages.run.scorecard import (
    comparison_sections,
    comparisons_of,
    ranking_of,
    ranking_sections,
    read_write_sections,
)
from leadline.report.pages.run.systems import (
    left_out_section,
    stack_sections,
    system_sections,
)
from leadline.report.words import count_text, listed, place, short_levels, title
from leadline.stats.histogram import samples_needed
from leadline.version import __version__

if TYPE_CHECKING:
    from leadline.analysis.scaling.study import ScalingStudy

# Sentences of a summary; the sections have the rest.
_MOST_SENTENCES = 6
# `leadline scale` draws the resources of every level.
_MOST_RESOURCE_POINTS = 150


def headline(
    run: Run,
    figures: Sequence[CellFigure],
    findings: Sequence[Finding],
    marks: Marks,
    verification: Verification | None,
    ranking: Ranking | None,
    comparisons: Sequence[Comparison],
    loads: Sequence[str],
) -> tuple[str, ...]:
    """Summarise a run in at most seven sentences, the most important first: comparisons, fastest
    target, what was measured, findings, missing numbers, verification."""
    sentences = [key_finding(comparison) for comparison in comparisons[:2]]
    ranked = [ranking_headline(ranking, protections(run))] if ranking is not None else []
    measured = [measured_sentence(run, findings)]
    several = ranking is not None and len(ranking.complete) > 1
    sentences += [*ranked, *measured] if several else [*measured, *ranked]
    sentences += audit_sentences(run, figures, findings, marks)
    if verification is not None and not verification.ok:
        sentences.insert(1, _verified(verification))
    sentences = [*sentences[:_MOST_SENTENCES], *loads[: _MOST_SENTENCES - len(sentences)]]
    if verification is not None and verification.ok:
        sentences.append(_verified(verification))
    return tuple(sentences)


def _verified(verification: Verification) -> str:
    checked = checked_text([verification])
    if verification.ok:
        return f"The archive is intact: {checked} checked."
    count = count_text(len(verification.problems), "problem")
    first = verification.problems[0]
    return f"The archive is NOT intact: {count} in {checked}; first {first.path}: {first.message}."


def run_document(
    run: Run,
    figures: tuple[CellFigure, ...],
    findings: tuple[Finding, ...],
    verification: Verification | None = None,
    *,
    charts: bool = True,
) -> Document:
    """Build the whole report of one run; the same input gives the same document.

    `charts` are for renderers that draw: without them there are no curves and no heat map, and
    everything but the results is folded.
    """
    with short_levels(cell.level for cell in run.plan.cells) as shared:
        marks = Marks(findings)
        ranking = ranking_of(run, figures, findings)
        comparisons = comparisons_of(run, figures, findings)
        loads = study_of(run, figures, findings)
        of_layers, layers = layers_of_page(run, findings)
        load = (*of_layers, *(load_sentences(loads) if loads else ()))
        strips = run_strips(run, figures, findings) if charts else ()
        front = run_front(run, figures) if charts else ()
        failed = unfinished_sections(run)
        # Where nothing was measured, the reasons are the result.
        first, later = (failed, ()) if charts and not front else ((), failed)
        return Document(
            title=f"Run {run.id}",
            subtitle=place(subtitle(run), shared),
            summary=headline(
                run, figures, findings, marks, verification, ranking, comparisons, load
            ),
            front=front,
            sections=(
                *first,
                *drill_sections(run),
                *_folded(ranking_sections(run, ranking, len(run.plan.targets)), when=not charts),
                *(scorecard_sections(run, figures) if charts else ()),
                *_folded(comparison_sections(comparisons, marks), when=not charts),
                *(_curves(loads, marks) if loads and charts else ()),
                *(place_sections(run) if charts else ()),
                *_trials(run, figures, strips),
                _results(run, figures, findings, marks, charts=charts),
                *_folded(read_write_sections(run, figures, marks)),
                *_folded(cost_sections(figures, marks)),
                *guard_sections(run),
                *left_out_section(run),
                *later,
                *_folded((findings_section(findings, marks),), when=not charts),
                *(_folded(_tables(layers)) if charts else ()),
                *facts_sections(run),
                *system_sections(run),
                *_folded(stack_sections(run)),
                *(_resources(loads) if loads and charts else ()),
                Section(
                    heading="Conditions", id="conditions", blocks=condition_blocks(run), folded=True
                ),
                Section(
                    heading="Test matrix",
                    id="test-matrix",
                    blocks=matrix_blocks(run),
                    folded=True,
                    result=f"{count_text(len(run.plan.trials), 'trial')} of "
                    f"{count_text(len(run.plan.cells), 'cell')}",
                ),
                *redaction_sections(run),
                Section(
                    heading="Method",
                    id="methods",
                    blocks=(*_methods(run), *reproduction_blocks(run)),
                    folded=True,
                ),
            ),
            marked=marks.all,
        )


def _folded(sections: Sequence[Section], *, when: bool = True) -> tuple[Section, ...]:
    return tuple(replace(section, folded=True) for section in sections) if when else tuple(sections)


def _tables(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Keep the tables and charts: the verb of each section has its words."""
    kept = (
        replace(
            section,
            blocks=tuple(
                block for block in section.blocks if not isinstance(block, Paragraph | Bullets)
            ),
            sections=_tables(section.sections),
        )
        for section in sections
    )
    return tuple(section for section in kept if section.blocks or section.sections)


def _curves(loads: ScalingStudy, marks: Marks) -> tuple[Section, ...]:
    """Build the charts of load curves without single trials, which the overview has, their peaks
    and bottlenecks; `leadline scale` has the speed-ups and the evidence."""
    from leadline.report.pages.scaling.page import curve_section

    return tuple(
        replace(
            section,
            blocks=tuple(
                _without_trials(block) for block in section.blocks if not isinstance(block, Table)
            ),
            sections=tuple(
                inner for inner in section.sections if not inner.id.startswith("speedup-")
            ),
        )
        for section in _tables(curve_section(loads, marks, PageBudget()))
    )


def _without_trials(block: Block) -> Block:
    if not isinstance(block, LineChart):
        return block
    kept = (line for line in block.lines if block.look(line.series).stroke is not Stroke.DOTS)
    return replace(block, lines=tuple(kept))


def _resources(loads: ScalingStudy) -> tuple[Section, ...]:
    """The resources over time at a few levels, folded."""
    from leadline.report.pages.scaling.sentences import named_curves
    from leadline.report.pages.scaling.timeline import timeline_sections

    named = [(curve.name, curve.study) for curve in named_curves(loads)]
    return timeline_sections(named, PageBudget(_MOST_RESOURCE_POINTS))


def _trials(
    run: Run, figures: Sequence[CellFigure], strips: Sequence[StripChart]
) -> tuple[Section, ...]:
    result = unstable_text(metric for _, metric in rates_of(run, figures))
    return (section("Trials", "trials", *strips, result=result),) if strips else ()


def _results(
    run: Run,
    figures: tuple[CellFigure, ...],
    findings: tuple[Finding, ...],
    marks: Marks,
    *,
    charts: bool,
) -> Section:
    budget = PageBudget()
    sections = result_sections(run, figures, findings, marks, budget if charts else None)
    note = budget.omission if figures else "The plan has no cell."
    if figures and not charts and marks.all:
        # A terminal leaves out the findings.
        labels = ", ".join(f"{mark.label} {mark.code}" for mark in marks.all)
        note = f"{labels}: `leadline audit {run.id}` explains them."
    return Section(
        heading="Results",
        id="results",
        result=_trusted(run, figures),
        blocks=(Paragraph(text=note),) if note else (),
        sections=sections,
    )


def _trusted(run: Run, figures: Sequence[CellFigure]) -> str:
    """`6 of 14 without a warning`; empty without a result."""
    shown = [metric for _, metric in rates_of(run, figures) if metric.value is not None]
    silent = sum(metric.severity in (None, Severity.INFO) for metric in shown)
    return f"{silent:,} of {len(shown):,} without a warning" if shown else ""


def _methods(run: Run) -> tuple[Block, ...]:
    needs = ", ".join(
        f"{title(metric).split()[0]} {samples_needed(metric.quantile):,}"
        for metric in PERCENTILES
        if metric.quantile is not None
    )
    methods = described_methods(
        "methods.txt",
        needs=needs,
        interval_trials=TRIALS_FOR_INTERVAL,
        outlier_trials=TRIALS_FOR_OUTLIERS,
        series=MOST_SERIES,
        few_trials=FEW_TRIALS,
    )
    sessions = run.manifest.sessions
    measured = listed(dict.fromkeys(session.leadline_version for session in sessions))
    pythons = listed(dict.fromkeys(session.python_version for session in sessions))
    versions = (
        ("measured by", f"Leadline {measured}"),
        ("this report by", f"Leadline {__version__}"),
        ("engine", engine_texts(run) or "no trial"),
        ("Python", pythons),
        ("archive", run.manifest.schema_),
    )
    return (table("method", ("", ""), (*methods, *versions), caption="Method"),)
