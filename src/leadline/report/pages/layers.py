"""Layers as sections of a document: the answer of `leadline layers`, and a part of a run's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leadline.analysis.layers.facts import Relevance
from leadline.analysis.layers.steps import TOLERANCE
from leadline.analysis.layers.study import CellLayers, LayerStudy, layer_study
from leadline.analysis.layers.windows import Basis
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.report.cells import bullets, section
from leadline.report.document import Block, Document, Section
from leadline.report.pages.layer_overview import cell_name
from leadline.report.pages.layer_tables import (
    layers_table,
    setting_items,
    shown_steps,
    signed_share,
    sizes_chart,
    steps_table,
    sweep_table,
)
from leadline.report.pages.layer_words import explanation, words
from leadline.report.pages.redactions import redaction_sections
from leadline.report.words import count_text, place
from leadline.text import sentence

# Cells on a run's page; the verb shows all.
MOST_OPEN = 4
# Reasons of a step on a page; JSON has all.
_MOST_REASONS = 2
_MOST_MISSING = 5
READING = (
    "Each layer's own counters, from the engine down. Sizes, latency and in flight are means. A "
    "dash is a figure that the layer does not report. Ratios are below / above: more bytes are "
    "amplification, more requests are splitting, fewer are merging. Bytes add up if they agree "
    f"within {TOLERANCE * 100:.0f} %. A difference in brackets is not tested. A star marks a layer "
    "with other users."
)
_BASES = {
    Basis.TOTALS: "Figures are totals of the whole trial, which had no ramp.",
    Basis.WINDOW: "Figures are of the same seconds at every layer, after the ramp.",
    Basis.WHOLE_TRIAL: (
        "Counters that are read only before and after a trial (image, pool, NFS), and those of a "
        "very short trial, are means that include its ramp."
    ),
}
_STREAMS = "Figures are of the seconds of the counted streams."
# Without a ramp: an engine's own librbd takes its counters with it.
_PART = "Counters of a part of the trial (an engine's own librbd) are means over that part."


def summary_sentences(study: LayerStudy) -> tuple[str, ...]:
    """The effect of the record size, why the slowest and the fastest cell outside a sweep
    have their throughput, refusals of the audit, and whether the sums hold."""
    swept = {(row.target, sweep.workload) for sweep in study.sweeps for row in sweep.rows}
    explained = [
        (cell, texts[0])
        for cell in study.cells
        if not cell.refused
        and (cell.target, cell.workload) not in swept
        and (texts := list(explanation(cell)))
    ]
    sentences = list(sweep_sentences(study))
    explained.sort(key=lambda pair: pair[0].median.throughput_bps)
    ends = explained if len(explained) < 2 else [explained[0], explained[-1]]
    sentences += [f"{cell_name(cell)}: {text}" for cell, text in ends]
    refused = [cell for cell in study.cells if cell.refused]
    if refused:
        codes = ", ".join(sorted({code for cell in refused for code in cell.refused}))
        sentences.append(
            f"The audit refuses the throughput of {len(refused)} of "
            f"{count_text(len(study.cells), 'cell')} ({codes}); the counters below remain valid."
        )
    tested = [total for cell in study.cells for total in cell.sums if total.adds_up is not None]
    wrong = sum(not total.adds_up for total in tested)
    if tested:
        verdict = f"{wrong} differ by more than" if wrong else "all agree within"
        sentences.append(
            f"{count_text(len(tested), 'sum')} of bytes between layers: {verdict} "
            f"{TOLERANCE * 100:.0f} %."
        )
    return tuple(sentences)


def sweep_sentences(study: LayerStudy) -> tuple[str, ...]:
    """Say for each sweep whether the record size matters, and the causes of its middle row."""
    sentences: list[str] = []
    for sweep in study.sweeps:
        rows = sweep.usable or sweep.rows
        middle = rows[len(rows) // 2]
        key = (middle.target, sweep.workload, sweep.level)
        cell = next(cell for cell in study.cells if (cell.target, cell.workload, cell.level) == key)
        for setting in cell.settings:
            if setting.name == "recordsize":
                unknown = setting.relevance is Relevance.NOT_KNOWN
                verdict = "may matter (unknown)" if unknown else setting.relevance.value
                sentences.append(
                    f"{place(sweep.workload, sweep.level)}: the record size {verdict}. "
                    f"{words(setting.cause)}"
                )
        causes = " ".join(explanation(cell))
        if causes and not cell.refused:
            sentences.append(f"{cell_name(cell)}: {causes}")
    return tuple(sentences)


def cell_section(cell: CellLayers, number: int) -> Section:
    anchor = f"layers-{number}"
    refusal = (
        f"Refused by the audit: {', '.join(cell.refused)}. Do not use the throughput; the counters "
        "below remain valid."
    )
    return section(
        cell_name(cell),
        anchor,
        bullets((*((refusal,) if cell.refused else ()), *explanation(cell))),
        layers_table(f"{anchor}-flows", cell),
        sizes_chart(f"{anchor}-sizes", cell),
        steps_table(f"{anchor}-steps", cell) if cell.median.steps else None,
        bullets(_reasons(cell)),
        bullets(setting_items(cell.settings)),
        " ".join(dict.fromkeys(_notes(cell))),
    )


def _reasons(cell: CellLayers) -> Iterator[str]:
    """By how much bytes differ, and why."""
    for step in shown_steps(cell):
        if not step.reasons:
            continue
        above, below = (cell.median.layers[at].short_name for at in (step.above, step.below))
        size = (
            f"{signed_share(step.difference)} of the bytes"
            if step.difference is not None
            else "not requested by the layer above"
        )
        reasons = " ".join(map(words, step.reasons[:_MOST_REASONS]))
        yield f"{above} to {below}, {step.op.value}: {size}. {reasons}"


def _notes(cell: CellLayers) -> Iterator[str]:
    found = cell.median
    trials = len({total.trial for total in cell.sums})
    median = ", the one with the median throughput" if trials > 1 else ""
    yield f"Trial {found.trial.record.label}{median}."
    bases = {layer.basis for layer in found.layers if layer.flows}
    texts = dict(_BASES)
    if Basis.TOTALS in bases:
        texts[Basis.WHOLE_TRIAL] = _PART
    if found.recorded.stream is not None:
        texts[Basis.WINDOW] = _STREAMS
    yield from (text for basis, text in texts.items() if basis in bases)
    for layer in found.layers:
        if layer.unobserved:
            yield f"Not observed: {layer.short_name}: {words(layer.unobserved)}."
        if layer.shared and layer.flows:
            yield f"* {sentence(words(layer.shared))}"
        yield from (f"{layer.short_name}: {words(note)}." for note in layer.notes)
    yield from map(words, found.notes)


def sweep_sections(study: LayerStudy) -> tuple[Section, ...]:
    """The comparison by record size; empty without sweeps."""
    if not study.sweeps:
        return ()
    blocks: list[Block | str] = []
    for number, sweep in enumerate(study.sweeps, start=1):
        blocks.append(f"{place(sweep.workload, sweep.level)}:")
        blocks.append(sweep_table(f"layers-sweep-{number}", sweep))
    blocks.append(
        "Throughput is the median of all trials. Size, latency and in flight are those of the "
        "layer where the stack narrows, in the median trial; product = size x in flight / "
        "latency. To object: the share of an object that one request has."
    )
    return (section("By record size", "layers-by-record", *blocks),)


def page_section(study: LayerStudy | None) -> tuple[Section, ...]:
    """The section of a run's page: some cells, and a reference to the others. Empty if no layer
    below an engine has figures."""
    cells = [
        cell
        for cell in (study.cells if study else ())
        if any(layer.flows for layer in cell.median.layers[1:])
    ]
    if study is None or not cells:
        return ()
    shown = _shown_cells(cells)
    all_cells = (
        f"{count_text(len(shown), 'cell')} of {len(cells)} shown; "
        f"`leadline layers {study.run.id}` shows all."
        if len(shown) < len(cells)
        else None
    )
    inner = (cell_section(cell, number) for number, cell in enumerate(shown, start=1))
    sections = (*sweep_sections(study), *inner)
    return (section("Layers", "layers", READING, all_cells, sections=sections),)


def _shown_cells(cells: Sequence[CellLayers]) -> list[CellLayers]:
    """The first cell of each target, then others in plan order."""
    first: dict[str, int] = {}
    for number, cell in enumerate(cells):
        first.setdefault(cell.target, number)
    rest = (number for number in range(len(cells)) if number not in first.values())
    return [cells[number] for number in sorted([*first.values(), *rest][:MOST_OPEN])]


def layers_of_page(
    run: Run, findings: tuple[Finding, ...]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """The sentences of a run page's summary, and its section; both empty without layers: a
    run of an earlier version, an import, or targets whose layers this machine could not see."""
    try:
        study = layer_study(run, findings) if run.stacks else None
    except LeadlineError:
        return (), ()  # a damaged record, or no such targets; `leadline layers` reports it
    return (sweep_sentences(study) if study else ()), page_section(study)


def layers_document(study: LayerStudy) -> Document:
    """The answer of `leadline layers` for terminal and Markdown."""
    parts = [count_text(len(study.cells), "cell")]
    if study.sweeps:
        parts.append("by record size")
    missing = tuple(f"{words(cause)}." for cause in study.missing[:_MOST_MISSING])
    below = (layer for cell in study.cells for layer in cell.median.layers[1:])
    nothing = (
        "No layer below reports size, latency and requests in flight."
        if any(layer.flows for layer in below)
        else "No layer below an engine has figures."
    )
    cells = (cell_section(cell, number) for number, cell in enumerate(study.cells, start=1))
    return Document(
        title=f"Layers of {study.run.id}",
        subtitle=" · ".join(parts),
        summary=(*summary_sentences(study), *missing) or (nothing,),
        sections=(
            *sweep_sections(study),
            *cells,
            section("How to read it", "reading", READING),
            *redaction_sections(study.run),
        ),
    )
