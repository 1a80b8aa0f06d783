"""What a run adds when it has seen results."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.metrics import Metric
from leadline.plan.follow_ups import (
    Outcomes,
    TrialOutcome,
    grow_plan,
    next_cells,
    next_clients,
    waiting_targets,
)
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan


def planned(folder: Path, workload: str) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(
        "targets: ['dir:/mnt']\nrepeats: 3\ndefaults: {size: 16M, runtime: 5s}\n"
        f"workloads: [{{name: w, pattern: randread, {workload}}}]\n"
    )
    return load_plan(path, Overrides())


def rates(*values: float | None) -> tuple[TrialOutcome, ...]:
    return tuple(TrialOutcome(iops=value) for value in values)


def p99(*values: float | None) -> tuple[TrialOutcome, ...]:
    return tuple(TrialOutcome(iops=1.0, latencies={Metric.LATENCY_P99: value}) for value in values)


def test_an_open_loop_offers_shares_of_the_highest_median(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        "levels: [{clients: 2}, {clients: 4}, {clients: 2, rate: 9}], open_loop: [50%, 90%]",
    )
    seen: Outcomes = {
        0: rates(900.0, 1000.0, 9999.0),
        1: rates(800.0, 820.0, 840.0),
        2: rates(9e9, 9e9, 9e9),  # an open loop is no part of the peak
    }
    cells = next_cells(plan, seen)
    assert [cell.level for cell in cells] == ["peak50", "peak90"]
    assert [cell.load.offered_iops for cell in cells] == [500.0, 900.0]
    assert [cell.workload.clients for cell in cells] == [2, 2]
    assert next_cells(grow_plan(plan, cells), seen) == ()


def test_an_open_loop_waits_for_every_trial_of_the_sweep(tmp_path: Path) -> None:
    plan = planned(tmp_path, "levels: [{iodepth: 1}, {iodepth: 8}], open_loop: [50%]")
    assert next_cells(plan, {0: rates(1.0, 1.0, 1.0), 1: rates(2.0, 2.0)}) == ()
    assert waiting_targets(plan, {0: rates(1.0, 1.0, 1.0)}) == {"dir:/mnt"}
    failed = {0: rates(100.0, None, 120.0), 1: rates(None, None, None)}
    (cell,) = next_cells(plan, failed)
    assert cell.load.offered_iops == 55.0
    assert next_cells(plan, {0: rates(None, None, None), 1: rates(None, None, None)}) == ()


@given(limit=st.integers(0, 70), most=st.integers(1, 64))
def test_doubling_and_bisection_find_the_last_number_that_holds(limit: int, most: int) -> None:
    tried: dict[int, bool] = {}
    while (clients := next_clients(tried, most)) is not None:
        assert clients not in tried
        assert 1 <= clients <= most
        tried[clients] = clients <= limit
    held = max((number for number, one in tried.items() if one), default=0)
    assert held == min(limit, most)
    # Doubling reaches any number in log2 steps, and bisection needs as many again.
    assert len(tried) <= 2 * most.bit_length() + 1


def test_density_is_searched_step_by_step(tmp_path: Path) -> None:
    plan = planned(tmp_path, "density: {rate: 500, limit: p99<5ms, most: 8}")
    answers = {1: p99(0.001, 0.001, 0.001), 2: p99(0.001, 0.009, 0.001), 4: p99(0.1, 0.1, 0.1)}
    answers[3] = p99(0.004, 0.006, 0.006)
    seen: dict[int, tuple[TrialOutcome, ...]] = {}
    order = []
    while cells := next_cells(plan, seen):
        (cell,) = cells
        order.append(cell.workload.clients)
        plan = grow_plan(plan, cells)
        assert next_cells(plan, seen) == (), "its trials come first"
        assert waiting_targets(plan, seen) == {"dir:/mnt"}
        seen[len(plan.cells) - 1] = answers[cell.workload.clients]
    assert order == [1, 2, 4, 3]
    assert [cell.level for cell in plan.cells] == [f"c{n}-qd64-rate500" for n in order]
    assert waiting_targets(plan, seen) == frozenset()
    assert [trial.id for trial in plan.trials] == [f"t{n:04d}" for n in range(1, 13)]
    assert {trial.cell for trial in plan.trials[:3]} == {0}


def test_a_rate_that_is_not_reached_passes_the_limit(tmp_path: Path) -> None:
    plan = planned(tmp_path, "density: {rate: 500, limit: p99<5ms, most: 8}")
    plan = grow_plan(plan, next_cells(plan, {}))
    overloaded = (TrialOutcome(overloaded=True),) * 3
    assert next_cells(plan, {0: overloaded}) == (), "not even one is carried"


@pytest.mark.parametrize("told", [TrialOutcome(), p99(None)[0]])
def test_a_search_ends_where_nobody_can_tell(tmp_path: Path, told: TrialOutcome) -> None:
    plan = planned(tmp_path, "density: {rate: 500, limit: p99<5ms, most: 8}")
    plan = grow_plan(plan, next_cells(plan, {}))
    assert next_cells(plan, {0: (*p99(0.001, 0.001), told)}) == ()
