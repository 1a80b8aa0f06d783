"""What a plan from a cluster needs to know of it; nothing is changed there.

Only StorageClasses must be seen. What else this user may not see is told, and the plan is then
made without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.kinds import Kind
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.quantities import parse_quantity
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.kubernetes.connection import Connection
from leadline.kubernetes.permissions import RETAIN_RULES, allowed
from leadline.planning.models import Published, Quota, Survey

Seen = TypeVar("Seen")
_KINDS = (kinds.NODE, kinds.CSI_DRIVER, kinds.CSI_NODE, kinds.KUBEVIRT)


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

    found = {kinds.STORAGE_CLASS: _listed(connection, kinds.STORAGE_CLASS)}
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
        kubevirt=None if kinds.KUBEVIRT in refused else inventory.kubevirt is not None,
        patches_volumes=patches,
        published=seen("published capacities", lambda: _published(connection), {}),
        quotas=seen("quotas", lambda: _quotas(connection, namespace), ()),
        unseen=(
            *unseen,
            *(f"{gap.what}: {gap.reason}" for gap in inventory.gaps if gap.what != "Ceph"),
        ),
    )


def _listed(connection: Connection, kind: Kind) -> list[dict[str, Any]]:
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
