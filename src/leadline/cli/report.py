"""`leadline report`: a run, or two of them beside each other, as a file to keep and to send."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from leadline import errors
from leadline.cli.compare_options import (
    compare_options,
    find_sides,
    of_kind,
    parse_band,
    runs_named,
)
from leadline.cli.options import runs_option
from leadline.cli.written import DATA, PAPER, Written, of_run, of_two
from leadline.errors import Exit, LeadlineError

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
    with _keeping():
        written = _written(run, candidate, by, within, runs, band, kind)
        content, beside = _rendered(written, path, kind)
    for name in beside:
        _refuse_existing(path.parent / name, force)
    _write(path, content)
    for name, text in beside.items():
        _write(path.parent / name, text, beside=True)
    click.echo(str(path))
    return Exit.ANSWERED


@contextmanager
def _keeping() -> Iterator[None]:
    """What is read stays to the end: looking for what could go took a sixth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


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


def _written(
    name: str,
    candidate: str | None,
    by: str,
    within: str,
    runs: Path | None,
    band: str,
    kind: str,
) -> Written:
    from leadline.judging import judging

    share = parse_band(band)
    opened = runs_named(name, candidate, by, within, runs)
    with judging(opened, verifying=kind not in DATA) as (judge, verified):
        kind_of_two = of_kind(by, candidate)
        if candidate is None and by in ("run", "cluster"):
            return of_run(opened[0], kind, judge, verified)
        sides = find_sides(name, candidate, by, within, runs, judge)
        return of_two(*sides, kind_of_two, share, kind, verified)


def _rendered(written: Written, path: Path, kind: str) -> tuple[str, Mapping[str, str]]:
    """The file's text, and the texts of those beside it by their relative names."""
    if written.document is None:
        return written.text, {}
    if kind == ".md":
        from leadline.report.markdown import render_with_pictures

        return render_with_pictures(written.document, f"{path.stem}-charts")
    from leadline.report.html import render

    return render(written.document, written.downloads, ready_to_print=kind == PAPER), {}


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
