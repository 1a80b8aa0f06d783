"""`leadline history`: what every cell did over all runs, and since when it is different."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.archive.runs import runs_folder
from leadline.cli.document_file import (
    Destination,
    destination_options,
)
from leadline.cli.options import band_option, parse_date
from leadline.cli.output import echo_line, echo_rendered, print_document, print_json
from leadline.errors import Exit, LeadlineError

if TYPE_CHECKING:
    from leadline.analysis.history import History
    from leadline.analysis.history_rows import HistoryRun
    from leadline.cli.report import Written
    from leadline.report.answers.history import HistoryOutput

_TABLES = ("csv", "csv-raw", "otava-csv", "benchstat", "openmetrics")


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    metavar="[FOLDER...]",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option(
    "--select",
    "selection",
    multiple=True,
    metavar="KEY=PATTERN,...",
    help="Only these cells: target, workload, level, op, metric or cluster with a shell pattern, "
    "'target=rep3,workload=rand*'. Several are alternatives.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Only these: iops, bandwidth, mean, p50, p95, p99, p99.9, p99.99; else the usual rate of "
    "each cell and its p99 latency.",
)
@band_option("A change within it is none: it counts as the same.")
@click.option(
    "--fail-on-regression",
    is_flag=True,
    help="Exit status 1 if a cell is worse than before one of its changes, 5 if that is "
    "inconclusive.",
)
@click.option(
    "--since",
    metavar="DATE|RUN",
    help="With --fail-on-regression: earlier changes do not count, as they are accepted.",
)
@destination_options(
    "text", "json", "csv", "csv-raw", "markdown", "arrow", "otava-csv", "benchstat", "openmetrics"
)
def command(
    folders: tuple[Path, ...],
    selection: tuple[str, ...],
    metrics: tuple[str, ...],
    band: float,
    since: str | None,
    destination: Destination,
    *,
    fail_on_regression: bool,
) -> Exit:
    """Follow each cell over the runs of all archives below FOLDERs: one series for each cell whose
    workload, engine and target are equal, its steps and drifts, and what changed in the inventory
    with them.

    FOLDER is the folder of the runs; else $LEADLINE_RUNS, else ./leadline-runs. A step is found
    from the second run after it on. An index in ~/.cache/leadline makes the next call quick; it is
    rebuilt from the archives when needed.

    Ends with exit status 1 if an archive cannot be read; the others are in the answer.

    \b
    Example:
        leadline history /srv/benchmarks
        leadline history --select target=rep3,workload=rand* -o history.html
        leadline history /srv/benchmarks --fail-on-regression --since 2026-03-14
        leadline history --format otava-csv > history.csv
    """
    from leadline.analysis.history import build_history, parse_selection
    from leadline.analysis.selectors import parse_metric
    from leadline.parallel import without_collection
    from leadline.run_index import index_runs, unread_is_fault

    places = [folder.absolute() for folder in folders] or [runs_folder(None)]
    chosen = parse_selection(selection)
    wanted = tuple(dict.fromkeys(map(parse_metric, metrics)))
    for place in places:
        if not place.is_dir():
            raise _no_runs(f"there is no folder {str(place)!r}")
    with without_collection():
        indexed = index_runs(places, wanted)
        for note in indexed.notes:
            echo_line(f"note: {note}", err=True)
        for one in indexed.unread:
            echo_line(f"left out: {one.path}: {one.code}: {one.fact}", err=True)
        if not indexed.runs:
            raise _no_runs(f"no archive below {', '.join(map(str, places))} can be read")
        history = build_history(
            places,
            indexed.runs,
            indexed.unread,
            now_s=datetime.now(UTC).timestamp(),
            metrics=wanted,
            selection=chosen,
            band=band,
            since_s=_since(since, indexed.runs) if since else None,
        )
        if destination.path is None:
            _print(history, destination.form)
        else:
            written = _page(history, selection, metrics)
            assert written.document is not None
            destination.put(written.document, written.downloads)
    status = _regression_status(history) if fail_on_regression else Exit.ANSWERED
    damaged = unread_is_fault(indexed.unread)
    return Exit.NEGATIVE if damaged else status


def _no_runs(fact: str) -> LeadlineError:
    return LeadlineError(
        errors.RUN_NOT_FOUND,
        fact,
        hint="name the folder that holds the archives: `leadline history RUNS`",
    )


def _since(text: str, runs: Sequence[HistoryRun]) -> float:
    """When a run begins, or a date, in seconds since 1970. Raises LeadlineError (`usage`)."""
    named = [run for run in runs if run.run == text] or [
        run for run in runs if run.run.startswith(text)
    ]
    if len(named) == 1:
        # A whole second: the page of a history writes it with 12 digits, and is made again from it.
        return float(math.floor(named[0].at_s))
    return parse_date(text, "--since").timestamp()


def _regression_status(history: History) -> Exit:
    """Name what regressed on stderr."""
    from leadline.report.pages.history import change_line

    for word, found in (("regression", history.regressions), ("undecided", history.undecided)):
        for series, change in found:
            echo_line(f"{word}: {change_line(series, change)}", err=True)
    if history.regressions:
        return Exit.NEGATIVE
    return Exit.INCONCLUSIVE if history.undecided else Exit.ANSWERED


def _page(history: History, selection: Sequence[str], metrics: Sequence[str]) -> Written:
    """The page, with what `verify` needs to make it again."""
    from leadline.cli.report import Written
    from leadline.report.answers.history import HistoryAskedOutput, history_output
    from leadline.report.pages.history import history_document, history_summary
    from leadline.report.render.html import Download

    asked = HistoryAskedOutput(
        folders=list(map(str, history.folders)),
        selection=list(selection),
        metrics=list(metrics),
        since_s=history.since_s,
    )
    text = history_output(history, next(history_summary(history)), asked).to_json() + "\n"
    download = Download(name="history.json", media_type="application/json", text=text)
    return Written(document=history_document(history), downloads=(download,))


def history_again(kept: HistoryOutput, archives: Sequence[Path]) -> Written:
    """The page that these archives give now."""
    from leadline.analysis.history import Unread, build_history, parse_selection
    from leadline.analysis.history_rows import HistoryRun
    from leadline.analysis.selectors import parse_metric
    from leadline.run_index import read_archive

    assert kept.asked is not None, "refused as no page of Leadline"
    asked = kept.asked
    read = [read_archive(path) for path in archives]
    unread = [
        *(Unread(path=Path(one.path), code=one.code, fact=one.fact) for one in kept.unread),
        *(one for one in read if isinstance(one, Unread)),
    ]
    history = build_history(
        [Path(folder) for folder in asked.folders],
        [run for run in read if isinstance(run, HistoryRun)],
        unread,
        now_s=datetime.now(UTC).timestamp(),
        metrics=tuple(dict.fromkeys(map(parse_metric, asked.metrics))),
        selection=parse_selection(asked.selection),
        band=kept.band,
        since_s=asked.since_s,
    )
    return _page(history, asked.selection, asked.metrics)


def _print(history: History, output: str) -> None:
    if output == "json":
        from leadline.report.answers.history import history_output
        from leadline.report.pages.history import history_summary

        print_json(history_output(history, next(history_summary(history))))
    elif output == "arrow":
        from leadline.report.render.history_exports import to_arrow

        sys.stdout.buffer.write(to_arrow(history))
    elif output in _TABLES:
        from leadline.report.render.history_exports import render_export

        echo_rendered(render_export(history, output))
    else:
        from leadline.report.pages.history import history_document

        print_document(history_document(history), output)
