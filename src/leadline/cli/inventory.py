"""`leadline inventory`: what a cluster is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leadline import errors
from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import (
    CLUSTER_OPTIONS,
    FILE,
    KUBERNETES_OPTIONS,
    ClusterOptions,
    with_options,
)
from leadline.cli.output import echo_line, print_json
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leadline.inventory.system import System
    from leadline.report.answers.systems import InventoryOutput
    from leadline.report.document import Document


@click.command()
@with_options(*CLUSTER_OPTIONS)
@click.option(
    "--kubernetes", is_flag=True, help="A Kubernetes cluster and what stores its volumes."
)
@with_options(*KUBERNETES_OPTIONS)
@click.option(
    "--from-dir",
    type=FILE,
    metavar="DIR",
    help="Saved dumps instead of a live cluster: of Ceph, a must-gather, YAML of kubectl.",
)
@click.option(
    "--save",
    type=FILE,
    metavar="DIR",
    help="Also write the dumps there, without secrets, for --from-dir.",
)
@click.option(
    "--against",
    type=FILE,
    metavar="DIR",
    help="Show how it differs from the cluster that was saved there.",
)
@click.option("--full", is_flag=True, help="Also the settings from configuration files.")
@destination_options("text", "json", "markdown")
def command(
    save: Path | None,
    against: Path | None,
    full: bool,
    destination: Destination,
    **given: Any,
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
        leadline inventory --lab demo -o cluster.html
        leadline inventory --from-dir new-cluster --against old-cluster -o differences.html
    """
    from leadline.inventory.system import system_of

    dumps, source = InventorySource(**given).read()
    if save is not None:
        _save(save, dumps)
    system = system_of(dumps)
    baseline = None if against is None else system_of(_saved(against, "--against"))
    if destination.form == "json":
        print_json(_output(system, source, baseline, against))
        return Exit.ANSWERED
    document = _document(system, source, baseline, against)
    if destination.path is None:
        destination.put(document, full=full)
    else:
        from leadline.report.render.html import Download

        answer = _output(system, source, baseline, against).to_json() + "\n"
        name = f"{destination.path.name.partition('.')[0]}.json"
        download = Download(name=name, media_type="application/json", text=answer)
        destination.put(document, (download,))
    return Exit.ANSWERED


@dataclass(frozen=True, slots=True, kw_only=True)
class InventorySource(ClusterOptions):
    """The options that name a cluster, or a folder of saved dumps."""

    kubernetes: bool
    from_dir: Path | None

    def read(self) -> tuple[Mapping[str, bytes], str]:
        """Return the dumps of the cluster, and what to call it.

        Raises:
            LeadlineError: `usage`: two clusters are named.
        """
        ceph = self.given("lab", "ceph_conf", "keyring", "ceph_id")
        kubernetes = self.given("kubernetes", "kubeconfig", "context")
        named = [names[0] for names in (self.given("from_dir"), ceph, kubernetes) if names]
        if len(named) > 1:
            raise LeadlineError(
                errors.USAGE,
                f"{named[0]} and {named[1]} name two clusters",
                hint="leave one of them away",
            )
        if self.from_dir is not None:
            return _saved(self.from_dir, "--from-dir"), f"dumps of {self.from_dir}"
        return self._capture_kubernetes() if kubernetes else self._capture_ceph()

    def _capture_kubernetes(self) -> tuple[Mapping[str, bytes], str]:
        from leadline.connect.kubernetes.client import Connection
        from leadline.probes.kubernetes import capture

        with Connection(self.kubernetes_access()) as connection:
            return capture(connection), f"context {connection.context}"

    def _capture_ceph(self) -> tuple[Mapping[str, bytes], str]:
        from leadline.connect.ceph import Connection
        from leadline.probes.ceph import capture

        access, name = self.ceph_access()
        with Connection(access) as connection:
            return capture(connection), name


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
        from leadline.report.pages.inventory_diff import against_document

        names = (str(against), source.removeprefix("dumps of "))
        return against_document(names, (baseline, system), differing(baseline, system))
    if system.kubernetes is not None:
        from leadline.report.pages.inventory_kubernetes import kubernetes_document

        return kubernetes_document(system.kubernetes, source)
    from leadline.report.pages.inventory import inventory_document

    assert system.ceph is not None, "a system is one of the two"
    return inventory_document(system.ceph, source)
