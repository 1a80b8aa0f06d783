"""What an import made of its files, and what a dry run would make of them."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.archive.reader import Run, imported_files
from leadline.archive.records import TrialStatus
from leadline.findings import Finding, Severity, aggregate
from leadline.report.cells import number_column, quantity, table
from leadline.report.document import Block, Cell, Document, Section, Table
from leadline.report.words import level_name
from leadline.text import count_text, listed

_COLUMNS = ("file", "cluster", "target", "workload", "level", number_column("repeat"), "client")


def dry_run_document(runs: Sequence[Run], layout: str, reason: str) -> Document:
    """Build the table of files: the cluster, target, workload, level, repeat and client of each.

    `layout` is empty where none was used; `reason` says how it was found.
    """
    rows = [
        (
            file.file,
            file.cluster,
            file.target,
            file.workload,
            level_name(file.level),
            quantity(str(file.repeat), file.repeat),
            file.client,
        )
        for file in imported_files(runs)
    ]
    trials = sum(len(run.plan.trials) for run in runs)
    cells = sum(len(run.plan.cells) for run in runs)
    summary = [
        f"{count_text(len(rows), 'file')}: {count_text(trials, 'trial')} in {cells:,} cells."
    ]
    if layout:
        summary.append(f"Layout {layout}: {reason}.")
    files = table("files", _COLUMNS, rows)
    return Document(
        title="Dry run of an import",
        subtitle="",
        summary=tuple(summary),
        sections=(Section(heading="Files", id="files", blocks=(files,)),),
        marked=(),
    )


def import_document(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> Document:
    """Build the result of an import: a row per run, and one per rule with findings."""
    count = sum(len(run.plan.trials) for run, _ in audited)
    into = count_text(len(audited), "run")
    names = listed(run.id for run, _ in audited)
    summary = [f"{count_text(count, 'result')} imported into {into}: {names}."]
    errors = sum(
        finding.severity is Severity.ERROR for _, findings in audited for finding in findings
    )
    summary.append(
        f"{count_text(errors, 'error finding')}: do not use those numbers."
        if errors
        else "The audit found no error."
    )
    summary.append(
        f"`leadline show {audited[-1][0].id}` shows the numbers, `leadline audit "
        f"{audited[-1][0].id}` the findings."
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
        rows.append((run.id, run.manifest.cluster_label, *map(_number, numbers)))
    titles = ("targets", "cells", "results", "unreadable", "errors", "warnings")
    return table("runs", ("run", "cluster", *map(number_column, titles)), rows)


def _rules(audited: Sequence[tuple[Run, Sequence[Finding]]]) -> Table:
    """Build a row for each finding with its cells: all of one code and severity are one."""
    findings = sorted(
        (finding for _, found in audited for finding in found),
        key=lambda finding: -finding.severity.order,
    )
    rows = []
    for found in aggregate(findings):
        cells = len({(cell.target, cell.workload, cell.level) for cell in found.cells})
        trials = sum(len(cell.trials) for cell in found.cells)
        rows.append((found.code, found.severity.value, _number(cells), _number(trials)))
    titles = ("cells", "trials")
    return table("rules", ("found by the audit", "severity", *map(number_column, titles)), rows)


def _number(value: int) -> Cell:
    return quantity(f"{value:,}" if value else "–", value)


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(finding.severity is severity for finding in findings)
