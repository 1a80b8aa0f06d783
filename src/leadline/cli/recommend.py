"""`leadline recommend`: which target should I use?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline.cli.document_file import Destination, destination_options
from leadline.cli.options import band_option, run_argument, runs_option
from leadline.cli.output import print_json
from leadline.cli.rank import USE_CASE_NAMES, nothing_ranked
from leadline.errors import Exit

if TYPE_CHECKING:
    from leadline.analysis.recommend import Recommendation
    from leadline.archive.reader import Run
    from leadline.judge import Judge
    from leadline.report.answers.ranking import AskedOutput
    from leadline.report.document import Document
    from leadline.report.render.html import Download


@click.command()
@run_argument
@runs_option
@click.option(
    "--for",
    "use_case",
    required=True,
    metavar="USE|FILE",
    help=f"What for: {USE_CASE_NAMES}, or a file of your own use (YAML).",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="LIST",
    help="What it must fulfil: survive=osd|host|rack|zone, access=rwo|rwx, encrypted (at rest), a "
    "latency of every trial: 'p99<10ms', 'write p99<10ms'.",
)
@click.option(
    "--prefer",
    type=click.Choice(["fastest", "cheapest"]),
    default="fastest",
    show_default=True,
    help="Among targets that meet the requirements. Cheapest: by price, else by raw space.",
)
@band_option("Targets within it count as equal; a measured noise floor widens it.")
@click.option("--details", is_flag=True, help="Also what was not measured and not eligible.")
@destination_options("text", "json", "markdown")
def command(
    run: str,
    runs: Path,
    use_case: str,
    required: tuple[str, ...],
    prefer: str,
    band: float,
    details: bool,
    destination: Destination,
) -> Exit:
    """Recommend a target of a run for a use: the answer with its numbers, what it protects and
    costs, what was not measured, and what would change the answer.

    Ends with exit status 1 if no target is known to fulfil what is required, 6 if none has every
    number.

    \b
    Example:
        leadline recommend @latest --for database
        leadline recommend study --for virtual-machines --require survive=zone,encrypted
        leadline recommend study --for backup --band 10%
        leadline recommend study --for my-use.yaml --require 'p99<10ms' --prefer cheapest
    """
    from leadline.archive.runs import find_run
    from leadline.judge import Judge
    from leadline.report.answers.ranking import AskedOutput

    asked = AskedOutput(use_case=use_case, band=band, requirements=list(required), prefer=prefer)
    found, judge = find_run(run, runs), Judge()
    recommendation = recommendation_for(found, judge, asked)
    if destination.form == "json":
        from leadline.report.answers.ranking import recommend_output

        print_json(recommend_output(found, recommendation))
    else:
        destination.put(*of_recommendation(found, recommendation, asked), full=details)
    if not recommendation.ranking.complete:
        raise nothing_ranked(recommendation.ranking)
    return Exit.ANSWERED if recommendation.chosen else Exit.NEGATIVE


def recommendation_for(run: Run, judge: Judge, asked: AskedOutput) -> Recommendation:
    """The recommendation that was asked for in words. Raises LeadlineError (`usage`)."""
    from leadline.analysis.objectives import find_use_case
    from leadline.analysis.recommend import Preference
    from leadline.analysis.requirements import parse_requirements
    from leadline.judge import recommended

    return recommended(
        run,
        judge,
        find_use_case(asked.use_case or ""),
        parse_requirements(asked.requirements),
        band=asked.band,
        prefer=Preference(asked.prefer),
    )


def of_recommendation(
    run: Run, found: Recommendation, asked: AskedOutput
) -> tuple[Document, tuple[Download, ...]]:
    """The page of a recommendation, as `-o` writes it and `verify` makes it again."""
    from leadline.report.answers.ranking import recommend_output
    from leadline.report.pages.recommendation import recommendation_document
    from leadline.report.render.html import Download

    text = recommend_output(run, found, asked).to_json() + "\n"
    name = f"{run.id}-for-{found.case.name}.json"
    download = Download(name=name, media_type="application/json", text=text)
    return recommendation_document(run, found), (download,)
