"""`leadline report`: writes a run, or the comparison of two, as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline.cli.document_file import (
    DOCUMENT_FORMS,
    FORCE,
    FileContent,
    find_form,
    refuse_existing,
    render_file,
    write_files,
)
from leadline.cli.options import ComparisonRequest, compare_options, runs_option
from leadline.errors import Exit
from leadline.parallel import without_collection

if TYPE_CHECKING:
    from leadline.analysis.comparison import By, Side
    from leadline.archive.reader import Run
    from leadline.judge import Judge, Verified
    from leadline.report.document import Document
    from leadline.report.render.html import Download


# What `report` writes of a run or a comparison, and `verify` makes once more to check a page.

# CSV with texts that a spreadsheet takes for formulas.
RAW = ".raw.csv"
# Forms that are data for programs rather than a document; they do not say what was verified.
DATA = (".json", ".csv", RAW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is to be written: a document to be rendered with what its reader may save, or `text`
    as it is."""

    document: Document | None = None
    downloads: tuple[Download, ...] = ()
    text: str = ""


def rendered(written: Written) -> str:
    """The page; empty for what is no document."""
    from leadline.report.render.html import render

    return render(written.document, written.downloads) if written.document else ""


def of_run(run: Run, form: str, judge: Judge, verified: Verified) -> Written:
    """A run in the form of that file ending; `verified` gives its verification."""
    from leadline.report.answers.run import show_output, show_table

    cells, findings = judge(run)
    shown = show_output(run, cells, findings, trials=True)
    if form == ".json":
        return Written(text=shown.to_json())
    if form in (".csv", RAW):
        return Written(text=show_table(shown, "csv-raw" if form == RAW else "csv"))
    from leadline.report.pages.run.page import run_document
    from leadline.report.render.html import Download

    forms = (
        ("json", "JSON", "application/json", shown.to_json()),
        ("csv", "CSV", "text/csv", show_table(shown, "csv")),
        ("trials.csv", "CSV of every trial", "text/csv", show_table(shown, "csv", trials=True)),
    )
    return Written(
        document=run_document(run, cells, findings, verified()[0]),
        downloads=tuple(
            Download(
                name=f"{run.id}.{ending}", label=label, media_type=media_type, text=text + "\n"
            )
            for ending, label, media_type, text in forms
        ),
    )


def of_two(
    baseline: Side,
    candidate: Side,
    by: By,
    form: str,
    verified: Verified,
    *,
    band: float,
    between_runs: float,
) -> Written:
    """A comparison in the form of that file ending; `verified` gives the verifications of the
    archives, the baseline's first."""
    from leadline.analysis.compare import compare
    from leadline.report.answers.comparison import compare_csv, compare_output
    from leadline.report.pages.comparison.page import comparison_document

    comparison = compare(baseline, candidate, by=by, band=band, between_runs=between_runs)
    if form in DATA:
        document = comparison_document(comparison)
    else:
        document = comparison_document(comparison, verified())
    answer = compare_output(comparison, document.summary[0] if document.summary else "")
    if form == ".json":
        return Written(text=answer.to_json())
    if form in (".csv", RAW):
        return Written(text=compare_csv(answer, "csv-raw" if form == RAW else "csv"))
    from leadline.report.render.html import Download

    name = f"{candidate.name}-against-{baseline.name}"
    whole = answer.without_folders().to_json()
    return Written(
        document=document,
        downloads=(
            Download(name=f"{name}.json", media_type="application/json", text=whole + "\n"),
            Download(name=f"{name}.csv", media_type="text/csv", text=compare_csv(answer) + "\n"),
        ),
    )


FORMS = (*DOCUMENT_FORMS, *DATA)


@click.command()
@click.argument("baseline", metavar="[RUN|BASE]", default="@latest")
@click.argument("candidate", metavar="[CANDIDATE]", required=False)
@runs_option
@compare_options
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; its ending chooses the form: " + ", ".join(FORMS) + ".",
)
@FORCE
def command(band: float, between_runs: float, path: Path, force: bool, **given: Any) -> Exit:
    """Write a run, or a comparison of two, as one self-contained page (HTML), as Markdown with its
    charts in a folder next to it, as JSON or CSV, as an Excel workbook of its tables, as PDF, as a
    picture of the first screen (PNG), or as a page laid out for paper (.pdf-ready).
    In .csv, not in .raw.csv, texts that spreadsheets take for formulas have a ' in front.

    Archives are verified on the way, and the page says with what result.

    \b
    Example:
        leadline report @latest -o study.html
        leadline report study-single-zone study-multi-zone -o study.html
        leadline report rep3 rep2 --by target --run @latest -o copies.md
    """
    form = find_form(path, FORMS)
    refuse_existing(path, force)
    with without_collection():
        written = _compose(ComparisonRequest(**given), form, band=band, between_runs=between_runs)
        if written.document is None:
            files = FileContent(content=(written.text.rstrip("\n") + "\n").encode())
        else:
            files = render_file(written.document, written.downloads, path, form)
    write_files(path, files, force=force)
    return Exit.ANSWERED


def _compose(request: ComparisonRequest, kind: str, *, band: float, between_runs: float) -> Written:
    from leadline.judge import judging

    runs = request.find_runs()
    with judging(runs, verifying=kind not in DATA) as (judge, verified):
        compared = request.kind
        if request.candidate is None and request.by in ("run", "cluster"):
            return of_run(runs[0], kind, judge, verified)
        sides = request.find_sides(judge)
        return of_two(*sides, compared, kind, verified, band=band, between_runs=between_runs)
