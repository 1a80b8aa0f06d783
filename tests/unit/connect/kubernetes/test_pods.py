"""Pods that come to run, and every reason why they do not, as a cluster reports it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.batch_v1 import Job

from leadline import errors
from leadline.connect.kubernetes import objects, pods
from leadline.connect.kubernetes.objects import TOKEN, RunnerGroup
from leadline.connect.kubernetes.pods import await_pods, create_job, pods_of
from leadline.errors import LeadlineError
from tests.unit.connect.kubernetes.api_double import ApiDouble, World, refusal

MINE = {TOKEN: "t1"}
INDEX = "batch.kubernetes.io/job-completion-index"
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture
def world(api: ApiDouble) -> World:
    world = World()
    api.say = world
    return world


def add_pod(world: World, index: int, status: dict[str, Any]) -> None:
    metadata = {"annotations": {INDEX: str(index)}}
    world.add("pods", f"job-{index}", "ns", labels=MINE, metadata=metadata, status=status)


def container(**state: object) -> dict[str, Any]:
    ready = "running" in state
    return {
        "name": "runner",
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def runs() -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [container(running={})]}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    waiting = {"reason": reason, "message": message}
    return {"phase": "Pending", "containerStatuses": [container(waiting=waiting)]}


def unscheduled(message: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"phase": "Pending", "conditions": [condition]}


def add_event(world: World, of: str, reason: str, message: str, kind: str = "Warning") -> None:
    world.add(
        "events",
        f"{of}-{reason}",
        "ns",
        involvedObject={"name": of},
        type=kind,
        reason=reason,
        message=message,
    )


def awaited(
    api: ApiDouble,
    folder: Path,
    count: int = 1,
    *,
    bound_s: float = 0.3,
    go_on: Callable[[], None] = lambda: None,
) -> list[str]:
    with api.connection(folder) as connection:
        group = RunnerGroup(
            connection=connection,
            namespace="ns",
            token="t1",
            count=count,
            bound_s=bound_s,
            go_on=go_on,
        )
        found = await_pods(group, "job")
    return [str(item.metadata.name) for item in found if item.metadata]


def raised(api: ApiDouble, folder: Path, count: int = 1, **more: Any) -> LeadlineError:
    with pytest.raises(LeadlineError) as caught:
        awaited(api, folder, count, **more)
    return caught.value


def reported(error: LeadlineError) -> str:
    return "\n".join([error.fact, *error.context, error.hint or ""])


def test_pods_that_run_are_given_in_the_order_of_their_index(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    for index in (10, 2, 1, 0):
        add_pod(world, index, runs())
    world.add("pods", "foreign", "ns", labels={TOKEN: "t2"}, status=runs())
    assert awaited(api, tmp_path, 4) == ["job-0", "job-1", "job-2", "job-10"]


def test_all_of_them_are_waited_for(api: ApiDouble, world: World, tmp_path: Path) -> None:
    add_pod(world, 0, runs())
    turns: list[int] = []

    def go_on() -> None:
        turns.append(1)
        if len(turns) == 3:
            add_pod(world, 1, waits("ContainerCreating"))
        if len(turns) == 5:
            add_pod(world, 1, runs())

    assert awaited(api, tmp_path, 2, bound_s=30, go_on=go_on) == ["job-0", "job-1"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (waits("ImagePullBackOff", "no such image"), "gets no image 'i': no such image"),
        (waits("CreateContainerError", "broken"), "cannot be started: broken"),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            "Evicted, low on memory",
        ),
    ],
)
def test_what_does_not_heal_is_reported_at_once_with_its_events(
    api: ApiDouble, world: World, tmp_path: Path, status: dict[str, Any], said: str
) -> None:
    add_pod(world, 0, runs())
    add_pod(world, 1, status)
    add_event(world, "job-1", "Failed", "in the kubelet's words")
    error = raised(api, tmp_path, 2, bound_s=600)
    assert error.kind is errors.RUNNER_FAILED
    assert said in error.fact
    assert "'job-1'" in error.fact
    assert "Failed: in the kubelet's words" in error.context


def test_a_pod_without_a_node_is_given_up_before_the_bound(
    api: ApiDouble, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "UNSCHEDULABLE_S", 0.1)
    add_pod(world, 0, unscheduled(NO_CPU))
    error = raised(api, tmp_path, bound_s=600)
    assert NO_CPU in error.fact


@pytest.mark.parametrize("reason", ["TriggeredScaleUp", "Nominated"])
def test_a_pod_for_which_a_node_is_made_is_waited_for(
    api: ApiDouble, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(pods, "UNSCHEDULABLE_S", 0.0)
    add_pod(world, 0, unscheduled(NO_CPU))
    add_event(world, "job-0", reason, "pod triggered scale-up", "Normal")
    turns: list[int] = []

    def go_on() -> None:
        turns.append(1)
        if len(turns) == 6:
            add_pod(world, 0, runs())

    assert awaited(api, tmp_path, bound_s=30, go_on=go_on) == ["job-0"]


def add_unbound(world: World) -> None:
    """A pod of a class that binds at once, and its claim without a volume."""
    message = "pod has unbound immediate PersistentVolumeClaims"
    add_pod(world, 0, unscheduled(f"0/1 nodes are available: {message}."))
    status = {"phase": "Pending"}
    world.add("persistentvolumeclaims", "job-0-volume", "ns", labels=MINE, status=status)


def test_a_class_that_binds_at_once_may_be_late(
    api: ApiDouble, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "UNSCHEDULABLE_S", 0.0)
    monkeypatch.setattr(objects, "PROVISIONING_FAILURE_S", 0.0)
    add_unbound(world)
    at_work = "rpc error: code = DeadlineExceeded desc = still cloning"
    add_event(world, "job-0-volume", "ProvisioningFailed", at_work)
    add_event(world, "of-another-user", "ProvisioningFailed", "rpc error: code = Internal")
    turns: list[int] = []

    def go_on() -> None:
        turns.append(1)
        if len(turns) == 4:
            add_pod(world, 0, runs())

    assert awaited(api, tmp_path, bound_s=30, go_on=go_on) == ["job-0"]


@pytest.mark.parametrize(
    ("message", "grace_s"),
    [
        ("rpc error: code = InvalidArgument desc = no pool 'x'", 600.0),
        ("failed to provision volume: the disk is full", 0.0),
    ],
)
def test_a_failure_of_the_provisioner_is_reported_before_the_bound(
    api: ApiDouble,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message: str,
    grace_s: float,
) -> None:
    monkeypatch.setattr(objects, "PROVISIONING_FAILURE_S", grace_s)
    add_unbound(world)
    add_event(world, "job-0-volume", "ProvisioningFailed", message)
    error = raised(api, tmp_path, bound_s=600)
    assert error.kind is errors.VOLUME_PENDING
    assert "'job-0-volume' gets no volume" in error.fact
    assert f"ProvisioningFailed: {message}" in error.context


def test_a_volume_that_stays_pending_is_reported_with_its_events(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    add_unbound(world)
    add_event(world, "job-0-volume", "ProvisioningFailed", "rpc error: pool is full")
    error = raised(api, tmp_path)
    assert error.kind is errors.VOLUME_PENDING
    assert "'job-0-volume' is still pending" in error.fact
    assert "ProvisioningFailed: rpc error: pool is full" in error.context


def test_a_volume_of_which_no_user_says_anything(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    add_pod(world, 0, {"phase": "Pending"})
    world.add("persistentvolumeclaims", "v", "ns", labels=MINE, status={"phase": "Pending"})
    world.denied.add(("list", "events"))
    error = raised(api, tmp_path)
    assert error.kind is errors.VOLUME_PENDING
    assert "provisioner may not be running" in reported(error)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('pods "x" is forbidden: exceeded quota: q, requested: pods=1', "quota-exceeded"),
        ('pods "x" is forbidden: violates PodSecurity "restricted"', "kubernetes-failed"),
        ('admission webhook "w" denied the request: no', "kubernetes-failed"),
    ],
)
def test_a_pod_that_is_not_admitted_is_reported_at_once(
    api: ApiDouble, world: World, tmp_path: Path, message: str, kind: str
) -> None:
    add_event(world, "job", "FailedCreate", f"Error creating: {message}")
    error = raised(api, tmp_path, bound_s=600)
    assert error.kind.code == kind
    assert message in reported(error)


def test_a_webhook_that_does_not_answer_may_come_back(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    add_event(world, "job", "FailedCreate", 'failed calling webhook "w": connection refused')
    turns: list[int] = []

    def go_on() -> None:
        turns.append(1)
        if len(turns) == 4:
            add_pod(world, 0, runs())

    assert awaited(api, tmp_path, bound_s=30, go_on=go_on) == ["job-0"]


def test_pods_that_never_come_are_reported_in_the_end(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    error = raised(api, tmp_path)
    assert error.kind is errors.RUNNER_FAILED
    assert "do not run after 0.3 s" in error.fact
    assert "kubectl -n ns describe" in reported(error)


def test_another_user_may_stop_the_wait(api: ApiDouble, world: World, tmp_path: Path) -> None:
    def go_on() -> None:
        raise LeadlineError(errors.INTERRUPTED, "stopped")

    assert raised(api, tmp_path, bound_s=600, go_on=go_on).kind is errors.INTERRUPTED


def job() -> Job:
    return Job(metadata=ObjectMeta(name="job", namespace="ns"))


def test_a_job_that_was_made_by_a_request_whose_answer_was_lost_is_ours(
    api: ApiDouble, world: World, tmp_path: Path
) -> None:
    with api.connection(tmp_path) as connection:
        create_job(connection, job(), "ns")
        create_job(connection, job(), "ns")
    assert world.there("jobs") == ["job"]


def test_a_namespace_that_is_not_there_is_reported(api: ApiDouble, tmp_path: Path) -> None:
    api.say = lambda asked: refusal(404, 'namespaces "ns" not found')
    with api.connection(tmp_path) as connection, pytest.raises(LeadlineError) as caught:
        create_job(connection, job(), "ns")
    assert caught.value.kind is errors.TARGET_INVALID
    assert "no namespace 'ns'" in caught.value.fact


def test_pods_without_an_index_are_listed_too(api: ApiDouble, world: World, tmp_path: Path) -> None:
    world.add("pods", "p", "ns", labels=MINE)
    with api.connection(tmp_path) as connection:
        assert len(pods_of(connection, "ns", "t1")) == 1
