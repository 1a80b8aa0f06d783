"""What is removed, what is let be, and what is reported where it does not go."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leadline import errors
from leadline.archive.runs import new_id
from leadline.connect.kubernetes import client
from leadline.connect.kubernetes.cleanup import Removal, other_runs
from leadline.connect.kubernetes.objects import MANAGED_BY, RUN, TOKEN, label_value, labels_of
from leadline.errors import LeadlineError
from tests.unit.connect.kubernetes.api_double import ApiDouble, World

MINE = {TOKEN: "t1", RUN: "perf-1", MANAGED_BY: "leadline"}
OTHERS = {TOKEN: "t2", RUN: "perf-2", MANAGED_BY: "leadline"}


@pytest.fixture
def world(api: ApiDouble) -> World:
    """A Job with a pod, a claim and a volume with the token, and one of another run."""
    world = World()
    for labels, name in ((MINE, "mine"), (OTHERS, "other")):
        world.add("jobs", name, "ns", labels=labels)
        world.add("pods", name, "ns", labels=labels)
        world.add(
            "persistentvolumeclaims",
            name,
            "ns",
            labels=labels,
            spec={"volumeName": f"pv-{name}"},
        )
        world.add("persistentvolumes", f"pv-{name}")
    world.add("namespaces", "ns", labels=MINE)
    api.say = world
    return world


def removal(api: ApiDouble, folder: Path, bound_s: float = 0.2) -> Removal:
    return Removal(connection=api.connection(folder), bound_s=bound_s)


def cascade(world: World, *, keep: tuple[str, ...] = ()) -> None:
    """The garbage collector: what a Job owns goes with it, and a volume behind its claim."""

    def deleting(plural: str, name: str) -> bool:
        for below in ("pods", "persistentvolumeclaims"):
            if below not in keep:
                world.drop(below, name)
        if "persistentvolumes" not in keep and "persistentvolumeclaims" not in keep:
            world.drop("persistentvolumes", f"pv-{name}")
        return plural not in keep

    world.deleting = deleting


def test_a_job_goes_with_all_that_is_its_own_and_nothing_else(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    cascade(world)
    assert removal(api, tmp_path).job("ns", "mine", "perf-1", "t1") == ()
    for plural in ("jobs", "pods", "persistentvolumeclaims"):
        assert world.there(plural) == ["other"]
    assert world.there("persistentvolumes") == ["pv-other"]


def test_removing_again_is_nothing(api: ApiDouble, world: World, tmp_path: Path) -> None:
    cascade(world)
    again = removal(api, tmp_path)
    assert again.job("ns", "mine", "perf-1", "t1") == ()
    before = dict(world.objects)
    assert again.job("ns", "mine", "perf-1", "t1") == ()
    assert world.objects == before


def without_change(api: ApiDouble) -> bool:
    return {asked.method for asked in api.asked} <= {"GET"}


@pytest.mark.parametrize(
    ("run", "token"), [("perf-2", "t9"), ("perf-1", "t2"), ("perf-2", ""), ("", ""), ("", "t2")]
)
def test_a_job_with_other_labels_is_kept_with_all_that_carries_its_name(
    api: ApiDouble, world: World, tmp_path: Path, run: str, token: str
) -> None:
    cascade(world)
    released(world, "pv-left", "ns", "other-0-x-volume")
    (kept,) = removal(api, tmp_path).job("ns", "other", run, token)
    assert kept == "the Job ns/other does not carry the labels of this run and was kept"
    assert "other" in world.there("jobs")
    assert without_change(api)


def test_a_job_that_lacks_the_label_of_leadline_is_kept(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    world.add("jobs", "users", "ns", labels={TOKEN: "t3", RUN: "perf-3"})
    assert "was kept" in removal(api, tmp_path).job("ns", "users", "perf-3", "t3")[0]
    assert without_change(api)


def test_a_claim_of_another_run_with_the_token_keeps_its_volume(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    """A label that a user gave, or another run's: its volume is not set to be deleted."""
    world.drop("jobs", "mine")
    claim = world.objects[("persistentvolumeclaims", "ns", "mine")]
    claim["metadata"]["labels"] = {**MINE, RUN: "perf-2"}
    volume = world.objects[("persistentvolumes", "", "pv-mine")]
    volume.setdefault("spec", {})["persistentVolumeReclaimPolicy"] = "Retain"
    removal(api, tmp_path).job("ns", "mine", "perf-1", "t1")
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert without_change(api)


