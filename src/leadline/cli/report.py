"""`leadline report`: a run as a page."""

from __future__ import annotations

from pathlib import Path

import click

from leadline import errors
from leadline.analysis.cells import figures
from leadline.archive.runs import find_run, runs_folder
from leadline.archive.verify import verify
from leadline.audit.registry import audit
from leadline.cli.options import run_argument, runs_option
from leadline.errors import Exit, LeadlineError
from leadline.report.build import run_document
from leadline.report.contracts import show_output

SUFFIXES = (".html", ".md", ".json", ".csv")


@click.command()
@run_argument
@runs_option
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; its ending chooses the form: " + ", ".join(SUFFIXES) + ".",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it is there.")
def command(run: str, runs: Path | None, path: Path, force: bool) -> Exit:
    """Write a run as one self-contained page (HTML), as Markdown, JSON or CSV.

    The archive is verified on the way, and the page says with what result.

    \b
    Example:
        leadline report @latest -o study.html
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise LeadlineError(
            errors.USAGE,
            f"a report cannot be written as {suffix!r}"
            if suffix
            else f"{str(path)!r} has no ending that says how to write the report",
            hint=f"end the name in {', '.join(SUFFIXES)}",
        )
    if path.exists() and not force:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} is there already",
            hint="give another name, or --force",
        )
    found = find_run(run, runs_folder(runs))
    findings = audit(found)
    cells = figures(found, findings)
    shown = show_output(found, cells, findings, trials=True)
    if suffix == ".json":
        text = shown.model_dump_json(by_alias=True, indent=2)
    elif suffix == ".csv":
        from leadline.report.tables import show_table

        text = show_table(shown, "csv")
    else:
        document = run_document(found, cells, findings, verify(found))
        if suffix == ".html":
            from leadline.report.html import render as html

            text = html(document, shown)
        else:
            from leadline.report.markdown import render as markdown

            text = markdown(document)
    try:
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name a file in a folder that exists and that you may write to",
        ) from error
    click.echo(str(path))
    return Exit.ANSWERED
