"""From an opened run, its figures and findings to the document that renderers show."""

from __future__ import annotations

import leadline
from leadline.analysis.cells import CellFigure
from leadline.analysis.intervals import TRIALS_FOR_INTERVAL, TRIALS_FOR_OUTLIERS
from leadline.analysis.scaling.study import ScalingStudy
from leadline.archive.reader import Run
from leadline.archive.verify import Verification
from leadline.findings import Finding
from leadline.metrics import PERCENTILES
from leadline.report.budget import PageBudget
from leadline.report.conditions import (
    condition_blocks,
    elapsed,
    elsewhere,
    engine_texts,
    matrix_blocks,
    moment,
    reproduction_blocks,
    unfinished_table,
)
from leadline.report.curves import MOST_SERIES
from leadline.report.document import Block, Document, KeyValues, Paragraph, Section
from leadline.report.layers.page import layers_of_page
from leadline.report.marks import Marks, finding_list
from leadline.report.run.comparisons import comparison_sections, comparisons_of
from leadline.report.run.headline import headline
from leadline.report.run.load import load_sentences, study_of
from leadline.report.run.ranking import ranking_of, ranking_sections
from leadline.report.run.results import result_sections
from leadline.report.run.scorecard import read_write_sections, scorecard_sections
from leadline.report.run.stacks import stack_sections
from leadline.report.run.systems import left_out_section, system_sections
from leadline.report.run.workload_curves import FEW_TRIALS
from leadline.report.scaling.names import named_curves
from leadline.report.scaling.sections import (
    curve_section,
    evidence_section,
)
from leadline.report.scaling.timeline import timeline_sections
from leadline.report.wording import listed, title, visible
from leadline.stats.histogram import samples_needed


def run_document(
    run: Run,
    figures: tuple[CellFigure, ...],
    findings: tuple[Finding, ...],
    verification: Verification | None = None,
    *,
    charts: bool = True,
) -> Document:
    """The whole report of one run; the same input gives the same document. `charts` are for
    renderers that draw: without them there are no curves and no heat map, but every trial is told.
    """
    marks = Marks(findings)
    ranking = ranking_of(run, figures, findings)
    comparisons = comparisons_of(run, figures, findings)
    loads = study_of(run, figures, findings)
    of_layers, layers = layers_of_page(run, findings)
    said = (*of_layers, *(load_sentences(loads) if loads else ()))
    return Document(
        title=f"Run {visible(run.id)}",
        subtitle=_subtitle(run),
        summary=headline(run, figures, findings, marks, verification, ranking, comparisons, said),
        sections=(
            *ranking_sections(run, ranking, len(run.plan.targets)),
            *(scorecard_sections(run, figures) if charts else ()),
            *comparison_sections(comparisons, marks),
            *(curve_section(loads, marks, PageBudget()) if loads and charts else ()),
            _results(run, figures, findings, marks, charts=charts),
            *read_write_sections(run, figures, marks),
            *left_out_section(run),
            *_unfinished(run),
            _findings(findings, marks),
            *(layers if charts else ()),
            *system_sections(run),
            *stack_sections(run),
            *(_load_evidence(loads) if loads and charts else ()),
            Section(
                heading="Conditions", id="conditions", blocks=condition_blocks(run), folded=True
            ),
            Section(
                heading="Test matrix", id="test-matrix", blocks=matrix_blocks(run), folded=True
            ),
            Section(heading="Methods", id="methods", blocks=_methods(), folded=True),
            Section(
                heading="How to reproduce",
                id="reproduce",
                blocks=reproduction_blocks(run),
                folded=True,
            ),
            Section(heading="Versions", id="versions", blocks=_versions(run), folded=True),
        ),
        marked=marks.all,
    )


def _load_evidence(loads: ScalingStudy) -> tuple[Section, ...]:
    """What load curves are judged by, to be looked up."""
    curves = named_curves(loads)
    named = [(one.name, one.study) for one in curves]
    return (*evidence_section(curves), *timeline_sections(named, PageBudget()))


def findings_document(
    run: Run, figures: tuple[CellFigure, ...], findings: tuple[Finding, ...]
) -> Document:
    """What the audit says of a run, without the run's numbers."""
    marks = Marks(findings)
    return Document(
        title=f"Audit of {visible(run.id)}",
        subtitle=_subtitle(run),
        summary=headline(run, figures, findings, marks),
        sections=(*_unfinished(run), _findings(findings, marks)),
        marked=marks.all,
    )


def _where(run: Run) -> str:
    """The machine that did the I/O, or the clusters that it was all done in."""
    if elsewhere(run):
        return f"on {listed([visible(cluster.name) for cluster in run.plan.clusters])}"
    host = run.inventory("start")
    return f"on {visible(host.hostname)}" if host else ""


