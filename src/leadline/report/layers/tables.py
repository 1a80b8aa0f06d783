"""Layers as tables: what each did, what came between, which settings matter, by record size."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.layers.arithmetic import Step
from leadline.analysis.layers.model import Figure, Flow, LayerFlow
from leadline.analysis.layers.relevance.model import UNKNOWN, Relevance, Setting
from leadline.analysis.layers.study import CellLayers
from leadline.analysis.layers.sweep import RecordSweep
from leadline.archive.records import LayerKind
from leadline.metrics import Metric, Op
from leadline.report.document import Cell, Column, Kind, Table
from leadline.report.wording import NOT_SHOWN, value_text, visible
from leadline.units import format_bandwidth, format_latency, format_size

NUMBER = Kind.NUMBER
_TRIFLE = 0.01
_SECTOR = 512


def word(text: str, note: str = "") -> Cell:
    shown = visible(text)
    return Cell(text=shown, sort=shown, note=visible(note))


def absent(why: str) -> Cell:
    return Cell(text=NOT_SHOWN, note=visible(why), missing=True)


def number(value: float | None, text: str, why: str = "", note: str = "") -> Cell:
    if value is None:
        return absent(why)
    return Cell(text=text, sort=value, note=visible(note))


def layer_name(layer: LayerFlow) -> str:
    """`fio`, `ext4`, `loop1`, `rbd-fuse`, `image`, `zfs`; else its name with its kind."""
    match layer.kind:
        case None | LayerKind.FILESYSTEM | LayerKind.BLOCK:
            return layer.name
        case LayerKind.IMAGE:
            return "image"  # a stack has one, and its name may be long
        case LayerKind.ZFS:
            return "zfs"  # as of an image
        case LayerKind.FUSE:
            return layer.facts.get("program") or f"fuse {layer.name}"
        case _:
            return f"{layer.kind.value} {layer.name}"


def layers_table(anchor: str, cell: CellLayers) -> Table:
    """A row for each direction of each layer, from the top down."""
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
    note = "; ".join(part for part in (layer.name, layer.shared, *layer.notes) if part)
    name = layer_name(layer) + (" *" if layer.shared else "")
    if not layer.flows:
        why = layer.unobserved or "nothing was done"
        waiting = layer.in_flight if layer.observed else Figure(absent=why)
        blank = tuple(absent(why) for _ in range(6))
        return [(word(name, note), word(NOT_SHOWN, why), *blank, _in_flight(waiting))]
    return [
        (word(name, note), word(flow.op.value), *_flow_cells(flow)) for flow in layer.flows.values()
    ]


def _flow_cells(flow: Flow) -> tuple[Cell, ...]:
    size = flow.mean_size_bytes
    median = flow.sizes.quantile_bytes(0.5) if flow.sizes else None
    merged = flow.merged
    return (
        _figure(flow.rate, lambda value: value_text(Metric.IOPS, value)),
        _figure(flow.bandwidth, format_bandwidth),
        number(size, format_size(size or 0), "neither operations nor sizes are told"),
        number(
            median,
            _median_text(median or 0, exact=flow.sizes is not None and flow.sizes.exact),
            flow.sizes_absent,
            f"by {flow.sizes.source}" if flow.sizes else "",
        ),
        _figure(merged, lambda value: value_text(Metric.IOPS, value)),
        _figure(flow.latency, format_latency),
        _in_flight(flow.in_flight),
    )


def _median_text(size: int, *, exact: bool) -> str:
    """Of buckets the lower bound; the least one holds what has fewer bytes than a sector."""
    if exact:
        return format_size(size)
    return f"≥ {format_size(size)}" if size else f"< {format_size(_SECTOR)}"


def _figure(one: Figure, shown: object) -> Cell:
    if one.value is None or not callable(shown):
        return absent(one.absent)
    return Cell(text=str(shown(one.value)), sort=one.value, note=visible(f"by {one.source}"))


def _in_flight(one: Figure) -> Cell:
    return number(one.value, f"{one.value or 0:.3g}", one.absent, f"by {one.source}")


def steps_table(anchor: str, cell: CellLayers) -> Table:
    """What comes between each two layers, both directions."""
    columns = (
        Column(title="from"),
        Column(title="to"),
        Column(title="op"),
        Column(title="bytes", kind=NUMBER),
        Column(title="requests", kind=NUMBER),
        Column(title="in flight", kind=NUMBER, rank=2),
        Column(title="adds up"),
    )
    rows = tuple(_step_row(step, cell) for step in telling_steps(cell))
    return Table(id=anchor, caption="", columns=columns, rows=rows)


def telling_steps(cell: CellLayers) -> list[Step]:
    """All but those of a direction in which next to nothing was done."""
    return [step for step in cell.median.steps if not _trifle(step, cell.median.layers)]


def _trifle(step: Step, layers: Sequence[LayerFlow]) -> bool:
    """Next to nothing on both sides, or on the lower one which others use, too."""
    above, below = (_share(layers[place], step.op) for place in (step.above, step.below))
    return above < _TRIFLE and (below < _TRIFLE or bool(above and layers[step.below].shared))


def _share(layer: LayerFlow, op: Op) -> float:
    """Of a layer's bytes the share of a direction."""
    moved = {one: flow.bandwidth.value or 0.0 for one, flow in layer.flows.items()}
    return moved.get(op, 0.0) / whole if (whole := sum(moved.values())) else 0.0


