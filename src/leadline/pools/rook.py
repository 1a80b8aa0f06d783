"""Creation and removal of the study's pools through Rook.

Every object is created with a label, noted, and removed where the command fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lightkube import ApiError, Client
from lightkube.generic_resource import create_global_resource, create_namespaced_resource

from leadline import errors
from leadline.connect.kubernetes.client import Connection, poll
from leadline.connect.kubernetes.objects import (
    TOKEN,
    events_of,
    format_events,
    get_object,
    labels_of,
    new_token,
)
from leadline.errors import LeadlineError
from leadline.pools.ceph import await_placement_groups
from leadline.pools.ceph_state import Commands
from leadline.pools.rook_recipes import CLASS, FILESYSTEM, POOL, ceph_pools
from leadline.pools.rook_resources import Manifest, is_being_deleted, is_owned

Note = Callable[[str], None]
OWNER = "pools"
WAIT_S = 180.0
# Rook reports Failure and retries at once: a short Failure is ignored.
FAILURE_S = 10.0
# The resource of each kind, and its name as RBAC writes it.
_KINDS = {
    POOL[1]: (
        create_namespaced_resource("ceph.rook.io", "v1", POOL[1], "cephblockpools"),
        "cephblockpools.ceph.rook.io",
    ),
    FILESYSTEM[1]: (
        create_namespaced_resource("ceph.rook.io", "v1", FILESYSTEM[1], "cephfilesystems"),
        "cephfilesystems.ceph.rook.io",
    ),
    CLASS[1]: (
        create_global_resource("storage.k8s.io", "v1", CLASS[1], "storageclasses"),
        "storageclasses.storage.k8s.io",
    ),
}


class RookPools:
    """Changes pools of one cluster. `note` gets progress; `wait_s` limits each wait. `ceph` are
    commands of its Ceph, None where they cannot be given."""

    def __init__(
        self,
        connection: Connection,
        *,
        note: Note,
        wait_s: float | None = None,
        ceph: Commands | None = None,
    ) -> None:
        self._connection = connection
        self._note = note
        self._ceph = ceph
        self._wait_s = WAIT_S if wait_s is None else wait_s

    def create(self, makes: Sequence[Manifest], awaits: Sequence[Manifest], warn: Note) -> None:
        """Create objects, pools before classes, and wait until Rook has created the pools and those
        of `awaits`, which exist already, and their placement groups are active and clean.

        After any failure, also Ctrl-C, everything that this call created is removed. Raises
        LeadlineError: `kubernetes-denied`, `kubernetes-failed`, `kubernetes-unreachable`.
        """
        pools = [make for make in makes if make["kind"] != CLASS[1]]
        classes = [make for make in makes if make["kind"] == CLASS[1]]
        made: list[Manifest] = []
        try:
            for pool in pools:
                self._make(pool, made)
            for pool in [*awaits, *pools]:
                self._await_ready(pool)
            self._await_placement_groups([*awaits, *pools], warn)
            # Last: a class must not offer volumes of a pool that does not exist.
            for storage_class in classes:
                self._make(storage_class, made)
        except BaseException as error:
            if made:
                cause = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                self._note(f"{cause}: removing what was created")
                for problem in self._undo(made):
                    warn(problem)
            raise

    def try_out(self, makes: Sequence[Manifest]) -> None:
        """Let the API server check objects without storing them: schemas, permissions, webhooks.
        Raises LeadlineError as `create`."""
        for make in makes:
            self._create(_labelled(make, new_token()), dry_run=True)

    def remove(self, classes: Sequence[Manifest], pools: Sequence[Manifest], check: Note) -> None:
        """Remove classes, then pools, each only while it carries the token that it was found with.
        After the classes are gone, `check` gets the name of each pool and raises where the pool
        must stay. Raises LeadlineError as `create`."""
        for storage_class in classes:
            self._note(f"removing the StorageClass {_name(storage_class)}")
            self._delete(storage_class)
        for pool in pools:
            check(_name(pool))
        for pool in pools:
            self._note(f"removing the pool {_name(pool)}")
            self._delete(pool)
        for pool in pools:
            self._await_gone(pool)

    def _make(self, wanted: Manifest, made: list[Manifest]) -> None:
        self._note(f"creating the {wanted['kind']} {wanted['metadata']['name']}")
        labelled = _labelled(wanted, new_token())
        made.append(labelled)  # first: an interrupted request may still take effect
        self._create(labelled, dry_run=False)

    def _create(self, wanted: Manifest, *, dry_run: bool) -> None:
        kind, namespace = _resource(wanted), _namespace(wanted)

        def call(client: Client) -> Any:
            where = {"namespace": namespace} if namespace else {}
            return client.create(kind(dict(wanted)), dry_run=dry_run, **where)

        resource, name = _resource_name(wanted), _name(wanted)
        try:
            self._connection.ask("create", resource, call, namespace=namespace, name=name)
        except ApiError as error:
            existing = self._found(wanted)
            if existing is not None and _token(existing) == _token(wanted):
                return  # the answer of an earlier request was lost
            raise LeadlineError(
                errors.KUBERNETES_FAILED,
                f"the {wanted['kind']} {name!r} could not be created",
                context=[str(error.status.message or error)],
                hint="another user created or removed one meanwhile: run the command again",
            ) from error

    def _await_placement_groups(self, pools: Sequence[Manifest], warn: Note) -> None:
        if not pools:
            return
        names = [name for pool in pools for name in ceph_pools(pool)]
        reason = "no pod rook-ceph-tools runs"
        if self._ceph is not None:
            try:
                await_placement_groups(self._ceph, names, note=self._note, wait_s=self._wait_s)
            except LeadlineError as error:
                if error.kind is not errors.KUBERNETES_DENIED:
                    raise
                reason = error.fact
            else:
                return
        warn(f"it is unknown whether placement groups are active and clean: {reason}")

    def _await_ready(self, wanted: Manifest) -> None:
        name = wanted["metadata"]["name"]
        self._note(f"waiting for Rook to create the pool {name}")
        phase, failing_since = "", None
        for _ in poll(self._wait_s, lambda: None):
            found = self._found(wanted)
            if found is None:
                raise LeadlineError(
                    errors.KUBERNETES_FAILED, f"the {wanted['kind']} {name!r} was removed meanwhile"
                )
            phase = str((found.get("status") or {}).get("phase") or "")
            if phase == "Ready":
                return
            if phase != "Failure":
                failing_since = None
            else:
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since >= FAILURE_S:
                    raise LeadlineError(
                        errors.KUBERNETES_FAILED,
                        f"Rook could not create the pool {name!r}",
                        context=self._reported(found),
                        hint="the operator's log has more: "
                        f"kubectl -n {_namespace(wanted)} logs deploy/rook-ceph-operator",
                    )
        found = self._found(wanted) or {}
        raise LeadlineError(
            errors.KUBERNETES_FAILED,
            f"after {self._wait_s:g} s the pool {name!r} is not Ready but "
            f"{phase or 'without a phase'}",
            context=self._reported(found),
            hint="is Rook's operator running? --wait allows more time",
        )

    def _await_gone(self, gone: Manifest) -> None:
        found: Manifest | None = None
        for _ in poll(self._wait_s, lambda: None):
            found = self._found(gone)
            if found is None or _token(found) != _token(gone):
                return
        raise LeadlineError(
            errors.KUBERNETES_FAILED,
            f"after {self._wait_s:g} s the pool {gone['metadata']['name']!r} still exists",
            context=self._reported(found or {}),
            hint="Rook removes only an empty pool: look for foreign images; "
            "`leadline pools remove --kube` continues to wait",
        )

    def _reported(self, found: Manifest) -> list[str]:
        """Return what the operator reports about an object: its status and the last events."""
        if not found:
            return []
        status = found.get("status") or {}
        lines = [f"{key}: {value}" for key, value in sorted((status.get("info") or {}).items())]
        for condition in status.get("conditions") or ():
            if condition.get("message"):
                lines.append(
                    f"{condition.get('type')}={condition.get('status')}: {condition['message']}"
                )
        events = events_of(self._connection, _namespace(found), str(found["metadata"]["name"]))
        return [*lines, *format_events(events)] or ["it reports no reason"]

    def _found(self, wanted: Manifest) -> Manifest | None:
        kind, resource, name = _resource(wanted), _resource_name(wanted), _name(wanted)
        found = get_object(self._connection, kind, resource, name, _namespace(wanted))
        return None if found is None else {**found, "kind": wanted["kind"]}

    def _delete(self, gone: Manifest) -> None:
        found = self._found(gone)
        if found is None or not is_owned(found) or is_being_deleted(found):
            return
        if _token(found) != _token(gone):
            return
        kind, namespace, name = _resource(gone), _namespace(gone), _name(gone)

        def call(client: Client) -> None:
            client.delete(kind, name, namespace=namespace or None)

        resource = _resource_name(gone)
        try:
            self._connection.ask("delete", resource, call, namespace=namespace, name=name)
        except ApiError as error:
            if error.status.code != 404:
                raise LeadlineError(
                    errors.KUBERNETES_FAILED,
                    f"the {gone['kind']} {name!r} could not be removed",
                    context=[str(error.status.message or error)],
                ) from error

    def _undo(self, made: Sequence[Manifest]) -> list[str]:
        """Undo creations; return the problems as sentences, so that they do not hide the first
        error."""
        problems = []
        for item in reversed(made):
            try:
                self._delete(item)
            except LeadlineError as error:
                problems.append(f"{item['kind']} {item['metadata']['name']} stays: {error.fact}")
        for item in made:
            try:
                if item["kind"] != CLASS[1]:
                    self._await_gone(item)
            except LeadlineError as error:
                problems.append("; ".join([error.fact, *error.context]))
        return problems


def _labelled(wanted: Manifest, token: str) -> Manifest:
    metadata = {**wanted["metadata"], "labels": dict(labels_of(OWNER, token))}
    return {**wanted, "metadata": metadata}


def _resource(wanted: Manifest) -> Any:
    return _KINDS[wanted["kind"]][0]


def _resource_name(wanted: Manifest) -> str:
    return _KINDS[wanted["kind"]][1]


def _name(wanted: Manifest) -> str:
    return str(wanted["metadata"]["name"])


def _namespace(wanted: Manifest) -> str:
    return str(wanted["metadata"].get("namespace", ""))


def _token(found: Manifest) -> str:
    return str((found["metadata"].get("labels") or {}).get(TOKEN, ""))


# The pools and the filesystem of a class, or of a volume.
_PLACES = ("pool", "dataPool", "fsName")
_DRIVERS = ("rbd.csi.ceph.com", "cephfs.csi.ceph.com")


def list_volumes(connection: Connection) -> list[dict[str, Any]]:
    """List PersistentVolumes. Raises LeadlineError as Connection.ask: removal needs this list."""
    return connection.listed("", "v1", "persistentvolumes", "PersistentVolume")


def volumes_of(
    volumes: Sequence[Manifest],
    elsewhere: Collection[str],
    classes: Collection[str],
    pools: Collection[str],
) -> list[str]:
    """Return the PersistentVolumes of classes, or in pools of these names, as sentences.
    `elsewhere` are the namespaces of other Ceph clusters, which may have pools of the same
    names."""
    found = []
    for volume in volumes:
        spec = volume.get("spec") or {}
        csi = spec.get("csi") or {}
        attributes: Mapping[str, str] = csi.get("volumeAttributes") or {}
        where = (attributes.get(key) for key in _PLACES)
        inside = set(where) & set(pools)
        # A volume without a known cluster may be here.
        here = attributes.get("clusterID") not in elsewhere
        ceph = str(csi.get("driver", "")).endswith(_DRIVERS)
        if spec.get("storageClassName") in classes or (ceph and inside and here):
            claim = spec.get("claimRef") or {}
            whose = f" of the claim {claim.get('namespace')}/{claim.get('name')}" if claim else ""
            found.append(f"{volume['metadata']['name']}{whose}")
    return sorted(found)


def classes_on(classes: Mapping[str, Manifest], namespace: str, pool: str) -> list[str]:
    """Return the StorageClasses that create volumes in a pool of the cluster in a namespace."""
    found = []
    for name, found_class in classes.items():
        given = found_class.get("parameters") or {}
        secrets = given.get("csi.storage.k8s.io/provisioner-secret-namespace")
        here = namespace in (given.get("clusterID"), secrets)
        if here and pool in [given.get(key) for key in _PLACES]:
            found.append(name)
    return sorted(found)
