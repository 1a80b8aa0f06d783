"""A cluster from what was saved of it: raw dumps, or the JSON that `leadline inventory` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.kubernetes.kinds import holds_kubernetes
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory

# The name of an inventory that `leadline inventory --format json` printed, among the dumps.
SAVED = "leadline_inventory.json"
# More than any count of bytes, placement groups or operations.
_LARGEST = float(1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A cluster: Ceph, Kubernetes, or Ceph in Kubernetes (Rook)."""

    ceph: CephInventory | None
    kubernetes: KubernetesInventory | None


class _Saved(BaseModel):
    """The parts of the JSON that are an inventory; the others are computed from them."""

    model_config = ConfigDict(extra="ignore")

    schema_: str = Field(alias="schema", pattern=r"^leadline/inventory/1$")
    cluster: CephInventory | None = None
    kubernetes: KubernetesInventory | None = None


def system_of(dumps: Mapping[str, bytes]) -> System:
    """Parse the dumps of a cluster. Raises LeadlineError(`dumps-invalid`)."""
    if SAVED in dumps:
        return _saved(dumps[SAVED])
    if not holds_kubernetes(dumps):
        return System(ceph=cluster_inventory(dumps), kubernetes=None)
    kubernetes = kubernetes_inventory(dumps)
    return System(ceph=kubernetes.ceph, kubernetes=kubernetes)


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _integer(text: str) -> int:
    _number(text)
    return int(text)


def _check(inventory: CephInventory) -> None:
    """Raise ValueError for numbers that no dump gives, and that arithmetic relies on."""
    for pool in inventory.pools:
        if pool.size < 1 or (pool.erasure is not None and pool.erasure.k < 1):
            raise ValueError(f"the pool {pool.name!r} keeps no copy")
    if inventory.autoscaler.threshold <= 0:
        raise ValueError("the autoscaler's threshold is not above 0")


def _saved(content: bytes) -> System:
    try:
        document = json.loads(
            content, parse_int=_integer, parse_float=_number, parse_constant=_number
        )
        found = _Saved.model_validate(document)
        if found.cluster is not None:
            _check(found.cluster)
    except (ValidationError, ValueError, RecursionError) as error:
        context = [str(error)[:200]]
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            context = [f"{'.'.join(map(str, first['loc']))}: {first['msg']}"]
        raise LeadlineError(
            errors.DUMPS_INVALID,
            "the file is not an inventory of this version of Leadline",
            context=context,
            hint="save it: leadline inventory --format json > inventory.json",
        ) from error
    if found.cluster is None and found.kubernetes is None:
        raise LeadlineError(errors.DUMPS_INVALID, "the inventory names no cluster")
    if found.kubernetes is None:
        return System(ceph=found.cluster, kubernetes=None)
    kubernetes = found.kubernetes.model_copy(update={"ceph": found.cluster})
    return System(ceph=found.cluster, kubernetes=kubernetes)
