"""`leadline show`: what a run measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from leadline.analysis.figures import CellFigure, figures
from leadline.archive.reader import Run
from leadline.archive.runs import find_run
from leadline.audit.registry import audit
from leadline.cli.options import format_option, run_argument, runs_option
from leadline.cli.output import echo_rendered, print_document, print_json
from leadline.errors import Exit
from leadline.findings import Finding


@click.command()
@run_argument
@runs_option
@click.option("--trials", is_flag=True, help="Every trial's value, not only the cell's.")
@click.option("--details", is_flag=True, help="Also costs of an I/O, conditions and method.")
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(run: str, runs: Path, trials: bool, details: bool, output: str) -> Exit:
    """Show what a run measured: one row for each cell and operation, each number with its findings.

    JSON and CSV have the costs of an I/O, too.

    \b
    Example:
        leadline show @latest
        leadline show @latest --details
        leadline show perf-20261121 --trials --format csv
    """
    found = find_run(run, runs)
    findings = audit(found)
    cells = figures(found, findings)
    if output == "text":
        print_run(found, cells, findings, trials=trials, details=details)
        return Exit.ANSWERED
    from leadline.report.answers.run import show_output, show_table

    shown = show_output(found, cells, findings, trials=trials)
    if output == "json":
        print_json(shown)
    else:
        echo_rendered(show_table(shown, output, trials=trials))
    return Exit.ANSWERED


def print_run(
    run: Run,
    cells: tuple[CellFigure, ...],
    findings: Sequence[Finding],
    *,
    trials: bool = False,
    details: bool = False,
) -> None:
    """Print a run in the terminal; `trials` adds every trial's value, `details` the folded
    sections."""
    from leadline.report.pages.run.page import run_document

    document = run_document(run, cells, tuple(findings), charts=False)
    print_document(document, "text", trials=trials, full=details)
