"""Remove secrets and large unused parts from Kubernetes objects before they are stored.

`inventory.redaction` finds secrets by the names of settings. Kubernetes needs two exceptions: `key`
is also a label's name in taints and selectors, and annotations may hold a whole object again
(`last-applied-configuration`), so most annotations are removed.
"""

from __future__ import annotations

import re
from typing import Any

from leadline.inventory.kubernetes.kinds import (
    ObjectKind,
    config_map_names,
    is_storage_workload,
)
from leadline.inventory.redaction import REDACTED, redact, redact_dump, secret_name

_ANNOTATIONS = frozenset(
    {
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubevirt.io/is-default-virt-class",
    }
)
_METADATA = ("name", "namespace", "uid", "labels", "generation", "resourceVersion")
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
# Keys next to a `key` that names a label: in taints, tolerations and selectors.
_LABEL_KEYS = frozenset(
    {"key", "operator", "values", "value", "effect", "timeAdded", "tolerationSeconds"}
)
_PLACEHOLDER = "leadline:label"
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
    clean: dict[str, Any] = _restored(redact(_set_aside(kept)))
    if "data" in item:
        clean["data"] = _texts(item["data"])
    if item.get("kind") == "Setting" and secret_name(str(kept.get("metadata", {}).get("name"))):
        clean["value"] = REDACTED
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
        key: redact_dump(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(value, str)
        else value
        for key, value in contents.items()
    }


def _set_aside(value: Any) -> Any:
    """Rename `key` of taints and selectors, so that it is not redacted as a secret."""
    if isinstance(value, list):
        return [_set_aside(element) for element in value]
    if not isinstance(value, dict):
        return value
    found = {key: _set_aside(member) for key, member in value.items()}
    label = value.get("key")
    if (
        isinstance(label, str)
        and len(value) > 1
        and _LABEL_KEYS.issuperset(value)
        and _LABEL_KEY.fullmatch(label)
    ):
        found[_PLACEHOLDER] = found.pop("key")
    return found


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        "key" if key == _PLACEHOLDER else key: _restored(member) for key, member in value.items()
    }