def _step_row(step: Step, cell: CellLayers) -> tuple[Cell, ...]:
    above, below = cell.median.layers[step.above], cell.median.layers[step.below]
    through = f"through {', '.join(step.through)}" if step.through else ""
    only = "only the layer below did it" if step.bytes_ratio is None else ""
    return (
        word(layer_name(above), through),
        word(layer_name(below), through),
        word(step.op.value),
        _ratio(step.bytes_ratio, only),
        _ratio(step.operations_ratio, only or "operations are not counted on both sides"),
        _ratio(step.in_flight_ratio, only or "what is in flight is not known on both sides"),
        word(sum_text(step, cell), " ".join(step.reasons)),
    )


def _ratio(value: float | None, why: str) -> Cell:
    return number(value, f"x {value:.3g}" if value is not None else "", why)


def signed(share: float) -> str:
    """`+0.4 %`, `-91 %`."""
    value = share * 100
    if -100 < value < -99:
        return f"{max(value, -99.9):+.1f} %"  # next to nothing, which is not nothing
    digits = 0 if abs(value) >= 9.95 else 1
    return f"{value:+,.{digits}f} %"


def sum_text(step: Step, cell: CellLayers) -> str:
    """Whether bytes agree, and in how many of the trials: `yes, +0.4 % (3 of 3 trials)`."""
    if step.difference is None:
        return "–"
    if step.one_to_one and step.adds_up is None:
        return f"{step.open_for} ({signed(step.difference)})"
    if not step.one_to_one:
        return f"not one to one ({signed(step.difference)})"
    above = cell.median.layers[step.above].label
    below = cell.median.layers[step.below].label
    mine = [one for one in cell.sums if (one.op, one.above, one.below) == (step.op, above, below)]
    held = sum(bool(one.adds_up) for one in mine)
    trials = f" ({held} of {len(mine)} trials)" if len(mine) > 1 else ""
    return f"{'yes' if step.adds_up else 'no'}, {signed(step.difference)}{trials}"


def setting_items(settings: Sequence[Setting]) -> tuple[str, ...]:
    """A line for each setting, those that can matter first; one for those of which the same is
    said."""
    order = list(Relevance)
    alike: dict[tuple[int, str], list[str]] = {}
    for one in settings:
        name = f"{one.name} ({value})" if (value := _value(one)) else one.name
        alike.setdefault((order.index(one.relevance), one.sentence), []).append(name)
    ranked = sorted(alike.items(), key=lambda pair: pair[0][0])
    return tuple(
        visible(f"{', '.join(names)} {_said(order[place], sentence)}")
        for (place, sentence), names in ranked
    )


def _said(relevance: Relevance, sentence: str) -> str:
    if relevance is Relevance.NOT_KNOWN:
        return f"is not told by the evidence: {sentence.removeprefix(UNKNOWN)}"
    return f"{relevance.value}. {sentence}"


def _value(one: Setting) -> str:
    """Only sizes are that large."""
    number, _, rest = one.value.partition(" ")
    if number.isdecimal() and int(number) >= _SECTOR:
        return f"{format_size(int(number))} {rest}".rstrip()
    return one.value


def sweep_table(anchor: str, sweep: RecordSweep) -> Table:
    """A row for each record size: throughput of all trials, and what makes it up."""
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
    rows = []
    for one in sweep.rows:
        little = one.little
        why = "no layer below tells size, latency and requests in flight"
        trials = ", ".join(format_bandwidth(value) for value in one.throughputs_bps)
        if one.refused:
            trials += " (refused)"
        objects = little.objects if little else None
        rows.append(
            (
                number(one.record_bytes, format_size(one.record_bytes), note=one.target),
                number(one.throughput_bps, format_bandwidth(one.throughput_bps)),
                word(trials),
                number(one.block_bytes, format_size(one.block_bytes or 0), "not counted"),
                number(
                    little.size_bytes if little else None,
                    format_size(little.size_bytes) if little else "",
                    why,
                    f"at {one.little_at}",
                ),
                number(
                    little.in_flight if little else None,
                    f"{little.in_flight:.3g}" if little else "",
                    why,
                ),
                number(
                    little.latency_s if little else None,
                    format_latency(little.latency_s) if little else "",
                    why,
                ),
                number(
                    little.product_bps if little else None,
                    format_bandwidth(little.product_bps) if little else "",
                    why,
                ),
                number(objects, f"1/{objects or 0:,.0f}", "no image is known"),
            )
        )
    return Table(id=anchor, caption="", columns=columns, rows=tuple(rows))
