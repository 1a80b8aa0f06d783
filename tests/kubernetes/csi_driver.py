"""A real CSI driver on the cluster: csi-driver-host-path with its sidecars, as processes of a node.

It keeps volumes below the cluster's folder, makes and removes them without any delay, and has
snapshots, clones, expansion and raw block devices. `running` starts it for the tests that need it.

StorageClasses: `csi` (expandable, waits for its first consumer), `csi-now` (binds at once, does not
expand), `csi-kept` (Retain). VolumeSnapshotClasses: `csi` and `csi-kept` (Retain).
node-driver-registrar cannot be had from the Go proxy; registrar/ does what it does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.kubernetes import parts
from tests.kubernetes.cluster import NODE, Cluster, Refused

DRIVER = "hostpath.csi.k8s.io"
_NODE_ID = "csi.volume.kubernetes.io/nodeid"
_CLASSES: dict[str, dict[str, Any]] = {
    "csi": {"volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True},
    "csi-now": {"volumeBindingMode": "Immediate"},
    "csi-kept": {"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"},
}
_SNAPSHOT_CLASSES = {"csi": "Delete", "csi-kept": "Retain"}
_CLASS_PATH = "/apis/storage.k8s.io/v1/storageclasses"
_SNAPSHOT_PATH = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses"
_PARTS = (
    "csi-hostpath",
    "csi-registrar",
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
    "snapshot-controller",
)


def _commands(cluster: Cluster) -> dict[str, list[str]]:
    at, kubeconfig = cluster.folder, f"--kubeconfig={cluster.kubeconfig()}"
    socket = at / "csi.sock"
    address = f"--csi-address={socket}"
    # The sidecars' own: 5 requests a second, and waits before another attempt that grow from one
    # second to five minutes. external-attacher removes the finalizer of a volume by its place in
    # the list and tries again where another finalizer has just gone (status 422).
    retries = ("--retry-interval-start=200ms", "--retry-interval-max=2s")
    usual = (kubeconfig, *parts.API_RATE, *retries)
    registry = at / "kubelet" / "plugins_registry"
    programs = {
        "csi-hostpath": [
            "hostpathplugin",
            f"--drivername={DRIVER}",
            f"--endpoint=unix://{socket}",
            f"--nodeid={NODE}",
            f"--statedir={at / 'csi-hostpath'}",
            "--enable-attach=true",
        ],
        "csi-registrar": ["registrar", str(registry / "hostpath.sock"), DRIVER, str(socket)],
        "csi-provisioner": [
            "csi-provisioner",
            address,
            *usual,
            "--feature-gates=Topology=true",
        ],
        "csi-attacher": ["csi-attacher", address, *usual],
        "csi-resizer": ["csi-resizer", address, *usual],
        "csi-snapshotter": ["csi-snapshotter", address, *usual],
        "snapshot-controller": ["snapshot-controller", *usual],
    }
    folder = cluster.programs
    return {name: [str(folder / argv[0]), *argv[1:]] for name, argv in programs.items()}


def _objects() -> list[dict[str, Any]]:
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {
            "attachRequired": True,
            "podInfoOnMount": True,
            "fsGroupPolicy": "File",
            "volumeLifecycleModes": ["Persistent"],
        },
    }
    classes = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": DRIVER,
            "reclaimPolicy": "Delete",
            **fields,
        }
        for name, fields in _CLASSES.items()
    ]
    snapshots = [
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": name},
            "driver": DRIVER,
            "deletionPolicy": policy,
        }
        for name, policy in _SNAPSHOT_CLASSES.items()
    ]
    return [driver, *classes, *snapshots]


@contextlib.contextmanager
def running(cluster: Cluster) -> Iterator[None]:
    """Run the driver meanwhile; the cluster must serve the CRDs of snapshots."""
    (cluster.folder / "csi-hostpath").mkdir(exist_ok=True)
    for left in (cluster.folder / "csi.sock", *cluster.folder.glob("kubelet/plugins_registry/*")):
        left.unlink(missing_ok=True)
    for manifest in _objects():
        cluster.apply(manifest)
    commands = _commands(cluster)
    cluster.run_part("csi-hostpath", commands["csi-hostpath"])
    cluster.until("the CSI driver", lambda: (cluster.folder / "csi.sock").exists())
    for name in _PARTS[1:]:
        cluster.run_part(name, commands[name])
    try:
        cluster.until("the driver on the node", lambda: len(_traces(cluster)) == 2)
        yield
        # A volume that is left without its driver stays for ever, and fails the tests that follow.
        cluster.until("the end of the driver's volumes", lambda: not _volumes(cluster))
    finally:
        for name in reversed(_PARTS):
            cluster.kill(name)
        (cluster.folder / "kubelet" / "plugins_registry" / "hostpath.sock").unlink(missing_ok=True)
        names = [f"{_CLASS_PATH}/{name}" for name in _CLASSES]
        names += [f"{_SNAPSHOT_PATH}/{name}" for name in _SNAPSHOT_CLASSES]
        for path in (*names, f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}"):
            with contextlib.suppress(Refused):
                cluster.request(path, "DELETE")
        cluster.until("the node without the driver", lambda: not _traces(cluster))


def _volumes(cluster: Cluster) -> list[str]:
    items = cluster.request("/api/v1/persistentvolumes")["items"]
    drivers = {
        item["metadata"]["name"]: item["spec"].get("csi", {}).get("driver") for item in items
    }
    return [name for name, driver in drivers.items() if driver == DRIVER]


def _traces(cluster: Cluster) -> set[str]:
    """The objects that say that the node has the driver. Kubelet changes one after the other."""
    try:
        node = cluster.request(f"/apis/storage.k8s.io/v1/csinodes/{NODE}")
    except Refused:
        node = {"spec": {}}
    drivers = node["spec"].get("drivers") or []
    found = {"CSINode"} if any(driver["name"] == DRIVER for driver in drivers) else set()
    annotations = cluster.request(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]
    return found | ({"Node"} if DRIVER in annotations.get(_NODE_ID, "") else set())
