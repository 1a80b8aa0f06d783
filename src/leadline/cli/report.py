"""`leadline report`: a run, or two of them beside each other, as a file to keep and to send."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.cli.compare_options import compare_options, find_sides, judged, parse_band
from leadline.cli.options import runs_option
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from leadline.report.document import Document
    from leadline.report.html import Download

# The page as it would be on paper; a name may end in `.pdf-ready.html`, so that browsers know it.
PAPER = ".pdf-ready"
SUFFIXES = (".html", ".md", ".json", ".csv", PAPER)


@click.command()
@click.argument("run", metavar="[RUN|BASE]", default="@latest")
@click.argument("candidate", metavar="[CANDIDATE]", required=False)
@runs_option
@compare_options
@click.option(
    "-o",
    "--output",
    "path",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; its ending chooses the form: " + ", ".join(SUFFIXES) + ".",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def command(
    run: str,
    candidate: str | None,
    runs: Path | None,
    by: str,
    within: str,
    band: str,
    path: Path,
    force: bool,
) -> Exit:
    """Write a run, or a comparison of two, as one self-contained page (HTML), as Markdown with its
    charts beside it, as JSON or CSV, or as a page laid out for paper (.pdf-ready).

    Archives are verified on the way, and the page says with what result.

    \b
    Example:
        leadline report @latest -o study.html
        leadline report study-single-zone study-multi-zone -o study.html
        leadline report rep3 rep2 --by target --run @latest -o copies.md
    """
    kind = _kind(path)
    _refuse_existing(path, force)
    if candidate is None:
        told = _of_run(run, runs, kind)
    else:
        told = _of_two(run, candidate, by, within, runs, parse_band(band), kind)
    content, beside = _rendered(told, path, kind)
    for name in beside:
        _refuse_existing(path.parent / name, force)
    _write(path, content)
    for name, text in beside.items():
        _write(path.parent / name, text, beside=True)
    click.echo(str(path))
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is to be written: a document to be rendered with what its reader may save, or `text`
    as it is."""

    document: Document | None = None
    downloads: tuple[Download, ...] = ()
    text: str = ""


def _kind(path: Path) -> str:
    name = path.name.lower()
    if name.endswith((PAPER, PAPER + ".html")):
        return PAPER
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return suffix
    raise LeadlineError(
        errors.USAGE,
        f"a report cannot be written as {suffix!r}"
        if suffix
        else f"{str(path)!r} has no ending that says how to write the report",
        hint=f"end the name in {', '.join(SUFFIXES)}",
    )


def _of_run(name: str, runs: Path | None, kind: str) -> _Told:
    from leadline.archive.runs import find_run, runs_folder
    from leadline.report.contracts import show_output
    from leadline.report.tables import show_table

    run = find_run(name, runs_folder(runs))
    cells, findings = judged(run)
    shown = show_output(run, cells, findings, trials=True)
    if kind == ".json":
        return _Told(text=shown.model_dump_json(by_alias=True, indent=2))
    if kind == ".csv":
        return _Told(text=show_table(shown, "csv"))
    from leadline.archive.verify import verify
    from leadline.report.build import run_document
    from leadline.report.html import Download

    whole = shown.model_dump_json(by_alias=True, indent=2) + "\n"
    return _Told(
        document=run_document(run, cells, findings, verify(run)),
        downloads=tuple(
            Download(name=f"{run.id}.{ending}", media_type=media_type, text=content)
            for ending, media_type, content in (
                ("json", "application/json", whole),
                ("csv", "text/csv", show_table(shown, "csv") + "\n"),
                ("trials.csv", "text/csv", show_table(shown, "csv", trials=True) + "\n"),
            )
        ),
    )


def _of_two(
    baseline: str, candidate: str, by: str, within: str, runs: Path | None, band: float, kind: str
) -> _Told:
    from leadline.analysis.comparing import compare
    from leadline.analysis.comparison import By
    from leadline.report.compare_output import compare_csv, compare_output
    from leadline.report.comparison import comparison_document

    ours, theirs = find_sides(baseline, candidate, by, within, runs)
    comparison = compare(ours, theirs, by=By(by), band=band)
    if kind in (".json", ".csv"):
        document = comparison_document(comparison)
    else:
        from leadline.archive.verify import verify

        verified = verify(ours.run)
        same = ours.run.path == theirs.run.path
        document = comparison_document(
            comparison, (verified, verified if same else verify(theirs.run))
        )
    answer = compare_output(comparison, document.summary[0] if document.summary else "")
    whole = answer.model_dump_json(by_alias=True, indent=2)
    if kind == ".json":
        return _Told(text=whole)
    if kind == ".csv":
        return _Told(text=compare_csv(answer))
    from leadline.report.html import Download

    name = f"{theirs.name}-against-{ours.name}"
    return _Told(
        document=document,
        downloads=(
            Download(name=f"{name}.json", media_type="application/json", text=whole + "\n"),
            Download(name=f"{name}.csv", media_type="text/csv", text=compare_csv(answer)),
        ),
    )


def _rendered(told: _Told, path: Path, kind: str) -> tuple[str, Mapping[str, str]]:
    """The file's text, and the texts of those beside it by their relative names."""
    if told.document is None:
        return told.text, {}
    if kind == ".md":
        from leadline.report.markdown import render_with_pictures

        return render_with_pictures(told.document, f"{path.stem}-charts")
    from leadline.report.html import render

    return render(told.document, told.downloads, ready_to_print=kind == PAPER), {}


def _refuse_existing(path: Path, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} is there already",
            hint="give another name, or --force",
        )


def _write(path: Path, text: str, *, beside: bool = False) -> None:
    """`beside` the report, in a folder of its own, which is made."""
    try:
        if beside:
            path.parent.mkdir(exist_ok=True)
        path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name a file in a folder that exists and that you may write to",
        ) from error
