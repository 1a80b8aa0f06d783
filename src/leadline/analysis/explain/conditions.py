"""The configuration differences of two systems, and their explanations."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, TypeVar

from leadline import errors
from leadline.analysis.comparison import ComparedCell, Side
from leadline.analysis.explain.effects import find_effects
from leadline.analysis.explain.explain import explain
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.explain.systems import (
    ImageObjects,
    Network,
    SystemFacts,
    find_pool_facts,
    image_objects,
    summarise_network,
)
from leadline.analysis.workloads import duration_differences, workload_differences
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import Dumps, read_client_place, read_lab
from leadline.inventory.ceph.model import CephInventory
from leadline.inventory.ceph.topology import PlacementGroup, read_placement_groups
from leadline.inventory.diff import (
    Below,
    Difference,
    Differing,
    PossibleEffect,
    Topic,
    ceph_differences,
    cpu_budget_difference,
    facts_differences,
    host_differences,
    kubernetes_differences,
    layer_differences,
    round_trip_difference,
    shared_classes,
    zfs_differences,
)
from leadline.inventory.facts import cluster_facts, find_pool, target_facts
from leadline.inventory.kubernetes.classes import pool_of_class
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.system import System
from leadline.inventory.zfs import zfs_inventory
from leadline.plan.facts import GivenFacts
from leadline.plan.lab import LabDescription
from leadline.plan.models import Target
from leadline.plan.target_url import DATASET_PROPERTIES, ZPOOL_OPTIONS, TargetKind

Known = TypeVar("Known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Differences, identical properties, explanations, and properties that a system does not
    report."""

    differences: tuple[Difference, ...]
    identical: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    unknown: tuple[str, ...] = ()


def conditions(
    baseline: Side, candidate: Side, subjects: Sequence[str], cells: Sequence[ComparedCell]
) -> Conditions:
    """Compare the systems, workloads and targets of two archives."""
    sides = (baseline, candidate)
    clusters = system(baseline), system(candidate)
    around = kubernetes(baseline), kubernetes(candidate)
    trips = _round_trip_s(baseline), _round_trip_s(candidate)
    given = _given(baseline), _given(candidate)
    targets = {
        subject: [side.run.plan.target(side.targets[subject]) for side in sides]
        for subject in subjects
    }
    pools = _known_pairs(
        {
            subject: tuple(map(_pool_name, pair, clusters, around))
            for subject, pair in targets.items()
        }
    )
    classes: dict[str, tuple[str, str]] = {}
    parts: list[Differing] = []
    if around[0] and around[1]:
        classes = _known_pairs(
            {subject: tuple(map(_class_name, pair)) for subject, pair in targets.items()}
        )
        parts.append(kubernetes_differences(around[0], around[1], classes))
    if clusters[0] and clusters[1]:
        parts.append(ceph_differences(clusters[0], clusters[1], pools))
    if any(given) or any(target.facts for pair in targets.values() for target in pair):
        both = [
            {
                subject: target_facts(clusters[at], pair[at], around[at])
                for subject, pair in targets.items()
            }
            for at in (0, 1)
        ]
        parts.append(
            facts_differences(
                (cluster_facts(clusters[0], given[0]), cluster_facts(clusters[1], given[1])),
                {subject: (both[0][subject], both[1][subject]) for subject in targets},
                reported=set(pools) if clusters[0] and clusters[1] else None,
            )
        )
    budgets = [lab.cpu_per_host if (lab := recorded_lab(side)) else None for side in sides]
    single = (round_trip_difference(*trips), cpu_budget_difference(*budgets))
    parts.append(Differing(differences=tuple(filter(None, single))))
    hosts = baseline.run.inventory("start"), candidate.run.inventory("start")
    if hosts[0] and hosts[1]:
        names = {subject: (pair[0].name, pair[1].name) for subject, pair in targets.items()}
        parts.append(host_differences(hosts[0], hosts[1], names))
    elif baseline.run.path == candidate.run.path:
        parts.append(Differing(identical=("one run on one load generator",)))
    below = _known_pairs(
        {subject: tuple(_layers(side, subject) for side in sides) for subject in subjects}
    )
    parts += [layer_differences(below), zfs_differences(below)]
    found = [difference for part in parts for difference in part.differences]
    datasets = [subject for subject, pair in below.items() if all(layers.zfs for layers in pair)]
    stacked = {difference.target for difference in found if difference.path.startswith("stacks.")}
    stacked |= set(subjects) if "" in stacked else set()
    found += [
        difference
        for difference in _targets(targets, {*pools, *classes, *datasets})
        # The layers already report another kind.
        if not (difference.path.endswith(".kind") and difference.target in stacked)
    ]
    found += _workloads(baseline, candidate, subjects)
    found += _engines_and_preparation(baseline, candidate)
    dumps = dumps_of(baseline, "start"), dumps_of(candidate, "start")
    groups = placement_groups(baseline, dumps[0]), placement_groups(candidate, dumps[1])
    placements = _known_pairs(
        {
            subject: tuple(
                find_pool_facts(
                    clusters[at],
                    target,
                    around=around[at],
                    given=given[at],
                    groups=groups[at],
                    client=client_place(sides[at], dumps[at], clusters[at], target),
                    image=image_below(sides[at], subject),
                )
                for at, target in enumerate(pair)
            )
            for subject, pair in targets.items()
        }
    )
    facts = SystemFacts(
        pools=placements,
        networks={
            subject: (measured_network(baseline, subject), measured_network(candidate, subject))
            for subject in subjects
        },
        extents=_extents(sides, subjects),
        base_known=clusters[0] is not None,
        candidate_known=clusters[1] is not None,
        hosts_known=bool(hosts[0] and hosts[1]),
        given=any(given),
    )
    explained, explanations = explain(cells, found, facts)
    return Conditions(
        differences=explained,
        identical=tuple(label for part in parts for label in part.identical),
        explanations=explanations,
        unknown=_unknown_to_all(parts),
    )


