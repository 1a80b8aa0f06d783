"""Tables and charts of a layer study: layers, steps, settings, record sizes, request sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from leadline.analysis.layers.explain import RecordSweep, SweepRow, object_size
from leadline.analysis.layers.facts import Relevance, Setting
from leadline.analysis.layers.model import Figure, Flow, LayerFlow, Sizes
from leadline.analysis.layers.steps import Step
from leadline.analysis.layers.study import CellLayers
from leadline.metrics import Metric, Op
from leadline.report.cells import absent, number, number_column, records_table, table, word
from leadline.report.curves import linear_scale, scale, share_tick
from leadline.report.document import Cell, Line, LineChart, Rule, Scale, Table
from leadline.report.pages.layer_words import words
from leadline.report.words import NOT_SHOWN, share_text, value_text
from leadline.units import format_bandwidth, format_latency, format_size

_NEGLIGIBLE = 0.01
_SECTOR = 512
# More ticks on the axis overlap.
_MOST_TICKS = 6
_iops = partial(value_text, Metric.IOPS)


def _figure(figure: Figure, shown: Callable[[float], str]) -> Cell:
    return number(figure.value, shown, words(figure.absent), f"by {figure.source}")


def _three_digits(value: float) -> str:
    return f"{value:.3g}"


def layers_table(anchor: str, cell: CellLayers, choice: str = "") -> Table:
    """A row for each direction of each layer, from the top down."""
    columns = (
        *("layer", "op", number_column("IOPS"), number_column("MiB/s"), number_column("size")),
        *(number_column("median", 2), number_column("merged/s", 3), number_column("latency")),
        number_column("in flight"),
    )
    rows = [row for layer in cell.median.layers for row in _layer_rows(layer)]
    return table(anchor, columns, rows, choice=choice)


def _layer_rows(layer: LayerFlow) -> list[tuple[Cell, ...]]:
    notes = (words(note) for note in (layer.shared, *layer.notes))
    note = "; ".join(part for part in (layer.name, *notes) if part)
    name = word(layer.short_name + (" *" if layer.shared else ""), note)
    if layer.flows:
        return [(name, word(flow.op.value), *_flow_cells(flow)) for flow in layer.flows.values()]
    reason = words(layer.unobserved) or "no I/O"
    waiting = absent(reason) if layer.unobserved else _figure(layer.in_flight, _three_digits)
    return [(name, word(NOT_SHOWN, reason), *[absent(reason)] * 6, waiting)]


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
        number(flow.mean_size, format_size, "neither operations nor sizes are reported"),
        number(
            sizes.quantile_bytes(0.5) if sizes else None,
            median,
            words(flow.sizes_absent),
            f"by {sizes.source}" if sizes else "",
        ),
        _figure(flow.merged, _iops),
        _figure(flow.latency, format_latency),
        _figure(flow.in_flight, _three_digits),
    )


def steps_table(anchor: str, cell: CellLayers, choice: str = "") -> Table:
    layers = cell.median.layers

    def end(step: Step, layer: int) -> Cell:
        through = f"through {', '.join(step.through)}" if step.through else ""
        return word(layers[layer].short_name, through)

    def ratio(step: Step, value: float | None, absence: str = "") -> Cell:
        only = "only the layer below has I/O" if step.bytes_ratio is None else ""
        return number(value, lambda times: f"x {times:.3g}", only or absence)

    return records_table(
        anchor,
        shown_steps(cell),
        ("from", lambda step: end(step, step.above)),
        ("to", lambda step: end(step, step.below)),
        ("op", lambda step: step.op.value),
        (number_column("bytes"), lambda step: ratio(step, step.bytes_ratio)),
        (
            number_column("requests"),
            lambda step: ratio(
                step, step.operations_ratio, "one of the layers counts no operations"
            ),
        ),
        (
            number_column("in flight", 2),
            lambda step: ratio(
                step, step.in_flight_ratio, "one of the layers has no requests in flight"
            ),
        ),
        ("adds up", lambda step: word(_sum_text(step, cell), " ".join(map(words, step.reasons)))),
        choice=choice,
    )


def shown_steps(cell: CellLayers) -> list[Step]:
    """Select the steps of directions with more than negligible I/O."""

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


def signed_share(share: float) -> str:
    """Format `+0.4 %`, `-91 %`; -100 % only if nothing is left."""
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
    """Format a line for each setting, those that can matter first; settings with the same cause
    share a line."""
    order = list(Relevance)
    alike: dict[tuple[int, str], list[str]] = {}
    for setting in settings:
        value = setting_value(setting)
        name = f"{setting.name} ({value})" if value else setting.name
        alike.setdefault((order.index(setting.relevance), words(setting.cause)), []).append(name)
    verbs = {relevance: relevance.value for relevance in Relevance}
    verbs[Relevance.NOT_KNOWN] = "may matter (unknown)"
    ranked = sorted(alike.items(), key=lambda pair: pair[0][0])
    return tuple(
        f"{', '.join(names)} {verbs[order[place]]}. {cause}" for (place, cause), names in ranked
    )


def setting_value(setting: Setting) -> str:
    """The value; numbers of a sector and more are sizes."""
    number, _, rest = setting.value.partition(" ")
    if number.isdecimal() and int(number) >= _SECTOR:
        return f"{format_size(int(number))} {rest}".rstrip()
    return setting.value


def sweep_table(anchor: str, sweep: RecordSweep) -> Table:
    """A row for each record size: throughput of all trials, and its factors."""

    def trials(row: SweepRow) -> str:
        texts = ", ".join(map(format_bandwidth, row.throughputs))
        return texts + (" (refused)" if row.refused else "")

    def factor(name: str, shown: Callable[[float], str]) -> Callable[[SweepRow], Cell]:
        absence = "no layer below reports size, latency and requests in flight"
        return lambda row: number(
            getattr(row.little, name, None), shown, absence, f"at {row.layer}"
        )

    def per_object(row: SweepRow) -> Cell:
        requests = row.little.requests_per_object if row.little else None
        return number(requests, lambda each: f"1/{each:,.0f}", "no image is known")

    return records_table(
        anchor,
        sweep.rows,
        (
            number_column("record"),
            lambda row: number(row.record_bytes, format_size, note=row.target),
        ),
        (number_column("MiB/s"), lambda row: number(row.throughput, format_bandwidth)),
        ("trials", trials),
        (
            number_column("at device"),
            lambda row: number(row.block_size, format_size, "not counted"),
        ),
        (number_column("size", 2), factor("size", format_size)),
        (number_column("in flight"), factor("in_flight", _three_digits)),
        (number_column("latency"), factor("latency", format_latency)),
        (number_column("product", 3), factor("product", format_bandwidth)),
        (number_column("to object", 1), per_object),
    )


def sizes_chart(anchor: str, cell: CellLayers, choice: str = "") -> LineChart | None:
    """Draw the share of requests by powers of two of bytes, a line for each layer with counted
    sizes, in the main direction; None if no layer below the engine has sizes."""
    op = cell.median.main_op
    if op is None:
        return None
    found = [
        (layer.short_name, flow.sizes)
        for layer in cell.median.layers
        if (flow := layer.flows.get(op)) is not None and flow.sizes is not None
    ]
    if not any(name != cell.median.engine.name for name, _ in found):
        return None
    octaves = [octave for _, sizes in found for octave in _octaves(sizes)]
    first, last = min(octaves), max(octaves)
    lines = tuple(
        _line(number, name, sizes, range(first, last + 1))
        for number, (name, sizes) in enumerate(found)
    )
    object_bytes = float(object_size(cell.median.layers) or 0)
    highest = max(share for line in lines for _, share in line.points)
    return LineChart(
        id=anchor,
        title=f"Sizes of {op.value}s by layer",
        series=tuple(name for name, _ in found),
        x=size_scale(2.0**first, max(2.0**last, object_bytes)),
        y=linear_scale("share of requests", highest, share_tick),
        lines=lines,
        choice=choice,
        drawn=True,
        rules=(Rule(value=object_bytes, label="object", upright=True),) if object_bytes else (),
    )


def _octaves(sizes: Sizes) -> Counter[int]:
    """Requests by the power of two at or below their size."""
    found: Counter[int] = Counter()
    for size, count in sizes.counts.items():
        if count:
            found[max(0, size.bit_length() - 1)] += count
    return found


def _line(number: int, name: str, sizes: Sizes, octaves: range) -> Line:
    counts = _octaves(sizes)
    # Between octaves without requests the line is straight.
    shown = [
        octave
        for octave in octaves
        if octave in (octaves[0], octaves[-1])
        or any(counts[near] for near in (octave - 1, octave, octave + 1))
    ]
    shares = [(octave, counts[octave], counts[octave] / sizes.requests) for octave in shown]
    return Line(
        label=name,
        series=number,
        points=tuple((2.0**octave, share) for octave, _, share in shares),
        texts=tuple(
            f"{name}: {count:,} of {format_size(2**octave)} and more, {share_text(share)}"
            for octave, count, share in shares
        ),
    )


def size_scale(smallest: float, largest: float) -> Scale:
    """A log axis of bytes with ticks at powers of two."""
    first, last = math.floor(math.log2(smallest)), math.ceil(math.log2(largest))
    step = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    ticks = [2.0**octave for octave in range(first, last + 1, step)]
    axis = (2.0**first / 1.15, 2.0**last * 1.15, ticks)
    return scale("request size", axis, format_size, log=True)
