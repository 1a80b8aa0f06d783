"""Facts of a user about the clusters and targets of an import, checked before they are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from leadline.inventory.facts import contradictions
from leadline.inventory.system import system_of
from leadline.plan.facts import FactsFile, FactsInvalid
from leadline.plan.faults import nearest_word
from leadline.plan.models import Cluster, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCluster:
    """A cluster of an import: the names of its targets, and the dumps of its inventory, if any."""

    targets: Collection[str]
    inventory: Mapping[str, bytes]


def check_names(given: FactsFile, clusters: Mapping[str, ImportedCluster]) -> None:
    """Raise LeadlineError(`facts-invalid`) for clusters and targets that no file has.

    Clusters and their targets that are imported by another command are no fault, unless the name is
    close to one that has no facts."""
    document, faults = given.document, given.faults
    bare = [name for name in clusters if name and name not in document.clusters]
    others = [name for name in document.clusters if name not in clusters]
    alone = len(others) == len(document.clusters)
    for name in others:
        near = nearest_word(name, bare)
        if alone or near:
            shown = ", ".join(sorted(filter(None, clusters))[:5]) or "none: name it with --cluster"
            faults.add(("clusters", name), f"no file is of this cluster; known are {shown}", near)
    for name, cluster in document.clusters.items():
        for target in cluster.targets if name in clusters else ():
            known = clusters[name].targets
            if target not in known:
                _add_target(given, ("clusters", name, "targets", target), known)
    known = [target for cluster in clusters.values() for target in cluster.targets]
    without = [target for target in known if target not in document.targets]
    for target in document.targets:
        if target not in known and (not others or nearest_word(target, without)):
            _add_target(given, ("targets", target), without)
    if faults.found:
        raise FactsInvalid(faults)


def _add_target(given: FactsFile, path: tuple[str, ...], known: Collection[str]) -> None:
    near = nearest_word(path[-1], known)
    given.faults.add(path, f"no file has a target {path[-1]!r}", near)


def check_against_inventory(
    given: FactsFile,
    label: str,
    cluster: Cluster,
    targets: Collection[Target],
    dumps: Mapping[str, bytes],
) -> None:
    """Raise LeadlineError(`facts-invalid`) that lists what the inventory contradicts, with both
    values."""
    inventory = system_of(dumps).ceph if dumps else None
    if inventory is None:
        return
    for found in contradictions(inventory, cluster, targets):
        given.faults.add(given.path_of(label, found.target, found.key), found.reason)
    if given.faults.found:
        raise FactsInvalid(given.faults)
