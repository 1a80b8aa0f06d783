"""The page of a placement."""

from __future__ import annotations

from dataclasses import replace

from leadline.report.document import Document, Table
from leadline.report.pages.placement import change_text, placement_document, placement_notes
from leadline.report.render.markdown import render
from tests.unit.recorded_placements import erasure_placements


def rows(document: Document, anchor: str) -> list[dict[str, str]]:
    (found,) = (
        block
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Table) and block.id == anchor
    )
    titles = [column.title for column in found.columns]
    return [dict(zip(titles, [cell.text for cell in row], strict=True)) for row in found.rows]


def test_the_summary_has_what_moves_and_the_busiest_osd() -> None:
    document = placement_document(erasure_placements(), "map m")
    assert document.subtitle == "map m, OSD map 51"
    assert document.summary[0] == (
        "1 more zone (4 OSDs): 38 % of the data and 30 % of the primaries of ec-2-1 move."
    )
    assert "rep3: osd.7 has 10 PGs, 1.67 times the mean of 6." in document.summary
    assert all(len(sentence.split()) <= 20 for sentence in document.summary)


def test_tables_of_now_and_after() -> None:
    document = placement_document(erasure_placements(), "map m")
    now = rows(document, "now-pools")
    assert [row["pool"] for row in now] == ["ec-2-1", "rep3"]
    assert (now[0]["PGs"], now[0]["redundancy"]) == ("64", "EC 2+1")
    assert (now[0]["failure domain"], now[0]["PGs per OSD"]) == ("zone of 3", "16")
    after = rows(document, "after-pools")
    assert [row["PGs"] for row in after] == ["48"], "rep3 has no forecast"
    (moved,) = rows(document, "movement-pools")
    assert moved["data moved"] == "38 %"
    assert moved["between old OSDs"] == "12 %"
    (choice,) = rows(document, "autoscaler-pools")
    assert (choice["manager's choice"], choice["after"]) == ("32", "64")
    assert (choice["changes it"], choice["changes it after"]) == ("no", "–")
    osds = rows(document, "osds-of-3")
    assert sum(int(row["PGs"]) for row in osds) == 3 * 64
    assert sum(int(row["primaries after"]) for row in osds) == 48
    assert osds[0]["in"] == "az1-h1"


def test_notes_name_what_the_numbers_include() -> None:
    notes = placement_notes(erasure_placements())
    assert any(note.startswith("2 PGs of the map are on other OSDs") for note in notes)
    assert any(note.startswith("ec-2-1: 48 PGs are no power of two") for note in notes)
    assert any(note.startswith("rep3: CRUSH and the exceptions") for note in notes)
    assert any("balancer is not simulated" in note for note in notes)
    still = replace(erasure_placements(), addition=None, new_osds=(), temporary=0, pools=())
    assert placement_notes(still) == []
    assert change_text(still) == ""
    assert change_text(replace(still, pg_num=256)) == "256 PGs"


def test_a_pool_alone_shows_its_osds() -> None:
    both = erasure_placements()
    folded = {s.id: s.folded for s in placement_document(both, "m").sections}
    assert folded["osds-3"]
    alone = placement_document(replace(both, pools=both.pools[:1]), "m")
    assert not {s.id: s.folded for s in alone.sections}["osds-3"]
    assert "osd.11" in render(alone)
