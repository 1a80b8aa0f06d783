"""Settings measure each target in further states: targets that share its data, in blocks."""

from __future__ import annotations

from copy import deepcopy
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.plan.expand import drop_targets, interleaved, with_repeats
from leadline.plan.follow_ups import grow_plan
from leadline.plan.models import LeftOut, Plan
from leadline.plan.settings import Design, Setting, count_states, states
from tests.unit.plan.test_matrix import faults, load

CEPH = {"c": {"ceph_conf": "/etc/ceph/ceph.conf"}}
MCLOCK = {
    "ceph_config": {
        "who": "osd",
        "name": "osd_mclock_profile",
        "values": ["balanced", "high_client_ops"],
    }
}
MEMORY = {"ceph_config": {"who": "osd", "name": "osd_memory_target", "values": [2147483648, "4G"]}}
OBJECT = {"image": {"object_size": ["1M", "8M"]}}


def study(folder: Path, settings: dict[str, Any], **keys: Any) -> Plan:
    written = {"clusters": CEPH, "targets": [{"name": "rep3", "target": "rbd:rep3"}], **keys}
    return load(folder, settings=settings, **written)


def test_each_value_is_a_state_with_the_data_of_its_target(tmp_path: Path) -> None:
    plan = study(tmp_path, {"mclock": MCLOCK, "memory": MEMORY})
    assert [target.name for target in plan.targets] == [
        "rep3",
        "rep3 mclock=balanced",
        "rep3 mclock=high_client_ops",
        "rep3 memory=2147483648",
        "rep3 memory=4G",
    ]
    state = plan.target("rep3 memory=4G")
    assert (state.url, state.cluster, state.base) == ("rbd:rep3", "c", "rep3")
    assert state.settings == state.labels == {"memory": "4G"}
    assert plan.target("rep3").settings == plan.target("rep3").labels == {}
    assert [target.name for target in plan.own_targets] == ["rep3"]
    assert [setting.kind for setting in plan.settings] == ["ceph_config"] * 2
    assert plan.settings[0].values == ("balanced", "high_client_ops")


def test_all_combinations_where_the_design_is_full(tmp_path: Path) -> None:
    plan = study(tmp_path, {"mclock": MCLOCK, "memory": MEMORY}, design="full")
    assert plan.design is Design.FULL
    assert len(plan.targets) == 1 + 2 * 2
    last = plan.targets[-1]
    assert last.name == "rep3 mclock=high_client_ops memory=4G"
    assert last.base == "rep3"


def test_a_setting_of_the_image_has_data_of_its_own(tmp_path: Path) -> None:
    plan = study(tmp_path, {"object": OBJECT, "mclock": MCLOCK})
    image = plan.target("rep3 object=1M")
    assert (image.url, image.base) == ("rbd:rep3?object_size=1M", "")
    assert plan.applied("rep3 object=1M") == {}
    assert plan.applied("rep3 mclock=balanced") == {"mclock": "balanced"}


def test_combinations_on_one_image_share_its_data(tmp_path: Path) -> None:
    plan = study(tmp_path, {"object": OBJECT, "mclock": MCLOCK}, design="full")
    assert {target.name: target.base for target in plan.targets} == {
        "rep3": "",
        "rep3 object=1M mclock=balanced": "",
        "rep3 object=1M mclock=high_client_ops": "rep3 object=1M mclock=balanced",
        "rep3 object=8M mclock=balanced": "",
        "rep3 object=8M mclock=high_client_ops": "rep3 object=8M mclock=balanced",
    }


def test_a_target_without_the_setting_has_its_present_state_alone(tmp_path: Path) -> None:
    targets = [{"name": "rep3", "target": "rbd:rep3"}, {"name": "here", "target": "dir:/mnt"}]
    plan = study(tmp_path, {"mclock": MCLOCK}, targets=targets)
    assert [target.name for target in plan.targets if target.parsed.kind.value == "dir"] == ["here"]


def test_states_of_a_target_on_two_clusters(tmp_path: Path) -> None:
    clusters = {name: {"ceph_conf": f"/etc/{name}.conf"} for name in ("a", "b")}
    plan = study(tmp_path, {"mclock": MCLOCK}, clusters=clusters)
    state = plan.target("rep3@b mclock=balanced")
    assert (state.subject, state.place, state.base) == ("rep3 mclock=balanced", "b", "rep3@b")


def test_a_plan_without_settings_is_written_as_before(tmp_path: Path) -> None:
    text = study(tmp_path, {}).model_dump_json()
    assert not any(f'"{key}"' in text for key in ("settings", "design", "base"))


def test_a_plan_with_settings_survives_the_archive(tmp_path: Path) -> None:
    plan = study(tmp_path, {"mclock": MCLOCK, "object": OBJECT}, design="full")
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan


def test_states_of_a_target_that_is_left_out_go_with_it(tmp_path: Path) -> None:
    targets = [{"name": "rep3", "target": "rbd:rep3"}, {"name": "rep2", "target": "rbd:rep2"}]
    plan = study(tmp_path, {"mclock": MCLOCK}, targets=targets)
    rest = drop_targets(plan, [LeftOut(target="rep2", reason="it is not there")])
    assert {target.base or target.name for target in rest.targets} == {"rep3"}


def state_of(plan: Plan, cell: int) -> tuple[tuple[str, str], ...]:
    return tuple(plan.applied(plan.cells[cell].target).items())


