"""Asks a live Kubernetes cluster for the objects of its inventory. Nothing is changed in it.

What this user may not see is told as a gap in the capture, with the rule that is missing. Secrets
are never asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightkube import ApiError, Client
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod

from leadline import errors
from leadline.connect.kubernetes.client import Connection
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.cleaning import clean_object, is_kept
from leadline.inventory.kubernetes.kinds import GAPS, VERSION, ObjectKind, config_map_names
from leadline.inventory.kubernetes.models import Gap
from leadline.inventory.kubernetes.objects import dump_of, gaps_dump
from leadline.probes.ceph import TOOLBOX, Answer, Toolbox
from leadline.probes.ceph import capture as capture_ceph

# Read by name, since a list of them would hold what is none of our business.
_BY_NAME = (ObjectKind.NAMESPACE, ObjectKind.CONFIG_MAP)
# A refusal of one thing. Anything else, such as silence, is true of all that would be asked next.
_REFUSALS = (errors.KUBERNETES_DENIED, errors.KUBERNETES_FAILED)


@dataclass(slots=True)
class _Capture:
    dumps: dict[str, bytes] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    namespaces: dict[str, None] = field(default_factory=dict)
    refused: LeadlineError | None = None

    def refuse(self, what: str, error: LeadlineError) -> None:
        """Note what could not be seen; raises what is no refusal."""
        if error.kind not in _REFUSALS:
            raise error
        self.refused = self.refused or error
        reason = f"{error.fact}; {error.hint}" if error.hint else error.fact
        self.gaps.append(Gap(what=what, reason=reason))

    def keep(self, kind: ObjectKind, items: list[dict[str, Any]]) -> None:
        if items:
            self.dumps[kind.dump] = dump_of(items)


def capture(connection: Connection) -> Mapping[str, bytes]:
    """The dumps of a cluster, by file name, without secrets; Ceph's among them where Rook's toolbox
    runs. Raises LeadlineError: `cluster-unknown`, `kubernetes-unreachable`; `kubernetes-denied`
    where this user may see nothing at all."""
    found = _Capture()
    _version(found, connection)
    for kind in ObjectKind:
        if kind not in _BY_NAME:
            _kind(found, connection, kind)
    if not found.dumps.keys() - {VERSION} and found.refused is not None:
        raise found.refused
    _namespace(found, connection)
    _config_maps(found, connection)
    if ObjectKind.CEPH_CLUSTER.dump in found.dumps:
        _ceph(found, connection)
    if found.gaps:
        found.dumps[GAPS] = gaps_dump(found.gaps)
    return found.dumps


def _version(found: _Capture, connection: Connection) -> None:
    def call(client: Client) -> Any:
        # lightkube has no word for what is no resource.
        http = client._client._client
        answer = http.get("/version")
        answer.raise_for_status()
        return answer.json()

    try:
        told = connection.ask("get", "version", call)
    except LeadlineError as error:
        found.refuse("the version of Kubernetes", error)
        return
    if isinstance(told, dict) and isinstance(told.get("gitVersion"), str):
        found.dumps[VERSION] = json.dumps({"gitVersion": told["gitVersion"]}).encode()


def _kind(found: _Capture, connection: Connection, kind: ObjectKind) -> None:
    try:
        items = _listed(connection, kind)
    except LeadlineError as error:
        found.refuse(kind.purpose, error)
        return
    kept = [item for item in items if is_kept(kind, item)]
    for item in kept:
        if kind.namespaced:
            found.namespaces.setdefault(str(item.get("metadata", {}).get("namespace", "")))
    found.keep(kind, [clean_object(item) for item in kept])


def _listed(connection: Connection, kind: ObjectKind) -> list[dict[str, Any]]:
    """Objects of all namespaces in the newest version that the cluster has."""
    everywhere = "*" if kind.namespaced else None
    for version in kind.versions:
        items = connection.listed(kind.group, version, kind.plural, kind.kind, everywhere)
        if items:
            # The items of a list do not always say what they are.
            api_version = f"{kind.group}/{version}" if kind.group else version
            return [{"apiVersion": api_version, "kind": kind.kind, **item} for item in items]
    return []


def _namespace(found: _Capture, connection: Connection) -> None:
    try:
        item = _object(connection, ObjectKind.NAMESPACE, Namespace, "kube-system", "")
    except LeadlineError as error:
        found.refuse(ObjectKind.NAMESPACE.purpose, error)
        return
    found.keep(ObjectKind.NAMESPACE, [item] if item else [])


def _config_maps(found: _Capture, connection: Connection) -> None:
    """Those that are known, in namespaces in which something makes volumes."""
    items = []
    for namespace in found.namespaces:
        try:
            for name in config_map_names():
                item = _object(connection, ObjectKind.CONFIG_MAP, ConfigMap, name, namespace)
                items += [item] if item else []
        except LeadlineError as error:
            found.refuse(f"{ObjectKind.CONFIG_MAP.purpose} in {namespace}", error)
    found.keep(ObjectKind.CONFIG_MAP, items)


def _object(
    connection: Connection, kind: ObjectKind, resource: Any, name: str, namespace: str
) -> dict[str, Any] | None:
    """One object by its name; None where there is none."""

    def call(client: Client) -> Any:
        return client.get(resource, name, **({"namespace": namespace} if namespace else {}))

    try:
        answer = connection.ask("get", kind.resource, call, namespace=namespace, name=name)
    except ApiError as error:
        if error.status.code == 404:
            return None
        raise
    return clean_object({**answer.to_dict(), "apiVersion": kind.versions[0], "kind": kind.kind})


def _ceph(found: _Capture, connection: Connection) -> None:
    """Ceph's own answers, from the first toolbox there is."""
    listed = json.loads(found.dumps[ObjectKind.CEPH_CLUSTER.dump])["items"]
    used = ""
    for namespace in dict.fromkeys(str(item["metadata"].get("namespace", "")) for item in listed):
        if used:
            reason = f"of several clusters only that in {used} was asked"
            found.gaps.append(Gap(what=f"Ceph in {namespace}", reason=reason))
        elif _answered(found, connection, namespace):
            used = namespace


