"""`leadline pools ... --kube` on a real API server with Rook's real CRDs.

What is real: schemas, RBAC, admission, finalizers, deletion. Rook's operator is a double
(rook_operator.py): no Ceph makes these pools.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from leadline.connect.kubernetes import client
from leadline.pools import rook as rook_pools
from leadline.report.answers.systems import PoolsOutput
from tests.conftest import ROOT, Said
from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.objects import binding, rights
from tests.kubernetes.rook_operator import Operator

ODF = "openshift-storage"
ROOK = "rook-ceph"
STUDY = ("rep3", "rep3-virt", "rep2", "ec-2-1")
Manifest = dict[str, Any]
Pools = Callable[..., Said]


def rbd_class(name: str, namespace: str, prefix: str, **further: str) -> Manifest:
    secret = "csi.storage.k8s.io/"
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"test": "rook"}},
        "provisioner": f"{prefix}.rbd.csi.ceph.com",
        "parameters": {
            "clusterID": namespace,
            "pool": "replicapool",
            "imageFormat": "2",
            "imageFeatures": "layering",
            f"{secret}provisioner-secret-name": "rook-csi-rbd-provisioner",
            f"{secret}provisioner-secret-namespace": namespace,
            f"{secret}node-stage-secret-name": "rook-csi-rbd-node",
            f"{secret}node-stage-secret-namespace": namespace,
            f"{secret}fstype": "ext4",
            **further,
        },
    }


def ceph_cluster(name: str, namespace: str) -> Manifest:
    return {
        "apiVersion": "ceph.rook.io/v1",
        "kind": "CephCluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"dataDirHostPath": "/var/lib/rook", "mon": {"count": 3}},
    }


def status(cluster: Cluster, path: str, value: Manifest) -> None:
    cluster.request(
        f"{path}/status", "PATCH", {"status": value}, kind="application/merge-patch+json"
    )


def served(cluster: Cluster) -> bool:
    """Whether the storage of kinds that have just been established is there (429 until then)."""
    try:
        for plural in ("cephclusters", "cephblockpools", "cephfilesystems"):
            cluster.request(f"/apis/ceph.rook.io/v1/{plural}")
        cluster.request("/apis/ocs.openshift.io/v1/storageclusters")
    except Refused as refusal:
        if refusal.status != 429:
            raise
        return False
    return True


def up(cluster: Cluster, namespace: str, name: str, prefix: str) -> None:
    cluster.until("Rook's kinds", lambda: served(cluster))
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cluster.apply(ceph_cluster(name, namespace))
    path = f"/apis/ceph.rook.io/v1/namespaces/{namespace}/cephclusters/{name}"
    status(cluster, path, {"phase": "Ready", "ceph": {"health": "HEALTH_OK"}})
    cluster.apply(rbd_class(f"{prefix}-rbd", namespace, prefix))


def down(cluster: Cluster, namespace: str) -> None:
    for plural in ("cephblockpools", "cephfilesystems", "cephclusters"):
        path = f"/apis/ceph.rook.io/v1/namespaces/{namespace}/{plural}"
        for item in cluster.request(path)["items"]:
            at = f"{path}/{item['metadata']['name']}"
            with suppress(Refused):
                body = {"metadata": {"finalizers": None}}
                cluster.request(at, "PATCH", body, kind="application/merge-patch+json")
                cluster.request(at, "DELETE")
    for path in ("/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"):
        for item in cluster.request(path)["items"]:
            labels = item["metadata"].get("labels") or {}
            if labels.get("test") == "rook" or "leadline/token" in labels:
                cluster.request(f"{path}/{item['metadata']['name']}", "DELETE")


@pytest.fixture
def odf(api_server: Cluster) -> Iterator[Cluster]:
    """OpenShift Data Foundation in three zones, as far as its resources show it."""
    up(api_server, ODF, "ocs-storagecluster-cephcluster", ODF)
    api_server.apply(
        {
            "apiVersion": "ocs.openshift.io/v1",
            "kind": "StorageCluster",
            "metadata": {"name": "ocs-storagecluster", "namespace": ODF},
            "spec": {},
        }
    )
    path = f"/apis/ocs.openshift.io/v1/namespaces/{ODF}/storageclusters/ocs-storagecluster"
    zones = ["zone-a", "zone-b", "zone-c"]
    status(api_server, path, {"failureDomain": "zone", "failureDomainValues": zones})
    yield api_server
    api_server.request(path, "DELETE")
    down(api_server, ODF)


@pytest.fixture
def operator(odf: Cluster) -> Iterator[Operator]:
    with Operator(odf, ODF) as running:
        yield running
        running.idle, running.held = False, {}


@pytest.fixture
def pools(
    api_server: Cluster, leadline: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> Pools:
    monkeypatch.setattr(rook_pools, "FAILURE_S", 0.5)

    def call(verb: str, *arguments: object, user: str = "admin") -> Said:
        where = ("--kube", "--kubeconfig", api_server.kubeconfig(user))
        return leadline("pools", verb, *arguments, *where)

    return call


def objects(cluster: Cluster, namespace: str = ODF) -> dict[str, Manifest]:
    """Pools and classes by kind and name, without what the server changes by itself."""
    found = {}
    for path in (
        f"/apis/ceph.rook.io/v1/namespaces/{namespace}/cephblockpools",
        f"/apis/ceph.rook.io/v1/namespaces/{namespace}/cephfilesystems",
        "/apis/storage.k8s.io/v1/storageclasses",
    ):
        for item in cluster.request(path)["items"]:
            found[f"{path.rpartition('/')[2]}/{item['metadata']['name']}"] = item
    return found


def answer(said: Said) -> dict[str, Manifest]:
    told = json.loads(said.out)
    jsonschema.validate(told, PoolsOutput.model_json_schema(by_alias=True))
    return {pool["name"]: pool for pool in told["pools"]}


@pytest.mark.usefixtures("operator")
def test_the_study_is_made_and_undone_without_a_trace(odf: Cluster, pools: Pools) -> None:
    before = set(objects(odf))
    said = pools("create", *STUDY, "--format", "json")
    assert said.status == 0, said.err
    told = answer(said)
    assert [item["outcome"] for item in told.values()] == ["made"] * 4
    assert told["rep3"]["phase"] == "Ready"
    assert (told["rep3"]["size"], told["rep3"]["min_size"]) == (3, 2)
    assert (told["rep2"]["size"], told["rep2"]["min_size"]) == (2, 1)
    assert (told["ec-2-1"]["type"], told["ec-2-1"]["size"]) == ("erasure", 3)
    found = objects(odf)
    for name in ("rep3", "rep2", "ec-2-1"):
        pool = found[f"cephblockpools/{name}"]
        assert pool["spec"]["failureDomain"] == "zone", "ODF's own"
        assert pool["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "leadline"
    assert found["cephblockpools/ec-2-1"]["spec"]["erasureCoded"] == {
        "dataChunks": 2,
        "codingChunks": 1,
    }
    made = found["storageclasses/leadline-rep3"]
    copied = found[f"storageclasses/{ODF}-rbd"]
    assert made["provisioner"] == copied["provisioner"]
    assert made["parameters"] == copied["parameters"] | {"pool": "rep3"}
    erasure = found["storageclasses/leadline-ec-2-1"]["parameters"]
    assert (erasure["pool"], erasure["dataPool"]) == ("rep3", "ec-2-1")
    virtual = found["storageclasses/leadline-rep3-virt"]["parameters"]
    assert virtual["pool"] == "rep3"
    assert (virtual["mounter"], virtual["mapOptions"]) == ("rbd", "krbd:rxbounce")
    assert set(virtual["imageFeatures"].split(",")) == {
        "layering", "deep-flatten", "exclusive-lock", "object-map", "fast-diff",
    }  # fmt: skip

    again = pools("create", *STUDY, "--format", "json")
    assert again.status == 0
    assert [item["outcome"] for item in answer(again).values()] == ["exists"] * 4
    versions = {key: item["metadata"]["resourceVersion"] for key, item in found.items()}
    now = {key: item["metadata"]["resourceVersion"] for key, item in objects(odf).items()}
    assert now == versions, "nothing was touched"

    listed = answer(pools("list", "--format", "json"))
    assert set(listed) == set(STUDY)
    removed = pools("remove", "--all", "--format", "json")
    assert removed.status == 0, removed.err
    assert set(objects(odf)) == before
    assert {item["outcome"] for item in answer(removed).values()} == {"removed"}
    gone = pools("remove", "rep3", "ec-2-1", "--format", "json")
    assert gone.status == 0
    assert {item["outcome"] for item in answer(gone).values()} == {"none"}


@pytest.mark.usefixtures("operator")
def test_ceiling_own_filesystem_and_encrypted_volumes_as_the_server_accepts_them(
    odf: Cluster, pools: Pools
) -> None:
    """The real schemas of Rook hold every field; nothing is dropped."""
    settings = {"vault": json.dumps({"KMS_PROVIDER": "vaulttokens"})}
    named = {"name": "csi-kms-connection-details", "namespace": ODF}
    odf.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": settings})
    before = set(objects(odf))
    assert pools("create", "rep1").status == 1, "without consent"
    words = ("rep1", "ec-2-1", "cephfs-rep2", "rep2-luks", "--no-redundancy", "--format", "json")
    options = ("--target-ratio", "0.1", "--ec-profile", "plugin=isa", "--key-rotation", "@weekly")
    refused = pools("create", *words, *options, "--kms", "valut")
    assert refused.status == 1
    assert answer(refused)["rep2-luks"]["outcome"] == "skipped"
    assert pools("remove", "--all").status == 0
    assert set(objects(odf)) == before

    said = pools("create", *words, *options, "--kms", "vault")
    assert said.status == 0, said.err
    assert "unknown whether placement groups are active and clean" in said.err
    told = answer(said)
    assert "keys in vault (vaulttokens), rotated @weekly" in told["rep2-luks"]["reason"]
    assert (told["cephfs-rep2"]["size"], told["cephfs-rep2"]["phase"]) == (2, "Ready")
    found = objects(odf)
    single = found["cephblockpools/rep1"]["spec"]
    assert single["replicated"]["size"] == 1
    assert single["replicated"]["targetSizeRatio"] == 0.1
    assert not single["replicated"].get("requireSafeReplicaSize")
    erasure = found["cephblockpools/ec-2-1"]["spec"]
    assert erasure["erasureCoded"]["algorithm"] == "isa"
    assert erasure["parameters"]["target_size_ratio"] == "0.1"
    files = found["cephfilesystems/cephfs-rep2"]["spec"]
    for pool in (files["metadataPool"], *files["dataPools"]):
        assert pool["replicated"]["size"] == 2
        assert pool["parameters"]["min_size"] == "1"
    luks = found["storageclasses/leadline-rep2-luks"]
    key = "keyrotation.csiaddons.openshift.io/schedule"
    assert luks["metadata"]["annotations"][key] == "@weekly"
    assert luks["parameters"]["encryptionKMSID"] == "vault"
    removed = pools("remove", "--all", "--format", "json")
    assert removed.status == 0, removed.err
    assert set(objects(odf)) == before
    odf.request(f"/api/v1/namespaces/{ODF}/configmaps/csi-kms-connection-details", "DELETE")


def test_a_filesystem_that_fails_is_undone(odf: Cluster, operator: Operator, pools: Pools) -> None:
    operator.fails["cephfs-rep2"] = "failed to create filesystem"
    before = set(objects(odf))
    said = pools("create", "rep2", "cephfs-rep2")
    assert said.status == 4
    assert "Rook could not create the pool 'cephfs-rep2'" in said.err
    assert set(objects(odf)) == before


@pytest.mark.usefixtures("operator")
def test_a_dry_run_changes_nothing_and_is_checked_by_the_server(odf: Cluster, pools: Pools) -> None:
    before = objects(odf)
    said = pools("create", "ec-2-1", "--dry-run")
    assert said.status == 0, said.err
    assert '"dataPool": "ec-2-1"' in said.err
    assert "would make" in said.out
    assert objects(odf) == before
    denied = pools("create", "ec-2-1", "--dry-run", user="nobody")
    assert denied.status == 3
    assert "error[kubernetes-denied]" in denied.err


def test_what_rook_cannot_make_is_reported_in_its_words_and_undone(
    odf: Cluster, operator: Operator, pools: Pools
) -> None:
    operator.fails["rep2"] = "failed to create pool: crush rule refused"
    before = set(objects(odf))
    said = pools("create", "rep3", "rep2")
    assert said.status == 4
    assert "error[kubernetes-failed]: Rook could not create the pool 'rep2'" in said.err
    assert "crush rule refused" in said.err
    assert set(objects(odf)) == before, "rep3, which was made, is gone too"


def test_a_passing_failure_is_none(
    odf: Cluster, operator: Operator, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rook_pools, "FAILURE_S", 60.0)
    operator.fails["rep2"] = "not yet"

    def recovers(name: str) -> None:
        operator.fails.clear()

    operator.on_ready = recovers  # rep3 is ready a moment later or earlier than rep2 fails
    said = pools("create", "rep2", "rep3", "--wait", "30s")
    assert said.status == 0, said.err
    assert "storageclasses/leadline-rep2" in objects(odf)


def test_without_an_operator_the_wait_is_bounded_and_all_is_undone(
    odf: Cluster, operator: Operator, pools: Pools
) -> None:
    operator.idle = True
    before = set(objects(odf))
    said = pools("create", "rep2", "--wait", "1s")
    assert said.status == 4
    assert "after 1 s the pool 'rep2' is not Ready but without a phase" in said.err
    assert set(objects(odf)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_undoes_what_was_made(
    odf: Cluster,
    operator: Operator,
    pools: Pools,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    monkeypatch.setattr(rook_pools, "FAILURE_S", 60.0)
    operator.fails["rep2"] = "so that the command waits"
    before = set(objects(odf))
    operator.on_ready = lambda name: os.kill(os.getpid(), number)  # of rep3, which is made first
    said = pools("create", "rep3", "rep2")
    assert said.status == 130
    assert f"stopped by {number.name}; what it had made is undone" in said.err
    assert set(objects(odf)) == before


@pytest.mark.usefixtures("operator")
def test_a_pool_with_volumes_stays_and_so_does_everything_else(odf: Cluster, pools: Pools) -> None:
    assert pools("create", "rep3", "rep2").status == 0
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pvc-of-a-user", "labels": {"test": "rook"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "leadline-rep2",
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {
                "driver": f"{ODF}.rbd.csi.ceph.com",
                "volumeHandle": "0001",
                "volumeAttributes": {"clusterID": ODF, "pool": "rep2"},
            },
        },
    }
    odf.apply(volume)
    before = set(objects(odf))
    said = pools("remove", "--all")
    assert said.status == 2
    assert "error[image-not-consented]" in said.err
    assert "PersistentVolume pvc-of-a-user" in said.err
    assert set(objects(odf)) == before
    refused = pools("remove", "rep2", "--destroy-data", "rep2")
    assert refused.status == 2
    assert set(objects(odf)) == before
    # A pool without volumes may go.
    assert pools("remove", "rep3").status == 0
    assert before - set(objects(odf)) == {"cephblockpools/rep3", "storageclasses/leadline-rep3"}


@pytest.mark.usefixtures("operator")
def test_volumes_of_another_class_in_the_pool_count_too(odf: Cluster, pools: Pools) -> None:
    assert pools("create", "rep2").status == 0
    odf.apply(rbd_class("somebodys", ODF, ODF, pool="rep2"))
    said = pools("remove", "rep2", "--format", "json")
    assert said.status == 0
    told = answer(said)["rep2"]
    assert (told["outcome"], told["reason"]) == (
        "left",
        "the StorageClass somebodys makes volumes in it",
    )
    assert {"cephblockpools/rep2", "storageclasses/leadline-rep2"} <= set(objects(odf))


def test_images_that_kubernetes_does_not_know_keep_a_pool_and_rook_says_so(
    odf: Cluster, operator: Operator, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pools("create", "rep2").status == 0
    operator.held["rep2"] = "pool rep2 contains images or snapshots"
    path = f"/apis/ceph.rook.io/v1/namespaces/{ODF}/cephblockpools/rep2"

    def until_rook_says_so(bound_s: float, go_on: Callable[[], None]) -> Iterator[None]:
        for _ in client.poll(60.0, go_on, pause_s=0.1):
            said_so = "conditions" in odf.request(path)["status"]
            yield
            if said_so:
                return

    with monkeypatch.context() as impatient:
        impatient.setattr(rook_pools, "poll", until_rook_says_so)
        said = pools("remove", "rep2")
    assert said.status == 4
    assert "DeletionIsBlocked=True: pool rep2 contains images or snapshots" in said.err
    assert "cephblockpools/rep2" in objects(odf)
    skipped = pools("create", "rep2")
    assert skipped.status == 1
    assert "is being removed" in skipped.out
    operator.held.clear()
    assert pools("remove", "rep2").status == 0
    assert "cephblockpools/rep2" not in objects(odf)


@pytest.mark.usefixtures("operator")
def test_what_others_made_is_used_and_never_removed(odf: Cluster, pools: Pools) -> None:
    odf.apply(
        {
            "apiVersion": "ceph.rook.io/v1",
            "kind": "CephBlockPool",
            "metadata": {"name": "rep3", "namespace": ODF},
            "spec": {"failureDomain": "zone", "replicated": {"size": 3}},
        }
    )
    assert pools("create", "rep3").status == 0
    theirs = objects(odf)["cephblockpools/rep3"]
    assert "labels" not in theirs["metadata"]
    said = pools("remove", "--all")
    assert said.status == 0
    left = objects(odf)
    assert "cephblockpools/rep3" in left
    assert "storageclasses/leadline-rep3" not in left, "which was ours"
    told = answer(pools("remove", "rep3", "--format", "json"))["rep3"]
    assert (told["outcome"], told["reason"]) == ("left", "it was not made by Leadline")


@pytest.mark.usefixtures("operator")
def test_what_a_killed_command_left_is_finished_by_the_next(odf: Cluster, pools: Pools) -> None:
    assert pools("create", "rep2").status == 0
    odf.request("/apis/storage.k8s.io/v1/storageclasses/leadline-rep2", "DELETE")
    said = pools("create", "rep2", "--format", "json")
    assert said.status == 0
    assert answer(said)["rep2"]["outcome"] == "made"
    assert "storageclasses/leadline-rep2" in objects(odf)


@pytest.mark.usefixtures("operator")
def test_the_servers_refusal_undoes_what_was_made(odf: Cluster, pools: Pools) -> None:
    name = "no-erasure-code"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["ceph.rook.io"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["cephblockpools"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "!has(object.spec.erasureCoded)",
                    "message": "erasure coding is not for this cluster",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    path = "/apis/admissionregistration.k8s.io/v1"
    before = set(objects(odf))
    odf.apply(policy)
    odf.apply(binding)
    try:
        odf.until("the policy", lambda: pools("create", "ec-2-1", "--dry-run").status == 4)
        said = pools("create", "rep3", "ec-2-1")
    finally:
        odf.request(f"{path}/validatingadmissionpolicybindings/{name}", "DELETE")
        odf.request(f"{path}/validatingadmissionpolicies/{name}", "DELETE")
        # The server notices a moment later.
        odf.until("no policy", lambda: pools("create", "ec-2-1", "--dry-run").status == 0)
    assert said.status == 4
    assert "error[kubernetes-failed]" in said.err
    assert "erasure coding is not for this cluster" in said.err
    assert set(objects(odf)) == before


@pytest.fixture
def bound(api_server: Cluster) -> Iterator[Callable[[str, Manifest], None]]:
    """Binds a user to a ClusterRole for the length of a test."""
    made: list[str] = []

    def bind(user: str, role: Manifest) -> None:
        name = role["metadata"]["name"]
        api_server.apply(role)
        api_server.apply(binding(name, name, user))
        made.append(name)
        rights(api_server, user, role["rules"], "default")

    yield bind
    for name in made:
        for plural in ("clusterrolebindings", "clusterroles"):
            api_server.request(f"/apis/rbac.authorization.k8s.io/v1/{plural}/{name}", "DELETE")


def _role() -> Manifest:
    text = (ROOT / "deploy" / "rbac" / "pools.yaml").read_text()
    documents: list[Manifest] = list(yaml.safe_load_all(text))
    return next(document for document in documents if document["kind"] == "ClusterRole")


@pytest.mark.usefixtures("operator")
def test_the_shipped_role_is_enough(
    odf: Cluster, pools: Pools, bound: Callable[[str, Manifest], None]
) -> None:
    bound("runner", _role())
    before = set(objects(odf))
    said = pools("create", "rep3", "ec-2-1", user="runner")
    assert said.status == 0, said.err
    removed = pools("remove", "--all", user="runner")
    assert removed.status == 0, removed.err
    assert set(objects(odf)) == before


@pytest.mark.usefixtures("operator")
def test_a_missing_right_is_named_and_what_was_made_is_undone(
    odf: Cluster, pools: Pools, bound: Callable[[str, Manifest], None]
) -> None:
    role = _role()
    for rule in role["rules"]:
        if "storageclasses" in rule["resources"]:
            rule["verbs"] = ["get", "list"]
    bound("viewer", role)
    before = set(objects(odf))
    said = pools("create", "rep2", user="viewer")
    assert said.status == 3
    assert "error[kubernetes-denied]: this user may not create storageclasses" in said.err
    assert 'resources: ["storageclasses"], verbs: ["create"]' in said.err
    assert set(objects(odf)) == before


def test_several_clusters_are_reported_apart_by_name(odf: Cluster, pools: Pools) -> None:
    up(odf, ROOK, "rook-ceph", ROOK)
    try:
        said = pools("create", "rep2", "--dry-run")
        assert said.status == 2
        assert "error[cluster-unknown]: Rook runs 2 Ceph clusters" in said.err
        assert "openshift-storage/ocs-storagecluster-cephcluster" in said.err
        named = pools("create", "rep2", "--dry-run", "--ceph-cluster", ODF)
        assert named.status == 0, named.err
    finally:
        down(odf, ROOK)


@pytest.fixture
def three_hosts(api_server: Cluster) -> Iterator[None]:
    """Nodes that are nothing but objects: no pod is ever placed on one."""
    names = [f"storage-{number}" for number in range(3)]
    for name in names:
        api_server.apply(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"topology.rook.io/rack": f"rack-{name}"}},
                "spec": {"unschedulable": True},
            }
        )
    yield
    for name in names:
        api_server.request(f"/api/v1/nodes/{name}", "DELETE")


@pytest.mark.usefixtures("three_hosts")
def test_upstream_rook_is_found_too_and_its_racks_are_counted(
    api_server: Cluster, pools: Pools
) -> None:
    up(api_server, ROOK, "rook-ceph", ROOK)
    try:
        with Operator(api_server, ROOK):
            said = pools("create", "rep3", "cephfs-rep3", "rep3-enc", "--format", "json")
            told = answer(said)
            assert said.status == 1, "of three that were named one cannot be had"
            assert told["rep3"]["failure_domain"] == "rack"
            assert (told["cephfs-rep3"]["outcome"], told["cephfs-rep3"]["size"]) == ("made", 3)
            assert told["rep3-enc"]["outcome"] == "skipped"
            too_wide = answer(pools("create", "ec-4-2", "--format", "json"))["ec-4-2"]
            assert too_wide["outcome"] == "skipped"
            assert "needs 6 failure domains" in too_wide["reason"]
            assert pools("remove", "--all").status == 0
            left = objects(api_server, ROOK)
            assert not [name for name in left if name.startswith("ceph") or "leadline" in name]
    finally:
        down(api_server, ROOK)


def test_a_cluster_that_is_not_ready_is_refused(odf: Cluster, pools: Pools) -> None:
    path = f"/apis/ceph.rook.io/v1/namespaces/{ODF}/cephclusters/ocs-storagecluster-cephcluster"
    status(odf, path, {"phase": "Progressing"})
    said = pools("create", "rep2")
    assert said.status == 4
    assert "error[cluster-unfit]" in said.err
    assert "is not Ready but Progressing" in said.err


def test_without_rook_there_is_nothing_to_make_pools_in(
    api_server: Cluster, pools: Pools, tmp_path: Path
) -> None:
    said = pools("create", "rep2")
    assert said.status == 2
    assert "there is no CephCluster" in said.err


def silent_node(name: str, zone: str) -> Manifest:
    """A node without kubelet: the controller manager sets its conditions to Unknown."""
    labels = {"topology.kubernetes.io/zone": zone}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def osd_deployment(number: int, namespace: str, **places: str) -> Manifest:
    """An OSD's Deployment as Rook labels it, without replicas."""
    labels = {"app": "rook-ceph-osd", "ceph-osd-id": str(number)}
    labels |= {f"topology-location-{level}": place for level, place in places.items()}
    image = "quay.io/ceph/ceph:v19.2.1"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"rook-ceph-osd-{number}", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"ceph-osd-id": str(number)}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "osd", "image": image}]},
            },
        },
    }


