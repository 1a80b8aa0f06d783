"""Cells that a run adds to its plan by its results (ADR 19): the same results give the same cells.

An open loop needs the peak of the closed loop's levels; a density search needs to know whether the
previous step kept the limit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from leadline.metrics import Metric
from leadline.plan.expand import OPEN_LOOP_DEPTH, interleaved, level_label, states_of
from leadline.plan.models import Cell, Density, FollowUp, OpenLoop, Plan, Trial
from leadline.plan.workload import Phase


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
) -> tuple[Trial, ...]:
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
        for trial in interleaved([repeats] * len(cells), order, states_of(plan, cells))
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
