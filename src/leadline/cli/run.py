"""`leadline run`: run a plan into an archive, audit it, show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.records import Created, Look, RunStatus, Session, TrialStatus
from leadline.archive.runs import find_run, new_id
from leadline.archive.verify import require_intact
from leadline.archive.writer import RunWriter, require_no_link
from leadline.cli.check import describe_changes, describe_groups
from leadline.cli.options import (
    ALLOW_ARCHIVED,
    drill_option,
    format_option,
    plan_options,
    power_of,
    runs_option,
    this_session,
)
from leadline.cli.output import ANSWERS, echo_error, echo_line, echo_rendered, print_json
from leadline.cli.progress import progress
from leadline.engines.choose import OneEngine, RealEngines
from leadline.engines.replay import ReplayEngine
from leadline.errors import Exit, LeadlineError
from leadline.inventory.redaction import redact_text
from leadline.lab.cluster import Lab
from leadline.plan.expand import drop_targets, with_repeats
from leadline.plan.loader import Overrides, load_plan
from leadline.plan.models import Plan, Trial
from leadline.plan.stop_rules import stop_faults
from leadline.runner.events import Noted, Observer, StopRequest, stop_on_signals
from leadline.runner.guard import HealthLimit, Limit, QueryLimit, RunGuard
from leadline.runner.ports import Engines, Job
from leadline.runner.prepared import (
    PreparedTarget,
    RunRequest,
    find_unusable,
    inspect_targets,
    prepare_targets,
)
from leadline.runner.session import Outcome, needed_targets, run_session
from leadline.runner.trial import now, within_budget
from leadline.settings.open import Parameters
from leadline.settings.states import REDACTED, States, used_settings
from leadline.targets.ceph_cluster import OpenCluster, open_clusters, used_clusters
from leadline.targets.drill import DRILL, check_drills, open_events
from leadline.targets.leftovers import LAB, require_own_configurations
from leadline.targets.open import (
    check_archived,
    check_consents,
    check_restarts,
    open_targets,
    remove_leftovers,
    undo_drills,
)
from leadline.targets.preview import preview_location
from leadline.text import count_text, visible

if TYPE_CHECKING:
    from leadline.analysis.power import Power
    from leadline.targets.kubernetes_cluster import OpenKubernetes

_MOST_FAILURES = 4


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
@drill_option("Consent to the drill of the plan on this cluster (or target outside of clusters).")
@click.option(
    "--restart-daemons",
    "restart",
    multiple=True,
    metavar="SETTING",
    help="Consent to restarts of daemons by this setting of the plan; must name it exactly.",
)
@ALLOW_ARCHIVED
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print every change of a setting with its undo, and the command of every trial.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option(
    "--replay",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    hidden=True,
    help="Play recorded output back instead of doing I/O.",
)
@format_option("text", "json")
def command(plan: Path | None, runs: Path, output: str, quiet: bool, **given: Any) -> Exit:
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
    options = RunOptions(**{field.name: given.pop(field.name) for field in fields(RunOptions)})
    with _resumable() if options.resume is not None else nullcontext():
        return _run_plan(plan, runs, output, options, given, quiet=quiet)


def _run_plan(
    plan: Path | None,
    runs: Path,
    output: str,
    options: RunOptions,
    given: Mapping[str, Any],
    *,
    quiet: bool,
) -> Exit:
    resume, retry_failed = options.resume, options.retry_failed
    only_resumed = {"--retry-failed": retry_failed, "--allow-archived": options.allow_archived}
    for option in (option for option, value in only_resumed.items() if value and not resume):
        raise LeadlineError(
            errors.USAGE,
            f"{option} has a meaning with --resume only",
            hint=f"`leadline run --resume RUN {option}`",
        )
    if options.dry_run and output != "text":
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
        run = find_run(resume, runs)
        loaded = _archived_plan(run, options)
        if not options.dry_run and _lacks_only_the_seal(run, retry_failed=retry_failed):
            return _seal(run, output, quiet=quiet)
    else:
        loaded = load_plan(plan, Overrides(**given))
        power = power_of(loaded, runs)
        if power is not None:
            loaded = _with_detecting_repeats(loaded, power)
    replay = options.replay
    engines: Engines = OneEngine(ReplayEngine.from_folder(replay)) if replay else RealEngines()
    engines.check(loaded)
    check_consents(loaded, destroy=options.destroy, overwrite=options.overwrite)
    if not options.dry_run:
        check_restarts(loaded, options.restart)
    if options.dry_run:
        trials = loaded.trials
        if resume is not None:
            trials = _to_do(find_run(resume, runs), retry_failed=retry_failed)
        echo_rendered(_commands(loaded, trials, engines))
        return Exit.ANSWERED

    check_drills(loaded, options.allow_drill)
    if resume is not None:
        _undo_drills(find_run(resume, runs), options.allow_drill)
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
        _states(loaded, clusters, kubernetes, observe) as states,
    ):
        adapters = open_targets(
            loaded,
            clusters,
            kubernetes,
            destroy=options.destroy,
            overwrite=options.overwrite,
            note=note,
        )
        events = open_events(loaded, clusters)
        guard = _guard(loaded, clusters, stop, observe)
        if guard is not None:
            guard.require()
        if resume is not None:
            run = find_run(resume, runs)
            to_do = _to_do(run, retry_failed=retry_failed)
            targets = prepare_targets(loaded, adapters, engines, needed_targets(run, to_do))
            writer = _reopened(run, targets, session, options.allow_archived)
        else:
            targets = prepare_targets(loaded, adapters, engines)
            absent = find_unusable(loaded, targets)
            if absent:
                for target in absent:
                    observe(Noted(message=f"left out: {target.target}: {target.reason}"))
                loaded = drop_targets(loaded, absent)
                _require_comparison(loaded)
                names = {target.name for target in loaded.targets}
                targets = prepare_targets(loaded, adapters, engines, names)
            inspect_targets(loaded, targets)
            if states is not None:
                states.require(loaded)
            writer = _created(
                runs,
                loaded,
                plan.read_bytes() if plan else shlex.join(session.command).encode(),
                session,
            )
            to_do = loaded.trials
        for lab in brought_up:
            writer.note_created(Created(target="", path=LAB + lab.name, token=lab.state.token))
        try:
            if resume is not None:
                inspect_targets(loaded, targets)
                if states is not None:
                    states.require(loaded)
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
                    guard=guard,
                    take_look=_take_look,
                    states=states,
                    events=events,
                )
            )
        except LeadlineError as error:
            raise _of_the_run(writer.run, error) from error
        finally:
            writer.close()
    if brought_up:
        # They are down, and what was in them is gone: nothing of it is left to clean.
        with stop_on_signals(), RunWriter.tidying(writer.path) as tidying:
            remove_leftovers(tidying.run, tidying)
    return _report(writer, outcome, output, quiet=quiet)


def _with_detecting_repeats(plan: Plan, power: Power) -> Plan:
    """The plan with as many trials of each cell as find the change."""
    assert plan.detect is not None
    excluded = "a budget" if plan.budget else "follow-ups" if plan.follow_ups else ""
    if excluded:
        raise LeadlineError(
            errors.USAGE,
            f"a plan with {excluded} has the same repeats in all cells",
            hint="`leadline check --detect` shows them; state them with --repeats",
        )
    needed = [power.repeats(cell) for cell in plan.cells]
    most = plan.detect.most
    beyond = sum(number is None or number > most for number in needed)
    if beyond:
        echo_line(
            "note: "
            f"{count_text(beyond, 'cell')} of {len(needed)} need more than {most} trials to find a "
            f"change of {power.change:.0%}: `leadline check --detect` shows them",
            err=True,
        )
    return with_repeats(plan, [min(number or most, most) for number in needed])


def _require_comparison(plan: Plan) -> None:
    """Raise LeadlineError where the targets that can be used leave nothing to decide."""
    for _, fact in stop_faults(plan):
        raise LeadlineError(
            errors.USAGE,
            f"the run cannot stop when decided: {fact}",
            hint="make the missing targets usable, or leave out `stop:` and --until-decided",
        )


def _take_look(run: Run) -> Look:
    from leadline.analysis.looks import take_look

    return take_look(run, now())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `leadline run` next to those of its plan."""

    resume: str | None
    retry_failed: bool
    destroy: tuple[str, ...]
    overwrite: tuple[str, ...]
    restart: tuple[str, ...]
    allow_archived: tuple[str, ...]
    allow_drill: tuple[str, ...]
    dry_run: bool
    replay: Path | None


