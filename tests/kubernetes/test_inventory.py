"""The inventory of a real API server: clusters written by hand are accepted by the real schemas,
and read back they say what their folders say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadline import errors
from leadline.cli.main import main
from leadline.connect.kubernetes.client import Connection, KubernetesAccess
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.folder import read_folder
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.probes.kubernetes import capture
from tests.conftest import RECORDED
from tests.kubernetes import images, objects
from tests.kubernetes.cluster import Cluster, Refused
from tests.kubernetes.driving import settled
from tests.unit.inventory.kubernetes.conftest import CLUSTERS, NAMES, inventory

Manifest = dict[str, Any]

# There is no schema of the first; the others are the cluster's own, or not for us to make.
_NOT_MADE = {"ClusterVersion", "Namespace", "Secret", "Pod", "ConfigMap"}
_NOWHERE = {"leadline-lab/nowhere": "none"}


def written(name: str) -> list[Manifest]:
    """The objects of a folder as they were written, those of lists one by one."""
    found: list[Manifest] = []
    for path in sorted((CLUSTERS / name).rglob("*")):
        if path.suffix not in (".yaml", ".json") or not path.is_file():
            continue
        for document in yaml.safe_load_all(path.read_text()):
            kind = document["kind"].removesuffix("List")
            version = document["apiVersion"]
            found += [
                {"apiVersion": version, "kind": kind, **item}
                for item in document.get("items", [document])
            ]
    return found


def path_of(cluster: Cluster, manifest: Manifest) -> str:
    version, metadata = manifest["apiVersion"], manifest["metadata"]
    plural, namespaced = cluster._path(version, manifest["kind"])
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = f"/namespaces/{metadata['namespace']}" if namespaced else ""
    return f"{root}{where}/{plural}/{metadata['name']}"


def strictly(cluster: Cluster, manifest: Manifest, *, dry: bool = False) -> None:
    """Server-side apply; a field that the schema does not have is refused."""
    metadata = {
        key: value
        for key, value in manifest["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "uid", "creationTimestamp")
    }
    body = {**manifest, "metadata": metadata}
    status = body.pop("status", None)
    options = "?fieldManager=lab&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry else "")
    path = path_of(cluster, manifest)
    kind = "application/apply-patch+yaml"
    cluster.request(path + options, "PATCH", body, kind=kind)
    if status is not None and not dry:
        try:
            cluster.request(
                f"{path}/status{options}", "PATCH", {**body, "status": status}, kind=kind
            )
        except Refused as refusal:
            # A kind without a status of its own.
            if refusal.status != 404:
                raise


def unheard(manifest: Manifest) -> Manifest:
    """Without what ocs-operator v0.4.13 does not know (clusters/README.md)."""
    if manifest["kind"] == "StorageCluster":
        manifest["spec"].pop("resourceProfile", None)
        for storage_device_set in manifest["spec"]["storageDeviceSets"]:
            storage_device_set.pop("encrypted", None)
    if manifest["kind"] == "DaemonSet":
        manifest["spec"]["template"]["spec"]["nodeSelector"] = _NOWHERE
        manifest.pop("status", None)
    if manifest["kind"] == "Deployment":
        manifest["spec"]["replicas"] = 0
        manifest.pop("status", None)
    return manifest


@contextmanager
def made(cluster: Cluster, manifests: list[Manifest]) -> Iterator[None]:
    """The objects, in namespaces of their own, until the end of the block; a namespace that was
    there before stays."""
    before = names(cluster, "/api/v1/namespaces")
    spaces = {manifest["metadata"].get("namespace") for manifest in manifests} - {None} - before
    try:
        for space in sorted(spaces):
            objects.namespace(cluster, space)
        for manifest in manifests:
            strictly(cluster, manifest)
        yield
    finally:
        for path in [path_of(cluster, manifest) for manifest in manifests] + [
            f"/api/v1/namespaces/{space}" for space in spaces
        ]:
            try:
                cluster.request(path, "DELETE")
            except Refused as refusal:
                if refusal.status != 404:
                    raise
        cluster.until("namespaces gone", lambda: not spaces & names(cluster, "/api/v1/namespaces"))


def names(cluster: Cluster, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.request(path)["items"]}


def asked(cluster: Cluster, user: str = "admin") -> KubernetesInventory:
    with Connection(KubernetesAccess(kubeconfig=cluster.kubeconfig(user))) as connection:
        return kubernetes_inventory(capture(connection))


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_read_back_says_what_its_folder_says(api_server: Cluster, name: str) -> None:
    manifests = [unheard(item) for item in written(name) if item["kind"] not in _NOT_MADE]
    nodes = [
        manifest
        for manifest in manifests
        if (manifest["kind"], manifest["apiVersion"]) == ("Node", "v1")
    ]
    for node in nodes:
        strictly(api_server, node, dry=True)
    with made(api_server, [manifest for manifest in manifests if manifest not in nodes]):
        found = asked(api_server)
    folder = inventory(name)
    own = {storage_class.name for storage_class in folder.storage_classes}
    read = [storage_class for storage_class in found.storage_classes if storage_class.name in own]
    kept = ("volumes", "parameters", "mount_options", "default", "reclaim", "binding", "expansion")
    for ours, theirs in zip(folder.storage_classes, read, strict=True):
        for field in kept:
            mine, its = getattr(ours, field), getattr(theirs, field)
            if field == "volumes" and name == "rook":
                # The ConfigMap with its read affinity is made in a test of its own.
                mine, its = (
                    item.model_copy(update={"read_affinity": None}) for item in (mine, its)
                )
            assert mine == its, (ours.name, field)
    assert found.ceph_clusters == folder.ceph_clusters
    assert found.block_pools == folder.block_pools
    assert found.filesystems == folder.filesystems
    assert found.disk_pools == folder.disk_pools
    assert found.zfs_pools == folder.zfs_pools
    assert found.longhorn == folder.longhorn
    assert found.kubevirt == folder.kubevirt
    assert [io_engine.cores for io_engine in found.io_engines] == [
        io_engine.cores for io_engine in folder.io_engines
    ]
    assert [workload.images for workload in found.workloads] == [
        workload.images for workload in folder.workloads
    ]
    for stored, applied in zip(folder.storage_clusters, found.storage_clusters, strict=True):
        assert applied.failure_domain_values == stored.failure_domain_values
        assert applied.failure_domain == stored.failure_domain
        assert applied.encrypted == stored.encrypted
        assert applied.network == stored.network
    assert {gap.what for gap in found.gaps} == ({"Ceph"} if folder.ceph_clusters else set())


def test_the_cluster_itself(api_server: Cluster) -> None:
    found = asked(api_server)
    assert found.version.startswith("v1.34")
    assert found.uid
    assert {"fast", "slow", "block", "stuck"} <= {
        storage_class.name for storage_class in found.storage_classes
    }
    assert found.gaps == ()


def test_nothing_is_changed(api_server: Cluster) -> None:
    def state() -> set[tuple[str, str]]:
        paths = ("/api/v1/namespaces", "/api/v1/configmaps", "/api/v1/pods", "/api/v1/secrets")
        items = [item for path in paths for item in api_server.request(path)["items"]]
        return {(item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in items}

    settled(api_server)  # what other tests have just removed
    before = state()
    asked(api_server)
    assert state() == before


# --- who may not see everything ------------------------------------------------------------------


@contextmanager
def allowed(cluster: Cluster, user: str, rules: list[Manifest]) -> Iterator[None]:
    """A user with these rules and no others."""
    group, name = "rbac.authorization.k8s.io", "inventory-test"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    binding = {**role, "kind": "ClusterRoleBinding"}
    cluster.apply({**role, "rules": rules})
    cluster.apply(
        {
            **binding,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
    )
    try:
        cluster.until("rules known", lambda: may_list(cluster, user))
        yield
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            cluster.request(f"/apis/{group}/v1/{plural}/{name}", "DELETE")


def may_list(cluster: Cluster, user: str) -> bool:
    try:
        return bool(cluster.request("/apis/storage.k8s.io/v1/storageclasses", user=user))
    except Refused:
        return False


def test_what_a_user_may_not_see_is_reported_with_the_rule(api_server: Cluster) -> None:
    rules = [{"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": ["list"]}]
    with allowed(api_server, "viewer", rules):
        found = asked(api_server, "viewer")
    assert {"fast", "block"} <= {storage_class.name for storage_class in found.storage_classes}
    assert found.nodes == ()
    told = {gap.what: gap.reason for gap in found.gaps}
    reason = told["nodes: zones, kernel, processors, memory"]
    assert reason.startswith("this user may not list nodes")
    assert '{apiGroups: [""], resources: ["nodes"], verbs: ["list"]}' in reason


def test_a_user_who_may_see_nothing(api_server: Cluster) -> None:
    with pytest.raises(LeadlineError) as caught:
        asked(api_server, "nobody")
    assert caught.value.kind is errors.KUBERNETES_DENIED


# --- Ceph through a toolbox ----------------------------------------------------------------------

# Stands in for the program: it answers what the recorded cluster did.
_CEPH = """#!/bin/sh
shift 2
name=
for word in "$@"; do
  [ "$word" = --format ] && break
  name="${name:+${name}_}$word"
