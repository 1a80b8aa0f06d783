"""The configuration differences of two systems, and their explanations."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from leadline import errors
from leadline.analysis.comparison import ComparedCell, Side
from leadline.analysis.explain.effects import find_effects
from leadline.analysis.explain.explain import explain
from leadline.analysis.explain.facts import Explanation
from leadline.analysis.explain.systems import ReadFrom, collect_facts
from leadline.analysis.workloads import extent, unlike
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import read_lab
from leadline.inventory.ceph.model import CephInventory, find_pool
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.diff import (
    Below,
    Difference,
    Differing,
    PossibleEffect,
    Topic,
    ceph_differences,
    cpu_budget_difference,
    host_differences,
    kubernetes_differences,
    layer_differences,
    round_trip_difference,
    shared_classes,
    zfs_differences,
)
from leadline.inventory.kubernetes.classes import pool_of_class, reads_near
from leadline.inventory.kubernetes.kinds import holds_kubernetes
from leadline.inventory.kubernetes.models import KubernetesInventory
from leadline.inventory.kubernetes.reading import kubernetes_inventory
from leadline.inventory.zfs import zfs_inventory
from leadline.plan.models import Target
from leadline.plan.target_url import DATASET_PROPERTIES, TargetKind


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
    clusters = system(baseline), system(candidate)
    around = kubernetes(baseline), kubernetes(candidate)
    trips = round_trip_s(baseline), round_trip_s(candidate)
    pools = _pools(baseline, candidate, subjects, clusters, around)
    names = {
        subject: (baseline.targets[subject], candidate.targets[subject]) for subject in subjects
    }
    classes: dict[str, tuple[str, str]] = {}
    parts: list[Differing] = []
    if around[0] and around[1]:
        classes = _classes(baseline, candidate, subjects)
        parts.append(kubernetes_differences(around[0], around[1], classes))
    if clusters[0] and clusters[1]:
        parts.append(ceph_differences(clusters[0], clusters[1], pools))
    single = (
        round_trip_difference(*trips),
        cpu_budget_difference(cpu_budget(baseline), cpu_budget(candidate)),
    )
    parts.append(Differing(differences=tuple(filter(None, single))))
    hosts = baseline.run.inventory("start"), candidate.run.inventory("start")
    if hosts[0] and hosts[1]:
        parts.append(host_differences(hosts[0], hosts[1], names))
    elif baseline.run.path == candidate.run.path:
        parts.append(Differing(identical=("one run on one load generator",)))
    below = _below(baseline, candidate, subjects)
    parts += [layer_differences(below), zfs_differences(below)]
    found = [difference for part in parts for difference in part.differences]
    datasets = [subject for subject, pair in below.items() if all(layers.zfs for layers in pair)]
    stacked = {difference.target for difference in found if difference.path.startswith("stacks.")}
    stacked |= set(subjects) if "" in stacked else set()
    found += [
        difference
        for difference in _targets(baseline, candidate, subjects, {*pools, *classes, *datasets})
        # The layers already report another kind.
        if not (difference.path.endswith(".kind") and difference.target in stacked)
    ]
    found += _workloads(baseline, candidate, subjects)
    found += _engines(baseline, candidate)
    found += _plans(baseline, candidate)
    facts = collect_facts(
        *clusters,
        pools,
        *trips,
        reads={
            subject: (_reads(baseline, subject, around[0]), _reads(candidate, subject, around[1]))
            for subject in subjects
        },
        hosts_known=bool(hosts[0] and hosts[1]),
    )
    explained, explanations = explain(cells, found, facts)
    return Conditions(
        differences=explained,
        identical=tuple(label for part in parts for label in part.identical),
        explanations=explanations,
        unknown=tuple(dict.fromkeys(label for part in parts for label in part.unknown)),
    )


def system(side: Side) -> CephInventory | None:
    """Return the Ceph cluster of a system's targets at the start; None without exactly one readable
    cluster."""
    name = _only_cluster(side)
    try:
        return side.run.cluster("start", name) if name else None
    except LeadlineError:
        return None  # the audit and the page report it


def kubernetes(side: Side) -> KubernetesInventory | None:
    """Return the Kubernetes cluster of a system's targets, as `system` returns a Ceph cluster."""
    name = _only_cluster(side)
    try:
        return side.run.kubernetes("start", name) if name else None
    except LeadlineError:
        return None  # the page reports it


