"""`leadline run`: run a plan into an archive, audit it, show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.records import Created, RunStatus, Session, TrialStatus
from leadline.archive.runs import find_run, runs_folder
from leadline.archive.writer import RunWriter
from leadline.cli.archives import this_session
from leadline.cli.options import echo_line, format_option, plan_options, runs_option
from leadline.cli.progress import progress
from leadline.engines.choose import OneEngine, RealEngines
from leadline.engines.replay import ReplayEngine
from leadline.errors import Exit, LeadlineError
from leadline.lab.cluster import Lab
from leadline.plan.expand import drop_targets
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Trial
from leadline.runner.events import Noted, Observer, StopRequest, stop_on_signals
from leadline.runner.ports import Engines, Job
from leadline.runner.prepared import (
    PreparedTarget,
    RunRequest,
    find_unusable,
    inspect_targets,
    prepare_targets,
)
from leadline.runner.session import Outcome, needed_targets, run_session
from leadline.runner.trial import now
from leadline.targets.ceph_cluster import open_clusters, used_clusters
from leadline.targets.open import LAB, check_consents, open_targets, remove_leftovers
from leadline.targets.preview import preview_location
from leadline.text import count_text

if TYPE_CHECKING:
    from leadline.targets.kubernetes_cluster import OpenKubernetes

_FAILURES_TOLD = 4


@click.command()
@plan_options
@runs_option
@click.option("--resume", metavar="RUN", help="Go on with an unfinished run: its missing trials.")
@click.option("--retry-failed", is_flag=True, help="With --resume: failed and hung trials too.")
@click.option(
    "--destroy-data",
    "destroy",
    multiple=True,
    metavar="DEVICE|rbd:POOL/IMAGE",
    help="Consent to the loss of what is on this device or image; must name it exactly.",
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
    """Run a plan, or profiles on targets, into an archive; then audit and show it.

    Every trial is kept raw. Ctrl-C stops cleanly and says how to resume. Directories, CephFS and
    pools get a folder, dataset, image or objects of Leadline's own, removed on every way out; a
    block device, or an RBD image of yours, is written only with --destroy-data naming it.

    \b
    Example:
        leadline run --target dir:/mnt/pool --profile quick --repeats 3
        leadline run --lab mine --target rep3=rbd:rep3 --profile quick
        leadline run plans/multi-zone-study.yaml
        leadline run --resume @latest
    """
    overrides = Overrides(**given)  # type: ignore[arg-type]
    folder = runs_folder(runs)
    if retry_failed and resume is None:
        raise LeadlineError(
            errors.USAGE,
            "--retry-failed has a meaning with --resume only",
            hint="`leadline run --resume RUN --retry-failed`",
        )
    if dry_run and output != "text":
        raise LeadlineError(
            errors.USAGE,
            "--dry-run prints commands and job files, which have no JSON form",
            hint="`leadline check --format json` describes a plan in JSON",
        )
    if resume is not None:
        if plan or any(value not in (None, ()) for value in given.values()):
            raise LeadlineError(
                errors.USAGE,
                "--resume goes on with the run's own plan and takes no other",
                hint="`leadline run --resume RUN`, with --destroy-data for its devices",
            )
        run = find_run(resume, folder)
        loaded = run.plan
        if not dry_run and _lacks_only_the_seal(run, retry_failed=retry_failed):
            return _seal(run, output, quiet=quiet)
    else:
        loaded = load_plan(plan, overrides)
    engines: Engines = OneEngine(ReplayEngine.from_folder(replay)) if replay else RealEngines()
    engines.check(loaded)
    check_consents(loaded, destroy=destroy, overwrite=overwrite)
    if dry_run:
        trials = loaded.trials
        if resume is not None:
            trials = _to_do(find_run(resume, folder), retry_failed=retry_failed)
        click.echo(_commands(loaded, trials, engines))
        return Exit.ANSWERED

    session = this_session()
    brought_up: list[Lab] = []

    def note(sentence: str) -> None:
        """What is waited for while clusters come up, which a signal ends."""
        observe(Noted(message=sentence))
        if stop.requested:
            raise LeadlineError(errors.INTERRUPTED, "stopped while the clusters came up")

    with (
        stop_on_signals() as stop,
        progress(quiet=quiet) as observe,
        open_clusters(
            [cluster for cluster in used_clusters(loaded) if cluster.kubernetes is None],
            note=note,
            brought_up=brought_up.append,
        ) as clusters,
        _kubernetes(loaded, stop, observe) as kubernetes,
    ):
        adapters = open_targets(
            loaded, clusters, kubernetes, destroy=destroy, overwrite=overwrite, note=note
        )
        if resume is not None:
            run = find_run(resume, folder)
            to_do = _to_do(run, retry_failed=retry_failed)
            targets = prepare_targets(loaded, adapters, engines, needed_targets(run, to_do))
            writer = _reopened(run, targets, session)
        else:
            targets = prepare_targets(loaded, adapters, engines)
            absent = find_unusable(loaded, targets)
            if absent:
                for one in absent:
                    observe(Noted(message=f"left out: {one.target}: {one.reason}"))
                loaded = drop_targets(loaded, absent)
                names = {target.name for target in loaded.targets}
                targets = prepare_targets(loaded, adapters, engines, names)
            inspect_targets(targets)
            writer = RunWriter.create(
                _new_path(folder, loaded.name),
                plan=loaded,
                plan_as_given=plan.read_bytes() if plan else shlex.join(session.command).encode(),
                created_at=session.started_at,
                session=session,
            )
            to_do = loaded.trials
        for lab in brought_up:
            writer.note_created(Created(target="", path=LAB + lab.name, token=lab.state.token))
        try:
            if resume is not None:
                inspect_targets(targets)
            outcome = run_session(
                RunRequest(
                    plan=loaded,
                    to_do=to_do,
                    targets=targets,
                    engines=engines,
                    systems=(*clusters.values(), *kubernetes.values()),
                    writer=writer,
                    stop=stop,
                    observe=observe,
                )
            )
        finally:
            writer.close()
    if brought_up:
        # They are down, and what was in them is gone: nothing of it is left to clean.
        with RunWriter.tidying(writer.path) as tidying:
            remove_leftovers(tidying.run, tidying)
    return _told(writer, outcome, output, quiet=quiet)


@contextmanager
def _kubernetes(
    plan: Plan, stop: StopRequest, observe: Observer
) -> Iterator[Mapping[str, OpenKubernetes]]:
    """The Kubernetes clusters that the plan's targets lie on; without any nothing is imported."""
    clusters = [cluster for cluster in used_clusters(plan) if cluster.kubernetes is not None]
    if not clusters:
        yield {}
        return
    from leadline.targets.kubernetes_cluster import OpenKubernetes

    def go_on() -> None:
        if stop.requested:
            raise LeadlineError(errors.INTERRUPTED, "stopped while the volumes were made")

    found = {
        one.name: OpenKubernetes(
            one.name,
            one.kubernetes,
            go_on=go_on,
            hurry=lambda: stop.impatient,
            note=lambda sentence: observe(Noted(message=sentence)),
        )
        for one in clusters
        if one.kubernetes is not None
    }
    try:
        yield found
    finally:
        for one in found.values():
            one.close()