done
name=$(echo "$name" | tr ' -' '__')
[ -f "/dumps/$name.json" ] || { echo "Error ENOENT: $name" >&2; exit 2; }
exec cat "/dumps/$name.json"
"""


def test_cephs_answers_through_a_toolbox(cluster: Cluster) -> None:
    recorded = {
        path.name: path.read_text() for path in (RECORDED.parent / "ceph-multi-az").iterdir()
    }
    space = "rook-ceph"
    rook = next(item for item in written("rook") if item["kind"] == "CephCluster")
    settings = next(item for item in written("rook") if item["kind"] == "ConfigMap")
    pod = objects.pod(space, "rook-ceph-tools-1", "Filesystem")
    pod["metadata"]["labels"] = {"app": "rook-ceph-tools"}
    pod["spec"]["volumes"] = [
        {"name": "ceph", "configMap": {"name": "ceph", "defaultMode": 0o755}},
        {"name": "dumps", "configMap": {"name": "dumps"}},
    ]
    (container,) = pod["spec"]["containers"]
    container["image"] = images.RUNNER
    container["volumeMounts"] = [
        {"name": "ceph", "mountPath": "/usr/bin/ceph", "subPath": "ceph"},
        {"name": "dumps", "mountPath": "/dumps"},
    ]
    block = next(item for item in written("rook") if item["metadata"]["name"] == "rook-ceph-block")
    with made(cluster, [rook, settings, block]):
        for name, content in (("ceph", {"ceph": _CEPH}), ("dumps", recorded)):
            metadata = {"name": name, "namespace": space}
            cluster.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content}
            )
        cluster.apply(pod)
        objects.running(cluster, space, "rook-ceph-tools-1")
        found = asked(cluster)
    assert found.ceph is not None
    assert found.ceph.pool("rbd_r3") is not None
    assert len(found.ceph.osds) == 6
    (gap,) = found.gaps
    assert gap.what == "parts of Ceph", "what was not recorded"
    item = found.storage_class("rook-ceph-block")
    assert item is not None
    affinity = getattr(item.volumes, "read_affinity", None)
    assert affinity is not None
    assert affinity.told_by == "ConfigMap rook-ceph/rook-ceph-csi-config"


# --- the command ---------------------------------------------------------------------------------


def test_the_command_saves_what_it_then_reads(
    api_server: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    reached = ["--kubernetes", "--kubeconfig", str(api_server.kubeconfig()), "--context", "lab"]
    assert main(["inventory", *reached, "--save", str(saved), "--format", "json"]) == 0
    live = json.loads(capsys.readouterr().out)
    assert live["source"] == "context lab"
    assert main(["inventory", "--from-dir", str(saved), "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again | {"source": ""} == live | {"source": ""}
    assert main(["inventory", *reached, "--against", str(saved), "--format", "json"]) == 0
    against = json.loads(capsys.readouterr().out)["against"]
    assert against["differences"] == []
    assert "the same Kubernetes cluster" in against["identical"]
    assert set(read_folder(saved).dumps) == {path.name for path in saved.iterdir()}


def test_a_context_that_is_not_there(
    api_server: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    reached = ["--kubeconfig", str(api_server.kubeconfig()), "--context", "elsewhere"]
    assert main(["inventory", *reached]) != 0
    assert "error[cluster-unknown]" in capsys.readouterr().err
