"""Heat maps of a run: the figures of every target and workload."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.figures import CellFigure, MetricFigure
from leadline.analysis.workloads import usual_rate
from leadline.archive.reader import Run
from leadline.findings import Severity
from leadline.metrics import Metric, Op
from leadline.report.document import Block, Choices, HeatCell, HeatMap, Paragraph, Section
from leadline.report.render.svg_shapes import shade
from leadline.report.words import (
    MISSING,
    NOT_SHOWN,
    absence_text,
    chart_labels,
    count_text,
    listed,
    op_text,
    place,
    short,
    value_text,
)

# What a heat map shows, the first at first; the rate is IOPS, or bandwidth for large blocks.
_SHOWN = (
    ("rate", "rate", None),
    ("p99", "p99 latency", Metric.LATENCY_P99),
    ("mean", "mean latency", Metric.LATENCY_MEAN),
)
# Beyond so many cells the page would be too large for the further metrics, or for any map.
_MOST_CELLS = 3000

_Subject = tuple[str, str, Op]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Figures by target and column; `rates` has the rate metric of each column."""

    targets: tuple[str, ...]
    columns: tuple[_Subject, ...]
    rates: tuple[Metric, ...]
    at: Mapping[tuple[str, _Subject], CellFigure]

    def baseline(self) -> int:
        """Choose the first target with the most columns that have a number without an error."""
        counts = [
            sum(
                self._usable(target, column, rate)
                for column, rate in zip(self.columns, self.rates, strict=True)
            )
            for target in self.targets
        ]
        return counts.index(max(counts))

    def with_metric(self, metric: Metric | None) -> Grid:
        """Drop columns without a metric (None: the rate), such as the latency of a stream."""
        kept = [
            number
            for number, (column, rate) in enumerate(zip(self.columns, self.rates, strict=True))
            if metric is None or any(self._has(target, column, metric) for target in self.targets)
        ]
        return replace(
            self,
            columns=tuple(self.columns[number] for number in kept),
            rates=tuple(self.rates[number] for number in kept),
        )

    def _has(self, target: str, column: _Subject, metric: Metric) -> bool:
        figure = self.at.get((target, column))
        return figure is not None and (figure.missing or figure.metric(metric).value is not None)

    def _usable(self, target: str, column: _Subject, rate: Metric) -> bool:
        figure = self.at.get((target, column))
        return figure is not None and usable(figure.metric(rate))


def usable(metric: MetricFigure) -> bool:
    """Whether there is a number without an error finding."""
    return metric.value is not None and metric.severity is not Severity.ERROR


def grid(run: Run, figures: Sequence[CellFigure]) -> Grid:
    """Arrange figures by target and by workload, level and operation, in the plan's order."""
    workloads = {cell.workload.name: cell.workload for cell in run.plan.cells}
    rates: dict[_Subject, Metric] = {}
    at: dict[tuple[str, _Subject], CellFigure] = {}
    for figure in figures:
        if figure.op is None:
            continue
        subject = (figure.workload, figure.level, figure.op)
        rates.setdefault(subject, usual_rate(workloads.get(figure.planned_workload)))
        at[figure.target, subject] = figure
    return Grid(
        targets=tuple(dict.fromkeys(figure.target for figure in figures)),
        columns=tuple(rates),
        rates=tuple(rates.values()),
        at=at,
    )


