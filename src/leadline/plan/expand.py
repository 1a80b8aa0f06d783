"""Expand a plan: every cell and every trial, in the order in which they run."""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.metrics import Metric
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
from leadline.plan.models import Cell, Density, FollowUp, OpenLoop, Phase, Plan
from leadline.plan.rules import stream_faults
from leadline.plan.stop_rules import planned_stop
from leadline.plan.target_url import TargetUrl
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
    job_files: Mapping[str, models.JobFile],
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
    trials = interleaved(repeats, plan.seed, _states(plan, range(len(plan.cells))))
    return plan.model_copy(update={"trials": trials, "repeats": max(repeats, default=0)})


def _states(plan: Plan, cells: Sequence[int]) -> list[Hashable]:
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
    job_files: Mapping[str, models.JobFile],
) -> list[tuple[models.Workload, str]]:
    """The workload at each of its levels, with the level's label. Settings come from the first of
    `layers` that has them. Raises ValidationError for settings that exclude each other."""
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
    workloads = [_workload(item, layers, level) for level in item.levels or _no_level(item)]
    return [(workload, level_label(workload)) for workload in workloads]


def _no_level(item: WorkloadDocument) -> tuple[None, ...]:
    """One level without a name; none for a workload with density alone."""
    return () if item.density is not None and not item.open_loop else (None,)


def _on(
    url: TargetUrl, workloads: Sequence[tuple[models.Workload, str]]
) -> list[tuple[models.Workload, str]]:
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


