"""The Python interface, for notebooks: the same objects as the command line.

import leadline

run = leadline.open_run("leadline-runs/perf-20261121-120000")
table = run.measurements()          # pyarrow.Table; .to_pandas() for a DataFrame
findings = run.audit()
comparison = leadline.compare("@previous", run)
comparison.cells()                  # pyarrow.Table, a row for each number of both
leadline.rank(run).targets()        # pyarrow.Table, a row for each target
leadline.scale(run).levels()        # pyarrow.Table, a row for each load level
leadline.layers(run).flows()        # pyarrow.Table, a row for each layer and direction
leadline.study_settings(run).states()   # pyarrow.Table, a row for each state of a settings study
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.runs import find_run, runs_folder
from leadline.errors import LeadlineError
from leadline.judge import Judge, ranked
from leadline.notebook import (
    OpenComparison,
    OpenLayers,
    OpenRanking,
    OpenRun,
    OpenScaling,
    OpenSettings,
)

if TYPE_CHECKING:
    from leadline.analysis.comparison import By

RunName = OpenRun | str | os.PathLike[str]
RunNames = RunName | Sequence[RunName]
_ONE_RUN = (OpenRun, str, os.PathLike)


def open_run(path: str | os.PathLike[str]) -> OpenRun:
    """A run by path, id, unique prefix, name, @latest or @previous.

    Raises LeadlineError(`run-not-found`).
    """
    return OpenRun(find_run(os.fspath(path), runs_folder(None)))


def compare(
    baseline: RunNames,
    candidate: RunNames | None = None,
    *,
    by: str = "run",
    run: RunName = "@latest",
    band: float = 0.05,
    between_runs: float = 0.05,
    metrics: Iterable[str] = (),
) -> OpenComparison:
    """Two runs, or two lists of the runs of a system; or with `by` "cluster", "target" or "label"
    two of them within `run`, by name; or one run with two clusters, the first of which is the
    baseline; or with a label's key as `by` its two values, in one run or in one run each.

    `band` is a share: what differs by less counts as the same. `between_runs` is the standard
    deviation of a system from one run to another, as a share, for two runs. `metrics` are words of
    the command line (`iops`, `p99`), none for all. Raises LeadlineError(`usage`, `run-not-found`).
    """
    from leadline.analysis.compare import compare as compared
    from leadline.analysis.comparison import By, by_label, places, several_runs, within_run
    from leadline.analysis.selectors import parse_metric
    from leadline.metrics import Metric

    _check_band(band)
    _check_between_runs(between_runs)
    wanted = tuple(dict.fromkeys(map(parse_metric, metrics))) or tuple(Metric)
    kind, judge = _by(by), Judge()
    if kind is By.LABEL and by != By.LABEL:
        first = _archive(_single(baseline))
        other = first if candidate is None else _archive(_single(candidate))
        sides = by_label(first, other, by, judge)
    elif candidate is None:
        alone = _archive(_single(baseline))
        found = places(alone)
        if len(found) != 2:
            raise LeadlineError(
                errors.USAGE,
                f"run {alone.id} alone is no comparison: its number of clusters is {len(found)}",
                hint='give a second run, or two parts: compare("a", "b", by="target", run=run)',
            )
        kind = By.CLUSTER
        sides = within_run(alone, kind, found[0], found[1], judge)
    elif kind is By.RUN:
        sides = several_runs(_archives(baseline), _archives(candidate), judge)
    else:
        left, right = (_name(_single(part), kind) for part in (baseline, candidate))
        sides = within_run(_archive(run), kind, left, right, judge)
    return OpenComparison(
        compared(*sides, by=kind, band=band, between_runs=between_runs, metrics=wanted)
    )


def rank(
    run: RunName = "@latest",
    objectives: Iterable[str] = (),
    *,
    use: str | None = None,
    baseline: str | None = None,
    band: float = 0.05,
) -> OpenRanking:
    """The targets of a run in order, by the rate of every workload unless asked otherwise.

    `objectives` are as on the command line, `["write p99"]`; `use` is a use case, `"database"`;
    `baseline` is the target that scores 1; `band` is a share. Raises LeadlineError (`usage`,
    `run-not-found`, `nothing-to-rank`).
    """
    _check_band(band)
    wanted = (objectives,) if isinstance(objectives, str) else tuple(objectives)
    if wanted and use is not None:
        raise LeadlineError(
            errors.USAGE,
            "objectives and use are two answers to one question",
            hint="give one of them",
        )
    archive = _archive(run)
    found = ranked(archive, Judge(), wanted, use, baseline=baseline, band=band)
    return OpenRanking(found, archive)


def scale(
    *runs: RunName,
    latency_limit: str | None = None,
    by: str | None = None,
    added: float | None = None,
    band: float = 0.05,
    between_runs: float = 0.05,
) -> OpenScaling:
    """Load curves of a run (the latest, where none is given); several runs are systems of different
    size, each compared with the first, as are the clusters of one run, or its targets by the label
    `by`. `between_runs` is the standard deviation of a system from one run to another, as a share,
    for several runs.

    `latency_limit` is as on the command line, `"p99<20ms"`; `band` is a share, `added` how many
    times as much hardware the second system has, where no inventory shows it. Raises
    LeadlineError (`usage`, `run-not-found`, `no-load-curve`, `not-comparable`).
    """
    from leadline.analysis.scaling.study import parse_limit, require_answer, study

    _check_band(band)
    limit = parse_limit(latency_limit)
    archives = [_archive(run) for run in runs or ("@latest",)]
    unique = tuple({run.path: run for run in archives}.values())
    _check_between_runs(between_runs)
    found = study(
        unique,
        Judge(),
        limit=limit,
        by=by,
        added=added,
        band=band,
        between_runs=between_runs,
    )
    return OpenScaling(require_answer(found))


def layers(
    run: RunName = "@latest",
    *,
    target: str | None = None,
    workload: str | None = None,
    level: str | None = None,
) -> OpenLayers:
    """What each layer below the targets did, and what came between them; of all cells, or of those
    that are named. Raises LeadlineError (`usage`, `run-not-found`, `no-layers`)."""
    from leadline.analysis.layers.study import layer_study
    from leadline.audit.registry import audit

    archive = _archive(run)
    study = layer_study(archive, audit(archive), target=target, workload=workload, level=level)
    return OpenLayers(study)


def study_settings(run: RunName = "@latest", *, band: float = 0.05) -> OpenSettings:
    """What each value of each setting of a run changes against the present state, and what it
    costs; `band` is a share: what differs by less counts as the same. Raises LeadlineError
    (`usage`, `run-not-found`, `not-comparable` for a run without settings)."""
    from leadline.analysis.settings.study import study_settings

    _check_band(band)
    archive = _archive(run)
    return OpenSettings(study_settings(archive, *Judge()(archive), band=band))


def _archives(runs: RunNames) -> list[Run]:
    return [_archive(run) for run in ([runs] if isinstance(runs, _ONE_RUN) else runs)]


def _single(run: RunNames) -> RunName:
    if isinstance(run, _ONE_RUN):
        return run
    raise LeadlineError(
        errors.USAGE,
        "a list of runs is one system, and two systems are needed",
        hint='compare(["a-1", "a-2"], ["b-1", "b-2"])',
    )


def _archive(run: RunName) -> Run:
    return run.archive if isinstance(run, OpenRun) else open_run(run).archive


def _name(part: RunName, by: By) -> str:
    if isinstance(part, OpenRun):
        raise LeadlineError(
            errors.USAGE,
            f"by={by.value!r} takes names, and {part.id} is a run",
            hint=f'compare("A", "B", by={by.value!r}, run=run)',
        )
    return os.fspath(part)


def _by(text: str) -> By:
    from leadline.analysis.comparison import By

    return By(text) if text in list(By) else By.LABEL


def _check_band(band: float) -> None:
    if not 0 < band < 1:
        raise LeadlineError(
            errors.USAGE, f"a band of {band} is not between 0 and 1", hint="5 % is 0.05"
        )


def _check_between_runs(between_runs: float) -> None:
    if not 0 <= between_runs < 1:
        raise LeadlineError(
            errors.USAGE,
            f"a deviation between runs of {between_runs} is not between 0 and 1",
            hint="5 % is 0.05",
        )
