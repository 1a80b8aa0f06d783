"""`leadline scale`: load curves, and the speed-up of systems of different size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import band_option, between_runs_option, runs_option
from leadline.cli.output import echo_rendered, print_json
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.scaling.study import ScalingStudy


@click.command()
@click.argument("names", metavar="[RUN]...", nargs=-1)
@runs_option
@click.option(
    "--latency-limit",
    "limit",
    metavar="LIMIT",
    help="Report the last load level within it: 'p99<20ms'; mean, p50, p95, p99.9 as well.",
)
@click.option(
    "--by",
    "label",
    metavar="LABEL",
    help="Compare the targets of one run by this label: cores.",
)
@click.option(
    "--added",
    type=click.FloatRange(min=0, min_open=True),
    metavar="RATIO",
    help="Ratio of the second system's hardware to the first, without inventories: 1.6.",
)
@band_option("Equivalence margin: smaller differences count as none.")
@between_runs_option
@destination_options("text", "json", "csv", "csv-raw", "markdown")
def command(
    names: tuple[str, ...],
    runs: Path,
    limit: str | None,
    label: str | None,
    added: float | None,
    band: float,
    between_runs: float,
    destination: Destination,
) -> Exit:
    """Show throughput and latency over load: peak, knee, the bottleneck of each level, and the last
    level within a latency limit. Several runs, clusters of one run, or targets by a label are
    systems of different size: the command shows their speed-up and the added resources.

    Without RUN the latest run is used. Exit status 6: there is no load curve.

    \b
    Example:
        leadline scale @latest --latency-limit 'p99<20ms'
        leadline scale three-hosts five-hosts
        leadline scale mayastor --by cores --format json
    """
    from leadline.analysis.scaling.study import parse_limit, require_answer, study
    from leadline.archive.runs import find_run
    from leadline.judge import judging

    below = parse_limit(limit)
    found = [find_run(name, runs) for name in names or ("@latest",)]
    unique = tuple({run.path: run for run in found}.values())
    with judging(unique, verifying=False) as (judge, _):
        studied = study(
            unique,
            judge,
            limit=below,
            by=label,
            added=added,
            band=band,
            between_runs=between_runs,
        )
    _print(require_answer(studied), destination)
    return Exit.ANSWERED


def _print(study: ScalingStudy, destination: Destination) -> None:
    form = destination.form
    if form in ("json", "csv", "csv-raw"):
        from leadline.report.answers.scaling import SCALE_COLUMNS, scale_output, scale_rows
        from leadline.report.render.rows import render_rows

        answer = scale_output(study)
        if form == "json":
            print_json(answer)
        else:
            echo_rendered(render_rows(SCALE_COLUMNS, scale_rows(answer), form))
        return
    from leadline.report.pages.scaling.page import scaling_document, scaling_page

    destination.put(scaling_page(study) if destination.path else scaling_document(study))
