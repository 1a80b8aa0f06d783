"""`leadline inventory`: what a cluster is."""

from __future__ import annotations

from pathlib import Path

import click

from leadline import errors
from leadline.cli.cluster_options import cluster_access, cluster_options
from leadline.cli.options import format_option
from leadline.errors import Exit, LeadlineError


@click.command()
@cluster_options
@click.option(
    "--from-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Saved dumps instead of a live cluster: status.json, osd_dump.json ...",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also write the dumps there, without secrets, for --from-dir.",
)
@click.option("--full", is_flag=True, help="Also the settings from configuration files.")
@format_option("text", "json", "markdown")
def command(
    lab: str | None,
    ceph_conf: Path | None,
    keyring: Path | None,
    ceph_id: str | None,
    from_dir: Path | None,
    save: Path | None,
    full: bool,
    output: str,
) -> Exit:
    """Say what a Ceph cluster is: release, health, pools, why each has the placement groups it
    has, CRUSH, encryption, settings. Asks in milliseconds and changes nothing.

    \b
    Example:
        leadline inventory --lab demo
        leadline inventory --ceph-conf /etc/ceph/ceph.conf --save dumps
        leadline inventory --from-dir dumps --format markdown
    """
    if from_dir is not None:
        given = {"--lab": lab, "--ceph-conf": ceph_conf, "--keyring": keyring, "--id": ceph_id}
        contradicting = [name for name, value in given.items() if value is not None]
        if contradicting:
            raise LeadlineError(
                errors.USAGE,
                f"--from-dir and {contradicting[0]} name two clusters",
                hint="leave one of them away",
            )
        dumps, source = _saved(from_dir), f"dumps of {from_dir}"
    else:
        from leadline.ceph.connection import Connection
        from leadline.probes.ceph import capture

        access = cluster_access(lab=lab, ceph_conf=ceph_conf, keyring=keyring, ceph_id=ceph_id)
        source = f"lab {lab}" if lab else str(access.conf)
        with Connection(access) as connection:
            dumps = capture(connection)
    from leadline.inventory.ceph_reading import cluster_inventory

    if save is not None:
        _save(save, dumps)
    inventory = cluster_inventory(dumps)
    if output == "json":
        from leadline.report.inventory.output import inventory_output

        answer = inventory_output(inventory, source)
        click.echo(answer.model_dump_json(by_alias=True, indent=2))
        return Exit.ANSWERED
    from leadline.report.inventory.page import inventory_document

    document = inventory_document(inventory, source)
    if output == "markdown":
        from leadline.report.markdown import render as render_markdown

        click.echo(render_markdown(document), nl=False)
        return Exit.ANSWERED
    from leadline.report.terminal import render, standard_output

    render(standard_output(), document, full=full)
    return Exit.ANSWERED


def _saved(folder: Path) -> dict[str, bytes]:
    """The dumps in a folder, redacted as live ones are: people save them by hand."""
    from leadline.inventory.ceph_dumps import is_dump
    from leadline.inventory.redaction import redact_dump

    try:
        files = [path for path in sorted(folder.iterdir()) if is_dump(path.name)]
        return {path.name: redact_dump(path.read_bytes()) for path in files}
    except OSError as error:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{str(error.filename or folder)!r} cannot be read: {error.strerror}",
            hint="--from-dir names a folder with status.json, osd_dump.json ...",
        ) from error


def _save(folder: Path, dumps: dict[str, bytes]) -> None:
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
    click.echo(f"{len(dumps)} dumps written to {folder}", err=True)
