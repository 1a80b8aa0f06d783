"""The lifecycle of volumes on a real CSI driver and on local-path-provisioner."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import csi_driver
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.driving import Ended, Leadline, nothing_left, ours, volumes

EVERY = {
    *("ready", "provision", "bind", "attach", "mount", "first-io", "expand", "snapshot"),
    *("restore", "clone", "delete", "reclaim"),
}
# local-path-provisioner is no CSI driver, and does not expand.
PLAIN = {"ready", "provision", "bind", "mount", "first-io", "delete", "reclaim"}
WORKLOAD: dict[str, Any] = {
    "name": "life",
    "pattern": "write",
    "engine": "volume-lifecycle",
    "size": "1M",
    "clients": 3,
    # Of the plan's default workload.
    "block_size": "4k",
    "iodepth": 1,
}


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Cluster]:
    with csi_driver.running(cluster):
        yield cluster


@pytest.fixture
def leadline(driver: Cluster, tmp_path: Path) -> Leadline:
    return Leadline(cluster=driver, folder=tmp_path)


def plan(leadline: Leadline, *targets: str, **more: Any) -> Path:
    workload = {**WORKLOAD, **more.pop("workload", {})}
    small = {"cpu": "100m", "memory": "64Mi", **more.pop("cluster", {})}
    return leadline.plan(*targets, workload=workload, cluster=small, **more)


def stages(leadline: Leadline, target: str) -> dict[str, float]:
    """Zero where two watches reported in the other order: less than they resolve."""
    shown = leadline("show", "--format", "json", leadline.run).json["measurements"]
    return {
        item["op"]: item["value"]
        for item in shown
        if item["target"] == target
        and item["metric"] == "latency_mean"
        and item["value"] is not None
    }


def codes(ended: Ended) -> set[str]:
    return {finding["code"] for finding in ended.json["findings"]}


@pytest.mark.parametrize(
    "targets",
    [
        ("a=storageclass:csi?size=32Mi", "b=storageclass:fast?size=32Mi"),
        ("a=storageclass:csi?size=32Mi&mode=block",),
    ],
    ids=["two classes", "raw block"],
)
def test_every_stage_of_a_csi_driver_has_its_time(
    leadline: Leadline, targets: tuple[str, ...]
) -> None:
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan(leadline, *targets), "--format", "json", bound_s=400)
    assert "error[" not in ended.err, ended.err
    assert {trial["status"] for trial in leadline.trials()} == {"completed"}
    assert "stage-failed" not in codes(ended)
    assert stages(leadline, "a").keys() == EVERY
    if len(targets) > 1:
        assert stages(leadline, "b").keys() == PLAIN
        reasons = [item for item in ended.json["findings"] if item["code"] == "stage-unsupported"]
        assert {item["target"] for item in reasons} == {"b"}
    assert leadline("verify", "--format", "json", leadline.run).went_well().json["ok"]


def test_what_is_retained_goes_as_well(leadline: Leadline) -> None:
    target = "a=storageclass:csi-kept?size=32Mi&snapshot_class=csi-kept"
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan(leadline, target), "--format", "json", bound_s=400)
    assert "error[" not in ended.err, ended.err
    assert stages(leadline, "a").keys() == EVERY - {"expand"}


def test_a_snapshot_class_that_is_missing_is_refused_before_anything(leadline: Leadline) -> None:
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan(leadline, "a=storageclass:csi?snapshot_class=cso"))
    ended.failed("class-unsuitable", 3)
    assert "snapshot_class=csi?" in ended.err


def test_a_volume_that_is_never_provisioned_is_named_and_bounded(leadline: Leadline) -> None:
    short = {"ready": "8s"}
    with nothing_left(leadline.cluster):
        ended = leadline("run", plan(leadline, "a=storageclass:stuck?size=32Mi", cluster=short))
    assert ended.status == 4, ended.err
    (trial,) = leadline.trials()
    assert trial["problem"]["code"] == "volume-pending"
    assert any("claim is Pending" in line for line in trial["problem"]["context"])


def test_a_finalizer_that_holds_a_volume_is_named(leadline: Leadline) -> None:
    cluster, held = leadline.cluster, "leadline-lab/held"
    target, short = "a=storageclass:csi?size=32Mi", {"ready": "40s"}
    going = leadline.start("run", plan(leadline, target, cluster=short))
    path = "/api/v1/persistentvolumeclaims?labelSelector=app.kubernetes.io/managed-by%3Dleadline"
    going.until("a claim", lambda: _bound(cluster, path), 120)
    claim = _bound(cluster, path)[0]["metadata"]
    link = f"/api/v1/namespaces/{claim['namespace']}/persistentvolumeclaims/{claim['name']}"
    kind = "application/merge-patch+json"
    finalizers = [*claim["finalizers"], held]
    cluster.request(link, "PATCH", {"metadata": {"finalizers": finalizers}}, kind=kind)
    ended = going.ended(300)
    assert held in ended.err or held in json.dumps(leadline.trials()), ended.err
    assert "left-behind" in ended.err or "still" in ended.err, ended.err
    cluster.request(link, "PATCH", {"metadata": {"finalizers": None}}, kind=kind)
    leadline("clean", "--run", leadline.run).went_well()
    assert ours(cluster) == []


def _bound(cluster: Cluster, path: str) -> list[dict[str, Any]]:
    items = cluster.request(path)["items"]
    return [item for item in items if item["status"].get("phase") == "Bound"]


@pytest.mark.parametrize("kept", [False, True], ids=["deleted", "retained"])
def test_killed_in_a_storm_clean_leaves_nothing(leadline: Leadline, kept: bool) -> None:
    cluster = leadline.cluster
    target = "a=storageclass:csi?size=32Mi"
    if kept:
        target = "a=storageclass:csi-kept?size=32Mi&snapshot_class=csi-kept"
    with nothing_left(cluster):
        going = leadline.start("run", plan(leadline, target))
        path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
        going.until("a snapshot", lambda: cluster.request(path)["items"], 180)
        going.signal(signal.SIGKILL)
        going.ended()
        for volume in volumes(cluster) if kept else ():
            # As it is between the binding of a volume and the change of its policy.
            _set_policy(cluster, volume["metadata"]["name"], "Retain")
        leadline("clean", "--run", leadline.run).went_well()


def _set_policy(cluster: Cluster, volume: str, policy: str) -> None:
    spec = {"spec": {"persistentVolumeReclaimPolicy": policy}}
    kind = "application/merge-patch+json"
    cluster.request(f"/api/v1/persistentvolumes/{volume}", "PATCH", spec, kind=kind)


@pytest.mark.deep
def test_two_classes_are_compared_with_verdicts(leadline: Leadline) -> None:
    """local-path-provisioner starts a pod for each volume that it makes or removes."""
    both = ("a=storageclass:csi?size=32Mi", "b=storageclass:fast?size=32Mi")
    run = leadline("run", plan(leadline, *both, repeats=4), bound_s=1200)
    assert "error[" not in run.err, run.err
    compared = leadline(
        *("compare", "a", "b", "--by", "target", "--run", leadline.run, "--format", "json")
    ).json["cells"]
    verdicts = {
        cell["op"]: cell["verdict"] for cell in compared if cell["metric"] == "latency_mean"
    }
    assert verdicts["reclaim"] == "worse"
    # On a busy machine a round trip of the API takes as long as the driver needs for a volume, and
    # the audit refuses that duration (below-resolution).
    assert verdicts["provision"] in ("worse", "not comparable")
    assert verdicts["ready"] in ("worse", "inconclusive")
