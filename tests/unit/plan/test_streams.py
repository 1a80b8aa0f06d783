"""Workloads of `engine: zfs-stream`, and workloads that are for some targets only."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.errors import LeadlineError
from leadline.plan.footprint import target_footprint
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan
from leadline.runner.prefill import SLOWEST_BPS
from leadline.runner.trial import trial_bound_s
from tests.conftest import ROOT

TARGETS = """
targets:
  - {target: "zfs:tank?recordsize=8K", name: small}
  - {target: "zfs:tank", name: large}
  - dir:/x
"""


def load(tmp_path: Path, workloads: str, targets: str = TARGETS) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(f"leadline: 1\n{targets}\nworkloads:\n{workloads}")
    return load_plan(path, Overrides())


def faults(tmp_path: Path, workloads: str) -> str:
    with pytest.raises(LeadlineError) as told:
        load(tmp_path, workloads)
    return str(told.value)


def test_a_workload_is_done_on_the_targets_that_it_names(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        "  - {name: stream, pattern: write, engine: zfs-stream, targets: [small, large]}\n"
        "  - {name: write, pattern: write, targets: 'dir:/x'}\n"
        "  - {name: read, pattern: read}\n",
    )
    cells = {(cell.target, cell.workload.name, cell.level) for cell in plan.cells}
    assert cells == {
        ("small", "stream", ""),
        ("large", "stream", ""),
        ("dir:/x", "write", "qd1"),
        ("small", "read", "qd1"),
        ("large", "read", "qd1"),
        ("dir:/x", "read", "qd1"),
    }
    assert len(plan.trials) == 3 * len(cells)


def test_targets_of_several_clusters_go_by_the_name_that_the_plan_gives(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        "  - {name: one, pattern: read, targets: rep3}\n  - {name: two, pattern: read}\n",
        "clusters: {a: {ceph_conf: /a}, b: {ceph_conf: /b}}\n"
        "targets: [{target: 'rbd:rep3', name: rep3}, 'rbd:rep2']",
    )
    assert {cell.target for cell in plan.cells if cell.workload.name == "one"} == {
        "rep3@a",
        "rep3@b",
    }
    assert len({cell.target for cell in plan.cells if cell.workload.name == "two"}) == 4


def test_follow_ups_are_of_the_named_targets_only(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        "  - {name: a, pattern: read, levels: [{iodepth: 1}], open_loop: [50%], targets: large}\n"
        "  - {name: b, pattern: read}\n",
    )
    assert [one.target for one in plan.follow_ups] == ["large"]


def test_a_target_that_is_not_there_and_one_without_work_are_faults(tmp_path: Path) -> None:
    told = faults(tmp_path, "  - {name: a, pattern: read, targets: [smal, large]}\n")
    assert "there is no target 'smal' in the plan (did you mean 'small'?)" in told
    assert "no workload is for the target 'small'" in told
    assert "no workload is for the target 'dir:/x'" in told
    assert "no workload is for the target 'large'" not in told


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("pattern: read", "`pattern: write` and nothing else"),
        ("phases: [{pattern: write}, {pattern: read}]", "`pattern: write` and nothing else"),
        ("pattern: write, iodepth: 4", "has no depth: numjobs is the number of streams"),
        ("pattern: write, numjobs: 33", "at most 32 streams at the same time"),
        ("pattern: write, levels: [{iodepth: 1}, {iodepth: 2}]", "has no depth"),
        ("pattern: write, numjobs: 2, sharing: one-file", "sharing has no meaning"),
        ("pattern: write, fsync: 1", "has no fsync"),
        ("pattern: write, clients: 2", "neither clients nor a rate"),
        ("pattern: write, levels: [{rate: 10, iodepth: 1}]", "neither clients nor a rate"),
    ],
)
def test_what_a_stream_has_no_use_for_is_a_fault(tmp_path: Path, settings: str, words: str) -> None:
    told = faults(tmp_path, f"  - {{name: a, engine: zfs-stream, {settings}}}\n")
    assert words in told
    assert "workloads[0]" in told


def test_streams_at_the_same_time_are_a_level_and_need_data_of_their_own(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        "  - {name: a, engine: zfs-stream, pattern: write, size: 64M, "
        "levels: [{numjobs: 1}, {numjobs: 4}]}\n",
        targets="targets: ['zfs:tank']",
    )
    assert [cell.level for cell in plan.cells] == ["", "streams4"]
    needs = target_footprint(plan, "zfs:tank")
    assert sorted(needs.files) == [f"leadline.{job}.dat" for job in range(4)]
    # The data of the prefill, that of the four datasets, and what they receive.
    assert needs.sent_bytes == 2 * 4 * (64 << 20)
    assert needs.capacity_bytes == 3 * 4 * (64 << 20)
    one, four = (trial_bound_s(cell.workload, 0.0) for cell in plan.cells)
    assert four - one == pytest.approx(3 * (64 << 20) / SLOWEST_BPS)


def test_a_stream_is_never_cut_so_that_its_size_is_in_the_bound(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        "  - {name: a, engine: zfs-stream, pattern: write, size: 64M, runtime: 5s, ramp: 1s}\n"
        "  - {name: b, pattern: write, size: 64M, runtime: 5s, ramp: 1s}\n",
        targets="targets: ['zfs:tank']",
    )
    bounds = {cell.workload.name: trial_bound_s(cell.workload, 10.0) for cell in plan.cells}
    assert bounds == {"a": 16 + (64 << 20) / SLOWEST_BPS, "b": 16}


def test_the_plan_of_zfs_on_rbd_lays_one_image_under_all() -> None:
    plan = load_plan(ROOT / "plans" / "zfs-on-rbd.yaml", Overrides())
    streamed = [cell.target for cell in plan.cells if cell.workload.streams]
    assert streamed == ["zfs-8k", "zfs-16k", "zfs-32k", "zfs-64k", "zfs-128k"]
    sizes = [plan.target(name).parsed.record_bytes for name in streamed]
    assert sizes == [8192, 16384, 32768, 65536, 131072]
    written = [cell for cell in plan.cells if not cell.workload.streams]
    assert {cell.target for cell in written} == {"librbd", "ext4"}
    asked = {(cell.workload.phases[0].block_size, cell.load.in_flight) for cell in written}
    assert asked == {(size, depth) for size in sizes for depth in (1, 10)}
    assert {target.parsed.pool for target in plan.targets} == {"rep2"}
