"""`leadline verify`: checks an archive and its pages against raw output."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.archive.runs import find_run
from leadline.archive.verify import Verification
from leadline.cli.options import ComparisonRequest, format_option, runs_option
from leadline.cli.output import echo_line, print_json
from leadline.errors import Exit, LeadlineError
from leadline.files import read_content

if TYPE_CHECKING:
    from leadline.archive.reader import Run
    from leadline.cli.report import Written
    from leadline.judge import Judge, Verified
    from leadline.report.answers.history import HistoryRunOutput
    from leadline.report.answers.predict import PredictOutput
    from leadline.report.answers.ranking import RankOutput, RecommendOutput
    from leadline.report.answers.settings import SettingsOutput
    from leadline.report.page_check import Page


@click.command()
@click.argument("run", metavar="[RUN|PAGE.html]", default="@latest")
@runs_option
@format_option("text", "json")
def command(run: str, runs: Path, output: str) -> Exit:
    """Check every checksum of an archive and recompute every derived number from raw output.

    A page that `report`, `rank`, `recommend`, `predict`, `settings`, `history` or `site` wrote is
    made once more from its archives, which are verified first: every number of it must come out
    the same.

    Ends with exit status 1 if anything is not as it should be, and says where.

    \b
    Example:
        leadline verify @latest
        leadline verify study.html --runs /srv/benchmarks
        leadline verify /srv/benchmarks/perf-20261121-120000 --format json
    """
    from leadline.judge import verified

    if Path(run).is_file():
        found = _page(Path(run), runs)
    else:
        archive = find_run(run, runs)
        found = [(str(archive.path), verified(archive))]
    verification = Verification(
        files=sum(part.files for _, part in found),
        numbers=sum(part.numbers for _, part in found),
        problems=tuple(problem for _, part in found for problem in part.problems),
    )
    if output == "json":
        from leadline.report.answers.run import verify_output

        print_json(verify_output(verification))
        return Exit.ANSWERED if verification.ok else Exit.NEGATIVE
    for name, part in found:
        files = f"{part.files} files, " if part.files else ""
        echo_line(f"{name}: {files}{part.numbers} numbers checked")
        for problem in part.problems:
            echo_line(f"problem: {problem.path}: {problem.message}")
    count = len(verification.problems)
    echo_line(f"{count} problem{'s' if count > 1 else ''}" if count else "ok")
    return Exit.ANSWERED if verification.ok else Exit.NEGATIVE


def _page(path: Path, runs: Path) -> list[tuple[str, Verification]]:
    """The archives that a page is of, and then the page itself."""
    from leadline.cli.report import rendered
    from leadline.judge import judging
    from leadline.report.page_check import check_page, read_page

    try:
        kept = read_page(str(path), read_content(path.resolve()).decode("utf-8", "replace"))
    except OSError as error:
        raise LeadlineError(
            errors.FORMAT_INVALID, f"{str(path)!r} cannot be read: {error.strerror}"
        ) from error
    alone = _without_archives(kept, runs)
    if alone is not None:
        numbers, problems = check_page(kept, rendered(alone))
        return [(str(path), Verification(files=0, numbers=numbers, problems=problems))]
    archives = [find_run(name, runs) for name in kept.runs]
    if kept.history is not None:
        archives = [_archive(row, runs) for row in kept.history.runs]
    with judging(archives) as (judge, verified):
        if kept.history is not None:
            from leadline.cli.history import history_again

            written = history_again(kept.history, [run.path for run in archives])
        else:
            written = _once_more(kept, archives, runs, judge, verified)
        numbers, problems = check_page(kept, rendered(written))
        found = verified()
    checked = Verification(files=0, numbers=numbers, problems=problems)
    names = [*(str(run.path) for run in archives), str(path)]
    return list(zip(names, (*found, checked), strict=True))


def _without_archives(page: Page, runs: Path) -> Written | None:
    """What is made again of an index, which reads its archives itself, and of the bounds of an
    inventory; None for the page of named runs. Raises LeadlineError(`dumps-invalid`)."""
    if page.site is not None:
        from leadline.cli.site import index_again

        return index_again(page.site, runs)
    asked = page.predicted.asked if page.predicted is not None else None
    if asked is None or asked.inventory is None:
        return None
    if not Path(asked.inventory).exists():
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"the dumps of the page are not here: {asked.inventory!r}",
            hint="call `leadline verify` where the page was made",
        )
    if page.runs:
        return None
    from leadline.cli.predict import of_prediction, predict_inventory_again
    from leadline.cli.report import Written

    document, downloads = of_prediction(predict_inventory_again(asked), asked, ())
    return Written(document=document, downloads=downloads)


def _archive(row: HistoryRunOutput, runs: Path) -> Run:
    """The archive of a run in a history: where it was, or in the folder of the runs."""
    return find_run(row.path if Path(row.path).is_dir() else row.run, runs)


def _once_more(
    page: Page, archives: list[Run], runs: Path, judge: Judge, verified: Verified
) -> Written:
    """What `report` would write of the same archives now."""
    from leadline.cli.report import of_run, of_two

    if page.ranked is not None:
        return _ranked_again(page.ranked, archives[0], judge)
    if page.predicted is not None:
        return _predicted_again(page.predicted, archives, judge)
    if page.settings is not None:
        return _settings_again(page.settings, archives[0], judge)
    asked = page.comparison
    if asked is None:
        return of_run(archives[0], ".html", judge, verified)
    from leadline.analysis.comparison import By

    by = By(asked.by)
    words = page.runs if len(page.runs) > 1 else (asked.baseline, asked.candidate)
    if asked.has_several_runs:
        named = (asked.sides["baseline"], asked.sides["candidate"])
        words = tuple(",".join(side.runs or [side.run]) for side in named)
    # Runs that a label distinguishes are compared by its key.
    asked_by = asked.baseline.partition("=")[0] if by is By.LABEL and len(page.runs) > 1 else by
    request = ComparisonRequest(
        baseline=words[0], candidate=words[-1], by=asked_by, within=page.runs[0], runs=runs
    )
    sides = request.find_sides(judge)
    return of_two(*sides, by, ".html", verified, band=asked.band, between_runs=asked.between_runs)


def _predicted_again(kept: PredictOutput, archives: list[Run], judge: Judge) -> Written:
    """What `predict` would write of the archives now."""
    from leadline.cli.predict import of_prediction, predict_again
    from leadline.cli.report import Written

    assert kept.asked is not None, "refused as no page of Leadline"
    prediction = predict_again(archives, judge, kept.asked)
    document, downloads = of_prediction(prediction, kept.asked, archives)
    return Written(document=document, downloads=downloads)


def _settings_again(kept: SettingsOutput, run: Run, judge: Judge) -> Written:
    """What `settings` would write of the archive now."""
    from leadline.analysis.settings.study import study_settings
    from leadline.cli.report import Written
    from leadline.cli.settings import of_settings

    assert kept.asked is not None, "refused as no page of Leadline"
    study = study_settings(run, *judge(run), band=kept.asked.band)
    document, downloads = of_settings(study, kept.asked)
    return Written(document=document, downloads=downloads)


def _ranked_again(kept: RankOutput | RecommendOutput, run: Run, judge: Judge) -> Written:
    """What `rank` or `recommend` would write of the archive now."""
    from leadline.cli.rank import of_ranking
    from leadline.cli.recommend import of_recommendation, recommendation_for
    from leadline.cli.report import Written
    from leadline.report.answers.ranking import RankOutput

    assert kept.asked is not None, "refused as no page of Leadline"
    if isinstance(kept, RankOutput):
        document, downloads = of_ranking(run, judge, kept.asked)
    else:
        found = recommendation_for(run, judge, kept.asked)
        document, downloads = of_recommendation(run, found, kept.asked)
    return Written(document=document, downloads=downloads)