@pytest.mark.parametrize(
    ("stays", "said"),
    [
        ("pods", "the namespace 'ns' still has: pod mine"),
        ("persistentvolumeclaims", "the namespace 'ns' still has: claim mine"),
        ("persistentvolumes", "volumes that are not gone: pv-mine (Slow: the driver is busy)"),
    ],
)
def test_what_does_not_go_is_reported(
    api: ApiDouble, world: World, tmp_path: Path, stays: str, said: str
) -> None:
    cascade(world, keep=(stays,))
    world.add(
        "events",
        "e",
        "default",
        involvedObject={"name": "pv-mine"},
        type="Warning",
        reason="Slow",
        message="the driver is busy",
    )
    assert removal(api, tmp_path).job("ns", "mine", "perf-1", "t1") == (said,)


def test_a_volume_is_waited_for_behind_its_claim(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    cascade(world, keep=("persistentvolumes",))
    seen: list[int] = []

    def go_on() -> None:
        seen.append(1)
        if len(seen) == 6:
            world.drop("persistentvolumes", "pv-mine")

    connection = api.connection(tmp_path)
    assert (
        Removal(connection=connection, bound_s=30, go_on=go_on).job("ns", "mine", "perf-1", "t1")
        == ()
    )
    assert len(seen) >= 6


def released(world: World, name: str, namespace: str, claim: str, phase: str = "Released") -> None:
    world.add(
        "persistentvolumes",
        name,
        spec={"claimRef": {"namespace": namespace, "name": claim}},
        status={"phase": phase},
    )


def test_volumes_that_an_interrupted_removal_left_are_waited_for(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    for plural in ("jobs", "pods", "persistentvolumeclaims"):
        world.drop(plural, "mine")
    released(world, "pv-left", "ns", "mine-0-x-volume")
    # Of another Job, of another namespace, and of a claim that is there.
    released(world, "pv-foreign", "ns", "other-0-x-volume")
    released(world, "pv-elsewhere", "elsewhere", "mine-0-x-volume")
    released(world, "pv-bound", "ns", "mine-0-y-volume", "Bound")
    left = ("volumes that are not gone: pv-left",)
    assert removal(api, tmp_path).job("ns", "mine", "perf-1", "t1") == left
    world.drop("persistentvolumes", "pv-left")
    assert removal(api, tmp_path).job("ns", "mine", "perf-1", "t1") == ()


@pytest.mark.parametrize("gone", [False, True])
def test_volumes_of_a_namespace_that_is_removed_are_waited_for(
    api: ApiDouble, world: World, tmp_path: Path, gone: bool
) -> None:
    if gone:
        world.drop("namespaces", "ns")
    world.drop("persistentvolumeclaims", "mine", "other")
    released(world, "pv-left", "ns", "leadline-0-x-volume")
    released(world, "pv-elsewhere", "elsewhere", "leadline-0-x-volume")
    released(world, "pv-users", "ns", "data")
    (problem,) = removal(api, tmp_path).namespace("ns", "perf-1", "t1")
    assert problem == "volumes that are not gone: pv-left"


@pytest.mark.parametrize(
    "denied", [(), ("get", "persistentvolumes"), ("patch", "persistentvolumes")]
)
def test_a_retained_volume_is_set_to_be_deleted(
    api: ApiDouble, world: World, tmp_path: Path, denied: tuple[str, ...]
) -> None:
    world.denied |= {(denied[0], denied[1])} if denied else set()
    cascade(world, keep=("persistentvolumes",))
    released(world, "pv-left", "ns", "mine-1")
    released(world, "pv-foreign", "ns", "other-1")
    for name in ("pv-mine", "pv-other", "pv-left", "pv-foreign"):
        volume = world.objects[("persistentvolumes", "", name)]
        volume.setdefault("spec", {})["persistentVolumeReclaimPolicy"] = "Retain"
    problems = removal(api, tmp_path).job("ns", "mine", "perf-1", "t1")
    policies = {
        name: found["spec"]["persistentVolumeReclaimPolicy"]
        for (plural, _, name), found in world.objects.items()
        if plural == "persistentvolumes"
    }
    may = "Retain" if denied == ("patch", "persistentvolumes") else "Delete"
    ours = {"pv-mine": may, "pv-left": may}
    assert policies == ours | {"pv-other": "Retain", "pv-foreign": "Retain"}
    unseen = denied == ("get", "persistentvolumes")
    assert problems == (() if unseen else ("volumes that are not gone: pv-mine, pv-left",))


def test_a_volume_that_is_made_while_its_claim_goes_is_waited_for_too(
    api: ApiDouble, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        """Goes on by an hour once it has been looked often enough."""

        sleep = staticmethod(time.sleep)

        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + (3600 if len(turns) >= 8 else 0)

    monkeypatch.setattr(client, "time", Clock)
    claim = world.objects[("persistentvolumeclaims", "ns", "mine")]
    claim["spec"] = {}
    cascade(world, keep=("persistentvolumeclaims", "persistentvolumes"))
    turns: list[int] = []

    def go_on() -> None:
        turns.append(1)
        if len(turns) == 2:
            claim["spec"] = {"volumeName": "pv-mine"}
        if len(turns) == 4:
            world.drop("persistentvolumeclaims", "mine")

    found = Removal(connection=api.connection(tmp_path), bound_s=60, go_on=go_on)
    reported = found.job("ns", "mine", "perf-1", "t1")
    assert reported == ("volumes that are not gone: pv-mine",)


def test_where_volumes_may_not_be_seen_their_claims_must_do(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    cascade(world, keep=("persistentvolumes",))
    world.denied.add(("get", "persistentvolumes"))
    assert removal(api, tmp_path).job("ns", "mine", "perf-1", "t1") == ()


def test_a_namespace_of_leadline_goes_and_its_volumes_are_waited_for(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    def deleting(plural: str, name: str) -> bool:
        world.drop("persistentvolumeclaims", "mine", "other")
        world.drop("persistentvolumes", "pv-other")
        return True

    world.deleting = deleting
    reported = removal(api, tmp_path).namespace("ns", "perf-1", "t1")
    assert reported == ("volumes that are not gone: pv-mine",)
    assert world.there("namespaces") == []


def test_a_namespace_that_is_not_ours_is_let_be(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    for run, token in (("perf-1", "t9"), ("perf-2", "t1"), ("perf-1", ""), ("", "")):
        (kept,) = removal(api, tmp_path).namespace("ns", run, token)
        assert kept == "the namespace 'ns' does not carry the labels of this run and was kept"
    assert without_change(api)
    assert removal(api, tmp_path).namespace("nowhere", "perf-1", "t1") == ()
    assert world.there("namespaces") == ["ns"]


def test_a_namespace_that_stays_says_why(api: ApiDouble, world: World, tmp_path: Path) -> None:
    world.deleting = lambda plural, name: False
    condition = {"type": "NamespaceContentRemaining", "status": "True", "message": "1 pod is left"}
    world.objects[("namespaces", "", "ns")]["status"] = {"conditions": [condition]}
    (reported,) = removal(api, tmp_path).namespace("ns", "perf-1", "t1")
    assert reported == "the namespace 'ns' still exists; it reports: 1 pod is left"


def test_another_user_may_call_it_off(api: ApiDouble, world: World, tmp_path: Path) -> None:
    cascade(world, keep=("pods",))

    def go_on() -> None:
        raise LeadlineError(errors.INTERRUPTED, "stopped")

    with pytest.raises(LeadlineError, match="stopped"):
        Removal(connection=api.connection(tmp_path), go_on=go_on).job("ns", "mine", "perf-1", "t1")


def node_condition(status: str) -> dict[str, object]:
    return {"conditions": [{"type": "Ready", "status": status}]}


def test_a_dead_node_is_waited_for_once(
    api: ApiDouble, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[float] = []

    def counted(bound_s: float, *rest: object) -> object:
        for turn in range(5):
            polls.append(bound_s)
            yield turn

    monkeypatch.setattr("leadline.connect.kubernetes.cleanup.poll", counted)
    cascade(world, keep=("pods", "persistentvolumeclaims", "persistentvolumes"))
    for name, labels in (("mine", MINE), ("other", OTHERS)):
        spec = {"nodeName": "n1", "containers": []}
        world.add("pods", name, "ns", labels=labels, spec=spec)
    world.add("nodes", "n1", status=node_condition("Unknown"))
    once = removal(api, tmp_path)
    (first,) = once.job("ns", "mine", "perf-1", "t1")
    assert "still has: pod mine" in first
    assert (len(polls), once.dead_nodes) == (5, {"n1"})
    (second,) = once.job("ns", "other", "perf-2", "t2")
    assert "still has: pod other" in second
    assert len(polls) == 6
    # What a user removed or a slow node kept is another matter.
    world.add("nodes", "n1", status=node_condition("True"))
    slow = removal(api, tmp_path)
    slow.job("ns", "mine", "perf-1", "t1")
    assert slow.dead_nodes == set()


def test_other_runs_are_those_with_pods_at_work(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    for name, run, active in (("a", "perf-1", 1), ("b", "perf-2", 2), ("c", "perf-3", 0)):
        labels = {MANAGED_BY: "leadline", RUN: run}
        world.add("jobs", name, "elsewhere", labels=labels, status={"active": active})
    with api.connection(tmp_path) as connection:
        assert other_runs(connection, "perf-1", "ns") == ("perf-2",)
        world.denied.add(("list", "jobs"))
        assert other_runs(connection, "perf-1", "ns") == ()


def test_runs_that_began_in_one_second_see_each_other(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    second = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    runs = [new_id(second, "nightly-" + "x" * 79) for _ in range(2)]
    for name, run in zip("ab", runs, strict=True):
        world.add("jobs", name, "ns", labels={**labels_of(run, name)}, status={"active": 1})
    with api.connection(tmp_path) as connection:
        for run, other in (runs, reversed(runs)):
            assert other_runs(connection, run, "ns") == (label_value(other),)
