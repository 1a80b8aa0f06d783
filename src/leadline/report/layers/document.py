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
        summary=(*summary_sentences(study), *missing[:5])
        or ("No layer below an engine tells anything.",),
        sections=(
            *layer_sections(study),
            Section(heading="How to read it", id="reading", blocks=(Paragraph(text=READING),)),
        ),
    )
