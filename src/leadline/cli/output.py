"""What verbs print: answers in the form that `--format` names, and lines; and where it goes."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.errors import Exit
from leadline.text import count_text, visible

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from leadline.errors import LeadlineError
    from leadline.formats.importer import Refused
    from leadline.report.answers.base import Output
    from leadline.report.document import Document

# The statuses of answers: something was measured or judged, and this is what came of it.
ANSWERS = frozenset({Exit.ANSWERED, Exit.NEGATIVE, Exit.INCONCLUSIVE, Exit.NOT_COMPARABLE})
_MOST_REFUSED = 10
_UNCUT = 10_000


class LastingStream(io.FileIO):
    """stdout or stderr, whose end stops no verb half-way: a reader that goes (`| head`), a terminal
    that is closed, a full disk. After the first `failure` what is written goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.failure: OSError | None = None

    def write(self, content: ReadableBuffer) -> int:
        try:
            while (written := super().write(content)) is None:  # another process set O_NONBLOCK
                select.select((), (self,), ())
        except OSError as error:
            self.failure = error
            with suppress(OSError), Path(os.devnull).open("wb") as nowhere:
                # The programs that we start write there as well.
                os.dup2(nowhere.fileno(), self.fileno())
            return memoryview(content).nbytes
        return written


def echo_line(text: str, *, err: bool = False, ended: bool = True) -> None:
    """Print one line that may quote untrusted text: without secrets, with control characters
    spelled out. A line that is not `ended` goes on with the next call."""
    from leadline.inventory.redaction import redact_text

    click.echo(visible(redact_text(text)), err=err, nl=ended)


def echo_error(error: LeadlineError) -> None:
    """Print an error on stderr; what tools say in its context may hold secrets."""
    from leadline.inventory.redaction import redact_text

    click.echo(redact_text(str(error)), err=True)


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
