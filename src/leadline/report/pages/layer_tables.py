"""Tables and charts of a layer study: layers, steps, settings, record sizes, request sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from leadline.analysis.layers.explain import RecordSweep, object_size
from leadline.analysis.layers.facts import Relevance, Setting
from leadline.analysis.layers.model import Figure, Flow, LayerFlow, Sizes
from leadline.analysis.layers.steps import Step
from leadline.analysis.layers.study import CellLayers
from leadline.metrics import Metric, Op
from leadline.report.document import (
    Cell,
    Column,
    Kind,
    Line,
    LineChart,
    Rule,
    Scale,
    Table,
    linear_axis,
)
from leadline.report.pages.layer_words import words
from leadline.report.words import NOT_SHOWN, share_text, value_text
from leadline.units import format_bandwidth, format_latency, format_size

NUMBER = Kind.NUMBER
_NEGLIGIBLE = 0.01
_SECTOR = 512
# More ticks on the axis overlap.
_MOST_TICKS = 6


def _word(text: str, note: str = "") -> Cell:
    return Cell(text=text, sort=text, note=note)


def _absent(note: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=note, missing=True)


def _number(
    value: float | None, shown: Callable[[float], str], absent: str = "", note: str = ""
) -> Cell:
    return _absent(absent) if value is None else Cell(text=shown(value), sort=value, note=note)


def _figure(figure: Figure, shown: Callable[[float], str]) -> Cell:
    return _number(figure.value, shown, words(figure.absent), f"by {figure.source}")


def _three_digits(value: float) -> str:
    return f"{value:.3g}"


def _iops(value: float) -> str:
    return value_text(Metric.IOPS, value)


def layers_table(anchor: str, cell: CellLayers) -> Table:
    """Return a row for each direction of each layer, from the top down."""
    columns = (
        Column(title="layer"),
        Column(title="op"),
        Column(title="IOPS", kind=NUMBER),
        Column(title="MiB/s", kind=NUMBER),
        Column(title="size", kind=NUMBER),
        Column(title="median", kind=NUMBER, rank=2),
        Column(title="merged/s", kind=NUMBER, rank=3),
        Column(title="latency", kind=NUMBER),
        Column(title="in flight", kind=NUMBER),
    )
    rows = [row for layer in cell.median.layers for row in _layer_rows(layer)]
    return Table(id=anchor, caption="", columns=columns, rows=tuple(rows))


def _layer_rows(layer: LayerFlow) -> list[tuple[Cell, ...]]:
    notes = (words(note) for note in (layer.shared, *layer.notes))
    note = "; ".join(part for part in (layer.name, *notes) if part)
    name = _word(layer.short_name + (" *" if layer.shared else ""), note)
    if layer.flows:
        return [(name, _word(flow.op.value), *_flow_cells(flow)) for flow in layer.flows.values()]
    absent = words(layer.unobserved) or "no I/O"
    waiting = _absent(absent) if layer.unobserved else _figure(layer.in_flight, _three_digits)
    return [(name, _word(NOT_SHOWN, absent), *(_absent(absent) for _ in range(6)), waiting)]


def _flow_cells(flow: Flow) -> tuple[Cell, ...]:
    sizes = flow.sizes

    def median(size: float) -> str:
        """Of buckets the lower bound; the lowest bucket holds less than a sector."""
        if sizes is not None and sizes.exact:
            return format_size(size)
        return f"≥ {format_size(size)}" if size else f"< {format_size(_SECTOR)}"

    return (
        _figure(flow.rate, _iops),
        _figure(flow.bandwidth, format_bandwidth),
        _number(flow.mean_size, format_size, "neither operations nor sizes are reported"),
        _number(
            sizes.quantile_bytes(0.5) if sizes else None,
            median,
            words(flow.sizes_absent),
            f"by {sizes.source}" if sizes else "",
        ),
        _figure(flow.merged, _iops),
        _figure(flow.latency, format_latency),
        _figure(flow.in_flight, _three_digits),
    )


def steps_table(anchor: str, cell: CellLayers) -> Table:
    """Return a row for each step and direction."""
    columns = (
        Column(title="from"),
        Column(title="to"),
        Column(title="op"),
        Column(title="bytes", kind=NUMBER),
        Column(title="requests", kind=NUMBER),
        Column(title="in flight", kind=NUMBER, rank=2),
        Column(title="adds up"),
    )
    rows = tuple(_step_row(step, cell) for step in shown_steps(cell))
    return Table(id=anchor, caption="", columns=columns, rows=rows)


def shown_steps(cell: CellLayers) -> list[Step]:
    """Return the steps of directions with more than negligible I/O."""

    def share(layer: LayerFlow, op: Op) -> float:
        whole = sum(layer.moved_bps(each) for each in layer.flows)
        return layer.moved_bps(op) / whole if whole else 0.0

    shown = []
    for step in cell.median.steps:
        above, below = cell.median.layers[step.above], cell.median.layers[step.below]
        share_above, share_below = share(above, step.op), share(below, step.op)
        others = share_above and below.shared
        if share_above >= _NEGLIGIBLE or (share_below >= _NEGLIGIBLE and not others):
            shown.append(step)
    return shown


def _step_row(step: Step, cell: CellLayers) -> tuple[Cell, ...]:
    above, below = cell.median.layers[step.above], cell.median.layers[step.below]
    through = f"through {', '.join(step.through)}" if step.through else ""
    only = "only the layer below has I/O" if step.bytes_ratio is None else ""

    def ratio(value: float | None, absent: str) -> Cell:
        return _number(value, lambda times: f"x {times:.3g}", only or absent)

    return (
        _word(above.short_name, through),
        _word(below.short_name, through),
        _word(step.op.value),
        ratio(step.bytes_ratio, ""),
        ratio(step.operations_ratio, "one of the layers counts no operations"),
        ratio(step.in_flight_ratio, "one of the layers has no requests in flight"),
        _word(_sum_text(step, cell), " ".join(map(words, step.reasons))),
    )


def signed_share(share: float) -> str:
    """Return `+0.4 %`, `-91 %`; -100 % only if nothing is left."""
    value = share * 100
    if -100 < value < -99:
        return f"{max(value, -99.9):+.1f} %"
    digits = 0 if abs(value) >= 9.95 else 1
    return f"{value:+,.{digits}f} %"


def _sum_text(step: Step, cell: CellLayers) -> str:
    """Whether bytes agree, and in how many of the trials: `yes, +0.4 % (3 of 3 trials)`."""
    if step.difference is None:
        return NOT_SHOWN
    difference = signed_share(step.difference)
    if not step.one_to_one:
        return f"not one to one ({difference})"
    if step.adds_up is None:
        return f"{step.open_for or 'unknown'} ({difference})"
    above, below = (cell.median.layers[place].label for place in (step.above, step.below))
    sums = [
        total
        for total in cell.sums
        if (total.op, total.above, total.below) == (step.op, above, below)
    ]
    agree = sum(bool(total.adds_up) for total in sums)
    trials = f" ({agree} of {len(sums)} trials)" if len(sums) > 1 else ""
    return f"{'yes' if step.adds_up else 'no'}, {difference}{trials}"


def setting_items(settings: Sequence[Setting]) -> tuple[str, ...]:
    """Return a line for each setting, those that can matter first; settings with the same cause
    share a line."""
    order = list(Relevance)
    alike: dict[tuple[int, str], list[str]] = {}
    for setting in settings:
        value = _setting_value(setting)
        name = f"{setting.name} ({value})" if value else setting.name
        alike.setdefault((order.index(setting.relevance), words(setting.cause)), []).append(name)
    verbs = {relevance: relevance.value for relevance in Relevance}
    verbs[Relevance.NOT_KNOWN] = "may matter (unknown)"
    ranked = sorted(alike.items(), key=lambda pair: pair[0][0])
    return tuple(
        f"{', '.join(names)} {verbs[order[place]]}. {cause}" for (place, cause), names in ranked
    )


def _setting_value(setting: Setting) -> str:
    """The value; numbers of a sector and more are sizes."""
    number, _, rest = setting.value.partition(" ")
    if number.isdecimal() and int(number) >= _SECTOR:
        return f"{format_size(int(number))} {rest}".rstrip()
    return setting.value


def sweep_table(anchor: str, sweep: RecordSweep) -> Table:
    """Return a row for each record size: throughput of all trials, and its factors."""
    columns = (
        Column(title="record", kind=NUMBER),
        Column(title="MiB/s", kind=NUMBER),
        Column(title="trials"),
        Column(title="at device", kind=NUMBER),
        Column(title="size", kind=NUMBER, rank=2),
        Column(title="in flight", kind=NUMBER),
        Column(title="latency", kind=NUMBER),
        Column(title="product", kind=NUMBER, rank=3),
        Column(title="to object", kind=NUMBER, rank=1),
    )
    absent = "no layer below reports size, latency and requests in flight"
    rows = []
    for row in sweep.rows:
        little = row.little
        trials = ", ".join(map(format_bandwidth, row.throughputs))
        factors = (
            (little.size, little.in_flight, little.latency, little.product)
            if little
            else (None,) * 4
        )
        formats = (format_size, _three_digits, format_latency, format_bandwidth)
        rows.append(
            (
                _number(row.record_bytes, format_size, note=row.target),
                _number(row.throughput, format_bandwidth),
                _word(trials + (" (refused)" if row.refused else "")),
                _number(row.block_size, format_size, "not counted"),
                *(
                    _number(value, shown, absent, f"at {row.layer}")
                    for value, shown in zip(factors, formats, strict=True)
                ),
                _number(
                    little.requests_per_object if little else None,
                    lambda requests: f"1/{requests:,.0f}",
                    "no image is known",
                ),
            )
        )
    return Table(id=anchor, caption="", columns=columns, rows=tuple(rows))


def sizes_chart(anchor: str, cell: CellLayers) -> LineChart | None:
    """Return the share of requests by powers of two of bytes, a line for each layer with counted
    sizes, in the main direction; None if no layer below the engine has sizes."""
    op = cell.median.main_op
    found = [
        (layer.short_name, flow.sizes)
        for layer in cell.median.layers
        if op is not None and (flow := layer.flows.get(op)) is not None and flow.sizes is not None
    ]
    if op is None or not any(name != cell.median.engine.name for name, _ in found):
        return None
    octaves = [octave for _, sizes in found for octave in _octaves(sizes)]
    first, last = min(octaves), max(octaves)
    lines = tuple(
        _line(number, name, sizes, first, last) for number, (name, sizes) in enumerate(found)
    )
    object_bytes = object_size(cell.median.layers)
    widest = max(2.0**last, float(object_bytes or 0))
    bottom, top, ticks = linear_axis(max(share for line in lines for _, share in line.points))
    return LineChart(
        id=anchor,
        title=f"Sizes of {op.value}s by layer",
        series=tuple(name for name, _ in found),
        x=_size_scale(2.0**first, widest),
        y=Scale(
            title="share of requests",
            log=False,
            low=bottom,
            high=top,
            ticks=tuple((tick, share_text(tick) if tick else "0") for tick in ticks),
        ),
        lines=lines,
        drawn=True,
        rules=(Rule(value=float(object_bytes), label="object", upright=True),)
        if object_bytes
        else (),
    )


def _octaves(sizes: Sizes) -> dict[int, int]:
    """Requests by the power of two at or below their size."""
    found: dict[int, int] = {}
    for size, count in sizes.counts.items():
        if count:
            octave = max(0, size.bit_length() - 1)
            found[octave] = found.get(octave, 0) + count
    return found


def _line(number: int, name: str, sizes: Sizes, first: int, last: int) -> Line:
    counts = _octaves(sizes)
    shares = [
        (octave, counts.get(octave, 0), counts.get(octave, 0) / sizes.requests)
        for octave in range(first, last + 1)
    ]
    return Line(
        label=name,
        series=number,
        points=tuple((2.0**octave, share) for octave, _, share in shares),
        texts=tuple(
            f"{name}: {count:,} of {format_size(2**octave)} and more, {share_text(share)}"
            for octave, count, share in shares
        ),
    )


def _size_scale(smallest: float, largest: float) -> Scale:
    """A log axis with ticks at powers of two."""
    first, last = math.floor(math.log2(smallest)), math.ceil(math.log2(largest))
    octaves = range(first, last + 1, max(1, math.ceil((last - first + 1) / _MOST_TICKS)))
    return Scale(
        title="request size",
        log=True,
        low=2.0**first / 1.15,
        high=2.0**last * 1.15,
        ticks=tuple((2.0**octave, format_size(2**octave)) for octave in octaves),
    )
