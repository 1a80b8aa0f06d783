"""Nodes and zones of a run in Kubernetes: whether one is slower, and where."""

from __future__ import annotations

from collections import Counter

from leadline.analysis.places import Cell, PlaceStudy, place_studies
from leadline.analysis.verdicts import Verdict
from leadline.archive.reader import Run
from leadline.report.cells import quantity, table
from leadline.report.document import HeatCell, HeatMap, Paragraph, Section
from leadline.report.render.svg_shapes import shade
from leadline.report.words import band_text, change_text, interval_text, listed, op_text, place

# A picture with more columns cannot be read.
_MOST_COLUMNS = 40
_WORDS = {
    Verdict.WORSE: "slower",
    Verdict.BETTER: "faster",
    Verdict.SAME: "same",
    Verdict.INCONCLUSIVE: "inconclusive",
}


def place_sections(run: Run) -> tuple[Section, ...]:
    """Build a section for nodes and one for zones; none for a run on one node."""
    return tuple(_section(study) for study in place_studies(run))


def _section(study: PlaceStudy) -> Section:
    title = f"{study.kind.capitalize()}s"
    rows = (
        (
            figure.place,
            quantity(change_text(figure.ratio), figure.ratio),
            interval_text(figure.interval) if figure.interval else "",
            _WORDS.get(figure.verdict, figure.verdict.value),
            quantity(str(figure.repeats), figure.repeats),
        )
        for figure in study.figures
    )
    columns = (study.kind, "rate against the median", "interval", "verdict", "repeats")
    caption = (
        f"Rates of each {study.kind} against the median {study.kind} of the same trials; "
        f"intervals count all {study.kind}s, margin {band_text(study.band)}"
    )
    return Section(
        heading=title,
        id=f"{study.kind}s",
        result=_counts(study),
        blocks=(
            Paragraph(text=_sentence(study)),
            _picture(study),
            table(f"{study.kind}-table", columns, rows, caption=caption),
        ),
    )


def _counts(study: PlaceStudy) -> str:
    """`slower 1, same 2`: how many places have each verdict."""
    counts = Counter(one.verdict for one in study.figures)
    return ", ".join(f"{word} {counts[one]:,}" for one, word in _WORDS.items() if counts[one])


def _sentence(study: PlaceStudy) -> str:
    """Name the slower and faster places, with their rates."""
    parts = []
    for verdict in (Verdict.WORSE, Verdict.BETTER):
        found = [one for one in study.figures if one.verdict is verdict]
        if found:
            names = listed(f"{one.place} ({change_text(one.ratio)})" for one in found)
            parts.append(f"{_WORDS[verdict]} than the median {study.kind}: {names}")
    if parts:
        return f"{study.kind.capitalize()}s {'; '.join(parts)}."
    if all(one.verdict is Verdict.SAME for one in study.figures):
        return f"All {len(study.figures)} {study.kind}s have the same rate within the margin."
    if any(one.interval is None for one in study.figures):
        return f"One repeat does not show whether a {study.kind} is slower."
    return f"No {study.kind} is significantly slower or faster than the median."


def _picture(study: PlaceStudy) -> HeatMap:
    cells = study.cells[:_MOST_COLUMNS]
    return HeatMap(
        id=f"{study.kind}-map",
        title=f"Rate of each {study.kind} against the median",
        rows=tuple(figure.place for figure in study.figures),
        columns=tuple(_column(study, cell) for cell in cells),
        higher_is_better=(True,) * len(cells),
        cells=tuple(
            tuple(_cell(study.ratios.get((figure.place, cell))) for cell in cells)
            for figure in study.figures
        ),
        baseline=0,
        relative=True,
        row_title=study.kind,
    )


def _column(study: PlaceStudy, cell: Cell) -> str:
    """Name a cell without the parts that all cells share."""
    texts = (cell[0], cell[1], cell[2], op_text(cell[3]))
    shared = [len({one[at] for one in study.cells}) == 1 for at in range(len(texts))]
    own = [text for text, same in zip(texts, shared, strict=True) if not same]
    return place(*own) if own else place(cell[1], texts[3])


def _cell(ratio: float | None) -> HeatCell:
    if ratio is None:
        return HeatCell(text="", shade=None, note="no runner there")
    return HeatCell(text=change_text(ratio), shade=shade(ratio, True), value=ratio)
