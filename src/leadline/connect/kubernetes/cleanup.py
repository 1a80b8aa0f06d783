"""Removal of what a run created in a Kubernetes cluster, and the wait until its volumes are gone.

A volume is gone when its PersistentVolume is: the provisioner removes that after the volume. A
deletion in progress would disturb the next measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lightkube import ApiError, Client
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from lightkube.types import CascadeType, PatchType

from leadline import errors
from leadline.connect.kubernetes.client import Connection, if_allowed, poll
from leadline.connect.kubernetes.lifecycle import (
    CONTENT,
    CONTENTS,
    SNAPSHOT,
    SNAPSHOTS,
    VOLUME,
)
from leadline.connect.kubernetes.machines import (
    IMPORTS,
    MACHINES,
    DataVolume,
    Object,
    VirtualMachine,
    data_volume_names,
    format_conditions,
    instances_of,
    machines_of,
    name_of,
)
from leadline.connect.kubernetes.objects import (
    LEADLINE,
    RUN,
    TOKEN,
    claims_of,
    events_of,
    format_events,
    get_object,
    label_value,
    labels_of,
    list_owned,
    selector,
)
from leadline.connect.kubernetes.pods import pods_of
from leadline.errors import LeadlineError

GONE_WITHIN_S = 300.0
_FOREIGN = "{what} does not carry the labels of this run and was kept"
# The time of a namespace in which pods of a dead node are known to stay.
_DEAD_S = 10.0


def delete_with_claim(connection: Connection, volume: str) -> None:
    """Set a volume, which may be retained, to be deleted with its claim, or at once if that is
    gone."""
    _set_to_delete(connection, VOLUME, "persistentvolumes", volume, "persistentVolumeReclaimPolicy")


def delete_with_snapshot(connection: Connection, content: str) -> None:
    """Set the content of a snapshot, which may be retained, to be deleted with its snapshot."""
    _set_to_delete(connection, CONTENT, CONTENTS, content, "deletionPolicy")


def _set_to_delete(
    connection: Connection, kind: Any, resource: str, name: str, policy: str
) -> None:
    """Set the policy of an object to Delete; one that this user may not read without looking."""
    try:
        found = get_object(connection, kind, resource, name)
    except LeadlineError as error:
        if error.kind is not errors.KUBERNETES_DENIED:
            raise
    else:
        if found is None or (dict(found).get("spec") or {}).get(policy) != "Retain":
            return
    patch = {"spec": {policy: "Delete"}}
    try:
        connection.ask(
            "patch",
            resource,
            lambda client: client.patch(kind, name, patch, patch_type=PatchType.MERGE),
        )
    except ApiError as error:
        if error.status.code != 404:
            raise


@dataclass(kw_only=True)
class Removal:
    """Removes objects within `bound_s` each; `go_on` raises where the user asked to stop.

    `dead_nodes` get the nodes whose pods did not go in time. What is on them is deleted and no
    longer waited for. Each method returns the problems as sentences.
    """

    connection: Connection
    bound_s: float = GONE_WITHIN_S
    dead_nodes: set[str] = field(default_factory=set)
    go_on: Callable[[], None] = field(default=lambda: None)

    def job(self, namespace: str, name: str, run: str, token: str) -> tuple[str, ...]:
        """Remove a Job, and everything of the run with its token: pods, machines, snapshots, claims
        and their volumes. A Job with other labels stays, with all else."""
        found = get_object(self.connection, Job, "jobs.batch", name, namespace)
        if not token or (found is not None and not _is_own(found, run, token)):
            return (_FOREIGN.format(what=f"the Job {namespace}/{name}"),)
        machines = if_allowed(lambda: machines_of(self.connection, namespace, token))
        # And those of claims that went in a trial, or by a removal that was interrupted.
        volumes = [
            *self._volumes(namespace, run, token),
            *self._released(namespace, f"{name}-"),
        ]
        contents = self._snapshot_contents(namespace, labels_of(run, token))
        if found is not None:
            self._delete(Job, "jobs.batch", name, namespace)
        return (
            *(self._wait_for_machines(namespace, name, token, machines) if machines else ()),
            *self._wait_for_snapshots(contents),
            *self._wait_until_gone(namespace, run, token, volumes),
        )

    def machine(self, namespace: str, name: str, run: str, token: str) -> tuple[str, ...]:
        """Remove the virtual machines of a run with a token, whose names begin with `name`, with
        everything that they own, and wait until they and their volumes are gone."""
        machines = machines_of(self.connection, namespace, token) if token else []
        labels = labels_of(run, token)
        foreign = [
            name_of(machine)
            for machine in machines
            if not labels.items() <= (machine["metadata"].get("labels") or {}).items()
        ]
        if foreign or not token:
            what = f"the virtual machine {namespace}/{(foreign or [name])[0]}"
            return (_FOREIGN.format(what=what),)
        volumes = self._volumes(namespace, run, token)
        for machine in machines:
            self._delete(VirtualMachine, MACHINES, name_of(machine), namespace)
        problems = self._wait_for_machines(namespace, name, token, machines)
        return problems or self._wait_until_gone(namespace, run, token, volumes)

    def _wait_for_machines(
        self, namespace: str, name: str, token: str, machines: Sequence[Object]
    ) -> tuple[str, ...]:
        """Wait until machines, their instances and their boot disks are gone."""
        disks = [disk for machine in machines for disk in data_volume_names(machine)]
        left: list[Object] = []
        for _ in poll(self.bound_s, self.go_on):
            left = [
                *machines_of(self.connection, namespace, token),
                *instances_of(self.connection, namespace, token),
            ]
            if left:
                continue
            found = (
                get_object(self.connection, DataVolume, IMPORTS, disk, namespace) for disk in disks
            )
            left = [volume.to_dict() for volume in found if volume is not None]
            if not left:
                return ()
        lines = [line for machine in left[:2] for line in format_conditions(machine, 2)]
        names = ", ".join(name_of(one) for one in left[:4]) or f"{name}-*"
        return (f"virtual machines or their boot disks still exist: {'; '.join([names, *lines])}",)

    def namespace(self, name: str, run: str, token: str) -> tuple[str, ...]:
        """Remove a namespace that Leadline created, with everything in it."""
        found = get_object(self.connection, Namespace, "namespaces", name)
        if found is None:
            return self._wait_for_volumes(self._released(name))
        if not _is_own(found, run, token):
            return (_FOREIGN.format(what=f"the namespace {name!r}"),)

        def call(client: Client) -> list[PersistentVolumeClaim]:
            return list(client.list(PersistentVolumeClaim, namespace=name, labels={**selector()}))

        claims = self.connection.ask("list", "persistentvolumeclaims", call, namespace=name)
        volumes = [*_bound_volumes(claims), *self._released(name)]
        contents = self._snapshot_contents(name, selector())
        self._delete(Namespace, "namespaces", name)
        for _ in poll(_DEAD_S if self.dead_nodes else self.bound_s, self.go_on):
            found = self._owned_namespace(name, token)
            if found is None:
                return (*self._wait_for_snapshots(contents), *self._wait_for_volumes(volumes))
        conditions = (found.status.conditions if found and found.status else None) or ()
        messages = (condition.message for condition in conditions if condition.status == "True")
        reported = "; ".join(message for message in messages if message) or "nothing"
        return (f"the namespace {name!r} still exists; it reports: {reported}",)

    def _owned_namespace(self, name: str, token: str) -> Any | None:
        """Return the namespace while it exists with this token."""
        found = get_object(self.connection, Namespace, "namespaces", name)
        return found if found is not None and _label(found, TOKEN) == token else None

    def _wait_until_gone(
        self, namespace: str, run: str, token: str, volumes: Sequence[str]
    ) -> tuple[str, ...]:
        left: list[str] = []
        pods: list[Pod] = []
        bound = dict.fromkeys(volumes)
        for _ in poll(self.bound_s, self.go_on):
            pods = pods_of(self.connection, namespace, token)
            claims = claims_of(self.connection, namespace, token)
            # A claim may get its volume during its removal.
            bound |= dict.fromkeys(_bound_volumes(_own(claims, run, token)))
            left = [
                *(f"pod {pod.metadata.name}" for pod in pods if pod.metadata),
                *(f"claim {claim.metadata.name}" for claim in claims if claim.metadata),
            ]
            nodes = [pod.spec.nodeName if pod.spec else None for pod in pods]
            if not left or (nodes and all(node in self.dead_nodes for node in nodes)):
                break
        if left:
            self.dead_nodes |= {node for node in _nodes_of(pods) if self._is_dead(node)}
            return (f"the namespace {namespace!r} still has: {', '.join(left)}",)
        return self._wait_for_volumes(list(bound))

    def _is_dead(self, name: str) -> bool:
        """Return whether a node is gone or not ready, or may not be read."""
        node = if_allowed(partial(get_object, self.connection, Node, "nodes", name))
        conditions = (node.status.conditions if node and node.status else None) or ()
        return not any(item.type == "Ready" and item.status == "True" for item in conditions)

    def _snapshot_contents(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """Return the names of the contents of snapshots with these labels, which are set to be
        deleted with them. None where there are no snapshots, or where this user may not list
        them."""

        def listed() -> list[dict[str, Any]]:
            return list_owned(self.connection, SNAPSHOT, SNAPSHOTS, namespace, labels)

        found = []
        for snapshot in if_allowed(listed) or ():
            name = (snapshot.get("status") or {}).get("boundVolumeSnapshotContentName")
            if name:
                found.append(str(name))
                if_allowed(partial(delete_with_snapshot, self.connection, str(name)))
        return found

    def _wait_for_snapshots(self, contents: Iterable[str]) -> tuple[str, ...]:
        """Wait for the contents of snapshots, as for volumes."""
        left = self._left(CONTENT, CONTENTS, contents)
        return (f"contents of snapshots that are not gone: {', '.join(left)}",) if left else ()

    def _volumes(self, namespace: str, run: str, token: str) -> list[str]:
        """Return the names of the PersistentVolumes behind the claims of a run with a token."""
        return _bound_volumes(_own(claims_of(self.connection, namespace, token), run, token))

    def _released(self, namespace: str, prefix: str = f"{LEADLINE}-") -> list[str]:
        """Return the names of the PersistentVolumes of claims that are gone: of the claims in a
        namespace whose names begin with `prefix`. None where this user may not list them."""

        def call(client: Client) -> list[PersistentVolume]:
            return list(client.list(PersistentVolume))

        found = if_allowed(lambda: self.connection.ask("list", "persistentvolumes", call))
        return [
            str(volume.metadata.name)
            for volume in found or ()
            if volume.metadata and _is_released(volume, namespace, prefix)
        ]

    def _wait_for_volumes(self, volumes: Sequence[str]) -> tuple[str, ...]:
        """Wait until volumes are gone, also those of a class that retains them."""
        for volume in volumes:
            if_allowed(partial(delete_with_claim, self.connection, volume))
        left = self._left(PersistentVolume, "persistentvolumes", volumes)
        if not left:
            return ()
        lines = [
            line
            for name in left
            for line in format_events(events_of(self.connection, "default", name), 1)
        ]
        reason = f" ({'; '.join(lines)})" if lines else ""
        return (f"volumes that are not gone: {', '.join(left)}{reason}",)

    def _left(self, kind: Any, resource: str, names: Iterable[str]) -> list[str]:
        """Wait until objects are gone; those that are not. Where this user may not read them, gone
        claims and snapshots suffice."""
        waiting = list(names)
        if not waiting:
            return []
        for _ in poll(self.bound_s, self.go_on):
            waiting = [
                name
                for name in waiting
                if if_allowed(partial(get_object, self.connection, kind, resource, name))
                is not None
            ]
            if not waiting:
                break
        return waiting

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


def _nodes_of(pods: Iterable[Pod]) -> set[str]:
    return {pod.spec.nodeName for pod in pods if pod.spec and pod.spec.nodeName}


def other_runs(connection: Connection, run: str, namespace: str) -> tuple[str, ...]:
    """Return the runs with active Jobs, but `run`: of the whole cluster, or of a namespace where
    this user may not look further."""

    def jobs(where: str) -> list[Job] | None:
        def call(client: Client) -> list[Job]:
            return list(client.list(Job, namespace=where, labels={**selector()}))

        return if_allowed(lambda: connection.ask("list", "jobs.batch", call, namespace=where))

    found = jobs("*")
    if found is None:
        found = jobs(namespace) or []
    active = {_label(job, RUN) for job in found if job.status and job.status.active}
    return tuple(sorted(active - {label_value(run), ""}))


def _label(found: Any, key: str) -> str:
    labels = (found.metadata.labels if found.metadata else None) or {}
    return str(labels.get(key, ""))


def _is_own(found: Any, run: str, token: str) -> bool:
    """Return whether an object carries all labels of what a run makes with a token."""
    labels = (found.metadata.labels if found.metadata else None) or {}
    return bool(token) and labels_of(run, token).items() <= labels.items()


def _own(
    claims: Iterable[PersistentVolumeClaim], run: str, token: str
) -> list[PersistentVolumeClaim]:
    return [claim for claim in claims if _is_own(claim, run, token)]


def _bound_volumes(claims: Iterable[PersistentVolumeClaim]) -> list[str]:
    return [claim.spec.volumeName for claim in claims if claim.spec and claim.spec.volumeName]


def _is_released(volume: PersistentVolume, namespace: str, prefix: str) -> bool:
    """Return whether its claim was in the namespace, had that prefix, and is gone."""
    claim = volume.spec.claimRef if volume.spec else None
    if claim is None or not volume.status or volume.status.phase not in ("Released", "Failed"):
        return False
    return claim.namespace == namespace and (claim.name or "").startswith(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A namespace of a run (`namespace` is empty), or an object that owns the rest."""

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
    """List everything with Leadline's labels: of one run or of all, in one namespace or in all.
    Owners come first. Raises LeadlineError as Connection.ask."""
    found: list[Leftover] = []

    def add(kind: Any, resource: str, noun: str) -> None:
        where = None if kind is Namespace else namespace or "*"
        objects = connection.ask(
            "list",
            resource,
            lambda client: _list_owned(client, kind, where, run),
            namespace=namespace or "",
        )
        found.extend(
            Leftover(
                kind=noun,
                namespace="" if kind is Namespace else str(owned.metadata.namespace),
                name=str(owned.metadata.name),
                run=_label(owned, RUN),
                token=_label(owned, TOKEN),
            )
            for owned in objects
        )

    if not namespace:
        add(Namespace, "namespaces", "namespace")
    add(Job, "jobs.batch", "job")
    # A user who may not list virtual machines has no run that created one.
    if_allowed(lambda: add(VirtualMachine, MACHINES, "virtual machine"))
    return tuple(found)


def _list_owned(client: Any, kind: Any, namespace: str | None, run: str | None) -> list[Any]:
    from httpx2 import HTTPStatusError

    try:
        return list(client.list(kind, namespace=namespace, labels=selector(run)))
    except HTTPStatusError as error:
        if error.response is not None and error.response.status_code == 404:
            return []  # a cluster without KubeVirt
        raise


def remove(found: Iterable[Leftover], removal: Removal) -> tuple[list[str], list[str]]:
    """Remove leftovers and wait until their volumes are gone. Returns what was done and the
    problems, as sentences. Objects in a namespace that Leadline created go with it."""
    done: list[str] = []
    problems: list[str] = []
    gone: set[str] = set()
    for leftover in found:
        if leftover.namespace in gone:
            continue
        try:
            if leftover.kind == "namespace":
                left = removal.namespace(leftover.name, leftover.run, leftover.token)
                gone.add(leftover.name)
            else:
                remove_one = removal.job if leftover.kind == "job" else removal.machine
                left = remove_one(leftover.namespace, leftover.name, leftover.run, leftover.token)
        except LeadlineError as error:
            left = (f"{leftover} could not be removed: {error.fact}",)
        problems += left
        if not left:
            done.append(f"removed the {leftover}")
    return done, problems
