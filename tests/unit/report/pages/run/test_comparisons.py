from __future__ import annotations

from pathlib import Path
from statistics import geometric_mean

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.compare import compare
from leadline.analysis.comparison import By, Comparison, within_run
from leadline.analysis.figures import figures
from leadline.archive.reader import Run
from leadline.plan.models import LeftOut, Plan
from leadline.report.document import Document, Section, Table
from leadline.report.pages.run.page import run_document
from leadline.report.pages.run.scorecard import comparisons_of

RTT_S = {"disk": 30e-6, "memory": 1e-3}


def at_places(places: dict[str, str]) -> Plan:
    """The golden plan's targets as one pool on several clusters."""
    plan = small_plan()
    targets = [
        one.model_copy(update={"subject": "pool", "place": places[one.name]})
        for one in plan.targets
    ]
    return plan.model_copy(update={"targets": tuple(targets)})


def two_places() -> Plan:
    return at_places({"disk": "near", "memory": "far"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return make_run(folder, two_places(), round_trip_s=RTT_S.__getitem__)


@pytest.fixture(scope="module")
def found(run: Run) -> Comparison:
    (only,) = comparisons_of(run, figures(run, ()), ())
    return only


@pytest.fixture(scope="module")
def page(run: Run) -> Document:
    return run_document(run, figures(run, ()), ())


def section(page: Document, anchor: str) -> Section:
    return next(one for one in page.sections if one.id == anchor)


def test_the_first_place_is_the_baseline_and_each_rate_is_that_of_the_archive(
    run: Run, found: Comparison
) -> None:
    assert (found.baseline.name, found.candidate.name) == ("near", "far")
    rates = [one for one in found.cells if one.rate]
    here = {(one.workload, one.op) for one in figures(run, ()) if one.target == "disk"}
    assert {(one.workload, one.op) for one in rates} == here
    for one in rates:
        ours, theirs = (
            geometric_mean(
                row.value
                for row in run.measurements()
                if (row.target, row.workload, row.op, row.metric)
                == (target, one.workload, one.op, one.metric)
                and row.value is not None
            )
            for target in ("disk", "memory")
        )
        assert one.judgement.ratio == pytest.approx(theirs / ours)


def test_verdicts_are_those_of_the_comparison_itself(run: Run, found: Comparison) -> None:
    """How many numbers are judged together bears on each verdict."""
    sides = within_run(run, By.CLUSTER, "near", "far", lambda _: (figures(run, ()), ()))
    alone = compare(*sides, by=By.CLUSTER)
    assert [one.judgement for one in found.cells] == [one.judgement for one in alone.cells]


def test_the_page_begins_with_what_the_comparison_found(page: Document) -> None:
    assert page.summary[0].startswith("far vs near: ")


def test_the_section_has_a_row_for_each_rate(page: Document, found: Comparison) -> None:
    part = section(page, "vs-far")
    (table,) = [block for block in part.blocks if isinstance(block, Table)]
    assert len(table.rows) == sum(one.rate for one in found.cells)
    titles = [column.title for column in table.columns]
    assert {"near", "far", "change", "verdict"} <= set(titles)


def test_one_place_or_none_is_no_comparison(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert comparisons_of(run, figures(run, ()), ()) == ()
    anchors = [section.id for section in run_document(run, figures(run, ()), ()).sections]
    assert not [anchor for anchor in anchors if anchor.startswith("vs-")]


def test_a_place_without_a_result_is_shown_as_missing(tmp_path: Path) -> None:
    run = make_run(tmp_path, two_places(), fails=lambda target, workload, block: target == "memory")
    (found,) = comparisons_of(run, figures(run, ()), ())
    assert all(one.judgement.ratio is None for one in found.cells)
    page = run_document(run, figures(run, ()), ())
    (table,) = [block for block in section(page, "vs-far").blocks if isinstance(block, Table)]
    far = [column.title for column in table.columns].index("far")
    assert table.rows
    assert all(row[far].missing for row in table.rows)


def test_places_with_nothing_in_common_have_no_section(tmp_path: Path) -> None:
    plan = two_places()
    targets = [
        one.model_copy(update={"subject": "other" if one.name == "memory" else "pool"})
        for one in plan.targets
    ]
    run = make_run(tmp_path, plan.model_copy(update={"targets": tuple(targets)}))
    assert comparisons_of(run, figures(run, ()), ()) == ()
    sections = run_document(run, figures(run, ()), ()).sections
    assert not [section.id for section in sections if section.id.startswith("vs-")]


def test_a_target_that_was_left_out_is_listed_with_its_reason(tmp_path: Path) -> None:
    gone = LeftOut(target="enc@far", cluster="far", reason="the cluster has no pool 'enc'")
    run = make_run(tmp_path, two_places().model_copy(update={"left_out": (gone,)}))
    page = run_document(run, figures(run, ()), ())
    (table,) = section(page, "targets-left-out").blocks
    assert isinstance(table, Table)
    assert [cell.text for cell in table.rows[0]] == ["enc@far", "the cluster has no pool 'enc'"]
