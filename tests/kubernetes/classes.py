"""The cluster's StorageClasses and what provisions them.

`fast` (the default) and `slow`: local-path-provisioner, each below a directory of its own; both
are this machine's disk, no faster and no slower. `block`: loop devices of their exact size, raw or
with ext4, by block_provisioner.py. `stuck`: its provisioner does not exist, claims stay Pending.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.kubernetes import images
from tests.kubernetes.cluster import NODE, Cluster
from tests.kubernetes.parts import SECOND_NODE

SHARED = "shared"
NAMES = ("fast", "slow", "block", "stuck")
LOCAL_PATH = "rancher.io/local-path"
BLOCK = "leadline-lab/block"
_NAMESPACE = "local-path-storage"
_ACCOUNT = "local-path-provisioner-service-account"


def storage_class(name: str, provisioner: str, **fields: Any) -> dict[str, Any]:
    default = {"storageclass.kubernetes.io/is-default-class": "true"} if name == "fast" else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": default},
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        **fields,
    }


def storage_classes() -> list[dict[str, Any]]:
    """The four StorageClass objects."""
    return [
        storage_class("fast", LOCAL_PATH),
        storage_class("slow", LOCAL_PATH),
        storage_class("block", BLOCK, allowVolumeExpansion=True),
        storage_class("stuck", "leadline-lab/absent", volumeBindingMode="Immediate"),
    ]


def apply(cluster: Cluster) -> None:
    """Apply the StorageClasses; on a whole cluster load the images and start the provisioners."""
    for manifest in storage_classes():
        cluster.apply(manifest)
    if not cluster.whole:
        return
    made = cluster.folder / "images"
    made.mkdir()
    for image in (images.pause(made), images.runner(made)):
        cluster.load_image(image)
        image.unlink()
    _local_path(cluster)
    _block(cluster)


def _local_path(cluster: Cluster) -> None:
    at = cluster.folder
    for manifest in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": _ACCOUNT, "namespace": _NAMESPACE},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "local-path-config", "namespace": _NAMESPACE},
            "data": {
                "setup": 'set -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
                "teardown": 'set -eu\nrm -rf "$VOL_DIR"\n',
            },
        },
    ):
        cluster.apply(manifest)
    paths = {name: str(at / "volumes" / name) for name in ("fast", "slow")}
    # A folder for each node, and one that is the same on all nodes (second_node.py has its class).
    by_node: dict[str, Any] = {
        name: {"nodePathMap": [{"node": node, "paths": [path]} for node in (NODE, SECOND_NODE)]}
        for name, path in paths.items()
    }
    shared = {"sharedFileSystemPath": str(at / "volumes" / SHARED)}
    config = {"storageClassConfigs": {**by_node, SHARED: shared}}
    (at / "local-path.json").write_text(json.dumps(config))
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "containers": [
                {
                    "name": "helper-pod",
                    "image": images.RUNNER,
                    "imagePullPolicy": "Never",
                }
            ],
            "terminationGracePeriodSeconds": 0,
        },
    }
    (at / "local-path-helper.json").write_text(json.dumps(helper))
    cluster.run_part(
        "local-path-provisioner",
        [
            str(cluster.programs / "local-path-provisioner"),
            "start",
            f"--config={at / 'local-path.json'}",
            f"--helper-image={images.RUNNER}",
            f"--helper-pod-file={at / 'local-path-helper.json'}",
            f"--kubeconfig={cluster.kubeconfig()}",
        ],
    )


def _block(cluster: Cluster) -> None:
    at = cluster.folder
    cluster.run_part(
        "block-provisioner",
        [sys.executable, "-I", str(Path(__file__).with_name("block_provisioner.py"))],
        {
            "SERVER": cluster.server,
            "TOKEN": cluster.tokens["admin"],
            "AUTHORITY": str(at / "certs" / "apiserver.crt"),
            "FOLDER": str(at / "volumes" / "block"),
            "DELETE_DELAY_S": str(cluster.delete_delay_s),
        },
    )