def _subtitle(run: Run) -> str:
    plan, manifest = run.plan, run.manifest
    last = manifest.sessions[-1].ended_at if manifest.sessions else None
    took = elapsed(manifest.created_at, last)
    label = run.manifest.cluster_label
    parts = [
        visible(plan.description) or visible(plan.name),
        f"profile {visible(listed(plan.profiles))}" if plan.profiles else "",
        _where(run),
        f"cluster {visible(label)}" if label else "",
        ("imported " if plan.imported else "")
        + moment(manifest.created_at)
        + (f", took {took}" if took else ""),
    ]
    return " · ".join(part for part in parts if part)


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
    said = budget.said if figures else "The plan has no cell."
    return Section(
        heading="Results",
        id="results",
        blocks=(Paragraph(text=said),) if said else (),
        sections=sections,
    )


def _unfinished(run: Run) -> tuple[Section, ...]:
    table = unfinished_table(run)
    if table is None:
        return ()
    return (Section(heading="Trials without a result", id="unfinished-trials", blocks=(table,)),)


def _findings(findings: tuple[Finding, ...], marks: Marks) -> Section:
    blocks: tuple[Block, ...] = (
        (finding_list(findings, marks),)
        if findings
        else (Paragraph(text="The audit found nothing to say about this run."),)
    )
    return Section(heading="Findings", id="findings", blocks=blocks)


def _methods() -> tuple[Block, ...]:
    needs = ", ".join(
        f"{title(metric).split()[0]} {samples_needed(metric.quantile):,}"
        for metric in PERCENTILES
        if metric.quantile is not None
    )
    return (
        KeyValues(
            pairs=(
                (
                    "value",
                    (
                        "IOPS, bandwidth and mean latency of a row: the median of its completed "
                        "trials; every trial is drawn as a dot"
                    ),
                ),
                (
                    "percentiles",
                    (
                        "from the merged latency histograms of all completed trials of the row "
                        "(fio json+ bins, relative error at most 1/128); never averaged. In a "
                        "plot the mark and its label are this value, the dots are the trials' own "
                        "percentiles"
                    ),
                ),
                ("shown from", f"ten I/Os beyond the percentile on: {needs}"),
                ("latency", "total latency: submission and completion together"),
                ("range", "(highest - lowest) / median of the trials' IOPS"),
                (
                    "95 % interval",
                    (
                        "of the median over trials, by their order statistics (binomial, coverage "
                        f"at least 95 %), from {TRIALS_FOR_INTERVAL} trials on; with fewer there "
                        "is none; for a percentile over the trials' own percentiles"
                    ),
                ),
                (
                    "outliers",
                    (
                        f"from {TRIALS_FOR_OUTLIERS} trials on, further than 14.826 x MAD from the "
                        "median: marked, never removed"
                    ),
                ),
                (
                    "curves",
                    (
                        "percentiles and distributions from the same merged histograms, of up to "
                        f"{MOST_SERIES} targets; IOPS over time from each trial's own seconds, in "
                        f"a run of more than {FEW_TRIALS} trials of cells that were not steady only"
                    ),
                ),
                (
                    "doubts",
                    (
                        "E, W, I: error, warning, info; the label beside a number leads to the "
                        "finding. A number under an error must not be used"
                    ),
                ),
                (
                    "missing",
                    "a cell without a completed trial is a row without numbers, never a zero",
                ),
                (
                    "ranking",
                    (
                        "every two targets are judged by their trials (better, worse, same or "
                        "inconclusive); whoever cannot be told apart shares a rank; a target that "
                        "lacks a number is not ranked"
                    ),
                ),
                (
                    "units",
                    (
                        "k, M, G and KiB, MiB, GiB are powers of 1024; MiB/s = 1,048,576 bytes/s; "
                        "us = 0.000001 s"
                    ),
                ),
                ("total", "reads and writes that ran at the same time, added"),
            )
        ),
    )


def _versions(run: Run) -> tuple[Block, ...]:
    sessions = run.manifest.sessions
    measured = listed(dict.fromkeys(visible(one.leadline_version) for one in sessions))
    pythons = listed(dict.fromkeys(visible(one.python_version) for one in sessions))
    return (
        KeyValues(
            pairs=(
                ("measured by", f"Leadline {measured}"),
                ("this report by", f"Leadline {leadline.__version__}"),
                ("engine", engine_texts(run) or "no trial"),
                ("Python", pythons),
                ("archive", run.manifest.schema_),
            )
        ),
    )