@pytest.mark.parametrize("design", ["one-at-a-time", "full"])
def test_trials_of_a_state_stand_together_in_each_block(tmp_path: Path, design: str) -> None:
    targets = [{"name": name, "target": f"rbd:{name}"} for name in ("rep3", "rep2")]
    plan = study(
        tmp_path,
        {"mclock": MCLOCK, "memory": MEMORY, "object": OBJECT},
        targets=targets,
        design=design,
        repeats=4,
    )
    orders = []
    for _, trials in groupby(plan.trials, key=lambda trial: trial.block):
        order = [state for state, _ in groupby(trials, key=lambda one: state_of(plan, one.cell))]
        assert len(order) == len(set(order)) == 5
        assert () in order
        orders.append(tuple(order))
    assert len(set(orders)) > 1
    assert with_repeats(plan, [4] * len(plan.cells)).trials == plan.trials


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(0, 2**32),
)
def test_blocks_hold_every_cell_once_with_its_state(
    cells: list[tuple[int, int]], seed: int
) -> None:
    repeats, which = [number for number, _ in cells], [state for _, state in cells]
    trials = interleaved(repeats, seed, which)
    assert [trial.position for trial in trials] == list(range(sum(repeats)))
    for block, found in groupby(trials, key=lambda trial: trial.block):
        here = [trial.cell for trial in found]
        assert sorted(here) == [cell for cell, number in enumerate(repeats) if number > block]
        runs = [state for state, _ in groupby(here, key=lambda cell: which[cell])]
        assert len(runs) == len(set(runs))
    assert trials == interleaved(repeats, seed, which)
    # One state is no state: the order of plans without settings stays.
    assert interleaved(repeats, seed, [0] * len(cells)) == interleaved(repeats, seed)


@given(st.lists(st.integers(1, 4), max_size=4), st.sampled_from(Design))
def test_states_are_as_many_as_counted(sizes: list[int], design: Design) -> None:
    settings = [
        Setting.model_validate(
            {
                "name": f"s{number}",
                "zfs_parameter": {"name": "zfs_txg_timeout", "values": list(range(size))},
            }
        )
        for number, size in enumerate(sizes)
    ]
    found = [tuple(state.items()) for state in states(settings, design)]
    assert len(found) == len(set(found)) == count_states(settings, design)


@pytest.mark.parametrize(
    ("settings", "keys", "sentence"),
    [
        ({"a": {}}, {}, "needs exactly one of ceph_config, pool"),
        ({"a": {**MCLOCK, **OBJECT}}, {}, "has ceph_config and image"),
        ({"a": {"image": {"size": ["1M"]}}}, {}, "image has no option 'size'"),
        ({"a": {"image": {"object_size": ["3M"]}}}, {}, "a power of two from 4K to 32M"),
        ({"a": {"image": {"stripe": ["8x3M"]}}}, {}, "does not divide an object"),
        ({"a": {"dataset": {"recordsize": ["16K"]}}}, {}, "no target of the plan has a setting"),
        ({"a": {"zpool": {"ashift": [9]}}}, {}, "no target of the plan has a setting"),
        ({"a": {"zpool": {"recordsize": ["8K"]}}}, {}, "zpool has no option 'recordsize'"),
        ({"a": {"ceph_config": {"who": "osd", "name": "x", "values": []}}}, {}, "values"),
        ({"a": {"ceph_config": {"who": "osd", "name": "x", "values": [1, 1]}}}, {}, "'1' twice"),
        ({"a": {"ceph_config": {"who": "-x", "name": "x", "values": [1]}}}, {}, "no name of an"),
        ({"a": {"ceph_config": {"who": "osd", "nam": "x", "values": [1]}}}, {}, "name"),
        (
            {"a": {"ceph_config": {"who": "osd", "name": "x", "values": [1], "cluster": "cc"}}},
            {},
            "no cluster 'cc'",
        ),
        (
            {"mclock": MCLOCK, "again": deepcopy(MCLOCK)},
            {},
            "changes the same as the setting 'mclock'",
        ),
        ({"mclock": MCLOCK}, {"budget": {"volumes": 1}}, "a plan with a budget has one state"),
        ({"mclock": MCLOCK}, {"labels": {"mclock": "a"}}, "is the name of a label"),
        (
            {"a": {"command": {"apply": "x", "read": "y", "restore": "z {before}", "values": [1]}}},
            {},
            "apply has {value}",
        ),
    ],
)
def test_what_a_setting_cannot_be(
    tmp_path: Path, settings: dict[str, Any], keys: dict[str, Any], sentence: str
) -> None:
    written = {"clusters": CEPH, "targets": [{"name": "rep3", "target": "rbd:rep3"}], **keys}
    assert sentence in faults(tmp_path, settings=settings, **written)


def test_programs_of_a_command_lie_next_to_the_plan(tmp_path: Path) -> None:
    command = {"apply": "./set.sh {value}", "read": "cat", "restore": "./set.sh {before}"}
    plan = study(tmp_path, {"own": {"command": {**command, "values": ["a b"]}}})
    found = plan.settings[0].command
    assert found is not None
    assert found.argv(found.apply, "a b") == (str(tmp_path / "set.sh"), "a b")
    assert found.argv(found.read) == ("cat",)


def test_trials_that_follow_from_results_stand_by_states_too(tmp_path: Path) -> None:
    plan = study(tmp_path, {"mclock": MCLOCK}, repeats=2)
    cells = [cell.model_copy(update={"level": "more"}) for cell in plan.cells * 2]
    grown = grow_plan(plan, cells)
    later = grown.trials[len(plan.trials) :]
    for _, trials in groupby(later, key=lambda trial: trial.block):
        order = [state for state, _ in groupby(trials, key=lambda one: state_of(grown, one.cell))]
        assert len(order) == 3