def _guard(
    plan: Plan, clusters: Mapping[str, OpenCluster], stop: StopRequest, observe: Observer
) -> RunGuard | None:
    """The guard of the plan, with its limits on these Ceph clusters and on Prometheus."""
    guard = plan.guard
    if guard is None:
        return None
    from leadline.report.pages.run.guard import guard_rows

    for key, text in guard_rows(guard):
        observe(Noted(message=f"guard: {key}: {text}"))
    limits: list[Limit] = [QueryLimit(asked) for asked in guard.prometheus]
    if guard.ceph_health:
        limits += [
            HealthLimit(name, guard.ceph_health, cluster.health)
            for name, cluster in clusters.items()
        ]
    return RunGuard(guard, limits, stop, lambda sentence: observe(Noted(message=sentence)))


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
        cluster.name: OpenKubernetes(
            cluster.name,
            cluster.kubernetes,
            go_on=go_on,
            hurry=lambda: stop.impatient,
            note=lambda sentence: observe(Noted(message=sentence)),
            monitoring=cluster.prometheus,
        )
        for cluster in clusters
        if cluster.kubernetes is not None
    }
    try:
        yield found
    finally:
        for opened in found.values():
            opened.close()


@contextmanager
def _states(
    plan: Plan,
    clusters: Mapping[str, OpenCluster],
    kubernetes: Mapping[str, OpenKubernetes],
    observe: Observer,
) -> Iterator[States | None]:
    """The states of a plan with settings of running systems."""
    if not used_settings(plan):
        yield None
        return
    parameters = Parameters(
        lambda name: clusters[name].connection,
        lambda name: kubernetes[name].connection,
    )
    states = States(parameters.find, lambda sentence: observe(Noted(message=sentence)))
    try:
        yield states
    finally:
        states.unlock()
        parameters.close()


