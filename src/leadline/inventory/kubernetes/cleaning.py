"""Remove secrets and large unused parts from Kubernetes objects before they are stored.

`inventory.redaction` finds secrets. Annotations may hold a whole object again
(`last-applied-configuration`), so most annotations are removed.
"""

from __future__ import annotations

from typing import Any

from leadline.inventory.kubernetes.kinds import (
    ObjectKind,
    config_map_names,
    is_storage_workload,
)
from leadline.inventory.redaction import Reason, redact, redact_document, secret_name

_ANNOTATIONS = frozenset(
    {
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubevirt.io/is-default-virt-class",
        "keyrotation.csiaddons.openshift.io/schedule",
    }
)
_METADATA = ("name", "namespace", "uid", "labels", "generation", "resourceVersion")
# The largest parts of a Node, which do not describe it.
_DROPPED_STATUS = {"Node": ("images", "volumesInUse", "volumesAttached", "daemonEndpoints")}
# Kept fields of containers: environments and scripts may hold secrets.
_CONTAINER = ("name", "image", "args", "resources")


def clean_object(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without secrets, histories and notes of other programs.

    Raises:
        RecursionError: The object is nested too deeply.
    """
    kept: dict[str, Any] = {
        key: value for key, value in item.items() if key not in ("metadata", "status", "data")
    }
    metadata = item.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = _metadata(metadata)
    status = item.get("status")
    if isinstance(status, dict):
        dropped = _DROPPED_STATUS.get(str(item.get("kind")), ())
        kept["status"] = {key: value for key, value in status.items() if key not in dropped}
    if item.get("kind") in ("DaemonSet", "Deployment"):
        kept["spec"] = _workload(item.get("spec"))
    clean: dict[str, Any] = redact(kept)
    if "data" in item:
        clean["data"] = _texts(item["data"])
    if item.get("kind") == "Setting" and secret_name(str(kept.get("metadata", {}).get("name"))):
        clean["value"] = Reason.SECRET_NAME.marker
    return clean


def is_kept(kind: ObjectKind, item: dict[str, Any]) -> bool:
    """Return whether an object is kept.

    Kept are the known config maps, workloads that provide volumes, and the namespace whose uid
    identifies the cluster.
    """
    metadata = item.get("metadata")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    if kind is ObjectKind.NAMESPACE:
        return name == "kube-system"
    if kind is ObjectKind.CONFIG_MAP:
        return name in config_map_names()
    if kind in (ObjectKind.DAEMON_SET, ObjectKind.DEPLOYMENT):
        containers = _workload(item.get("spec")).get("template", {}).get("spec", {})
        images = [str(item.get("image", "")) for item in containers.get("containers", ())]
        return is_storage_workload(name, images)
    return True


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {key: metadata[key] for key in _METADATA if key in metadata}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        named = {key: value for key, value in annotations.items() if key in _ANNOTATIONS}
        if named:
            kept["annotations"] = named
    return kept


def _workload(spec: Any) -> dict[str, Any]:
    """Return the containers with arguments and resources, and their placement."""
    try:
        pod = spec["template"]["spec"]
        containers = [
            {key: item[key] for key in _CONTAINER if key in item} for item in pod["containers"]
        ]
    except (KeyError, TypeError):
        return {}
    chosen = {key: pod[key] for key in ("hostNetwork", "nodeSelector") if key in pod}
    template = {"spec": {"containers": containers, **chosen}}
    replicas = {"replicas": spec["replicas"]} if "replicas" in spec else {}
    return {**replicas, "template": template}


def _texts(contents: Any) -> Any:
    """Redact the files in a ConfigMap, as JSON or as text."""
    if not isinstance(contents, dict):
        return contents
    return {
        key: redact_document(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(value, str)
        else value
        for key, value in contents.items()
    }
