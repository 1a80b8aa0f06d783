"""What is said of files that are not imported."""

from __future__ import annotations

from collections.abc import Iterable

import click

from leadline.formats.importer import Refused
from leadline.report.wording import count_text, visible

_REFUSED_TOLD = 10


def tell_refused(refused: Iterable[Refused]) -> None:
    """On stderr: first the files that the user may miss."""
    ordered = sorted(refused, key=lambda one: not one.expected)
    for one in ordered[:_REFUSED_TOLD]:
        click.echo(f"refused: {visible(one.file)}: {visible(one.reason)}", err=True)
        for line in one.context:
            click.echo(f"  {visible(line)}", err=True)
    if len(ordered) > _REFUSED_TOLD:
        more = count_text(len(ordered) - _REFUSED_TOLD, "more file")
        click.echo(f"refused: {more}; --format json names all", err=True)
