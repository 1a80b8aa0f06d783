"""Capture of the objects for the inventory of a live Kubernetes cluster; nothing is changed in it.

Objects that this user may not read are a gap in the capture, with the missing rule. Secrets are
never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lightkube import Client
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod

from leadline import errors
from leadline.connect.kubernetes.client import Connection, if_allowed
from leadline.connect.kubernetes.objects import get_object, list_kind
from leadline.connect.kubernetes.pod_shell import PodShell
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.cleaning import clean_object, is_kept
from leadline.inventory.kubernetes.kinds import GAPS, VERSION, ObjectKind, config_map_names
from leadline.inventory.kubernetes.models import Gap
from leadline.inventory.kubernetes.objects import dump_of, gaps_dump
from leadline.probes.ceph import TOOLBOX, Answer, Toolbox
from leadline.probes.ceph import capture as capture_ceph

# Read by name: a list would hold unrelated objects.
_BY_NAME = (ObjectKind.NAMESPACE, ObjectKind.CONFIG_MAP)
# A refusal concerns one kind. Any other failure, such as silence, concerns all further requests.
_REFUSALS = (errors.KUBERNETES_DENIED, errors.KUBERNETES_FAILED)


@dataclass(slots=True)
class _Capture:
    """The dumps and gaps so far, and the namespaces of the found objects."""

    dumps: dict[str, bytes] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    namespaces: dict[str, None] = field(default_factory=dict)
    refused: LeadlineError | None = None

    def refuse(self, what: str, error: LeadlineError) -> None:
        """Record a gap; raise an error that is not a refusal."""
        if error.kind not in _REFUSALS:
            raise error
        self.refused = self.refused or error
        reason = f"{error.fact}; {error.hint}" if error.hint else error.fact
        self.gaps.append(Gap(what=what, reason=reason))

    def keep(self, kind: ObjectKind, items: list[dict[str, Any]]) -> None:
        if items:
            self.dumps[kind.dump] = dump_of(items)


def capture(connection: Connection, *, in_part: bool = False) -> Mapping[str, bytes]:
    """Return the dumps of a cluster by file name, without secrets, with Ceph's where Rook's toolbox
    runs. Raises LeadlineError: `cluster-unknown`, `kubernetes-unreachable`; `kubernetes-denied`
    where this user may read nothing, unless gaps alone are an answer (`in_part`)."""
    found = _Capture()
    _version(found, connection)
    for kind in ObjectKind:
        if kind not in _BY_NAME:
            _kind(found, connection, kind)
    if not in_part and not found.dumps.keys() - {VERSION} and found.refused is not None:
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
        # lightkube has no method for what is not a resource.
        http = client._client._client
        answer = http.get("/version")
        answer.raise_for_status()
        return answer.json()

    try:
        version = connection.ask("get", "version", call)
    except LeadlineError as error:
        found.refuse("the version of Kubernetes", error)
        return
    if isinstance(version, dict) and isinstance(version.get("gitVersion"), str):
        found.dumps[VERSION] = json.dumps({"gitVersion": version["gitVersion"]}).encode()


def _kind(found: _Capture, connection: Connection, kind: ObjectKind) -> None:
    try:
        items = list_kind(connection, kind)
    except LeadlineError as error:
        found.refuse(kind.purpose, error)
        return
    kept = [item for item in items if is_kept(kind, item)]
    for item in kept:
        if kind.namespaced:
            found.namespaces.setdefault(str(item.get("metadata", {}).get("namespace", "")))
    found.keep(kind, [clean_object(item) for item in kept])


def _namespace(found: _Capture, connection: Connection) -> None:
    try:
        item = _object(connection, ObjectKind.NAMESPACE, Namespace, "kube-system", "")
    except LeadlineError as error:
        found.refuse(ObjectKind.NAMESPACE.purpose, error)
        return
    found.keep(ObjectKind.NAMESPACE, [item] if item else [])


def _config_maps(found: _Capture, connection: Connection) -> None:
    """Read the known ConfigMaps in the namespaces of provisioners."""
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
    """Return one object by its name; None where it does not exist."""
    found = get_object(connection, resource, kind.resource, name, namespace)
    if found is None:
        return None
    return clean_object({**found.to_dict(), "apiVersion": kind.versions[0], "kind": kind.kind})


def _ceph(found: _Capture, connection: Connection) -> None:
    """Add the dumps of Ceph from the first toolbox."""
    listed = json.loads(found.dumps[ObjectKind.CEPH_CLUSTER.dump])["items"]
    used = ""
    for namespace in dict.fromkeys(str(item["metadata"].get("namespace", "")) for item in listed):
        if used:
            reason = f"of several clusters only that in {used} was asked"
            found.gaps.append(Gap(what=f"Ceph in {namespace}", reason=reason))
        elif _capture_ceph(found, connection, namespace):
            used = namespace


def _capture_ceph(found: _Capture, connection: Connection, namespace: str) -> bool:
    """Add the dumps of the Ceph in a namespace; return whether it answered."""
    unanswered: list[str] = []

    def observe(answer: Answer) -> None:
        if answer.refused is not None:
            unanswered.append(answer.dump.command)

    try:
        toolbox = next(_toolboxes(connection, namespace), None)
        if toolbox is None:
            reason = f"no pod of {TOOLBOX} runs in {namespace}: only the configuration in Rook"
            found.gaps.append(Gap(what="Ceph", reason=reason))
            return False
        found.dumps.update(capture_ceph(toolbox, observe))
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


def find_toolbox(connection: Connection, namespace: str) -> Toolbox | None:
    """Return Rook's toolbox where it runs and pods may be listed. Raises LeadlineError as
    Connection.ask for other failures."""
    return if_allowed(lambda: next(_toolboxes(connection, namespace), None))


def _toolboxes(connection: Connection, namespace: str) -> Iterator[Toolbox]:
    """Yield the running pods of the toolbox."""

    def call(client: Client) -> list[Pod]:
        return list(client.list(Pod, namespace=namespace, labels={"app": TOOLBOX}))

    for pod in connection.ask("list", "pods", call, namespace=namespace):
        metadata, spec, status = pod.metadata, pod.spec, pod.status
        if metadata is None or spec is None or status is None or status.phase != "Running":
            continue
        name, uid = metadata.name or "", metadata.uid or ""
        yield Toolbox(PodShell(connection, namespace, name, uid, spec.containers[0].name))
