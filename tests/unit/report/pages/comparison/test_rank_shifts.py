"""The rank shifts of the published study, and where there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leadline.analysis.comparison import By, Comparison
from leadline.analysis.rank_shifts import RankShift, rank_shifts
from leadline.analysis.ranking import Standing
from leadline.report.document import Document, LineChart, Table
from leadline.report.pages.comparison.rank_shifts import rank_shift_sections
from leadline.report.render import html
from tests.unit.report.pages.comparison.builder import study

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return study(tmp_path_factory.mktemp("study"))


def test_the_ranks_of_both_systems_are_those_of_their_rankings(published: Comparison) -> None:
    found = {shift.subject: shift for shift in rank_shifts(published)}
    assert (found["rep2"].baseline.rank, found["rep2"].candidate.rank) == (1, 1)
    assert (found["cephfs-rep2"].shift, found["cephfs-rep2"].significant) == (1, True)
    assert (found["ec-2-1"].shift, found["ec-2-1"].significant) == (-1, True)
    assert found["rep3"].significant is False, "the rank intervals overlap"
    assert found["rep3-virt"].shift is None, "it lacks a number"


def test_the_slopes_begin_and_end_at_the_ranks(published: Comparison) -> None:
    (shown,) = rank_shift_sections(published)
    chart, table = shown.blocks
    assert isinstance(chart, LineChart)
    assert isinstance(table, Table)
    shifts = [shift for shift in rank_shifts(published) if shift.shift is not None]
    slopes = chart.lines[: len(shifts)]
    for slope, shift in zip(slopes, shifts, strict=True):
        assert slope.label == shift.subject
        for (at, y), standing in zip(slope.points, (shift.baseline, shift.candidate), strict=True):
            assert at in (0.0, 1.0)
            assert -y == pytest.approx(standing.rank, abs=0.5)
    assert [row[0].text for row in table.rows][-1] == "rep3-virt"
    assert table.rows[0][2].text == "1 (1 to 2)"


def test_no_shifts_between_two_targets_and_without_common_ones(published: Comparison) -> None:
    assert rank_shifts(replace(published, by=By.TARGET)) == ()
    alone = replace(published.candidate, targets={})
    assert rank_shift_sections(replace(published, candidate=alone)) == ()


def test_names_of_any_kind(published: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (HOSTILE, "אחסון-מהיר", "x" * 300)
    shifts = tuple(
        RankShift(
            subject=name,
            baseline=Standing(target=name, rank=1, interval=(1, 3), values=()),
            candidate=Standing(target=name, rank=3, interval=(1, 3), values=()),
        )
        for name in names
    )
    monkeypatch.setattr(
        "leadline.report.pages.comparison.rank_shifts.rank_shifts", lambda comparison: shifts
    )
    sections = rank_shift_sections(published)
    page = html.render(Document(title="t", subtitle="", summary=(), sections=sections))
    assert HOSTILE not in page
    assert page.count("אחסון-מהיר") > 1
