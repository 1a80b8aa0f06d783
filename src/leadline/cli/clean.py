"""`leadline clean`: remove what a killed run left on its targets."""

from __future__ import annotations

from pathlib import Path

import click

from leadline.archive.runs import find_run, list_runs, runs_folder
from leadline.archive.writer import RunWriter
from leadline.cli.options import runs_option
from leadline.errors import Exit
from leadline.targets.open import remove_leftovers


@click.command()
@click.argument("run", required=False)
@runs_option
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(run: str | None, runs: Path | None, dry_run: bool) -> Exit:
    """Remove what a killed run (kill -9, power cut) or a cluster in trouble left on its targets:
    folders, RBD images, objects, and labs that were brought up for the run.

    Only what the archive tells of and carries the run's own mark is touched; files that Leadline
    did not make stay. Without a run, all runs are looked at. The archive itself keeps all its
    results.

    \b
    Example:
        leadline clean
        leadline clean perf-20261121-120000 --dry-run
    """
    folder = runs_folder(runs)
    found = [find_run(run, folder)] if run else list_runs(folder)
    left = [one for one in found if one.left_behind]
    for one in left:
        if dry_run:
            for created in one.left_behind:
                click.echo(f"{one.id}: would remove {created.path}")
            continue
        with RunWriter.tidying(one.path) as writer:
            for sentence in remove_leftovers(one, writer):
                click.echo(f"{one.id}: {sentence}")
    if not left:
        click.echo("nothing was left behind")
    return Exit.ANSWERED
