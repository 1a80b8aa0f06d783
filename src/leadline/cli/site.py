"""`leadline site`: a folder of archives as a static site."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.runs import age, list_runs, runs_folder
from leadline.cli.document_file import FORCE
from leadline.cli.options import band_option, between_runs_option
from leadline.cli.output import echo_line
from leadline.cli.site_folder import INDEX, PlannedPage, SiteFolder, digest, page_name
from leadline.errors import Exit, LeadlineError
from leadline.parallel import in_workers, spare_cores
from leadline.report.answers.site import SiteComparison, SiteOutput, SiteRun
from leadline.version import __version__

if TYPE_CHECKING:
    from leadline.cli.report import Written
    from leadline.judge import FiguresAndFindings, Judge

# Consecutive runs that one process takes: each is judged once for its page and its comparison.
_AT_ONCE = 5
# What a reader of an archive raises where it is damaged.
_UNREADABLE = (LeadlineError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A page with its row of the index; empty `content` where it could not be made."""

    name: str
    row: SiteRun | SiteComparison
    content: bytes = b""


def _folder_of_runs(_context: click.Context, _option: click.Parameter, given: Path | None) -> Path:
    return runs_folder(given)


@click.command()
@click.argument(
    "runs",
    metavar="[RUNS]",
    required=False,
    type=click.Path(path_type=Path, file_okay=False),
    callback=_folder_of_runs,
)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder to write; it may be there. Files that are not of an earlier site are kept.",
)
@band_option("Changes within it count as the same; a measured noise floor widens it.")
@between_runs_option
@FORCE
def command(runs: Path, folder: Path, band: float, between_runs: float, force: bool) -> Exit:
    """Write a folder of archives as a static site: an index with filters, a page of each run, and
    comparisons of consecutive runs with common cells. It needs no server and no network.

    RUNS is the folder of the runs; else $LEADLINE_RUNS, else ./leadline-runs. A site that is
    written again replaces its own pages, and makes only those whose archive has changed.

    Ends with exit status 1 if an archive cannot be read; the index has its error.

    \b
    Example:
        leadline site -o public
        leadline site /srv/benchmarks -o /var/www/benchmarks
    """
    archives = _oldest_first(runs)
    if not archives:
        raise LeadlineError(
            errors.RUN_NOT_FOUND,
            f"there is no run in {str(runs)!r}",
            hint="name the folder that holds the archives: `leadline site RUNS -o public`",
        )
    question = f"{__version__} {band} {between_runs}"
    planned, unread = _plan(archives, question)
    target = SiteFolder(folder)
    target.refuse_others([INDEX, *(page.name for page in planned)], force)
    kept = target.unchanged(planned)
    target.begin(planned)
    rows: dict[str, SiteRun | SiteComparison] = dict(kept)
    to_make = [page for page in planned if page.name not in kept]
    with click.progressbar(
        length=len(to_make), file=sys.stderr, hidden=not sys.stderr.isatty(), label="pages"
    ) as progress:
        for made in _make_all(to_make, band, between_runs):
            if made.content:
                target.write(made.name, made.content)
            rows[made.name] = made.row
            progress.update(1)
    site = _site(archives, planned, unread, rows, band, between_runs)
    target.write(INDEX, _index(site)[1].encode())
    left = target.finish(planned, site)
    for name in left:
        echo_line(f"kept: {name} was changed since Leadline wrote it", err=True)
    failed = [(row.folder, row.error) for row in site.runs if row.error]
    failed += [(f"{row.candidate} vs {row.baseline}", row.error) for row in site.comparisons]
    failed = [(name, error) for name, error in failed if error]
    for name, error in failed:
        echo_line(f"no page: {name}: {error}", err=True)
    echo_line(str(folder / INDEX))
    return Exit.NEGATIVE if failed else Exit.ANSWERED


# --- which pages --------------------------------------------------------------------------------


def _oldest_first(runs: Path) -> list[Path]:
    """List the archives by their age; what a reader has read of them is dropped."""
    return [run.path for run in sorted(list_runs(runs), key=age)]


