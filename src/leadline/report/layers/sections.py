"""Layers as sections of a document: of a verb's answer, and of a run's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.analysis.layers.arithmetic import TOLERANCE
from leadline.analysis.layers.model import Basis
from leadline.analysis.layers.relevance.model import UNKNOWN, Relevance, Setting
from leadline.analysis.layers.study import CellLayers, LayerStudy, throughput_bps
from leadline.report.document import Block, Bullets, Paragraph, Section
from leadline.report.layers.charts import sizes_chart
from leadline.report.layers.tables import (
    layer_name,
    layers_table,
    setting_items,
    signed,
    steps_table,
    sweep_table,
    telling_steps,
)
from leadline.report.wording import count_text, visible

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