def _only_cluster(side: Side) -> str:
    """Return the cluster of all targets of a system; empty for several."""
    plan = side.run.plan
    clusters = {plan.target(name).cluster for name in side.targets.values()} - {""}
    return clusters.pop() if len(clusters) == 1 else ""


def cpu_budget(side: Side) -> float | None:
    """Return the CPU quota of each host of the lab in cores; None without one."""
    name = _only_cluster(side)
    try:
        lab = read_lab(side.run.system_dumps("start", name)) if name else None
    except LeadlineError:
        return None  # as in `system`
    return lab.cpu_per_host if lab is not None else None


def round_trip_s(side: Side) -> float | None:
    """Compute the median over trials of the longest measured round trip between zones, in seconds;
    None if not measured."""
    names = set(side.targets.values())
    longest = [
        max(one.median_s for one in trial.record.round_trips)
        for trial in side.run.trials
        if trial.record.round_trips and trial.record.target in names
    ]
    return median(longest) if longest else None


def _pools(
    baseline: Side,
    candidate: Side,
    subjects: Sequence[str],
    systems: tuple[CephInventory | None, CephInventory | None],
    around: tuple[KubernetesInventory | None, KubernetesInventory | None],
) -> dict[str, tuple[str, str]]:
    """Return the pools of each subject, (baseline, candidate), where both are known."""
    found = {}
    for subject in subjects:
        mine = _pool_name(_target(baseline, subject), systems[0], around[0])
        its = _pool_name(_target(candidate, subject), systems[1], around[1])
        if mine and its:
            found[subject] = (mine, its)
    return found


def _pool_name(
    target: Target, inventory: CephInventory | None, around: KubernetesInventory | None
) -> str | None:
    if inventory is None or not target.url:
        return None
    name = _class_name(target)
    if name:
        return (pool_of_class(around, name) if around else "") or None
    pool = find_pool(inventory, target.parsed)
    return pool.name if pool else None


def _class_name(target: Target) -> str:
    """Return the StorageClass of a target's volumes; empty for other targets."""
    if not target.url or target.parsed.kind is not TargetKind.STORAGE_CLASS:
        return ""
    return target.parsed.location


