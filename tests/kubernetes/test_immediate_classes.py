"""StorageClasses that bind at once, as those of Rook and OpenShift Data Foundation do.

The provisioner is a double: this test serves the claims of the class.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster import NODE, Cluster, Refused
from tests.kubernetes.driving import Leadline, Manifest, applied, nothing_left

CLASS = "at-once"
FILES = f"files=storageclass:{CLASS}?size=96Mi&mode=filesystem"


@contextlib.contextmanager
def served(cluster: Cluster, serve: Callable[[Manifest], None]) -> Iterator[None]:
    """The class, each of whose pending claims is given to `serve` a few times a second."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "leadline-lab/at-once",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.3):
            for claim in cluster.request("/api/v1/persistentvolumeclaims")["items"]:
                pending = claim["status"].get("phase") == "Pending"
                if claim["spec"].get("storageClassName") == CLASS and pending:
                    serve(claim)

    thread = threading.Thread(target=work, daemon=True)
    with applied(cluster, storage_class):
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def report(cluster: Cluster, claim: Manifest, message: str) -> None:
    """An event of the provisioner about a claim."""
    metadata = claim["metadata"]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    involved = {key: metadata[key] for key in ("name", "namespace", "uid")}
    body = {
        "metadata": {"generateName": f"{metadata['name']}."},
        "involvedObject": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **involved},
        "type": "Warning",
        "reason": "ProvisioningFailed",
        "message": message,
        "source": {"component": "leadline-lab/at-once"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    with contextlib.suppress(Refused):  # the namespace may be on its way out
        cluster.request(f"/api/v1/namespaces/{metadata['namespace']}/events", "POST", body)


def test_a_provisioner_that_fails_is_reported_at_once_in_its_own_words(
    cluster: Cluster, tmp_path: Path
) -> None:
    words = "rpc error: code = InvalidArgument desc = there is no pool 'replicapol'"
    reported: set[str] = set()

    def refuse(claim: Manifest) -> None:
        if claim["metadata"]["uid"] not in reported:
            reported.add(claim["metadata"]["uid"])
            report(cluster, claim, words)

    leadline = Leadline(cluster=cluster, folder=tmp_path)
    with served(cluster, refuse), nothing_left(cluster):
        ended = leadline("run", leadline.plan(FILES, cluster={"ready": "200s"}))
    ended.failed("volume-pending", 4)
    assert f"ProvisioningFailed: {words}" in ended.err
    assert "still pending after" not in ended.err


@pytest.mark.deep
def test_a_provisioner_that_is_late_is_waited_for(cluster: Cluster, tmp_path: Path) -> None:
    """Longer than an unschedulable pod is; with a passing failure at first."""
    late_s, began = 75.0, time.monotonic()
    made: set[str] = set()

    def provide(claim: Manifest) -> None:
        metadata = claim["metadata"]
        if time.monotonic() - began < 5 and not made:
            report(cluster, claim, "rpc error: code = DeadlineExceeded desc = still at work")
        if time.monotonic() - began < late_s or metadata["uid"] in made:
            return
        made.add(metadata["uid"])
        folder = tmp_path / "volume"
        folder.mkdir()
        folder.chmod(0o777)
        reference = {key: metadata[key] for key in ("name", "namespace", "uid")}
        place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}
        cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"pvc-{metadata['uid']}"},
                "spec": {
                    "accessModes": claim["spec"]["accessModes"],
                    "capacity": claim["spec"]["resources"]["requests"],
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        **reference,
                    },
                    "local": {"path": str(folder)},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}
                    },
                    "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": CLASS,
                    "volumeMode": "Filesystem",
                },
            }
        )

    leadline = Leadline(cluster=cluster, folder=tmp_path)
    running = None
    with served(cluster, provide):
        running = leadline.start("run", leadline.plan(FILES, cluster={"ready": "200s"}))
        running.until("the only trial", lambda: "[1/" in running.err, 180)
        # No provisioner removes the volume: the object is removed in its place.
        running.until("its end", lambda: leadline.trials(), 60)
        for uid in made:
            with contextlib.suppress(Refused):
                cluster.request(f"/api/v1/persistentvolumes/pvc-{uid}", "DELETE")
        running.ended().answered()
