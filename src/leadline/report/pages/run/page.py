"""The page of one run, its audit alone, and the result of an import, as documents."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from leadline.analysis.comparison import Comparison
from leadline.analysis.figures import TRIALS_FOR_INTERVAL, TRIALS_FOR_OUTLIERS, CellFigure
from leadline.analysis.ranking import Ranking
from leadline.analysis.scaling.study import ScalingStudy
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.verify import Verification
from leadline.findings import Finding, Severity
from leadline.formats.result import JobOptions
from leadline.metrics import PERCENTILES, Metric
from leadline.plan.models import Recorded
from leadline.report.curves import MOST_SERIES
from leadline.report.document import (
    Block,
    Document,
    KeyValues,
    Marks,
    PageBudget,
    Paragraph,
    Section,
    finding_list,
    shorten_levels,
)
from leadline.report.pages.comparison.headline import key_finding
from leadline.report.pages.comparison.takeaways import DEPTH_NOT_REACHED, one_of_each_job
from leadline.report.pages.layers import layers_of_page
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.charts import FEW_TRIALS
from leadline.report.pages.run.conditions import (
    checked_text,
    condition_blocks,
    described_methods,
    elapsed,
    elsewhere,
    engine_texts,
    matrix_blocks,
    moment,
    reproduction_blocks,
    unfinished_table,
)
from leadline.report.pages.run.facts import facts_sections
from leadline.report.pages.run.results import (
    load_sentences,
    result_sections,
    shown_rate,
    study_of,
)
from leadline.report.pages.run.scorecard import (
    comparison_sections,
    comparisons_of,
    first_place_tie,
    leading,
    ranking_of,
    ranking_sections,
    read_write_sections,
    scorecard_sections,
)
from leadline.report.pages.run.systems import (
    left_out_section,
    stack_sections,
    system_sections,
)
from leadline.report.pages.scaling.page import curve_section, evidence_section
from leadline.report.pages.scaling.sentences import named_curves
from leadline.report.pages.scaling.timeline import timeline_sections
from leadline.report.words import count_text, listed, place, share_text, title
from leadline.stats.histogram import samples_needed
from leadline.version import __version__


def remaining_sentence(run: Run, findings: Sequence[Finding]) -> list[str]:
    """Name imported trials that only a wrong queue depth refuses and that had one I/O per job in
    flight; nothing for own runs, which can be repeated."""
    if not run.plan.imported:
        return []
    errors: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.trial:
            errors.setdefault(finding.trial, []).append(finding)
    jobs = {
        trial.id: _jobs(run.plan.cells[trial.cell].workload.recorded) for trial in run.plan.trials
    }
    alone = [
        trial
        for trial, found in errors.items()
        if all(
            finding.code == DEPTH_NOT_REACHED
            and one_of_each_job(finding.evidence.get("in_flight"), jobs.get(trial))
            for finding in found
        )
    ]
    if not alone:
        return []
    text = (
        f"{len(alone):,} of {count_text(len(errors), 'trial')} with errors are refused for their "
        "queue depth alone; their figures show one I/O per job in flight. Import them with an "
        "iodepth of 1, which is what ran."
    )
    return [text]


def _jobs(recorded: Recorded | None) -> int | None:
    return JobOptions(raw=recorded.options, whole=False).numjobs if recorded else None


def headline(
    run: Run,
    figures: Sequence[CellFigure],
    findings: Sequence[Finding],
    marks: Marks,
    verification: Verification | None = None,
    ranking: Ranking | None = None,
    comparisons: Sequence[Comparison] = (),
    loads: Sequence[str] = (),
) -> tuple[str, ...]:
    """Summarise a run in sentences, the most important first: comparisons, the fastest target,
    load curves (`loads`), what was measured, findings, missing numbers, spread, verification."""
    sentences = [key_finding(comparison) for comparison in comparisons]
    sentences += [sentence for sentence in (leading(ranking),) if sentence]
    sentences += loads
    sentences.append(_measured(run, findings))
    sentences += [sentence for sentence in (first_place_tie(ranking),) if sentence]
    sentences += _audited(figures, findings, marks)
    sentences += remaining_sentence(run, findings)
    sentences += _missing(figures)
    streams = {cell.workload.name for cell in run.plan.cells if cell.workload.streams}
    sentences += _not_shown([row for row in figures if row.planned_workload not in streams])
    sentences += _spread(figures)
    if verification is not None:
        sentences.append(_verified(verification))
    return tuple(sentences)


def _measured(run: Run, findings: Sequence[Finding]) -> str:
    plan = run.plan
    completed = sum(trial.record.status is TrialStatus.COMPLETED for trial in run.trials)
    of = f"{completed:,} of {count_text(len(plan.trials), 'trial')} completed"
    targets = count_text(len(plan.targets), "target")
    workloads = count_text(len({cell.workload.name for cell in plan.cells}), "workload")
    extent = f"{count_text(len(plan.cells), 'cell')} ({targets}, {workloads})"
    state = {
        RunStatus.COMPLETE: "",
        RunStatus.INTERRUPTED: " The run was interrupted; `leadline run --resume` goes on with it.",
        RunStatus.RUNNING: " The run is not sealed: it is still going on, or was killed.",
    }[run.manifest.status]
    counts = {
        severity: sum(finding.severity is severity for finding in findings)
        for severity in (Severity.ERROR, Severity.WARNING)
    }
    found = [
        count_text(count, f"{severity.value} finding")
        for severity, count in counts.items()
        if count
    ]
    silent = "no error and no warning found" if completed else "no result to audit"
    return f"{of} in {extent}; {listed(found) or silent}.{state}"


def _audited(figures: Sequence[CellFigure], findings: Sequence[Finding], marks: Marks) -> list[str]:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
    sentences = []
    for severity, found in ((Severity.ERROR, errors), (Severity.WARNING, warnings)):
        if not found:
            continue
        touched = sum(
            any(
                finding.severity is severity and not finding.whole_run
                for metric in row.metrics
                for finding in metric.finding_marks
            )
            for row in figures
        )
        codes = listed(
            f"{mark.code} ({mark.label})" for mark in marks.all if mark.severity is severity
        )
        subject = count_text(len(found), f"{severity.value} finding")
        if touched:
            rows = f"{touched:,} of {count_text(len(figures), 'result')}"
            where = " in latencies" if all(finding.latency_only for finding in found) else ""
            subject += f" on {rows}{where}"
        advice = " Do not use these numbers." if severity is Severity.ERROR and touched else ""
        sentences.append(f"{subject}: {codes}.{advice}")
    everywhere = [
        f"{marks.mark_of(finding).label} ({finding.code})"
        for finding in [*errors, *warnings]
        if not (finding.target or finding.workload or finding.level or finding.trial or finding.op)
    ]
    if everywhere:
        labels = listed(dict.fromkeys(everywhere))
        sentences.append(f"Findings on every result of the run: {labels}.")
    return sentences


def _missing(figures: Sequence[CellFigure]) -> list[str]:
    missing = [figure for figure in figures if figure.missing]
    if not missing:
        return []
    names = listed(
        dict.fromkeys(place(row.target, row.workload, row.level) for row in missing), limit=3
    )
    return [f"Without a completed trial: {names}."]


def _not_shown(figures: Sequence[CellFigure]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for metric in (Metric.LATENCY_MEAN, *PERCENTILES):
        without = [
            figure.metric(metric)
            for figure in figures
            if not figure.missing and figure.metric(metric).value is None
        ]
        if not without:
            continue
        few = [figure for figure in without if "fewer than" in figure.absence]
        rows = count_text(len(without), "row")
        text = f"{title(metric)} in {rows}"
        key = "too few I/Os" if len(few) == len(without) else "not measured"
        reasons.setdefault(key, []).append(text)
    return [f"Not shown, {reason}: {listed(texts)}." for reason, texts in reasons.items()]


def _spread(figures: Sequence[CellFigure]) -> list[str]:
    spreads = [
        (spread, figure)
        for figure in figures
        if (spread := figure.metric(shown_rate(figure)).spread) is not None
    ]
    if not spreads:
        if any(not figure.missing for figure in figures):
            return ["One trial per cell: the spread of repeats is unknown."]
        return []
    values = [spread for spread, _ in spreads]
    worst, where = max(spreads, key=lambda pair: pair[0])
    op = where.op.value if where.op else ""
    cell = place(where.target, where.workload, where.level, op)
    rates = dict.fromkeys(title(shown_rate(figure)) for _, figure in spreads)
    measure = f"Spread of trials, (highest - lowest) / median {' or '.join(rates)}"
    usual, most = share_text(median(values)), share_text(worst)
    if len(spreads) == 1:
        return [f"{measure}: {most} ({cell})."]
    return [f"{measure}: {usual} in the median row, {most} at most ({cell})."]


def _verified(verification: Verification) -> str:
    checked = checked_text([verification])
    if verification.ok:
        return f"The archive is intact: {checked} checked against checksums and raw output."
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

    `charts` are for renderers that draw: without them there are no curves and no heat map.
    """
    marks = Marks(findings)
    ranking = ranking_of(run, figures, findings)
    comparisons = comparisons_of(run, figures, findings)
    loads = study_of(run, figures, findings)
    of_layers, layers = layers_of_page(run, findings)
    load = (*of_layers, *(load_sentences(loads) if loads else ()))
    document = Document(
        title=f"Run {run.id}",
        subtitle=_subtitle(run),
        summary=headline(run, figures, findings, marks, verification, ranking, comparisons, load),
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
            *facts_sections(run),
            *system_sections(run),
            *stack_sections(run),
            *(_load_evidence(loads) if loads and charts else ()),
            Section(
                heading="Conditions", id="conditions", blocks=condition_blocks(run), folded=True
            ),
            Section(
                heading="Test matrix", id="test-matrix", blocks=matrix_blocks(run), folded=True
            ),
            *redaction_sections(run),
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
    return shorten_levels(document, (cell.level for cell in run.plan.cells))


def _load_evidence(loads: ScalingStudy) -> tuple[Section, ...]:
    """The evidence behind the load curves, folded."""
    curves = named_curves(loads)
    named = [(curve.name, curve.study) for curve in curves]
    return (*evidence_section(curves), *timeline_sections(named, PageBudget()))


def findings_document(
    run: Run, figures: tuple[CellFigure, ...], findings: tuple[Finding, ...]
) -> Document:
    """Build the audit of a run, without the run's numbers."""
    marks = Marks(findings)
    document = Document(
        title=f"Audit of {run.id}",
        subtitle=_subtitle(run),
        summary=headline(run, figures, findings, marks),
        sections=(*_unfinished(run), _findings(findings, marks)),
        marked=marks.all,
    )
    return shorten_levels(document, (cell.level for cell in run.plan.cells))


def _where(run: Run) -> str:
    """The machine or the clusters that did the I/O."""
    if elsewhere(run):
        return f"on {listed([cluster.name for cluster in run.plan.clusters])}"
    host = run.inventory("start")
    return f"on {host.hostname}" if host else ""


def _subtitle(run: Run) -> str:
    plan, manifest = run.plan, run.manifest
    last = manifest.sessions[-1].ended_at if manifest.sessions else None
    took = elapsed(manifest.created_at, last)
    label = run.manifest.cluster_label
    parts = [
        plan.description or plan.name,
        f"profile {listed(plan.profiles)}" if plan.profiles else "",
        _where(run),
        f"cluster {label}" if label else "",
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
    note = budget.omission if figures else "The plan has no cell."
    return Section(
        heading="Results",
        id="results",
        blocks=(Paragraph(text=note),) if note else (),
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
        else (Paragraph(text="The audit has no findings."),)
    )
    return Section(heading="Findings", id="findings", blocks=blocks)


def _methods() -> tuple[Block, ...]:
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
    return (methods,)


def _versions(run: Run) -> tuple[Block, ...]:
    sessions = run.manifest.sessions
    measured = listed(dict.fromkeys(session.leadline_version for session in sessions))
    pythons = listed(dict.fromkeys(session.python_version for session in sessions))
    return (
        KeyValues(
            pairs=(
                ("measured by", f"Leadline {measured}"),
                ("this report by", f"Leadline {__version__}"),
                ("engine", engine_texts(run) or "no trial"),
                ("Python", pythons),
                ("archive", run.manifest.schema_),
            )
        ),
    )
