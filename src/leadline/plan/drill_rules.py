"""What of a plan does not fit its drill (plan/drill.py)."""

from __future__ import annotations

from collections.abc import Iterator

from leadline.plan.drill import Drill
from leadline.plan.lab import LabDescription
from leadline.plan.models import Plan, Target
from leadline.plan.target_url import TargetKind
from leadline.plan.workload import EngineChoice, Workload
from leadline.units import format_duration

# The I/O of these targets is fio's on this machine, whose clock is that of the event.
_LOCAL_LOAD = frozenset(TargetKind) - {
    TargetKind.RADOS,
    TargetKind.HOSTS,
    TargetKind.STORAGE_CLASS,
}


def drill_system(target: Target) -> str:
    """The name of the system on which the drill of a target takes place: its cluster, else the
    target itself."""
    return target.cluster or target.name


def plan_drill(plan: Plan) -> Drill | None:
    """The drill of a plan: all its trials have the same."""
    return next((cell.workload.drill for cell in plan.cells if cell.workload.drill), None)


def drill_consents(plan: Plan) -> tuple[str, ...]:
    """The systems that a drill disturbs and that outlive the run: not a lab that it brings up."""
    if plan_drill(plan) is None:
        return ()
    own = {cluster.name for cluster in plan.clusters if isinstance(cluster.lab, LabDescription)}
    lasting = (target for target in plan.targets if target.cluster not in own)
    return tuple(dict.fromkeys(map(drill_system, lasting)))


def drill_faults(plan: Plan) -> Iterator[tuple[tuple[str, ...], str]]:
    """What a plan asks for and a drill cannot do, each with its key path."""
    drill = plan_drill(plan)
    if drill is None:
        return
    if plan.follow_ups or plan.stop is not None:
        other = "stop" if plan.stop is not None else "open_loop and density"
        yield ("drill",), f"a drill needs trials that are all planned: leave out {other}"
    for target in plan.targets:
        cluster = plan.cluster(target.cluster) if target.cluster else None
        if drill.event.in_lab and (cluster is None or cluster.lab is None):
            sentence = (
                f"only a lab can {drill.event}, and {target.name!r} is not in a lab: use "
                "`command: {begin: ..., end: ...}`"
            )
            yield ("drill", "event"), sentence
        elif drill.event.add_host is not None and (
            cluster is None or cluster.kubernetes is not None
        ):
            sentence = (
                f"only a Ceph cluster can {drill.event}, and {target.name!r} is not in one: use "
                "`command: {begin: ..., end: ...}`"
            )
            yield ("drill", "event"), sentence
        elif target.parsed.kind not in _LOCAL_LOAD and not target.parsed.fio_objects:
            sentence = (
                f"the load on {target.name!r} does not come from fio on this machine, so the "
                "event has no place in its time"
            )
            yield ("drill",), sentence
    for workload in {cell.workload.name: cell.workload for cell in plan.cells}.values():
        for sentence in _unfit(workload):
            yield ("drill",), f"{workload.name!r} {sentence}"


def _unfit(workload: Workload) -> Iterator[str]:
    """Why a workload cannot have its drill."""
    drill = workload.drill
    if drill is None:
        return
    if workload.job_file is not None:
        yield "is a job file, which is used unchanged and has no log of latencies"
    elif len(workload.phases) != 1:
        yield "has several phases: make each a workload of its own"
    elif workload.clients or workload.neighbours:
        yield "has clients, whose logs have clocks of their own: use numjobs"
    elif workload.own_data or workload.streams or workload.engine is EngineChoice.RBD_BENCH:
        yield f"uses {workload.engine.value}, which has no log of latencies"
    elif workload.phases[0].rate_iops is not None:
        yield "offers a rate, and a trial that misses its rate is ended: leave the rate out"
    elif drill.end_s >= workload.runtime_s:
        yield (
            f"runs {format_duration(workload.runtime_s)}, and the drill ends after "
            f"{format_duration(drill.end_s)}: make the runtime longer than after + lasts"
        )