def _new_path(folder: Path, name: str) -> Path:
    """`perf-YYYYMMDD-HHMMSS[-name]`, with a number where two runs start in one second."""
    stem = f"perf-{datetime.now(UTC):%Y%m%d-%H%M%S}" + (f"-{name}" if name else "")
    path, number = folder / stem, 2
    while path.exists():
        path, number = folder / f"{stem}-{number}", number + 1
    return path


def _reopened(run: Run, targets: Sequence[PreparedTarget], session: Session) -> RunWriter:
    """The run's archive, open again; what a killed session left on its targets is removed."""
    for target in targets:
        # Refusals come before the archive is touched; leftovers may still take up space.
        target.inspect()
    writer = RunWriter.reopen(run.path, session=session)
    done, problems = remove_leftovers(run, writer)
    for sentence in (*done, *problems):
        echo_line(f"note: {sentence}", err=True)
    return writer


def _to_do(run: Run, *, retry_failed: bool) -> tuple[Trial, ...]:
    """The trials of a resumed session. Raises LeadlineError(`run-not-resumable`) where none is
    missing and no follow-up is open."""
    to_do = run.to_do(retry_failed=retry_failed)
    if not needed_targets(run, to_do):
        again = run.to_do(retry_failed=True)
        raise LeadlineError(
            errors.RUN_NOT_RESUMABLE,
            f"the run {run.id} lacks no trial",
            context=[f"{count_text(len(again), 'trial')} failed or hung"] if again else (),
            hint="add --retry-failed to do them again"
            if again
            else "start a new run to measure again",
        )
    return to_do


def _lacks_only_the_seal(run: Run, *, retry_failed: bool) -> bool:
    return not run.complete and not needed_targets(run, run.to_do(retry_failed=retry_failed))


