"""`leadline audit`: which numbers of a run can be believed?"""

from __future__ import annotations

from pathlib import Path

import click

from leadline.archive.runs import find_run, runs_folder
from leadline.audit.registry import audit, trusted
from leadline.cli.options import format_option, run_argument, runs_option
from leadline.errors import Exit


@click.command()
@run_argument
@runs_option
@format_option("text", "json", "markdown")
def command(run: str, runs: Path | None, output: str) -> Exit:
    """Say which numbers of a run can be believed, and why the others cannot.

    Ends with exit status 1 if any finding is an error: such numbers enter no ranking.

    \b
    Example:
        leadline audit @latest
        leadline explain queue-depth-not-reached
    """
    found = find_run(run, runs_folder(runs))
    findings = audit(found)
    if output == "json":
        from leadline.report.contracts import audit_output

        click.echo(audit_output(found, findings).model_dump_json(by_alias=True, indent=2))
    else:
        from leadline.analysis.cells import figures
        from leadline.report.build import findings_document

        document = findings_document(found, figures(found, findings), findings)
        if output == "markdown":
            from leadline.report.markdown import render as markdown

            click.echo(markdown(document).rstrip())
        else:
            from leadline.report.terminal import render, standard_output

            render(standard_output(), document, trials=True)
    return Exit.ANSWERED if trusted(findings) else Exit.NEGATIVE
