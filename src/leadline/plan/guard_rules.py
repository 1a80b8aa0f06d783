"""The parts of a guard's budget for each client, and what of a plan does not fit its guard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from leadline.plan.footprint import PREFILL_BLOCK, target_footprint
from leadline.plan.guard import Guard
from leadline.plan.models import OpenLoop, Plan
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Phase, Workload
from leadline.units import format_duration, format_size

# fio holds its rate on average over the time of a trial, and the first I/O of each job is free: at
# less than an I/O per second and job that is no small share.
LEAST_IOPS = 1.0

# Engines that offer no rate; the others are fio's.
_UNLIMITED = {
    EngineChoice.RBD_BENCH: "rbd bench",
    EngineChoice.RADOS_BENCH: "rados bench",
    EngineChoice.ZFS_STREAM: "a ZFS stream",
    EngineChoice.VOLUME_LIFECYCLE: "the lifecycle of volumes",
    EngineChoice.PGBENCH: "pgbench",
    EngineChoice.SYSBENCH: "sysbench",
}


def limited(workload: Workload, guard: Guard | None, clients: int) -> Workload:
    """The workload with the part that each of so many `clients`, neighbours included, has of the
    budget; unchanged without one. An open loop keeps its rate, which `guard_faults` checks."""
    if guard is None or not guard.has_budget:
        return workload

    def with_limit(phase: Phase) -> Phase:
        budget = guard.budget_bps(phase.block_size)
        if budget is None or phase.rate_iops is not None:
            return phase
        return phase.model_copy(update={"limit_bps": budget / clients})

    update: dict[str, object] = {"phases": tuple(map(with_limit, workload.phases))}
    if workload.neighbour is not None:
        update["neighbour"] = with_limit(workload.neighbour)
    return workload.model_copy(update=update)


def budget_of(guard: Guard | None, workload: Workload, phase: Phase) -> float | None:
    """The bytes per second that the budget leaves to a phase of the measured clients together; None
    without one, and for an open loop."""
    if guard is None or phase.rate_iops is not None:
        return None
    budget_bps = guard.budget_bps(phase.block_size)
    if budget_bps is None or not workload.neighbours:
        return budget_bps
    return budget_bps * workload.clients / workload.generators


def guard_faults(plan: Plan) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a plan asks for and its guard does not allow, each with its key path."""
    guard = plan.guard
    if guard is None:
        return
    if guard.ceph_health and not any(
        cluster.lab is not None or cluster.ceph_conf is not None for cluster in plan.clusters
    ):
        sentence = (
            "the plan has no connection to a Ceph cluster: name one in `clusters`, or use the "
            "metric ceph_health_status in a limit of `prometheus`"
        )
        yield ("guard", "ceph_health"), sentence
    for name, takes_s in _longest(plan) if guard.quiet_hours else ():
        if takes_s > guard.longest_gap_s:
            sentence = (
                f"{name} takes {format_duration(takes_s)}, and the longest time between quiet "
                f"hours is {format_duration(guard.longest_gap_s)}"
            )
            yield ("guard", "quiet_hours"), sentence
    if guard.has_budget:
        key = "iops" if guard.iops is not None else "bandwidth"
        for sentence in dict.fromkeys(_over_budget(plan, guard)):
            yield ("guard", key), sentence


def prefill_s(plan: Plan, target: str) -> float:
    """The seconds that the prefill of a target takes at the budget at least; 0 without one."""
    limit_bps = plan.guard.budget_bps(PREFILL_BLOCK) if plan.guard is not None else None
    if limit_bps is None or not plan.prefill:
        return 0.0
    url, footprint = plan.target(target).parsed, target_footprint(plan, target)
    volumes = url.request.count if url.kind.on_kubernetes else 1
    size = footprint.prefilled_bytes if url.kind.in_files else footprint.span
    return size * volumes / limit_bps


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCourse:
    """What a guard makes of a plan: the highest rates within the budget (None without one), and for
    a start at a given time the seconds that quiet hours hold trials back, and the end."""

    peak_iops: float | None
    peak_bps: float | None
    waits_s: float
    ends: datetime


