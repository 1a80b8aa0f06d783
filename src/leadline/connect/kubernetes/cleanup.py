"""Removing what a run made in a cluster, and waiting until the volumes behind it are gone.

A volume is gone when its PersistentVolume is: the provisioner removes that only behind the volume
itself. A deletion that is still going on would disturb what is measured next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import (
    Event,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
)
from lightkube.types import CascadeType

from leadline import errors
from leadline.connect.kubernetes.client import RUN, TOKEN, Connection, polls, raw_kind, selector
from leadline.connect.kubernetes.machine_runners import MACHINES, instances_of, machines_of
from leadline.connect.kubernetes.machines import VirtualMachine, conditions_told, name_of
from leadline.connect.kubernetes.pod_runners import claims_of, events_of, pods_of
from leadline.connect.kubernetes.pods import told
from leadline.errors import LeadlineError

GONE_WITHIN_S = 300.0


@dataclass(kw_only=True)
class Removal:
    """One stretch of removing: how long it may take, and who may call it off (`go_on` raises)."""

    connection: Connection
    bound_s: float = GONE_WITHIN_S
    go_on: Callable[[], None] = field(default=lambda: None)

    def job(self, namespace: str, name: str, token: str) -> tuple[str, ...]:
        """Remove a Job with its pods, their claims and volumes; what could not be done as
        sentences. One that is gone, or another's by its token, is let be."""
        return self.owner(Job, "jobs.batch", namespace, name, token)

    def machine(self, namespace: str, name: str, token: str) -> tuple[str, ...]:
        """Remove the virtual machines of a token, whose names begin with `name`, with what they
        own, and wait until they and their volumes are gone; as `job`."""
        volumes = self._volumes(namespace, token)
        left = machines_of(self.connection, namespace, token)
        for item in left:
            self._delete(VirtualMachine, MACHINES, name_of(item), namespace)
        for _ in polls(self.bound_s, self.go_on):
            left = [
                *machines_of(self.connection, namespace, token),
                *instances_of(self.connection, namespace, token),
            ]
            if not left:
                return self._until_gone(namespace, token, volumes)
        said = [line for item in left[:2] for line in conditions_told(item, 2)]
        return (f"the virtual machines {name}-* are still there: {'; '.join(said)}",)

    def owner(
        self, kind: type[Any], resource: str, namespace: str, name: str, token: str
    ) -> tuple[str, ...]:
        """Remove an object with all that carries its token: pods, claims and their volumes."""
        volumes = self._volumes(namespace, token)
        try:
            found = self._get(kind, resource, name, namespace)
        except _Gone:
            found = None
        if found is not None and _token(found) == token:
            self._delete(kind, resource, name, namespace)
        return self._until_gone(namespace, token, volumes)

    def namespace(self, name: str, token: str) -> tuple[str, ...]:
        """Remove a namespace of ours with all that is in it."""
        found = self._namespace(name, token)
        if found is None:
            return ()
        volumes = self._all_volumes(name)
        self._delete(Namespace, "namespaces", name)
        for _ in polls(self.bound_s, self.go_on):
            found = self._namespace(name, token)
            if found is None:
                return self._volumes_gone(volumes)
        return (f"the namespace {name!r} is still there; it says: {_conditions(found)}",)

    def _namespace(self, name: str, token: str) -> Namespace | None:
        """The namespace while it is there and ours."""
        try:
            found: Namespace = self._get(Namespace, "namespaces", name)
        except _Gone:
            return None
        return found if _token(found) == token else None

    def _until_gone(self, namespace: str, token: str, volumes: Sequence[str]) -> tuple[str, ...]:
        left: list[str] = []
        bound = dict.fromkeys(volumes)
        for _ in polls(self.bound_s, self.go_on):
            pods = pods_of(self.connection, namespace, token)
            claims = claims_of(self.connection, namespace, token)
            # A claim may get its volume while it is being removed.
            bound |= dict.fromkeys(_bound(claims))
            left = [
                *(f"pod {pod.metadata.name}" for pod in pods if pod.metadata),
                *(f"claim {claim.metadata.name}" for claim in claims if claim.metadata),
            ]
            if not left:
                break
        if left:
            return (f"in the namespace {namespace!r} are still: {', '.join(left)}",)
        return self._volumes_gone(bound)

    def _volumes(self, namespace: str, token: str) -> list[str]:
        """The names of the PersistentVolumes behind the claims of a token."""
        return _bound(claims_of(self.connection, namespace, token))

    def _all_volumes(self, namespace: str) -> list[str]:
        def call(client: Client) -> list[PersistentVolumeClaim]:
            return list(
                client.list(PersistentVolumeClaim, namespace=namespace, labels={**selector()})
            )

        return _bound(
            self.connection.ask("list", "persistentvolumeclaims", call, namespace=namespace)
        )

    def _volumes_gone(self, volumes: Iterable[str]) -> tuple[str, ...]:
        """Wait for the volumes themselves. Where this user may not see them, their claims being
        gone must do."""
        waiting = list(volumes)
        try:
            for _ in polls(self.bound_s, self.go_on):
                waiting = [name for name in waiting if self._there(name)]
                if not waiting:
                    return ()
        except LeadlineError as error:
            if error.kind is errors.KUBERNETES_DENIED:
                return ()
            raise
        said = [line for name in waiting for line in told(self._events(name), 1)]
        why = f" ({'; '.join(said)})" if said else ""
        return (f"volumes that are not gone: {', '.join(waiting)}{why}",)

    def _events(self, volume: str) -> list[Event]:
        return events_of(self.connection, "default", volume)

    def _there(self, volume: str) -> bool:
        try:
            self._get(PersistentVolume, "persistentvolumes", volume)
        except _Gone:
            return False
        return True

    def _get(self, kind: Any, resource: str, name: str, namespace: str = "") -> Any:
        """An object of a namespace or of the whole cluster. Raises _Gone."""
        try:
            return self.connection.ask(
                "get",
                resource,
                lambda client: client.get(kind, name, namespace=namespace or None),
                namespace=namespace,
                name=name,
            )
        except ApiError as error:
            if error.status.code == 404:
                raise _Gone from error
            raise

    def _delete(self, kind: Any, resource: str, name: str, namespace: str = "") -> None:
        try:
            self.connection.ask(
                "delete",
                resource,
                lambda client: client.delete(
                    kind, name, namespace=namespace or None, cascade=CascadeType.BACKGROUND
                ),
                namespace=namespace,
            )
        except ApiError as error:
            if error.status.code not in (404, 409):
                raise


