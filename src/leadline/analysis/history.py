"""The history of a system: a series per cell over many runs, and its changes.

Runs are the replicates. Cells belong to one series only if everything that makes them comparable is
equal: the cell's place and its fingerprint (docs/adr/0030-history.md).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import numpy as np

from leadline import errors
from leadline.analysis.comparison import Side
from leadline.analysis.explain.conditions import conditions, with_possible_effects
from leadline.analysis.history_rows import HistoryRow, HistoryRun
from leadline.analysis.verdicts import Verdict, interval_verdict
from leadline.archive.reader import Run
from leadline.archive.runs import BEFORE_NAME
from leadline.errors import LeadlineError
from leadline.inventory.diff import Difference
from leadline.metrics import MARGIN, Metric, Op
from leadline.stats.change_points import PERMUTATIONS, Change, find_changes
from leadline.stats.families import LEVEL, benjamini_hochberg, benjamini_hochberg_levels
from leadline.text import did_you_mean

# A clock may be so far ahead of the one that reads the archives.
_CLOCK_SKEW_S = 60.0
# A name that numbers its runs: `night-0042`. Longer numbers are dates and times.
_NUMBERED = re.compile(rf"(?:{BEFORE_NAME})?(.*?)(\d{{1,5}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The value of a series in one run."""

    run: HistoryRun
    value: float
    trials: int
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChange:
    """A step, or a `drift`, of a series: `ratio` = after / before with its `interval` at the level
    `confidence`. It happened after the run `after`, at the earliest in `since` and at the latest in
    `until`; the best estimate of a step is `begin` to `end`, two points in a row.

    `recovered`: a change for the worse that is gone. `differences` are
    those of the configurations of `after` and `until`; None: unknown.
    """

    drift: bool
    begin: Point
    end: Point
    after: Point
    since: Point
    until: Point
    ratio: float
    interval: tuple[float, float]
    confidence: float
    p: float
    p_adjusted: float
    verdict: Verdict
    recovered: bool
    differences: tuple[Difference, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one cell over runs, in the order of time. `unused` points have `codes`.
    `fitted` has the level at each point. `fingerprint` is a digest of the `settings`."""

    target: str
    workload: str
    level: str
    op: Op | None
    metric: Metric
    fingerprint: str
    settings: Mapping[str, str]
    points: tuple[Point, ...]
    unused: tuple[Point, ...]
    fitted: tuple[float, ...] = ()
    changes: tuple[SeriesChange, ...] = ()

    @property
    def place(self) -> tuple[str, str, str, Op | None, Metric]:
        return self.target, self.workload, self.level, self.op, self.metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Cells of one place with different fingerprints: the series before and after, and their
    settings with two values as (name, before, after)."""

    before: Series
    after: Series
    settings: tuple[tuple[str, str, str], ...]


class ClockProblem(StrEnum):
    """What contradicts the time of a run."""

    FUTURE = "in-the-future"
    OUT_OF_SEQUENCE = "before-its-predecessor"
    SET_BACK = "set-back-within-the-run"
    UNDATED = "time-of-import"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockNote:
    """`other` is the predecessor by the numbers in the names of both runs."""

    run: HistoryRun
    problem: ClockProblem
    other: HistoryRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """An archive that is not in the history, and the reason: a code and a fact."""

    path: Path
    code: str
    fact: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """`band` is the equivalence margin. Changes before `since_s` (None: all) do not count as
    regressions."""

    folders: tuple[Path, ...]
    runs: tuple[HistoryRun, ...]
    series: tuple[Series, ...]
    splits: tuple[Split, ...]
    clock: tuple[ClockNote, ...]
    unread: tuple[Unread, ...]
    band: float
    since_s: float | None = None

    def _open(self, verdict: Verdict) -> list[tuple[Series, SeriesChange]]:
        return [
            (series, change)
            for series in self.series
            for change in series.changes
            if change.verdict is verdict
            and not change.recovered
            and (self.since_s is None or change.until.run.at_s >= self.since_s)
        ]

    @property
    def regressions(self) -> list[tuple[Series, SeriesChange]]:
        """Changes for the worse that last."""
        return self._open(Verdict.WORSE)

    @property
    def undecided(self) -> list[tuple[Series, SeriesChange]]:
        """Changes for the worse whose interval crosses the equivalence margin."""
        return [
            (series, change)
            for series, change in self._open(Verdict.INCONCLUSIVE)
            if (change.ratio > 1) is series.metric.is_latency
        ]


# --- series --------------------------------------------------------------------------------------

_SELECTORS = ("target", "workload", "level", "op", "metric", "cluster")


def parse_selection(texts: Iterable[str]) -> tuple[Mapping[str, str], ...]:
    """Parse `target=rep3,workload=rand*` into patterns; several are alternatives.

    Raises LeadlineError (`usage`).
    """
    found = []
    for text in texts:
        pairs = [part.partition("=") for part in text.split(",")]
        for key, equals, pattern in pairs:
            if key.strip() not in _SELECTORS or not equals or not pattern.strip():
                raise LeadlineError(
                    errors.USAGE,
                    f"--select {text!r} is not written as KEY=PATTERN[,KEY=PATTERN...]",
                    context=[f"keys: {', '.join(_SELECTORS)}"],
                    hint=did_you_mean(key, _SELECTORS, "`--select target=rep3,workload=rand*`"),
                )
        found.append({key.strip(): pattern.strip() for key, _, pattern in pairs})
    return tuple(found)


def _is_selected(row: HistoryRow, selection: Sequence[Mapping[str, str]]) -> bool:
    if not selection:
        return True
    settings = json.loads(row.settings) if any("cluster" in one for one in selection) else {}
    values = {
        "target": row.target,
        "workload": row.workload,
        "level": row.level,
        "op": row.op,
        "metric": row.metric,
        "cluster": settings.get("cluster", ""),
    }
    return any(
        all(fnmatchcase(values[key], pattern) for key, pattern in one.items()) for one in selection
    )


def build_history(
    folders: Sequence[Path],
    runs: Sequence[HistoryRun],
    unread: Sequence[Unread],
    *,
    now_s: float,
    metrics: Sequence[Metric] = (),
    selection: Sequence[Mapping[str, str]] = (),
    band: float = MARGIN,
    since_s: float | None = None,
) -> History:
    """Build the series of all runs and find their changes.

    `metrics`: without any, the usual rate of each cell and its p99 latency. `now_s` is the current
    time in seconds since 1970. Raises LeadlineError (`usage`) if the selection has no cell.
    """
    ordered = sorted(runs, key=lambda run: (run.at_s, run.run, str(run.path)))
    series = _find_series(_series(ordered, metrics, selection), band)
    if runs and not series:
        known = dict.fromkeys(row.target for run in runs for row in run.rows)
        raise LeadlineError(
            errors.USAGE,
            "the selection has no cell with a figure",
            context=[f"targets: {', '.join(known) or 'none'}"],
            hint="`leadline history --format csv` lists every series",
        )
    return History(
        folders=tuple(folders),
        runs=tuple(ordered),
        series=tuple(series),
        splits=tuple(_splits(series)),
        clock=tuple(_clock_notes(ordered, now_s)),
        unread=tuple(unread),
        band=band,
        since_s=since_s,
    )


def _series(
    runs: Sequence[HistoryRun],
    metrics: Sequence[Metric],
    selection: Sequence[Mapping[str, str]],
) -> list[Series]:
    wanted = {metric.value for metric in metrics}
    points: dict[tuple[tuple[str, ...], str], list[Point]] = {}
    for run in runs:
        for row in run.rows:
            usual = row.rate or row.metric == Metric.LATENCY_P99
            if (row.metric in wanted if wanted else usual) and _is_selected(row, selection):
                point = Point(run=run, value=row.value, trials=row.trials, codes=row.codes)
                points.setdefault((row.place, row.settings), []).append(point)
    return [
        Series(
            target=target,
            workload=workload,
            level=level,
            op=Op(op) if op else None,
            metric=Metric(metric),
            fingerprint=hashlib.sha256(settings.encode()).hexdigest()[:12],
            settings=json.loads(settings),
            points=tuple(point for point in found if not point.codes),
            unused=tuple(point for point in found if point.codes),
        )
        for ((target, workload, level, op, metric), settings), found in sorted(points.items())
    ]


def _splits(series: Sequence[Series]) -> Iterable[Split]:
    """Yield the series of one place, each with its predecessor in time."""
    by_place: dict[tuple[object, ...], list[Series]] = {}
    for one in series:
        by_place.setdefault(one.place, []).append(one)
    for found in by_place.values():
        found.sort(key=lambda one: min(point.run.at_s for point in (*one.points, *one.unused)))
        for before, after in pairwise(found):
            names = sorted({*before.settings, *after.settings})
            yield Split(
                before=before,
                after=after,
                settings=tuple(
                    (name, before.settings.get(name, ""), after.settings.get(name, ""))
                    for name in names
                    if before.settings.get(name) != after.settings.get(name)
                ),
            )


def _clock_notes(runs: Sequence[HistoryRun], now_s: float) -> Iterable[ClockNote]:
    numbered: dict[str, list[tuple[int, HistoryRun]]] = {}
    for run in runs:
        if not run.dated:
            yield ClockNote(run=run, problem=ClockProblem.UNDATED)
        if run.at_s > now_s + _CLOCK_SKEW_S:
            yield ClockNote(run=run, problem=ClockProblem.FUTURE)
        if run.clock_back:
            yield ClockNote(run=run, problem=ClockProblem.SET_BACK)
        found = _NUMBERED.fullmatch(run.run)
        if found and not found[1][-1:].isdigit() and run.dated:
            numbered.setdefault(found[1], []).append((int(found[2]), run))
    for group in numbered.values():
        group.sort(key=lambda item: item[0])
        for (number, run), (next_number, successor) in pairwise(group):
            if next_number > number and successor.at_s < run.at_s:
                yield ClockNote(run=successor, problem=ClockProblem.OUT_OF_SEQUENCE, other=run)


# --- changes -------------------------------------------------------------------------------------


def _find_series(series: Sequence[Series], band: float) -> list[Series]:
    """Find the changes of each series, tested together over all series (Benjamini-Hochberg)."""
    logs = [np.log(np.array([point.value for point in one.points])) for one in series]
    # The least p value must be able to pass the adjustment.
    permutations = max(PERMUTATIONS, math.ceil(len(series) / LEVEL))
    found = [find_changes(values, permutations) if len(values) else None for values in logs]
    while True:
        flat = [
            p
            for one in found
            for p in ([change.p for change in one.changes] if one and one.changes else [1.0])
        ]
        adjusted = benjamini_hochberg(flat)
        rejected = [p for p, q in zip(flat, adjusted, strict=True) if q <= LEVEL]
        level = max(rejected, default=0.0)
        beyond = [
            at
            for at, one in enumerate(found)
            if one and any(change.p > level for change in one.changes)
        ]
        if not beyond:
            break
        for at in beyond:
            found[at] = find_changes(logs[at], permutations, level)
    confidence = benjamini_hochberg_levels(adjusted)[0] if adjusted else 1 - LEVEL
    adjusted_p = dict(zip(flat, adjusted, strict=True))
    known: dict[tuple[Path, Path, str], tuple[Difference, ...] | None] = {}
    return [
        one
        if changes is None
        else replace(
            one,
            fitted=tuple(math.exp(value) for value in changes.fitted),
            changes=tuple(
                _change(one, change, changes.fitted, confidence, adjusted_p[change.p], band, known)
                for change in changes.changes
            ),
        )
        for one, changes in zip(series, found, strict=True)
    ]


def _change(
    series: Series,
    change: Change,
    fitted: Sequence[float],
    confidence: float,
    p_adjusted: float,
    band: float,
    known: dict[tuple[Path, Path, str], tuple[Difference, ...] | None],
) -> SeriesChange:
    interval = change.estimate.interval(confidence)
    margin = 1 - band, 1 + band
    after = series.points[change.begin if change.is_drift else change.earliest - 1]
    until = series.points[change.latest]
    key = (after.run.path, until.run.path, series.target)
    if key not in known:
        known[key] = _differences(*key)
    verdict = interval_verdict(interval, margin, series.metric)
    return SeriesChange(
        drift=change.is_drift,
        begin=series.points[change.begin],
        end=series.points[change.end],
        after=after,
        since=series.points[change.earliest],
        until=until,
        ratio=change.estimate.ratio,
        interval=interval,
        confidence=confidence,
        p=change.p,
        p_adjusted=p_adjusted,
        verdict=verdict,
        recovered=_is_recovered(series.metric, change, fitted, margin),
        differences=known[key],
    )


def _is_recovered(
    metric: Metric, change: Change, fitted: Sequence[float], margin: tuple[float, float]
) -> bool:
    """Whether a change for the worse is gone: the last level is not worse than the one before it by
    more than the margin, or after a change within the margin by half of it."""
    if (change.estimate.value > 0) is not metric.is_latency:
        return False
    left = fitted[-1] - fitted[change.begin]
    ratios = math.exp(left), change.estimate.ratio
    lasts, beyond = (
        interval_verdict((one, one), margin, metric) is Verdict.WORSE for one in ratios
    )
    return not lasts and (beyond or abs(left) < abs(change.estimate.value) / 2)


def _differences(before: Path, after: Path, subject: str) -> tuple[Difference, ...] | None:
    """Return the configuration differences of two runs that concern a target, those with a possible
    effect first; None without inventories of both."""
    sides = []
    try:
        for path in (before, after):
            run = Run(path)
            names = {one.subject or one.name: one.name for one in run.plan.targets}
            targets = {subject: names[subject]}
            sides.append(Side(name=run.id, run=run, targets=targets, figures=(), findings=()))
        found = conditions(sides[0], sides[1], [subject], ())
    except (LeadlineError, OSError, KeyError):
        return None  # an archive that vanished is named by the next indexing
    if not found.differences and not found.identical:
        return None
    known = map(with_possible_effects, found.differences)
    return tuple(sorted(known, key=lambda difference: not difference.explains))
