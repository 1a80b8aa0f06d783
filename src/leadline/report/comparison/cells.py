"""The cells of a comparison's tables: a value, a change, a verdict and its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leadline.analysis.cells import CellFigure, MetricFigure
from leadline.analysis.comparison import ComparedCell
from leadline.report.change_words import (
    EVIDENCE_TEXTS,
    JUDGED,
    change_text,
    interval_text,
    needed_text,
    p_text,
    reason_text,
    reason_words,
)
from leadline.report.document import Cell, Mark
from leadline.report.wording import MISSING, NOT_SHOWN, listed, value_text, value_with_unit


def leveled_cells(cells: Iterable[ComparedCell]) -> bool:
    """Whether the level tells rows apart: a level that every row of a workload has does not."""
    seen = {(one.workload, one.level) for one in cells}
    return len(seen) > len({workload for workload, _ in seen})


def nothing(note: str = "") -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def value(
    figure: MetricFigure | None,
    cell: CellFigure | None,
    doubts: tuple[Mark, ...],
    *,
    unit: bool,
) -> Cell:
    """`unit`: the column names it."""
    if figure is None or cell is None:
        return Cell(text=MISSING, note="this side has no such cell", missing=True)
    if figure.value is None:
        text = MISSING if cell.missing else NOT_SHOWN
        return Cell(text=text, note=figure.absence, marks=doubts, missing=True)
    text = (value_text if unit else value_with_unit)(figure.metric, figure.value)
    values = [one.value for one in figure.trials if one.value is not None]
    note = ""
    if len(values) > 1:
        low, high = (value_text(figure.metric, end) for end in (min(values), max(values)))
        note = f"{len(values)} trials from {low} to {high}"
    return Cell(text=text, sort=figure.value, marks=doubts, note=note)


def interval(figure: MetricFigure | None) -> Cell:
    if figure is None or figure.interval is None:
        return nothing("a 95 % interval needs 6 trials")
    low, high = (value_text(figure.metric, end) for end in figure.interval)
    return Cell(text=f"{low} to {high}", sort=figure.interval[1] - figure.interval[0])


def change(cell: ComparedCell) -> Cell:
    ratio = cell.judgement.ratio
    if ratio is None:
        return nothing(listed(reason_text(code) for code in cell.judgement.reasons))
    return Cell(text=change_text(ratio), sort=ratio)


def change_and_verdict(cell: ComparedCell | None) -> list[Cell]:
    return [change(cell), verdict(cell)] if cell else [nothing(), nothing()]


def change_interval(cell: ComparedCell) -> Cell:
    interval = cell.judgement.interval
    if interval is None:
        return nothing(EVIDENCE_TEXTS[cell.judgement.evidence])
    return Cell(text=interval_text(interval), sort=interval[1] - interval[0])


def verdict(cell: ComparedCell) -> Cell:
    return Cell(
        text=cell.verdict.value,
        sort=cell.verdict.value,
        note=EVIDENCE_TEXTS[cell.judgement.evidence],
        missing=cell.verdict not in JUDGED,
    )


def p_value(cell: ComparedCell) -> Cell:
    adjusted, raw = cell.judgement.p_adjusted, cell.judgement.p
    note = f"raw p {p_text(raw)}" if raw is not None else ""
    return Cell(text=p_text(adjusted), sort=adjusted, note=note, missing=adjusted is None)


def common_reasons(cells: Sequence[ComparedCell]) -> list[str]:
    """Codes that every one of several cells with a change has."""
    told = [one for one in cells if one.judgement.ratio is not None]
    if len(told) < 2:
        return []
    shared = set.intersection(*(set(one.judgement.reasons) for one in told))
    return [code for code in told[0].judgement.reasons if code in shared]


def trials_to_decide(cell: ComparedCell) -> Cell:
    needed = cell.judgement.trials_needed
    if needed is None:
        return nothing()
    return Cell(text=f"{needed:,}", sort=float(needed), note=needed_text(cell.judgement))


def reasons(cell: ComparedCell, common: Sequence[str]) -> Cell:
    """Short words; pointing at them, and the methods, tell what they mean."""
    codes = [code for code in cell.judgement.reasons if code not in common]
    text = ", ".join(map(reason_words, codes))
    return Cell(text=text, sort=text, note="; ".join(map(reason_text, codes)))