def _created(runs: Path, plan: Plan, as_given: bytes, session: Session) -> RunWriter:
    """A new archive, with an id that no run in this folder has. Raises as `RunWriter.create`."""
    while True:
        path = runs / new_id(datetime.now(UTC), plan.name)
        try:
            return RunWriter.create(
                path, plan=plan, plan_as_given=as_given, created_at=now(), session=session
            )
        except LeadlineError as error:
            if not (isinstance(error.__cause__, FileExistsError) and path.exists()):
                raise


@contextmanager
def _resumable() -> Iterator[None]:
    """Make of the error of a damaged archive that of a run that cannot be resumed: 1 is the status
    of a run that is over."""
    try:
        yield
    except LeadlineError as error:
        if error.kind is not errors.ARCHIVE_DAMAGED:
            raise
        raise LeadlineError(
            errors.RUN_NOT_RESUMABLE, error.fact, context=error.context, hint=error.hint
        ) from error


def _archived_plan(run: Run, options: RunOptions) -> Plan:
    """Return the plan of a run that is resumed, with its secrets. An archive may be another user's:
    raise LeadlineError where it is not as it was written, and where its plan needs a consent."""
    require_no_link(run.path)
    require_intact(run)
    plan = run.whole_plan
    if REDACTED in plan.model_dump_json(exclude={"name", "description", "expect"}):
        raise LeadlineError(
            errors.RUN_NOT_RESUMABLE,
            "the stored plan lacks a secret that was removed from it",
            context=[str(run.path / layout.PLAN)],
            hint="start a new run with the plan's own file",
        )
    require_own_configurations(plan, run.path)
    if not options.dry_run:
        check_archived(plan, options.allow_archived)
    return plan