def scorecard_sections(run: Run, figures: Sequence[CellFigure]) -> tuple[Section, ...]:
    """Draw the heat maps; none for a single target."""
    found = grid(run, figures)
    if len(found.targets) < 2 or not found.columns:
        return ()
    size = len(found.targets) * len(found.columns)
    if size > _MOST_CELLS:
        text = (
            f"{count_text(len(found.targets), 'target')} in "
            f"{count_text(len(found.columns), 'column')} are too many for a map; the tables below "
            "have every number."
        )
        return (Section(heading="Scorecard", id="scorecard", blocks=(Paragraph(text=text),)),)
    parts = [found] if run.plan.imported else _parts(found)
    if not parts:
        return ()  # no workload ran on two targets
    maps: dict[str, list[HeatMap]] = {}
    for key, label, metric in _SHOWN[: max(1, _MOST_CELLS // size)]:
        choice = f"scorecard-{key}"
        for number, part in enumerate(parts, start=1):
            measured = part.with_metric(metric)
            if measured.columns:
                anchor = choice if number == 1 else f"{choice}-{number}"
                heading = label if len(parts) == 1 else f"{label}, {_workloads(part)}"
                maps.setdefault(label, []).append(
                    heat_map(anchor, heading, measured, metric, choice)
                )
    choices = Choices(
        id="scorecard-metric",
        label="Metric",
        options=tuple((several[0].choice, label) for label, several in maps.items()),
    )
    blocks: list[Block] = [choices] if len(maps) > 1 else []
    blocks += itertools.chain.from_iterable(maps.values())
    drawn = [one for several in maps.values() for one in several]
    result = _span(drawn[0]) if drawn and len(parts) == 1 else ""
    return (Section(heading="Scorecard", id="scorecard", blocks=tuple(blocks), result=result),)


def _span(drawn: HeatMap) -> str:
    """`rates ×0.42 to ×9.08 of disk`; empty without a ratio."""
    base = drawn.cells[drawn.baseline]
    ratios = [
        cell.value / given.value
        for number, row in enumerate(drawn.cells)
        for cell, given in zip(row, base, strict=True)
        if number != drawn.baseline and cell.value and given.value
    ]
    if not ratios:
        return ""
    ends = dict.fromkeys(f"×{ratio:.2f}" for ratio in (min(ratios), max(ratios)))
    return f"rates {' to '.join(ends)} of {short(drawn.rows[drawn.baseline])}"


def _parts(found: Grid) -> list[Grid]:
    """Split a grid into groups of targets that share workloads; single targets are left out."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, column in enumerate(found.columns):
        targets = tuple(target for target in found.targets if (target, column) in found.at)
        groups.setdefault(targets, []).append(number)
    return [
        replace(
            found,
            targets=targets,
            columns=tuple(found.columns[number] for number in numbers),
            rates=tuple(found.rates[number] for number in numbers),
        )
        for targets, numbers in groups.items()
        if len(targets) > 1
    ]


def _workloads(part: Grid) -> str:
    return listed(dict.fromkeys(workload for workload, _, _ in part.columns), limit=3)


def heat_map(
    anchor: str, heading: str, found: Grid, metric: Metric | None, choice: str = ""
) -> HeatMap:
    """Draw one metric of every target and column; None is the rate of each column."""
    metrics = [metric or rate for rate in found.rates]
    base = found.baseline()
    bases = [
        _value(found.at.get((found.targets[base], column)), one)
        for column, one in zip(found.columns, metrics, strict=True)
    ]
    return HeatMap(
        id=anchor,
        title=heading,
        rows=tuple(chart_labels(found.targets).values()),
        columns=tuple(
            _column_title(found, column, one if metric is None else None)
            for column, one in zip(found.columns, metrics, strict=True)
        ),
        higher_is_better=tuple(not metric.is_latency for metric in metrics),
        cells=tuple(
            tuple(
                _cell(found.at.get((target, column)), one, against)
                for column, one, against in zip(found.columns, metrics, bases, strict=True)
            )
            for target in found.targets
        ),
        baseline=base,
        choice=choice,
    )


def _column_title(found: Grid, column: _Subject, rate: Metric | None) -> str:
    """Format `randrw-4k · qd32 · read, IOPS`, without the parts that a workload shares."""
    workload, level, op = column
    levels = {other[1] for other in found.columns if other[0] == workload}
    ops = {other[2] for other in found.columns if other[:2] == (workload, level)}
    named = place(workload, level if len(levels) > 1 else "", op_text(op) if len(ops) > 1 else "")
    unit = {None: "", Metric.BANDWIDTH: ", MiB/s", Metric.LATENCY_MEAN: ", mean"}.get(
        rate, ", IOPS"
    )
    return named + unit


def _value(figure: CellFigure | None, metric: Metric) -> float | None:
    if figure is None or not usable(figure.metric(metric)):
        return None
    return figure.metric(metric).value


def _cell(figure: CellFigure | None, metric: Metric, base: float | None) -> HeatCell:
    if figure is None:
        return HeatCell(text=NOT_SHOWN, shade=None, note="not in the plan")
    found = figure.metric(metric)
    if found.value is None:
        text = MISSING if figure.missing else NOT_SHOWN
        return HeatCell(text=text, shade=None, note=absence_text(found))
    text = value_text(metric, found.value)
    if not usable(found):
        codes = listed(
            dict.fromkeys(
                finding.code
                for finding in found.finding_marks
                if finding.severity is Severity.ERROR
            )
        )
        return HeatCell(text=text, shade=None, note=f"refused: {codes}", refused=True)
    return HeatCell(
        text=text,
        shade=shade(found.value / base, not metric.is_latency) if base else None,
        value=found.value,
    )