def test_silent_nodes_and_rooks_labels_decide_the_failure_domain(
    api_server: Cluster, pools: Pools
) -> None:
    up(api_server, ROOK, "rook-ceph", ROOK)
    zones = ("zone-a", "zone-b", "zone-c", "zone-d")
    nodes = [f"/api/v1/nodes/silent-{zone}" for zone in zones]
    deployments = f"/apis/apps/v1/namespaces/{ROOK}/deployments"
    try:
        for zone in zones:
            api_server.apply(silent_node(f"silent-{zone}", zone))

        def unknown() -> bool:
            status = api_server.request(nodes[-1]).get("status") or {}
            states = {item["type"]: item["status"] for item in status.get("conditions") or ()}
            return states.get("Ready") == "Unknown"

        api_server.until("nodes that do not report", unknown)
        said = pools("create", "rep3", "--dry-run")
        assert said.status == 0, said.err
        assert "failure domain zone: counted over the nodes" in said.err
        # All OSDs are in one zone: copies in several zones are not possible.
        for number in range(3):
            places = {"zone": "zone-a", "host": f"silent-{number}"}
            api_server.apply(osd_deployment(number, ROOK, **places))
        said = pools("create", "rep3", "--dry-run")
        assert said.status == 0, said.err
        assert "failure domain host: counted over 3 OSDs" in said.err
    finally:
        for path in nodes:
            with suppress(Refused):
                api_server.request(path, "DELETE")
        for number in range(3):
            with suppress(Refused):
                api_server.request(f"{deployments}/rook-ceph-osd-{number}", "DELETE")
        down(api_server, ROOK)
