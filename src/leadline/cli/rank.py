"""`leadline rank`: which target gives the most?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import band_option, run_argument, runs_option
from leadline.cli.output import echo_rendered, print_document, print_json
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from leadline.analysis.ranking import Ranking
    from leadline.archive.reader import Run
    from leadline.judge import Judge
    from leadline.report.answers.ranking import AskedOutput
    from leadline.report.document import Document
    from leadline.report.render.html import Download

USE_CASE_NAMES = "database, virtual-machines, streaming, backup, shared-files"


@click.command()
@run_argument
@runs_option
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="SELECTOR",
    help="What to rank by, as '[WORKLOAD[@LEVEL]] [read|write|total] METRIC': 'write p99', "
    "or a cost of an I/O (storage-cpu, client-cpu, disk-bytes, network-bytes, memory). May be "
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
@click.option("--details", is_flag=True, help="Also each figure, and how ranks are computed.")
@destination_options("text", "json", "csv", "csv-raw", "markdown")
def command(
    run: str,
    runs: Path,
    objectives: tuple[str, ...],
    use_case: str | None,
    baseline: str | None,
    band: float,
    details: bool,
    destination: Destination,
) -> Exit:
    """Rank the targets of a run: ties share a rank, and those that lack
    a number are listed apart. Without --objective and --for, by the rate of every workload.

    Ends with exit status 6 if no target has every number.

    \b
    Example:
        leadline rank @latest
        leadline rank study --objective 'random-rw-4k write p99' --baseline rep3
        leadline rank --for database --format json
        leadline rank study -o ranking.html
    """
    from leadline.archive.runs import find_run
    from leadline.judge import Judge, ranked
    from leadline.report.answers.ranking import AskedOutput

    if objectives and use_case is not None:
        raise LeadlineError(
            errors.USAGE,
            "--objective and --for are two answers to one question",
            hint="give one of them",
        )
    found, judge = find_run(run, runs), Judge()
    asked = AskedOutput(
        objectives=list(objectives), use_case=use_case, baseline=baseline, band=band
    )
    ranking = ranked(found, judge, objectives, use_case, baseline=baseline, band=band)
    if destination.path is not None:
        destination.put(*of_ranking(found, judge, asked, ranking))
    else:
        _print(found, judge, ranking, destination.form, details=details)
    if not ranking.complete:
        raise nothing_ranked(ranking)
    return Exit.ANSWERED


def of_ranking(
    run: Run, judge: Judge, asked: AskedOutput, ranking: Ranking | None = None
) -> tuple[Document, tuple[Download, ...]]:
    """The page of a ranking, as `-o` writes it and `verify` makes it again."""
    from leadline.analysis.requirements import protections
    from leadline.judge import ranked, recommended_for_uses
    from leadline.report.answers.ranking import rank_output, rank_rows
    from leadline.report.pages.ranking import ranking_document
    from leadline.report.render.html import Download
    from leadline.report.render.rows import render_rows

    ranking = ranking or ranked(
        run, judge, asked.objectives, asked.use_case, baseline=asked.baseline, band=asked.band
    )
    uses = recommended_for_uses(run, judge, band=asked.band)
    answer = rank_output(run, ranking, asked)
    name = f"{run.id}-ranking"
    table = render_rows(*rank_rows(answer), "csv")
    text = answer.to_json() + "\n"
    return (
        ranking_document(run, ranking, protections(run), judge(run)[0], uses),
        (
            Download(name=f"{name}.json", media_type="application/json", text=text),
            Download(name=f"{name}.csv", media_type="text/csv", text=table + "\n"),
        ),
    )


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


def _print(run: Run, judge: Judge, ranking: Ranking, output: str, *, details: bool) -> None:
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

    document = ranking_document(run, ranking, protections(run), judge(run)[0])
    print_document(document, output, full=details)
