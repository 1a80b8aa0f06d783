"""Clusters side by side, as a section of a run's report."""

from __future__ import annotations

from leadline.analysis.side_by_side import Change, Row, SideBySide
from leadline.metrics import Metric, Op
from leadline.report.conditions import word
from leadline.report.document import Bullets, Cell, Column, Kind, Section, Table
from leadline.report.marks import Marks
from leadline.report.results import slug
from leadline.report.wording import (
    NOT_SHOWN,
    count_text,
    listed,
    op_text,
    share_text,
    value_text,
    visible,
)
from leadline.units import format_latency

# From here on the cores are what limits, and a longer way between zones hardly shows. The share is
# that of whole trials, of which starting and ending the engine take about a tenth.
BUSY = 0.80
_STREAMING_BYTES = 64 * 1024


def side_by_side_sections(found: tuple[SideBySide, ...], marks: Marks) -> tuple[Section, ...]:
    """One section, with a table for each place beside the first; none where there is one place."""
    parts = tuple(_section(one, marks) for one in found if one.rows)
    if not parts:
        return ()
    heading = "Side by side" if len(parts) > 1 else parts[0].heading
    if len(parts) == 1:
        return (Section(heading=heading, id="side-by-side", blocks=parts[0].blocks),)
    return (Section(heading=heading, id="side-by-side", sections=parts),)


def _section(found: SideBySide, marks: Marks) -> Section:
    base, other = visible(found.base.name), visible(found.other.name)
    alike = len({row.base.workload for row in found.rows}) == 1
    columns = (
        Column(title="pool"),
        *(() if alike else (Column(title="workload"),)),
        Column(title="level"),
        Column(title="op"),
        Column(title=base, kind=Kind.NUMBER),
        Column(title=other, kind=Kind.NUMBER),
        Column(title="change", kind=Kind.NUMBER),
        Column(title="of pairs", kind=Kind.NUMBER, rank=2),
        Column(title="p99 change", kind=Kind.NUMBER, rank=3),
        Column(title="added mean", kind=Kind.NUMBER),
        Column(title="in RTTs", kind=Kind.NUMBER, rank=1),
        Column(title="cores busy", kind=Kind.NUMBER, rank=4),
    )
    table = Table(
        id=f"side-by-side-{slug(found.other.name)}",
        caption="",
        columns=columns,
        rows=tuple(_row(row, found.added_rtt_s, marks, alike=alike) for row in found.rows),
        filterable=True,
    )
    return Section(
        heading=f"{other} beside {base}",
        id=f"beside-{slug(found.other.name)}",
        blocks=(Bullets(items=tuple(_said(found))), table),
    )


def _said(found: SideBySide) -> list[str]:
    """What the table says, from its own numbers."""
    said = []
    base, other = visible(found.base.name), visible(found.other.name)
    if found.base.rtt_s is not None and found.other.rtt_s is not None:
        said.append(
            "round trip between zones, measured before each trial: "
            f"{format_latency(found.base.rtt_s)} on {base}, "
            f"{format_latency(found.other.rtt_s)} on {other}"
        )
    said += _at_depth_one(found)
    busy = [row for row in found.rows if row.busy is not None and row.busy >= BUSY]
    if busy:
        said.append(
            f"in {len(busy)} of {count_text(len(found.rows), 'row')} this machine's cores were "
            f"busy {share_text(BUSY)} of the time or more: there the processor is the limit, and "
            "the change says less of the network"
        )
    pairs = {change.pairs for row in found.rows for change in row.changes.values()}
    if pairs:
        said.append(
            "rates are IOPS unless MiB/s is said; change: of the medians; of pairs: its range over "
            f"{count_text(max(pairs), 'pair')} of trials that ran in the same block, which is no "
            "confidence interval; added mean: what a mean I/O took longer; in RTTs: that in added "
            "round trips between zones"
        )
    if found.alone:
        said.append(f"on one of the two only: {listed(visible(one) for one in found.alone)}")
    return said


def _at_depth_one(found: SideBySide) -> list[str]:
    """What one I/O at a time pays, in round trips: there nothing hides them."""
    added = found.added_rtt_s
    if not added or added <= 0:
        return []
    parts = []
    for op in (Op.READ, Op.WRITE):
        trips = [
            extra / added
            for row in found.rows
            if row.depth == 1 and row.base.op is op and (extra := row.extra_latency_s()) is not None
        ]
        if trips:
            ends = dict.fromkeys((f"{min(trips):.1f}", f"{max(trips):.1f}"))
            parts.append(f"a mean {op.value} {' to '.join(ends)}")
    if not parts:
        return []
    return [f"one I/O at a time pays for the way: {', '.join(parts)} round trips longer"]


def _row(row: Row, added_rtt_s: float | None, marks: Marks, *, alike: bool) -> tuple[Cell, ...]:
    rate = _rate(row)
    extra = row.extra_latency_s()
    trips = extra / added_rtt_s if extra is not None and added_rtt_s else None
    return (
        word(row.subject),
        *(() if alike else (word(row.base.workload),)),
        word(row.base.level),
        word(op_text(row.base.op)),
        _value(row, rate, marks, other=False),
        _value(row, rate, marks, other=True),
        _change(row.changes.get(rate)),
        _range(row.changes.get(rate)),
        _change(row.changes.get(Metric.LATENCY_P99)),
        _number(None if extra is None else _signed_latency(extra), extra),
        _number(None if trips is None else f"{trips:.1f}", trips),
        _number(None if row.busy is None else share_text(row.busy), row.busy),
    )


def _rate(row: Row) -> Metric:
    """IOPS, or bandwidth where blocks are large, as a workload's own bytes per I/O tell."""
    iops = row.base.metric(Metric.IOPS).value
    bandwidth = row.base.metric(Metric.BANDWIDTH).value
    if iops and bandwidth and bandwidth / iops >= _STREAMING_BYTES:
        return Metric.BANDWIDTH
    return Metric.IOPS


def _value(row: Row, metric: Metric, marks: Marks, *, other: bool) -> Cell:
    figure = (row.other if other else row.base).metric(metric)
    if figure.value is None:
        return Cell(
            text=NOT_SHOWN, note=figure.absence, marks=marks.for_number(figure.doubts), missing=True
        )
    unit = " MiB/s" if metric is Metric.BANDWIDTH else ""
    text = value_text(metric, figure.value) + unit
    return Cell(text=text, sort=figure.value, marks=marks.for_number(figure.doubts))


def _change(change: Change | None) -> Cell:
    if change is None:
        return _number(None, None)
    return _number(_percent(change.ratio), change.ratio)


def _range(change: Change | None) -> Cell:
    if change is None or change.pairs < 2:
        return _number(None, None)
    return _number(f"{_percent(change.low)} to {_percent(change.high)}", change.high - change.low)


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"


def _signed_latency(seconds: float) -> str:
    return ("+" if seconds >= 0 else "-") + format_latency(abs(seconds))


def _number(text: str | None, sort: float | None) -> Cell:
    if text is None:
        return Cell(text=NOT_SHOWN, missing=True)
    return Cell(text=text, sort=sort)
