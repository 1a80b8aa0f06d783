"""One session of a run: acquire its targets, prefill them, run every trial, release, seal.

Targets are released and the archive is sealed whatever happens. No result is interpreted here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from leadline.errors import LeadlineError
from leadline.inventory.host import HostInventory
from leadline.metrics import Metric, Op
from leadline.plan.expand import Outcomes, TrialOutcome, grow_plan, next_cells, waiting_targets
from leadline.plan.models import Cell, Plan, Trial
from leadline.probes.host import host_inventory
from leadline.runner.events import Noted, RunStarted
from leadline.runner.ports import problem_from
from leadline.runner.prepared import RunRequest
from leadline.runner.recovery import prefill_anew, run_again
from leadline.runner.trial import TrialRequest, now, run_trial

_OVER = (TrialStatus.COMPLETED, TrialStatus.FAILED, TrialStatus.HUNG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the session ended: `problem` is what stopped it, `left` what could not be removed."""

    status: RunStatus
    records: tuple[TrialRecord, ...]
    problem: LeadlineError | None = None
    left: tuple[str, ...] = ()


def run_session(request: RunRequest) -> Outcome:
    """Run the trials to do into the archive, then seal it.

    Returns also when the user stopped the run or a target failed.
    """
    plan, writer, observe = request.plan, request.writer, request.observe
    count = len(request.to_do)
    asked_s = _asked_s(plan, request.to_do)
    observe(RunStarted(run=writer.path.name, plan=plan, to_do=count, asked_s=asked_s))
    fio = _fio_version(request)
    host = host_inventory(plan.targets, fio)
    for difference in _host_changes(writer.run.inventory("start"), host):
        observe(Noted(message=f"this session differs from the run's first: {difference}"))
    writer.write_inventory("start", host)
    _capture("start", request)
    records: list[TrialRecord] = []
    problem: LeadlineError | None = None
    try:
        _acquire(request)
        _prefill(request)
        for record in _run_trials(request):
            records.append(record)
    except LeadlineError as error:
        problem = error
    finally:
        left = [sentence for target in request.targets for sentence in target.adapter.release()]
    writer.write_inventory("end", host_inventory(plan.targets, fio))
    _capture("end", request)
    unfinished = request.stop.requested or problem is not None or bool(writer.run.to_do())
    status = RunStatus.INTERRUPTED if unfinished else RunStatus.COMPLETE
    problems = [Problem(code=errors.LEFT_BEHIND.code, fact=sentence) for sentence in left]
    if problem is not None:
        problems.append(problem_from(problem))
    writer.seal(status, ended_at=now(), problems=tuple(problems))
    return Outcome(status=status, records=tuple(records), problem=problem, left=tuple(left))


def needed_targets(run: Run, to_do: Sequence[Trial]) -> frozenset[str]:
    """The targets of the trials to do, and those on which follow-ups may add cells."""
    own = {run.plan.cells[trial.cell].target for trial in to_do}
    return waiting_targets(run.plan, trial_outcomes(run)) | own


def trial_outcomes(run: Run) -> Outcomes:
    """The outcomes of all trials that are over, by the number of their cell in the plan."""
    cell_of = {trial.id: trial.cell for trial in run.plan.trials}
    found: dict[int, list[TrialOutcome]] = {}
    for stored in run.trials:
        number = cell_of.get(stored.record.trial)
        if number is not None and stored.record.status in _OVER:
            found.setdefault(number, []).append(_trial_outcome(stored.record, stored.derived))
    return found


def _trial_outcome(record: TrialRecord, derived: Derived | None) -> TrialOutcome:
    if record.status is not TrialStatus.COMPLETED or derived is None:
        problem = record.problem
        overloaded = problem is not None and problem.code == errors.RATE_NOT_REACHED.code
        return TrialOutcome(overloaded=overloaded)
    parts = [operation for operation in derived.operations if operation.op is not Op.TOTAL]
    latencies: dict[Metric, float | None] = {}
    for metric in filter(lambda metric: metric.is_latency, Metric):
        known = [value for part in parts if (value := part.metrics.get(metric)) is not None]
        # The latency of reads alone would pass for that of reads and writes.
        latencies[metric] = max(known) if known and len(known) == len(parts) else None
    iops = sum(part.metrics.get(Metric.IOPS) or 0.0 for part in parts)
    return TrialOutcome(iops=iops, latencies=latencies)