def _unknown_to_all(parts: Sequence[Differing]) -> tuple[str, ...]:
    """Return the facts that no part knows: facts of the targets may state what inventories lack."""
    return tuple(
        label
        for label in dict.fromkeys(label for part in parts for label in part.unknown)
        if not any(label in part.known and label not in part.unknown for part in parts)
    )


def system(side: Side) -> CephInventory | None:
    """Return the Ceph cluster of a system's targets at the start; None without exactly one readable
    cluster."""
    name = only_cluster(side)
    try:
        return side.run.cluster("start", name) if name else None
    except LeadlineError:
        return None  # the audit and the page report it


def kubernetes(side: Side) -> KubernetesInventory | None:
    """Return the Kubernetes cluster of a system's targets, as `system` returns a Ceph cluster."""
    name = only_cluster(side)
    try:
        return side.run.kubernetes("start", name) if name else None
    except LeadlineError:
        return None  # the page reports it


def only_cluster(side: Side) -> str:
    """Return the cluster of all targets of a system; empty for several."""
    plan = side.run.plan
    clusters = {plan.target(name).cluster for name in side.targets.values()} - {""}
    return clusters.pop() if len(clusters) == 1 else ""


def recorded_lab(side: Side) -> LabDescription | None:
    """Return the lab that a system's cluster is, as the archive describes it; else None."""
    name = only_cluster(side)
    try:
        return read_lab(side.run.system_dumps("start", name)) if name else None
    except LeadlineError:
        return None  # as in `system`


def _round_trip_s(side: Side) -> float | None:
    """Compute the median over trials of the longest measured round trip between zones, in seconds;
    None if not measured."""
    longest = [
        max(trip.median_s for trip in trial.record.round_trips)
        for trial in side.run.trials
        if trial.record.round_trips and trial.record.target in side.targets.values()
    ]
    return median(longest) if longest else None


def measured_network(side: Side, subject: str) -> Network | None:
    return summarise_network(
        trial.record.round_trips
        for trial in side.run.trials
        if trial.record.target == side.targets[subject]
    )


def dumps_of(side: Side, moment: Literal["start", "end"]) -> Dumps:
    """Return the dumps of a system's cluster; empty where they are unknown."""
    name = only_cluster(side)
    try:
        return side.run.system_dumps(moment, name) if name else {}
    except LeadlineError:
        return {}  # as in `system`


def placement_groups(side: Side, dumps: Dumps) -> Mapping[int, Sequence[PlacementGroup]]:
    """Return the placement groups at the start of a run; without pools whose placement changed
    until the end."""
    try:
        start = read_placement_groups(dumps)
        end = read_placement_groups(dumps_of(side, "end")) if start else {}
    except LeadlineError:
        return {}  # as in `system`
    return {
        pool: groups for pool, groups in start.items() if set(end.get(pool, groups)) == set(groups)
    }


