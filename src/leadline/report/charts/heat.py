"""Heat maps: how far each figure lies from the baseline's, as a shade and as a text."""

from __future__ import annotations

import math

from leadline.report.document import HeatCell, HeatMap

# Shades in each direction, and the ratio at which the last one is reached.
LEVELS = 6
FULL_RATIO = 4.0


def shade(ratio: float, higher_is_better: bool) -> float:
    """-1 (worst) to 1 (best) of a figure that is `ratio` times the baseline's: its logarithm,
    with the ends at a fourth and at four times. The page's script computes the same."""
    if ratio <= 0:
        return -1.0 if higher_is_better else 1.0
    part = math.log(ratio) / math.log(FULL_RATIO)
    return min(max(part if higher_is_better else -part, -1.0), 1.0)


def level(value: float | None, *, judged: bool = False) -> str:
    """The class of a shade: `b6` best, `b0` as the baseline, `w6` worst; empty without one. Where
    changes were `judged`, what is better or worse has a shade however small it is."""
    if value is None:
        return ""
    step = round(abs(value) * LEVELS)
    if judged and value:
        step = max(step, 1)
    return f"w{step}" if value < 0 and step else f"b{step}"


def ratio_text(ratio: float) -> str:
    digits = 2 if ratio < 10 else 1 if ratio < 100 else 0
    return f"×{ratio:,.{digits}f}"


def ratio(chart: HeatMap, column: int, cell: HeatCell) -> float | None:
    """The figure against that of the baseline row, None where one of them is missing or of no
    use."""
    if not 0 <= chart.baseline < len(chart.cells):
        return None
    base = chart.cells[chart.baseline][column]
    if cell.value is None or cell.refused or not base.value or base.refused:
        return None
    return cell.value / base.value


def beside(chart: HeatMap, column: int, cell: HeatCell) -> str:
    """The small text beside a figure: how many times the baseline's it is. None in its own row,
    nor where the figures are changes already."""
    if chart.relative or cell is chart.cells[chart.baseline][column]:
        return ""
    found = ratio(chart, column, cell)
    return "" if found is None else ratio_text(found)
