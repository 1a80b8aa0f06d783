"""The differences of two clusters as a document."""

from __future__ import annotations

from leadline.inventory.diff import Differing
from leadline.report.cells import bullets, records_table, section
from leadline.report.document import Column, Document
from leadline.report.pages.comparison.explanations import effect_texts
from leadline.report.words import count_text, listed


def against_document(baseline: str, candidate: str, differing: Differing) -> Document:
    differences = differing.differences
    explained = (
        f"{difference.path}: "
        f"{' '.join((*filter(None, [difference.meaning]), *effect_texts(difference)))}"
        for difference in differences
        if difference.meaning or difference.explains
    )
    table = records_table(
        "differences",
        differences,
        (Column(title="topic", rank=1), lambda difference: difference.topic.value),
        ("what", lambda difference: difference.path),
        ("baseline", lambda difference: difference.baseline),
        ("this", lambda difference: difference.candidate),
        filterable=len(differences) > 25,
    )
    sections = (
        section(
            "Configuration differences",
            "differences",
            table if differences else "No known difference.",
        ),
        section("Explanation", "explains", bullets(explained)),
        section("Identical", "identical", bullets(differing.identical)),
        section("Unknown", "unknown", bullets(differing.unknown)),
    )
    return Document(
        title=f"{count_text(len(differences), 'difference')} of {candidate} from {baseline}",
        subtitle=f"baseline {baseline}",
        summary=_against_summary(differing),
        sections=tuple(part for part in sections if part.blocks),
    )


def _against_summary(differing: Differing) -> tuple[str, ...]:
    topics = dict.fromkeys(difference.topic.value for difference in differing.differences)
    sentences = [f"Differences in {listed(topics, 12)}."] if topics else ["No differences."]
    if differing.unknown:
        facts = count_text(len(differing.unknown), "fact")
        sentences.append(f"{facts} unknown for one of the two.")
    return tuple(sentences)