def _plan(archives: Sequence[Path], question: str) -> tuple[list[PlannedPage], dict[Path, str]]:
    """List the pages of a site, the oldest run first, and the error of each archive without."""
    from leadline.analysis.comparison import places

    unread: dict[Path, str] = {}
    planned: list[PlannedPage] = []
    before: list[tuple[Path, frozenset[tuple[str, str, str]], str]] = []
    for path in archives:
        run = Run(path)
        try:
            run.refuse_newer()
            cells, clusters = _cells(run), places(run)
        except _UNREADABLE as error:
            unread[path] = _fact(error)
            continue
        source = digest(question, *_stamps(path))
        planned.append(
            PlannedPage(name=page_name("run", path.name), run=path, baseline=None, source=source)
        )
        if len(clusters) == 2:
            name = page_name("compare", path.name)
            planned.append(PlannedPage(name=name, run=path, baseline=path, source=source))
        partner = next((one for one in reversed(before) if one[1] & cells), None)
        if partner:
            planned.append(
                PlannedPage(
                    name=page_name("compare", path.name, partner[0].name),
                    run=path,
                    baseline=partner[0],
                    source=digest(source, partner[2]),
                )
            )
        before.append((path, cells, source))
    return planned, unread


def _cells(run: Run) -> frozenset[tuple[str, str, str]]:
    """Target, workload and level of each planned cell, as runs are matched."""
    subjects = {target.name: target.subject or target.name for target in run.plan.targets}
    return frozenset(
        (subjects.get(cell.target, cell.target), cell.workload.name, cell.level)
        for cell in run.plan.cells
    )


def _fact(error: Exception) -> str:
    """One line of an error, without the folder of the archive."""
    return error.fact if isinstance(error, LeadlineError) else str(error.args[-1])


def _stamps(archive: Path) -> Iterator[str]:
    """Name, size and time of change of each file of an archive."""
    for folder, folders, names in os.walk(archive):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            with suppress(OSError):
                found = path.lstat()
                yield f"{path.relative_to(archive)} {found.st_size} {found.st_mtime_ns}"


# --- making them --------------------------------------------------------------------------------


def _make_all(
    planned: Sequence[PlannedPage], band: float, between_runs: float, *, rendering: bool = True
) -> Iterator[_Made]:
    """Make pages in all cores there are, with `rendering`; else their rows of the index."""
    _opened.cache_clear()
    if not planned:
        return
    make = partial(_make, band=band, between_runs=between_runs, rendering=rendering)
    parts = [planned[at : at + _AT_ONCE] for at in range(0, len(planned), _AT_ONCE)]
    cores = 1 + spare_cores()
    # What a worker would have to import, each worker would import again.
    first = make(parts[0])
    others = [(number, part) for number, part in enumerate(parts[1:]) if number % cores]
    with in_workers([partial(make, part) for _, part in others]) as begun:
        yield from first
        waits: dict[int, Callable[[], list[_Made]]] = {
            number: wait for (number, _), wait in zip(others, begun, strict=True)
        }
        for number, part in enumerate(parts[1:]):
            yield from waits[number]() if number in waits else make(part)


def _make(
    planned: Sequence[PlannedPage], *, band: float, between_runs: float, rendering: bool
) -> list[_Made]:
    made = [_made(page, band, between_runs, rendering=rendering) for page in planned]
    gc.collect()  # a worker does not do so by itself, and runs and pages have cycles
    return made


@lru_cache(maxsize=3)
def _opened(path: Path) -> tuple[Run, Judge]:
    from leadline.judge import Judge

    return Run(path), Judge()


def _made(page: PlannedPage, band: float, between_runs: float, *, rendering: bool) -> _Made:
    if page.baseline is None:
        return _run_page(page, rendering=rendering)
    return _comparison_page(page, page.baseline, band, between_runs, rendering=rendering)


