"""`leadline inventory`: what a cluster is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.cli.options import (
    cluster_access,
    cluster_options,
    echo_line,
    echo_rendered,
    format_option,
    kubernetes_access,
    kubernetes_options,
)
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leadline.analysis.explain.conditions import System
    from leadline.report.answers.systems import InventoryOutput
    from leadline.report.document import Document


@click.command()
@cluster_options
@click.option(
    "--kubernetes", is_flag=True, help="A Kubernetes cluster and what stores its volumes."
)
@kubernetes_options
@click.option(
    "--from-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Saved dumps instead of a live cluster: of Ceph, a must-gather, YAML of kubectl.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write the dumps there, without secrets, for --from-dir.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Show how it differs from the cluster that was saved there.",
)
@click.option("--full", is_flag=True, help="Also the settings from configuration files.")
@format_option("text", "json", "markdown")
def command(
    lab: str | None,
    ceph_conf: Path | None,
    keyring: Path | None,
    ceph_id: str | None,
    kubernetes: bool,
    kubeconfig: Path | None,
    context: str | None,
    from_dir: Path | None,
    save: Path | None,
    against: Path | None,
    full: bool,
    output: str,
) -> Exit:
    """Say what a cluster is. Of Ceph: release, health, pools, why each has the placement groups it
    has, CRUSH, encryption, settings. Of Kubernetes: StorageClasses and what is behind them, nodes,
    drivers. Changes nothing.

    \b
    Example:
        leadline inventory --lab demo
        leadline inventory --ceph-conf /etc/ceph/ceph.conf --save dumps
        leadline inventory --kubernetes --context production
        leadline inventory --from-dir must-gather --format markdown
        leadline inventory --from-dir new-cluster --against old-cluster
    """
    ceph = {"--lab": lab, "--ceph-conf": ceph_conf, "--keyring": keyring, "--id": ceph_id}
    of_kubernetes = {
        "--kubernetes": kubernetes or None,
        "--kubeconfig": kubeconfig,
        "--context": context,
    }
    _refuse_two(from_dir, ceph, of_kubernetes)
    dumps: Mapping[str, bytes]
    if from_dir is not None:
        dumps, source = _saved(from_dir, "--from-dir"), f"dumps of {from_dir}"
    elif any(value is not None for value in of_kubernetes.values()):
        dumps, source = _asked(kubeconfig, context)
    else:
        from leadline.connect.ceph import Connection
        from leadline.probes.ceph import capture

        access = cluster_access(lab=lab, ceph_conf=ceph_conf, keyring=keyring, ceph_id=ceph_id)
        source = f"lab {lab}" if lab else str(access.conf)
        with Connection(access) as connection:
            dumps = capture(connection)
    if save is not None:
        _save(save, dumps)
    from leadline.analysis.explain.conditions import system_of

    system = system_of(dumps)
    baseline = None
    if against is not None:
        baseline = system_of(_saved(against, "--against"))
    if output == "json":
        answer = _output(system, source, baseline, against)
        echo_rendered(answer.to_json())
        return Exit.ANSWERED
    document = _document(system, source, baseline, against)
    if output == "markdown":
        from leadline.report.render.markdown import render as render_markdown

        echo_rendered(render_markdown(document).rstrip())
        return Exit.ANSWERED
    from leadline.report.render.terminal import render, standard_output

    render(standard_output(), document, full=full)
    return Exit.ANSWERED


def _refuse_two(
    from_dir: Path | None, ceph: Mapping[str, object], of_kubernetes: Mapping[str, object]
) -> None:
    """One cluster is asked for. Raises LeadlineError(`usage`)."""
    named = [
        [name for name, value in one.items() if value is not None] for one in (ceph, of_kubernetes)
    ]
    ways = [*(["--from-dir"] if from_dir is not None else []), *(one[0] for one in named if one)]
    if len(ways) > 1:
        raise LeadlineError(
            errors.USAGE,
            f"{ways[0]} and {ways[1]} name two clusters",
            hint="leave one of them away",
        )


def _asked(kubeconfig: Path | None, context: str | None) -> tuple[Mapping[str, bytes], str]:
    """The dumps of a live Kubernetes cluster, and what to call it."""
    from leadline.connect.kubernetes.client import Connection
    from leadline.probes.kubernetes import capture

    access = kubernetes_access(kubeconfig=kubeconfig, context=context)
    with Connection(access) as connection:
        return capture(connection), f"context {connection.context}"


def _saved(folder: Path, option: str) -> Mapping[str, bytes]:
    """The dumps in a folder. Missing dumps are reported as gaps, except those of Kubernetes."""
    from leadline.inventory.kubernetes.folder import read_folder
    from leadline.inventory.kubernetes.kinds import holds_kubernetes

    saved = read_folder(folder, option)
    if not holds_kubernetes(saved.dumps):
        for gap in saved.gaps:
            echo_line(f"warning: {gap.what}: {gap.reason}", err=True)
    return saved.dumps


def _save(folder: Path, dumps: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in dumps.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise LeadlineError(
            errors.OUTPUT_UNWRITABLE,
            f"the dumps cannot be written to {str(error.filename or folder)!r}: {error.strerror}",
            hint="name another folder with --save",
        ) from error
    echo_line(f"{len(dumps)} dumps written to {folder}", err=True)


def _output(
    system: System, source: str, baseline: System | None, against: Path | None
) -> InventoryOutput:
    from leadline.report.answers.systems import against_output, inventory_output, kubernetes_output

    if system.kubernetes is not None:
        answer = kubernetes_output(system.kubernetes, source)
    else:
        assert system.ceph is not None, "a system is one of the two"
        answer = inventory_output(system.ceph, source)
    if baseline is None:
        return answer
    from leadline.analysis.explain.conditions import differing

    found = against_output(str(against), differing(baseline, system))
    return answer.model_copy(update={"against": found})


def _document(
    system: System, source: str, baseline: System | None, against: Path | None
) -> Document:
    if baseline is not None:
        from leadline.analysis.explain.conditions import differing
        from leadline.report.pages.inventory import against_document

        return against_document(str(against), source, differing(baseline, system))
    if system.kubernetes is not None:
        from leadline.report.pages.inventory_kubernetes import kubernetes_document

        return kubernetes_document(system.kubernetes, source)
    from leadline.report.pages.inventory import inventory_document

    assert system.ceph is not None, "a system is one of the two"
    return inventory_document(system.ceph, source)
