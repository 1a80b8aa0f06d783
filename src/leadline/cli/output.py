"""What verbs print: answers in the form that `--format` names, and lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from leadline.text import count_text, visible

if TYPE_CHECKING:
    from leadline.errors import LeadlineError
    from leadline.formats.importer import Refused
    from leadline.report.answers.base import Output
    from leadline.report.document import Document

_MOST_REFUSED = 10
_UNCUT = 10_000


def echo_line(text: str, *, err: bool = False, ended: bool = True) -> None:
    """Print one line that may quote untrusted text: without secrets, with control characters
    spelled out. A line that is not `ended` goes on with the next call."""
    from leadline.inventory.redaction import redact_text

    click.echo(visible(redact_text(text)), err=err, nl=ended)


def echo_error(error: LeadlineError) -> None:
    click.echo(str(error), err=True)


def echo_rendered(text: str) -> None:
    """Print what a renderer returned: it has escaped its texts."""
    click.echo(text)


def print_json(answer: Output) -> None:
    echo_rendered(answer.to_json())


def print_document(
    document: Document, output: str, *, trials: bool = False, full: bool = False, wide: bool = False
) -> None:
    """Print a document as Markdown or for the terminal, with its `trials` or in `full`; `wide`: no
    cell is cut to the width of the terminal."""
    if output == "markdown":
        from leadline.report.render.markdown import render as render_markdown

        echo_rendered(render_markdown(document).rstrip())
    else:
        from leadline.report.render.terminal import render, standard_output

        console = standard_output()
        if wide:
            console.width = _UNCUT
        render(console, document, trials=trials, full=full)


def print_refused(refused: Iterable[Refused]) -> None:
    """List files that were not imported on stderr; first those that the user may miss."""
    ordered = sorted(refused, key=lambda file: not file.expected)
    for file in ordered[:_MOST_REFUSED]:
        echo_line(f"refused: {file.file}: {file.reason}", err=True)
        for line in file.context:
            echo_line(f"  {line}", err=True)
    if len(ordered) > _MOST_REFUSED:
        more = count_text(len(ordered) - _MOST_REFUSED, "more file")
        echo_line(f"refused: {more}; --format json names all", err=True)
