"""What the files of a study would become: the answer of a dry run."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.archive.reader import Run, imported_files
from leadline.report.cells import number_column, quantity, table
from leadline.report.document import Document, Section
from leadline.text import count_text

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
            file.level,
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
