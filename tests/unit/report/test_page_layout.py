"""What a page makes of a document: sentences under the headline, results, findings."""

from __future__ import annotations

from leadline.findings import Severity
from leadline.report.document import (
    Document,
    FindingGroup,
    FindingItem,
    FindingList,
    Mark,
    Paragraph,
    Section,
    Tile,
    Tiles,
)
from leadline.report.render import html, markdown


def document(*sections: Section, summary: tuple[str, ...] = ("A result.",)) -> Document:
    tile = Tile(title="Reads", unit="", value="1", verdict="", note="")
    front = (Tiles(tiles=(tile,)),)
    return Document(title="t", subtitle="", summary=summary, sections=sections, front=front)


def test_five_short_sentences_follow_the_headline_and_the_others_the_first_screen() -> None:
    short = tuple(f"Short {number}." for number in range(6))
    long = "word " * 21
    page = html.render(document(summary=("A result.", long, *short)))
    lead = page[page.index('<ul class="lead">') : page.index("</header>")]
    assert [text in lead for text in short] == [True] * 5 + [False]
    rest = page[page.index('id="summary"') :]
    assert long.strip() in rest
    assert short[5] in rest
    assert 'id="summary"' not in html.render(document(summary=("A result.", *short[:5])))


def test_a_section_has_its_result_next_to_its_heading() -> None:
    inner = Section(heading="Paths", id="paths", blocks=(Paragraph(text="p"),), folded=True)
    section = Section(heading="Trials", id="trials", sections=(inner,), result="3 of 24 unstable")
    page = html.render(document(section))
    assert '<h2>Trials: <span class="result">3 of 24 unstable</span></h2>' in page
    assert '<a href="#trials">Trials</a>' in page
    assert '<details id="paths" class="fold"><summary>Paths</summary>' in page
    assert '<details id="paths" class="fold" open>' in html.render(
        document(section), ready_to_print=True
    )
    assert "## Trials: 3 of 24 unstable" in markdown.render(document(section))


def test_of_many_findings_alike_the_first_are_listed_and_the_rest_counted() -> None:
    items = tuple(FindingItem(where=f"cell {n}", message=f"Found {n}.") for n in range(30))
    mark = Mark(label="W1", code="unstable-repeats", severity=Severity.WARNING)
    group = FindingGroup(mark=mark, items=items, remedy="Repeat.")
    section = Section(heading="Findings", id="findings", blocks=(FindingList(groups=(group,)),))
    page = html.render(document(section))
    assert page.count("Found ") == 7
    assert "23 more like these: leadline audit." in page
