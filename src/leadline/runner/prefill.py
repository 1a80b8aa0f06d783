"""Prefill: write everything that a trial may read or overwrite, and verify the number of bytes."""

from __future__ import annotations

from dataclasses import replace

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import read_output
from leadline.archive.records import TrialStatus
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.metrics import Op
from leadline.plan.footprint import PREFILL_BLOCK
from leadline.plan.job_file import Place, write_job_file
from leadline.runner.events import PrefillEnded, PrefillStarted
from leadline.runner.ports import Execution, Job, RemoteVolumes, Shape
from leadline.runner.prepared import PreparedTarget, RunRequest

# A target that is slower than this while it is filled counts as hung.
SLOWEST_BPS = 2 << 20
LEAST_BOUND_S = 120.0


def prefill(request: RunRequest, target: PreparedTarget, *, before: str = "") -> None:
    """Write the target's footprint once and set `target.written_bytes`.

    `before` names the trial that the data is for, where each trial gets its own.
    Raises LeadlineError: `prefill-failed`, or why the target must not be written.
    """
    target.written_bytes = 0
    if not target.prefill:
        return
    engine, location = target.prefill_engine, target.location
    # Targets have numbers in file names: their own names may contain any character.
    place = f"{layout.PREFILL}/{request.writer.session:03d}-target-{target.number}"
    if before:
        place += f"-{before}"
    _lay_out_job_files(request, target, place)
    footprint = target.footprint
    size = footprint.span if location.shape is Shape.SPAN else sum(footprint.files.values())
    if not size or request.stop.requested:
        return
    request.observe(PrefillStarted(target=target.name, size_bytes=size))
    copies = 1
    if isinstance(location, RemoteVolumes):
        copies = len(location.volumes) if location.sharing is None else 1
        location = location.for_prefill
    guard = request.plan.guard
    if guard is not None and (limit_bps := guard.budget_bps(PREFILL_BLOCK)) is not None:
        volumes = len(location.volumes) if isinstance(location, RemoteVolumes) else 1
        footprint = replace(footprint, limit_bps=limit_bps / volumes)
    job = Job(
        text=engine.prefill_text(footprint, location, target.direct),
        location=location,
        bound_s=_bound_s(size, footprint.limit_bps),
        clients=footprint.clients,
    )
    target.look_before_writing()
    execution, written = _execute(request, target, job, place)
    if execution.status is TrialStatus.INTERRUPTED:
        return
    if execution.status is not TrialStatus.COMPLETED or written != size * copies:
        problem = execution.problem
        fact = problem.fact if problem else f"{engine.name} wrote {written} bytes"
        raise LeadlineError(
            errors.PREFILL_FAILED,
            f"the data of target {target.name!r} could not be laid out: {fact}",
            context=problem.context if problem else (),
            hint=(problem.hint if problem else None)
            or f"its output is in {request.writer.path / place}",
        )
    request.observe(PrefillEnded(target=target.name, size_bytes=size, wall_s=execution.wall_s))
    target.written_bytes = size


def _lay_out_job_files(request: RunRequest, target: PreparedTarget, place: str) -> None:
    """Let fio create the files of the user's own job files before the timed trials."""
    if target.location.shape is Shape.SPAN:
        return
    for number, job_file in target.job_files.items():
        if request.stop.requested:
            return
        job = Job(
            text=write_job_file(job_file, Place.FILES),
            location=target.location,
            bound_s=_bound_s(job_file.footprint_bytes),
            layout_only=True,
        )
        execution, _ = _execute(request, target, job, f"{place}-job-{number}")
        target.adapter.note_files()
        if execution.status in (TrialStatus.FAILED, TrialStatus.HUNG):
            assert execution.problem is not None
            raise LeadlineError(
                errors.JOB_FILE_INVALID,
                f"fio refuses the job file {job_file.path!r}: {execution.problem.fact}",
                context=execution.problem.context,
                hint="try it by hand with `fio --parse-only`",
            )


def _bound_s(size: int, limit_bps: float | None = None) -> float:
    slowest_bps = SLOWEST_BPS if limit_bps is None else min(SLOWEST_BPS, limit_bps / 2)
    return max(LEAST_BOUND_S, size / slowest_bps)


def _execute(
    request: RunRequest, target: PreparedTarget, job: Job, name: str
) -> tuple[Execution, int]:
    """Run a prefill job into the archive; the execution, and the bytes written by its output."""
    engine = target.prefill_engine
    with request.writer.staged(name) as folder:
        execution = engine.execute(job, folder, request.stop, lambda progress: None)
        try:
            output = read_output(engine.name, folder)
        except FormatError:
            return execution, 0
    written = sum(
        operation.io_bytes or 0
        for entry in output.jobs
        for operation in entry.operations
        if operation.op is Op.WRITE
    )
    return execution, written
