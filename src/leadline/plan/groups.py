"""Groups of targets that a run holds at the same time, within the budget of the plan.

Targets that are compared with each other (equal dimensions of the matrix) share a group, where
their trials are interleaved. Where they do not fit together, they take turns in every block, so
that drift still affects all of them equally.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from leadline.plan.footprint import target_footprint
from leadline.plan.models import Budget, Group, Plan, Trial
from leadline.plan.volume_request import GIB, VolumeMode
from leadline.units import format_size

# A file system uses some of its volume for metadata (as in targets/kubernetes.py).
_FILESYSTEM_SHARE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What targets hold: volumes, bytes requested and written (times copies), and cores of the
    runners in a cluster."""

    volumes: int = 0
    capacity_bytes: int = 0
    written_bytes: int = 0
    cores: float = 0.0

    def __add__(self, other: Demand) -> Demand:
        names = [item.name for item in fields(self)]
        return Demand(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def excess(self, budget: Budget) -> Iterator[str]:
        """What exceeds a budget, as parts of a sentence."""
        sizes = (
            (self.capacity_bytes, budget.capacity_bytes, "requested"),
            (self.written_bytes, budget.written_bytes, "written"),
        )
        for needed, limit, what in sizes:
            if limit is not None and needed > limit:
                yield f"{format_size(needed)} {what}, more than {format_size(limit)}"
        if budget.cores is not None and self.cores > budget.cores:
            yield f"{self.cores:g} cores, more than {budget.cores:g}"
        if budget.volumes is not None and self.volumes > budget.volumes:
            yield f"{self.volumes} volumes, more than {budget.volumes}"

    def fits(self, budget: Budget | None) -> bool:
        return budget is None or next(self.excess(budget), None) is None


def target_demand(plan: Plan, name: str) -> Demand:
    """What one target holds while a run uses it: nothing where it uses the data of another one."""
    if plan.target(name).base:
        return Demand()
    target, footprint = plan.target(name), target_footprint(plan, name)
    url, copies = target.parsed, target.copies or 1.0
    data = footprint.total_bytes if url.kind.in_files else footprint.span
    folders = len(url.hosts) if url.kind.in_files else 1
    volumes, cores, capacity = max(1, folders), 0.0, footprint.capacity_bytes
    if url.kind.on_kubernetes:
        request, cluster = url.request, plan.cluster(target.cluster).kubernetes
        in_files = request.mode is VolumeMode.FILESYSTEM
        data = footprint.total_bytes if in_files else footprint.span
        needed = math.ceil(data * (_FILESYSTEM_SHARE if in_files else 1))
        volumes = request.volumes
        each = request.runner_size(cluster)
        capacity = volumes * (request.size_bytes or max(1, math.ceil(needed / GIB)) * GIB)
        data *= volumes
        cores = request.count * each.cores
    elif not url.kind.in_files:
        capacity = data
    written = data if plan.prefill or footprint.writes else 0
    return Demand(
        volumes=volumes,
        capacity_bytes=round(capacity * copies),
        written_bytes=round(written * copies),
        cores=cores,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGroup:
    """A group with its trials in order, the seconds of their I/O, and what it holds."""

    group: Group
    trials: tuple[Trial, ...]
    seconds: float
    demand: Demand


def planned_groups(plan: Plan, trials: Sequence[Trial] | None = None) -> tuple[PlannedGroup, ...]:
    """The groups of a plan in the order of the run, with all its trials or with those given; a
    plan without groups is one group."""
    trials = plan.trials if trials is None else trials
    groups = plan.groups or (
        Group(targets=tuple(target.name for target in plan.targets), series=0),
    )
    group_of = plan.group_numbers() if plan.groups else {}
    chosen: list[list[Trial]] = [[] for _ in groups]
    for trial in trials:
        chosen[group_of.get((plan.cells[trial.cell].target, trial.block), 0)].append(trial)
    demands = {target.name: target_demand(plan, target.name) for target in plan.targets}
    return tuple(
        PlannedGroup(
            group=group,
            trials=tuple(found),
            seconds=sum(plan.cells[trial.cell].workload.duration_s for trial in found),
            demand=sum((demands[name] for name in group.targets), Demand()),
        )
        for group, found in zip(groups, chosen, strict=True)
    )


def peak_demand(groups: Sequence[PlannedGroup]) -> Demand:
    """The most that any group holds, of each resource."""
    names = [item.name for item in fields(Demand)]
    return Demand(**{name: max(getattr(one.demand, name) for one in groups) for name in names})


def in_groups(plan: Plan, budget: Budget, conditions: Mapping[str, Sequence[str]]) -> Plan:
    """The plan with groups within the budget, and its trials in their order.

    Targets with equal `conditions` are compared with each other. A target that exceeds the budget
    alone is a group of its own; `over_budget` reports it.
    """
    demands = {target.name: target_demand(plan, target.name) for target in plan.targets}
    units: dict[tuple[str, ...], list[str]] = {}
    for target in plan.targets:
        units.setdefault(tuple(conditions[target.name]), []).append(target.name)
    whole: list[list[str]] = []
    apart: list[list[list[str]]] = []
    for names in units.values():
        if sum((demands[name] for name in names), Demand()).fits(budget):
            _pack(whole, names, demands, budget)
        else:
            parts: list[list[str]] = []
            for name in names:
                _pack(parts, [name], demands, budget)
            apart.append(parts)
    generator = random.Random(f"{plan.seed}:groups")
    series = [[names] for names in whole] + apart
    # The order would else be that of the dimensions, and drift would look like their effect.
    generator.shuffle(series)
    groups = tuple(
        group
        for number, parts in enumerate(series)
        for group in _groups(parts, number, plan.repeats, generator)
    )
    return plan.model_copy(
        update={"budget": budget, "groups": groups, "trials": _trials(plan, groups)}
    )


def _pack(
    groups: list[list[str]], names: list[str], demands: Mapping[str, Demand], budget: Budget
) -> None:
    """Add targets to the first group that holds all of them, or to a new one."""
    for group in groups:
        if sum((demands[name] for name in (*group, *names)), Demand()).fits(budget):
            group += names
            return
    groups.append([*names])


def _groups(
    parts: list[list[str]], series: int, repeats: int, generator: random.Random
) -> Iterator[Group]:
    """The groups of one series: a single part for all blocks, else each part in every block."""
    if len(parts) == 1:
        yield Group(targets=tuple(parts[0]), series=series)
        return
    for block in range(repeats):
        order = list(parts)
        generator.shuffle(order)
        for part in order:
            yield Group(targets=tuple(part), blocks=(block,), series=series)


def _trials(plan: Plan, groups: Sequence[Group]) -> tuple[Trial, ...]:
    """The trials in the order of the groups; within one group they keep the order of the plan."""
    found: list[Trial] = []
    for group in groups:
        for trial in plan.trials:
            wanted = not group.blocks or trial.block in group.blocks
            if wanted and plan.cells[trial.cell].target in group.targets:
                position = len(found)
                found.append(
                    trial.model_copy(update={"id": f"t{position + 1:04d}", "position": position})
                )
    return tuple(found)


def without_targets(groups: Sequence[Group], gone: frozenset[str]) -> tuple[Group, ...]:
    """The groups without some targets; empty groups are left out."""
    kept = []
    for group in groups:
        targets = tuple(name for name in group.targets if name not in gone)
        if targets:
            kept.append(group.model_copy(update={"targets": targets}))
    return tuple(kept)


def over_budget(plan: Plan) -> Iterator[tuple[str, str]]:
    """Targets that do not fit into the budget, with the reason."""
    if plan.budget is None:
        return
    waiting = {item.target for item in plan.follow_ups}
    for target in plan.targets:
        if target.kind and target.kind.on_kubernetes and target.parsed.request.everywhere:
            fact = "the number of volumes of count=all is unknown before the run"
            yield target.name, f"{target.name!r} cannot be held to a budget: {fact}; write a number"
            continue
        excess = list(target_demand(plan, target.name).excess(plan.budget))
        if excess:
            yield target.name, f"{target.name!r} alone exceeds the budget: {'; '.join(excess)}"
        elif target.name in waiting and any(
            group.blocks and target.name in group.targets for group in plan.groups
        ):
            fact = (
                f"{target.name!r} and the targets that it is compared with do not fit into the "
                "budget together, and open_loop and density need all trials of a target in one "
                "group: raise the budget, or leave them out"
            )
            yield target.name, fact