def _reopened(
    run: Run,
    targets: Sequence[PreparedTarget],
    session: Session,
    allowed_settings: Sequence[str] = (),
) -> RunWriter:
    """The run's archive, open again; what a killed session left on its targets is removed."""
    for target in targets:
        # Refusals come before the archive is touched; leftovers may still take up space.
        target.inspect()
    writer = RunWriter.reopen(run.path, session=session)
    done, problems = remove_leftovers(run, writer, settings=allowed_settings)
    for sentence in done:
        echo_line(f"note: {sentence}", err=True)
    if writer.run.unrestored:
        writer.close()
        # This session would take the changed values for those before the run.
        raise LeadlineError(
            errors.LEFT_BEHIND,
            "settings that a killed session changed are not restored",
            context=problems,
            hint="when that is mended, resume the run again",
        )
    for sentence in problems:
        echo_line(f"note: {sentence}", err=True)
    return writer


def _undo_drills(run: Run, allowed: Sequence[str]) -> None:
    """Undo what a killed session left in force, before its clusters are opened: a lab that lacks
    OSDs is not. Raises LeadlineError(`left-behind`)."""
    if not any(created.path.startswith(DRILL) for created in run.left_behind):
        return
    with RunWriter.tidying(run.path) as writer:
        done, problems = undo_drills(run, writer, allowed)
    for sentence in done:
        echo_line(f"note: {sentence}", err=True)
    if problems:
        raise LeadlineError(
            errors.LEFT_BEHIND, "the drill of a killed session is still in force", context=problems
        )


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
    return _report(writer, Outcome(status=RunStatus.COMPLETE, records=()), output, quiet=quiet)


def _commands(plan: Plan, trials: Sequence[Trial], engines: Engines) -> str:
    """The command and the job file of every trial, in order; first the groups of the plan, and the
    changes of settings."""
    parts = [f"# {line}".rstrip() for line in map(visible, describe_groups(plan))]
    parts += map(visible, describe_changes(plan))
    for trial in trials:
        cell = plan.cells[trial.cell]
        target = plan.target(cell.target)
        location = preview_location(plan, target)
        engine = engines.engine_for(cell.workload, target.parsed)
        workload = within_budget(cell.workload, location, plan.guard)
        text = engine.job_text(engine.likely(workload, location), location, trial.seed)
        job = Job(text=text, location=location, bound_s=cell.workload.duration_s)
        line = shlex.join(engine.command(job, Path("TRIAL")))
        parts.append(visible(f"# {trial.id} {cell.label}, repeat {trial.block + 1}"))
        parts += map(visible, f"{line}\n{text}".expandtabs(4).split("\n"))
    return redact_text("\n".join(parts))


def _report(writer: RunWriter, outcome: Outcome, output: str, *, quiet: bool) -> Exit:
    """Audit, print, and choose the exit status."""
    run = writer.run
    try:
        return _status(run, _tell(run, outcome, output, quiet=quiet))
    except LeadlineError as error:
        raise _of_the_run(run, error) from error


def _status(run: Run, status: Exit) -> Exit:
    """The status of a session that came to `status`. What its archive says comes first: only a run
    that is complete and sealed has the status of an answer."""
    try:
        complete = run.complete
    except LeadlineError:
        complete = False
    return status if complete or status not in ANSWERS else Exit.SYSTEM_FAILED


def _of_the_run(run: Run, error: LeadlineError) -> LeadlineError:
    """An error that ended a session, with the status of its run."""
    kind = replace(error.kind, exit=_status(run, error.kind.exit))
    return LeadlineError(kind, error.fact, context=error.context, hint=error.hint)


