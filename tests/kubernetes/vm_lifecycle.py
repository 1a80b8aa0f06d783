"""The lifecycle of volumes that guests use: one contract, for the double of a guest and QEMU's."""

from __future__ import annotations

import json
from typing import Any

from tests.kubernetes.driving import Leadline, nothing_left

BOOT = {"boot": {"container_disk": "registry.example/boot:1"}}
# What each volume of the lab's own provisioner goes through: no CSI driver, no snapshots.
GUEST = {"ready", "provision", "bind", "mount", "vm-start", "vm-boot", "first-io"}
REMOVAL = {"delete", "reclaim"}
WORKLOAD: dict[str, Any] = {
    "name": "life",
    "pattern": "write",
    "engine": "volume-lifecycle",
    "size": "1M",
    "clients": 2,
    # Of the plan's default workload.
    "block_size": "4k",
    "iodepth": 1,
}


def means(leadline: Leadline) -> dict[str, float]:
    """The mean time of each stage, in seconds."""
    shown = leadline("show", "--format", "json", leadline.run).json["measurements"]
    return {
        item["op"]: item["value"]
        for item in shown
        if item["metric"] == "latency_mean" and item["value"]
    }


def lines(leadline: Leadline) -> list[dict[str, Any]]:
    (path,) = leadline.run.glob("trials/*/volume-lifecycle.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def run_and_check(
    leadline: Leadline, target: str, expected: set[str], *, ready: str, bound_s: float, clients: int
) -> dict[str, float]:
    """Run a storm whose volumes are used by guests, and hold its times against each other.

    Returns the mean times of the stages.
    """
    plan = leadline.plan(
        f"one=storageclass:{target}?runner=vm&size=64Mi",
        cluster={"vm": BOOT, "ready": ready},
        workload={**WORKLOAD, "clients": clients},
    )
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan, "--format", "json", bound_s=bound_s)
    assert "error[" not in ended.err, ended.err
    assert [trial["status"] for trial in leadline.trials()] == ["completed"]
    assert "stage-failed" not in {finding["code"] for finding in ended.json["findings"]}
    found = means(leadline)
    assert found.keys() == expected, found
    # Ready is the way through all stages before, so none of them is left out or counted twice.
    parts = sum(found[stage] for stage in (GUEST - {"ready"}) | ({"attach"} & expected))
    assert 0.5 * parts < found["ready"] < 1.2 * parts + 2, found
    reports = [line for line in lines(leadline) if line["line"] == "first-io"]
    mine = [line for line in reports if line["role"] == "new"]
    assert len(mine) == clients
    assert all(line["uptime_s"] > 0 for line in mine)
    facts = [
        line["facts"] for line in lines(leadline) if line["line"] == "seen" and "facts" in line
    ]
    ran = [one for one in facts if "Running=" in one.get("transitions", "")]
    assert ran, "no instance reported when it ran"
    assert leadline("verify", "--format", "json", leadline.run).went_well().json["ok"]
    return found
