"""`leadline list`: the runs there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from leadline.archive.runs import list_runs, runs_folder
from leadline.cli.options import echo_line, echo_rendered, format_option, runs_option
from leadline.errors import Exit

_NAMES_SHOWN = 4


@click.command()
@runs_option
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(runs: Path | None, output: str) -> Exit:
    """List the runs, oldest first.

    \b
    Example:
        leadline list
        leadline list --runs /srv/benchmarks --format json
    """
    from leadline.report.answers.run import list_output

    folder = runs_folder(runs)
    found = list_output(list_runs(folder))
    if not found.runs:
        echo_line(f"no runs in {folder}", err=True)
    if output == "json":
        echo_rendered(found.to_json())
        return Exit.ANSWERED
    from leadline.report.render.rows import render_rows

    columns = ("run", "status", "trials", "targets", "profiles")
    rows = [
        (
            one.run,
            one.status,
            f"{one.trials}/{one.trials_planned}",
            _few(one.targets) if output == "text" else ", ".join(one.targets),
            ", ".join(one.profiles),
        )
        for one in found.runs
    ]
    echo_rendered(render_rows(columns, rows, output))
    return Exit.ANSWERED


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
