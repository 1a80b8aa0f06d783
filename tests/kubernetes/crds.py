"""Real CustomResourceDefinitions, from the Go modules pinned in crds/go.mod (build.sh).

Rook, ODF's StorageCluster, Longhorn, ZFS LocalPV and VolumeSnapshot as they are, without conversion
webhooks (nothing here would answer them). KubeVirt's are its generated schemas wrapped as its
crds.go does. Three are approximations and say so in an annotation, since no module has their
definitions: CDI's DataVolume (KubeVirt's schema of its template) and DataSource (written after the
Go types of containerized-data-importer-api 1.63.1), and Mayastor's DiskPool.
No operator acts on any of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.cluster import Cluster

Manifest = dict[str, Any]

APPROXIMATION = "leadline-lab/approximation"
_LONGHORN = ("volumes", "nodes", "settings", "replicas")
_CDI_SAYS = "schema of KubeVirt's DataVolumeTemplateSpec; status left open"
_SOURCE_SAYS = "fields as the Go types of containerized-data-importer-api v1.63.1"
_DISK_POOL_SAYS = "fields as mayastor-extensions' DiskPool v1beta2/v1beta3; status left open"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# C where it is there: the files have 60,000 lines.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _documents(file: Path) -> Iterator[Manifest]:
    for document in yaml.load_all(file.read_text(), Loader=_Loader):
        if document and document.get("kind") == "CustomResourceDefinition":
            document.pop("status", None)
            document["metadata"].pop("creationTimestamp", None)
            document["spec"].pop("conversion", None)
            yield document


def _definition(
    group: str,
    versions: list[str],
    kind: str,
    schema: Manifest,
    *,
    short: list[str],
    status: bool = True,
    approximation: str | None = None,
) -> Manifest:
    """A namespaced CRD; the first version is the stored one."""
    plural = kind.lower() + "s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {APPROXIMATION: approximation} if approximation else {},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": short,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    **({"subresources": {"status": {}}} if status else {}),
                }
                for version in versions
            ],
        },
    }


def _kubevirt(file: Path) -> Iterator[Manifest]:
    found = re.findall(r'^\t"(\w+)": `(.*?)`,$', file.read_text(), re.MULTILINE | re.DOTALL)
    texts = dict(found)

    def schema(name: str) -> Manifest:
        parsed: Manifest = yaml.load(texts[name], Loader=_Loader)["openAPIV3Schema"]
        parsed.pop("nullable", None)
        return parsed

    for kind, short, status in (
        ("VirtualMachine", ["vm", "vms"], True),
        # As in KubeVirt: a VMI's status is no subresource.
        ("VirtualMachineInstance", ["vmi", "vmis"], False),
        ("KubeVirt", ["kv", "kvs"], True),
    ):
        yield _definition(
            "kubevirt.io",
            ["v1", "v1alpha3"],
            kind,
            schema(kind.lower()),
            short=short,
            status=status,
        )
    volume = schema("datavolumetemplatespec")
    volume["properties"]["status"] = _OPEN
    yield _definition(
        "cdi.kubevirt.io",
        ["v1beta1"],
        "DataVolume",
        volume,
        short=["dv", "dvs"],
        approximation=_CDI_SAYS,
    )


def _data_source() -> Manifest:
    text = {"type": "string"}
    named = {
        "type": "object",
        "required": ["name", "namespace"],
        "properties": {"name": text, "namespace": text},
    }
    source = {
        "type": "object",
        "properties": dict.fromkeys(("pvc", "snapshot", "dataSource"), named),
    }
    time = {**text, "format": "date-time"}
    condition = {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            **dict.fromkeys(("type", "status", "reason", "message"), text),
            **dict.fromkeys(("lastTransitionTime", "lastHeartbeatTime"), time),
        },
    }
    spec = {"type": "object", "required": ["source"], "properties": {"source": source}}
    conditions = {"type": "array", "items": condition}
    status = {"type": "object", "properties": {"source": source, "conditions": conditions}}
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": status},
    }
    return _definition(
        "cdi.kubevirt.io",
        ["v1beta1"],
        "DataSource",
        schema,
        short=["das"],
        # As in CDI: a DataSource's status is no subresource.
        status=False,
        approximation=_SOURCE_SAYS,
    )


def _disk_pool() -> Manifest:
    text = {"type": "string"}
    fields = ("node", "clusterSize", "maxExpansion")
    spec = {
        "type": "object",
        "required": ["node", "disks"],
        "properties": {
            **dict.fromkeys(fields, text),
            "disks": {"type": "array", "items": text},
            "topology": _OPEN,
            "encryptionConfig": _OPEN,
        },
    }
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": {**_OPEN, "nullable": True}},
    }
    return _definition(
        "openebs.io",
        ["v1beta2", "v1beta3"],
        "DiskPool",
        schema,
        short=["dsp"],
        approximation=_DISK_POOL_SAYS,
    )


def manifests(programs: Path) -> list[Manifest]:
    """Every CustomResourceDefinition, from the files below `programs`/crds. They are parsed once,
    which takes seconds, and kept as JSON next to the programs."""
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    kept = programs / f"crds-{code}.json"
    if not kept.exists():
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(_parse(programs / "crds")))
        aside.rename(kept)
    found: list[Manifest] = json.loads(kept.read_text())
    return found


def _parse(at: Path) -> list[Manifest]:
    plain = [
        document
        for folder in ("rook", "ocs", "snapshot", "zfs", "longhorn")
        for file in sorted((at / folder).iterdir())
        for document in _documents(file)
        if folder != "longhorn" or document["spec"]["names"]["plural"] in _LONGHORN
    ]
    return [
        *plain,
        *_kubevirt(at / "kubevirt" / "validations_generated.go"),
        _data_source(),
        _disk_pool(),
    ]


def apply(cluster: Cluster) -> None:
    """Apply them all and wait until the API server serves them."""
    definitions = manifests(cluster.programs)
    for definition in definitions:
        cluster.apply(definition)
    names = {definition["metadata"]["name"] for definition in definitions}
    cluster.until("every CRD", lambda: names <= _established(cluster))


def _established(cluster: Cluster) -> set[str]:
    listed = cluster.request("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return {
        item["metadata"]["name"]
        for item in listed["items"]
        for condition in item["status"].get("conditions") or []
        if condition["type"] == "Established" and condition["status"] == "True"
    }
