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
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from leadline import errors
from leadline.archive.reader import Run
from leadline.archive.runs import find_run, runs_folder
from leadline.errors import LeadlineError

if TYPE_CHECKING:
    import pyarrow

    from leadline.analysis.comparison import By
    from leadline.archive.verify import Verification
    from leadline.findings import Finding
    from leadline.notebook_answers import OpenComparison, OpenRanking
    from leadline.notebook_layers import OpenLayers
    from leadline.notebook_scaling import OpenScaling


class OpenRun:
    """An archive for notebooks; `archive` is the underlying reader."""

    def __init__(self, archive: Run) -> None:
        self.archive = archive

    @property
    def id(self) -> str:
        return self.archive.id

    def measurements(self) -> pyarrow.Table:
        """The measurements table: one row per trial x operation x metric.

        Columns trial, target, workload, level, block, op, metric, value (base units, null where
        not measured), unit, and on the row `latency_mean` the histogram as two lists,
        histogram_ns and histogram_counts.
        """
        import pyarrow as pa

        schema = pa.schema(
            [
                ("trial", pa.string()),
                ("target", pa.string()),
                ("workload", pa.string()),
                ("level", pa.string()),
                ("block", pa.int64()),
                ("op", pa.string()),
                ("metric", pa.string()),
                ("value", pa.float64()),
                ("unit", pa.string()),
                ("histogram_ns", pa.list_(pa.int64())),
                ("histogram_counts", pa.list_(pa.int64())),
            ]
        )
        rows = [
            {
                "trial": row.trial,
                "target": row.target,
                "workload": row.workload,
                "level": row.level,
                "block": row.block,
                "op": row.op.value,
                "metric": row.metric.value,
                "value": row.value,
                "unit": row.metric.unit,
                "histogram_ns": row.histogram.values_ns.tolist() if row.histogram else None,
                "histogram_counts": row.histogram.counts.tolist() if row.histogram else None,
            }
            for row in self.archive.measurements()
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    def audit(self) -> tuple[Finding, ...]:
        """Every finding, the gravest first."""
        from leadline.audit.registry import audit

        return audit(self.archive)

    def verify(self) -> Verification:
        """Checksums and derived numbers, recomputed from raw."""
        from leadline.archive.verify import verify

        return verify(self.archive)


RunName = OpenRun | str | os.PathLike[str]


def open_run(path: str | os.PathLike[str]) -> OpenRun:
    """A run by path, id, unique prefix, @latest or @previous.

    Raises LeadlineError(`run-not-found`).
    """
    return OpenRun(find_run(os.fspath(path), runs_folder(None)))


def compare(
    baseline: RunName,
    candidate: RunName | None = None,
    *,
    by: str = "run",
    run: RunName = "@latest",
    band: float = 0.05,
    metrics: Iterable[str] = (),
) -> OpenComparison:
    """Two runs; or with `by` "cluster", "target" or "label" two of them within `run`, by name; or
    one run with two clusters, the first of which is the baseline; or with a label's key as `by` its
    two values, in one run or in one run each.

    `band` is a share: what differs by less counts as the same. `metrics` are words of the command
    line (`iops`, `p99`), none for all. Raises LeadlineError(`usage`, `run-not-found`).
    """
    from leadline.analysis.comparing import compare as compared
    from leadline.analysis.comparison import By
    from leadline.analysis.selectors import parse_metric
    from leadline.analysis.sides import by_label, places, two_runs, within_run
    from leadline.judging import Judge
    from leadline.metrics import Metric
    from leadline.notebook_answers import OpenComparison

    _check_band(band)
    wanted = tuple(dict.fromkeys(map(parse_metric, metrics))) or tuple(Metric)
    kind, judge = _by(by), Judge()
    if kind is By.LABEL and by != By.LABEL:
        first = _archive(baseline)
        sides = by_label(first, first if candidate is None else _archive(candidate), by, judge)
    elif candidate is None:
        alone = _archive(baseline)
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
        sides = two_runs(_archive(baseline), _archive(candidate), judge)
    else:
        ours, theirs = _name(baseline, kind), _name(candidate, kind)
        sides = within_run(_archive(run), kind, ours, theirs, judge)
    return OpenComparison(compared(*sides, by=kind, band=band, metrics=wanted))


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
    from leadline.judging import Judge, ranked
    from leadline.notebook_answers import OpenRanking

    _check_band(band)
    wanted = (objectives,) if isinstance(objectives, str) else tuple(objectives)
    if wanted and use is not None:
        raise LeadlineError(
            errors.USAGE,
            "objectives and use are two answers to one question",
            hint="give one of them",
        )
    found = ranked(_archive(run), Judge(), wanted, use, baseline=baseline, band=band)
    return OpenRanking(found)


def scale(
    *runs: RunName,
    latency_limit: str | None = None,
    by: str | None = None,
    added: float | None = None,
    band: float = 0.05,
) -> OpenScaling:
    """Load curves of a run (the latest, where none is given); several runs are systems of different
    size, each beside the first, as are the clusters of one run, or its targets by the label `by`.

    `latency_limit` is as on the command line, `"p99<20ms"`; `band` is a share, `added` how many
    times as much hardware the second system has, where no inventory tells. Raises
    LeadlineError (`usage`, `run-not-found`, `no-load-curve`, `not-comparable`).
    """
    from leadline.analysis.scaling.asked import limit_named, scaled
    from leadline.judging import Judge
    from leadline.notebook_scaling import OpenScaling

    _check_band(band)
    limit = limit_named(latency_limit)
    archives = [_archive(run) for run in runs or ("@latest",)]
    unique = tuple({run.path: run for run in archives}.values())
    return OpenScaling(scaled(unique, Judge(), limit=limit, by=by, added=added, band=band))


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
    from leadline.notebook_layers import OpenLayers

    archive = _archive(run)
    study = layer_study(archive, audit(archive), target=target, workload=workload, level=level)
    return OpenLayers(study)


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
