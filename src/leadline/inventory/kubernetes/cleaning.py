"""Takes out of an object what is secret, and what is of no use and large, before any of it is kept.

What is secret is found by the rules of `inventory.redaction`, which know settings by their names.
Two things differ in Kubernetes: `key` is also what a label of a taint or a selector is called, and
annotations may hold a whole object again (`last-applied-configuration`), so that few of them stay.
"""

from __future__ import annotations

import re
from typing import Any

from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.kinds import Kind
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
# What stands beside a `key` that is a label's name: in taints, tolerations and selectors.
_BESIDE_KEY = frozenset(
    {"key", "operator", "values", "value", "effect", "timeAdded", "tolerationSeconds"}
)
_PLACEHOLDER = "leadline:label"
# Of a Node: most of its size, and what is on it rather than what it is.
_DROPPED_STATUS = {"Node": ("images", "volumesInUse", "volumesAttached", "daemonEndpoints")}
# Of what runs: environments and scripts may hold anything, and none of it is asked for.
_CONTAINER = ("name", "image", "args", "resources")


def cleaned(item: dict[str, Any]) -> dict[str, Any]:
    """An object without secrets, histories and what other programs noted beside it. Raises
    RecursionError for one that is nested beyond all sense."""
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


def worth_keeping(kind: Kind, item: dict[str, Any]) -> bool:
    """Of config maps those that are known, of what runs what makes volumes, of namespaces the one
    that tells clusters apart."""
    metadata = item.get("metadata")
    name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    if kind is kinds.NAMESPACE:
        return name == "kube-system"
    if kind is kinds.CONFIG_MAP:
        return name in kinds.CONFIG_MAP_NAMES
    if kind in (kinds.DAEMON_SET, kinds.DEPLOYMENT):
        containers = _workload(item.get("spec")).get("template", {}).get("spec", {})
        images = [str(one.get("image", "")) for one in containers.get("containers", ())]
        return kinds.is_storage_workload(name, images)
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
    """Which containers with which arguments and resources, and where."""
    try:
        pod = spec["template"]["spec"]
        containers = [
            {key: one[key] for key in _CONTAINER if key in one} for one in pod["containers"]
        ]
    except (KeyError, TypeError):
        return {}
    chosen = {key: pod[key] for key in ("hostNetwork", "nodeSelector") if key in pod}
    template = {"spec": {"containers": containers, **chosen}}
    replicas = {"replicas": spec["replicas"]} if "replicas" in spec else {}
    return {**replicas, "template": template}


def _texts(contents: Any) -> Any:
    """The files in a ConfigMap, each redacted as what it is: JSON, or lines of text."""
    if not isinstance(contents, dict):
        return contents
    return {
        key: redact_dump(value.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
        if isinstance(value, str)
        else value
        for key, value in contents.items()
    }


def _set_aside(value: Any) -> Any:
    """`key` of taints and selectors under a name that nobody takes for a secret's."""
    if isinstance(value, list):
        return [_set_aside(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _set_aside(one) for key, one in value.items()}
    label = value.get("key")
    if (
        isinstance(label, str)
        and len(value) > 1
        and _BESIDE_KEY.issuperset(value)
        and _LABEL_KEY.fullmatch(label)
    ):
        found[_PLACEHOLDER] = found.pop("key")
    return found


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {"key" if key == _PLACEHOLDER else key: _restored(one) for key, one in value.items()}
