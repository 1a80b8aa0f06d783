"""One trial: drop caches, run the engine within its bound, record how it went."""

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
from leadline.plan.models import Cell, Plan, Trial, Workload
from leadline.probes.host import CpuTimes, processor_between
from leadline.runner.events import Observer, StopRequest, TrialEnded, TrialProgress, TrialStarted
from leadline.runner.ports import Engine, Engines, Execution, Job, Location, RemoteVolumes, Target
from leadline.runner.prefill import SLOWEST_BPS, Prefilled


def now() -> str:
    """The time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner:
    """What all trials of a session share. `count` is how many the session has."""

    plan: Plan
    engines: Engines
    writer: RunWriter
    stop: StopRequest
    observe: Observer
    count: int

    def run(
        self,
        trial: Trial,
        cell: Cell,
        *,
        target: Target,
        prefilled: Prefilled,
        attempt: int,
        number: int,
        left_s: float,
    ) -> TrialRecord:
        """Carry out one trial; what goes wrong is in the record, never raised."""
        asked_s = cell.workload.duration_s
        engine = self.engines.of(cell.workload, self.plan.target(cell.target).parsed.kind)
        self.observe(
            TrialStarted(
                trial=trial,
                cell=cell,
                number=number,
                count=self.count,
                asked_s=asked_s,
                left_s=left_s,
            )
        )
        bound_s = bound_of(cell.workload, self.plan.grace_s)
        name = f"{layout.TRIALS}/{trial.id}-{_slug(cell)}-{attempt}"
        with self.writer.staged(name) as folder:
            started_at, began = now(), time.monotonic()
            prepared = self._prepare(cell, target, prefilled)
            before = CpuTimes.now()
            if prepared.problem is None:
                job = job_of(engine, cell.workload, target.location, trial.seed, bound_s)
                execution = self._watched(target, engine, job, folder)
            else:
                execution = Execution(
                    status=TrialStatus.FAILED,
                    command=(),
                    exit_status=None,
                    wall_s=0.0,
                    problem=prepared.problem,
                )
            processor = execution.processor or processor_between(
                before, CpuTimes.now(), execution.engine_cpu_s
            )
            if cell.workload.job_file:
                target.note_files()
            execution, derived = _derived(execution, engine, folder)
            if derived is not None:
                (folder / layout.DERIVED).write_bytes(layout.encode(derived))
            record = TrialRecord(
                trial=trial.id,
                attempt=attempt,
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
                cache_drop=prepared.cache_drop,
                extent=prepared.extent,
                round_trips=prepared.round_trips,
                problem=execution.problem,
            )
            RunWriter.write_trial(folder, record)
        self.observe(TrialEnded(record=record, derived=derived))
        return record

    def _watched(self, target: Target, engine: Engine, job: Job, folder: Path) -> Execution:
        """Execute a job while the target's own system is watched."""
        watch = target.watch(folder)
        try:
            return engine.execute(
                job,
                folder,
                self.stop,
                lambda progress: self.observe(TrialProgress(iops=progress.iops)),
            )
        finally:
            if watch is not None:
                watch.stop()

    def _prepare(self, cell: Cell, target: Target, prefilled: Prefilled) -> _Prepared:
        """Conditions in force, caches dropped, extents looked at; a Problem instead where the
        target is gone."""
        try:
            if not target.present():
                raise FileNotFoundError("it is no longer what was acquired")
            round_trips = target.prepare()
            drop = target.drop_caches() if self.plan.drop_caches else None
            # On a StorageClass each client has a volume, and the extent is that of one.
            apart = isinstance(target.location, RemoteVolumes)
            clients = 1 if apart else max(1, cell.workload.clients)
            spans = [phase.size * phase.numjobs * clients for phase in cell.workload.phases]
            extent = Extent(
                span_bytes=max(spans, default=0),
                written_bytes=prefilled.written_bytes,
                allocated_bytes=target.allocated_bytes(),
                filesystem=target.filesystem(),
            )
        except (OSError, LeadlineError) as error:
            why = error.strerror if isinstance(error, OSError) else error.fact
            return _Prepared(
                problem=Problem(
                    code=errors.TARGET_GONE.code,
                    fact=f"the target {target.name!r} is gone: {why or error}",
                    context=error.context if isinstance(error, LeadlineError) else (),
                    hint="bring it back, then `leadline run --resume --retry-failed`",
                )
            )
        # The user's own job lays its files out as it likes; no claim is made of its extents.
        return _Prepared(
            cache_drop=drop,
            extent=None if cell.workload.job_file else extent,
            round_trips=round_trips,
        )


def bound_of(workload: Workload, grace_s: float) -> float:
    """Seconds that a trial may take of the engine's own time. A stream is never cut, so that the
    last one may begin when the runtime is nearly over."""
    bound_s = workload.duration_s + grace_s * max(1, len(workload.phases))
    if workload.streams:
        bound_s += sum(phase.size for phase in workload.phases) / SLOWEST_BPS
    return bound_s


def job_of(
    engine: Engine, workload: Workload, location: Location, seed: int, bound_s: float
) -> Job:
    """What an engine is to do for a trial. In Kubernetes a level's clients are volumes."""
    if isinstance(location, RemoteVolumes) and workload.clients:
        location = replace(location, volumes=location.volumes[: workload.clients])
    beside = ""
    if workload.neighbours and workload.neighbour is not None:
        driven = {"phases": (workload.neighbour,), "clients": 1, "neighbours": 0}
        beside = engine.job_text(workload.model_copy(update=driven), location, seed)
    return Job(
        text=engine.job_text(workload, location, seed),
        location=location,
        bound_s=bound_s,
        clients=workload.clients,
        neighbours=workload.neighbours,
        neighbour_text=beside,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What was done and seen right before a trial, or what speaks against it."""

    cache_drop: CacheDrop | None = None
    extent: Extent | None = None
    round_trips: tuple[RoundTrip, ...] = ()
    problem: Problem | None = None


def _derived(
    execution: Execution, engine: Engine, folder: Path
) -> tuple[Execution, Derived | None]:
    """The derived numbers of a completed execution, or the execution failed for want of them."""
    if execution.status is not TrialStatus.COMPLETED:
        return execution, None
    try:
        return execution, derive(read_output(engine.name, folder))
    except FormatError as error:
        problem = Problem(code=errors.FORMAT_INVALID.code, fact=error.fact)
        return replace(execution, status=TrialStatus.FAILED, problem=problem), None


def _slug(cell: Cell) -> str:
    """A file name's worth of the cell, for people who look into the archive."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cell.workload.name} {cell.level}".lower()).strip("-")[:60]
