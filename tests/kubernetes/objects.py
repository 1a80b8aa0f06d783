"""Objects that the tests of the cluster itself make, as plain manifests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from lightkube import AsyncClient, KubeConfig
from lightkube.types import ExecResponse

from tests.kubernetes import images
from tests.kubernetes.cluster import Cluster, Refused

Manifest = dict[str, Any]
DEVICE, DIRECTORY = "/dev/target", "/target"


def claim(namespace: str, name: str, storage_class: str, mode: str, size: str) -> Manifest:
    """A claim of one volume that one node writes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "volumeMode": mode,
            "resources": {"requests": {"storage": size}},
        },
    }


def rights(cluster: Cluster, user: str, rules: Sequence[Manifest], namespace: str) -> None:
    """Wait until what a user was given is in force: roles and bindings come to the API server's own
    knowledge a moment after they are made."""
    wanted = [rule for rule in rules if "resources" in rule]
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }

    def there() -> bool:
        found = cluster.request(path, "POST", body, user=user)["status"]["resourceRules"]
        return all(item in found for item in wanted)

    cluster.until(f"the rights of {user}", there)


def binding(name: str, role: str, user: str) -> Manifest:
    """A user gets a ClusterRole in the whole cluster."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def pod(namespace: str, name: str, mode: str) -> Manifest:
    """A pod that sleeps with the claim of its own name, as the standard `restricted` wants it."""
    volume: Manifest = (
        {"volumeDevices": [{"name": "volume", "devicePath": DEVICE}]}
        if mode == "Block"
        else {"volumeMounts": [{"name": "volume", "mountPath": DIRECTORY}]}
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "fsGroup": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": images.RUNNER,
                    "imagePullPolicy": "Never",
                    "command": ["/bin/sh", "-c", "exec sleep 3600"],
                    "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    **volume,
                }
            ],
            "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": name}}],
        },
    }


def namespace(cluster: Cluster, name: str) -> None:
    """A namespace that admits `restricted` pods only."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": label}}
    )

    # Pods are refused until the controller made the account that they run as.
    def made() -> bool:
        try:
            cluster.request(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        except Refused:
            return False
        return True

    cluster.until(f"the account of {name}", made)


def running(cluster: Cluster, space: str, name: str) -> None:
    """Wait until the pod runs."""

    def phase() -> bool:
        found = cluster.request(f"/api/v1/namespaces/{space}/pods/{name}")["status"]["phase"]
        assert found in ("Pending", "Running"), found
        return bool(found == "Running")

    cluster.until(f"the pod {space}/{name}", phase)


def execute(cluster: Cluster, space: str, name: str, script: str) -> ExecResponse:
    """Run a shell script in the pod. By the asynchronous client: the other one closes sockets
    under a thread that still reads them."""

    async def call() -> ExecResponse:
        client = AsyncClient(KubeConfig.from_file(cluster.kubeconfig()).get(), trust_env=False)
        try:
            return await client.exec(
                name, namespace=space, command=["sh", "-c", script], stdout=True, stderr=True
            )
        finally:
            await client.close()

    return asyncio.run(call())


def volumes_of(cluster: Cluster, space: str) -> list[Manifest]:
    """The PersistentVolumes whose claim is or was in the namespace."""
    listed = cluster.request("/api/v1/persistentvolumes")["items"]
    return [item for item in listed if item["spec"]["claimRef"]["namespace"] == space]


def removed(cluster: Cluster, space: str) -> float:
    """Delete what is in the namespace, then itself; the seconds until it and its volumes are gone.
    In this order: a namespace that still holds claims is looked at again only after 8 s."""
    began = time.monotonic()
    path = f"/api/v1/namespaces/{space}"
    for kind in ("pods", "persistentvolumeclaims"):
        cluster.request(f"{path}/{kind}", "DELETE")
    kept = f"{path}/persistentvolumeclaims"
    cluster.until(
        f"the end of the volumes of {space}",
        lambda: not volumes_of(cluster, space) and not cluster.request(kept)["items"],
    )
    cluster.request(path, "DELETE")

    def gone() -> bool:
        listed = cluster.request("/api/v1/namespaces")["items"]
        return all(item["metadata"]["name"] != space for item in listed)

    cluster.until(f"the end of {space}", gone)
    return time.monotonic() - began
