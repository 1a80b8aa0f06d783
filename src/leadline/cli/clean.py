"""`leadline clean`: remove what a killed run left on its targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from leadline import errors
from leadline.archive.runs import find_run, list_runs, runs_folder
from leadline.archive.scrub import remove_interrupted
from leadline.archive.writer import RunWriter, remove_abandoned_drafts
from leadline.cli.options import echo_line, kubernetes_access, kubernetes_options, runs_option
from leadline.errors import Exit, LeadlineError
from leadline.files import remove_abandoned
from leadline.targets.open import remove_leftovers


@click.command()
@click.argument("run", required=False)
@runs_option
@click.option("--run", "named", metavar="ID", help="The same as the argument.")
@click.option("--all", "every", is_flag=True, help="All runs; the default but with --kubernetes.")
@click.option(
    "--kubernetes",
    is_flag=True,
    help="Look for what carries Leadline's labels in a Kubernetes cluster, archive or not.",
)
@kubernetes_options
@click.option("--namespace", "-n", metavar="NAME", help="With --kubernetes: in this one only.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def command(
    run: str | None,
    runs: Path | None,
    named: str | None,
    every: bool,
    kubernetes: bool,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    dry_run: bool,
) -> Exit:
    """Remove what a killed run (kill -9, power cut) or a cluster in trouble left on its targets:
    folders, datasets of ZFS, RBD images with what was mounted from them, objects, pods, virtual
    machines and volumes, and labs that were brought up for the run.

    Only what the archive records and what carries the run's own mark is touched; files that
    Leadline did not make stay. Without a run, all runs are looked at. The archive itself keeps
    all its results. With --kubernetes the cluster itself is asked, for runs whose archive is
    elsewhere; with --all that takes also runs of others that are going on: look first with
    --dry-run. Folders of sockets that killed processes left in the temporary folder go as well.

    What could not be removed is reported, with exit status 4.

    \b
    Example:
        leadline clean
        leadline clean perf-20261121-120000 --dry-run
        leadline clean --kubernetes --run perf-20261121-120000
    """
    asked = run or named
    if every and asked:
        raise LeadlineError(
            errors.USAGE, "--all and a run contradict each other", hint="leave one of them away"
        )
    if kubernetes or kubeconfig or context or namespace:
        if not asked and not every:
            raise LeadlineError(
                errors.USAGE,
                "what is to be removed from the cluster needs a name",
                hint="`--run ID` for one run, or `--all` for every run of every user there",
            )
        return _in_cluster(kubeconfig, context, namespace, asked, dry_run=dry_run)
    folder = runs_folder(runs)
    found = [find_run(asked, folder)] if asked else list_runs(folder)
    left = [one for one in found if one.left_behind or one.cleaning_unsealed]
    if not dry_run:
        remove_abandoned()
        remove_abandoned_drafts(folder)
        remove_interrupted(folder)
    stays: list[str] = []
    for one in left:
        if dry_run:
            for created in one.left_behind:
                echo_line(f"{one.id}: would remove {created.path}")
            continue
        with RunWriter.tidying(one.path) as writer:
            done, problems = remove_leftovers(one, writer)
        for sentence in done:
            echo_line(f"{one.id}: {sentence}")
        stays += [f"{one.id}: {sentence}" for sentence in problems]
    if not left:
        echo_line("nothing was left behind")
    _raise_if_any(stays)
    return Exit.ANSWERED


def _raise_if_any(stays: Sequence[str]) -> None:
    """Raise LeadlineError(`left-behind`) for what could not be removed."""
    if stays:
        raise LeadlineError(
            errors.LEFT_BEHIND,
            "not everything that was left behind could be removed",
            context=stays,
            hint="the same command tries again when that is mended; all else is done",
        )


def _in_cluster(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    run: str | None,
    *,
    dry_run: bool,
) -> Exit:
    from leadline.connect.kubernetes.cleanup import Removal, leftovers, remove
    from leadline.connect.kubernetes.client import Connection

    with Connection(kubernetes_access(kubeconfig=kubeconfig, context=context)) as connection:
        found = leftovers(connection, run=run, namespace=namespace)
        if not found:
            echo_line(f"nothing of Leadline's is in {connection.context}")
        elif dry_run:
            for one in found:
                echo_line(f"{one.run}: would remove the {one}")
        else:
            done, stays = remove(found, Removal(connection=connection))
            for sentence in done:
                echo_line(sentence)
            _raise_if_any(stays)
    return Exit.ANSWERED
