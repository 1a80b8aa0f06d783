from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from archive_builder import make_run, small_plan

from leadline.analysis.cells import figures
from leadline.analysis.side_by_side import SideBySide, side_by_side
from leadline.archive.reader import Run
from leadline.metrics import Metric, Op
from leadline.plan.models import LeftOut, Plan
from leadline.report.build import run_document
from leadline.report.document import Bullets, Section, Table

RTT_S = {"disk": 30e-6, "memory": 1e-3}


def two_places() -> Plan:
    """The golden plan's two targets as one pool on two clusters."""
    plan = small_plan()
    places = {"disk": "near", "memory": "far"}
    targets = [
        one.model_copy(update={"subject": "pool", "place": places[one.name]})
        for one in plan.targets
    ]
    return plan.model_copy(update={"targets": tuple(targets)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("run")
    return make_run(folder, two_places(), round_trip_s=RTT_S.__getitem__)


@pytest.fixture(scope="module")
def found(run: Run) -> SideBySide:
    (only,) = side_by_side(run, figures(run, ()))
    return only


def values(run: Run, target: str, workload: str, op: Op, metric: Metric) -> dict[int, float]:
    """By block, the slow and obvious way."""
    blocks = {trial.id: trial.block for trial in run.plan.trials}
    return {
        blocks[row.trial]: row.value
        for row in run.measurements()
        if (row.target, row.workload, row.op, row.metric) == (target, workload, op, metric)
        and row.value is not None
    }


def test_each_row_of_both_places_is_there_with_its_ratio_and_the_range_of_its_pairs(
    run: Run, found: SideBySide
) -> None:
    assert (found.base.name, found.other.name) == ("near", "far")
    here = {(one.workload, one.op) for one in figures(run, ()) if one.target == "disk"}
    assert {(row.base.workload, row.base.op) for row in found.rows} == here
    for row in found.rows:
        assert row.base.op is not None
        ours, theirs = (
            values(run, target, row.base.workload, row.base.op, Metric.IOPS)
            for target in ("disk", "memory")
        )
        change = row.changes[Metric.IOPS]
        assert change.ratio == pytest.approx(median(theirs.values()) / median(ours.values()))
        ratios = [theirs[block] / ours[block] for block in ours]
        assert (change.low, change.high) == pytest.approx((min(ratios), max(ratios)))
        assert change.pairs == 3
        added = row.extra_latency_s()
        assert added is not None
        means = [
            median(
                values(run, target, row.base.workload, row.base.op, Metric.LATENCY_MEAN).values()
            )
            for target in ("disk", "memory")
        ]
        assert added == pytest.approx(means[1] - means[0])


def test_the_round_trip_is_the_longest_that_was_measured_before_a_trial(found: SideBySide) -> None:
    assert found.base.rtt_s == pytest.approx(30e-6 * 1.02)
    assert found.added_rtt_s == pytest.approx((1e-3 - 30e-6) * 1.02)


def test_depth_is_what_the_phase_asks_for(run: Run, found: SideBySide) -> None:
    for row in found.rows:
        cell = next(one for one in run.plan.cells if one.workload.name == row.base.workload)
        asked = {phase.iodepth * phase.numjobs for phase in cell.workload.phases}
        assert row.depth in asked


def test_one_place_or_none_is_no_comparison(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert side_by_side(run, figures(run, ())) == ()
    assert "side-by-side" not in [
        one.id for one in run_document(run, figures(run, ()), ()).sections
    ]


def test_a_row_without_a_result_at_one_place_has_no_change(tmp_path: Path) -> None:
    run = make_run(tmp_path, two_places(), fails=lambda target, workload, block: target == "memory")
    (found,) = side_by_side(run, figures(run, ()))
    assert found.rows
    assert all(not row.changes for row in found.rows)
    assert run_document(run, figures(run, ()), ()).sections


def test_what_is_at_one_place_only_is_named(tmp_path: Path) -> None:
    plan = two_places()
    targets = [
        one.model_copy(update={"subject": "other" if one.name == "memory" else "pool"})
        for one in plan.targets
    ]
    run = make_run(tmp_path, plan.model_copy(update={"targets": tuple(targets)}))
    (found,) = side_by_side(run, figures(run, ()))
    assert found.rows == ()
    assert found.alone == ("pool", "other")


def section(run: Run, anchor: str) -> Section:
    sections = run_document(run, figures(run, ()), ()).sections
    return next(one for one in sections if one.id == anchor)


def test_the_report_says_what_the_table_shows(run: Run, found: SideBySide) -> None:
    part = section(run, "side-by-side")
    bullets, table = part.blocks
    assert isinstance(bullets, Bullets)
    assert isinstance(table, Table)
    told = " ".join(bullets.items)
    assert "30.6 us on near" in told
    assert "1.02 ms on far" in told
    assert "no confidence interval" in told
    assert len(table.rows) == len(found.rows)
    titles = [column.title for column in table.columns]
    changes = [row[titles.index("change")].text for row in table.rows]
    assert all(text.endswith(" %") for text in changes)


def test_a_target_that_was_left_out_is_told_with_its_reason(tmp_path: Path) -> None:
    gone = LeftOut(target="enc@far", cluster="far", reason="the cluster has no pool 'enc'")
    run = make_run(tmp_path, two_places().model_copy(update={"left_out": (gone,)}))
    (table,) = section(run, "targets-left-out").blocks
    assert isinstance(table, Table)
    assert [cell.text for cell in table.rows[0]] == ["enc@far", "the cluster has no pool 'enc'"]
