"""`leadline rank`: which target gives the most?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.cli.document_file import check_destination, document_options, put_document
from leadline.cli.options import band_option, format_option, run_argument, runs_option
from leadline.cli.output import echo_rendered, print_json
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from leadline.analysis.ranking import Ranking
    from leadline.archive.reader import Run

USE_CASE_NAMES = "database, virtual-machines, streaming, backup, shared-files"


@click.command()
@run_argument
@runs_option
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="SELECTOR",
    help="What to rank by, as '[WORKLOAD[@LEVEL]] [read|write|total] METRIC': 'write p99'. May be "
    "given several times; each has the weight 1, or the one behind it: 'write p99=3'.",
)
@click.option(
    "--for",
    "use_case",
    metavar="USE|FILE",
    help=f"Rank by what counts for a use: {USE_CASE_NAMES}, or a file of your own use (YAML).",
)
@click.option(
    "--baseline", metavar="TARGET", help="The target that scores 1.  [default: the first]"
)
@band_option("Values within it count as equal; a measured noise floor widens it.")
@document_options
@format_option("text", "json", "csv", "csv-raw", "markdown")
def command(
    run: str,
    runs: Path,
    objectives: tuple[str, ...],
    use_case: str | None,
    baseline: str | None,
    band: float,
    path: Path | None,
    force: bool,
    output: str,
) -> Exit:
    """Rank the targets of a run: ties share a rank, and those that lack
    a number are listed apart. Without --objective and --for, by the rate of every workload.

    Ends with exit status 6 if no target has every number.

    \b
    Example:
        leadline rank @latest
        leadline rank study --objective 'random-rw-4k write p99' --baseline rep3
        leadline rank --for database --format json
    """
    from leadline.archive.runs import find_run
    from leadline.judge import Judge, ranked

    check_destination(path, output, force)
    if objectives and use_case is not None:
        raise LeadlineError(
            errors.USAGE,
            "--objective and --for are two answers to one question",
            hint="give one of them",
        )
    found = find_run(run, runs)
    ranking = ranked(found, Judge(), objectives, use_case, baseline=baseline, band=band)
    _print(found, ranking, output, path, force)
    if not ranking.complete:
        raise nothing_ranked(ranking)
    return Exit.ANSWERED


def nothing_ranked(ranking: Ranking) -> LeadlineError:
    """Why no target has a rank, with the figures that most of them lack."""
    from collections import Counter

    from leadline.report.pages.ranking import missing_lines

    lacks = Counter(line for standing in ranking.incomplete for line in missing_lines(standing))
    total = len(ranking.incomplete)
    return LeadlineError(
        errors.NOTHING_TO_RANK,
        "nothing can be ranked: no target has every number",
        context=[f"{text} ({count} of {total} targets)" for text, count in lacks.most_common(5)],
        hint="--objective ranks by the figures that are there; `leadline audit` explains those "
        "that it refuses",
    )


def _print(run: Run, ranking: Ranking, output: str, path: Path | None, force: bool) -> None:
    if output in ("json", "csv", "csv-raw"):
        from leadline.report.answers.ranking import rank_output, rank_rows
        from leadline.report.render.rows import render_rows

        answer = rank_output(run, ranking)
        if output == "json":
            print_json(answer)
        else:
            echo_rendered(render_rows(*rank_rows(answer), output))
        return
    from leadline.analysis.requirements import protections
    from leadline.report.pages.ranking import ranking_document

    put_document(ranking_document(run, ranking, protections(run)), output, path, force)