# Between two trials: caches are dropped, records are written.
_BETWEEN_S = 0.5


def guarded_course(plan: Plan, guard: Guard, now: datetime) -> GuardedCourse:
    """The course of a run that starts `now`, without set-up; a prefill counts within a budget."""
    blocks = [
        phase.block_size
        for target in plan.targets
        for workload in plan.workloads_on(target.name)
        for phase in workload.phases
    ]
    if plan.prefill:
        blocks.append(PREFILL_BLOCK)
    peaks = [(bps / block, bps) for block in blocks if (bps := guard.budget_bps(block))]
    work_s = [prefill_s(plan, target.name) for target in plan.own_targets]
    work_s += [plan.cells[trial.cell].workload.duration_s for trial in plan.trials]
    waits_s, at = 0.0, now
    for takes_s in filter(None, work_s):
        until = guard.quiet_until(at, takes_s)
        if until is not None:
            waits_s += (until - at).total_seconds()
            at = until
        at += timedelta(seconds=takes_s + _BETWEEN_S)
    return GuardedCourse(
        peak_iops=max((iops for iops, _ in peaks), default=None),
        peak_bps=max((bps for _, bps in peaks), default=None),
        waits_s=waits_s,
        ends=at,
    )


def _longest(plan: Plan) -> Iterator[tuple[str, float]]:
    """The longest trial and the longest prefill, with their names."""
    trials = [
        (f"a trial of {workload.name!r}", workload.duration_s)
        for target in plan.targets
        for workload in plan.workloads_on(target.name)
    ]
    prefills = [
        (f"the prefill of {target.name!r} within the budget", prefill_s(plan, target.name))
        for target in plan.own_targets
    ]
    for found in (trials, prefills):
        if found:
            yield max(found, key=lambda pair: pair[1])


def _over_budget(plan: Plan, guard: Guard) -> Iterator[str]:
    for target in plan.own_targets:
        kind, volumes = target.parsed.kind, 1
        if kind.on_kubernetes and not target.parsed.request.everywhere:
            volumes = target.parsed.request.count
        for workload in plan.workloads_on(target.name):
            tool = _UNLIMITED.get(workload.engine, "")
            if kind is TargetKind.RADOS:
                tool = "fio's rados engine" if target.parsed.fio_objects else "rados bench"
            if workload.job_file is not None:
                yield (
                    f"{workload.name!r} is a job file, which is used unchanged and without the "
                    "budget: write it as a workload of the plan, or set `rate` in it and leave "
                    "iops and bandwidth out"
                )
            elif tool:
                yield f"{workload.name!r}: {tool} has no rate that could keep the budget"
            else:
                yield from _phases_over_budget(workload, guard, volumes)
    for item in plan.follow_ups:
        if isinstance(item, OpenLoop):
            yield (
                f"{item.workload!r}: open_loop needs the peak of the target, which the budget may "
                "hide: offer rates as levels (`rate: 100`)"
            )


def _phases_over_budget(workload: Workload, guard: Guard, volumes: int) -> Iterator[str]:
    clients = workload.generators or volumes
    own = max(1, workload.clients or volumes)
    phases = [(phase, own) for phase in workload.phases]
    if workload.neighbour is not None and workload.neighbours:
        phases.append((workload.neighbour, workload.neighbours))
    for phase, count in phases:
        budget = guard.budget_bps(phase.block_size)
        assert budget is not None
        if phase.rate_iops is not None:
            offered, part = count * phase.rate_iops, budget * count / clients / phase.block_size
            if offered > part:
                yield (
                    f"{workload.name!r} offers {offered:g} IOPS in blocks of "
                    f"{format_size(phase.block_size)}, and its part of the budget is {part:g}"
                )
            continue
        each = budget / clients / phase.block_size / phase.numjobs
        least = min(share for share in phase.shares if share) * each
        if least < LEAST_IOPS:
            yield (
                f"{workload.name!r} has {least:.2g} I/Os per second for each job and direction "
                f"({clients} clients x {phase.numjobs} jobs, blocks of "
                f"{format_size(phase.block_size)}), and fio holds {LEAST_IOPS:g} at least: allow "
                "more, or use fewer jobs and clients"
            )
