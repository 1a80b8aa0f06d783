"""`leadline layers` as a document for terminal and Markdown."""

from __future__ import annotations

from leadline.analysis.layers.study import LayerStudy
from leadline.report.document import Document, Paragraph, Section
from leadline.report.layers.sections import READING, layer_sections, summary_sentences
from leadline.report.wording import count_text, visible


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
