"""What a plan from a cluster needs to know of it; nothing is changed there.

Only StorageClasses must be seen. What else this user may not see is told, and the plan is then
made without it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from lightkube import ApiError, Client
from lightkube.resources.core_v1 import Node, ResourceQuota
from lightkube.resources.storage_v1 import CSIStorageCapacity, StorageClass
from lightkube.utils.quantity import parse_quantity as room_parse_quantity

from leadline import errors
from leadline.connect.kubernetes.client import RETAIN_RULES, Connection, allowed
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes.kinds import ObjectKind, parse_quantity
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.plan.target_url import VolumeMode
from leadline.planning.draft import Published, Quota, Survey
from leadline.units import format_size

Seen = TypeVar("Seen")
_KINDS = (ObjectKind.NODE, ObjectKind.CSI_DRIVER, ObjectKind.CSI_NODE, ObjectKind.KUBEVIRT)


def survey(connection: Connection, namespace: str | None) -> Survey:
    """A cluster as it is; `namespace` is that of the plan, whose quotas count. Raises
    LeadlineError: `cluster-unknown`, `kubernetes-unreachable`, `kubernetes-denied` where
    StorageClasses may not be seen."""
    unseen: list[str] = []

    def seen(what: str, ask: Callable[[], Seen], without: Seen) -> Seen:
        try:
            return ask()
        except LeadlineError as error:
            if error.kind is not errors.KUBERNETES_DENIED:
                raise
            unseen.append(f"{what}; {error.fact}; {error.hint}")
            return without

    found = {ObjectKind.STORAGE_CLASS: _listed(connection, ObjectKind.STORAGE_CLASS)}
    refused = set()
    for kind in _KINDS:
        nothing: list[dict[str, Any]] | None = None
        items = seen(kind.purpose, partial(_listed, connection, kind), nothing)
        if items is None:
            refused.add(kind)
        else:
            found[kind] = items
    inventory = kubernetes_inventory({kind.dump: dump_of(items) for kind, items in found.items()})
    patches = seen(
        "whether this user may patch volumes",
        lambda: allowed(connection, RETAIN_RULES[0], ""),
        None,
    )
    return Survey(
        inventory=inventory,
        kubevirt=None if ObjectKind.KUBEVIRT in refused else inventory.kubevirt is not None,
        patches_volumes=patches,
        published=seen("published capacities", lambda: _published(connection), {}),
        quotas=seen("quotas", lambda: _quotas(connection, namespace), ()),
        unseen=(
            *unseen,
            *(f"{gap.what}: {gap.reason}" for gap in inventory.gaps if gap.what != "Ceph"),
        ),
    )


def _listed(connection: Connection, kind: ObjectKind) -> list[dict[str, Any]]:
    for version in kind.versions:
        items = connection.listed(kind.group, version, kind.plural, kind.kind)
        if items:
            # The items of a list do not always say what they are.
            api_version = f"{kind.group}/{version}" if kind.group else version
            return [{"apiVersion": api_version, "kind": kind.kind, **one} for one in items]
    return []


def _published(connection: Connection) -> dict[str, Published]:
    listed = connection.listed("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
    found: dict[str, Published] = {}
    for one in listed:
        name = str(one.get("storageClassName", ""))
        capacity = _number(one.get("capacity"))
        # `capacity` bounds a volume too where the driver gives no bound of its own.
        largest = _number(one.get("maximumVolumeSize")) or capacity
        before = found.get(name, Published(largest=0, total=0))
        found[name] = Published(
            largest=max(before.largest, int(largest)), total=before.total + int(capacity)
        )
    return found


def _quotas(connection: Connection, namespace: str | None) -> tuple[Quota, ...]:
    if not namespace:
        return ()
    found = []
    for one in connection.listed("", "v1", "resourcequotas", "ResourceQuota", namespace):
        status = one.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        left = {key: _number(most) - _number(used.get(key)) for key, most in hard.items()}
        found.append(Quota(name=str(one["metadata"]["name"]), left=left))
    return tuple(sorted(found, key=lambda quota: quota.name))


def _number(quantity: object) -> float:
    return parse_quantity(str(quantity)) or 0.0 if quantity is not None else 0.0


# StorageClasses, and what can be said of one before a volume of it is made.

# Provisioners whose volumes are folders of a shared or local file system, never block devices
# (their own documentation).
FOLDERS_ONLY = (
    "rancher.io/local-path",
    "cephfs.csi.ceph.com",
    "nfs.csi.k8s.io",
    "k8s-sigs.io/nfs-subdir-external-provisioner",
    "efs.csi.aws.com",
    "file.csi.azure.com",
    "filestore.csi.storage.gke.io",
    "smb.csi.k8s.io",
    "driver.longhorn.io/nfs",
    "openebs.io/nfsrwx",
)
# Volumes of this are made by hand; a claim waits for one that somebody made.
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def list_classes(connection: Connection) -> list[StorageClass]:
    return connection.ask(
        "list", "storageclasses.storage.k8s.io", lambda client: list(client.list(StorageClass))
    )


def find_class(connection: Connection, name: str, where: list[str]) -> StorageClass:
    """Raises LeadlineError(`class-unsuitable`) where there is none of that name."""
    try:
        return connection.ask(
            "get",
            "storageclasses.storage.k8s.io",
            lambda client: client.get(StorageClass, name),
            name=name,
        )
    except ApiError as error:
        known = [named(one) for one in list_classes(connection)]
        near = difflib.get_close_matches(name, known, n=1)
        raise LeadlineError(
            errors.CLASS_UNSUITABLE,
            f"the cluster {connection.context} has no StorageClass {name!r}",
            context=[*where, f"StorageClasses: {', '.join(known) or 'none'}"],
            hint=f"did you mean storageclass:{near[0]}?" if near else "name one of them",
        ) from error


def named(found: StorageClass) -> str:
    return str(found.metadata.name) if found.metadata else ""


def folders_only(found: StorageClass) -> bool:
    """Whether the class is known to give no raw block devices."""
    provisioner = found.provisioner
    return any(provisioner == one or provisioner.endswith(f".{one}") for one in FOLDERS_ONLY)


def mode_for(found: StorageClass, asked: VolumeMode | None, where: list[str]) -> VolumeMode:
    """Raw block where the class can, unless asked otherwise: a file on a file system inside a
    volume hides the volume. Raises LeadlineError(`class-unsuitable`) for raw block of a class that
    cannot."""
    if folders_only(found):
        if asked is VolumeMode.BLOCK:
            raise LeadlineError(
                errors.CLASS_UNSUITABLE,
                f"the StorageClass {named(found)!r} gives no raw block devices",
                context=[*where, f"its provisioner is {found.provisioner}"],
                hint="use mode=filesystem, or leave mode away",
            )
        return VolumeMode.FILESYSTEM
    return asked or VolumeMode.BLOCK


def keeps_volumes(found: StorageClass) -> bool:
    """Whether volumes of the class outlive their claims."""
    return found.reclaimPolicy == "Retain"


# Whether there is room for what a run asks of a cluster: nodes, quotas, capacity.

Found = TypeVar("Found")
ZONE = "topology.kubernetes.io/zone"


def nodes(connection: Connection) -> list[Node]:
    return connection.ask("list", "nodes", lambda client: list(client.list(Node)))


def require_place(
    connection: Connection, node: str, zone: str, selector: Mapping[str, str], where: list[str]
) -> None:
    """Raise LeadlineError(`target-invalid`) where no node is of that name, zone or labels."""
    if not node and not zone and not selector:
        return
    known = nodes(connection)
    names = [_name(one) for one in known]
    if node and node not in names:
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"the cluster has no node {node!r}",
            context=[*where, f"nodes: {_few(names)}"],
        )
    zones = sorted({_labels(one)[ZONE] for one in known if ZONE in _labels(one)})
    if zone and zone not in zones:
        raise LeadlineError(
            errors.TARGET_INVALID,
            f"no node of the cluster is in a zone {zone!r}",
            context=[*where, f"zones: {_few(zones) or 'none of the nodes has the label ' + ZONE}"],
        )
    if selector and not any(selector.items() <= _labels(one).items() for one in known):
        wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
        raise LeadlineError(
            errors.TARGET_INVALID, f"no node has the labels {wanted}", context=where
        )


def require_quota(
    connection: Connection, namespace: str, needs: Mapping[str, int], where: list[str]
) -> None:
    """Raise LeadlineError(`quota-exceeded`) where a quota of the namespace leaves less than is
    needed of anything (`requests.storage` in bytes, `pods`). One that may not be read is not."""

    def call(client: Client) -> list[ResourceQuota]:
        return list(client.list(ResourceQuota, namespace=namespace))

    for quota in _if_allowed(connection, "resourcequotas", call, namespace):
        hard = (quota.status.hard if quota.status else None) or {}
        used = (quota.status.used if quota.status else None) or {}
        for key, need in needs.items():
            if key not in hard:
                continue
            left = _room_number(hard[key]) - _room_number(used.get(key, "0"))
            if need > left:
                name = quota.metadata.name if quota.metadata else ""
                raise LeadlineError(
                    errors.QUOTA_EXCEEDED,
                    f"the quota {name!r} of the namespace {namespace!r} leaves "
                    f"{_told(key, left)} of {key}; {_told(key, need)} are needed",
                    context=where,
                    hint="use a smaller size or count, another --namespace, or have it raised",
                )


def require_capacity(
    connection: Connection, storage_class: str, size_bytes: int, where: list[str]
) -> None:
    """Raise LeadlineError(`target-no-space`) where the class's driver publishes capacity
    (CSIStorageCapacity) and nowhere has enough for one volume."""

    def call(client: Client) -> list[CSIStorageCapacity]:
        found = client.list(CSIStorageCapacity, namespace="*")
        return [one for one in found if one.storageClassName == storage_class]

    published = _if_allowed(connection, "csistoragecapacities.storage.k8s.io", call, "")
    largest = [_room_number(one.maximumVolumeSize or one.capacity or "0") for one in published]
    if largest and max(largest) < size_bytes:
        raise LeadlineError(
            errors.TARGET_NO_SPACE,
            f"the driver of the StorageClass {storage_class!r} has room for "
            f"{format_size(int(max(largest)))} at most; a volume is {format_size(size_bytes)}",
            context=where,
            hint="make the plan smaller with --size, or the volume with size=",
        )


def _if_allowed(
    connection: Connection, resource: str, call: Callable[[Client], list[Found]], namespace: str
) -> list[Found]:
    """What is listed; nothing where this user may not see it: the cluster then refuses later."""
    try:
        return connection.ask("list", resource, call, namespace=namespace)
    except LeadlineError as error:
        if error.kind is errors.KUBERNETES_DENIED:
            return []
        raise


def _room_number(quantity: str) -> Decimal:
    return room_parse_quantity(quantity) or Decimal(0)


def _told(key: str, amount: int | Decimal) -> str:
    return (
        format_size(int(amount))
        if "storage" in key or "memory" in key
        else f"{Decimal(amount).normalize():f}"
    )


def _labels(node: Node) -> Mapping[str, str]:
    return (node.metadata.labels if node.metadata else None) or {}


def _name(node: Node) -> str:
    return str(node.metadata.name) if node.metadata else ""


def _few(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
