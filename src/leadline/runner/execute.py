"""Carrying out a plan: acquire, prefill and verify, run every trial, release, seal.

Whatever happens, targets are released and the archive says what happened. Nothing here judges.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from leadline import errors
from leadline.archive.records import Problem, RunStatus, TrialRecord, TrialStatus
from leadline.archive.writer import RunWriter
from leadline.errors import LeadlineError
from leadline.inventory.models import HostInventory
from leadline.plan.footprint import Footprint, footprint_of
from leadline.plan.models import Cell, LeftOut, Plan, Trial, Workload
from leadline.probes.host import host_inventory
from leadline.runner.events import Noted, Observer, RunStarted
from leadline.runner.ports import Engines, System, Target
from leadline.runner.prefill import Prefilled, prefill
from leadline.runner.stop import StopRequest
from leadline.runner.trial import TrialRunner, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the session ended; `problem` is why it could not go on, where that is so."""

    status: RunStatus
    records: tuple[TrialRecord, ...]
    problem: LeadlineError | None = None


def inspect_targets(plan: Plan, targets: Sequence[Target]) -> Mapping[str, Footprint]:
    """Every refusal there is, before anything is touched; the footprint of each target."""
    footprints = {target.name: footprint_of(plan.cells_of(target.name)) for target in targets}
    claimed: dict[object, int] = {}
    for target in targets:
        footprint, volume = footprints[target.name], target.volume()
        target.inspect(
            footprint, prefill=plan.prefill, claimed_bytes=claimed.get(volume, 0) if volume else 0
        )
        claimed[volume] = claimed.get(volume, 0) + footprint.total_bytes
    return footprints


def left_out(plan: Plan, targets: Sequence[Target]) -> tuple[LeftOut, ...]:
    """The optional targets that cannot be used here, with the reason. What speaks against any
    other is raised later, by `inspect_targets`."""
    found = []
    for target in targets:
        if target.name not in plan.optional:
            continue
        try:
            target.inspect(footprint_of(plan.cells_of(target.name)), prefill=plan.prefill)
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
    targets = [target for target in targets if target.name in needed]
    footprints = inspect_targets(plan, targets)
    observe(RunStarted(run=writer.path.name, plan=plan, to_do=len(to_do)))
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
        workloads = _resolved(plan, engines, targets)
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
        records = _run_trials(
            plan, to_do, workloads, prefilled, targets, engines, writer, stop, observe
        )
    except LeadlineError as error:
        problem = error
    finally:
        left = [sentence for target in targets for sentence in target.release()]
    for sentence in left:
        observe(Noted(message=sentence))
    writer.write_inventory("end", host_inventory(plan.targets, fio))
    _capture("end", systems, writer, observe)
    unfinished = stop.requested or problem is not None or bool(writer.run.to_do())
    status = RunStatus.INTERRUPTED if unfinished else RunStatus.COMPLETE
    writer.seal(status, ended_at=now(), problems=_told(problem, left))
    return Outcome(status=status, records=tuple(records), problem=problem)


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


def _resolved(plan: Plan, engines: Engines, targets: Sequence[Target]) -> dict[int, Workload]:
    """Each cell's workload with its I/O engine settled, tried once a target, engine and mode."""
    settled: dict[tuple[str, str, bool], Workload] = {}
    workloads: dict[int, Workload] = {}
    by_name = {target.name: target for target in targets}
    for number, cell in enumerate(plan.cells):
        target = by_name.get(cell.target)
        if target is None:
            continue
        workload = cell.workload
        engine = engines.of(workload, plan.target(cell.target).parsed.kind)
        key = (cell.target, workload.engine.value, workload.direct)
        if key not in settled:
            settled[key] = engine.resolve(workload, target.location)
        workloads[number] = workload.model_copy(update={"engine": settled[key].engine})
    return workloads


def _run_trials(
    plan: Plan,
    to_do: Sequence[Trial],
    workloads: Mapping[int, Workload],
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
            footprint = footprint_of(plan.cells_of(cell.target))
            given = prefill(
                plan, target, footprint, engines, writer, stop, observe, before=trial.id
            )
            if plan.prefill and not stop.requested:
                target.settle(time.monotonic())
        used.add(cell.target)
        left_s -= cell.workload.duration_s
        record = runner.run(
            trial,
            cell.model_copy(update={"workload": workloads[trial.cell]}),
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
