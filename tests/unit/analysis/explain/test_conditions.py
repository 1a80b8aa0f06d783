"""What differs between two sides, from the plans, the trials and the hosts of real archives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from archive_builder import host, make_run, small_plan

from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import Conditions, conditions, system
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.explain.systems import SystemFacts
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.inventory.diff import Difference
from leadline.inventory.host import HostInventory, Mount
from leadline.plan.facts import Access, TargetFacts
from leadline.plan.lab import LabDescription
from leadline.plan.models import Cluster, Plan

RECORDED = Path(__file__).resolve().parents[3] / "recorded"


def side(run: Run, targets: Mapping[str, str] | None = None) -> Side:
    names = targets or {target.name: target.name for target in run.plan.targets}
    return Side(name=run.id, run=run, targets=names, figures=(), findings=())


def between(ours: Side, theirs: Side, subjects: Sequence[str] | None = None) -> Conditions:
    return conditions(ours, theirs, subjects or list(ours.targets), ())


def at(found: Conditions, path: str) -> Difference:
    return next(one for one in found.differences if one.path == path)


def paths(found: Conditions) -> set[str]:
    return {one.path for one in found.differences}


def addressed(**urls: str) -> Plan:
    plan = small_plan(list(urls), repeats=1)
    targets = tuple(one.model_copy(update={"url": urls[one.name]}) for one in plan.targets)
    return plan.model_copy(update={"targets": targets})


def longer(plan: Plan, *targets: str) -> Plan:
    """The plan with twice the time for what is done on some targets."""
    cells = tuple(
        cell.model_copy(
            update={
                "workload": cell.workload.model_copy(
                    update={"runtime_s": 2 * cell.workload.runtime_s}
                )
            }
        )
        if cell.target in targets
        else cell
        for cell in plan.cells
    )
    return plan.model_copy(update={"cells": cells})


def test_a_setting_is_told_of_the_targets_that_it_was_changed_on(tmp_path: Path) -> None:
    plan = small_plan(["a", "b"], repeats=1)
    base = side(make_run(tmp_path, plan, run_id="base"))
    workload = plan.cells[0].workload.name
    for changed, told in ((["a"], {"a"}), (["a", "b"], {""})):
        run = make_run(tmp_path, longer(plan, *changed), run_id=f"changed-{len(changed)}")
        found = between(base, side(run)).differences
        path = f"workloads.{workload}.runtime_s"
        assert [one.target for one in found if one.path == path] == sorted(told)


def test_a_file_system_beside_a_block_device_differs_in_kind(tmp_path: Path) -> None:
    run = make_run(tmp_path, addressed(block="rbd:rep3", file="cephfs:rep3"))
    found = between(side(run, {"x": "block"}), side(run, {"x": "file"}))
    assert (at(found, "targets.x.kind").baseline, at(found, "targets.x.kind").candidate) == (
        "rbd",
        "cephfs",
    )
    assert at(found, "targets.x.kind").target == "x"
    same = between(side(run, {"x": "block"}), side(run, {"x": "block"}))
    assert not same.differences


@pytest.mark.parametrize(
    ("base_s", "candidate_s", "told"),
    [
        (None, 1e-3, ("not measured", "1.02 ms")),
        (1e-3, None, ("1.02 ms", "not measured")),
        (1e-3, 2e-3, ("1.02 ms", "2.04 ms")),
        (1e-3, 1e-3, None),
        (None, None, None),
    ],
)
def test_a_round_trip_that_only_one_side_measured_is_told(
    tmp_path: Path,
    base_s: float | None,
    candidate_s: float | None,
    told: tuple[str, str] | None,
) -> None:
    plan = small_plan(["a"], repeats=1)
    sides = [
        side(make_run(tmp_path, plan, run_id=name, round_trip_s=lambda _, given=given: given))
        for name, given in (("base", base_s), ("candidate", candidate_s))
    ]
    found = between(*sides)
    if told is None:
        assert "network.inter_zone_rtt" not in paths(found)
    else:
        one = at(found, "network.inter_zone_rtt")
        assert (one.baseline, one.candidate) == told


def test_the_processor_of_a_lab_is_told_by_its_inventory(tmp_path: Path) -> None:
    plan = small_plan(["a"], repeats=1)
    targets = tuple(
        one.model_copy(update={"cluster": "c", "url": "rbd:rep3"}) for one in plan.targets
    )
    clusters = (Cluster(name="c", lab="mine"),)
    plan = plan.model_copy(update={"targets": targets, "clusters": clusters})
    sides = []
    for name, cores in (("base", None), ("candidate", 0.15)):
        run = make_run(tmp_path, plan, run_id=name)
        dumps = run.path / layout.system_folder("001", "start", 0)
        dumps.mkdir(parents=True)
        lab = LabDescription(cpu_per_host=cores).model_dump(mode="json")
        (dumps / "lab.json").write_text(json.dumps({"description": lab}))
        sides.append(side(run))
    one = at(between(sides[0], sides[1]), "lab.cpu_per_host")
    assert (one.baseline, one.candidate) == ("no quota", "0.15 cores")
    (dumps / "lab.json").write_text("{")
    again = side(Run(run.path))  # a run keeps what it has read
    assert "lab.cpu_per_host" not in paths(between(sides[0], again))


def test_two_targets_of_one_host_are_compared_by_what_they_lie_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, small_plan(["a", "b"], repeats=1))
    known = host(run.plan)
    xfs = Mount(source="/dev/vda", mount_point="/b", filesystem="xfs", options="rw")
    changed = known.model_copy(
        update={"targets": (known.targets[0], known.targets[1].model_copy(update={"mount": xfs}))}
    )
    monkeypatch.setattr(Run, "inventory", lambda *_: changed)
    found = between(side(run, {"b vs a": "a"}), side(run, {"b vs a": "b"}))
    one = at(found, "targets.b vs a.filesystem")
    assert (one.baseline, one.candidate) == ("ext4", "xfs")
    assert any(one.startswith("the same load generator") for one in found.identical)


def test_without_an_inventory_a_run_is_still_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, small_plan(["a", "b"], repeats=1))
    nothing: HostInventory | None = None
    monkeypatch.setattr(Run, "inventory", lambda *_: nothing)
    found = between(side(run, {"x": "a"}), side(run, {"x": "b"}))
    assert "one run on one load generator" in found.identical


# --- what the cost of round trips is computed from -----------------------------------------------


def on_cluster(tmp_path: Path, name: str, dumps: Mapping[str, bytes], **end: bytes) -> Side:
    """A run on the recorded multi-zone cluster, with further dumps at the start and the end."""
    plan = addressed(a="rbd:rbd_r3")
    targets = tuple(one.model_copy(update={"cluster": "c"}) for one in plan.targets)
    plan = plan.model_copy(update={"targets": targets, "clusters": (Cluster(name="c"),)})
    run = make_run(tmp_path, plan, run_id=name, round_trip_s=lambda _: 1e-3)
    recorded = RECORDED / "ceph-multi-az"
    known = {path.name: path.read_bytes() for path in recorded.glob("*.json")}
    for moment, more in (("start", dumps), ("end", {**dumps, **end} if end else {})):
        folder = run.path / layout.system_folder("001", moment, 0)
        folder.mkdir(parents=True)
        for file, content in {**known, **more}.items():
            (folder / file).write_bytes(content)
    return side(run)


def acting(*groups: tuple[int, int, int]) -> bytes:
    """`pg dump` of the pool rbd_r3, the primary of each group first."""
    (pool,) = (
        pool["pool"]
        for pool in json.loads((RECORDED / "ceph-multi-az" / "osd_dump.json").read_bytes())["pools"]
        if pool["pool_name"] == "rbd_r3"
    )
    listed = [
        {"pgid": f"{pool}.{number:x}", "acting": osds, "acting_primary": osds[0]}
        for number, osds in enumerate(groups)
    ]
    return json.dumps({"pg_stats": listed}).encode()


def gathered(monkeypatch: pytest.MonkeyPatch, ours: Side, theirs: Side) -> SystemFacts:
    seen = []

    def explain(*given: object) -> tuple[tuple[Difference, ...], tuple[Explanation, ...]]:
        seen.append(given[-1])
        return (), ()

    monkeypatch.setattr("leadline.analysis.explain.conditions.explain", explain)
    between(ours, theirs)
    (facts,) = seen
    assert isinstance(facts, SystemFacts)
    return facts


def test_placement_client_network_and_extent_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pgs = acting((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1))
    lab = json.dumps({"description": {}, "client_location": "region=r,zone=az2"}).encode()
    moved = acting((1, 0, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1))
    known = on_cluster(tmp_path, "known", {"pg_dump_pgs_brief.json": pgs, "lab.json": lab})
    while_moving = on_cluster(
        tmp_path, "moving", {"pg_dump_pgs_brief.json": pgs}, **{"pg_dump_pgs_brief.json": moved}
    )
    facts = gathered(monkeypatch, known, while_moving)
    placed, unplaced = facts.pools["a"]
    primaries = {one.members[one.primary]: one.weight for one in placed.placement}
    assert primaries == {"az1": 1, "az2": 2, "az3": 1}
    assert placed.client == "az2"
    assert (unplaced.placement, unplaced.client) == ((), None)
    assert (unplaced.pgs, unplaced.even, len(unplaced.shares)) == (32, True, 3)
    network = facts.networks_of("a")[0]
    assert network is not None
    assert 1e-3 <= network.low.other_s <= network.typical_s <= network.high.other_s <= 1.03e-3
    cell = known.run.plan.cells[0]
    size = facts.extents["a", cell.workload.name, cell.level]
    assert size == max(phase.numjobs * phase.size for phase in cell.workload.phases)


def test_a_damaged_dump_of_the_placement_leaves_it_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = on_cluster(tmp_path, "broken", {"pg_dump_pgs_brief.json": b"{", "lab.json": b"{"})
    whole = on_cluster(tmp_path, "whole", {})
    assert gathered(monkeypatch, broken, whole).pools["a"][0].placement == ()


def test_the_client_is_where_its_host_or_its_url_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = on_cluster(tmp_path, "base", {})
    cluster = system(base)
    assert cluster is not None
    known = host(base.run.plan)
    here = known.model_copy(update={"hostname": cluster.osds[0].host})
    monkeypatch.setattr(Run, "inventory", lambda *_: here)
    facts = gathered(monkeypatch, base, base)
    assert facts.pools["a"][0].client == cluster.osds[0].at("zone")
    plan = base.run.plan
    url = "rbd:rbd_r3?read_policy=localize&crush_location=zone:az3"
    target = plan.targets[0].model_copy(update={"url": url})
    monkeypatch.setattr(Run, "plan", plan.model_copy(update={"targets": (target,)}))
    again = side(Run(base.run.path))
    assert gathered(monkeypatch, again, again).pools["a"][0].client == "az3"


# --- what one source lacks and another states ---------------------------------------------------


@pytest.mark.parametrize(("stated", "unknown"), [(None, True), (True, False)])
def test_what_an_inventory_lacks_is_known_where_facts_of_the_targets_state_it(
    tmp_path: Path, stated: bool | None, unknown: bool
) -> None:
    sides = []
    for name in ("base", "candidate"):
        made = on_cluster(tmp_path, name, {})
        facts = TargetFacts(encrypted=stated, access=(Access.RWO,))
        targets = tuple(one.model_copy(update={"facts": facts}) for one in made.run.plan.targets)
        plan = made.run.plan.model_copy(update={"targets": targets})
        layout.write_durably(made.run.path / layout.PLAN, layout.encode(plan))
        sides.append(side(Run(made.run.path)))
    found = between(*sides)
    assert ("encryption at rest" in found.unknown) is unknown
    assert ("encryption at rest yes" in found.identical) is not unknown
