"""Carrying out a plan: acquire, prefill and verify, run every trial, release, seal.

Whatever happens, targets are released and the archive says what happened. Nothing here judges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import (
    Derived,
    Problem,
    RunStatus,
    Stacks,
    TargetStack,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import RunWriter
from leadline.errors import LeadlineError
from leadline.inventory.host import HostInventory
from leadline.metrics import Metric, Op
from leadline.plan.expand import Outcomes, TrialOutcome, grown, next_cells, waiting_targets
from leadline.plan.footprint import Footprint, target_footprint
from leadline.plan.models import Cell, LeftOut, Plan, Trial, Workload
from leadline.probes.host import host_inventory
from leadline.runner.events import Noted, Observer, RunStarted, StopRequest
from leadline.runner.ports import Engines, System, Target
from leadline.runner.prefill import Prefilled, prefill
from leadline.runner.trial import TrialRunner, now

# What a run's trials showed, as far as what the run adds to its plan depends on it.

_OVER = (TrialStatus.COMPLETED, TrialStatus.FAILED, TrialStatus.HUNG)


def outcomes(run: Run) -> Outcomes:
    """By the number of each cell of the plan, its trials that are over."""
    cell_of = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[TrialOutcome]] = {}
    for stored in run.trials:
        number = cell_of.get(stored.record.trial)
        if number is not None and stored.record.status in _OVER:
            found.setdefault(number, []).append(_outcome(stored.record, stored.derived))
    return found


def _outcome(record: TrialRecord, derived: Derived | None) -> TrialOutcome:
    if record.status is not TrialStatus.COMPLETED or derived is None:
        problem = record.problem
        overloaded = problem is not None and problem.code == errors.RATE_NOT_REACHED.code
        return TrialOutcome(overloaded=overloaded)
    parts = [one for one in derived.operations if one.op is not Op.TOTAL]
    latencies: dict[Metric, float | None] = {}
    for metric in Metric:
        if metric.is_latency:
            values = [one.metrics.get(metric) for one in parts]
            told = [value for value in values if value is not None]
            # A part of them would pass for all.
            latencies[metric] = max(told) if told and len(told) == len(values) else None
    return TrialOutcome(
        iops=sum(one.metrics.get(Metric.IOPS) or 0.0 for one in parts), latencies=latencies
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the session ended; `problem` is why it could not go on, where that is so; `left` says
    what could not be removed."""

    status: RunStatus
    records: tuple[TrialRecord, ...]
    problem: LeadlineError | None = None
    left: tuple[str, ...] = ()


def inspect_targets(plan: Plan, targets: Sequence[Target]) -> Mapping[str, Footprint]:
    """Every refusal there is, before anything is touched; the footprint of each target."""
    footprints = {target.name: target_footprint(plan, target.name) for target in targets}
    claimed: dict[object, int] = {}
    for target in targets:
        footprint, volume = footprints[target.name], target.volume()
        target.inspect(
            footprint, prefill=plan.prefill, claimed_bytes=claimed.get(volume, 0) if volume else 0
        )
        claimed[volume] = claimed.get(volume, 0) + footprint.room_bytes
    return footprints


def left_out(plan: Plan, targets: Sequence[Target]) -> tuple[LeftOut, ...]:
    """The optional targets that cannot be used here, with the reason. What speaks against any
    other is raised later, by `inspect_targets`."""
    found = []
    for target in targets:
        if target.name not in plan.optional:
            continue
        try:
            target.inspect(target_footprint(plan, target.name), prefill=plan.prefill)
        except LeadlineError as error:
            cluster = plan.target(target.name).cluster
            found.append(LeftOut(target=target.name, cluster=cluster, reason=error.fact))
    return tuple(found)


def carry_out(
    *,
    plan: Plan,
    to_do: Sequence[Trial],
    writer: RunWriter,
    engines: Engines,
    targets: Sequence[Target],
    systems: Sequence[System] = (),
    stop: StopRequest,
    observe: Observer,
) -> Outcome:
    """Carry out the trials `to_do` of a plan into the archive, then seal it.

    Returns also when the user stopped it or a target failed; the outcome tells.
    """
    needed = {plan.cells[trial.cell].target for trial in to_do}
    needed |= waiting_targets(plan, outcomes(writer.run))
    targets = [target for target in targets if target.name in needed]
    footprints = inspect_targets(plan, targets)
    asked_s = sum(plan.cells[trial.cell].workload.duration_s for trial in to_do)
    observe(RunStarted(run=writer.path.name, plan=plan, to_do=len(to_do), asked_s=asked_s))
    fio = _fio_version(plan, engines)
    host = host_inventory(plan.targets, fio)
    for difference in _changed(writer.run.inventory("start"), host):
        observe(Noted(message=f"this session differs from the run's first: {difference}"))
    writer.write_inventory("start", host)
    _capture("start", systems, writer, observe)
    records: list[TrialRecord] = []
    problem: LeadlineError | None = None
    try:
        for target in targets:
            target.acquire(footprints[target.name], writer.path.name, writer)
        writer.write_stacks(
            Stacks(
                stacks=tuple(
                    TargetStack(target=target.name, layers=target.layers()) for target in targets
                )
            )
        )
        for target in targets:
            writer.write_target(target.name, target.dumps())
        settled = _Settled(engines, targets)
        for cell in plan.cells:
            settled.cell(plan, cell)
        prefilled = {
            target.name: prefill(
                plan, target, footprints[target.name], engines, writer, stop, observe
            )
            for target in targets
            if not stop.requested
        }
        written_at_s = time.monotonic()
        for target in targets:
            if plan.prefill and not stop.requested:
                target.settle(written_at_s)
        while not stop.requested:
            if not to_do:
                plan, to_do = _grown(plan, writer, observe)
            if not to_do:
                break
            records += _run_trials(
                plan, to_do, settled, prefilled, targets, engines, writer, stop, observe
            )
            to_do = ()
    except LeadlineError as error:
        problem = error
    finally:
        left = [sentence for target in targets for sentence in target.release()]
    writer.write_inventory("end", host_inventory(plan.targets, fio))
    _capture("end", systems, writer, observe)
    unfinished = stop.requested or problem is not None or bool(writer.run.to_do())
    status = RunStatus.INTERRUPTED if unfinished else RunStatus.COMPLETE
    writer.seal(status, ended_at=now(), problems=_told(problem, left))
    return Outcome(status=status, records=tuple(records), problem=problem, left=tuple(left))


