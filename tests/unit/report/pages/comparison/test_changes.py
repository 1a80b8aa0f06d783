"""A page shows the changes that it has room for, and says what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from leadline.analysis.comparison import ComparedCell
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Metric
from leadline.report.document import Choices, Paragraph, Section, Table
from leadline.report.pages.comparison.changes import MOST_ROWS, changes_sections
from leadline.report.pages.comparison.tables import SideMarks
from tests.unit.report.pages.comparison.builder import cell, study


@pytest.fixture(scope="module")
def section(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[ComparedCell]], Section]:
    """The section of the published study, if these had been its cells."""
    published = study(tmp_path_factory.mktemp("study"))
    marks = SideMarks(published)

    def made(cells: list[ComparedCell]) -> Section:
        (only,) = changes_sections(replace(published, cells=tuple(cells)), marks)
        return only

    return made


def cells_of(metric: Metric, count: int) -> list[ComparedCell]:
    return [
        cell([100.0], [101.0 + number], Verdict.INCONCLUSIVE, metric=metric, target=f"t{number:05}")
        for number in range(count)
    ]


def tables(part: Section) -> dict[str, Table]:
    return {one.id: one for one in part.blocks if isinstance(one, Table)}


def test_everything_is_shown_where_there_is_room(
    section: Callable[[list[ComparedCell]], Section],
) -> None:
    part = section(cells_of(Metric.IOPS, 3) + cells_of(Metric.LATENCY_P99, 3))
    assert list(tables(part)) == ["delta-rate-table", "delta-latency-p99-table"]
    assert not [one for one in part.blocks if isinstance(one, Paragraph)]


def test_what_people_ask_for_least_is_left_out_first_and_said(
    section: Callable[[list[ComparedCell]], Section],
) -> None:
    count = MOST_ROWS // 3
    metrics = (Metric.IOPS, Metric.LATENCY_P9999, Metric.LATENCY_P99, Metric.LATENCY_MEAN)
    part = section([one for metric in metrics for one in cells_of(metric, count)])
    shown = set(tables(part))
    assert shown == {"delta-rate-table", "delta-latency-p99-table", "delta-latency-mean-table"}
    (said,) = [one.text for one in part.blocks if isinstance(one, Paragraph)]
    assert "p99.99 latency" in said
    (choices,) = [one for one in part.blocks if isinstance(one, Choices)]
    assert {key for key, _ in choices.options} == {
        "change-rate", "change-latency-p99", "change-latency-mean",
    }  # fmt: skip


def test_of_very_many_rates_the_largest_changes_are_shown_in_their_order(
    section: Callable[[list[ComparedCell]], Section],
) -> None:
    part = section(cells_of(Metric.IOPS, MOST_ROWS + 50))
    rows = tables(part)["delta-rate-table"].rows
    assert len(rows) == MOST_ROWS
    names = [row[0].text for row in rows]
    assert names == sorted(names)
    assert names[0] == "t00050", "the fifty smallest are left out"
    (said,) = [one.text for one in part.blocks if isinstance(one, Paragraph)]
    assert "all but the 1,200 largest changes" in said
