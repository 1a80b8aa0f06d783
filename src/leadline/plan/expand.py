"""From what a user wrote to every cell and trial, in the order in which they run."""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping, Sequence

from leadline.plan import models
from leadline.plan.lab_description import LabDocument
from leadline.plan.target_url import TargetUrl, parse_target_url

BLOCK_SIZE = 4096
RUNTIME_S = 30.0
SIZE = 1 << 30


def expand(
    document: models.PlanDocument,
    profiles: Sequence[models.ProfileDocument],
    job_files: Mapping[str, models.JobFile],
    forced: models.DefaultsDocument,
) -> models.Plan:
    """The plan in full. `forced` are settings of the command line, which beat all others.

    Raises ValueError (pydantic's included) where settings that are right alone do not fit together.
    """
    found = _targets(document)
    targets = tuple(target for target, _ in found)
    workloads: list[tuple[models.Workload, str]] = []
    for profile in profiles:
        for item in profile.workloads:
            layers = (forced, item, document.defaults, profile.defaults)
            workloads += with_levels(item, layers, job_files)
    for item in document.workloads:
        workloads += with_levels(item, (forced, item, document.defaults), job_files)

    cells = tuple(
        models.Cell(target=target.name, workload=workload, level=level)
        for target in targets
        for workload, level in workloads
    )
    seed = document.seed if document.seed is not None else secrets.randbelow(2**32)
    return models.Plan(
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
            )
            for name, item in document.clusters.items()
        ),
        targets=targets,
        optional=tuple(target.name for target, optional in found if optional),
        cells=cells,
        trials=interleaved(len(cells), document.repeats, seed),
        repeats=document.repeats,
        seed=seed,
        prefill=document.prefill,
        drop_caches=document.drop_caches,
        grace_s=document.grace,
    )


def places(url: TargetUrl, clusters: Sequence[str]) -> Mapping[str, str]:
    """Where a target is measured: each cluster, with the delay there where that is a condition of
    the target. This machine is no cluster, and has no name."""
    if not url.kind.on_cluster:
        return {"": ""}
    delay = url.options.get("inter_zone_rtt", "")
    return {cluster: f"{cluster},{delay}" if delay else cluster for cluster in clusters}


def clusters_for(url: TargetUrl, document: models.PlanDocument) -> tuple[str, ...]:
    """The clusters of a plan that a target can lie on, which are those of its sort."""
    return tuple(
        name
        for name, cluster in document.clusters.items()
        if (cluster.kubernetes is not None) is url.kind.on_kubernetes
    )


def _targets(document: models.PlanDocument) -> tuple[tuple[models.Target, bool], ...]:
    """Every target, with whether it is optional: one that names several clusters becomes one for
    each, `NAME@CLUSTER`, behind it the delay that is a condition of it."""
    found: list[tuple[str, models.TargetDocument, str, str]] = []
    for item in document.targets:
        name, url = item.name or item.target, parse_target_url(item.target)
        clusters = item.clusters or clusters_for(url, document)
        for cluster, place in places(url, clusters).items():
            found.append((name, item, cluster, place))
    several = len({place for *_, place in found if place}) > 1
    return tuple(
        (
            models.Target(
                name=f"{name}@{place}" if place and several else name,
                url=item.target,
                cluster=cluster,
                subject=name if place and several else "",
                place=place if several else "",
                labels=item.labels,
            ),
            item.optional,
        )
        for name, item, cluster, place in found
    )


def without(plan: models.Plan, left_out: Sequence[models.LeftOut]) -> models.Plan:
    """The plan without some of its targets, which it then tells of; the order of the trials that
    are left is as it was."""
    gone = {one.target for one in left_out}
    kept = [number for number, cell in enumerate(plan.cells) if cell.target not in gone]
    trials = [trial for trial in plan.trials if trial.cell in kept]
    return plan.model_copy(
        update={
            "targets": tuple(target for target in plan.targets if target.name not in gone),
            "left_out": (*plan.left_out, *left_out),
            "cells": tuple(plan.cells[number] for number in kept),
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


def interleaved(cells: int, repeats: int, seed: int) -> tuple[models.Trial, ...]:
    """Trials in randomised blocks: each block holds every cell once, in an order of its own.

    Drift of the machine then falls on all cells alike (randomised complete block design).
    """
    generator = random.Random(seed)
    trials: list[models.Trial] = []
    for block in range(repeats):
        order = list(range(cells))
        generator.shuffle(order)
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
    item: models.WorkloadDocument,
    layers: Sequence[models.DefaultsDocument],
    job_files: Mapping[str, models.JobFile],
) -> list[tuple[models.Workload, str]]:
    """The workload at each of its levels, with the level's label. Settings come from the first of
    `layers` that has them. Raises ValidationError where they do not fit together."""
    if item.job_file is not None:
        job_file = job_files[item.job_file]
        workload = models.Workload(
            name=item.name,
            description=item.description,
            job_file=job_file,
            runtime_s=job_file.runtime_s,
            ramp_s=job_file.ramp_s,
        )
        return [(workload, "")]
    return [
        (_workload(item, layers, level), level_label(item, layers, level))
        for level in item.levels or (None,)
    ]


def _first(layers: Sequence[models.DefaultsDocument], key: str) -> object:
    for layer in layers:
        value: object = getattr(layer, key)
        if value is not None:
            return value
    return None


def _workload(
    item: models.WorkloadDocument,
    layers: Sequence[models.DefaultsDocument],
    level: models.LevelDocument | None,
) -> models.Workload:
    phases = item.phases or (
        models.PhaseDocument(
            pattern=item.pattern or models.Pattern.READ,
            read_share=item.read_share,
            fsync=item.fsync,
        ),
    )
    settings = {key: _first(layers, key) for key in ("runtime", "ramp", "engine", "direct")}
    runtime = settings["runtime"]
    return models.Workload.model_validate(
        {
            "name": item.name,
            "description": item.description,
            "phases": [_phase(phase, item, layers, level) for phase in phases],
            "engine": settings["engine"] or models.EngineChoice.AUTO,
            "direct": True if settings["direct"] is None else settings["direct"],
            "runtime_s": RUNTIME_S if runtime is None else runtime,
            "ramp_s": settings["ramp"] or 0.0,
        }
    )


def _phase(
    phase: models.PhaseDocument,
    item: models.WorkloadDocument,
    layers: Sequence[models.DefaultsDocument],
    level: models.LevelDocument | None,
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
    return {
        "name": phase.name or phase.pattern.value,
        "pattern": phase.pattern,
        "block_size": setting("block_size", BLOCK_SIZE),
        "iodepth": setting("iodepth", 1),
        "numjobs": setting("numjobs", 1),
        "size": setting("size", SIZE),
        "read_share": share,
        "fsync": fsync or 0,
    }


def level_label(
    item: models.WorkloadDocument,
    layers: Sequence[models.DefaultsDocument],
    level: models.LevelDocument | None,
) -> str:
    """`qd32` for one job, `qd32x4` for four; the first phase speaks for the workload."""
    first = item.phases[0] if item.phases else models.PhaseDocument(pattern=models.Pattern.READ)
    phase = _phase(first.model_copy(update={"read_share": None}), item, layers, level)
    depth, jobs = phase["iodepth"], phase["numjobs"]
    return f"qd{depth}" if jobs == 1 else f"qd{depth}x{jobs}"
