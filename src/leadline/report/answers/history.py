"""The JSON answer of `leadline history`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from leadline.analysis.history import History, Point, Series, SeriesChange
from leadline.report.answers.base import CellOutput, Output
from leadline.report.render.history_exports import time_text


class HistoryRunOutput(Output):
    """A run: `time` is when it began, that of the import if not `dated`."""

    run: str
    path: str
    time: str
    dated: bool


class HistoryPointOutput(Output):
    """The geometric mean of the trials of a run, in base units. `level` is the fitted level; null
    where the value is not used, for the reasons in `codes`."""

    run: str
    time: str
    value: float
    level: float | None
    trials: int
    codes: list[str]


class HistoryDifferenceOutput(Output):
    """A configuration difference; `explains` are its possible effects."""

    path: str
    baseline: str
    candidate: str
    explains: list[str]


class HistoryChangeOutput(Output):
    """A `step` or a `drift`. `ratio` = after / before with its `interval` at `confidence`. It
    happened after the run `after`, at the earliest in `since` and at the latest in `until`; the
    best estimate is `run`, the last run of a drift. `differences` is null where an inventory is
    missing; `recovered`: the last level is no longer worse than before the change."""

    kind: str
    time: str
    run: str
    after: str
    since: str
    until: str
    ratio: float
    interval: tuple[float, float]
    confidence: float
    p: float
    p_adjusted: float
    verdict: str
    recovered: bool
    regression: bool
    differences: list[HistoryDifferenceOutput] | None


class HistorySeriesOutput(CellOutput):
    """One metric of one cell over runs. `settings` are what all its runs have in common, and
    `fingerprint` is their digest."""

    op: str | None
    metric: str
    unit: str
    fingerprint: str
    settings: dict[str, str]
    points: list[HistoryPointOutput]
    changes: list[HistoryChangeOutput]


class HistorySplitOutput(CellOutput):
    """Cells of one place that are separate series: `settings` have the values of both."""

    op: str | None
    metric: str
    before: str
    after: str
    settings: dict[str, tuple[str, str]]


class HistoryClockOutput(Output):
    """A contradiction to the time of a run: `in-the-future`, `before-its-predecessor` (`other`),
    `set-back-within-the-run` or `time-of-import`."""

    run: str
    time: str
    problem: str
    other: str | None


class HistoryUnreadOutput(Output):
    """An archive that is not in the history."""

    path: str
    code: str
    fact: str


class HistoryAskedOutput(Output):
    """What a page was asked for, by which it is made again: options as they were given, `since_s`
    in seconds since 1970."""

    folders: list[str]
    selection: list[str]
    metrics: list[str]
    since_s: float | None


class HistoryOutput(Output):
    """`runs` are in the order of time. `regressions` counts changes for the worse that last,
    `undecided` those whose interval crosses the equivalence margin."""

    schema_: Literal["leadline/history/1"] = Field(default="leadline/history/1", alias="schema")
    headline: str
    band: float
    regressions: int
    undecided: int
    runs: list[HistoryRunOutput]
    series: list[HistorySeriesOutput]
    splits: list[HistorySplitOutput]
    clock: list[HistoryClockOutput]
    unread: list[HistoryUnreadOutput]
    asked: HistoryAskedOutput | None = Field(default=None, exclude_if=lambda given: given is None)


def history_output(
    history: History, headline: str, asked: HistoryAskedOutput | None = None
) -> HistoryOutput:
    """Build the answer; that of a page has what was `asked`."""
    regressions = {id(change) for _, change in history.regressions}
    return HistoryOutput(
        asked=asked,
        headline=headline,
        band=history.band,
        regressions=len(regressions),
        undecided=len(history.undecided),
        runs=[
            HistoryRunOutput(
                run=run.run, path=str(run.path), time=time_text(run.at_s), dated=run.dated
            )
            for run in history.runs
        ],
        series=[_series(one, regressions) for one in history.series],
        splits=[
            HistorySplitOutput.from_records(
                split.after,
                before=split.before.fingerprint,
                after=split.after.fingerprint,
                settings={name: (before, after) for name, before, after in split.settings},
            )
            for split in history.splits
        ],
        clock=[
            HistoryClockOutput(
                run=note.run.run,
                time=time_text(note.run.at_s),
                problem=note.problem.value,
                other=note.other.run if note.other else None,
            )
            for note in history.clock
        ],
        unread=[
            HistoryUnreadOutput(path=str(one.path), code=one.code, fact=one.fact)
            for one in history.unread
        ],
    )


def _series(series: Series, regressions: set[int]) -> HistorySeriesOutput:
    levels: list[float | None] = [*series.fitted, *(None for _ in series.unused)]
    points = [
        _point(point, level)
        for point, level in zip((*series.points, *series.unused), levels, strict=True)
    ]
    return HistorySeriesOutput.from_records(
        series,
        unit=series.metric.unit,
        points=points,
        changes=[_change(change, id(change) in regressions) for change in series.changes],
    )


def _point(point: Point, level: float | None) -> HistoryPointOutput:
    return HistoryPointOutput.from_records(
        point,
        run=point.run.run,
        time=time_text(point.run.at_s),
        level=level,
        codes=list(point.codes),
    )


def _change(change: SeriesChange, regression: bool) -> HistoryChangeOutput:
    return HistoryChangeOutput.from_records(
        change,
        kind="drift" if change.drift else "step",
        time=time_text(change.end.run.at_s),
        run=change.end.run.run,
        after=change.after.run.run,
        since=change.since.run.run,
        until=change.until.run.run,
        verdict=change.verdict.value,
        regression=regression,
        differences=None
        if change.differences is None
        else [
            HistoryDifferenceOutput.from_records(
                one,
                explains=list(dict.fromkeys(effect.mechanism for effect in one.explains)),
            )
            for one in change.differences
        ],
    )