def _run_page(page: PlannedPage, *, rendering: bool) -> _Made:
    from leadline.cli.report import of_run, rendered
    from leadline.report.answers.site import site_run

    run, judge = _opened(page.run)
    try:
        verification = judge.verified(run)
        row = site_run(run, page.name, judge(run)[0], verification)
        content = (
            rendered(of_run(run, ".html", judge, lambda: (verification,))).encode()
            if rendering
            else b""
        )
    except _UNREADABLE as error:
        return _Made(name=page.name, row=_failed(run.path, _fact(error)))
    return _Made(name=page.name, row=row, content=content)


def _failed(path: Path, error: str) -> SiteRun:
    return SiteRun(run=path.name, folder=path.name, page=None, error=error)


def _comparison_page(
    page: PlannedPage, baseline: Path, band: float, between_runs: float, *, rendering: bool
) -> _Made:
    from leadline.analysis.compare import compare
    from leadline.analysis.comparison import By, places, several_runs, within_run
    from leadline.cli.report import of_two, rendered
    from leadline.report.answers.site import site_comparison

    candidate = _opened(page.run)[0]
    names = (baseline.name, candidate.path.name)
    try:
        run = _opened(baseline)[0]
        if baseline == page.run:
            first, second = places(run)
            by, names = By.CLUSTER, (first, second)
            sides = within_run(run, by, *names, _judged)
        else:
            by, sides = By.RUN, several_runs([run], [candidate], _judged)
        comparison = compare(*sides, by=by, band=band, between_runs=between_runs)
        content = b""
        if rendering:
            verified = tuple(_opened(run.path)[1].verified(run) for run in comparison.runs)
            written = of_two(
                *sides, by, ".html", lambda: verified, band=band, between_runs=between_runs
            )
            content = rendered(written).encode()
        return _Made(name=page.name, row=site_comparison(comparison, page.name), content=content)
    except _UNREADABLE as error:
        row = SiteComparison(
            page=None,
            error=_fact(error),
            by="cluster" if baseline == page.run else "run",
            runs=list(dict.fromkeys((baseline.name, candidate.path.name))),
            baseline=names[0],
            candidate=names[1],
            created_at="",
        )
        return _Made(name=page.name, row=row)


def _judged(run: Run) -> FiguresAndFindings:
    return _opened(run.path)[1](run)


def _site(
    archives: Sequence[Path],
    planned: Sequence[PlannedPage],
    unread: dict[Path, str],
    rows: dict[str, SiteRun | SiteComparison],
    band: float,
    between_runs: float,
) -> SiteOutput:
    of_runs = {page.run: rows[page.name] for page in planned if page.baseline is None}
    runs = [of_runs.get(path) or _failed(path, unread[path]) for path in archives]
    return SiteOutput(
        band=band,
        between_runs=between_runs,
        runs=[row for row in runs if isinstance(row, SiteRun)],
        comparisons=[row for page in planned if isinstance(row := rows[page.name], SiteComparison)],
    )


def _index(site: SiteOutput) -> tuple[Written, str]:
    from leadline.cli.report import Written, rendered
    from leadline.report.pages.site import site_document
    from leadline.report.render.html import Download

    answer = Download(name="site.json", media_type="application/json", text=site.to_json() + "\n")
    written = Written(document=site_document(site), downloads=(answer,))
    return written, rendered(written)


def index_again(kept: SiteOutput, runs: Path) -> Written:
    """The index that `site` would write of the same archives now; the folder may hold more.

    Raises LeadlineError (`run-not-found`)."""
    from leadline.archive.runs import find_run

    named = {row.folder for row in kept.runs}
    archives = [path for path in _oldest_first(runs) if path.name in named]
    for row in kept.runs:
        if row.folder not in {path.name for path in archives}:
            find_run(row.folder, runs)
    planned, unread = _plan(archives, "")
    made = _make_all(planned, kept.band, kept.between_runs, rendering=False)
    rows = {page.name: page.row for page in made}
    return _index(_site(archives, planned, unread, rows, kept.band, kept.between_runs))[0]
