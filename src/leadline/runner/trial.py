"""One trial: drop caches, run the engine within its bound, record how it went."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from leadline import errors
from leadline.archive import layout
from leadline.archive.derive import derive
from leadline.archive.records import (
    CacheDrop,
    Derived,
    Extent,
    Problem,
    TrialRecord,
    TrialStatus,
)
from leadline.archive.writer import RunWriter
from leadline.formats.fio_json import FormatError, parse_fio_json
from leadline.plan.models import Cell, Plan, Trial
from leadline.probes.processor import CpuTimes, processor_between
from leadline.runner.events import Observer, TrialEnded, TrialProgress, TrialStarted
from leadline.runner.ports import Engine, Execution, Job, Target
from leadline.runner.prefill import Prefilled
from leadline.runner.stop import StopRequest


def now() -> str:
    """The time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner:
    """What all trials of a session share. `count` is how many the session has."""

    plan: Plan
    engine: Engine
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
        bound_s = asked_s + self.plan.grace_s * max(1, len(cell.workload.phases))
        name = f"{layout.TRIALS}/{trial.id}-{_slug(cell)}-{attempt}"
        with self.writer.staged(name) as folder:
            started_at, began = now(), time.monotonic()
            cache_drop, extent, gone = self._prepare(cell, target, prefilled)
            before = CpuTimes.now()
            if gone is None:
                where = target.location
                text = self.engine.job_text(cell.workload, where.shape, trial.seed)
                execution = self.engine.execute(
                    Job(text=text, location=where, bound_s=bound_s),
                    folder,
                    self.stop,
                    lambda progress: self.observe(TrialProgress(iops=progress.iops)),
                )
            else:
                execution = Execution(
                    status=TrialStatus.FAILED,
                    command=(),
                    exit_status=None,
                    wall_s=0.0,
                    problem=gone,
                )
            processor = processor_between(before, CpuTimes.now(), execution.engine_cpu_s)
            if cell.workload.job_file:
                target.note_files()
            execution, derived = _derived(execution, folder / layout.FIO_OUTPUT)
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
                engine=self.engine.name,
                engine_version=self.engine.version,
                command=execution.command,
                exit_status=execution.exit_status,
                signals=execution.signals,
                started_at=started_at,
                ended_at=now(),
                wall_s=round(time.monotonic() - began, 3),
                asked_s=asked_s,
                bound_s=bound_s,
                processor=processor,
                cache_drop=cache_drop,
                extent=extent,
                problem=execution.problem,
            )
            RunWriter.write_trial(folder, record)
        self.observe(TrialEnded(record=record, derived=derived))
        return record

    def _prepare(
        self, cell: Cell, target: Target, prefilled: Prefilled
    ) -> tuple[CacheDrop | None, Extent | None, Problem | None]:
        """Caches dropped and extents looked at; a Problem instead where the target is gone."""
        try:
            if not target.present():
                raise FileNotFoundError("it is no longer what was acquired")
            drop = target.drop_caches() if self.plan.drop_caches else None
            spans = [phase.size * phase.numjobs for phase in cell.workload.phases]
            extent = Extent(
                span_bytes=max(spans, default=0),
                written_bytes=prefilled.written_bytes,
                allocated_bytes=target.allocated_bytes(),
                filesystem=target.filesystem(),
            )
        except OSError as error:
            return (
                None,
                None,
                Problem(
                    code=errors.TARGET_GONE.code,
                    fact=f"the target {target.name!r} is gone: {error.strerror or error}",
                    hint="bring it back, then `leadline run --resume --retry-failed`",
                ),
            )
        # The user's own job lays its files out as it likes; no claim is made of its extents.
        return drop, None if cell.workload.job_file else extent, None


def _derived(execution: Execution, output: Path) -> tuple[Execution, Derived | None]:
    """The derived numbers of a completed execution, or the execution failed for want of them."""
    if execution.status is not TrialStatus.COMPLETED:
        return execution, None
    try:
        return execution, derive(parse_fio_json(output.read_bytes()))
    except (OSError, FormatError) as error:
        fact = error.fact if isinstance(error, FormatError) else "fio left no output"
        problem = Problem(code=errors.FORMAT_INVALID.code, fact=fact)
        return replace(execution, status=TrialStatus.FAILED, problem=problem), None


def _slug(cell: Cell) -> str:
    """A file name's worth of the cell, for people who look into the archive."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cell.workload.name} {cell.level}".lower()).strip("-")[:60]