def _require_samples(asked: DensityDocument, workload: models.Workload) -> None:
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
) -> models.Workload:
    phases = item.phases or (
        PhaseDocument(
            pattern=item.pattern or models.Pattern.READ,
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
    workload = models.Workload.model_validate(
        {
            "name": item.name,
            "description": item.description,
            "phases": [_phase(phase, item, layers, level) for phase in phases],
            "engine": settings["engine"] or models.EngineChoice.AUTO,
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


def level_label(workload: models.Workload) -> str:
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


# Follow-ups: cells that a run adds to its plan by its results. The same results give the same
# cells. An open loop needs the peak of the closed loop's levels; a density search needs to know
# whether the previous step kept the limit.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """The result of one trial. `iops` counts reads and writes of all clients; `latencies` are the
    worse of reads and writes in seconds, None with too few I/Os. A failed trial has neither;
    `overloaded` is a trial that did not reach its offered rate."""

    iops: float | None = None
    latencies: Mapping[Metric, float | None] | None = None
    overloaded: bool = False


# The finished trials of each cell, by its number in the plan.
Outcomes = Mapping[int, Sequence[TrialOutcome]]


def next_cells(plan: Plan, outcomes: Outcomes) -> tuple[Cell, ...]:
    """The cells to add now; none where no follow-up needs any, or all wait for trials."""
    added: list[Cell] = []
    for follow_up in plan.follow_ups:
        if isinstance(follow_up, OpenLoop):
            added += _open_loop(plan, follow_up, outcomes)
        else:
            added += _density(plan, follow_up, outcomes)
    return tuple(added)


def grow_plan(plan: Plan, cells: Sequence[Cell]) -> Plan:
    """The plan with more cells, each with as many trials as the others, after the present ones."""
    grown = plan.model_copy(update={"cells": (*plan.cells, *cells)})
    trials = _later_trials(grown, range(len(plan.cells), len(grown.cells)), plan.repeats)
    return grown.model_copy(update={"trials": (*plan.trials, *trials)})


def add_round(plan: Plan, cells: Sequence[int]) -> Plan:
    """The plan with one more block, which holds only the cells of these numbers."""
    trials = _later_trials(plan, cells, 1, plan.repeats)
    return plan.model_copy(update={"trials": (*plan.trials, *trials), "repeats": plan.repeats + 1})


def _later_trials(
    plan: Plan, cells: Sequence[int], repeats: int, block: int = 0
) -> tuple[models.Trial, ...]:
    """More trials of the cells of these numbers, from a block on, after the present trials."""
    position = len(plan.trials)
    order = random.Random(f"{plan.seed}:{position}").randrange(2**63)
    return tuple(
        trial.model_copy(
            update={
                "id": f"t{position + trial.position + 1:04d}",
                "position": position + trial.position,
                "block": block + trial.block,
                "cell": cells[trial.cell],
            }
        )
        for trial in interleaved([repeats] * len(cells), order, _states(plan, cells))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The upper limit of a follow-up: trials, and their I/O time in seconds."""

    workload: str
    trials: int
    asked_s: float


def follow_up_bound(plan: Plan, asked: FollowUp) -> Bound:
    """The bound of a follow-up: doubling and bisection take n steps each for a number of n bits."""
    if isinstance(asked, OpenLoop):
        name, cells = asked.workload, len(asked.shares)
        each_s = max(
            cell.workload.duration_s
            for cell in plan.cells_of(asked.target)
            if cell.workload.name == name
        )
    else:
        name, cells = asked.workload.name, 2 * asked.most.bit_length()
        each_s = asked.workload.duration_s
    trials = cells * plan.repeats
    return Bound(workload=name, trials=trials, asked_s=trials * each_s)


def waiting_targets(plan: Plan, outcomes: Outcomes) -> frozenset[str]:
    """The targets on which follow-ups add cells, or may add them."""
    wanted = {cell.target for cell in next_cells(plan, outcomes)}
    planned = [0] * len(plan.cells)
    for trial in plan.trials:
        planned[trial.cell] += 1
    unfinished = {
        cell.target
        for number, cell in enumerate(plan.cells)
        if len(outcomes.get(number, ())) < planned[number]
    }
    return frozenset(wanted | (unfinished & {item.target for item in plan.follow_ups}))


def _open_loop(plan: Plan, asked: OpenLoop, outcomes: Outcomes) -> list[Cell]:
    same = {
        number: cell
        for number, cell in enumerate(plan.cells)
        if cell.target == asked.target and cell.workload.name == asked.workload
    }
    if any(cell.level == share_label(asked.shares[0]) for cell in same.values()):
        return []
    rates: dict[int, float] = {}
    for number, cell in same.items():
        if cell.load.offered_iops is not None or cell.load.neighbours:
            continue
        seen = outcomes.get(number, ())
        if len(seen) < plan.repeats:
            return []
        done = [outcome.iops for outcome in seen if outcome.iops is not None]
        if done:
            rates[number] = median(done)
    if not rates:
        return []
    top = max(rates, key=lambda number: rates[number])
    return [_at_rate(same[top], share * rates[top], share_label(share)) for share in asked.shares]


def share_label(share: float) -> str:
    """The level of an open loop: `peak50`."""
    return f"peak{share * 100:g}"


def _at_rate(peak: Cell, iops: float, level: str) -> Cell:
    """The cell of the peak as an open loop that offers `iops` in total."""
    each = iops / max(1, peak.workload.clients)

    def at_rate(phase: Phase) -> Phase:
        depth = max(phase.iodepth, OPEN_LOOP_DEPTH)
        return phase.model_copy(update={"rate_iops": round(each, 1), "iodepth": depth})

    phases = tuple(at_rate(phase) for phase in peak.workload.phases)
    workload = peak.workload.model_copy(update={"phases": phases})
    return peak.model_copy(update={"workload": workload, "level": level})


def _density(plan: Plan, asked: Density, outcomes: Outcomes) -> list[Cell]:
    tried: dict[int, bool] = {}
    for number, cell in enumerate(plan.cells):
        if not is_step(cell, asked):
            continue
        seen = outcomes.get(number, ())
        held = _held(asked, seen) if len(seen) >= plan.repeats else None
        if held is None:
            return []  # not measured yet, or without a usable result
        tried[cell.workload.clients] = held
    clients = next_clients(tried, asked.most)
    if clients is None:
        return []
    workload = asked.workload.model_copy(update={"clients": clients})
    return [Cell(target=asked.target, workload=workload, level=level_label(workload))]


def is_step(cell: Cell, asked: Density) -> bool:
    """Whether a cell is one of the steps of a search."""
    alike = cell.workload.model_copy(update={"clients": asked.workload.clients})
    return cell.target == asked.target and alike == asked.workload


def next_clients(tried: Mapping[int, bool], most: int) -> int | None:
    """The next number of clients: doubled until the limit is exceeded, then bisected. None when
    the largest number that keeps the limit is known, or is `most`."""
    failed = min((number for number, held in tried.items() if not held), default=None)
    held = max(
        (number for number, ok in tried.items() if ok and (failed is None or number < failed)),
        default=0,
    )
    if failed is None:
        return None if held >= most else min(max(1, 2 * held), most)
    return (held + failed) // 2 if failed - held > 1 else None


def _held(asked: Density, seen: Sequence[TrialOutcome]) -> bool | None:
    """Whether most trials kept the limit; None where a trial has no latency."""
    kept = 0
    for outcome in seen:
        latency = (outcome.latencies or {}).get(asked.limit.metric)
        if latency is None and not outcome.overloaded:
            return None
        kept += latency is not None and not outcome.overloaded and latency < asked.limit.below_s
    return 2 * kept > len(seen)
