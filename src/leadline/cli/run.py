"""`leadline run`: carry out a plan into an archive, audit it, show it."""

from __future__ import annotations

import platform
import shlex
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from leadline import __version__, errors
from leadline.archive.records import RunStatus, Session, TrialStatus
from leadline.archive.runs import find_run, runs_folder
from leadline.archive.writer import RunWriter
from leadline.cli.options import format_option, plan_options, runs_option
from leadline.cli.progress import progress
from leadline.engines.fio import FioEngine
from leadline.engines.replay import ReplayEngine
from leadline.errors import Exit, LeadlineError
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Trial
from leadline.runner.execute import Outcome, carry_out, inspect_targets
from leadline.runner.ports import Engine, Location, Shape, Target
from leadline.runner.stop import stop_on_signals
from leadline.runner.trial import now
from leadline.targets.open import open_targets, remove_leftovers


@click.command()
@plan_options
@runs_option
@click.option("--resume", metavar="RUN", help="Go on with an unfinished run: its missing trials.")
@click.option("--retry-failed", is_flag=True, help="With --resume: failed and hung trials too.")
@click.option(
    "--destroy-data",
    "destroy",
    multiple=True,
    metavar="DEVICE",
    help="Consent to the loss of what is on this block device; must name it exactly.",
)
@click.option(
    "--overwrite-signatures",
    "overwrite",
    multiple=True,
    metavar="DEVICE",
    help="Consent also where it carries a filesystem, partition table or other signature.",
)
@click.option("--dry-run", is_flag=True, help="Print the command of every trial, and do nothing.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--replay",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    hidden=True,
    help="Play recorded output back instead of doing I/O.",
)
@format_option("text", "json")
def command(
    plan: Path | None,
    runs: Path | None,
    resume: str | None,
    retry_failed: bool,
    destroy: tuple[str, ...],
    overwrite: tuple[str, ...],
    dry_run: bool,
    quiet: bool,
    replay: Path | None,
    output: str,
    **given: object,
) -> Exit:
    """Carry out a plan, or profiles on targets, into an archive; then audit and show it.

    Every trial is kept raw. Ctrl-C stops cleanly and says how to resume. A directory target gets
    a folder of Leadline's own, removed on every way out; a block device is written only with
    --destroy-data naming it.

    \b
    Example:
        leadline run --target dir:/mnt/pool --profile quick --repeats 3
        leadline run plans/demo.yaml
        leadline run --resume @latest
    """
    overrides = Overrides(**given)  # type: ignore[arg-type]
    folder = runs_folder(runs)
    if resume is not None:
        if plan or any(value not in (None, ()) for value in given.values()):
            raise LeadlineError(
                errors.USAGE,
                "--resume goes on with the run's own plan and takes no other",
                hint="`leadline run --resume RUN`, with --destroy-data for its devices",
            )
        loaded = find_run(resume, folder).plan
    else:
        loaded = load_plan(plan, overrides)
    engine: Engine = ReplayEngine.of(replay) if replay else FioEngine()
    engine.check(loaded)
    targets = open_targets(loaded, destroy=destroy, overwrite=overwrite)
    if dry_run:
        click.echo(_commands(loaded, engine, targets))
        return Exit.ANSWERED

    session = Session(
        started_at=now(),
        hostname=socket.gethostname(),
        leadline_version=__version__,
        python_version=platform.python_version(),
        command=tuple(sys.argv),
    )
    with stop_on_signals() as stop, progress(quiet=quiet) as observe:
        if resume is not None:
            writer, to_do = _reopened(resume, folder, retry_failed, session, targets, loaded)
        else:
            inspect_targets(loaded, targets)
            writer = RunWriter.create(
                _new_path(folder, loaded.name),
                plan=loaded,
                plan_as_given=plan.read_bytes() if plan else shlex.join(sys.argv).encode(),
                created_at=session.started_at,
                session=session,
            )
            to_do = loaded.trials
        try:
            outcome = carry_out(
                plan=loaded,
                to_do=to_do,
                writer=writer,
                engine=engine,
                targets=targets,
                stop=stop,
                observe=observe,
            )
        finally:
            writer.close()
    return _told(writer, outcome, output, quiet=quiet)


def _new_path(folder: Path, name: str) -> Path:
    """`perf-YYYYMMDD-HHMMSS[-name]`, with a number where two runs start in one second."""
    stem = f"perf-{datetime.now(UTC):%Y%m%d-%H%M%S}" + (f"-{name}" if name else "")
    path, number = folder / stem, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}", number + 1
    return path


def _reopened(
    name: str,
    folder: Path,
    retry_failed: bool,
    session: Session,
    targets: Sequence[Target],
    plan: Plan,
) -> tuple[RunWriter, tuple[Trial, ...]]:
    run = find_run(name, folder)
    to_do = run.to_do(retry_failed=retry_failed)
    if not to_do:
        hint = None if retry_failed else "failed and hung trials are done again with --retry-failed"
        raise LeadlineError(errors.RUN_NOT_RESUMABLE, f"the run {run.id} lacks no trial", hint=hint)
    needed = {plan.cells[trial.cell].target for trial in to_do}
    for target in targets:
        if target.name in needed:
            # Refusals come before the archive is touched.
            inspect_targets(plan, [target])
    writer = RunWriter.reopen(run.path, session=session)
    for sentence in remove_leftovers(run, writer):
        click.echo(f"note: {sentence}", err=True)
    return writer, to_do


def _commands(plan: Plan, engine: Engine, targets: Sequence[Target]) -> str:
    """The command and the job file of every trial, in order."""
    from leadline.runner.ports import Job

    by_name = {target.name: target for target in targets}
    parts = []
    for trial in plan.trials:
        cell = plan.cells[trial.cell]
        url = plan.target(cell.target).parsed
        shape = Shape.FILES if url.kind.value == "dir" else Shape.SPAN
        path = Path(url.location)
        if shape is Shape.FILES:
            path = path / "leadline-RUN-TOKEN"
        location = Location(shape=shape, path=path)
        text = engine.job_text(engine.likely(cell.workload), shape, trial.seed)
        job = Job(text=text, location=location, bound_s=cell.workload.duration_s)
        line = shlex.join(engine.command(job, Path("TRIAL")))
        assert cell.target in by_name
        parts.append(f"# {trial.id} {cell.label}, repeat {trial.block + 1}\n{line}\n{text}")
    return "\n".join(parts)


def _told(writer: RunWriter, outcome: Outcome, output: str, *, quiet: bool) -> Exit:
    """Audit, print, and choose the exit status."""
    from leadline.analysis.cells import figures
    from leadline.audit.registry import audit, trusted

    run = writer.run
    findings = audit(run)
    if output == "json":
        from leadline.report.contracts import run_output

        click.echo(run_output(run, findings).model_dump_json(by_alias=True, indent=2))
    elif run.attempts:
        from leadline.cli.show import print_run

        print_run(run, figures(run, findings), findings)
    if not quiet:
        click.echo(f"archive: {run.path}", err=True)
    if outcome.problem is not None:
        click.echo(str(outcome.problem), err=True)
    if outcome.status is RunStatus.INTERRUPTED:
        click.echo(f"hint: go on with `leadline run --resume {run.path}`", err=True)
    if outcome.problem is not None:
        return outcome.problem.kind.exit
    if outcome.status is RunStatus.INTERRUPTED:
        return Exit.INTERRUPTED
    if any(one.status is not TrialStatus.COMPLETED for one in outcome.records):
        return Exit.SYSTEM_FAILED
    return Exit.ANSWERED if trusted(findings) else Exit.NEGATIVE
