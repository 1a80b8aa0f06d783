"""`leadline clean`: remove what a killed run left on its targets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from leadline import errors
from leadline.archive import layout
from leadline.archive.reader import Run
from leadline.archive.runs import find_run, list_runs
from leadline.archive.scrub import remove_interrupted
from leadline.archive.verify import require_intact
from leadline.archive.writer import (
    RunWriter,
    remove_abandoned_drafts,
    remove_abandoned_lock,
)
from leadline.cli.options import (
    ALLOW_ARCHIVED,
    KUBERNETES_OPTIONS,
    KubernetesOptions,
    drill_option,
    runs_option,
    with_options,
)
from leadline.cli.output import echo_line
from leadline.errors import Exit, LeadlineError
from leadline.files import remove_abandoned
from leadline.targets.drill import DRILL
from leadline.targets.leftovers import is_own, kept_sentence
from leadline.targets.open import remove_leftovers


@click.command()
@click.argument("argument", metavar="[RUN]", required=False)
@runs_option
@click.option("--run", "named", metavar="ID", help="The same as the argument.")
@click.option(
    "--all", "all_runs", is_flag=True, help="All runs; the default but with --kubernetes."
)
@click.option(
    "--kubernetes",
    is_flag=True,
    help="Look for what carries Leadline's labels in a Kubernetes cluster, archive or not.",
)
@with_options(*KUBERNETES_OPTIONS)
@click.option("--namespace", "-n", metavar="NAME", help="With --kubernetes: in this one only.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@ALLOW_ARCHIVED
@drill_option("Consent to undo a drill on this system: by its command, or its host comes in.")
def command(runs: Path, dry_run: bool, **given: Any) -> Exit:
    """Remove what a killed run (kill -9, power cut) or a cluster in trouble left on its targets:
    folders, datasets of ZFS, RBD images with what was mounted from them, objects, pods, virtual
    machines and volumes, and labs that were brought up for the run. The event of a drill is undone.
    Settings that the run changed are restored, unless another user has changed them since.

    Only what the archive records and what carries the run's own mark is touched; files that
    Leadline did not make stay. For an archive that is not as it was written nothing is done: what
    it records is listed, to be looked at and removed by hand. Without a run, all runs are
    searched. The archive keeps all its results. With --kubernetes the cluster is searched, for runs
    whose archives are elsewhere; --all includes runs of other users that are in progress: use
    --dry-run first. Folders of sockets that killed processes left in the temporary folder are
    removed as well.

    What could not be removed is reported, with exit status 4.

    \b
    Example:
        leadline clean
        leadline clean perf-20261121-120000 --dry-run
        leadline clean --kubernetes --run perf-20261121-120000
    """
    choice = CleanOptions(**given)
    if choice.all_runs and choice.run:
        raise LeadlineError(
            errors.USAGE, "--all and a run contradict each other", hint="leave one of them away"
        )
    if choice.in_cluster:
        _clean_cluster(choice, dry_run=dry_run)
    else:
        _clean_archived(choice, runs, dry_run=dry_run)
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOptions(KubernetesOptions):
    """What is cleaned: a run, or all, by their archives or in a Kubernetes cluster."""

    argument: str | None
    named: str | None
    all_runs: bool
    kubernetes: bool
    namespace: str | None
    allow_drill: tuple[str, ...]
    allow_archived: tuple[str, ...]

    @property
    def run(self) -> str | None:
        return self.argument or self.named

    @property
    def in_cluster(self) -> bool:
        return bool(self.kubernetes or self.kubeconfig or self.context or self.namespace)


def _clean_archived(choice: CleanOptions, folder: Path, *, dry_run: bool) -> None:
    name = choice.run
    selected, newer = ([find_run(name, folder)], None) if name else _readable(list_runs(folder))
    if not dry_run:
        remove_abandoned()
        remove_abandoned_drafts(folder)
        remove_interrupted(folder)
        for run in selected:
            remove_abandoned_lock(run.path)
    problems: list[str] = []
    clean, hint = True, _MENDED
    for run in selected:
        name = run.path.name
        left: list[str] = []
        try:
            if not _may_have_left(run):
                continue
            left = _left_by(run)
            if not (left or run.cleaning_unsealed or any(run.journal_faults())):
                continue
            clean = False
            if dry_run:
                require_intact(run)
                for change in left:
                    echo_line(f"{name}: would {change}")
                for created in run.left_behind:
                    if not is_own(run.whole_plan, run.id, created):
                        problems.append(f"{name}: {kept_sentence(created)}")
                continue
            with RunWriter.tidying(run.path) as writer:
                done, remaining = remove_leftovers(
                    run, writer, choice.allow_drill, choice.allow_archived
                )
        except LeadlineError as error:
            if choice.run and error.kind is not errors.ARCHIVE_DAMAGED:
                raise
            clean = False
            if error.kind is errors.RUN_NOT_RESUMABLE:  # in progress: it removes its own
                echo_line(f"note: {name} is left alone: {error.fact}", err=True)
                continue
            hint = _DAMAGED if error.kind is errors.ARCHIVE_DAMAGED else _MENDED
            problems += [f"{name}: did not {change}" for change in left]
            problems += [f"{name}: {line}" for line in (error.fact, *error.context)]
            continue
        for sentence in done:
            echo_line(f"{name}: {sentence}")
        problems += [f"{name}: {sentence}" for sentence in remaining]
    if clean:
        echo_line("nothing was left behind")
    _raise_if_any(problems, hint)
    if newer is not None:
        raise newer


def _may_have_left(run: Run) -> bool:
    """Return whether a folder has a journal, as every archive of a run; a folder with any other
    `manifest.json` has none."""
    journals = (*layout.JOURNALS, layout.DIGESTS)
    return any(os.path.lexists(run.path / name) for name in journals)


def _left_by(run: Run) -> list[str]:
    """What a removal of the leftovers of a run does, as phrases: `remove rbd:pool/image`."""
    changes = [
        f"{'undo' if created.path.startswith(DRILL) else 'remove'} {created.path}"
        for created in run.left_behind
    ]
    for steps in run.unrestored:
        first, last = steps[0], steps[-1]
        if last.parameter:
            value = "unset" if first.before is None else repr(first.before)
            changes.append(f"restore {last.setting}: {last.parameter} to {value}")
        else:
            changes.append(f"remove the mark of the run ({last.value or last.setting})")
    return changes


def _readable(runs: Sequence[Run]) -> tuple[list[Run], LeadlineError | None]:
    """Leave out archives of a later version of the format; also returns the error of the first."""
    found, newer = [], None
    for run in runs:
        try:
            run.refuse_newer()
        except LeadlineError as error:
            newer = newer or error
        else:
            found.append(run)
    return found, newer


def _clean_cluster(choice: CleanOptions, *, dry_run: bool) -> None:
    from leadline.connect.kubernetes.cleanup import Removal, leftovers, remove
    from leadline.connect.kubernetes.client import Connection

    if not choice.run and not choice.all_runs:
        raise LeadlineError(
            errors.USAGE,
            "what is to be removed from the cluster needs a name",
            hint="`--run ID` for one run, or `--all` for every run of every user there",
        )
    with Connection(choice.kubernetes_access()) as connection:
        found = leftovers(connection, run=choice.run, namespace=choice.namespace)
        if not found:
            echo_line(f"nothing of Leadline's is in {connection.context}")
        elif dry_run:
            for leftover in found:
                echo_line(f"{leftover.run}: would remove the {leftover}")
        else:
            done, problems = remove(found, Removal(connection=connection))
            for sentence in done:
                echo_line(sentence)
            _raise_if_any(problems)


_MENDED = "the same command tries again when that is mended; all else is done"
_DAMAGED = (
    "look at what is listed and undo it by hand, then move the damaged archive elsewhere; all else "
    "is done"
)


def _raise_if_any(problems: Sequence[str], hint: str = _MENDED) -> None:
    """Raise LeadlineError(`left-behind`) for what could not be removed."""
    if problems:
        raise LeadlineError(
            errors.LEFT_BEHIND,
            "not everything that was left behind could be removed or restored",
            context=problems,
            hint=hint,
        )
