"""How two inventories differ, as a document."""

from __future__ import annotations

from leadline.inventory.differences import Differing
from leadline.report.conditions import word
from leadline.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Paragraph,
    Section,
    Table,
)
from leadline.report.wording import count_text, listed, visible


def against_document(baseline: str, candidate: str, differing: Differing) -> Document:
    """What is not the same, what that can account for, and what nobody can tell."""
    number = len(differing.differences)
    blocks: tuple[Block, ...] = (
        (_table(differing),) if number else (Paragraph(text="Nothing that is known of both."),)
    )
    sections = [Section(heading="What differs", id="differences", blocks=blocks)]
    explained = tuple(
        f"{visible(one.path)}: {' '.join((*filter(None, [one.meaning]), *one.explains))}"
        for one in differing.differences
        if one.meaning or one.explains
    )
    for heading, anchor, items in (
        ("What that can account for", "explains", explained),
        ("The same on both sides", "identical", tuple(differing.identical)),
        ("Not known of both", "unknown", tuple(differing.unknown)),
    ):
        if items:
            block = Bullets(items=tuple(visible(item) for item in items))
            sections.append(Section(heading=heading, id=anchor, blocks=(block,)))
    what = f"{visible(candidate)} from {visible(baseline)}"
    return Document(
        title=f"{count_text(number, 'difference')} of {what}",
        subtitle=f"baseline {visible(baseline)}",
        summary=_summary(differing),
        sections=tuple(sections),
    )


def _summary(differing: Differing) -> tuple[str, ...]:
    topics = dict.fromkeys(one.topic.value for one in differing.differences)
    said = [f"They differ in {listed(topics, 12)}."] if topics else ["They do not differ."]
    if differing.unknown:
        said.append(f"Of {count_text(len(differing.unknown), 'fact')} one side tells nothing.")
    return tuple(said)


def _table(differing: Differing) -> Table:
    rows = tuple(
        (word(one.topic.value), word(one.path), word(one.baseline), word(one.candidate))
        for one in differing.differences
    )
    columns = (
        Column(title="topic", rank=1),
        Column(title="what"),
        Column(title="baseline"),
        Column(title="this"),
    )
    return Table(
        id="differences", caption="", columns=columns, rows=rows, filterable=len(rows) > 25
    )
