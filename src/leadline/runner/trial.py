"""One trial: drop caches, run the engine within its time bound, record the result."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import derive, read_output
from leadline.archive.records import (
    CacheDrop,
    Derived,
    Extent,
    Problem,
    RoundTrip,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import RunWriter
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.plan.guard import Guard
from leadline.plan.guard_rules import limited
from leadline.plan.models import Cell, Trial
from leadline.plan.workload import Workload
from leadline.probes.host import CpuTimes, processor_between
from leadline.runner.drill import TrialDrill
from leadline.runner.events import TrialEnded, TrialProgress, TrialStarted
from leadline.runner.ports import (
    Engine,
    Execution,
    Job,
    Location,
    Progress,
    RemoteVolumes,
    problem_from,
)
from leadline.runner.prefill import LEAST_BOUND_S, SLOWEST_BPS
from leadline.runner.prepared import PreparedTarget, RunRequest


def now() -> str:
    """The time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """A trial to run: its cell has a settled I/O engine, `number` of `count` is its place in the
    session, `left_s` what the trials after it ask of the engine. With a `problem` it fails
    without I/O."""

    trial: Trial
    cell: Cell
    target: PreparedTarget
    attempt: int
    number: int
    count: int
    left_s: float
    problem: Problem | None = None


def run_trial(run: RunRequest, request: TrialRequest) -> TrialRecord:
    """Run one trial into the archive. A failure is in the record and is never raised."""
    trial, cell, target = request.trial, request.cell, request.target
    if run.guard is not None:
        run.guard.trial = trial.id
    asked_s = cell.workload.duration_s
    engine = target.engine_for(cell.workload)
    run.observe(
        TrialStarted(
            trial=trial,
            cell=cell,
            number=request.number,
            count=request.count,
            asked_s=asked_s,
            left_s=request.left_s,
        )
    )
    bound_s = trial_bound_s(cell.workload, run.plan.grace_s)
    name = f"{layout.TRIALS}/{trial.id}-{_slug(cell)}-{request.attempt}"
    with run.writer.staged(name) as folder:
        started_at, began = now(), time.monotonic()
        conditions = (
            _prepare(run, cell, target)
            if request.problem is None
            else _Conditions(problem=request.problem)
        )
        before = CpuTimes.now()
        if conditions.problem is None:
            workload = within_budget(cell.workload, target.location, run.plan.guard)
            job = make_job(engine, workload, target.location, trial.seed, bound_s)
            execution = _execute(run, target, engine, job, folder, workload)
        else:
            execution = Execution(
                status=TrialStatus.FAILED,
                command=(),
                exit_status=None,
                wall_s=0.0,
                problem=conditions.problem,
            )
        processor = execution.processor or processor_between(
            before, CpuTimes.now(), execution.engine_cpu_s
        )
        if cell.workload.job_file:
            target.adapter.note_files()
        layout.redact_output(folder)  # before numbers are derived: they are those of the archive
        execution, derived = _derive(execution, engine, folder)
        if derived is not None:
            (folder / layout.DERIVED).write_bytes(layout.encode(derived))
        record = TrialRecord(
            trial=trial.id,
            attempt=request.attempt,
            target=cell.target,
            workload=cell.workload.name,
            level=cell.level,
            block=trial.block,
            status=execution.status,
            engine=engine.name,
            engine_version=engine.version,
            command=execution.command,
            exit_status=execution.exit_status,
            signals=execution.signals,
            started_at=started_at,
            ended_at=now(),
            wall_s=round(time.monotonic() - began, 3),
            asked_s=asked_s,
            bound_s=bound_s,
            processor=processor,
            cache_drop=conditions.cache_drop,
            extent=conditions.extent,
            round_trips=conditions.round_trips,
            problem=execution.problem,
        )
        RunWriter.write_trial(folder, record)
    if run.guard is not None:
        run.guard.trial = ""
    run.observe(TrialEnded(record=record, derived=derived))
    return record


# Ten stages that each take the default of `ready:`, and some time to tidy up.
LIFECYCLE_BOUND_S = 3600.0
# The last I/Os of a drill wait until the system serves them again.
DRILL_BOUND_S = 60.0


def trial_bound_s(workload: Workload, grace_s: float) -> float:
    """Seconds that a trial may take of the engine's own time.

    A ZFS stream is never cut: the last one may begin just before the runtime is over. A program
    with its own data writes it first. The stages of a lifecycle have bounds of their own
    (`ready:` of the cluster).
    """
    bound_s = workload.duration_s + grace_s * max(1, len(workload.phases))
    if workload.lifecycle:
        return LIFECYCLE_BOUND_S
    if workload.drill is not None:
        bound_s += DRILL_BOUND_S
    if workload.own_data:
        bound_s += LEAST_BOUND_S
    if workload.streams:
        bound_s += workload.phases[0].stretch / SLOWEST_BPS
    if workload.own_data:
        bound_s += sum(phase.size for phase in workload.phases) / SLOWEST_BPS
    return bound_s