def _host_changes(first: HostInventory | None, host: HostInventory) -> list[str]:
    """How this machine differs from the run's first session, as sentences."""
    if first is None:
        return []
    return [
        f"{key.replace('_', ' ')} is {getattr(host, key)}, was {getattr(first, key)}"
        for key in ("hostname", "kernel", "cpu_model", "cores", "memory_bytes", "fio_version")
        if getattr(host, key) != getattr(first, key)
    ]


def _fio_version(request: RunRequest) -> str:
    """fio's version where any cell of the plan uses it; empty otherwise."""
    plan = request.plan
    for cell in plan.cells:
        engine = request.engines.engine_for(cell.workload, plan.target(cell.target).parsed.kind)
        if engine.version.startswith("fio"):
            return engine.version
    return ""


def _capture(moment: Literal["start", "end"], request: RunRequest) -> None:
    """Archive the inventory of every system; one that does not answer does not end the run."""
    for system in request.systems:
        try:
            request.writer.write_system(moment, system.name, system.capture())
        except LeadlineError as error:
            message = f"no inventory of {system.name} at the {moment}: {error.fact}"
            request.observe(Noted(message=message))


def _acquire(request: RunRequest) -> None:
    """Acquire every target, archive its layers, and settle the I/O engine of every cell."""
    targets, writer = request.targets, request.writer
    for target in targets:
        target.acquire(writer.path.name, writer)
    stacks = tuple(TargetStack(target=target.name, layers=target.layers) for target in targets)
    writer.write_stacks(Stacks(stacks=stacks))
    for target in targets:
        writer.write_target(target.name, target.adapter.dumps())
    for target in targets:
        for cell in request.plan.cells_of(target.name):
            target.settle_engine(cell)


def _prefill(request: RunRequest) -> None:
    """Prefill every target, then wait until none of the writes disturbs trials."""
    for target in request.targets:
        if not request.stop.requested:
            prefill_anew(request, target)
    written_at_s = time.monotonic()
    for target in request.targets:
        if request.plan.prefill and not request.stop.requested:
            target.adapter.settle(written_at_s)


def _run_trials(request: RunRequest) -> Iterator[TrialRecord]:
    """Run the trials to do, then those that follow-ups add to the plan."""
    plan, to_do = request.plan, request.to_do
    used: set[str] = set()
    while not request.stop.requested:
        if not to_do:
            plan, to_do = _grow(plan, request)
        if not to_do:
            return
        yield from _run_batch(plan, to_do, request, used)
        to_do = ()


def _grow(plan: Plan, request: RunRequest) -> tuple[Plan, tuple[Trial, ...]]:
    """Archive the plan with the cells that its results ask for; it, and the new trials."""
    cells = next_cells(plan, trial_outcomes(request.writer.run))
    if not cells:
        return plan, ()
    grown = grow_plan(plan, cells)
    request.writer.extend(grown)
    for cell in cells:
        request.observe(Noted(message=f"added by what was measured: {cell.label}"))
    return grown, grown.trials[len(plan.trials) :]


def _run_batch(
    plan: Plan, trials: Sequence[Trial], request: RunRequest, used: set[str]
) -> Iterator[TrialRecord]:
    """Run trials in order. A fresh target is renewed where `used` says that it had a trial."""
    attempts = {
        stored.record.trial: stored.record.attempt for stored in request.writer.run.attempts
    }
    left_s = _asked_s(plan, trials)
    for number, trial in enumerate(trials, start=1):
        if request.stop.requested:
            return
        cell = plan.cells[trial.cell]
        target = request.target(cell.target)
        if target.adapter.fresh and target.name in used:
            target.adapter.renew()
            prefill_anew(request, target, before=trial.id)
            if plan.prefill and not request.stop.requested:
                target.adapter.settle(time.monotonic())
        used.add(target.name)
        left_s -= cell.workload.duration_s
        run_attempt = partial(_run_attempt, request, trial, cell, number, len(trials), left_s)
        record = run_attempt(attempts.get(trial.id, 0) + 1)
        record = run_again(request, target, record, run_attempt)
        yield record
        if record.status is TrialStatus.INTERRUPTED:
            return


def _run_attempt(
    request: RunRequest,
    trial: Trial,
    cell: Cell,
    number: int,
    count: int,
    left_s: float,
    attempt: int,
) -> TrialRecord:
    target = request.target(cell.target)
    return run_trial(
        request,
        TrialRequest(
            trial=trial,
            cell=target.settle_engine(cell),
            target=target,
            attempt=attempt,
            number=number,
            count=count,
            left_s=left_s,
        ),
    )


def _asked_s(plan: Plan, trials: Sequence[Trial]) -> float:
    """Seconds that trials ask of the engine."""
    return sum(plan.cells[trial.cell].workload.duration_s for trial in trials)