class _Gone(Exception):
    """An object that is not there."""


def _token(found: Any) -> str:
    labels = (found.metadata.labels if found.metadata else None) or {}
    return str(labels.get(TOKEN, ""))


def _bound(claims: Iterable[PersistentVolumeClaim]) -> list[str]:
    return [claim.spec.volumeName for claim in claims if claim.spec and claim.spec.volumeName]


def _conditions(found: Any) -> str:
    conditions = (found.status.conditions if found.status else None) or ()
    said = [
        condition.message
        for condition in conditions
        if condition.status == "True" and condition.message
    ]
    return "; ".join(said) or "nothing"


# What carries Leadline's labels in a cluster, whoever made it and wherever its archive is.

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
            namespace="" if kind is Namespace else str(item.metadata.namespace),
            name=str(item.metadata.name),
            run=str((item.metadata.labels or {}).get(RUN, "")),
            token=str((item.metadata.labels or {}).get(TOKEN, "")),
        )
        for item in objects
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
    for item in found:
        if item.namespace in gone:
            continue
        try:
            if item.kind == "namespace":
                left = removal.namespace(item.name, item.token)
                gone.add(item.name)
            elif item.kind == "job":
                left = removal.job(item.namespace, item.name, item.token)
            else:
                left = removal.machine(item.namespace, item.name, item.token)
        except LeadlineError as error:
            left = (f"{item} could not be removed: {error.fact}",)
        problems += left
        if not left:
            done.append(f"removed the {item}")
    return done, problems