def _answered(found: _Capture, connection: Connection, namespace: str) -> bool:
    """Whether the Ceph of a namespace was asked and answered."""
    unanswered: list[str] = []

    def told(answer: Answer) -> None:
        if answer.refused is not None:
            unanswered.append(answer.dump.command)

    try:
        toolbox = next(_toolboxes(connection, namespace), None)
        if toolbox is None:
            reason = f"no pod of {TOOLBOX} runs in {namespace}: only what Rook is told to run"
            found.gaps.append(Gap(what="Ceph", reason=reason))
            return False
        found.dumps.update(capture_ceph(toolbox, told))
    except LeadlineError as error:
        if error.kind in (errors.CLUSTER_UNKNOWN, errors.KUBERNETES_UNREACHABLE):
            raise
        reason = f"{error.fact}; {error.hint}" if error.hint else error.fact
        found.gaps.append(Gap(what="Ceph", reason=reason))
        return False
    if unanswered:
        reason = f"the toolbox got no answer to {', '.join(unanswered)}"
        found.gaps.append(Gap(what="parts of Ceph", reason=reason))
    return True


def _toolboxes(connection: Connection, namespace: str) -> Iterator[Toolbox]:
    """Running pods of the toolbox."""

    def call(client: Client) -> list[Pod]:
        return list(client.list(Pod, namespace=namespace, labels={"app": TOOLBOX}))

    for pod in connection.ask("list", "pods", call, namespace=namespace):
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if metadata is None or spec is None or status is None or status.phase != "Running":
            continue
        yield Toolbox.in_pod(
            connection,
            namespace,
            pod=metadata.name or "",
            uid=metadata.uid or "",
            container=spec.containers[0].name,
        )
