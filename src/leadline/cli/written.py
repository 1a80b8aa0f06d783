"""What `report` writes of a run or a comparison, and `verify` makes once more to check a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadline.analysis.comparison import By, Side
    from leadline.archive.reader import Run
    from leadline.judging import Judge, Verified
    from leadline.report.document import Document
    from leadline.report.html import Download

# The page as it would be on paper; a name may end in `.pdf-ready.html`, so that browsers know it.
PAPER = ".pdf-ready"
# Forms that are data for programs rather than a document; they do not say what was verified.
DATA = (".json", ".csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is to be written: a document to be rendered with what its reader may save, or `text`
    as it is."""

    document: Document | None = None
    downloads: tuple[Download, ...] = ()
    text: str = ""


def rendered(written: Written) -> str:
    """The page; empty for what is no document."""
    from leadline.report.html import render

    return render(written.document, written.downloads) if written.document else ""


def of_run(run: Run, form: str, judge: Judge, verified: Verified) -> Written:
    """A run in the form of that file ending; `verified` gives its verification."""
    from leadline.report.contracts import show_output
    from leadline.report.tables import show_table

    cells, findings = judge(run)
    shown = show_output(run, cells, findings, trials=True)
    if form == ".json":
        return Written(text=shown.model_dump_json(by_alias=True, indent=2))
    if form == ".csv":
        return Written(text=show_table(shown, "csv"))
    from leadline.report.html import Download
    from leadline.report.run.page import run_document

    whole = shown.model_dump_json(by_alias=True, indent=2) + "\n"
    return Written(
        document=run_document(run, cells, findings, verified()[0]),
        downloads=tuple(
            Download(name=f"{run.id}.{ending}", label=label, media_type=media_type, text=content)
            for ending, label, media_type, content in (
                ("json", "JSON", "application/json", whole),
                ("csv", "CSV", "text/csv", show_table(shown, "csv") + "\n"),
                (
                    "trials.csv",
                    "CSV of every trial",
                    "text/csv",
                    show_table(shown, "csv", trials=True) + "\n",
                ),
            )
        ),
    )


def of_two(ours: Side, theirs: Side, by: By, band: float, form: str, verified: Verified) -> Written:
    """A comparison in the form of that file ending; `verified` gives the verifications of the
    archives: one, or the baseline's first."""
    from leadline.analysis.comparing import compare
    from leadline.report.comparison.output import compare_csv, compare_output
    from leadline.report.comparison.page import comparison_document

    comparison = compare(ours, theirs, by=by, band=band)
    if form in DATA:
        document = comparison_document(comparison)
    else:
        found = verified()
        document = comparison_document(comparison, (found[0], found[-1]))
    answer = compare_output(comparison, document.summary[0] if document.summary else "")
    if form == ".json":
        return Written(text=answer.model_dump_json(by_alias=True, indent=2))
    if form == ".csv":
        return Written(text=compare_csv(answer))
    from leadline.report.html import Download

    name = f"{theirs.name}-against-{ours.name}"
    whole = answer.to_be_sent().model_dump_json(by_alias=True, indent=2)
    return Written(
        document=document,
        downloads=(
            Download(name=f"{name}.json", media_type="application/json", text=whole + "\n"),
            Download(name=f"{name}.csv", media_type="text/csv", text=compare_csv(answer)),
        ),
    )
