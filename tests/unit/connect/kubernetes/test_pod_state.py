"""Pods as kubelets and schedulers describe them."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube.resources.core_v1 import Event, Pod

from leadline.connect.kubernetes.objects import format_events
from leadline.connect.kubernetes.pods import find_loss, find_problem, is_running, states_reason
from leadline.errors import RUNNER_FAILED


def pod(status: dict[str, Any] | None = None, **metadata: object) -> Pod:
    document = {"metadata": {"name": "p", **metadata}, "status": status or {}}
    return Pod.from_dict(document)


def container(**state: object) -> dict[str, Any]:
    return {
        "name": "runner",
        "image": "registry.example/runner:1",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }


def failed(reason: str, message: str, **state: object) -> dict[str, Any]:
    statuses = [container(**state)] if state else []
    return {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": statuses}


OOM = {"reason": "OOMKilled", "exitCode": 137}
RUNNING = {"phase": "Running", "containerStatuses": [container(running={})]}


@pytest.mark.parametrize(
    ("status", "fact", "hint"),
    [
        (failed("", "", terminated=OOM), "OOMKilled, exit status 137", "more memory"),
        # The container is gone before the pod's phase says so.
        (
            {"phase": "Running", "containerStatuses": [container(terminated=OOM)]},
            "OOMKilled, exit status 137",
            "more memory",
        ),
        (
            failed("Evicted", "The node was low on resource: ephemeral-storage."),
            "Evicted, The node was low on resource: ephemeral-storage.",
            "the node lacks something",
        ),
        (
            failed("DeadlineExceeded", "Pod was active on the node longer than the deadline"),
            "DeadlineExceeded",
            "took much longer",
        ),
        (failed("NodeShutdown", "Pod was terminated"), "NodeShutdown", "look at the node"),
        (
            failed("", "", terminated={"reason": "Error", "exitCode": 7}),
            "Error, exit status 7",
            "pod's node and image",
        ),
        ({"phase": "Succeeded", "containerStatuses": []}, "Succeeded", "pod's node"),
    ],
)
def test_a_pod_that_ended_is_reported_with_its_reason(
    status: dict[str, Any], fact: str, hint: str
) -> None:
    found = find_loss(pod(status))
    assert found is not None
    assert found.kind is RUNNER_FAILED
    assert found.final
    assert found.fact == f"the pod 'p' ended: {found.fact.partition('ended: ')[2]}"
    assert fact in found.fact
    assert hint in found.hint
    assert not is_running(pod(status))
    assert vars(find_problem(pod(status))) == vars(found)


def test_a_pod_that_runs_but_is_being_deleted_is_lost() -> None:
    deleted = pod(RUNNING, deletionTimestamp="2026-11-21T19:00:00Z")
    found = find_loss(deleted)
    assert found is not None
    assert "is being deleted" in found.fact
    assert not is_running(deleted)


@pytest.mark.parametrize(
    ("reason", "final"),
    [
        ("ErrImagePull", False),
        ("ImagePullBackOff", True),
        ("InvalidImageName", True),
        ("ErrImageNeverPull", True),
    ],
)
def test_an_image_that_does_not_come(reason: str, final: bool) -> None:
    waiting = {"reason": reason, "message": "not found"}
    found = find_problem(
        pod({"phase": "Pending", "containerStatuses": [container(waiting=waiting)]})
    )
    assert found is not None
    assert found.final is final
    assert "gets no image 'registry.example/runner:1': not found" in found.fact
    assert "--runner-image" in found.hint


def test_a_container_that_cannot_be_made() -> None:
    message = "container has runAsNonRoot and image will run as root"
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    found = find_problem(
        pod({"phase": "Pending", "containerStatuses": [container(waiting=waiting)]})
    )
    assert found is not None
    assert found.final
    assert message in found.fact


def unscheduled(message: str, reason: str = "Unschedulable") -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod({"phase": "Pending", "conditions": [condition]})


def test_a_pod_that_finds_no_node_may_still_find_one() -> None:
    found = find_problem(unscheduled("0/3 nodes are available: 3 Insufficient cpu."))
    assert found is not None
    assert found.unschedulable
    assert not found.final
    assert "3 Insufficient cpu" in found.fact
    assert "--runner-cpu" in found.hint
    gated = find_problem(unscheduled("Scheduling is blocked due to gates", "SchedulingGated"))
    assert gated is not None
    assert not gated.unschedulable


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Pending"},
        {
            "phase": "Pending",
            "containerStatuses": [container(waiting={"reason": "ContainerCreating"})],
        },
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    ],
)
def test_a_pod_of_which_nothing_is_known_yet_has_no_trouble(status: dict[str, Any]) -> None:
    assert find_problem(pod(status)) is None
    assert not is_running(pod(status))


def test_a_pod_that_runs() -> None:
    assert is_running(pod(RUNNING))
    assert find_problem(pod(RUNNING)) is None


def test_a_pod_that_is_phase_running_without_its_container_does_not_run() -> None:
    assert not is_running(pod({"phase": "Running", "containerStatuses": [container(waiting={})]}))
    assert not is_running(pod({"phase": "Running"}))


def event(kind: str, reason: str, message: str, at: str | None) -> Event:
    return Event.from_dict(
        {
            "metadata": {"name": reason.lower()},
            "involvedObject": {},
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": at,
        }
    )


def test_events_are_reported_the_warnings_and_the_latest_first_and_each_once() -> None:
    events = [
        event("Normal", "Scheduled", "to n1", "2026-11-21T19:00:09Z"),
        event("Warning", "Early", "one", "2026-11-21T19:00:01Z"),
        event("Warning", "Late", "two", "2026-11-21T19:00:05Z"),
        event("Warning", "Late", "two", "2026-11-21T19:00:04Z"),
        event("Warning", "Never", "three", None),
    ]
    assert format_events(events) == ["Late: two", "Early: one", "Never: three", "Scheduled: to n1"]
    assert format_events(events, 1) == ["Late: two"]
    assert format_events([]) == []


def test_a_pod_whose_containers_ended_first_has_not_said_why() -> None:
    containers = [container(terminated={"exitCode": 0, "reason": "Completed"})]
    silent = pod({"phase": "Running", "containerStatuses": containers})
    assert find_loss(silent) is not None
    assert not states_reason(silent)
    assert states_reason(pod(failed("Evicted", "Usage of EmptyDir volume exceeds the limit")))
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": "Usage of EmptyDir volume exceeds the limit",
    }
    disrupted = pod({"phase": "Failed", "containerStatuses": containers, "conditions": [target]})
    assert states_reason(disrupted)
    problem = find_loss(disrupted)
    assert problem is not None
    assert "EmptyDir" in problem.fact
