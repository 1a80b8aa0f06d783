"""`leadline layers`: what each layer below a target did, and the steps between two layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import runs_option
from leadline.cli.output import echo_rendered, print_json
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.layers.study import LayerStudy


@click.command()
@click.argument("name", metavar="[RUN]", default="@latest")
@runs_option
@click.option("--target", metavar="NAME", help="Only cells on this target.")
@click.option("--workload", metavar="NAME", help="Only cells of this workload.")
@click.option("--level", metavar="LEVEL", help="Only cells at this load level.")
@destination_options("text", "json", "csv", "csv-raw", "markdown")
def command(
    name: str,
    runs: Path,
    target: str | None,
    workload: str | None,
    level: str | None,
    destination: Destination,
) -> Exit:
    """Show the layers below each target: operations, bytes, sizes, latency and concurrency of
    each layer, what is amplified, split, merged or lost between two layers, whether the bytes add
    up, and why the throughput is what it is. For ZFS also which settings can matter, and the
    comparison of record sizes.

    Without RUN the latest one. Each cell is shown by its trial with the median throughput.

    \b
    Example:
        leadline layers @latest
        leadline layers @latest --target zfs-128k --workload receive
        leadline layers study --format json
    """
    from leadline.analysis.layers.study import layer_study
    from leadline.archive.runs import find_run
    from leadline.audit.registry import audit

    run = find_run(name, runs)
    study = layer_study(run, audit(run), target=target, workload=workload, level=level)
    _print(study, destination)
    return Exit.ANSWERED


def _print(study: LayerStudy, destination: Destination) -> None:
    form = destination.form
    if form in ("json", "csv", "csv-raw"):
        from leadline.report.answers.layers import LAYER_COLUMNS, layer_rows, layers_output
        from leadline.report.render.rows import render_rows

        answer = layers_output(study)
        if form == "json":
            print_json(answer)
        else:
            echo_rendered(render_rows(LAYER_COLUMNS, layer_rows(answer), form))
        return
    from leadline.report.pages.layer_overview import layers_page
    from leadline.report.pages.layers import layers_document

    destination.put(layers_page(study) if destination.path else layers_document(study))
