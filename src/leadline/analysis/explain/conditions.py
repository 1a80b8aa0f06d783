"""How the two sides of a comparison differ in what they are, and what that can explain."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from leadline import errors
from leadline.analysis.comparison import ComparedCell, Explanation, Side
from leadline.analysis.explain.effects import Effect, effects_of
from leadline.analysis.explain.explain import ReadFrom, explain, facts_of
from leadline.analysis.workloads import extent, unlike
from leadline.errors import LeadlineError
from leadline.inventory.ceph.dumps import read_lab
from leadline.inventory.ceph.model import CephInventory, find_pool
from leadline.inventory.ceph.reading import cluster_inventory
from leadline.inventory.diff import (
    Below,
    Difference,
    Differing,
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
from leadline.text import sentence, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What differs, what does not, what the differences can account for, and of what nobody can say
    whether it differs."""

    differences: tuple[Difference, ...]
    identical: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    unknown: tuple[str, ...] = ()


def conditions(
    baseline: Side, candidate: Side, subjects: Sequence[str], cells: Sequence[ComparedCell]
) -> Conditions:
    """Everything that the archives tell of the two sides' systems, workloads and targets."""
    ours, theirs = system(baseline), system(candidate)
    around = kubernetes(baseline), kubernetes(candidate)
    trips = round_trip_s(baseline), round_trip_s(candidate)
    pools = _pools(baseline, candidate, subjects, (ours, theirs), around)
    found: list[Difference] = []
    identical: list[str] = []
    unknown: list[str] = []
    classes: dict[str, tuple[str, str]] = {}
    if around[0] and around[1]:
        classes = _classes(baseline, candidate, subjects)
        of_kubernetes = kubernetes_differences(around[0], around[1], classes)
        found += of_kubernetes.differences
        identical += of_kubernetes.identical
        unknown += of_kubernetes.unknown
    if ours and theirs:
        differing = ceph_differences(ours, theirs, pools)
        found += differing.differences
        identical += differing.identical
        unknown += differing.unknown
    length = round_trip_difference(*trips)
    found += [length] if length else []
    budget = cpu_budget_difference(cpu_budget(baseline), cpu_budget(candidate))
    found += [budget] if budget else []
    hosts = baseline.run.inventory("start"), candidate.run.inventory("start")
    if hosts[0] and hosts[1]:
        names = {one: (baseline.targets[one], candidate.targets[one]) for one in subjects}
        of_hosts = host_differences(hosts[0], hosts[1], names)
        found += of_hosts.differences
        identical += of_hosts.identical
        unknown += of_hosts.unknown
    elif baseline.run.path == candidate.run.path:
        identical.append("one run on one load generator")
    below = _below(baseline, candidate, subjects)
    for differing in (layer_differences(below), zfs_differences(below)):
        found += differing.differences
        identical += differing.identical
        unknown += differing.unknown
    datasets = [one for one, pair in below.items() if all(side.zfs for side in pair)]
    stacked = {one.target for one in found if one.path.startswith("stacks.")}
    stacked |= set(subjects) if "" in stacked else set()
    found += [
        one
        for one in _targets(baseline, candidate, subjects, {*pools, *classes, *datasets})
        # The layers say what the other kind is.
        if not (one.path.endswith(".kind") and one.target in stacked)
    ]
    found += _workloads(baseline, candidate, subjects)
    found += _engines(baseline, candidate)
    found += _plans(baseline, candidate)
    facts = facts_of(
        ours,
        theirs,
        pools,
        *trips,
        reads={
            one: (_reads(baseline, one, around[0]), _reads(candidate, one, around[1]))
            for one in subjects
        },
        hosts_known=bool(hosts[0] and hosts[1]),
    )
    explained, explanations = explain(cells, found, facts)
    return Conditions(
        differences=tuple(explained),
        identical=tuple(identical),
        explanations=tuple(explanations),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def system(side: Side) -> CephInventory | None:
    """The one cluster of a side's targets as it was at the start; None where there is none,
    several, or its dumps cannot be read."""
    name = _only_cluster(side)
    try:
        return side.run.cluster("start", name) if name else None
    except LeadlineError:
        return None  # the audit and the page's section on the cluster say so


def kubernetes(side: Side) -> KubernetesInventory | None:
    """The one Kubernetes cluster of a side's targets, as `system` finds a Ceph cluster."""
    name = _only_cluster(side)
    try:
        return side.run.kubernetes("start", name) if name else None
    except LeadlineError:
        return None  # the page's section on the cluster says so


def _only_cluster(side: Side) -> str:
    """The name of the cluster that all targets of a side lie on; empty where there are several."""
    plan = side.run.plan
    clusters = {plan.target(name).cluster for name in side.targets.values()} - {""}
    return clusters.pop() if len(clusters) == 1 else ""


def cpu_budget(side: Side) -> float | None:
    """Cores that each host of the side's lab may use; None where nothing bounds them."""
    name = _only_cluster(side)
    try:
        lab = read_lab(side.run.system_dumps("start", name)) if name else None
    except LeadlineError:
        return None  # as in `system`
    return lab.cpu_per_host if lab is not None else None


def round_trip_s(side: Side) -> float | None:
    """Median over trials of the longest round trip between zones that was measured before each, in
    seconds; None where there is no such network."""
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
    """The pool behind each subject on both sides, where it is known."""
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
    """The StorageClass that a target's volumes come from; empty of any other target."""
    if not target.url or target.parsed.kind is not TargetKind.STORAGE_CLASS:
        return ""
    return target.parsed.location


def _classes(
    baseline: Side, candidate: Side, subjects: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The StorageClass behind each subject on both sides, where there is one."""
    pairs = {
        one: (_class_name(_target(baseline, one)), _class_name(_target(candidate, one)))
        for one in subjects
    }
    return {subject: pair for subject, pair in pairs.items() if all(pair)}


def _below(
    baseline: Side, candidate: Side, subjects: Sequence[str]
) -> dict[str, tuple[Below, Below]]:
    """What lies below each subject on both sides, where both tell."""
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
        return None  # the page's section on layers says so
    return Below(layers=layers, zfs=zfs_inventory(dumps)) if layers else None


def _target(side: Side, subject: str) -> Target:
    return side.run.plan.target(side.targets[subject])


def _reads(side: Side, subject: str, around: KubernetesInventory | None) -> str:
    """Which copy the subject's clients read, as the plan has it, or its StorageClass."""
    target, default = _target(side, subject), ReadFrom.PRIMARY.value
    name = _class_name(target)
    if name and around is not None:
        return ReadFrom.NEAREST.value if reads_near(around, name) else default
    return target.parsed.options.get("read_policy", default) if target.url else default


def _targets(
    baseline: Side, candidate: Side, subjects: Sequence[str], known: Container[str]
) -> Iterator[Difference]:
    """Where the I/O went, as far as it is not the very comparison of places: of subjects whose
    pools or StorageClasses are `known`, those are what differs."""
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
                baseline=visible(ours.url) or "not told",
                candidate=visible(theirs.url) or "not told",
                target=subject,
            )
        for key in dict.fromkeys((*ours.labels, *theirs.labels)):
            if ours.labels.get(key) != theirs.labels.get(key):
                yield Difference(
                    path=f"targets.{subject}.labels.{key}",
                    topic=Topic.WORKLOAD,
                    baseline=visible(ours.labels.get(key, "not set")),
                    candidate=visible(theirs.labels.get(key, "not set")),
                    target=subject,
                )


def _only_pools(ours: Target, theirs: Target) -> bool:
    """Whether two URLs name different pools, or set properties of datasets, and are alike in all
    else that they say."""
    left, right = ours.parsed, theirs.parsed
    told = ("data_pool", *DATASET_PROPERTIES)
    options = [
        {key: value for key, value in one.options.items() if key not in told}
        for one in (left, right)
    ]
    return (left.kind, options[0]) == (right.kind, options[1]) and not left.image + right.image


def _workloads(baseline: Side, candidate: Side, subjects: Sequence[str]) -> Iterator[Difference]:
    """Each setting once where all targets that a workload is used on have the same difference, else
    for each target by itself."""
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
                baseline=visible(left),
                candidate=visible(right),
                target=target,
            )


def _engines(baseline: Side, candidate: Side) -> Iterator[Difference]:
    ours, theirs = (_engine(side) for side in (baseline, candidate))
    if ours and theirs and ours != theirs:
        yield Difference(
            path="engine.version",
            topic=Topic.CLIENT,
            baseline=visible(", ".join(ours)),
            candidate=visible(", ".join(theirs)),
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
    """What was done before each trial, which decides whether caches and unwritten blocks answer."""
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


# How two clusters differ of which nothing was measured, with what each difference could account
# for.


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
