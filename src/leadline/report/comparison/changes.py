"""Each metric's changes as a chart and a table, of which one at a time is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.analysis.comparison import ComparedCell, Comparison
from leadline.metrics import Metric
from leadline.report.comparison.charts import delta_chart
from leadline.report.comparison.marks import SideMarks
from leadline.report.comparison.parts import rates
from leadline.report.comparison.tables import delta_table
from leadline.report.document import Block, Choices, Paragraph, Section
from leadline.report.wording import listed, title

# A row is about a KiB of a page. Beyond so many the page would be too large to open and to send;
# what is left out is in its downloads.
MOST_ROWS = 1200
# What is left out last comes first.
_ORDER = (
    Metric.LATENCY_P99,
    Metric.LATENCY_MEAN,
    Metric.LATENCY_P50,
    Metric.LATENCY_P999,
    Metric.LATENCY_P95,
    Metric.LATENCY_P9999,
    Metric.IOPS,
    Metric.BANDWIDTH,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What somebody may choose to see; `key` is part of an anchor."""

    key: str
    label: str
    cells: Sequence[ComparedCell]


def changes_sections(comparison: Comparison, marks: SideMarks) -> tuple[Section, ...]:
    """The section; none where nothing changed that could be told."""
    found = _choices(comparison)
    if not found:
        return ()
    shown, said = _that_fit(found)
    blocks: list[Block] = [Paragraph(text=said)] if said else []
    if len(shown) > 1:
        options = tuple((f"change-{one.key}", one.label) for one in shown)
        blocks.append(Choices(id="change-metric", label="Metric", options=options))
    for one in shown:
        name, choice = f"delta-{one.key}", f"change-{one.key}"
        chart = delta_chart(name, f"Change of {one.label}", one.cells, choice)
        blocks += [chart] if chart else []
        blocks.append(
            delta_table(
                f"{name}-table", comparison, one.cells, marks, caption=one.label, choice=choice
            )
        )
    return (Section(heading="Changes", id="changes", blocks=tuple(blocks)),)


def _choices(comparison: Comparison) -> list[_Choice]:
    """The rate first, then every metric that tells something more."""
    found = []
    rate = rates(comparison)
    kinds = {one.metric for one in rate}
    if rate:
        named = "rate (IOPS; MiB/s of large blocks)"
        label = title(next(iter(kinds))) if len(kinds) == 1 else named
        found.append(_Choice(key="rate", label=label, cells=rate))
    for metric in Metric:
        cells = [one for one in comparison.cells if one.metric is metric]
        if not any(one.judgement.ratio is not None for one in cells):
            continue
        if metric.is_latency or not all(one.rate for one in cells):
            key = metric.value.replace("_", "-")
            found.append(_Choice(key=key, label=title(metric), cells=cells))
    return found


def _that_fit(found: Sequence[_Choice]) -> tuple[list[_Choice], str]:
    """What the page has room for, and what is left out in words."""
    first, *more = found
    said = []
    if len(first.cells) > MOST_ROWS:
        cut = _largest(first.cells)
        said.append(f"of {first.label} all but the {MOST_ROWS:,} largest changes")
        first = _Choice(key=first.key, label=first.label, cells=cut)
    room = MOST_ROWS - len(first.cells)
    fits = {first.key}
    places = {metric.value.replace("_", "-"): n for n, metric in enumerate(_ORDER)}
    for one in sorted(more, key=lambda one: places[one.key]):
        if len(one.cells) <= room:
            room -= len(one.cells)
            fits.add(one.key)
        else:
            said.append(one.label)
    shown = [first, *(one for one in more if one.key in fits)]
    if not said:
        return shown, ""
    return shown, f"Left out here, to keep the page small: {listed(said)}. The downloads have all."


def _largest(cells: Sequence[ComparedCell]) -> list[ComparedCell]:
    """In the order that they had."""

    def size(index: int) -> float:
        ratio = cells[index].judgement.ratio
        return -abs(math.log(ratio)) if ratio else 0.0

    kept = sorted(range(len(cells)), key=size)[:MOST_ROWS]
    return [cells[index] for index in sorted(kept)]
