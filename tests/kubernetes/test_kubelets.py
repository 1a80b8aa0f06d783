"""Counters of a storage's pods from a real kubelet, with the shipped rights and without them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.archive.trial import StoredTrial
from leadline.formats.host_rates import MachineRates
from leadline.formats.kubelet import kubelet_rates
from leadline.plan.kubernetes_cluster import KubernetesCluster
from leadline.targets.kubernetes_cluster import OpenKubernetes
from tests.kubernetes import images, objects
from tests.kubernetes.cluster import NODE, Cluster
from tests.kubernetes.driving import applied
from tests.kubernetes.shipped import bound, shipped

# No namespace of Rook, whose double other tests run.
STORAGE = "storage-of-kubelets"
LIMIT = 0.2


@pytest.fixture(scope="module")
def storage(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with a pod whose container has the name of an OSD, at work with a limit."""
    objects.namespace(cluster, STORAGE)
    pod = objects.pod(STORAGE, "osd-0", "Filesystem")
    (container,) = pod["spec"]["containers"]
    del pod["spec"]["volumes"], container["volumeMounts"]
    container |= {
        "name": "osd",
        "image": images.RUNNER,
        "command": ["/bin/sh", "-c", "while :; do :; done"],
        "resources": {"limits": {"cpu": "200m", "memory": "64Mi"}},
    }
    cluster.apply(pod)
    # A container has no counters in the first moments.
    metrics = f"/api/v1/nodes/{NODE}/proxy/metrics/resource"
    counter = f'cpu_usage_seconds_total{{container="osd",namespace="{STORAGE}"'
    cluster.until("its counters", lambda: counter in cluster.request(metrics))
    yield cluster
    cluster.request(f"/api/v1/namespaces/{STORAGE}", "DELETE")


def watched(
    cluster: Cluster, folder: Path, *, user: str, seconds: float
) -> tuple[tuple[MachineRates, ...], tuple[str, ...]]:
    settings = KubernetesCluster(
        kubeconfig=str(cluster.kubeconfig(user)), storage_namespaces=(STORAGE,)
    )
    opened = OpenKubernetes("lab", settings)
    try:
        watch = opened.watch(folder)
        assert watch is not None
        time.sleep(seconds)
        watch.stop()
    finally:
        opened.close()
    return kubelet_rates(StoredTrial(folder, None).kubelets)


def test_the_kubelet_knows_what_a_daemon_used(storage: Cluster, tmp_path: Path) -> None:
    with applied(storage, *bound("runner", *shipped("kubelets.yaml"))):
        (machine,), notes = watched(storage, tmp_path, user="runner", seconds=4.0)
    assert machine.lost == frozenset(), notes
    assert machine.machine == NODE
    name = f"{STORAGE}/osd-0/osd"
    # A busy machine gives it less than its limit. Its group may keep up to a period's quota.
    assert 0 < machine.processes[name] <= LIMIT * 1.5
    assert 0 < machine.resident_bytes[name] < 64 << 20
    first = json.loads((tmp_path / "kubelets.jsonl").read_text().splitlines()[0])
    assert first["containers"][0]["age_s"] < 30


def test_a_user_without_the_right_gets_the_reason(storage: Cluster, tmp_path: Path) -> None:
    machines, notes = watched(storage, tmp_path, user="nobody", seconds=0.0)
    assert machines == ()
    assert notes == ("kubelets: this user may not list pods",)