def image_below(side: Side, subject: str) -> ImageObjects | None:
    """Return the objects of the image that all load of a target goes to."""
    target = side.targets[subject]
    if any(cell.workload.clients > 1 for cell in side.run.plan.cells_of(target)):
        return None  # each client may have an image of its own
    try:
        return image_objects(side.run.stacks.get(target, ()))
    except LeadlineError:
        return None  # the page reports it


def client_place(
    side: Side, dumps: Dumps, inventory: CephInventory | None, target: Target
) -> Mapping[str, str]:
    """Return the CRUSH location of the load generator, name by level: that of a lab's clients, the
    one that the target's URL gives, or that of an OSD host of its name."""
    if target.url and target.parsed.hosts:
        return {}  # each host has a location of its own
    try:
        found = read_client_place(dumps)
    except LeadlineError:
        return {}  # as in `system`
    if found:
        return found
    written = target.parsed.options.get("crush_location", "") if target.url else ""
    if written:
        pairs = (part.partition(":") for part in written.split("|"))
        return {level: bucket for level, _, bucket in pairs}
    host = side.run.inventory("start")
    # Pods and virtual machines run on other machines than this one.
    local = host is not None and target.url and not target.parsed.kind.on_kubernetes
    if host is None or not local or inventory is None:
        return {}
    same = (osd for osd in inventory.osds if osd.host == host.hostname)
    osd = next(same, None)
    return {place.level: place.name for place in osd.location} if osd else {}


def _extents(sides: tuple[Side, Side], subjects: Sequence[str]) -> dict[tuple[str, str, str], int]:
    """Return the bytes that each workload touches, where it is the same on both systems."""
    found: list[dict[tuple[str, str, str], int]] = []
    for side in sides:
        found.append(
            {
                (subject, cell.workload.name, cell.level): max(1, cell.workload.clients)
                * max(phase.stretch for phase in cell.workload.phases)
                for subject in subjects
                for cell in side.run.plan.cells_of(side.targets[subject])
                if cell.workload.phases and not side.run.plan.imported
            }
        )
    return {key: min(size, found[1][key]) for key, size in found[0].items() if key in found[1]}


def _known_pairs(pairs: Mapping[str, tuple[Known | None, ...]]) -> dict[str, tuple[Known, Known]]:
    """Return (baseline, candidate) of the subjects for which both are known."""
    return {subject: (pair[0], pair[1]) for subject, pair in pairs.items() if pair[0] and pair[1]}


def _given(side: Side) -> GivenFacts | None:
    """Return the facts that a user gave about a system's cluster with imported results."""
    name = only_cluster(side)
    return side.run.plan.cluster(name).facts if name else None


def _pool_name(
    target: Target, inventory: CephInventory | None, around: KubernetesInventory | None
) -> str:
    pool = find_pool(inventory, target, around)
    return pool.name if pool else ""


def _class_name(target: Target) -> str:
    """Return the StorageClass of a target's volumes; empty for other targets."""
    if not target.url or target.parsed.kind is not TargetKind.STORAGE_CLASS:
        return ""
    return target.parsed.location


def _layers(side: Side, subject: str) -> Below | None:
    target = side.targets[subject]
    try:
        layers = side.run.stacks.get(target)
        dumps = side.run.target_dumps(target) if layers else {}
    except LeadlineError:
        return None  # the page reports it
    return Below(layers=layers, zfs=zfs_inventory(dumps)) if layers else None


def _targets(
    targets: Mapping[str, Sequence[Target]], known: Container[str]
) -> Iterator[Difference]:
    """Compare kind, URL and labels of the targets. For subjects whose pools or StorageClasses are
    `known`, a URL with another pool is no difference."""
    for subject, (baseline, candidate) in targets.items():
        found = {}
        if baseline.url and candidate.url and baseline.parsed.kind is not candidate.parsed.kind:
            found["kind"] = baseline.parsed.kind.value, candidate.parsed.kind.value
        if baseline.url != candidate.url and not (
            subject in known and _only_pools(baseline, candidate)
        ):
            found["url"] = baseline.url or "unknown", candidate.url or "unknown"
        for key in dict.fromkeys((*baseline.labels, *candidate.labels)):
            values = baseline.labels.get(key, "not set"), candidate.labels.get(key, "not set")
            if baseline.labels.get(key) != candidate.labels.get(key):
                found[f"labels.{key}"] = values
        for key, (left, right) in found.items():
            yield Difference(
                path=f"targets.{subject}.{key}",
                topic=Topic.WORKLOAD,
                baseline=left,
                candidate=right,
                target=subject,
            )


