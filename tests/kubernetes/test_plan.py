"""`leadline plan --from-cluster` on a real API server: what it finds there, as whom, and that the
plan it writes is one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from leadline.report.answers.systems import PlanOutput
from tests.conftest import ROOT, Said
from tests.kubernetes import classes, images
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.objects import binding, rights

Manifest = dict[str, Any]
Plan = Callable[..., Said]
STORAGE = "/apis/storage.k8s.io/v1"
SPACE = "plan-quota"


def storage_class(name: str, provisioner: str, **fields: Any) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        **fields,
    }


@pytest.fixture(scope="module")
def odd(api_server: Cluster) -> Iterator[Cluster]:
    """Classes of every kind that cannot be measured, or not so, next to those of the lab."""
    made = [
        storage_class("odd-hand", "kubernetes.io/no-provisioner"),
        storage_class("odd-tree", "kubernetes.io/gce-pd"),
        storage_class("odd-noobaa", "openshift-storage.noobaa.io/obc"),
        storage_class("odd-bucket", "rook-ceph.ceph.rook.io/bucket"),
        storage_class("odd-absent", "absent.csi.example.com"),
        storage_class("odd-full", "driver.example.com"),
        storage_class("odd-kept", "leadline-lab/kept", reclaimPolicy="Retain"),
    ]
    for item in made:
        api_server.apply(item)
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "driver.example.com"},
        "spec": {"storageCapacity": True},
    }
    api_server.apply(driver)
    fake = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plan-node"}}
    api_server.apply(fake)
    # A node without a kubelet is no place for pods; a whole cluster's controllers say so again.
    merge = "application/merge-patch+json"
    at = "/api/v1/nodes/plan-node"
    api_server.request(at, "PATCH", {"spec": {"taints": None}}, kind=merge)
    room = {"allocatable": {"cpu": "64", "memory": "64Gi"}}
    api_server.request(f"{at}/status", "PATCH", {"status": room}, kind=merge)
    node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "plan-node"},
        "spec": {"drivers": [{"name": "driver.example.com", "nodeID": "plan-node"}]},
    }
    api_server.apply(node)
    capacity = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "odd-full", "namespace": "default"},
        "storageClassName": "odd-full",
        "capacity": "500Mi",
    }
    api_server.apply(capacity)
    yield api_server
    for item in made:
        api_server.request(f"{STORAGE}/storageclasses/{item['metadata']['name']}", "DELETE")
    api_server.request(f"{STORAGE}/csidrivers/driver.example.com", "DELETE")
    api_server.request(f"{STORAGE}/csinodes/plan-node", "DELETE")
    api_server.request("/api/v1/nodes/plan-node", "DELETE")
    api_server.request(f"{STORAGE}/namespaces/default/csistoragecapacities/odd-full", "DELETE")


@pytest.fixture
def plan(api_server: Cluster, leadline: Callable[..., Said]) -> Plan:
    def call(*arguments: object, user: str = "admin") -> Said:
        where = ("--from-cluster", "--kubeconfig", api_server.kubeconfig(user))
        return leadline("plan", *where, *arguments)

    return call


def answer(said: Said) -> Manifest:
    assert said.status == 0, said.err
    told: Manifest = json.loads(said.out)
    jsonschema.validate(told, PlanOutput.model_json_schema(by_alias=True))
    return told


def reasons(told: Manifest) -> dict[str, str]:
    return {item["name"]: item["reason"] for item in told["left_out"]}


@pytest.mark.usefixtures("odd")
def test_what_cannot_be_measured_is_left_out_with_the_reason(plan: Plan) -> None:
    said = plan("--format", "json")
    told = answer(said)
    left = reasons(told)
    for name, words in {
        "odd-hand": "its volumes are made by hand",
        "odd-tree": "pd.csi.storage.gke.io",
        "odd-noobaa": "object buckets",
        "odd-bucket": "object buckets",
        "slow": "differs from 'fast' only by name",
    }.items():
        assert words in left[name]
        assert f"left out: {name}: {left[name]}" in said.err
        assert f"#   {name}: {left[name]}" in told["plan"]
    assert not {target["storage_class"] for target in told["targets"]} & left.keys()
    fast = next(target for target in told["targets"] if target["name"] == "fast")
    assert fast["mode"] == "filesystem"
    assert "the default class" in fast["why"]


@pytest.mark.usefixtures("odd")
def test_a_driver_is_looked_for_on_the_nodes_and_its_capacity_believed(plan: Plan) -> None:
    said = plan("--class", "odd-absent", "--class", "odd-full", "--volumes", "1Gi")
    assert said.status == 3
    assert "error[class-unsuitable]" in said.err
    assert "odd-full: its driver publishes capacity for a volume of 500 MiB at most" in said.err
    assert "odd-absent: no node has its CSI driver absent.csi.example.com registered" in said.err


def test_the_plan_is_one_and_is_never_written_over(
    plan: Plan, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    path = tmp_path / "plan.yaml"
    asked = ("--class", "fast", "--class", "block", "--runtime", "1s", "-o", path)
    first = plan(*asked)
    assert first.status == 0, first.err
    assert first.out == ""
    text = path.read_text()
    assert "context: lab  #" in text
    checked = leadline("check", path)
    assert checked.status == 0, checked.err
    assert {line.split()[0] for line in checked.out.splitlines()[2:10]} == {"fast", "block"}
    again = plan(*asked)
    assert again.status == 2
    assert "error[output-unwritable]" in again.err
    assert "--force" in again.err
    path.write_text("mine")
    assert plan(*asked).status == 2
    assert path.read_text() == "mine"
    assert plan(*asked, "--force").status == 0
    assert path.read_text() == text, "the same cluster gives the same plan"


@pytest.mark.usefixtures("cluster")
def test_the_plan_can_be_run(plan: Plan, leadline: Callable[..., Said], tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    small = ("--runtime", "1s", "--ramp", "0", "--size", "16M", "--volumes", "1Gi")
    runner = ("--runner-image", images.RUNNER, "--runner-cpu", "400m", "--runner-memory", "256Mi")
    made = plan("--class", "block", *small, *runner, "--repeats", "1", "-o", path)
    assert made.status == 0, made.err
    ran = leadline("run", path, "--quiet", "--format", "json")
    assert ran.status in (0, 1), ran.err  # the audit may doubt so short a run
    told = json.loads(ran.out)
    assert (told["status"], told["trials"]) == ("complete", 4)
    assert leadline("verify", "@latest").status == 0


def test_virtual_machines_without_kubevirt_are_refused(plan: Plan) -> None:
    said = plan("--study", "--vm-image", "registry.example/containerdisks/debian:12")
    assert said.status == 3
    assert "block: virtual machines were requested, and the cluster has no KubeVirt" in said.err


def test_the_study_is_planned_where_kubevirt_is(
    api_server: Cluster, plan: Plan, leadline: Callable[..., Said], tmp_path: Path
) -> None:
    kubevirt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "default"},
        "spec": {},
    }
    path = tmp_path / "study.yaml"
    api_server.apply(kubevirt)
    try:
        asked = ("--study", "--vm", "small", "--count", "1", "--class", "block", "-o", path)
        image = "registry.example/containerdisks/debian:12"
        said = plan(*asked, "--vm-image", image, "--format", "json")
    finally:
        at = "/apis/kubevirt.io/v1/namespaces/default/kubevirts/kubevirt"
        api_server.request(at, "DELETE")
    told = answer(said)
    names = [target["name"] for target in told["targets"]] + list(reasons(told))
    assert names == ["block-small-150gi-x1", "block-small-500gi-x1", "block-small-1000gi-x1"]
    first = told["targets"][0]
    assert first["target"] == "storageclass:block?size=150Gi&runner=vm&vm=small"
    assert leadline("check", path).status == 0


@pytest.fixture
def quota(api_server: Cluster) -> Iterator[None]:
    api_server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    hard = {"requests.storage": "12Gi"}
    api_server.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": SPACE},
            "spec": {"hard": hard},
        }
    )
    at = f"/api/v1/namespaces/{SPACE}/resourcequotas/team"
    # What the quota controller does, which only a whole cluster has.
    body = {"status": {"hard": hard, "used": {"requests.storage": "1Gi"}}}
    api_server.request(f"{at}/status", "PATCH", body, kind="application/merge-patch+json")
    yield
    api_server.request(at, "DELETE")
    api_server.request(f"/api/v1/namespaces/{SPACE}", "DELETE")


@pytest.mark.usefixtures("quota")
def test_the_quota_of_the_namespace_bounds_the_volumes(plan: Plan) -> None:
    told = answer(plan("--class", "block", "--namespace", SPACE, "--format", "json"))
    assert [target["size_bytes"] >> 30 for target in told["targets"]] == [10]
    assert "namespace: plan-quota" in told["plan"]
    refused = plan("--class", "block", "--namespace", SPACE, "--volumes", "13Gi")
    assert refused.status == 3
    assert "of requests.storage next to the other targets; 13 GiB are needed" in refused.err


@pytest.fixture
def inventory_role(api_server: Cluster) -> Iterator[None]:
    """The user `viewer` may read what the shipped role lets it read, but for capacities."""
    text = (ROOT / "deploy" / "rbac" / "inventory.yaml").read_text()
    role = next(item for item in yaml.safe_load_all(text) if item["kind"] == "ClusterRole")
    name = role["metadata"]["name"] = "plan-inventory"
    for rule in role["rules"]:
        rule["resources"] = [each for each in rule["resources"] if each != "csistoragecapacities"]
    role["rules"] = [rule for rule in role["rules"] if rule["resources"]]
    api_server.apply(role)
    api_server.apply(binding(name, name, "viewer"))
    rights(api_server, "viewer", role["rules"], "default")
    yield
    for plural in ("clusterrolebindings", "clusterroles"):
        api_server.request(f"/apis/rbac.authorization.k8s.io/v1/{plural}/{name}", "DELETE")


@pytest.mark.usefixtures("odd", "inventory_role")
def test_a_reader_gets_a_plan_and_is_reported_what_was_not_seen(plan: Plan) -> None:
    said = plan("--format", "json", user="viewer")
    told = answer(said)
    assert "odd-kept" in reasons(told), "this user may not change what becomes of volumes"
    assert "may not patch persistentvolumes" in reasons(told)["odd-kept"]
    (note,) = told["notes"]
    assert note.startswith("published capacities; this user may not list csistoragecapacities")
    assert f"# Not seen: {note}" in told["plan"]


def test_without_the_right_to_see_classes_there_is_no_plan(plan: Plan) -> None:
    said = plan(user="nobody")
    assert said.status == 3
    assert "error[kubernetes-denied]: this user may not list storageclasses" in said.err
    assert said.out == ""


def test_a_class_that_is_not_there_is_reported_with_the_nearest(plan: Plan) -> None:
    said = plan("--class", "fasst")
    assert said.status == 3
    assert "did you mean 'fast'?" in said.err
    assert all(name in said.err for name in classes.NAMES)
