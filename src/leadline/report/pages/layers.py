"""Layers as sections of a document: of a verb's answer, and of a run's page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from leadline.analysis.layers.explain import RecordSweep, object_size
from leadline.analysis.layers.model import Basis, Figure, Flow, LayerFlow, Sizes
from leadline.analysis.layers.relevance import UNKNOWN, Relevance, Setting
from leadline.analysis.layers.steps import TOLERANCE, Step
from leadline.analysis.layers.study import CellLayers, LayerStudy, layer_study, throughput_bps
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.inventory.layer import LayerKind
from leadline.metrics import Metric, Op
from leadline.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    Kind,
    Line,
    LineChart,
    Paragraph,
    Rule,
    Scale,
    Section,
    Table,
    linear_axis,
)
from leadline.report.words import NOT_SHOWN, count_text, share_text, value_text, visible
from leadline.units import format_bandwidth, format_latency, format_size

# Layers as tables: what each did, what came between, which settings matter, by record size.

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


# Sizes of requests at the layers of a cell, drawn.

# More marks on the axis run into each other.
_MOST_TICKS = 6


def sizes_chart(anchor: str, cell: CellLayers) -> LineChart | None:
    """The share of requests of each power of two of bytes, a line for each layer whose sizes were
    counted, in the direction in which most was moved; None where no layer below the engine has
    any."""
    op = cell.median.main_op
    told = [
        (layer_name(layer), flow.sizes)
        for layer in cell.median.layers
        if op is not None and (flow := layer.flows.get(op)) is not None and flow.sizes is not None
    ]
    if op is None or not any(name != cell.median.engine.name for name, _ in told):
        return None
    octaves = [octave for _, sizes in told for octave in _octaves(sizes)]
    first, last = min(octaves), max(octaves)
    lines = tuple(
        _line(number, name, sizes, first, last) for number, (name, sizes) in enumerate(told)
    )
    object_bytes = object_size(cell.median.layers)
    reach = max(2.0**last, float(object_bytes or 0))
    bottom, top, ticks = linear_axis(max(share for one in lines for _, share in one.points))
    return LineChart(
        id=anchor,
        title=f"Sizes of {'writes' if op is Op.WRITE else 'reads'} by layer",
        series=tuple(visible(name) for name, _ in told),
        x=_size_scale(2.0**first, reach),
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
    """Requests by the power of two that their size is not below."""
    found: dict[int, int] = {}
    for size, count in sizes.counts.items():
        if count:
            octave = max(0, size.bit_length() - 1)
            found[octave] = found.get(octave, 0) + count
    return found


def _line(number: int, name: str, sizes: Sizes, first: int, last: int) -> Line:
    counts = _octaves(sizes)
    octaves = range(first, last + 1)
    return Line(
        label=visible(name),
        series=number,
        points=tuple((2.0**one, counts.get(one, 0) / sizes.requests) for one in octaves),
        texts=tuple(
            f"{visible(name)}: {counts.get(one, 0):,} of {format_size(2**one)} and more, "
            f"{share_text(counts.get(one, 0) / sizes.requests)}"
            for one in octaves
        ),
    )


def _size_scale(smallest: float, largest: float) -> Scale:
    """A log axis with marks at powers of two."""
    first, last = math.floor(math.log2(smallest)), math.ceil(math.log2(largest))
    every = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    return Scale(
        title="size of a request",
        log=True,
        low=2.0**first / 1.15,
        high=2.0**last * 1.15,
        ticks=tuple((2.0**one, format_size(2**one)) for one in range(first, last + 1, every)),
    )


# What a page shows open; the verb has them all.
MOST_OPEN = 4
# The strongest come first; JSON has all of them.
_MOST_REASONS = 2
READING = (
    "Each layer's own counters, from the engine down: operations, bytes, mean size, latency and "
    "how many are in flight on average. A dash is a figure that the layer does not tell. Ratios "
    "are below / above: more bytes below are amplification, more requests are splitting, fewer are "
    f"merging. Bytes add up where they agree within {TOLERANCE * 100:.0f} %; where layers are not "
    "known to pass on one to one the difference stands in brackets. A star marks a layer that "
    "others use, too."
)
_BASES = {
    Basis.TOTALS: "Figures are totals of the whole trial, which had no ramp.",
    Basis.WINDOW: "Figures are of the same seconds at every layer, behind the ramp.",
    Basis.WHOLE_TRIAL: (
        "Counters that are read only before and after a trial (image, pool, NFS), and those of one "
        "so short that nobody knows when the engine began, are means that include its ramp."
    ),
}
_STREAMS = "Figures are of the seconds of the streams that count."
# Without a ramp it is a program that takes its counters with it: the engine's own librbd.
_PART = (
    "Counters that were there for a part of the trial only (an engine's own librbd) are means over "
    "that part."
)


def cell_name(cell: CellLayers) -> str:
    return " · ".join(visible(part) for part in (cell.target, cell.workload, cell.level) if part)


def summary_sentences(study: LayerStudy) -> tuple[str, ...]:
    """What most needs saying: what the record size does, why the slowest and the fastest cell
    without such a comparison are as they are, and whether the sums hold."""
    swept = {(row.target, sweep.workload) for sweep in study.sweeps for row in sweep.rows}
    told = [
        cell
        for cell in study.cells
        if cell.explanation.sentences
        and not cell.refused
        and (cell.target, cell.workload) not in swept
    ]
    ends: list[CellLayers] = []
    for pick in (min, max):
        if told:
            one = pick(told, key=lambda cell: throughput_bps(cell.median))
            if one not in ends:
                ends.append(one)
    sentences = list(sweep_sentences(study))
    sentences += [f"{cell_name(one)}: {visible(one.explanation.sentences[0])}" for one in ends]
    refused = [cell for cell in study.cells if cell.refused]
    if refused:
        codes = ", ".join(sorted({code for cell in refused for code in cell.refused}))
        sentences.append(
            f"{len(refused)} of {count_text(len(study.cells), 'cell')} are refused by the audit "
            f"({codes}): what was counted below stands, their throughput is no result."
        )
    checked = [one for cell in study.cells for one in cell.sums if one.adds_up is not None]
    wrong = sum(not one.adds_up for one in checked)
    if checked:
        within = f"agree within {TOLERANCE * 100:.0f} %"
        sums = count_text(len(checked), "sum")
        held = f"they {within}" if not wrong else f"{wrong} of them do not {within}"
        sentences.append(f"{sums} of bytes of layers that pass on one to one: {held}.")
    return tuple(sentences)


def sweep_sentences(study: LayerStudy) -> tuple[str, ...]:
    """Of each comparison of record sizes: whether it matters, and why its middle row is as fast as
    it is, with all that narrows it."""
    said: list[str] = []
    for sweep in study.sweeps:
        rows = sweep.usable or sweep.rows
        row = rows[len(rows) // 2]
        cell = next(
            one
            for one in study.cells
            if (one.target, one.workload, one.level) == (row.target, sweep.workload, sweep.level)
        )
        name = " · ".join(visible(part) for part in (sweep.workload, sweep.level) if part)
        said += [
            f"{name}: {_of_record_size(one)}" for one in cell.settings if one.name == "recordsize"
        ]
        told = " ".join(cell.explanation.sentences)
        if told and not cell.refused:
            said.append(f"{cell_name(cell)}: {visible(told)}")
    return tuple(said)


def _of_record_size(setting: Setting) -> str:
    told = visible(setting.sentence)
    if setting.relevance is Relevance.NOT_KNOWN:
        fact = told.removeprefix(UNKNOWN)
        return f"the evidence does not tell whether the record size matters: {fact}"
    return f"the record size {setting.relevance.value}. {told}"


def cell_section(cell: CellLayers, number: int) -> Section:
    anchor = f"layers-{number}"
    found = cell.median
    blocks: list[Block] = []
    told = [*_refusal(cell), *map(visible, cell.explanation.sentences)]
    if told:
        blocks.append(Bullets(items=tuple(told)))
    blocks.append(layers_table(f"{anchor}-flows", cell))
    chart = sizes_chart(f"{anchor}-sizes", cell)
    if chart is not None:
        blocks.append(chart)
    if found.steps:
        blocks.append(steps_table(f"{anchor}-steps", cell))
    reasons = _reasons(cell)
    if reasons:
        blocks.append(Bullets(items=reasons))
    if cell.settings:
        blocks.append(Bullets(items=setting_items(cell.settings)))
    blocks.append(Paragraph(text=" ".join(dict.fromkeys(_notes(cell)))))
    return Section(heading=cell_name(cell), id=anchor, blocks=tuple(blocks))


def _refusal(cell: CellLayers) -> Iterator[str]:
    if cell.refused:
        yield (
            f"Refused by the audit: {', '.join(cell.refused)}. What was counted below stands; the "
            "throughput must not be used."
        )


def _reasons(cell: CellLayers) -> tuple[str, ...]:
    """Where bytes differ: by how much, and what the evidence has for it."""
    told = []
    for step in telling_steps(cell):
        if not step.reasons:
            continue
        above, below = cell.median.layers[step.above], cell.median.layers[step.below]
        size = (
            f"{signed(step.difference)} of the bytes"
            if step.difference is not None
            else "nothing above asks for them"
        )
        told.append(
            visible(
                f"{layer_name(above)} to {layer_name(below)}, {step.op.value}: {size}. "
                + " ".join(step.reasons[:_MOST_REASONS])
            )
        )
    return tuple(told)


def _notes(cell: CellLayers) -> Iterator[str]:
    found = cell.median
    trials = len({one.trial for one in cell.sums})
    middle = ", the one with the median throughput" if trials > 1 else ""
    yield f"Trial {visible(found.trial.record.label)}{middle}."
    bases = {one.basis for one in found.layers if one.flows}
    told = {**_BASES, Basis.WHOLE_TRIAL: _PART} if Basis.TOTALS in bases else {**_BASES}
    if found.seen.stream is not None:
        told[Basis.WINDOW] = _STREAMS
    yield from (text for basis, text in told.items() if basis in bases)
    for layer in found.layers:
        if layer.unobserved:
            yield f"Not observed: {visible(layer_name(layer))}: {visible(layer.unobserved)}."
        if layer.shared and layer.flows:
            yield f"* {visible(layer.shared[:1].upper() + layer.shared[1:])}."
        yield from (f"{visible(layer_name(layer))}: {visible(note)}." for note in layer.notes)
    yield from map(visible, found.notes)


def sweep_sections(study: LayerStudy) -> tuple[Section, ...]:
    """By record size, where cells differ in it."""
    if not study.sweeps:
        return ()
    blocks: list[Block] = []
    for number, sweep in enumerate(study.sweeps, start=1):
        name = " · ".join(visible(part) for part in (sweep.workload, sweep.level) if part)
        blocks += [Paragraph(text=f"{name}:"), sweep_table(f"layers-sweep-{number}", sweep)]
    blocks.append(
        Paragraph(
            text="Throughput is the median of all trials; size, latency and in flight are those of "
            "the layer where the stack narrows, of the median trial, and product = size x in "
            "flight / latency. To object: which part of an object of the image a request has."
        )
    )
    return (Section(heading="By record size", id="layers-by-record", blocks=tuple(blocks)),)


def layer_sections(study: LayerStudy) -> tuple[Section, ...]:
    """A section for each cell, sweeps first."""
    cells = tuple(cell_section(cell, number) for number, cell in enumerate(study.cells, start=1))
    return (*sweep_sections(study), *cells)


def page_section(study: LayerStudy | None) -> tuple[Section, ...]:
    """On the run's page: some cells open, the rest told to be looked up; none where no cell has a
    layer below its engine that tells anything."""
    if study is None:
        return ()
    told = [cell for cell in study.cells if any(one.flows for one in cell.median.layers[1:])]
    if not told:
        return ()
    shown = _chosen(told)
    blocks: list[Block] = [Paragraph(text=READING)]
    rest = len(told) - len(shown)
    if rest:
        blocks.append(
            Paragraph(
                text=f"{count_text(len(shown), 'cell')} of {len(told)} are shown; "
                f"`leadline layers {visible(study.run.id)}` tells of all."
            )
        )
    inner = [cell_section(cell, number) for number, cell in enumerate(shown, start=1)]
    return (
        Section(
            heading="Where the I/O goes",
            id="layers",
            blocks=tuple(blocks),
            sections=(*sweep_sections(study), *inner),
        ),
    )


def _chosen(cells: Sequence[CellLayers]) -> list[CellLayers]:
    """Of each target the first cell, then others in the order of the plan."""
    first: dict[str, CellLayers] = {}
    for cell in cells:
        first.setdefault(cell.target, cell)
    order = [*first.values(), *(cell for cell in cells if cell not in first.values())]
    kept = order[:MOST_OPEN]
    return [cell for cell in cells if any(cell is one for one in kept)]


# The section of a run's page on its layers.


def layers_of_page(
    run: Run, findings: tuple[Finding, ...]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Sentences for its summary, and the section; none of a run without layers: one of an earlier
    version, an import, or of targets below which this machine could not see."""
    try:
        study = layer_study(run, findings) if run.stacks else None
    except LeadlineError:
        return (), ()  # a damaged record, or no such targets; `leadline layers` says which
    return (sweep_sentences(study) if study else ()), page_section(study)


# `leadline layers` as a document for terminal and Markdown.


def layers_document(study: LayerStudy) -> Document:
    """Every cell with its layers, what comes between them, and why."""
    parts = [count_text(len(study.cells), "cell")]
    if study.sweeps:
        parts.append("by record size")
    missing = tuple(visible(one) + "." for one in study.missing)
    return Document(
        title=f"Layers of {visible(study.run.id)}",
        subtitle=" · ".join(parts),
        summary=(*summary_sentences(study), *missing[:5]) or (_nothing(study),),
        sections=(
            *layer_sections(study),
            Section(heading="How to read it", id="reading", blocks=(Paragraph(text=READING),)),
        ),
    )


def _nothing(study: LayerStudy) -> str:
    below = (layer for cell in study.cells for layer in cell.median.layers[1:])
    if any(layer.flows for layer in below):
        return "No layer below tells size, latency and requests in flight of what an engine did."
    return "No layer below an engine tells anything."
