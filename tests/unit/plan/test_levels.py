"""Load levels: clients, offered rates, neighbours; and what a workload wants added later."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.metrics import Metric
from leadline.plan.expand import OPEN_LOOP_DEPTH
from leadline.plan.footprint import target_footprint
from leadline.plan.groups import target_demand
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Density, OpenLoop, Plan


def planned(folder: Path, workload: str, targets: str = "dir:/mnt") -> Plan:
    path = folder / "plan.yaml"
    path.write_text(
        "clusters: {c: {lab: mine}}\n" * targets.startswith("rbd:") + f"targets: ['{targets}']\n"
        "defaults: {size: 16M, runtime: 5s}\n"
        f"workloads: [{{name: w, pattern: randrw, {workload}}}]\n"
    )
    return load_plan(path, Overrides())


def faults(folder: Path, workload: str) -> str:
    with pytest.raises(LeadlineError) as caught:
        planned(folder, workload)
    return "\n".join(caught.value.context)


def test_a_level_counts_clients_jobs_and_depth(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        "levels: [{iodepth: 8}, {clients: 1, iodepth: 8}, {clients: 3, numjobs: 2, iodepth: 8}, "
        "{clients: 2, rate: 150}]",
    )
    levels = {cell.level: cell.load for cell in plan.cells}
    assert list(levels) == ["qd8", "c1-qd8", "c3-qd8x2", "c2-qd64-rate150"]
    assert [one.in_flight for one in levels.values()] == [8, 8, 48, 2 * OPEN_LOOP_DEPTH]
    assert [one.clients for one in levels.values()] == [1, 1, 3, 2]
    assert [one.offered_iops for one in levels.values()] == [None, None, None, 300.0]


def test_every_client_and_neighbour_has_data_of_its_own(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        "levels: [{numjobs: 2}, {clients: 2, neighbours: 1}], "
        "neighbour: {pattern: write, block_size: 64k, iodepth: 16, size: 32M}",
    )
    assert [cell.level for cell in plan.cells] == ["c1-qd1x2-n0", "c2-qd1-n1"]
    neighbour = plan.cells[1].workload.neighbour
    assert neighbour is not None
    assert (neighbour.block_size, neighbour.iodepth, neighbour.read_share) == (65536, 16, None)
    footprint = target_footprint(plan, "dir:/mnt")
    names = ["leadline.0.dat", "leadline.1.dat", "leadline.c2.0.dat"]
    sizes = dict.fromkeys(names, 16 << 20) | {"leadline.c3.0.dat": 32 << 20}
    assert footprint.files == sizes
    assert (footprint.clients, footprint.span) == (3, 3 * (32 << 20))


def test_on_a_storage_class_each_client_has_a_volume(tmp_path: Path) -> None:
    plan = planned(tmp_path, "levels: [{clients: 1}, {clients: 3}]", "storageclass:fast?count=3")
    footprint = target_footprint(plan, plan.targets[0].name)
    assert (list(footprint.files), footprint.span) == (["leadline.0.dat"], 16 << 20)


def test_a_search_lays_out_the_data_of_the_most_that_it_may_try(tmp_path: Path) -> None:
    plan = planned(tmp_path, "density: {rate: 500, limit: p99<5ms, most: 12}")
    assert plan.cells == ()
    (density,) = plan.follow_ups
    assert isinstance(density, Density)
    assert (density.limit.metric, density.limit.below_s) == (Metric.LATENCY_P99, 0.005)
    assert density.workload.load.offered_iops == 500.0
    assert target_footprint(plan, "dir:/mnt").clients == 12


def test_shares_of_the_peak_are_kept_for_later(tmp_path: Path) -> None:
    plan = planned(tmp_path, "levels: [{iodepth: 1}, {iodepth: 8}], open_loop: [50%, 0.9]")
    (asked,) = plan.follow_ups
    assert isinstance(asked, OpenLoop)
    assert asked.shares == (0.5, 0.9)
    assert len(plan.cells) == 2


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("levels: [{}]", "a level needs one at least of iodepth, numjobs, clients, rate"),
        ("levels: [{rate: 0}]", "levels[0].rate"),
        ("levels: [{clients: 0}]", "levels[0].clients"),
        ("levels: [{cleints: 2}]", "did you mean 'clients'?"),
        ("levels: [{neighbours: 2}]", "need `neighbour`, which describes their I/O"),
        ("neighbour: {pattern: read}", "has an effect in levels with neighbours only"),
        (
            "levels: [{neighbours: 2}], neighbour: {pattern: read, size: 1M}",
            "a neighbour's numjobs x size must be at least the workload's",
        ),
        ("open_loop: [half]", "'half' is not a share"),
        ("open_loop: [700%]", "is not between 0 and 150 % of the peak"),
        ("levels: [{rate: 5}], open_loop: [50%]", "needs levels without a rate"),
        ("density: {rate: 5, limit: p99>5ms}", "is no latency limit"),
        ("density: {rate: 5, limit: p98<5ms}", "'p98' is none of"),
        ("density: {rate: 5, limit: p99<5}", "needs its unit: p99<5ms"),
        ("density: {limit: p99<5ms}", "density.rate"),
        (
            "density: {rate: 100, limit: p99<5ms}",
            "and p99<5 ms needs 1,000: make the runtime 22 s",
        ),
    ],
)
def test_what_is_wrong_with_a_level_is_told(tmp_path: Path, workload: str, said: str) -> None:
    assert said in faults(tmp_path, workload)


def test_hosts_are_a_client_each_unless_the_plan_counts_them(tmp_path: Path) -> None:
    plan = planned(tmp_path, "levels: [{iodepth: 8}, {clients: 1}]", "hosts:a,b,c:/mnt")
    assert [cell.level for cell in plan.cells] == ["c3-qd8", "c1-qd1"]
    assert target_footprint(plan, plan.targets[0].name).clients == 3


def test_hosts_of_an_image_are_a_client_each_on_stretches_of_it(tmp_path: Path) -> None:
    plan = planned(tmp_path, "levels: [{iodepth: 8}, {clients: 1}]", "rbd:rep3?hosts=a,b,c")
    name = plan.targets[0].name
    assert [cell.level for cell in plan.cells] == ["c3-qd8", "c1-qd1"]
    assert target_footprint(plan, name).span == 3 * (16 << 20)
    demand = target_demand(plan, name)
    assert (demand.volumes, demand.capacity_bytes) == (1, 3 * (16 << 20))
