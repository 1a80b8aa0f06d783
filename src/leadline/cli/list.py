"""`leadline list`: the runs there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from leadline.archive.runs import age, list_runs
from leadline.cli.options import format_option, runs_option
from leadline.cli.output import echo_line, echo_rendered, print_json
from leadline.errors import Exit

_NAMES_SHOWN = 4


@click.command()
@runs_option
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(runs: Path, output: str) -> Exit:
    """List the runs, oldest first.

    \b
    Example:
        leadline list
        leadline list --runs /srv/benchmarks --format json
    """
    from leadline.report.answers.run import list_output

    answer = list_output(sorted(list_runs(runs), key=age))
    if not answer.runs:
        echo_line(f"no runs in {runs}", err=True)
    if output == "json":
        print_json(answer)
        return Exit.ANSWERED
    from leadline.report.render.rows import render_rows

    columns = ("run", "status", "trials", "targets", "profiles")
    rows = [
        (
            run.run,
            run.status,
            f"{run.trials}/{run.trials_planned}",
            _few(run.targets) if output == "text" else ", ".join(run.targets),
            ", ".join(run.profiles),
        )
        for run in answer.runs
    ]
    echo_rendered(render_rows(columns, rows, output))
    return Exit.ANSWERED


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
