"""Differences of facts that a user gave, and of what an inventory of only one system reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leadline.inventory.diff.model import AT_REST, Collector, Differing, Fact, Topic
from leadline.plan.facts import ClusterFacts, TargetFacts
from leadline.text import counted
from leadline.units import format_size


def facts_differences(
    clusters: tuple[ClusterFacts, ClusterFacts],
    targets: Mapping[str, tuple[TargetFacts, TargetFacts]],
    *,
    reported: Collection[str] | None,
) -> Differing:
    """Compare two clusters and their targets by subject.

    `reported`: inventories of both systems have compared the pools of these subjects, so that only
    facts beyond an inventory are left; None without both inventories.
    """
    found = Collector()
    unknown = []
    for path, fact in _CLUSTER.items():
        texts = [fact.text(cluster) for cluster in clusters]
        if reported is not None and fact.key in _REPORTED:
            continue
        if texts == [None, None]:
            unknown.append(fact.what)
        found.compare(path, fact.topic, texts, what=fact.what, same=fact.same)
    for of_target in _TARGET:
        pairs = {
            subject: (of_target.text(baseline), of_target.text(candidate))
            for subject, (baseline, candidate) in targets.items()
            if not (of_target.key in _REPORTED and subject in (reported or ()))
        }
        if any(text for pair in pairs.values() for text in pair):
            found.known.add(of_target.what)
        elif pairs:
            unknown.append(of_target.what)
        equal = found.compare_subjects(
            "pools",
            of_target.key,
            of_target.topic,
            pairs,
            subjects=len(pairs),
            meanings=of_target.meaning,
        )
        found.label_subjects(of_target.what, equal, len(pairs), "targets")
    found.unknown += unknown
    return found.result()


# What an inventory reports too, unless it is unknown to the cluster.
_REPORTED = ("zones", "hosts", "osds", "failure_domain", "redundancy", "min_size", "device_class")


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _count(value: int | None, noun: str) -> str | None:
    return None if value is None else counted(value, noun)


def _redundancy(facts: TargetFacts) -> str | None:
    if facts.redundancy is None and facts.raw_per_stored is not None:
        return f"{facts.raw_per_stored:g} raw bytes per stored byte"
    return facts.redundancy


def _encrypted(facts: TargetFacts) -> str | None:
    return None if facts.encrypted is None else "yes" if facts.encrypted else "no"


_CLUSTER: Mapping[str, Fact[ClusterFacts]] = {
    "topology.zones": Fact(
        "zones", Topic.TOPOLOGY, lambda one: _count(one.zones, "zone"), what="zones", same=""
    ),
    "topology.hosts": Fact(
        "hosts", Topic.TOPOLOGY, lambda one: _count(one.nodes, "host"), what="number of hosts"
    ),
    "topology.osds": Fact(
        "osds", Topic.TOPOLOGY, lambda one: _count(one.osds, "osd"), what="number of OSDs"
    ),
    "nodes.cores": Fact(
        "cores", Topic.TOPOLOGY, lambda one: _number(one.cores_per_node), what="cores per node"
    ),
    "nodes.memory": Fact(
        "memory",
        Topic.TOPOLOGY,
        lambda one: format_size(one.memory_per_node) if one.memory_per_node else None,
        what="memory per node",
    ),
    "nodes.network": Fact(
        "network", Topic.TOPOLOGY, lambda one: one.network, what="network of nodes"
    ),
    "software.release": Fact("software", Topic.SOFTWARE, lambda one: one.software, what="software"),
}

_TARGET: tuple[Fact[TargetFacts], ...] = (
    Fact(
        "failure_domain",
        Topic.TOPOLOGY,
        lambda one: one.failure_domain,
        what="failure domain",
        meaning="each copy or shard is in another one of these",
    ),
    Fact("redundancy", Topic.REDUNDANCY, _redundancy, what="redundancy"),
    Fact("min_size", Topic.REDUNDANCY, lambda one: _number(one.min_size), what="min_size"),
    Fact("device_class", Topic.MEDIA, lambda one: one.media, what="media"),
    Fact("encrypted", Topic.ENCRYPTION, _encrypted, what=AT_REST),
    Fact(
        "access",
        Topic.VOLUMES,
        lambda one: None if one.access is None else ", ".join(one.access) or "none",
        what="access modes",
    ),
    Fact("cores", Topic.SERVICES, lambda one: _number(one.cores), what="cores of a target"),
    Fact("price", Topic.CAPACITY, lambda one: _number(one.price), what="price of a stored TiB"),
)
