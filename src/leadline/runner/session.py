"""One session of a run: acquire its targets, prefill them, run every trial, release, seal.

A plan with groups does this for one group after the other. Settings are restored, targets are
released and the archive is sealed whatever happens. No result is interpreted here.
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
from leadline.plan.follow_ups import (
    Outcomes,
    TrialOutcome,
    add_round,
    grow_plan,
    next_cells,
    waiting_targets,
)
from leadline.plan.groups import PlannedGroup, planned_groups, target_demand
from leadline.plan.guard_rules import prefill_s
from leadline.plan.models import Cell, Group, Plan, Trial
from leadline.plan.stop_rules import most_seconds
from leadline.probes.host import host_inventory
from leadline.runner.events import Looked, Noted, RunStarted
from leadline.runner.ports import problem_from
from leadline.runner.prepared import PreparedTarget, RunRequest
from leadline.runner.recovery import prefill_anew, run_again
from leadline.runner.trial import TrialRequest, now, run_trial
from leadline.text import shortened

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
    session = _Session(request)
    guard = request.guard
    try:
        if guard is not None and guard.limits:
            guard.begin(writer.make_guard_file())
        session.run()
    finally:
        if guard is not None:
            guard.end()
        left = session.leave_all()
    writer.write_inventory("end", host_inventory(plan.targets, fio))
    _capture("end", request)
    lacking = bool(writer.run.to_do()) or writer.run.undecided
    unfinished = request.stop.requested or bool(session.failed) or lacking
    status = RunStatus.INTERRUPTED if unfinished else RunStatus.COMPLETE
    failed = session.failed
    problem = _one_problem(failed)
    if guard is not None and guard.problem is not None:
        status, problem = RunStatus.GUARDED, guard.problem
        # What the request to stop ended is no failure of its own.
        failed = [problem, *(error for error in failed if error.kind is not errors.INTERRUPTED)]
    problems = [Problem(code=errors.LEFT_BEHIND.code, fact=sentence) for sentence in left]
    problems += [problem_from(error) for error in failed]
    writer.seal(status, ended_at=now(), problems=tuple(problems))
    return Outcome(
        status=status,
        records=tuple(session.records),
        problem=problem,
        left=tuple(left),
    )


def _one_problem(failed: Sequence[LeadlineError]) -> LeadlineError | None:
    """The error of a session: that of its only failed group, or the first one with the others."""
    if len(failed) < 2:
        return failed[0] if failed else None
    first = failed[0]
    return LeadlineError(
        first.kind,
        f"{len(failed)} groups failed, the first one: {first.fact}",
        context=[*first.context, *(f"then: {error.fact}" for error in failed[1:])],
        hint=first.hint,
    )


def needed_targets(run: Run, to_do: Sequence[Trial]) -> frozenset[str]:
    """The targets whose data the trials to do use, and those on which follow-ups or looks may add
    trials."""
    if run.plan.stop is not None and (to_do or run.undecided):
        return frozenset(target.name for target in run.plan.own_targets)
    own = {run.plan.cells[trial.cell].target for trial in to_do}
    needed = waiting_targets(run.plan, trial_outcomes(run)) | own
    return frozenset(map(run.plan.base_of, needed))


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
        engine = request.engines.engine_for(cell.workload, plan.target(cell.target).parsed)
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


class _Session:
    """The groups of a session, one after the other; `failed` are the errors of groups. A plan
    without groups is one group."""

    def __init__(self, request: RunRequest) -> None:
        self.records: list[TrialRecord] = []
        self.failed: list[LeadlineError] = []
        self._request = request
        self._plan = request.plan
        self._number = 0
        self._left_s = _asked_s(request.plan, request.to_do)
        self._stacks: dict[str, TargetStack] = {}
        # What could not be released, by target: it still takes its part of the budget.
        self._held: dict[str, tuple[str, ...]] = {}
        self._attempts = {
            stored.record.trial: stored.record.attempt for stored in request.writer.run.attempts
        }

    def run(self) -> None:
        """Run each group; an error of one ends that group, without groups the session."""
        request = self._request
        groups = planned_groups(request.plan, request.to_do)
        for number, planned in enumerate(groups, start=1):
            if request.stop.requested:
                return
            wanted = self._wanted(planned)
            targets = [one for one in request.targets if one.name in wanted]
            if not targets:
                continue
            where = ""
            if request.plan.groups:
                where = f"group {number} of {len(groups)}"
                names = shortened([one.name for one in targets], 4)
                request.observe(Noted(message=f"{where}: {names}"))
            try:
                self._require_budget(planned, targets)
                self._run_group(planned, targets)
            except LeadlineError as error:
                if not where:
                    self.failed.append(error)
                    return
                context = [f"{where}: {shortened(planned.group.targets, 4)}", *error.context]
                self.failed.append(
                    LeadlineError(error.kind, error.fact, context=context, hint=error.hint)
                )
                if not request.stop.requested:
                    request.observe(Noted(message=f"{where} failed: {error.fact}"))
            finally:
                if where:
                    self._release(targets)

    def _wanted(self, planned: PlannedGroup) -> set[str]:
        """The targets of a group with trials to do, and those that follow-ups may add some to."""
        run, cells = self._request.writer.run, self._plan.cells
        waiting = waiting_targets(run.plan, trial_outcomes(run)) if run.plan.follow_ups else set()
        own = {cells[trial.cell].target for trial in planned.trials}
        if run.plan.stop is not None:
            return set(planned.group.targets)
        return set(map(self._plan.base_of, own | (waiting & set(planned.group.targets))))

    def _require_budget(self, planned: PlannedGroup, targets: Sequence[PreparedTarget]) -> None:
        """Raise LeadlineError where a target of the group is still held, or the group exceeds the
        budget together with what could not be released."""
        self._release([target for target in targets if target.name in self._held])
        stuck = [target.name for target in targets if target.name in self._held]
        others = [target_demand(self._plan, name) for name in self._held]
        excess: list[str] = []
        if self._plan.budget is not None and others:
            excess = list(sum(others, planned.demand).excess(self._plan.budget))
        if stuck or excess:
            fact = (
                f"{stuck[0]!r} could not be removed after an earlier group"
                if stuck
                else "with what could not be removed, the group exceeds the budget: "
                + "; ".join(excess)
            )
            raise LeadlineError(
                errors.LEFT_BEHIND,
                fact,
                context=[sentence for left in self._held.values() for sentence in left],
                hint="remove what is stuck",
            )

    def _release(self, targets: Sequence[PreparedTarget]) -> None:
        for target in targets:
            left = target.adapter.release()
            self._held.pop(target.name, None)
            if left:
                self._held[target.name] = left

    def leave_all(self) -> list[str]:
        """Restore settings, release every target and what served all of them; sentences about what
        is left."""
        request = self._request
        # Without the OSDs that a drill stopped, an image cannot be removed.
        events = dict.fromkeys(request.events.values())
        left = [
            sentence for event in events for sentence in event.leave(request.writer, request.stop)
        ]
        if request.states is not None:
            left += request.states.leave(request.writer.run.id, request.writer)
        left += [sentence for target in request.targets for sentence in target.adapter.release()]
        return left + [sentence for system in request.systems for sentence in system.leave()]

    def _run_group(self, planned: PlannedGroup, targets: Sequence[PreparedTarget]) -> None:
        if not self._request.admit(0.0):
            return
        # A resumed run may lack no more than a look.
        to_do = planned.trials or self._grow(planned.group)
        if not to_do:
            return
        self._acquire(targets)
        # Held again for another repeat, a target needs its data again.
        again = planned.group.blocks and planned.trials
        first = planned.trials[0].id if again else ""
        self._prefill(targets, first)
        used: set[str] = set()
        while not self._request.stop.requested:
            if not to_do:
                to_do = self._grow(planned.group)
            if not to_do:
                return
            for record in self._run_batch(to_do, used):
                self.records.append(record)
            to_do = ()

    def _acquire(self, targets: Sequence[PreparedTarget]) -> None:
        """Acquire targets, archive their layers, and settle the I/O engine of every cell."""
        request, writer = self._request, self._request.writer
        for target in targets:
            target.acquire(writer.run.id, writer)
        layers = {target.name: target.layers for target in targets}
        for name, base in ((one.name, one.base or one.name) for one in self._plan.targets):
            if base in layers:
                self._stacks[name] = TargetStack(target=name, layers=layers[base])
        writer.write_stacks(Stacks(stacks=tuple(self._stacks.values())))
        for target in targets:
            writer.write_target(target.name, target.adapter.dumps())
        for target in targets:
            for cell in request.plan.cells_of(target.name):
                target.settle_engine(cell)

    def _prefill(self, targets: Sequence[PreparedTarget], before: str) -> None:
        """Prefill targets, then wait until none of the writes disturbs trials."""
        request = self._request
        for target in targets:
            if request.admit(prefill_s(request.plan, target.name)):
                prefill_anew(request, target, before=before)
        written_at_s = time.monotonic()
        for target in targets:
            if request.plan.prefill and not request.stop.requested:
                target.adapter.settle(written_at_s)

    def _grow(self, group: Group) -> tuple[Trial, ...]:
        """Archive the plan with the cells that the results of a group ask for; the new trials."""
        request, plan = self._request, self._plan
        if plan.stop is not None:
            return self._next_round()
        cells = [
            cell
            for cell in next_cells(plan, trial_outcomes(request.writer.run))
            if cell.target in group.targets
        ]
        if not cells:
            return ()
        self._plan = grow_plan(plan, cells)
        request.writer.extend(self._plan)
        for cell in cells:
            request.observe(Noted(message=f"added by what was measured: {cell.label}"))
        return self._added(plan)

    def _next_round(self) -> tuple[Trial, ...]:
        """Look at the comparisons, unless a killed session did; the trials of the open cells."""
        request, plan, run = self._request, self._plan, self._request.writer.run
        if run.look_due:
            assert request.take_look is not None, "a plan with `stop:` is run with looks"
            look = request.take_look(run)
            request.writer.write_look(look)
        else:
            look = run.looks[-1]
        left_s = 0.0 if look.end else most_seconds(plan, look.round, look.open)
        request.observe(Looked(look=look, left_s=left_s))
        if look.end is not None:
            return ()
        self._plan = add_round(plan, look.open)
        request.writer.extend(self._plan)
        return self._added(plan)

    def _added(self, before: Plan) -> tuple[Trial, ...]:
        """The trials that the plan has now and had not before."""
        added = self._plan.trials[len(before.trials) :]
        self._number, self._left_s = 0, _asked_s(self._plan, added)
        return added

    def _run_batch(self, trials: Sequence[Trial], used: set[str]) -> Iterator[TrialRecord]:
        """Run trials in order. A fresh target is renewed where `used` says that it had a trial."""
        request, plan = self._request, self._plan
        planned = len(trials) if plan is not request.plan else len(request.to_do)
        for trial in trials:
            if request.stop.requested:
                return
            cell = plan.cells[trial.cell]
            target = request.target(cell.target)
            problem = self._enter(cell.target)
            if target.adapter.fresh and target.name in used:
                if not request.admit(prefill_s(plan, target.name)):
                    return
                target.adapter.renew()
                prefill_anew(request, target, before=trial.id)
                if plan.prefill and not request.stop.requested:
                    target.adapter.settle(time.monotonic())
            if not request.admit(cell.workload.duration_s):
                return
            used.add(target.name)
            self._left_s -= cell.workload.duration_s
            self._number += 1
            count = max(planned, self._number)
            run_attempt = partial(self._run_attempt, trial, cell, count, problem)
            record = run_attempt(self._attempts.get(trial.id, 0) + 1)
            record = run_again(request, target, record, run_attempt)
            yield record
            if record.status is TrialStatus.INTERRUPTED:
                return

    def _enter(self, target: str) -> Problem | None:
        """Bring running systems into the state of a target, and into that before its drill; why
        that failed. Raises LeadlineError(`interrupted`)."""
        request = self._request
        doing = "a setting was applied"

        def go_on(waits_for: str = "") -> None:
            if waits_for:
                request.observe(Noted(message=waits_for))
            if request.stop.requested:
                raise LeadlineError(errors.INTERRUPTED, f"stopped while {doing}")

        try:
            if request.states is not None:
                named = self._plan.target(target)
                request.states.enter(named, request.writer.run.id, request.writer, go_on)
            if target in request.events:
                doing = "a drill was prepared"
                request.events[target].prepare(request.writer, go_on)
        except LeadlineError as error:
            if error.kind is errors.INTERRUPTED:
                raise
            return problem_from(error)
        return None

    def _run_attempt(
        self, trial: Trial, cell: Cell, count: int, problem: Problem | None, attempt: int
    ) -> TrialRecord:
        target = self._request.target(cell.target)
        return run_trial(
            self._request,
            TrialRequest(
                trial=trial,
                cell=target.settle_engine(cell),
                target=target,
                attempt=attempt,
                number=self._number,
                count=count,
                left_s=self._left_s,
                problem=problem,
            ),
        )


def _asked_s(plan: Plan, trials: Sequence[Trial]) -> float:
    """Seconds that trials ask of the engine."""
    return sum(plan.cells[trial.cell].workload.duration_s for trial in trials)
