"""What a run adds to its plan when it has seen results. Pure: the same results give the same cells.

An open loop needs the peak that the closed loop's levels have shown; a search for density needs to
know whether the step before kept the limit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.metrics import Metric
from leadline.plan.expand import OPEN_LOOP_DEPTH, interleaved, level_label
from leadline.plan.models import Cell, Density, FollowUp, OpenLoop, Phase, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What one trial showed. `iops` are reads and writes of all clients together; `latencies` the
    worse of reads and writes in seconds, None where there were too few I/Os. A trial without a
    result has neither; `overloaded` is one whose offered rate was not reached."""

    iops: float | None = None
    latencies: Mapping[Metric, float | None] | None = None
    overloaded: bool = False


# By the number of a cell in the plan: its trials that are over.
Outcomes = Mapping[int, Sequence[TrialOutcome]]


def next_cells(plan: Plan, outcomes: Outcomes) -> tuple[Cell, ...]:
    """The cells to be added now; none where no follow-up wants any, or all wait for trials."""
    added: list[Cell] = []
    for one in plan.follow_ups:
        if isinstance(one, OpenLoop):
            added += _open_loop(plan, one, outcomes)
        else:
            added += _density(plan, one, outcomes)
    return tuple(added)


def grown(plan: Plan, cells: Sequence[Cell]) -> Plan:
    """The plan with more cells, and as many trials of each as of all others, behind those that it
    has."""
    first, position = len(plan.cells), len(plan.trials)
    order = random.Random(f"{plan.seed}:{position}").randrange(2**63)
    trials = tuple(
        trial.model_copy(
            update={
                "id": f"t{position + trial.position + 1:04d}",
                "position": position + trial.position,
                "cell": first + trial.cell,
            }
        )
        for trial in interleaved(len(cells), plan.repeats, order)
    )
    return plan.model_copy(
        update={"cells": (*plan.cells, *cells), "trials": (*plan.trials, *trials)}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a follow-up takes at most: trials, and the seconds that they ask of the engine."""

    workload: str
    trials: int
    asked_s: float


def bound_of(plan: Plan, asked: FollowUp) -> Bound:
    """Doubling reaches any number of n bits in n steps, and bisection needs no more."""
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
    """The targets on which cells will, or may, be added."""
    wanted = {cell.target for cell in next_cells(plan, outcomes)}
    planned = [0] * len(plan.cells)
    for trial in plan.trials:
        planned[trial.cell] += 1
    unfinished = {
        cell.target
        for number, cell in enumerate(plan.cells)
        if len(outcomes.get(number, ())) < planned[number]
    }
    return frozenset(wanted | (unfinished & {one.target for one in plan.follow_ups}))


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
        done = [one.iops for one in seen if one.iops is not None]
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
    """The cell of the peak as an open loop that offers so many I/Os per second in all."""
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
            return []  # still to be measured, or nobody can tell
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
    """How many clients to try next: doubled until the limit is passed, then bisected. None when
    the last number that keeps the limit is known, or `most` do."""
    failed = min((number for number, held in tried.items() if not held), default=None)
    held = max(
        (number for number, one in tried.items() if one and (failed is None or number < failed)),
        default=0,
    )
    if failed is None:
        return None if held >= most else min(max(1, 2 * held), most)
    return (held + failed) // 2 if failed - held > 1 else None


def _held(asked: Density, seen: Sequence[TrialOutcome]) -> bool | None:
    """Whether most trials kept the limit; None where one has no result that tells."""
    kept = 0
    for one in seen:
        latency = (one.latencies or {}).get(asked.limit.metric)
        if latency is None and not one.overloaded:
            return None
        kept += latency is not None and not one.overloaded and latency < asked.limit.below_s
    return 2 * kept > len(seen)
