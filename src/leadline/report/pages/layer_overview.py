"""The page of a layer study: headline, tiles and the drawn stack, then tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from leadline.analysis.layers.explain import RecordSweep
from leadline.analysis.layers.facts import Relevance
from leadline.analysis.layers.model import Flow, LayerFlow
from leadline.analysis.layers.steps import TOLERANCE, Step
from leadline.analysis.layers.study import CellLayers, LayerStudy
from leadline.inventory.layer import LayerKind
from leadline.metrics import Metric, Op
from leadline.report.cells import absent, number_column, quantity, section, table, word
from leadline.report.curves import linear_scale
from leadline.report.document import (
    Bar,
    BarChart,
    BarGroup,
    Block,
    Cell,
    Choices,
    Code,
    Document,
    Dot,
    Gauge,
    Scale,
    Section,
    Table,
    Tile,
    Tiles,
)
from leadline.report.pages.comparison.method import measuring_commands, run_text
from leadline.report.pages.layer_tables import (
    layers_table,
    setting_value,
    shown_steps,
    signed_share,
    size_scale,
    sizes_chart,
    steps_table,
    sweep_table,
)
from leadline.report.pages.layer_words import explanation, words
from leadline.report.pages.redactions import redaction_sections
from leadline.report.pages.run.charts import value_axis
from leadline.report.words import count_text, listed, place, short
from leadline.units import format_bandwidth, format_latency, format_size
from leadline.version import __version__

_NAME = 24
_MOST_BULLETS = 4
_KINDS = {
    None: "engine",
    LayerKind.FILESYSTEM: "file system",
    LayerKind.ZFS: "ZFS",
    LayerKind.FUSE: "FUSE program",
    LayerKind.NFS: "NFS mount",
    LayerKind.BLOCK: "block device",
    LayerKind.IMAGE: "image (librbd)",
    LayerKind.POOL: "pool (OSDs)",
}


def cell_name(cell: CellLayers) -> str:
    return place(cell.target, cell.workload, cell.level)


def layers_page(study: LayerStudy) -> Document:
    """Build the page of a study: the stack of one cell drawn, then every cell and its evidence."""
    chosen = _drawn_cell(study)
    sections = (
        _sweeps(study),
        _stacks(study, chosen),
        section("Explanation", "explanation", _explanations(study)),
        _counted("Differences of bytes", "differences", _differences(study)),
        _settings_section(study),
        _counters(study),
        _counted("Notes", "notes", _notes(study)),
        *redaction_sections(study.run),
        _method(study),
    )
    return Document(
        title=f"Layers of {study.run.id}",
        subtitle=place(
            count_text(len(study.cells), "cell"), "by record size" if study.sweeps else ""
        ),
        summary=(_headline(chosen), *_bullets(study)),
        front=_front(study, chosen) if chosen else (),
        sections=tuple(made for made in sections if made.blocks),
    )


def _counted(heading: str, anchor: str, shown: Table | None) -> Section:
    """A folded table with the count of its rows as the result."""
    result = f"{len(shown.rows):,}" if shown else ""
    return section(heading, anchor, shown, folded=True, result=result)


def _settings_section(study: LayerStudy) -> Section:
    found = {
        (setting.name, setting_value(setting)): setting.relevance
        for cell in study.cells
        for setting in cell.settings
    }
    can = sum(one is Relevance.CAN for one in found.values())
    result = f"{can:,} of {count_text(len(found), 'setting')} can matter"
    return section("Settings", "settings", _settings(study), folded=True, result=result)


def _drawn_cell(study: LayerStudy) -> CellLayers | None:
    """The cell of the first screen: the middle of a sweep, else the slowest one with figures of a
    layer below the engine whose throughput the audit accepts."""
    if study.sweeps:
        sweep = study.sweeps[0]
        rows = sweep.usable or sweep.rows
        middle = rows[len(rows) // 2]
        key = (middle.target, sweep.workload, sweep.level)
        return next(cell for cell in study.cells if (cell.target, cell.workload, cell.level) == key)
    known = [cell for cell in study.cells if any(one.flows for one in cell.median.layers[1:])]
    accepted = [cell for cell in known if not cell.refused] or known or list(study.cells)
    return min(accepted, key=lambda cell: cell.median.throughput_bps, default=None)


# --- words --------------------------------------------------------------------------------------


def _headline(cell: CellLayers | None) -> str:
    """Say where the stack narrows, in at most 20 words without names."""
    if cell is None:
        return "No cell has layers."
    found, causes = cell.median, cell.causes
    rate = f"{format_bandwidth(found.throughput_bps)} MiB/s"
    if causes.lost_at:
        step = causes.lost_at
        above, below = (_name(found.layers[at]) for at in (step.above, step.below))
        many, few = (_in_flight(found.layers[at], step.op) for at in (step.above, step.below))
        return f"{rate}: {many:.3g} requests in flight at {above} become {few:.3g} at {below}."
    if causes.idle_at:
        below = _name(found.layers[causes.idle_at.below])
        op = causes.idle_at.op.value
        return f"{_name(found.engine)} reaches {rate}; no {op} reaches {below}."
    if causes.little:
        little = causes.little
        return (
            f"{rate}: {_name(found.layers[little.layer])} has {little.in_flight:.3g} requests in "
            f"flight of {format_size(little.size)}, {format_latency(little.latency)} each."
        )
    return f"{rate}; no layer below reports size, latency and requests in flight."


def _name(layer: LayerFlow) -> str:
    return short(layer.short_name, _NAME)


def _in_flight(layer: LayerFlow, op: Op) -> float:
    return layer.flows[op].in_flight.value or 0.0 if op in layer.flows else 0.0


def _bullets(study: LayerStudy) -> tuple[str, ...]:
    refused = [cell for cell in study.cells if cell.refused]
    codes = listed(sorted({code for cell in refused for code in cell.refused}), 2)
    found = [
        f"The audit refuses the throughput of {len(refused)} of "
        f"{count_text(len(study.cells), 'cell')}: {codes}; the counters remain valid."
        if refused
        else "",
        *(f"{words(cause)}." for cause in study.missing),
    ]
    return tuple(filter(None, found))[:_MOST_BULLETS]


# --- the first screen ---------------------------------------------------------------------------


def _front(study: LayerStudy, cell: CellLayers) -> tuple[Block, ...]:
    return (
        Tiles(tiles=tuple(_tiles(study, cell))),
        stack_table("stack", cell, f"The stack of {cell_name(cell)}"),
    )


def _tiles(study: LayerStudy, cell: CellLayers) -> Iterator[Tile]:
    found, causes = cell.median, cell.causes
    op = found.main_op.value if found.main_op else ""
    yield Tile(
        title="Throughput",
        unit=op,
        value=f"{format_bandwidth(found.throughput_bps)} MiB/s",
        verdict="warning" if cell.refused else "",
        note=f"Refused: {listed(cell.refused, 2)}." if cell.refused else f"{_short_name(cell)}.",
    )
    if causes.little:
        little = causes.little
        yield Tile(
            title="Narrowest layer",
            unit="",
            value=_name(found.layers[little.layer]),
            verdict="",
            note=f"{format_size(little.size)}, {little.in_flight:.3g} in flight, "
            f"{format_latency(little.latency)} each.",
        )
    split = max(
        (step for step in shown_steps(cell) if step.op is found.main_op and _changes(step)),
        key=lambda step: abs((step.size_ratio or 1.0) - 1),
        default=None,
    )
    if split is not None:
        above, below = (_name(found.layers[at]) for at in (split.above, split.below))
        yield Tile(
            title=_verb(split).capitalize(),
            unit="requests",
            value=f"x {split.operations_ratio:.3g}",
            verdict="",
            note=f"From {above} to {below}.",
        )
    matters = next((one for one in cell.settings if one.name == "recordsize"), None)
    if study.sweeps and matters is not None:
        rates = [format_bandwidth(row.throughput) for row in study.sweeps[0].rows]
        yield Tile(
            title="Record size",
            unit="",
            value=_matters(matters.relevance),
            verdict="",
            note=f"{rates[0]} to {rates[-1]} MiB/s, smallest to largest record.",
        )
    tested = [total for one in study.cells for total in one.sums if total.adds_up is not None]
    if tested:
        agree = sum(bool(total.adds_up) for total in tested)
        yield Tile(
            title="Bytes agree",
            unit="sums between layers",
            value=f"{agree} of {len(tested)}",
            verdict="" if agree == len(tested) else "warning",
            note=f"Within {TOLERANCE * 100:.0f} %, all trials.",
        )


def _short_name(cell: CellLayers) -> str:
    return place(short(cell.target, _NAME), short(cell.workload, _NAME), cell.level)


def _changes(step: Step) -> bool:
    """Whether requests have another size below: they are split or merged. Where only their number
    differs, so do the bytes, and nothing is split."""
    return step.size_ratio is not None and abs(step.size_ratio - 1) > TOLERANCE


# --- the stack ----------------------------------------------------------------------------------


def stack_table(anchor: str, cell: CellLayers, caption: str, choice: str = "") -> Table:
    """Draw a layer in each row, from the engine down: size, requests in flight and latency of the
    main direction, and what happens to requests on the way to it."""
    found = cell.median
    op = found.main_op
    flows = [layer.flows.get(op) if op else None for layer in found.layers]
    known = [flow for flow in flows if flow is not None]
    sizes = [flow.mean_size for flow in known if flow.mean_size]
    sized = size_scale(min(sizes), max(sizes)) if sizes else None
    in_flight = _bars([flow.in_flight.value for flow in known], lambda value: f"{value:.3g}")
    latency = _bars([flow.latency.value for flow in known], format_latency)
    narrow = cell.causes.little.layer if cell.causes.little else None
    steps = {step.below: step for step in found.steps if step.op is op}
    columns = (
        *("layer", "kind"),
        number_column("request size", scale=sized),
        number_column("in flight", scale=in_flight),
        number_column("latency", scale=latency),
        "from the layer above",
    )
    rows = [
        (
            word(layer.short_name, layer.name),
            word(_KINDS[layer.kind] + (", narrowest" if at == narrow else "")),
            _size(layer, flow),
            _bar(flow.in_flight.value if flow else None, lambda value: f"{value:.3g}", layer),
            _bar(flow.latency.value if flow else None, format_latency, layer),
            _change(steps.get(at)),
        )
        for at, (layer, flow) in enumerate(zip(found.layers, flows, strict=True))
    ]
    return table(anchor, columns, rows, caption=caption, choice=choice)


def _bars(values: Sequence[float | None], shown: Callable[[float], str]) -> Scale | None:
    given = [value for value in values if value]
    if not given:
        return None
    return linear_scale("", max(given), lambda value: shown(value) if value else "0")


def _size(layer: LayerFlow, flow: Flow | None) -> Cell:
    size = flow.mean_size if flow else None
    if not size:
        return _unknown(layer)
    return Cell(text=format_size(size), sort=size, gauge=Gauge(value=size))


def _bar(value: float | None, shown: Callable[[float], str], layer: LayerFlow) -> Cell:
    if value is None:
        return _unknown(layer)
    return Cell(text=shown(value), sort=value, gauge=Gauge(value=value, bar=True))


def _unknown(layer: LayerFlow) -> Cell:
    return absent(words(layer.unobserved) or "not reported by this layer")


def _verb(step: Step) -> str:
    return "split" if (step.size_ratio or 1.0) < 1 else "merged"


def _change(step: Step | None) -> Cell:
    """`split: x 2 requests; x 0.13 in flight`."""
    if step is None:
        return word("")
    parts = []
    if _changes(step):
        parts.append(f"{_verb(step)}: x {step.operations_ratio:.3g} requests")
    elif step.operations_ratio is not None:
        parts.append("same size")
    if step.bytes_ratio is not None and abs(step.bytes_ratio - 1) > TOLERANCE:
        why = f" ({step.open_for})" if step.open_for else ""
        parts.append(f"x {step.bytes_ratio:.3g} bytes{why}")
    if step.in_flight_ratio is not None and abs(step.in_flight_ratio - 1) > TOLERANCE:
        parts.append(f"x {step.in_flight_ratio:.3g} in flight")
    return word("; ".join(parts), f"through {', '.join(step.through)}" if step.through else "")


def _stacks(study: LayerStudy, drawn: CellLayers | None) -> Section:
    """The other stacks and the request sizes of every cell, one cell at a time."""
    blocks: list[Block] = []
    options = []
    for number, cell in enumerate(study.cells, start=1):
        choice = f"cell-{number}" if len(study.cells) > 1 else ""
        own: list[Block] = []
        if cell is not drawn:
            own.append(stack_table(f"stack-{number}", cell, cell_name(cell), choice))
        chart = sizes_chart(f"layers-{number}-sizes", cell, choice)
        own += [chart] if chart else []
        if own:
            options.append((choice, cell_name(cell)))
        blocks += own
    # Charts next to each other share a row.
    blocks.sort(key=lambda block: not isinstance(block, Table))
    choices = Choices(id="stack-cell", label="Cell", options=tuple(options))
    several = len(study.cells) > 1
    heading = "Stack of each cell" if several else "Request sizes"
    chosen = choices if several and options[1:] else None
    return section(heading, "stacks", chosen, *blocks, result=_narrowest(study))


def _narrowest(study: LayerStudy) -> str:
    """`narrowest at vdc in 3 of 3 cells`: the most frequent layer; empty where none is known."""
    names = Counter(
        cell.median.layers[cell.causes.little.layer].short_name
        for cell in study.cells
        if cell.causes.little
    )
    most = names.most_common(1)
    of = count_text(len(study.cells), "cell")
    return f"narrowest at {short(most[0][0], _NAME)} in {most[0][1]:,} of {of}" if most else ""


# --- by record size -----------------------------------------------------------------------------


def _sweeps(study: LayerStudy) -> Section:
    blocks: list[Block] = []
    for number, sweep in enumerate(study.sweeps, start=1):
        blocks += [
            _sweep_chart(f"sweep-{number}", sweep),
            sweep_table(f"layers-sweep-{number}", sweep),
        ]
    return section("By record size", "layers-by-record", *blocks)


def _sweep_chart(anchor: str, sweep: RecordSweep) -> BarChart:
    rates = [rate for row in sweep.rows for rate in row.throughputs]
    low, high, ticks = value_axis(Metric.BANDWIDTH, rates)
    return BarChart(
        id=anchor,
        title=place(sweep.workload, sweep.level),
        series=("throughput",),
        scale=Scale(title="MiB/s, median and trials", log=False, low=low, high=high, ticks=ticks),
        groups=tuple(
            BarGroup(
                label=format_size(row.record_bytes),
                bars=(
                    Bar(
                        series=0,
                        value=row.throughput,
                        text=f"{format_bandwidth(row.throughput)} MiB/s",
                        dots=tuple(
                            Dot(trial=f"{trial}", value=one, text=f"{format_bandwidth(one)} MiB/s")
                            for trial, one in enumerate(row.throughputs, start=1)
                        ),
                        refused=bool(row.refused),
                    ),
                ),
            )
            for row in sweep.rows
        ),
    )


# --- evidence -----------------------------------------------------------------------------------


def _explanations(study: LayerStudy) -> Table | None:
    rows = [(cell_name(cell), text) for cell in study.cells for text in explanation(cell)]
    return table("explanations", ("cell", "explanation"), rows) if rows else None


def _matters(relevance: Relevance) -> str:
    return "unknown" if relevance is Relevance.NOT_KNOWN else relevance.value


def _differences(study: LayerStudy) -> Table | None:
    rows = []
    for cell in study.cells:
        for step in shown_steps(cell):
            if step.reasons:
                layers = cell.median.layers
                above, below = layers[step.above].short_name, layers[step.below].short_name
                size = signed_share(step.difference) if step.difference is not None else "–"
                reasons = " ".join(map(words, step.reasons[:2]))
                rows.append((cell_name(cell), f"{above} to {below}", step.op.value, size, reasons))
    columns = ("cell", "step", "op", number_column("bytes"), "reason")
    return table("byte-differences", columns, rows) if rows else None


def _settings(study: LayerStudy) -> Table | None:
    """The settings, those that can matter first; a cause that several cells share has one row."""
    order = list(Relevance)
    rows: dict[tuple[int, str, str, str], int] = {}
    for cell in study.cells:
        for setting in cell.settings:
            key = (
                order.index(setting.relevance),
                setting.name,
                setting_value(setting),
                words(setting.cause),
            )
            rows[key] = rows.get(key, 0) + 1
    if not rows:
        return None
    columns = ("setting", "value", "relevance", number_column("cells"), "cause")
    return table(
        "layer-settings",
        columns,
        (
            (name, value, _matters(order[at]), quantity(f"{cells}", cells), cause)
            for (at, name, value, cause), cells in sorted(rows.items())
        ),
        filterable=len(rows) > 12,
    )


def _counters(study: LayerStudy) -> Section:
    """Both directions of every layer, and the ratios between layers, one cell at a time."""
    blocks: list[Block] = []
    several = len(study.cells) > 1
    options = []
    for number, cell in enumerate(study.cells, start=1):
        choice = f"counters-{number}" if several else ""
        options.append((choice, cell_name(cell)))
        blocks.append(layers_table(f"layers-{number}-flows", cell, choice))
        if cell.median.steps:
            blocks.append(steps_table(f"layers-{number}-steps", cell, choice))
    choices = Choices(id="counters-cell", label="Cell", options=tuple(options)) if several else None
    return section("Counters", "counters", choices, *blocks, folded=True)


def _notes(study: LayerStudy) -> Table | None:
    rows: dict[str, list[str]] = {}
    for cell in study.cells:
        for text in _cell_notes(cell):
            rows.setdefault(text, []).append(cell_name(cell))
    if not rows:
        return None
    shown = ((listed(cells, 2), text) for text, cells in rows.items())
    return table("layer-notes", ("cells", "note"), shown)


def _cell_notes(cell: CellLayers) -> Iterator[str]:
    for layer in cell.median.layers:
        if layer.unobserved:
            yield f"{layer.short_name} was not observed: {words(layer.unobserved)}."
        if layer.shared and layer.flows:
            yield f"{layer.short_name} has other users: {words(layer.shared)}."
        yield from (f"{layer.short_name}: {words(note)}." for note in layer.notes)
    yield from map(words, cell.median.notes)


def _method(study: LayerStudy) -> Section:
    rows = (
        ("figures", "each layer's own counters; sizes, latency and in flight are means"),
        ("cell", "the trial with the median throughput, of two the lower one"),
        ("stack", "the main direction; latency minus that of the layer below is time in a layer"),
        ("ratios", "below / above: more bytes amplify, more requests split, fewer merge"),
        ("bytes agree", f"within {TOLERANCE * 100:.0f} % in layers that pass data on unchanged"),
        ("dash", "a figure that the layer does not report; hatched in the stack"),
        ("star", "a layer with other users, whose I/O is in its figures"),
        ("product", "size x in flight / latency, of the layer where the stack narrows"),
        (study.run.id, run_text(study.run)),
        ("page", f"Leadline {__version__}; details: docs/concepts/layers.md"),
    )
    commands = (*measuring_commands((study.run,)), f"leadline layers {study.run.id}")
    return section(
        "Method",
        "method",
        table("method-table", ("", ""), rows, caption="Method"),
        Code(text="\n".join(commands)),
        folded=True,
    )
