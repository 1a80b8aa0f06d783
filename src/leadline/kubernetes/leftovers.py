"""What carries Leadline's labels in a cluster, whoever made it and wherever its archive is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Namespace

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection, raw_kind
from leadline.kubernetes.labels import RUN, TOKEN, selector
from leadline.kubernetes.removal import Removal

_VM = ("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Something of a run: a namespace (`namespace` empty), or an object that owns the rest."""

    kind: str
    namespace: str
    name: str
    run: str
    token: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def leftovers(
    connection: Connection, *, run: str | None, namespace: str | None
) -> tuple[Leftover, ...]:
    """Everything of a run, or of all; in one namespace, or in all. What owns comes first. Raises
    LeadlineError as Connection.ask."""
    found = (
        [] if namespace else _listed(connection, Namespace, "namespaces", "namespace", run, None)
    )
    found += _listed(connection, Job, "jobs.batch", "job", run, namespace)
    machines = raw_kind(*_VM, namespaced=True)
    try:
        found += _listed(
            connection, machines, "virtualmachines.kubevirt.io", "virtual machine", run, namespace
        )
    except LeadlineError as error:
        # Where virtual machines may not be seen, none of this user's runs has made any.
        if error.kind is not errors.KUBERNETES_DENIED:
            raise
    return tuple(found)


def _listed(
    connection: Connection,
    kind: Any,
    resource: str,
    called: str,
    run: str | None,
    namespace: str | None,
) -> list[Leftover]:
    where = None if kind is Namespace else namespace or "*"
    objects = connection.ask(
        "list",
        resource,
        lambda client: _there(client, kind, where, run),
        namespace=namespace or "",
    )
    return [
        Leftover(
            kind=called,
            namespace="" if kind is Namespace else str(one.metadata.namespace),
            name=str(one.metadata.name),
            run=str((one.metadata.labels or {}).get(RUN, "")),
            token=str((one.metadata.labels or {}).get(TOKEN, "")),
        )
        for one in objects
    ]


def _there(client: Any, kind: Any, namespace: str | None, run: str | None) -> list[Any]:
    from httpx2 import HTTPStatusError

    try:
        return list(client.list(kind, namespace=namespace, labels=selector(run)))
    except HTTPStatusError as error:
        if error.response is not None and error.response.status_code == 404:
            return []  # a cluster without KubeVirt
        raise


def remove(found: Iterable[Leftover], removal: Removal) -> tuple[list[str], list[str]]:
    """Remove them, and wait until the volumes behind them are gone; what was done, and what could
    not be, as sentences. What stands in a namespace of ours goes with it."""
    done: list[str] = []
    problems: list[str] = []
    gone: set[str] = set()
    for one in found:
        if one.namespace in gone:
            continue
        try:
            if one.kind == "namespace":
                left = removal.namespace(one.name, one.token)
                gone.add(one.name)
            elif one.kind == "job":
                left = removal.job(one.namespace, one.name, one.token)
            else:
                left = removal.machine(one.namespace, one.name, one.token)
        except LeadlineError as error:
            left = (f"{one} could not be removed: {error.fact}",)
        problems += left
        if not left:
            done.append(f"removed the {one}")
    return done, problems
