"""`leadline drill`: what the drills of a run cost its clients."""

from __future__ import annotations

from pathlib import Path

import click

from leadline.cli.options import format_option, runs_option
from leadline.cli.output import print_document, print_json
from leadline.errors import Exit


@click.command()
@click.argument("name", metavar="[RUN]", default="@latest")
@runs_option
@format_option("text", "json", "markdown")
def command(name: str, runs: Path, output: str) -> Exit:
    """Show what the drills of a run (`drill:` in its plan) cost the clients: rate and p99 before,
    during and after the event and while the cluster recovered, the longest time without an I/O,
    and the time until the rate was back and the cluster whole.

    Without RUN the latest one. The page of the run (`leadline report`) has the same section, and
    `leadline verify` checks its numbers.

    \b
    Example:
        leadline run plans/zone-drill.yaml
        leadline drill @latest
        leadline drill zone-drill --format json
    """
    from leadline.archive.runs import find_run

    run = find_run(name, runs)
    if output == "json":
        from leadline.analysis.drill import find_drills
        from leadline.report.answers.drill import drill_output

        print_json(drill_output(run.id, find_drills(run)))
        return Exit.ANSWERED
    from leadline.report.pages.drill import drill_document

    print_document(drill_document(run), output)
    return Exit.ANSWERED
