"""Everything that a trial may read or overwrite is written first, for real, and verified."""

from __future__ import annotations

from dataclasses import dataclass

from leadline import errors
from leadline.archive import layout
from leadline.archive.raw import read_output
from leadline.archive.records import TrialStatus
from leadline.archive.writer import RunWriter
from leadline.errors import LeadlineError
from leadline.formats.result import FormatError
from leadline.metrics import Op
from leadline.plan.footprint import Footprint
from leadline.plan.models import Plan
from leadline.runner.events import Observer, PrefillEnded, PrefillStarted, StopRequest
from leadline.runner.ports import Engine, Engines, Execution, Job, RemoteVolumes, Shape, Target

# A target slower than this is taken for hung while it is filled.
SLOWEST_BPS = 2 << 20
LEAST_BOUND_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    """Bytes that were written and verified, on each of a target's volumes; 0 where the plan wants
    no prefill."""

    written_bytes: int


def prefill(
    plan: Plan,
    target: Target,
    footprint: Footprint,
    engines: Engines,
    writer: RunWriter,
    stop: StopRequest,
    observe: Observer,
    *,
    before: str = "",
) -> Prefilled:
    """Write a target's footprint once and prove it. `before` names the trial that it is for, where
    each has data of its own. Raises LeadlineError(`prefill-failed`)."""
    if not plan.prefill:
        return Prefilled(written_bytes=0)
    kind = plan.target(target.name).parsed.kind
    engine = engines.prefilling(kind)
    place = f"{layout.PREFILL}/{writer.session:03d}-{_slug(plan, target)}"
    if before:
        place += f"-{before}"
    _lay_out_job_files(plan, target, engine, writer, stop, place)
    shape = target.location.shape
    size = footprint.span if shape is Shape.SPAN else sum(footprint.files.values())
    if not size or stop.requested:
        return Prefilled(written_bytes=0)
    observe(PrefillStarted(target=target.name, size_bytes=size))
    direct = all(workload.direct for workload in plan.workloads_on(target.name))
    job = Job(
        text=engine.prefill_text(footprint, target.location, direct),
        location=target.location,
        bound_s=max(LEAST_BOUND_S, size / SLOWEST_BPS),
        clients=footprint.clients,
    )
    execution, written = _execute(job, place, engine, writer, stop)
    if execution.status is TrialStatus.INTERRUPTED:
        return Prefilled(written_bytes=0)
    location = target.location
    copies = len(location.volumes) if isinstance(location, RemoteVolumes) else 1
    if execution.status is not TrialStatus.COMPLETED or written != size * copies:
        fact = (
            execution.problem.fact if execution.problem else f"{engine.name} wrote {written} bytes"
        )
        raise LeadlineError(
            errors.PREFILL_FAILED,
            f"the data of target {target.name!r} could not be laid out: {fact}",
            context=execution.problem.context if execution.problem else (),
            hint=(execution.problem.hint if execution.problem else None)
            or f"its output is in {writer.path / place}",
        )
    observe(PrefillEnded(target=target.name, size_bytes=size, wall_s=execution.wall_s))
    return Prefilled(written_bytes=size)


def _lay_out_job_files(
    plan: Plan,
    target: Target,
    engine: Engine,
    writer: RunWriter,
    stop: StopRequest,
    place: str,
) -> None:
    """Let fio make the files of the user's own jobs, apart from the trials that are timed."""
    if target.location.shape is Shape.SPAN:
        return
    for number, cell in enumerate(plan.cells_of(target.name)):
        job_file = cell.workload.job_file
        if job_file is None or stop.requested:
            continue
        job = Job(
            text=job_file.text,
            location=target.location,
            bound_s=max(LEAST_BOUND_S, job_file.footprint_bytes / SLOWEST_BPS),
            layout_only=True,
        )
        execution, _ = _execute(job, f"{place}-job-{number}", engine, writer, stop)
        target.note_files()
        if execution.status in (TrialStatus.FAILED, TrialStatus.HUNG):
            assert execution.problem is not None
            raise LeadlineError(
                errors.JOB_FILE_INVALID,
                f"fio refuses the job file {job_file.path!r}: {execution.problem.fact}",
                context=execution.problem.context,
                hint="try it by hand with `fio --parse-only`",
            )


def _execute(
    job: Job, name: str, engine: Engine, writer: RunWriter, stop: StopRequest
) -> tuple[Execution, int]:
    """Run a job of preparation into the archive; also how many bytes its output says it wrote."""
    with writer.staged(name) as folder:
        execution = engine.execute(job, folder, stop, lambda progress: None)
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


def _slug(plan: Plan, target: Target) -> str:
    """Targets by number in file names, since their own names may hold anything."""
    names = [one.name for one in plan.targets]
    return f"target-{names.index(target.name) + 1}"
