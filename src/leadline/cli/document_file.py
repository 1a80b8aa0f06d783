"""Write a document as a file; the ending of its name chooses the form."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from leadline import errors
from leadline.cli.options import Command, format_option, with_options
from leadline.cli.output import echo_line, print_document
from leadline.errors import LeadlineError

if TYPE_CHECKING:
    from leadline.report.document import Document
    from leadline.report.render.html import Download

# The page as it would be on paper; a name may end in `.pdf-ready.html`, so that browsers know it.
PAPER = ".pdf-ready"
PRINTED = (".pdf", ".png")
DOCUMENT_FORMS = (".html", *PRINTED, ".xlsx", ".md", PAPER)
FORCE = click.option("--force", is_flag=True, help="Overwrite files that are there.")

_document_options = with_options(
    click.option(
        "-o",
        "--output",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write a file instead; its ending chooses the form: "
        + ", ".join(DOCUMENT_FORMS)
        + ".",
    ),
    FORCE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """A file, and the files next to it by their relative names."""

    content: bytes
    companions: Mapping[str, bytes] = field(default_factory=dict)


def find_form(path: Path, forms: Sequence[str]) -> str:
    """The form that the name of a file ends in.

    Raises LeadlineError: `usage` for another ending; `browser-missing`.
    """
    name = path.name.lower()
    for form in sorted(forms, key=len, reverse=True):
        if name.endswith((form, PAPER + ".html") if form == PAPER else form):
            if form in PRINTED:
                from leadline.cli.browser import require_browser

                require_browser()
            return form
    suffix = path.suffix.lower()
    raise LeadlineError(
        errors.USAGE,
        f"a report cannot be written as {suffix!r}"
        if suffix
        else f"{str(path)!r} has no ending that says how to write the report",
        hint=f"end the name in {', '.join(forms)}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where an answer goes: a file whose ending chooses its form, or stdout as `form` says."""

    path: Path | None
    force: bool
    form: str

    def check(self) -> None:
        """Refuse what `put` cannot write, before anything is computed.

        Raises LeadlineError (`usage`, `output-unwritable`).
        """
        if self.path is None:
            return
        find_form(self.path, DOCUMENT_FORMS)
        if self.form != "text":
            raise LeadlineError(
                errors.USAGE,
                f"--format {self.form} and -o {self.path.name} name two forms",
                hint="--format is for stdout: give one of them",
            )
        refuse_existing(self.path, self.force)

    def put(
        self, document: Document, downloads: Sequence[Download] = (), *, full: bool = False
    ) -> None:
        """Write a document to the file; print it, `full` or shortened, where there is none."""
        if self.path is None:
            print_document(document, self.form, full=full)
            return
        form = find_form(self.path, DOCUMENT_FORMS)
        write_files(self.path, render_file(document, downloads, self.path, form), force=self.force)


def destination_options(*forms: str) -> Callable[[Command], Command]:
    """`-o`, `--force` and `--format` with these forms. The command gets a checked `Destination`."""

    def decorate(function: Command) -> Command:
        @wraps(function)
        def called(*, path: Path | None, force: bool, output: str, **given: Any) -> Any:
            destination = Destination(path=path, force=force, form=output)
            destination.check()
            return function(destination=destination, **given)

        return cast("Command", _document_options(format_option(*forms)(called)))

    return decorate


def render_file(
    document: Document, downloads: Sequence[Download], path: Path, form: str
) -> FileContent:
    """Render a document in a form."""
    if form == ".xlsx":
        from leadline.report.render.xlsx import render as render_workbook

        return FileContent(content=render_workbook(document))
    if form == ".md":
        from leadline.report.render.markdown import render_with_pictures

        text, pictures = render_with_pictures(document, f"{path.stem}-charts")
        return FileContent(
            content=text.encode(),
            companions={name: picture.encode() for name, picture in pictures.items()},
        )
    from leadline.report.render.html import render

    on_paper = form in (PAPER, ".pdf")
    page = render(document, downloads, ready_to_print=on_paper, picture=form == ".png")
    if form in PRINTED:
        from leadline.cli.browser import print_pdf, print_png

        return FileContent(content=(print_pdf if form == ".pdf" else print_png)(page))
    return FileContent(content=page.encode())


def write_files(path: Path, files: FileContent, *, force: bool) -> None:
    """Write a file and its companions, and print its name. What is there is kept without `force`.

    Raises LeadlineError (`output-unwritable`).
    """
    for name in files.companions:
        refuse_existing(path.parent / name, force)
    _write(path, files.content)
    for name, picture in files.companions.items():
        _write(path.parent / name, picture, companion=True)
    echo_line(str(path))


def refuse_existing(path: Path, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} is there already",
            hint="give another name, or --force",
        )


def _write(path: Path, content: bytes, *, companion: bool = False) -> None:
    """A companion file goes into a folder of its own, which is made."""
    try:
        if companion:
            path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name a file in a folder that exists and that you may write to",
        ) from error
