"""What an import gave: its runs, and what the audit says of them in a line each."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.archive.reader import Run
from leadline.archive.records import TrialStatus
from leadline.findings import Finding, Severity
from leadline.report.document import Block, Cell, Column, Document, Kind, Section, Table
from leadline.report.wording import count_text, listed, visible


def import_document(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> Document:
    """One row a run, and one a rule that found something."""
    count = sum(len(run.plan.trials) for run, _ in audited)
    into = count_text(len(audited), "run")
    names = listed(visible(run.id) for run, _ in audited)
    summary = [f"{count_text(count, 'result')} imported into {into}: {names}."]
    errors = sum(
        finding.severity is Severity.ERROR for _, findings in audited for finding in findings
    )
    summary.append(
        f"{count_text(errors, 'error finding')}: those numbers must not be used."
        if errors
        else "The audit found no error."
    )
    summary.append(
        f"`leadline show {audited[-1][0].id}` shows the numbers, `leadline audit "
        f"{audited[-1][0].id}` every doubt about them."
    )
    blocks: list[Block] = [_runs(audited)]
    if any(findings for _, findings in audited):
        blocks.append(_rules(audited))
    return Document(
        title="Imported results",
        subtitle="",
        summary=tuple(summary),
        sections=(Section(heading="Runs", id="imported", blocks=tuple(blocks)),),
        marked=(),
    )


def _runs(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> Table:
    rows = []
    for run, findings in audited:
        trials = run.plan.trials
        read = sum(trial.record.status is TrialStatus.COMPLETED for trial in run.trials)
        numbers = [
            len(run.plan.targets),
            len(run.plan.cells),
            len(trials),
            len(trials) - read,
            _count(findings, Severity.ERROR),
            _count(findings, Severity.WARNING),
        ]
        cluster = visible(run.manifest.cluster_label)
        rows.append((Cell(text=visible(run.id)), Cell(text=cluster or "–"), *map(_number, numbers)))
    titles = ("targets", "cells", "results", "unreadable", "errors", "warnings")
    columns = (Column(title="run"), Column(title="cluster"))
    return Table(
        id="runs",
        caption="",
        columns=(*columns, *(Column(title=title, kind=Kind.NUMBER) for title in titles)),
        rows=tuple(rows),
    )


def _rules(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> Table:
    counts: dict[str, dict[Severity, int]] = {}
    for _, findings in audited:
        for finding in findings:
            found = counts.setdefault(finding.code, dict.fromkeys(Severity, 0))
            found[finding.severity] += 1
    order = (Severity.ERROR, Severity.WARNING, Severity.INFO)
    rows = tuple(
        (Cell(text=code), *(_number(found[severity]) for severity in order))
        for code, found in counts.items()
    )
    titles = ("errors", "warnings", "infos")
    columns = (
        Column(title="found by the audit"),
        *(Column(title=title, kind=Kind.NUMBER) for title in titles),
    )
    return Table(id="rules", caption="", columns=columns, rows=rows)


def _number(value: int) -> Cell:
    return Cell(text=f"{value:,}" if value else "–", sort=float(value))


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)
