"""What a run says in short, computed from its figures and its ranking."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from leadline.analysis.cells import CellFigure
from leadline.analysis.comparison import Comparison
from leadline.analysis.ranking import Ranking
from leadline.archive.reader import Run
from leadline.archive.records import RunStatus, TrialStatus
from leadline.archive.verify import Verification
from leadline.findings import Finding, Severity
from leadline.metrics import PERCENTILES, Metric
from leadline.report.marks import Marks
from leadline.report.run.comparisons import comparison_sentences
from leadline.report.run.ranking import leading, undecided
from leadline.report.run.remaining import remaining_sentence
from leadline.report.run.results import told_rate
from leadline.report.wording import count_text, listed, place, share_text, title, visible


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
    """Sentences, the most important first: how clusters compare; which target leads, if the
    evidence tells; what the load curves say (`loads`); what was measured, what speaks against it,
    what is not shown and why, how far the trials lie apart, whether the archive is intact."""
    said = [*comparison_sentences(comparisons)]
    said += [sentence for sentence in (leading(ranking),) if sentence]
    said += loads
    said.append(_measured(run, findings))
    said += [sentence for sentence in (undecided(ranking),) if sentence]
    said += _judged(figures, findings, marks)
    said += remaining_sentence(run, findings)
    said += _missing(figures)
    streams = {cell.workload.name for cell in run.plan.cells if cell.workload.streams}
    said += _not_shown([one for one in figures if one.planned_workload not in streams])
    said += _spread(figures)
    if verification is not None:
        said.append(_verified(verification))
    return tuple(said)


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
    # Silence of the audit says something only where there was a number to judge.
    silent = "no error and no warning found" if completed else "there is no number to judge"
    return f"{of} in {extent}; {listed(found) or silent}.{state}"


def _judged(figures: Sequence[CellFigure], findings: Sequence[Finding], marks: Marks) -> list[str]:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
    said = []
    for severity, found, meaning in (
        (Severity.ERROR, errors, "these must not be used"),
        (Severity.WARNING, warnings, "use these knowing why"),
    ):
        if not found:
            continue
        touched = sum(
            any(
                doubt.severity is severity and not doubt.whole_run
                for metric in row.metrics
                for doubt in metric.doubts
            )
            for row in figures
        )
        codes = listed(
            f"{mark.code} ({mark.label})" for mark in marks.all if mark.severity is severity
        )
        count = count_text(len(found), f"{severity.value} finding")
        what = "latencies" if all(finding.latency_only for finding in found) else "numbers"
        rows = f"{touched:,} of {count_text(len(figures), 'row')} of {what}"
        which = f" {rows} touched; {meaning}." if touched else ""
        said.append(f"{count}: {codes}.{which}")
    everywhere = [
        f"{marks.of(finding).label} ({finding.code})"
        for finding in [*errors, *warnings]
        if not (finding.target or finding.workload or finding.level or finding.trial or finding.op)
    ]
    if everywhere:
        labels = listed(dict.fromkeys(everywhere))
        said.append(f"Every number of the run is touched by {labels}.")
    return said


def _missing(figures: Sequence[CellFigure]) -> list[str]:
    missing = [figure for figure in figures if figure.missing]
    if not missing:
        return []
    names = listed(
        dict.fromkeys(place(row.target, row.workload, row.level) for row in missing), limit=3
    )
    return [f"Missing, for want of a completed trial: {names}."]


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
        few = [one for one in without if "fewer than" in one.absence]
        rows = count_text(len(without), "row")
        text = f"{title(metric)} in {rows}"
        key = "too few I/Os" if len(few) == len(without) else "not measured"
        reasons.setdefault(key, []).append(text)
    return [f"Not shown, {reason}: {listed(texts)}." for reason, texts in reasons.items()]


def _spread(figures: Sequence[CellFigure]) -> list[str]:
    spreads = [
        (spread, figure)
        for figure in figures
        if (spread := figure.metric(told_rate(figure)).spread) is not None
    ]
    if not spreads:
        if any(not figure.missing for figure in figures):
            return ["One trial of each cell: what a repeat would give is not known."]
        return []
    values = [spread for spread, _ in spreads]
    worst, where = max(spreads, key=lambda pair: pair[0])
    op = where.op.value if where.op else ""
    cell = place(where.target, where.workload, where.level, op)
    rates = dict.fromkeys(title(told_rate(figure)) for _, figure in spreads)
    said = f"Spread of trials, (highest - lowest) / median {' or '.join(rates)}"
    usual, most = share_text(median(values)), share_text(worst)
    if len(spreads) == 1:
        return [f"{said}: {most} ({cell})."]
    return [f"{said}: {usual} in the middle row, {most} at most ({cell})."]


def _verified(verification: Verification) -> str:
    checked = (
        f"{count_text(verification.files, 'file')} and "
        f"{count_text(verification.numbers, 'derived number')}"
    )
    if verification.ok:
        return f"The archive is intact: {checked} checked against checksums and raw output."
    count = count_text(len(verification.problems), "problem")
    first = verification.problems[0]
    return (
        f"The archive is NOT intact: {count} in {checked}; first "
        f"{visible(first.path)}: {visible(first.message)}."
    )