def _only_pools(baseline: Target, candidate: Target) -> bool:
    """Return whether two URLs differ only in their pools and in what the inventory of ZFS has."""
    left, right = baseline.parsed, candidate.parsed
    ignored = ("data_pool", *DATASET_PROPERTIES, *ZPOOL_OPTIONS)
    options = [
        {key: value for key, value in one.options.items() if key not in ignored}
        for one in (left, right)
    ]
    return (left.kind, options[0]) == (right.kind, options[1]) and not left.image + right.image


def _workloads(baseline: Side, candidate: Side, subjects: Sequence[str]) -> Iterator[Difference]:
    """Compare the settings of workloads: once if all targets have the same difference, else for
    each target."""
    on: dict[tuple[str, str], list[str]] = {}
    used: dict[str, set[str]] = {}
    for subject in subjects:
        first = {
            (cell.workload.name, cell.level): cell.workload
            for cell in baseline.run.plan.cells_of(baseline.targets[subject])
        }
        for cell in candidate.run.plan.cells_of(candidate.targets[subject]):
            mine = first.get((cell.workload.name, cell.level))
            if mine is None:
                continue
            used.setdefault(cell.workload.name, set()).add(subject)
            for text in (
                *workload_differences(mine, cell.workload),
                *duration_differences(mine, cell.workload),
            ):
                having = on.setdefault((cell.workload.name, text), [])
                having += [] if subject in having else [subject]
    for (workload, text), having in on.items():
        setting, _, values = text.partition(": ")
        left, _, right = values.partition(", ")
        for target in having if set(having) < used[workload] else [""]:
            yield Difference(
                path=f"workloads.{workload}.{setting}",
                topic=Topic.WORKLOAD,
                baseline=left,
                candidate=right,
                target=target,
            )


def _engines_and_preparation(baseline: Side, candidate: Side) -> Iterator[Difference]:
    """Compare the engines, and the preparation of trials: prefill and dropped caches."""
    left, right = (
        ", ".join(
            sorted(
                {
                    f"{trial.record.engine} {trial.record.engine_version}".rstrip()
                    for trial in side.run.trials
                    if trial.record.target in side.targets.values()
                }
            )
        )
        for side in (baseline, candidate)
    )
    if left and right and left != right:
        path = "engine.version"
        yield Difference(path=path, topic=Topic.CLIENT, baseline=left, candidate=right)
    for key in ("prefill", "drop_caches"):
        left, right = (
            "yes" if getattr(side.run.plan, key) else "no" for side in (baseline, candidate)
        )
        if left != right:
            path = f"plan.{key}"
            yield Difference(path=path, topic=Topic.WORKLOAD, baseline=left, candidate=right)


def with_possible_effects(difference: Difference) -> Difference:
    """Return a difference with all effects that it can have, whatever was measured."""
    effects = (
        PossibleEffect(
            mechanism=effect.mechanism,
            operations=effect.operations,
            concurrent_only=effect.concurrent_only,
        )
        for effect in find_effects(difference)
    )
    return replace(difference, explains=tuple(dict.fromkeys(effects)))


# --- two clusters without measurements -----------------------------------------------------------


def differing(base: System, candidate: System) -> Differing:
    """Compare two clusters; pools and StorageClasses match by name.

    Raises LeadlineError (`not-comparable`) if only one of them is Ceph or Kubernetes.
    """
    found: list[Differing] = []
    pools: dict[str, tuple[str, str]] = {}
    if base.kubernetes and candidate.kubernetes:
        classes = shared_classes(base.kubernetes, candidate.kubernetes)
        found.append(kubernetes_differences(base.kubernetes, candidate.kubernetes, classes))
        for subject, (first, second) in classes.items():
            left = pool_of_class(base.kubernetes, first)
            right = pool_of_class(candidate.kubernetes, second)
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
            "one is a Ceph cluster, the other a Kubernetes cluster without Ceph dumps",
            hint="save two clusters of the same kind: `leadline inventory --save DIR`",
        )
    return Differing(
        differences=tuple(
            with_possible_effects(difference)
            for differing in found
            for difference in differing.differences
        ),
        identical=tuple(dict.fromkeys(label for one in found for label in one.identical)),
        unknown=tuple(dict.fromkeys(what for one in found for what in one.unknown)),
    )
