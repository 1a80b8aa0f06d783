"""What KubeVirt says of a virtual machine, in a user's words."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.connect.kubernetes.machines import (
    conditions_told,
    import_trouble,
    lost,
    machine_trouble,
    running,
    waiting,
    whereabouts,
)


def _instance(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "vm-0", "uid": "u1"},
        "status": {"phase": "Running", "nodeName": "n1"} | status,
    }


def _condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_one_that_runs_where_it_was_is_no_trouble() -> None:
    found = _instance(conditions=[_condition("Ready", "True")])
    assert running(found)
    assert lost(found, whereabouts(found)) is None


@pytest.mark.parametrize(
    ("found", "says", "hint"),
    [
        (_instance(phase="Failed", reason="Evicted"), "ended: Failed, Evicted", "resume"),
        (_instance(phase="Succeeded"), "ended: Succeeded", "resume"),
        (
            _instance(conditions=[_condition("Paused", "True", "PausedIOError", "low space")]),
            "is paused: low space",
            "health of the volume",
        ),
        (
            _instance(conditions=[_condition("Paused", "True", "PausedByUser", "by a user")]),
            "is paused: by a user",
            "virtctl unpause",
        ),
        (_instance(nodeName="n2"), "moved from the node 'n1' to 'n2'", "live migrations"),
        (
            _instance(migrationState={"targetNode": "n3", "completed": False}),
            "being moved to the node 'n3'",
            "live migrations",
        ),
        (
            {"metadata": {"name": "vm-0", "uid": "u2"}, "status": {"nodeName": "n1"}},
            "replaced by another",
            "resume",
        ),
        (
            {
                "metadata": {
                    "name": "vm-0",
                    "uid": "u1",
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                }
            },
            "is being deleted",
            "drained",
        ),
    ],
)
def test_one_that_is_lost_is_told(found: dict[str, Any], says: str, hint: str) -> None:
    trouble = lost(found, whereabouts(_instance()))
    assert trouble is not None
    assert trouble.final
    assert says in trouble.fact
    assert hint in trouble.hint


def test_a_migration_that_ended_before_is_no_trouble() -> None:
    found = _instance(migrationState={"targetNode": "n1", "completed": True})
    assert lost(found, whereabouts(found)) is None


@pytest.mark.parametrize(
    ("status", "final"),
    [("CrashLoopBackOff", True), ("DataVolumeError", True), ("ErrImagePull", False)],
)
def test_what_a_machine_says_of_itself(status: str, final: bool) -> None:
    trouble = machine_trouble({"metadata": {"name": "vm"}, "status": {"printableStatus": status}})
    assert trouble is not None
    assert trouble.final is final
    starting = {"metadata": {"name": "vm"}, "status": {"printableStatus": "Starting"}}
    assert machine_trouble(starting) is None


def test_why_an_instance_waits() -> None:
    unschedulable = _condition("PodScheduled", "False", "Unschedulable", "0/3 nodes: no \x1b[m cpu")
    trouble = waiting(_instance(phase="Scheduling", conditions=[unschedulable]))
    assert trouble is not None
    assert not trouble.final
    assert "0/3 nodes: no \\x1b[m cpu" in trouble.fact
    assert waiting(_instance(conditions=[_condition("PodScheduled", "True")])) is None


def test_an_import_that_fails_is_told() -> None:
    says = "Unable to connect to http data source: expected status code 200, got 404"
    volume: dict[str, Any] = {
        "metadata": {"name": "boot"},
        "status": {
            "phase": "ImportInProgress",
            "conditions": [_condition("Running", "False", "Error", says)],
        },
    }
    trouble = import_trouble(volume)
    assert trouble is not None
    assert says in trouble.fact
    assert not trouble.final
    volume["status"]["phase"] = "Failed"
    assert (import_trouble(volume) or trouble).final is True
    volume["status"]["phase"] = "Succeeded"
    assert import_trouble(volume) is None


def test_an_object_without_status_says_nothing() -> None:
    assert conditions_told({"metadata": {"name": "vm"}}) == []
    assert machine_trouble({"metadata": {"name": "vm"}}) is None
    assert not running({"metadata": {"name": "vm"}})
