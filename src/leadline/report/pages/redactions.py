"""The section of a page about secrets that were removed from the archives it is made from."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.archive.reader import Run
from leadline.report.cells import table
from leadline.report.document import Block, Paragraph, Section
from leadline.report.pages.run.conditions import moment
from leadline.report.words import count_text


def redaction_sections(*runs: Run) -> tuple[Section, ...]:
    """List what was removed from each archive, and when it was scrubbed; nothing where no archive
    has redactions."""
    blocks = tuple(block for number, run in enumerate(runs) for block in _blocks(run, number))
    if not blocks:
        return ()
    removed = count_text(sum(len(run.redactions.redactions) for run in runs), "value") + " removed"
    heading = "Redactions"
    return (Section(heading=heading, id="redactions", blocks=blocks, folded=True, result=removed),)


def _blocks(run: Run, number: int) -> Iterator[Block]:
    found = run.redactions
    if not found.redactions and not found.scrubs:
        return
    removed = count_text(len(found.redactions), "value")
    yield Paragraph(text=f"Removed as secrets from the documents of {run.id}: {removed}.")
    for scrub in found.scrubs:
        by = f"Leadline {scrub.leadline_version}"
        yield Paragraph(text=f"{run.id} was scrubbed on {moment(scrub.at)} by {by}.")
    yield table(
        f"redacted-values-{number + 1}" if number else "redacted-values",
        ("file", "place", "reason"),
        [(entry.file, entry.where, entry.reason.value) for entry in found.redactions],
    )
