"""`leadline verify`: is an archive still what was sealed, and do its numbers follow from raw?"""

from __future__ import annotations

from pathlib import Path

import click

from leadline.archive.runs import find_run, runs_folder
from leadline.archive.verify import verify
from leadline.cli.options import format_option, run_argument, runs_option
from leadline.errors import Exit
from leadline.visible import visible


@click.command()
@run_argument
@runs_option
@format_option("text", "json")
def command(run: str, runs: Path | None, output: str) -> Exit:
    """Check every checksum of an archive and recompute every derived number from raw output.

    Ends with exit status 1 if anything is not as it should be, and says where.

    \b
    Example:
        leadline verify @latest
        leadline verify /srv/benchmarks/perf-20261121-120000 --format json
    """
    found = find_run(run, runs_folder(runs))
    verification = verify(found)
    if output == "json":
        from leadline.report.contracts import verify_output

        click.echo(verify_output(verification).model_dump_json(by_alias=True, indent=2))
    else:
        click.echo(
            f"{found.path}: {verification.files} files, {verification.numbers} numbers checked"
        )
        for problem in verification.problems:
            click.echo(f"problem: {visible(problem.path)}: {visible(problem.message)}")
        count = len(verification.problems)
        click.echo(f"{count} problem{'s' if count > 1 else ''}" if count else "ok")
    return Exit.ANSWERED if verification.ok else Exit.NEGATIVE