def within_budget(workload: Workload, location: Location, guard: Guard | None) -> Workload:
    """The workload with each client's part of the guard's budget."""
    clients = max(1, workload.generators)
    if isinstance(location, RemoteVolumes):
        clients = min(workload.clients or len(location.volumes), len(location.volumes))
    return limited(workload, guard, clients)


def make_job(
    engine: Engine, workload: Workload, location: Location, seed: int, bound_s: float
) -> Job:
    """The job of a trial. On a StorageClass each client of the level uses one volume."""
    if isinstance(location, RemoteVolumes) and workload.clients:
        location = replace(location, volumes=location.volumes[: workload.clients])
    neighbour_text = ""
    if workload.neighbours and workload.neighbour is not None:
        update = {"phases": (workload.neighbour,), "clients": 1, "neighbours": 0}
        neighbour_text = engine.job_text(workload.model_copy(update=update), location, seed)
    return Job(
        text=engine.job_text(workload, location, seed),
        location=location,
        bound_s=bound_s,
        clients=workload.clients,
        neighbours=workload.neighbours,
        neighbour_text=neighbour_text,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conditions:
    """The conditions right before a trial, or the problem that prevents it."""

    cache_drop: CacheDrop | None = None
    extent: Extent | None = None
    round_trips: tuple[RoundTrip, ...] = ()
    problem: Problem | None = None


def _prepare(run: RunRequest, cell: Cell, target: PreparedTarget) -> _Conditions:
    """Apply the target's conditions, drop caches and measure the extent of the data."""
    adapter = target.adapter
    try:
        if not adapter.present():
            raise FileNotFoundError("it is no longer what was acquired")
        round_trips = adapter.prepare()
        drop = adapter.drop_caches() if run.plan.drop_caches else None
        location, clients = target.location, max(1, cell.workload.clients)
        if isinstance(location, RemoteVolumes):
            clients = location.extents(cell.workload.clients)  # the extent is that of one volume
        spans = [phase.stretch * clients for phase in cell.workload.phases]
        extent = Extent(
            span_bytes=max(spans, default=0),
            written_bytes=target.written_bytes,
            allocated_bytes=adapter.allocated_bytes(),
            filesystem=adapter.filesystem(),
        )
    except (OSError, LeadlineError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.fact
        return _Conditions(
            problem=Problem(
                code=errors.TARGET_GONE.code,
                fact=f"the target {target.name!r} is gone: {reason or error}",
                context=error.context if isinstance(error, LeadlineError) else (),
                hint="bring it back, then `leadline run --resume --retry-failed`",
            )
        )
    try:
        if _may_write(cell.workload):
            target.look_before_writing()
    except LeadlineError as error:
        return _Conditions(problem=problem_from(error))
    # A user's own job file lays out files in its own way, so its extent is unknown.
    return _Conditions(
        cache_drop=drop,
        extent=None if cell.workload.job_file or cell.workload.own_data else extent,
        round_trips=round_trips,
    )


def _may_write(workload: Workload) -> bool:
    neighbour = workload.neighbour if workload.neighbours else None
    by_neighbours = neighbour is not None and neighbour.pattern.writes
    return workload.writes or workload.own_data or by_neighbours


def _execute(
    run: RunRequest,
    target: PreparedTarget,
    engine: Engine,
    job: Job,
    folder: Path,
    workload: Workload,
) -> Execution:
    """Execute a job while a watch records the target's own system, and its drill takes place."""
    watch = target.adapter.watch(folder)
    drill = None if workload.drill is None else TrialDrill(workload, run, target.name, folder)

    def report(progress: Progress) -> None:
        run.observe(TrialProgress(iops=progress.iops))
        if drill is not None:
            drill.progress(progress.iops)

    before = CpuTimes.now()
    try:
        if drill is not None:
            drill.start()
        execution = engine.execute(job, folder, run.stop, report)
        if drill is not None:  # without the wait for the system after it
            processor = processor_between(before, CpuTimes.now(), execution.engine_cpu_s)
            execution = replace(execution, processor=processor)
    finally:
        try:
            problem = drill.finish() if drill is not None else None
        finally:
            if watch is not None:
                watch.stop()
    if problem is not None and execution.status is TrialStatus.COMPLETED:
        return replace(execution, status=TrialStatus.FAILED, problem=problem)
    stopped = run.guard.problem if run.guard is not None else None
    if stopped is not None and execution.status is TrialStatus.INTERRUPTED:
        return replace(execution, problem=problem_from(stopped))
    return execution


def _derive(execution: Execution, engine: Engine, folder: Path) -> tuple[Execution, Derived | None]:
    """The numbers of a completed execution; a failed execution where its output is unreadable."""
    if execution.status is not TrialStatus.COMPLETED:
        return execution, None
    try:
        return execution, derive(read_output(engine.name, folder))
    except FormatError as error:
        problem = Problem(code=errors.FORMAT_INVALID.code, fact=error.fact)
        return replace(execution, status=TrialStatus.FAILED, problem=problem), None


def _slug(cell: Cell) -> str:
    """The cell as part of a file name, for people who read the archive's folders."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cell.workload.name} {cell.level}".lower()).strip("-")[:60]
