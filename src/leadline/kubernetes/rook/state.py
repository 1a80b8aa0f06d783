"""What Rook is told to run in a cluster, with the labels that say what of it is Leadline's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.kubernetes import kinds
from leadline.inventory.kubernetes.kinds import Kind
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.objects import dump_of
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.kubernetes.connection import Connection
from leadline.kubernetes.labels import LEADLINE, MANAGED_BY, TOKEN

Manifest = Mapping[str, Any]
_KINDS = (
    kinds.CEPH_CLUSTER,
    kinds.CEPH_BLOCK_POOL,
    kinds.CEPH_FILESYSTEM,
    kinds.STORAGE_CLASS,
    kinds.NODE,
)
# Without these a failure domain can still be found.
_OPTIONAL = (kinds.STORAGE_CLUSTER,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RookState:
    """`pools` by namespace and name, `classes` by name: objects as the server gives them."""

    inventory: KubernetesInventory
    pools: Mapping[tuple[str, str], Manifest]
    classes: Mapping[str, Manifest]


def read_rook(connection: Connection) -> RookState:
    """Raises LeadlineError: `cluster-unknown`, `kubernetes-unreachable`, `kubernetes-denied`."""
    listed = {kind: _listed(connection, kind) for kind in _KINDS}
    for kind in _OPTIONAL:
        try:
            listed[kind] = _listed(connection, kind)
        except LeadlineError as error:
            if error.kind is not errors.KUBERNETES_DENIED:
                raise
    return RookState(
        inventory=kubernetes_inventory({one.dump: dump_of(items) for one, items in listed.items()}),
        pools={
            (str(one["metadata"].get("namespace", "")), str(one["metadata"]["name"])): one
            for one in listed[kinds.CEPH_BLOCK_POOL]
        },
        classes={str(one["metadata"]["name"]): one for one in listed[kinds.STORAGE_CLASS]},
    )


def _listed(connection: Connection, kind: Kind) -> list[dict[str, Any]]:
    version = f"{kind.group}/v1" if kind.group else "v1"
    items = connection.listed(kind.group, "v1", kind.plural, kind.kind)
    return [{"apiVersion": version, "kind": kind.kind, **one} for one in items]


def is_ours(found: Manifest) -> bool:
    """Whether an object carries Leadline's label and a token."""
    labels = found["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == LEADLINE and bool(labels.get(TOKEN))


def is_going(found: Manifest) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))