def _seal(run: Run, output: str, *, quiet: bool) -> Exit:
    """Seal the archive of a run that ended after its last trial."""
    writer = _reopened(run, (), this_session())
    try:
        writer.seal(RunStatus.COMPLETE, ended_at=now())
    finally:
        writer.close()
    echo_line(f"note: the run {run.id} lacked no trial; it is sealed now", err=True)
    return _told(writer, Outcome(status=RunStatus.COMPLETE, records=()), output, quiet=quiet)


def _commands(plan: Plan, trials: Sequence[Trial], engines: Engines) -> str:
    """The command and the job file of every trial, in order."""
    parts = []
    for trial in trials:
        cell = plan.cells[trial.cell]
        target = plan.target(cell.target)
        location = preview_location(plan, target)
        engine = engines.engine_for(cell.workload, target.parsed.kind)
        text = engine.job_text(engine.likely(cell.workload, location), location, trial.seed)
        job = Job(text=text, location=location, bound_s=cell.workload.duration_s)
        line = shlex.join(engine.command(job, Path("TRIAL")))
        parts.append(f"# {trial.id} {cell.label}, repeat {trial.block + 1}\n{line}\n{text}")
    return "\n".join(parts)


def _told(writer: RunWriter, outcome: Outcome, output: str, *, quiet: bool) -> Exit:
    """Audit, print, and choose the exit status."""
    from leadline.analysis.figures import figures
    from leadline.audit.registry import audit, trusted

    run = writer.run
    findings = audit(run)
    if output == "json":
        from leadline.report.answers.run import run_output

        click.echo(run_output(run, findings).model_dump_json(by_alias=True, indent=2))
    elif run.attempts:
        from leadline.cli.show import print_run

        print_run(run, figures(run, findings), findings)
    if not quiet:
        echo_line(f"archive: {run.path}", err=True)
    problem = _stopped(run, outcome.problem) if outcome.problem else _unfinished(run, outcome)
    problems = [one for one in (problem, _left_behind(run, outcome)) if one is not None]
    for one in problems:
        click.echo(str(one), err=True)
    if problems:
        return problems[0].kind.exit
    return Exit.ANSWERED if trusted(findings) else Exit.NEGATIVE


def _left_behind(run: Run, outcome: Outcome) -> LeadlineError | None:
    """What could not be removed; the results are whole without that."""
    if not outcome.left:
        return None
    return LeadlineError(
        errors.LEFT_BEHIND,
        "not everything that was made for the run could be removed",
        context=outcome.left,
        hint=f"when that is mended, `{shlex.join(['leadline', 'clean', str(run.path)])}` tries "
        "again; the results are whole",
    )


def _stopped(run: Run, problem: LeadlineError) -> LeadlineError:
    """Why the run could not go on, with the way to go on afterwards."""
    first = f"{problem.hint}; then " if problem.hint else ""
    hint = f"{first}go on with {_resume(run)}"
    return LeadlineError(problem.kind, problem.fact, context=problem.context, hint=hint)


def _unfinished(run: Run, outcome: Outcome) -> LeadlineError | None:
    """Why there are trials without a result, where all else went well."""
    if outcome.status is RunStatus.INTERRUPTED:
        return LeadlineError(
            errors.INTERRUPTED,
            f"the run was stopped; {len(run.to_do())} of its {len(run.plan.trials)} trials are "
            "still to do",
            hint=f"go on with {_resume(run)}",
        )
    # A rate that the target cannot do is a result, which the audit reports.
    failed = [
        one
        for one in outcome.records
        if one.status is not TrialStatus.COMPLETED
        and (one.problem is None or one.problem.code != errors.RATE_NOT_REACHED.code)
    ]
    if not failed:
        return None
    context = [
        f"{one.trial} {one.target} · {one.workload}: {one.status.value}"
        + (f": {one.problem.fact}" if one.problem else "")
        for one in failed[:_FAILURES_TOLD]
    ]
    if len(failed) > _FAILURES_TOLD:
        context.append(f"and {len(failed) - _FAILURES_TOLD} more")
    codes = {one.problem.code for one in failed if one.problem}
    kinds = [
        kind for kind in errors.CATALOGUE if kind.code in codes and kind.exit is Exit.SYSTEM_FAILED
    ]
    return LeadlineError(
        kinds[0] if kinds else errors.ENGINE_FAILED,
        f"{len(failed)} of {len(outcome.records)} trials gave no result",
        context=context,
        hint=f"do them again with {_resume(run, '--retry-failed')}",
    )


def _resume(run: Run, *options: str) -> str:
    return f"`{shlex.join(['leadline', 'run', '--resume', str(run.path), *options])}`"