def _classes(
    baseline: Side, candidate: Side, subjects: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return the StorageClasses of each subject, (baseline, candidate)."""
    pairs = {
        one: (_class_name(_target(baseline, one)), _class_name(_target(candidate, one)))
        for one in subjects
    }
    return {subject: pair for subject, pair in pairs.items() if all(pair)}


def _below(
    baseline: Side, candidate: Side, subjects: Sequence[str]
) -> dict[str, tuple[Below, Below]]:
    """Return the layers below each subject, (baseline, candidate), where both are known."""
    found = {}
    for subject in subjects:
        sides = [_layers(side, side.targets[subject]) for side in (baseline, candidate)]
        if sides[0] is not None and sides[1] is not None:
            found[subject] = (sides[0], sides[1])
    return found


def _layers(side: Side, target: str) -> Below | None:
    try:
        layers = side.run.stacks.get(target)
        dumps = side.run.target_dumps(target) if layers else {}
    except LeadlineError:
        return None  # the page reports it
    return Below(layers=layers, zfs=zfs_inventory(dumps)) if layers else None


def _target(side: Side, subject: str) -> Target:
    return side.run.plan.target(side.targets[subject])


def _reads(side: Side, subject: str, around: KubernetesInventory | None) -> str:
    """Return the read policy of a subject: of its StorageClass, else of the plan."""
    target, default = _target(side, subject), ReadFrom.PRIMARY.value
    name = _class_name(target)
    if name and around is not None:
        return ReadFrom.NEAREST.value if reads_near(around, name) else default
    return target.parsed.options.get("read_policy", default) if target.url else default


def _targets(
    baseline: Side, candidate: Side, subjects: Sequence[str], known: Container[str]
) -> Iterator[Difference]:
    """Compare kind, URL and labels of the targets. For subjects whose pools or StorageClasses are
    `known`, a URL with another pool is no difference."""
    for subject in subjects:
        ours, theirs = _target(baseline, subject), _target(candidate, subject)
        if ours.url and theirs.url and ours.parsed.kind is not theirs.parsed.kind:
            yield Difference(
                path=f"targets.{subject}.kind",
                topic=Topic.WORKLOAD,
                baseline=ours.parsed.kind.value,
                candidate=theirs.parsed.kind.value,
                target=subject,
            )
        if ours.url != theirs.url and not (subject in known and _only_pools(ours, theirs)):
            yield Difference(
                path=f"targets.{subject}.url",
                topic=Topic.WORKLOAD,
                baseline=ours.url or "unknown",
                candidate=theirs.url or "unknown",
                target=subject,
            )
        for key in dict.fromkeys((*ours.labels, *theirs.labels)):
            if ours.labels.get(key) != theirs.labels.get(key):
                yield Difference(
                    path=f"targets.{subject}.labels.{key}",
                    topic=Topic.WORKLOAD,
                    baseline=ours.labels.get(key, "not set"),
                    candidate=theirs.labels.get(key, "not set"),
                    target=subject,
                )


def _only_pools(ours: Target, theirs: Target) -> bool:
    """Return whether two URLs differ only in their pools and dataset properties."""
    left, right = ours.parsed, theirs.parsed
    ignored = ("data_pool", *DATASET_PROPERTIES)
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
        ours = {
            (cell.workload.name, cell.level): cell.workload
            for cell in baseline.run.plan.cells_of(baseline.targets[subject])
        }
        for cell in candidate.run.plan.cells_of(candidate.targets[subject]):
            mine = ours.get((cell.workload.name, cell.level))
            if mine is None:
                continue
            used.setdefault(cell.workload.name, set()).add(subject)
            for text in (*unlike(mine, cell.workload), *extent(mine, cell.workload)):
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


def _engines(baseline: Side, candidate: Side) -> Iterator[Difference]:
    ours, theirs = (_engine(side) for side in (baseline, candidate))
    if ours and theirs and ours != theirs:
        yield Difference(
            path="engine.version",
            topic=Topic.CLIENT,
            baseline=", ".join(ours),
            candidate=", ".join(theirs),
        )


def _engine(side: Side) -> list[str]:
    names = set(side.targets.values())
    return sorted(
        {
            f"{trial.record.engine} {trial.record.engine_version}".rstrip()
            for trial in side.run.trials
            if trial.record.target in names
        }
    )


def _plans(baseline: Side, candidate: Side) -> Iterator[Difference]:
    """Compare the preparation of trials: prefill and dropped caches."""
    ours, theirs = baseline.run.plan, candidate.run.plan
    for key in ("prefill", "drop_caches"):
        left, right = getattr(ours, key), getattr(theirs, key)
        if left != right:
            yield Difference(
                path=f"plan.{key}",
                topic=Topic.WORKLOAD,
                baseline="yes" if left else "no",
                candidate="yes" if right else "no",
            )


# --- two clusters without measurements -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A cluster: Ceph, Kubernetes, or Ceph in Kubernetes (Rook)."""

    ceph: CephInventory | None
    kubernetes: KubernetesInventory | None


def system_of(dumps: Mapping[str, bytes]) -> System:
    """Parse the dumps of a cluster. Raises LeadlineError(`dumps-invalid`)."""
    if not holds_kubernetes(dumps):
        return System(ceph=cluster_inventory(dumps), kubernetes=None)
    kubernetes = kubernetes_inventory(dumps)
    return System(ceph=kubernetes.ceph, kubernetes=kubernetes)


def differing(base: System, candidate: System) -> Differing:
    """Compare two clusters; pools and StorageClasses match by name.

    Raises LeadlineError (`not-comparable`) if only one of them is Ceph or Kubernetes.
    """
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
            "one is a Ceph cluster, the other a Kubernetes cluster without Ceph dumps",
            hint="save two clusters of the same kind: `leadline inventory --save DIR`",
        )
    return Differing(
        differences=tuple(
            replace(
                one,
                explains=tuple(
                    PossibleEffect(mechanism=mechanism)
                    for mechanism in dict.fromkeys(effect.mechanism for effect in find_effects(one))
                ),
            )
            for differing in found
            for one in differing.differences
        ),
        identical=tuple(dict.fromkeys(label for one in found for label in one.identical)),
        unknown=tuple(dict.fromkeys(what for one in found for what in one.unknown)),
    )
