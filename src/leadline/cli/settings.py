"""`leadline settings`: what does each setting buy, and what does it cost?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.cli.document_file import check_destination, document_options, put_document
from leadline.cli.options import band_option, format_option, run_argument, runs_option
from leadline.cli.output import echo_rendered, print_document, print_json
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.settings.facts import SettingsStudy
    from leadline.report.answers.settings import SettingsAskedOutput
    from leadline.report.document import Document
    from leadline.report.render.html import Download


@click.command()
@run_argument
@runs_option
@band_option("Equivalence margin: smaller changes count as none.")
@click.option("--details", is_flag=True, help="Also each cell, and the method.")
@document_options
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(
    run: str,
    runs: Path,
    band: float,
    details: bool,
    path: Path | None,
    force: bool,
    output: str,
) -> Exit:
    """Compare each value of each setting of a run with the present state: the change of rates and
    p99 latencies with its interval, and what it costs the storage; recommend a set of values with
    the commands that apply it.

    The run is of a plan with `settings:`. Ends with exit status 6 for another one.

    \b
    Example:
        leadline settings @latest
        leadline settings study --format json
        leadline settings study --format csv > settings.csv
        leadline settings study -o settings.html
    """
    from leadline.analysis.settings.study import study_settings
    from leadline.archive.runs import find_run
    from leadline.judge import Judge
    from leadline.report.answers.settings import (
        SETTINGS_COLUMNS,
        SettingsAskedOutput,
        settings_output,
        settings_rows,
    )
    from leadline.report.render.rows import render_rows

    check_destination(path, output, force)
    found = find_run(run, runs)
    study = study_settings(found, *Judge()(found), band=band)
    if output == "json":
        print_json(settings_output(study))
        return Exit.ANSWERED
    if output in ("csv", "csv-raw"):
        rows = settings_rows(settings_output(study))
        echo_rendered(render_rows(SETTINGS_COLUMNS, rows, output))
        return Exit.ANSWERED
    document, downloads = of_settings(study, SettingsAskedOutput(band=band))
    if path is None:
        print_document(document, output, full=details)
    else:
        put_document(document, output, path, force, downloads)
    return Exit.ANSWERED


def of_settings(
    study: SettingsStudy, asked: SettingsAskedOutput
) -> tuple[Document, tuple[Download, ...]]:
    """The page of a settings study, as `-o` writes it and `verify` makes it again."""
    from leadline.report.answers.settings import SETTINGS_COLUMNS, settings_output, settings_rows
    from leadline.report.pages.settings.page import settings_document
    from leadline.report.render.html import Download
    from leadline.report.render.rows import render_rows

    answer = settings_output(study, asked)
    name = f"{study.run.id}-settings"
    table = render_rows(SETTINGS_COLUMNS, settings_rows(answer), "csv") + "\n"
    return settings_document(study), (
        Download(name=f"{name}.json", media_type="application/json", text=answer.to_json() + "\n"),
        Download(name=f"{name}.csv", media_type="text/csv", text=table),
    )
