"""The audit of one run as a document, and its parts on the page of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from leadline.analysis.figures import Absence, CellFigure, MetricFigure
from leadline.analysis.workloads import reported_rate
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, TrialStatus
from leadline.findings import Finding, Severity
from leadline.formats.result import JobOptions
from leadline.metrics import PERCENTILES, STAGES, Metric
from leadline.plan.workload import Recorded
from leadline.report.document import Block, Document, Paragraph, Section
from leadline.report.marks import Marks, finding_list
from leadline.report.pages.comparison.explanations import range_text
from leadline.report.pages.comparison.takeaways import DEPTH_NOT_REACHED, one_of_each_job
from leadline.report.pages.run.conditions import elapsed, elsewhere, moment, unfinished_table
from leadline.report.words import (
    count_text,
    listed,
    place,
    severities_text,
    share_text,
    short_levels,
    title,
)


def findings_document(
    run: Run, figures: tuple[CellFigure, ...], findings: tuple[Finding, ...]
) -> Document:
    """Build the audit of a run, without the run's numbers."""
    marks = Marks(findings)
    with short_levels(cell.level for cell in run.plan.cells) as shared:
        return Document(
            title=f"Audit of {run.id}",
            subtitle=place(subtitle(run), shared),
            summary=(
                measured_sentence(run, findings),
                *audit_sentences(run, figures, findings, marks),
            ),
            sections=(*unfinished_sections(run), findings_section(findings, marks)),
            marked=marks.all,
        )


def measured_sentence(run: Run, findings: Sequence[Finding]) -> str:
    """Say how much of a run was measured."""
    plan = run.plan
    completed = sum(trial.record.status is TrialStatus.COMPLETED for trial in run.trials)
    of = f"{completed:,} of {count_text(len(plan.trials), 'trial')} completed"
    targets = count_text(len(plan.targets), "target")
    workloads = count_text(len({cell.workload.name for cell in plan.cells}), "workload")
    extent = f"{count_text(len(plan.cells), 'cell')} ({targets}, {workloads})"
    state = {
        RunStatus.COMPLETE: "",
        RunStatus.INTERRUPTED: " The run was interrupted; `leadline run --resume` goes on with it.",
        RunStatus.GUARDED: " The guard stopped the run; `leadline run --resume` goes on with it.",
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


def audit_sentences(
    run: Run, figures: Sequence[CellFigure], findings: Sequence[Finding], marks: Marks
) -> list[str]:
    """Summarise failures, findings, missing numbers and the spread of repeats."""
    apart = {cell.workload.name for cell in run.plan.cells if not cell.workload.in_blocks}
    return [
        *_failed(run),
        *_audited(figures, findings, marks),
        *remaining_sentence(run, findings),
        *_missing(figures),
        *_not_shown([row for row in figures if row.planned_workload not in apart]),
        *_spread(figures),
    ]


def _failed(run: Run) -> list[str]:
    """Count the trials that gave no result, with the most frequent reason."""
    records = [trial.record for trial in run.trials]
    failed = [record for record in records if record.status is not TrialStatus.COMPLETED]
    if not failed:
        return []
    facts = Counter(
        record.problem.fact if record.problem else record.status.value for record in failed
    )
    most = facts.most_common(1)[0]
    of = f"{len(failed):,} of {count_text(len(records), 'trial')} failed"
    more = "" if most[1] == len(failed) else f" ({most[1]:,})"
    return [f"{of}: {most[0]}{more}."]


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
        codes = listed(mark.code for mark in marks.all if mark.severity is severity)
        subject = count_text(len(found), f"{severity.value} finding")
        if touched:
            rows = f"{touched:,} of {count_text(len(figures), 'result')}"
            where = " in latencies" if all(finding.latency_only for finding in found) else ""
            subject += f" on {rows}{where}"
        advice = " Do not use these numbers." if severity is Severity.ERROR and touched else ""
        sentences.append(f"{subject}: {codes}.{advice}")
    everywhere = [
        finding.code
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
        few = [figure for figure in without if figure.absence is Absence.TOO_FEW_IOS]
        rows = count_text(len(without), "row")
        text = f"{title(metric)} in {rows}"
        key = "too few I/Os" if len(few) == len(without) else "not measured"
        reasons.setdefault(key, []).append(text)
    return [f"Not shown, {reason}: {listed(texts)}." for reason, texts in reasons.items()]


def _rate(figure: CellFigure) -> MetricFigure:
    return figure.metric(shown_rate(figure))


def _spread(figures: Sequence[CellFigure]) -> list[str]:
    spreads = [
        (spread, figure) for figure in figures if (spread := _rate(figure).spread) is not None
    ]
    if not spreads:
        means = [rate for rate in map(_rate, figures) if rate.variation is not None]
        if means:
            numbers = [rate.repeats for rate in means]
            of = range_text(f"{min(numbers):,}", f"{max(numbers):,}")
            scatter = share_text(median(rate.variation or 0.0 for rate in means))
            return [f"Means of {of} trials; coefficient of variation {scatter} in the median row."]
        if any(not figure.missing for figure in figures):
            return ["One trial per cell: the spread of repeats is unknown."]
        return []
    values = [spread for spread, _ in spreads]
    worst, where = max(spreads, key=lambda pair: pair[0])
    op = where.op.value if where.op else ""
    cell = place(where.target, where.workload, where.level, op)
    rates = dict.fromkeys(title(shown_rate(figure), figure.op) for _, figure in spreads)
    measure = f"Spread of trials, (highest - lowest) / median {' or '.join(rates)}"
    usual, most = share_text(median(values)), share_text(worst)
    if len(spreads) == 1:
        return [f"{measure}: {most} ({cell})."]
    return [f"{measure}: {usual} in the median row, {most} at most ({cell})."]


def shown_rate(figure: CellFigure) -> Metric:
    """IOPS, or bandwidth where a figure has nothing else, such as a stream; the time of a stage."""
    if figure.op in STAGES:
        return Metric.LATENCY_MEAN
    return reported_rate(Metric.IOPS, lambda metric: figure.metric(metric).value is not None)


def subtitle(run: Run) -> str:
    """Say what a run is: its plan, its place and its time."""
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


def _where(run: Run) -> str:
    """The machine or the clusters that did the I/O."""
    if elsewhere(run):
        return f"on {listed([cluster.name for cluster in run.plan.clusters])}"
    host = run.inventory("start")
    return f"on {host.hostname}" if host else ""


def unfinished_sections(run: Run) -> tuple[Section, ...]:
    """List the trials without a result; empty where all have one."""
    table = unfinished_table(run)
    if table is None:
        return ()
    of = f"{len(table.rows):,} of {len(run.plan.trials):,}"
    heading, anchor = "Trials without a result", "unfinished-trials"
    return (Section(heading=heading, id=anchor, blocks=(table,), result=of),)


def findings_section(findings: tuple[Finding, ...], marks: Marks) -> Section:
    """List the findings of the audit."""
    blocks: tuple[Block, ...] = (
        (finding_list(findings, marks),)
        if findings
        else (Paragraph(text="The audit has no findings."),)
    )
    result = severities_text(finding.severity for finding in findings) if findings else ""
    return Section(heading="Findings", id="findings", blocks=blocks, result=result)
