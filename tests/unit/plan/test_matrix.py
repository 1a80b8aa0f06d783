"""A matrix multiplies targets by options and workloads by settings; a budget makes groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline.plan.expand import drop_targets
from leadline.plan.groups import peak_demand, planned_groups, target_demand
from leadline.plan.loader import Overrides, PlanInvalid, load_plan
from leadline.plan.models import LeftOut, Plan
from leadline.units import parse_size

WORKLOADS = [{"name": "rr", "pattern": "randread", "size": "64M", "runtime": "1s"}]
CLUSTER = {"k": {"kubernetes": {"cpu": 2}}}
STUDY: dict[str, Any] = {
    "clusters": CLUSTER,
    "targets": [
        {"name": "rep3", "target": "storageclass:rep3?runner=vm", "copies": 3},
        {"name": "rep2", "target": "storageclass:rep2?runner=vm", "copies": 2},
    ],
    "matrix": {
        "vm": ["small", "large"],
        "size": ["150Gi", "500Gi"],
        "count": [1, 5],
    },
}


def load(folder: Path, **keys: Any) -> Plan:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"seed": 1, "workloads": WORKLOADS, **keys}, sort_keys=False))
    return load_plan(path, Overrides())


def faults(folder: Path, **keys: Any) -> str:
    with pytest.raises(PlanInvalid) as raised:
        load(folder, **keys)
    return "\n".join(raised.value.context)


def test_each_combination_is_a_target_with_labels(tmp_path: Path) -> None:
    plan = load(tmp_path, **STUDY)
    assert len(plan.targets) == 2 * 2 * 2 * 2
    target = plan.target("rep2-large-500Gi-x5")
    assert target.url == "storageclass:rep2?runner=vm&vm=large&size=500Gi&count=5"
    assert target.labels == {"class": "rep2", "vm": "large", "size": "500Gi", "count": "5"}
    assert len(plan.cells) == len(plan.targets)


def test_labels_of_a_target_replace_the_one_of_its_name(tmp_path: Path) -> None:
    targets = [{**STUDY["targets"][0], "labels": {"pool": "three"}}]
    plan = load(tmp_path, **{**STUDY, "targets": targets})
    assert {label for target in plan.targets for label in target.labels} == {
        *("pool", "vm", "size", "count"),
    }


def test_a_dimension_may_name_several_options_together(tmp_path: Path) -> None:
    machine = {"thin": {"vm": "small", "size": "1Gi"}, "wide": {"vm": "large", "size": "9Gi"}}
    plan = load(tmp_path, **{**STUDY, "matrix": {"machine": machine}})
    assert [target.name for target in plan.targets][:2] == ["rep3-thin", "rep3-wide"]
    assert plan.targets[1].url == "storageclass:rep3?runner=vm&vm=large&size=9Gi"
    assert plan.targets[1].labels == {"class": "rep3", "machine": "wide"}


def test_settings_of_workloads_are_names_and_levels(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        targets=["dir:/a"],
        matrix={"block_size": ["4k", "1M"], "iodepth": [1, 8]},
    )
    assert [target.name for target in plan.targets] == ["dir:/a"]
    assert [(cell.workload.name, cell.level) for cell in plan.cells] == [
        *(("rr-4k", "qd1"), ("rr-4k", "qd8"), ("rr-1M", "qd1"), ("rr-1M", "qd8")),
    ]
    assert [cell.workload.phases[0].block_size for cell in plan.cells] == [
        4096,
        4096,
        1 << 20,
        1 << 20,
    ]


def test_workloads_of_some_targets_follow_them_into_the_matrix(tmp_path: Path) -> None:
    workloads = [*WORKLOADS, {**WORKLOADS[0], "name": "own", "targets": "rep2"}]
    plan = load(tmp_path, **STUDY, workloads=workloads)
    assert {cell.target[:4] for cell in plan.cells if cell.workload.name == "own"} == {"rep2"}
    assert len(plan.cells) == 16 + 8


@pytest.mark.parametrize(
    ("keys", "fact"),
    [
        ({"matrix": {"sise": ["1Gi"]}}, "have no option 'sise'"),
        ({"matrix": {"size": ["many"]}}, "the matrix does not fit 'rep3': "),
        ({"matrix": {"runner": ["pod"]}}, "has the option 'runner' of its own"),
        ({"matrix": {"size": []}}, "has no value"),
        ({"matrix": {"size": ["1Gi", "1Gi"]}}, "has a value twice"),
        ({"matrix": {"a": {"x": {"size": "1Gi", "iodepth": 4}}}}, "mixes settings of workloads"),
        ({"matrix": {"a": {"x": {"size": "1Gi"}}, "size": ["2Gi"]}}, "sets size, as the dimension"),
        ({"targets": ["dir:/a"]}, "'dir' targets have no option 'vm'"),
        ({"budget": {}}, "needs one at least of"),
        ({"budget": {"volumes": 4}}, "'rep3-small-150Gi-x5' alone exceeds the budget: 5 volumes"),
        ({"budget": {"volume": 4}}, "volume"),
    ],
)
def test_faults_are_those_of_the_entry(tmp_path: Path, keys: dict[str, Any], fact: str) -> None:
    assert fact in faults(tmp_path, **{**STUDY, **keys})


def test_compared_targets_share_a_group_within_the_budget(tmp_path: Path) -> None:
    plan = load(tmp_path, **STUDY, budget={"volumes": 12, "cores": 100, "written": "2GiB"})
    groups = planned_groups(plan)
    for one in groups:
        assert one.demand.volumes <= 12
        assert one.demand.written_bytes <= 2 << 30
        assert one.group.blocks == ()
        # Both classes of each combination are together.
        assert {name.replace("rep2", "rep3") for name in one.group.targets} <= {*one.group.targets}
    assert peak_demand(groups).volumes == 12
    assert [trial.id for one in groups for trial in one.trials] == [one.id for one in plan.trials]
    assert len(plan.trials) == 16 * 3


def test_what_does_not_fit_together_takes_turns_in_every_block(tmp_path: Path) -> None:
    plan = load(tmp_path, **{**STUDY, "matrix": {"count": [1, 5]}}, budget={"volumes": 5})
    turns = [group for group in plan.groups if group.blocks]
    assert [group.blocks for group in turns] == [(0,), (0,), (1,), (1,), (2,), (2,)]
    assert {group.targets for group in turns} == {("rep3-x5",), ("rep2-x5",)}
    assert len({group.series for group in turns}) == 1
    assert [group.targets for group in plan.groups if not group.blocks] == [("rep3-x1", "rep2-x1")]


def test_nodes_are_compared_so_they_share_a_group(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        **{**STUDY, "matrix": {"node": ["a", "b"], "count": [1, 2]}},
        budget={"volumes": 8},
    )
    assert [len(group.targets) for group in plan.groups] == [4, 4] or len(plan.groups) == 1
    for group in plan.groups:
        assert len({name.replace("-a-", "-b-") for name in group.targets}) * 2 == len(group.targets)


def test_the_demand_counts_copies_where_they_are_known(tmp_path: Path) -> None:
    plan = load(tmp_path, **STUDY)
    demand = target_demand(plan, "rep3-large-150Gi-x5")
    assert demand.volumes == 5
    assert demand.capacity_bytes == 5 * 3 * parse_size("150Gi")
    assert demand.written_bytes == 5 * 3 * parse_size("64M")
    assert demand.cores == 5 * 8


def test_follow_ups_need_their_target_in_one_group(tmp_path: Path) -> None:
    workloads = [{**WORKLOADS[0], "open_loop": ["50%"]}]
    targets = [{"name": name, "target": f"dir:/{name}"} for name in ("a", "b")]
    found = faults(tmp_path, targets=targets, workloads=workloads, budget={"volumes": 1})
    assert "open_loop and density need all trials of a target in one group" in found


def test_a_target_that_is_left_out_leaves_its_group(tmp_path: Path) -> None:
    targets = [{"name": name, "target": f"dir:/{name}"} for name in ("a", "b", "c")]
    plan = load(tmp_path, targets=targets, budget={"volumes": 2})
    left = drop_targets(plan, [LeftOut(target="c", reason="absent")])
    assert {name for group in left.groups for name in group.targets} == {"a", "b"}
    assert Plan.model_validate_json(left.model_dump_json(by_alias=True)) == left


def test_a_plan_without_a_budget_is_written_as_before(tmp_path: Path) -> None:
    written = load(tmp_path, targets=["dir:/a"]).model_dump_json(by_alias=True)
    assert not any(word in written for word in ("groups", "budget", "copies"))


def test_the_study_fits_into_two_tebibytes(tmp_path: Path) -> None:
    """Three sizes of machines and volumes, three numbers of volumes, and ten pairs of a pool and a
    workload: 270 trials."""
    pools = [
        {"name": f"rep3-{n}", "target": f"storageclass:p{n}?runner=vm", "copies": 3}
        for n in range(10)
    ]
    matrix = {
        "vm": ["small", "medium", "large"],
        "size": ["150Gi", "500Gi", "1000Gi"],
        "count": [1, 5, 10],
    }
    workload = {"name": "mixed", "pattern": "randrw", "size": "4G", "numjobs": 4, "runtime": "60s"}
    plan = load(
        tmp_path,
        clusters=CLUSTER,
        targets=pools,
        matrix=matrix,
        workloads=[workload],
        repeats=1,
        budget={"written": "2TiB", "cores": 100},
    )
    assert len(plan.trials) == 270
    peak = peak_demand(planned_groups(plan))
    assert peak.written_bytes <= 2 << 40
    assert peak.cores <= 100