def _tell(run: Run, outcome: Outcome, output: str, *, quiet: bool) -> Exit:
    """Print what the run measured, what is wrong with it, and what went wrong."""
    from leadline.analysis.figures import figures
    from leadline.audit.registry import audit, trusted

    findings = audit(run)
    if output == "json":
        from leadline.report.answers.run import run_output

        print_json(run_output(run, findings))
    elif run.attempts:
        from leadline.cli.show import print_run

        print_run(run, figures(run, findings), findings)
    if not quiet:
        echo_line(f"archive: {run.path}", err=True)
    problem = _stopped(run, outcome.problem) if outcome.problem else _unfinished(run, outcome)
    problems = list(filter(None, (problem, _left_behind(run, outcome))))
    for problem in problems:
        echo_error(problem)
    if problems:
        return problems[0].kind.exit
    return Exit.ANSWERED if trusted(findings) else Exit.NEGATIVE


def _left_behind(run: Run, outcome: Outcome) -> LeadlineError | None:
    """What could not be removed; the results are whole without that."""
    if not outcome.left:
        return None
    return LeadlineError(
        errors.LEFT_BEHIND,
        "not everything that was made or changed for the run could be removed or restored",
        context=outcome.left,
        hint=f"when that is mended, `{shlex.join(['leadline', 'clean', str(run.path)])}` tries "
        "again; the results are whole",
    )


# What hints name that a resumed run does not take: options and keys of its plan.
_OF_A_NEW_RUN = (
    *("--runner-", "--vm-image", "--size", "--namespace"),
    *("size=", "mode=", "node=", "count=", "memory:"),
)


def _needs_new_run(hint: str) -> bool:
    return any(option in hint for option in _OF_A_NEW_RUN)


def _stopped(run: Run, problem: LeadlineError) -> LeadlineError:
    """Why the run could not go on, with the way to go on afterwards. A resumed run keeps its plan:
    where the hint asks for another one, only a new run can follow it."""
    hint = problem.hint or ""
    if not _needs_new_run(hint):
        hint = f"{f'{hint}; then ' if hint else ''}go on with {_resume(run)}"
    elif run.trials:
        hint += "; that is a new run, and --resume keeps the plan of this one"
    else:
        hint += "; nothing was measured yet: begin the run again with that"
    return LeadlineError(problem.kind, problem.fact, context=problem.context, hint=hint)


def _unfinished(run: Run, outcome: Outcome) -> LeadlineError | None:
    """Why there are trials without a result, where all else went well."""
    if outcome.status is RunStatus.INTERRUPTED:
        return LeadlineError(
            errors.INTERRUPTED,
            f"the run was stopped; {len(run.to_do())} of its {len(run.plan.trials)} trials are "
            f"still to do{', and the rounds until it is decided' if run.undecided else ''}",
            hint=f"go on with {_resume(run)}",
        )
    # A rate that the target cannot do is a result, which the audit reports.
    failed = [
        trial
        for trial in outcome.records
        if trial.status is not TrialStatus.COMPLETED
        and (trial.problem is None or trial.problem.code != errors.RATE_NOT_REACHED.code)
    ]
    if not failed:
        return None
    context = [
        f"{trial.trial} {trial.target} · {trial.workload}: {trial.status.value}"
        + (f": {trial.problem.fact}" if trial.problem else "")
        for trial in failed[:_MOST_FAILURES]
    ]
    if len(failed) > _MOST_FAILURES:
        context.append(f"and {len(failed) - _MOST_FAILURES} more")
    codes = {trial.problem.code for trial in failed if trial.problem}
    kinds = [
        kind for kind in errors.CATALOGUE if kind.code in codes and kind.exit is Exit.SYSTEM_FAILED
    ]
    hints = [trial.problem.hint or "" for trial in failed if trial.problem]
    hint = f"do them again with {_resume(run, '--retry-failed')}"
    if hints and all(map(_needs_new_run, hints)):
        # They would fail again in the same way.
        hint = f"{hints[0]}; that is a new run, and --resume keeps the plan of this one"
    return LeadlineError(
        kinds[0] if kinds else errors.ENGINE_FAILED,
        f"{len(failed)} of {len(outcome.records)} trials gave no result",
        context=context,
        hint=hint,
    )


def _resume(run: Run, *options: str) -> str:
    return f"`{shlex.join(['leadline', 'run', '--resume', str(run.path), *options])}`"
