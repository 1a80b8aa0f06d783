"""Whether there is room for what a run asks of a cluster: nodes, quotas, capacity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar

from lightkube import Client
from lightkube.resources.core_v1 import Node, ResourceQuota
from lightkube.resources.storage_v1 import CSIStorageCapacity
from lightkube.utils.quantity import parse_quantity

from leadline import errors
from leadline.errors import LeadlineError
from leadline.kubernetes.connection import Connection
from leadline.units import format_size

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
            left = _number(hard[key]) - _number(used.get(key, "0"))
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
    largest = [_number(one.maximumVolumeSize or one.capacity or "0") for one in published]
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


def _number(quantity: str) -> Decimal:
    return parse_quantity(quantity) or Decimal(0)


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
