"""How two clusters differ of which nothing was measured, with what each difference could account
for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from leadline import errors
from leadline.analysis.effects import Effect, effects_of
from leadline.errors import LeadlineError
from leadline.inventory.ceph import CephInventory
from leadline.inventory.ceph_reading import cluster_inventory
from leadline.inventory.differences import (
    Differing,
    ceph_differences,
    kubernetes_differences,
    shared_classes,
)
from leadline.inventory.differences.words import sentence
from leadline.inventory.kubernetes.kinds import holds_kubernetes
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.inventory.kubernetes.target_class import pool_of_class


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A cluster: its Ceph, its Kubernetes, or both where Rook runs the one in the other."""

    ceph: CephInventory | None
    kubernetes: KubernetesInventory | None


def system_of(dumps: Mapping[str, bytes]) -> System:
    """What dumps describe. Raises LeadlineError(`dumps-invalid`)."""
    if not holds_kubernetes(dumps):
        return System(ceph=cluster_inventory(dumps), kubernetes=None)
    kubernetes = kubernetes_inventory(dumps)
    return System(ceph=kubernetes.ceph, kubernetes=kubernetes)


def differing(base: System, candidate: System) -> Differing:
    """Pools and StorageClasses of one name are compared with each other. Raises LeadlineError
    (`not-comparable`) where the two have nothing of a kind."""
    found: list[Differing] = []
    pools: dict[str, tuple[str, str]] = {}
    if base.kubernetes and candidate.kubernetes:
        classes = shared_classes(base.kubernetes, candidate.kubernetes)
        found.append(kubernetes_differences(base.kubernetes, candidate.kubernetes, classes))
        for subject, (ours, theirs) in classes.items():
            left = pool_of_class(base.kubernetes, ours)
            right = pool_of_class(candidate.kubernetes, theirs)
            if left and right:
                pools[subject] = (left, right)
    if base.ceph and candidate.ceph:
        if not pools:
            names = {pool.name for pool in candidate.ceph.pools}
            pools = {one.name: (one.name, one.name) for one in base.ceph.pools if one.name in names}
        found.append(ceph_differences(base.ceph, candidate.ceph, pools))
    if not found:
        raise LeadlineError(
            errors.NOT_COMPARABLE,
            "one of the two is Ceph, the other a Kubernetes cluster without Ceph's answers",
            hint="save two of a kind: `leadline inventory --save DIR`",
        )
    return Differing(
        differences=tuple(
            replace(one, explains=_explains(effects_of(one)))
            for differing in found
            for one in differing.differences
        ),
        identical=tuple(dict.fromkeys(label for one in found for label in one.identical)),
        unknown=tuple(dict.fromkeys(what for one in found for what in one.unknown)),
    )


def _explains(effects: tuple[Effect, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence(one.mechanism) for one in effects))