def _changed(first: HostInventory | None, host: HostInventory) -> list[str]:
    """What makes trials of a resumed session unlike those before, as sentences."""
    if first is None:
        return []
    return [
        f"{key.replace('_', ' ')} is {getattr(host, key)}, was {getattr(first, key)}"
        for key in ("hostname", "kernel", "cpu_model", "cores", "memory_bytes", "fio_version")
        if getattr(host, key) != getattr(first, key)
    ]


def _fio_version(plan: Plan, engines: Engines) -> str:
    """fio's version where any cell uses it; empty otherwise."""
    for cell in plan.cells:
        engine = engines.of(cell.workload, plan.target(cell.target).parsed.kind)
        if engine.version.startswith("fio"):
            return engine.version
    return ""


def _capture(
    moment: Literal["start", "end"],
    systems: Sequence[System],
    writer: RunWriter,
    observe: Observer,
) -> None:
    """The inventory of every system under test; one that does not answer is told of and does not
    take the run with it."""
    for system in systems:
        try:
            writer.write_system(moment, system.name, system.capture())
        except LeadlineError as error:
            observe(Noted(message=f"no inventory of {system.name} at the {moment}: {error.fact}"))


def _grown(plan: Plan, writer: RunWriter, observe: Observer) -> tuple[Plan, tuple[Trial, ...]]:
    """The plan with the cells that its results ask for, kept before any of them is measured, and
    what there is to do of them."""
    cells = next_cells(plan, outcomes(writer.run))
    if not cells:
        return plan, ()
    more = grown(plan, cells)
    writer.extend(more)
    for cell in cells:
        observe(Noted(message=f"added by what was measured: {cell.label}"))
    return more, more.trials[len(plan.trials) :]


class _Settled:
    """Cells' workloads with their I/O engine settled, tried once a target, engine and mode."""

    def __init__(self, engines: Engines, targets: Sequence[Target]) -> None:
        self._engines = engines
        self._targets = {target.name: target for target in targets}
        self._settled: dict[tuple[str, str, bool, bool], Workload] = {}

    def cell(self, plan: Plan, cell: Cell) -> Cell:
        """The cell as it can be measured; as it is where its target takes no part."""
        if cell.target not in self._targets:
            return cell
        workload = cell.workload
        engine = self._engines.of(workload, plan.target(cell.target).parsed.kind)
        key = (cell.target, workload.engine.value, workload.direct, workload.fits_rings)
        if key not in self._settled:
            self._settled[key] = engine.resolve(workload, self._targets[cell.target].location)
        settled = workload.model_copy(update={"engine": self._settled[key].engine})
        return cell.model_copy(update={"workload": settled})


def _run_trials(
    plan: Plan,
    to_do: Sequence[Trial],
    settled: _Settled,
    prefilled: Mapping[str, Prefilled],
    targets: Sequence[Target],
    engines: Engines,
    writer: RunWriter,
    stop: StopRequest,
    observe: Observer,
) -> list[TrialRecord]:
    by_name = {target.name: target for target in targets}
    attempts = {one.record.trial: one.record.attempt for one in writer.run.attempts}
    runner = TrialRunner(
        plan=plan, engines=engines, writer=writer, stop=stop, observe=observe, count=len(to_do)
    )
    left_s = sum(plan.cells[trial.cell].workload.duration_s for trial in to_do)
    records: list[TrialRecord] = []
    used: set[str] = set()
    for number, trial in enumerate(to_do, start=1):
        if stop.requested:
            break
        cell: Cell = plan.cells[trial.cell]
        target = by_name[cell.target]
        given = prefilled[cell.target]
        if target.fresh and cell.target in used:
            target.renew()
            footprint = target_footprint(plan, cell.target)
            given = prefill(
                plan, target, footprint, engines, writer, stop, observe, before=trial.id
            )
            if plan.prefill and not stop.requested:
                target.settle(time.monotonic())
        used.add(cell.target)
        left_s -= cell.workload.duration_s
        record = runner.run(
            trial,
            settled.cell(plan, cell),
            target=target,
            prefilled=given,
            attempt=attempts.get(trial.id, 0) + 1,
            number=number,
            left_s=left_s,
        )
        records.append(record)
        if record.status is TrialStatus.INTERRUPTED:
            break
    return records


def _told(problem: LeadlineError | None, left: Sequence[str]) -> tuple[Problem, ...]:
    told = [Problem(code=errors.LEFT_BEHIND.code, fact=sentence) for sentence in left]
    if problem:
        told.append(problem_of(problem))
    return tuple(told)


def problem_of(error: LeadlineError) -> Problem:
    return Problem(code=error.kind.code, fact=error.fact, context=error.context, hint=error.hint)
