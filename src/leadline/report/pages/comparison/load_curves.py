"""Load curves of both systems: latency over throughput, where a workload has several levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.analysis.scaling.curves import LoadCurve, load_curves
from leadline.errors import LeadlineError
from leadline.metrics import Op
from leadline.report.document import SYSTEM_HUES, Block, Paragraph
from leadline.report.pages.comparison.charts import log_change
from leadline.report.pages.comparison.headline import rates, system_names
from leadline.report.pages.run.charts import keep_largest
from leadline.report.pages.scaling.panels import Panel, PanelCurve, response_panels
from leadline.report.words import change_text, count_text, op_text, place, short

MOST_PANELS = 12
_LABEL = 24

# Target, workload and operation as they are compared.
_Key = tuple[str, str, Op | None]


def load_blocks(comparison: Comparison) -> tuple[Block, ...]:
    """Draw a panel for each target, workload and operation with at least two load levels on a
    system; of many those with the largest changes of rates. Directions of a mixed workload are
    drawn, its total is not: it has no percentiles."""
    cells: dict[_Key, list[ComparedCell]] = {}
    for cell in rates(comparison):
        if cell.op is not Op.TOTAL:
            cells.setdefault((cell.target, cell.workload, cell.op), []).append(cell)
    curves = [_curves(comparison, system, cells) for system in (0, 1)]
    found = {
        key: [(system, own[key]) for system, own in enumerate(curves) if key in own]
        for key in cells
    }
    known = [key for key, drawn in found.items() if any(_levels(one) > 1 for _, one in drawn)]
    shown = keep_largest(known, lambda key: max(map(log_change, cells[key])), MOST_PANELS)
    charts = response_panels(
        "load",
        [
            Panel(
                title=_title(key, known),
                note=_note(cells[key]),
                curves=tuple(
                    PanelCurve(series=system, curve=curve) for system, curve in found[key]
                ),
            )
            for key in shown
        ],
        system_names(comparison),
        SYSTEM_HUES,
    )
    if charts and len(known) > len(shown):
        count = count_text(len(known), "load curve")
        return (Paragraph(text=f"The {len(shown)} with the largest changes, of {count}."), *charts)
    return charts


def _levels(curve: LoadCurve) -> int:
    return max(len(curve.closed), len(curve.offered))


def _curves(
    comparison: Comparison, system: int, cells: Mapping[_Key, Sequence[ComparedCell]]
) -> Mapping[_Key, LoadCurve]:
    """Return the curves of a system, the longest where a sweep has several."""
    side = (comparison.baseline, comparison.candidate)[system]
    figures = []
    compared: dict[_Key, _Key] = {}
    for key, own in cells.items():
        for cell in own:
            figure = (cell.baseline_cell, cell.candidate_cell)[system]
            if figure is not None:
                figures.append(figure)
                compared[figure.target, figure.workload, figure.op] = key
    found: dict[_Key, LoadCurve] = {}
    try:
        curves = load_curves(side.run, figures)
    except LeadlineError:
        return {}  # a damaged archive; its verification reports it
    for curve in sorted(curves, key=_levels):
        compared_key = compared.get((curve.target, curve.workload, curve.op))
        if compared_key is not None:
            found[compared_key] = curve
    return found


def _title(key: _Key, keys: Sequence[_Key]) -> str:
    target, workload, op = key
    several = [len({other[part] for other in keys}) > 1 for part in range(3)]
    return place(
        short(target, _LABEL) if several[0] or not several[1] else "",
        short(workload, _LABEL) if several[1] else "",
        op_text(op) if several[2] else "",
    )


def _note(cells: Sequence[ComparedCell]) -> str:
    """`qd1 -76.9 %, qd16 -26.5 %`: the change of the rate at the first and the last level."""
    known = [cell for cell in cells if cell.judgement.ratio]
    ends = known if len(known) < 2 else [known[0], known[-1]]
    return ", ".join(f"{cell.level} {change_text(cell.judgement.ratio or 1.0)}" for cell in ends)
