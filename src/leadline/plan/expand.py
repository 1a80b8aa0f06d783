"""Expand a plan: every cell and every trial, in the order in which they run."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Hashable, Mapping, Sequence

from leadline.plan import models
from leadline.plan.document import (
    DefaultsDocument,
    DensityDocument,
    LevelDocument,
    PhaseDocument,
    PlanDocument,
    ProfileDocument,
    WorkloadDocument,
)
from leadline.plan.groups import in_groups, without_targets
from leadline.plan.lab import LabDocument
from leadline.plan.matrix import LEVEL_SETTINGS, Matrix, workload_variants
from leadline.plan.models import Plan
from leadline.plan.rules import stream_faults
from leadline.plan.stop_rules import planned_stop
from leadline.plan.target_url import TargetUrl
from leadline.plan.workload import EngineChoice, JobFile, Pattern, Workload
from leadline.plan.written_targets import written_targets

BLOCK_SIZE = 4096
RUNTIME_S = 30.0
SIZE = 1 << 30
# The default limit of I/Os in flight in an open loop: enough to reach the peak, and a bound for a
# target that stalls.
OPEN_LOOP_DEPTH = 64


def expand(
    document: PlanDocument,
    profiles: Sequence[ProfileDocument],
    job_files: Mapping[str, JobFile],
    forced: DefaultsDocument,
) -> models.Plan:
    """The expanded plan. `forced` are settings of the command line, which override all others.

    Raises ValueError (pydantic's included) for valid settings that exclude each other.
    """
    found = written_targets(document)
    targets = tuple(one.target for one in found)
    asked: list[tuple[WorkloadDocument, tuple[DefaultsDocument, ...]]] = [
        (item, (forced, item, document.defaults, profile.defaults))
        for profile in profiles
        for written in profile.workloads
        for item in varied(written, document.matrix)
    ]
    asked += [
        (item, (forced, item, document.defaults))
        for written in document.workloads
        for item in varied(written, document.matrix)
    ]
    workloads = [(item, with_levels(item, layers, job_files)) for item, layers in asked]

    cells = tuple(
        models.Cell(
            target=target.name,
            workload=workload.model_copy(update={"drill": document.drill}),
            level=level,
        )
        for target, base in ((one.target, one.name) for one in found)
        for item, levels in workloads
        if _is_for(item, base)
        for workload, level in _on(target.parsed, levels)
    )
    seed = document.seed if document.seed is not None else secrets.randbelow(2**32)
    plan = models.Plan(
        name=document.name or "",
        description=document.description,
        profiles=document.profile,
        clusters=tuple(
            models.Cluster(
                name=name,
                ceph_conf=item.ceph_conf,
                keyring=item.keyring,
                id=item.id or "admin",
                lab=item.lab.described() if isinstance(item.lab, LabDocument) else item.lab,
                kubernetes=item.kubernetes,
                prometheus=item.prometheus,
                hosts=item.hosts,
            )
            for name, item in document.clusters.items()
        ),
        targets=targets,
        optional=tuple(one.target.name for one in found if one.optional),
        cells=cells,
        trials=interleaved([document.repeats] * len(cells), seed),
        follow_ups=tuple(
            follow_up
            for one in found
            for item, layers in asked
            if _is_for(item, one.name)
            for follow_up in follow_ups(item, layers, one.target.name)
        ),
        repeats=document.repeats,
        detect=document.detect and models.Detect(**document.detect.model_dump()),
        stop=document.stop and planned_stop(document.stop, targets, document.repeats),
        seed=seed,
        prefill=document.prefill,
        drop_caches=document.drop_caches,
        grace_s=document.grace,
        expect=document.expect,
        guard=document.guard,
        settings=tuple(document.settings.values()),
        design=document.design,
    )
    if plan.settings:
        plan = with_repeats(plan, [plan.repeats] * len(cells))
    if document.budget is None:
        return plan
    given = document.budget
    budget = models.Budget(
        capacity_bytes=given.capacity,
        written_bytes=given.written,
        cores=given.cores,
        volumes=given.volumes,
    )
    return in_groups(plan, budget, {one.target.name: one.condition for one in found})


def _is_for(item: WorkloadDocument, written: str) -> bool:
    return not item.targets or written in item.targets


def varied(item: WorkloadDocument, matrix: Matrix) -> tuple[WorkloadDocument, ...]:
    """The workload with every combination of the matrix' dimensions of workloads: a block size is
    part of the name, depth, jobs and clients are levels. Raises ValueError."""
    found: dict[str, WorkloadDocument] = {}
    for variant in workload_variants(matrix):
        if not variant.options:
            return (item,)
        if item.job_file is not None:
            raise ValueError("a job file is used unchanged, and the matrix varies workloads")
        block = variant.options.get("block_size")
        level = {key: variant.options[key] for key in LEVEL_SETTINGS if key in variant.options}
        name = f"{item.name}-{block}" if block else item.name
        if name not in found:
            raw = item.model_dump(exclude_unset=True)
            if block:
                raw["block_size"] = block
                for phase in raw.get("phases", ()):
                    phase["block_size"] = block
            raw["name"] = name
            found[name] = WorkloadDocument.model_validate(raw)
        if not level:
            continue
        twice = sorted(key for one in item.levels for key in level if getattr(one, key) is not None)
        if twice:
            raise ValueError(f"has levels with {twice[0]} of its own, which the matrix sets")
        before = [one.model_dump(exclude_unset=True) for one in item.levels] or [{}]
        levels = [LevelDocument.model_validate({**one, **level}) for one in before]
        known = found[name].levels if found[name].levels != item.levels else ()
        found[name] = found[name].model_copy(update={"levels": (*known, *levels)})
    return tuple(found.values())


def drop_targets(plan: models.Plan, left_out: Sequence[models.LeftOut]) -> models.Plan:
    """The plan without some of its targets, listed as left out; other trials keep their order."""
    gone = {target.target for target in left_out}
    gone |= {target.name for target in plan.targets if target.base in gone}
    kept = [number for number, cell in enumerate(plan.cells) if cell.target not in gone]
    trials = [trial for trial in plan.trials if trial.cell in kept]
    return plan.model_copy(
        update={
            "targets": tuple(target for target in plan.targets if target.name not in gone),
            "left_out": (*plan.left_out, *left_out),
            "cells": tuple(plan.cells[number] for number in kept),
            "follow_ups": tuple(item for item in plan.follow_ups if item.target not in gone),
            "groups": without_targets(plan.groups, frozenset(gone)),
            "trials": tuple(
                trial.model_copy(
                    update={
                        "id": f"t{position + 1:04d}",
                        "position": position,
                        "cell": kept.index(trial.cell),
                    }
                )
                for position, trial in enumerate(trials)
            ),
        }
    )


def with_repeats(plan: models.Plan, repeats: Sequence[int]) -> models.Plan:
    """The plan with that number of trials of each cell."""
    trials = interleaved(repeats, plan.seed, states_of(plan, range(len(plan.cells))))
    return plan.model_copy(update={"trials": trials, "repeats": max(repeats, default=0)})


def states_of(plan: Plan, cells: Sequence[int]) -> list[Hashable]:
    """The state of a running system that each of these cells needs; none without settings."""
    if not plan.settings:
        return []
    names = [plan.cells[cell].target for cell in cells]
    found = {name: plan.applied(name) for name in dict.fromkeys(names)}
    return [
        (plan.target(name).cluster, *found[name].items()) if found[name] else () for name in names
    ]


def interleaved(
    repeats: Sequence[int], seed: int, states: Sequence[Hashable] = ()
) -> tuple[models.Trial, ...]:
    """Trials in randomised blocks: each block holds every cell once, in random order, that has so
    many repeats. Within a block, trials of one of the `states` of the cells stand together, and the
    states are in random order.

    Drift of the machine then affects all cells equally.
    """
    generator = random.Random(seed)
    trials: list[models.Trial] = []
    for block in range(max(repeats, default=0)):
        order = [cell for cell, number in enumerate(repeats) if block < number]
        generator.shuffle(order)
        here = list(dict.fromkeys(states[cell] for cell in order)) if states else []
        if len(here) > 1:
            generator.shuffle(here)
            order = [cell for state in here for cell in order if states[cell] == state]
        for cell in order:
            position = len(trials)
            trials.append(
                models.Trial(
                    id=f"t{position + 1:04d}",
                    position=position,
                    block=block,
                    cell=cell,
                    seed=generator.randrange(1, 2**31),
                )
            )
    return tuple(trials)


def with_levels(
    item: WorkloadDocument,
    layers: Sequence[DefaultsDocument],
    job_files: Mapping[str, JobFile],
) -> list[tuple[Workload, str]]:
    """The workload at each of its levels, with the level's label. Settings come from the first of
    `layers` that has them. Raises ValidationError for settings that exclude each other."""
    if item.job_file is not None:
        job_file = job_files[item.job_file]
        workload = Workload(
            name=item.name,
            description=item.description,
            job_file=job_file,
            runtime_s=job_file.runtime_s,
            ramp_s=job_file.ramp_s,
        )
        return [(workload, "")]
    workloads = [_workload(item, layers, level) for level in item.levels or _no_level(item)]
    return [(workload, level_label(workload)) for workload in workloads]


def _no_level(item: WorkloadDocument) -> tuple[None, ...]:
    """One level without a name; none for a workload with density alone."""
    return () if item.density is not None and not item.open_loop else (None,)


def _on(url: TargetUrl, workloads: Sequence[tuple[Workload, str]]) -> list[tuple[Workload, str]]:
    """Workloads on a target: one client per host, unless the plan sets the number of clients."""
    if not url.hosts:
        return list(workloads)
    found = []
    for workload, level in workloads:
        clients = workload.clients or len(url.hosts)
        one = workload.model_copy(update={"clients": clients})
        found.append((one, level_label(one) if one.phases else level))
    return found


def follow_ups(
    item: WorkloadDocument, layers: Sequence[DefaultsDocument], target: str
) -> list[models.FollowUp]:
    """The follow-ups of a workload on a target. Raises ValueError."""
    found: list[models.FollowUp] = []
    if item.open_loop:
        found.append(models.OpenLoop(target=target, workload=item.name, shares=item.open_loop))
    if item.density is not None:
        level = LevelDocument(clients=1, rate=item.density.rate)
        workload = _workload(item, layers, level)
        _require_samples(item.density, workload)
        found.append(
            models.Density(
                target=target,
                workload=workload.model_copy(update={"neighbour": None}),
                limit=item.density.limit,
                most=item.density.most,
            )
        )
    return found


def _require_samples(asked: DensityDocument, workload: Workload) -> None:
    """Raise ValueError where one client does too few I/Os for the percentile, of reads or writes:
    the first step of the search would then have no result."""
    quantile = asked.limit.metric.quantile
    if quantile is None:
        return
    from leadline.stats.histogram import samples_needed

    needed = samples_needed(quantile)
    (phase,) = workload.phases
    read_share = 0.5 if phase.read_share is None else phase.read_share / 100
    rarer = min(read_share, 1 - read_share) if len(phase.pattern.ops) > 1 else 1.0
    done = asked.rate * rarer * workload.runtime_s
    # The number of arrivals varies, so 10 % more are required.
    if done < 1.1 * needed:
        least_s = 1.1 * needed / (asked.rate * rarer)
        raise ValueError(
            f"in {workload.runtime_s:g} s one client does about {done:,.0f} "
            f"{'of the rarer of reads and writes' if rarer < 1 else 'I/Os'}, and {asked.limit} "
            f"needs {needed:,}: make the runtime {math.ceil(least_s)} s"
        )


def _first(layers: Sequence[DefaultsDocument], key: str) -> object:
    for layer in layers:
        value: object = getattr(layer, key)
        if value is not None:
            return value
    return None


def _workload(
    item: WorkloadDocument,
    layers: Sequence[DefaultsDocument],
    level: LevelDocument | None,
) -> Workload:
    phases = item.phases or (
        PhaseDocument(
            pattern=item.pattern or Pattern.READ,
            read_share=item.read_share,
            fsync=item.fsync,
        ),
    )
    keys = ("runtime", "ramp", "engine", "direct", "clients")
    settings = {key: _first(layers, key) for key in keys}
    runtime = settings["runtime"]
    clients = level.clients if level and level.clients else settings["clients"]
    neighbours = (level.neighbours or 0) if level else 0
    # Settings of the workload's own pattern do not apply to its neighbour.
    neighbour_item = item.model_copy(update={"read_share": None, "fsync": None, "sharing": None})
    workload = Workload.model_validate(
        {
            "name": item.name,
            "description": item.description,
            "phases": [_phase(phase, item, layers, level) for phase in phases],
            "engine": settings["engine"] or EngineChoice.AUTO,
            "direct": True if settings["direct"] is None else settings["direct"],
            "runtime_s": RUNTIME_S if runtime is None else runtime,
            "ramp_s": settings["ramp"] or 0.0,
            "clients": clients or int(item.neighbour is not None),
            "neighbours": neighbours,
            "neighbour": item.neighbour and _phase(item.neighbour, neighbour_item, layers, None),
        }
    )
    for fault in stream_faults(workload):
        raise ValueError(f"the engine 'zfs-stream' {fault}")
    return workload


def _phase(
    phase: PhaseDocument,
    item: WorkloadDocument,
    layers: Sequence[DefaultsDocument],
    level: LevelDocument | None,
) -> dict[str, object]:
    def setting(key: str, default: object) -> object:
        forced = getattr(layers[0], key)
        for value in (forced, getattr(level, key, None), getattr(phase, key)):
            if value is not None:
                return value
        inherited = _first(layers[1:], key)
        return default if inherited is None else inherited

    mixed = len(phase.pattern.ops) == 2
    share = phase.read_share if phase.read_share is not None else item.read_share
    if share is None and mixed:
        share = 50
    fsync = phase.fsync if phase.fsync is not None else item.fsync
    sharing = phase.sharing or item.sharing
    return {
        "name": phase.name or phase.pattern.value,
        "pattern": phase.pattern,
        "block_size": setting("block_size", BLOCK_SIZE),
        "iodepth": setting("iodepth", OPEN_LOOP_DEPTH if level and level.rate else 1),
        "numjobs": setting("numjobs", 1),
        "size": setting("size", SIZE),
        "read_share": share,
        "fsync": fsync or 0,
        "rate_iops": level.rate if level else None,
        "sharing": sharing,
    }


def level_label(workload: Workload) -> str:
    """`qd32` for one job, `qd32x4` for four, `qd32x4-one-file` where they share a file; `c3-qd32`
    for three clients, `c3-qd32-rate500` for an open loop at that rate each, `c1-qd1-n3` with three
    neighbours, `c8` for the lifecycle of eight volumes, `conn8` for eight connections of
    pgbench, `streams4` for four ZFS streams. The first phase represents the workload. Empty for
    a single stream, which has no depth."""
    if workload.streams:
        jobs = workload.phases[0].numjobs
        return f"streams{jobs}" if jobs > 1 else ""
    if workload.lifecycle:
        return f"c{workload.clients}" if workload.clients else ""
    phase = workload.phases[0]
    if workload.database:
        clients = f"c{workload.clients}-" if workload.clients else ""
        return f"{clients}conn{phase.numjobs}"
    parts = [
        f"c{workload.clients}" if workload.clients else "",
        f"qd{phase.iodepth}" if phase.numjobs == 1 else f"qd{phase.iodepth}x{phase.numjobs}",
        phase.sharing.value if phase.sharing is not None else "",
        f"rate{phase.rate_iops:g}" if phase.rate_iops is not None else "",
        f"n{workload.neighbours}" if workload.neighbour is not None else "",
    ]
    return "-".join(part for part in parts if part)
