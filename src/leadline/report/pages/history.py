"""A history as a document: changes, configuration differences, series, archives left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from leadline.analysis.history import (
    ClockNote,
    ClockProblem,
    History,
    Series,
    SeriesChange,
)
from leadline.analysis.verdicts import Verdict
from leadline.report.cells import (
    absent,
    count,
    number_column,
    quantity,
    records_table,
    section,
    table,
)
from leadline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Section,
)
from leadline.report.pages.history_charts import (
    cell_name,
    charts_sections,
    date_text,
    metric_name,
    series_name,
    sparkline,
    time_text,
)
from leadline.report.words import (
    band_text,
    change_text,
    interval_text,
    level_text,
    listed,
    p_text,
    short,
    shortened,
    value_with_unit,
)
from leadline.stats.change_points import SHORTEST, SHORTEST_DRIFT, SIGNIFICANT
from leadline.text import count_text

# Changes that the summary names, and differences of each.
_MOST_NAMED = 3
_LONGEST_SETTING = 40
_ORDER = (Verdict.WORSE, Verdict.INCONCLUSIVE, Verdict.BETTER, Verdict.SAME)


def history_document(history: History) -> Document:
    """Build the answer of `leadline history`."""
    found = _ordered(history)
    dates = [run.at_s for run in history.runs]
    sections = [
        *_changes(history, found),
        *_configuration(found),
        _series(history),
        *charts_sections(history),
        *_left_out(history),
        _method(history),
    ]
    return Document(
        title=f"History of {count_text(len(history.runs), 'run')}",
        subtitle=f"{date_text(dates[0])} to {date_text(dates[-1])} · "
        f"{count_text(len(history.series), 'series', 'series')} · equivalence margin "
        f"{band_text(history.band)}",
        summary=tuple(history_summary(history)),
        sections=tuple(sections),
    )


def change_line(series: Series, change: SeriesChange) -> str:
    """Return a change in a line: cell, size, interval, runs and what changed with it."""
    size = f"{change_text(change.ratio)} ({interval_text(change.interval)})"
    if change.drift:
        begin, end = change.since.run, change.until.run
        runs = f"{short(begin.run)} to {short(end.run)}"
        dates = f"{date_text(begin.at_s)} to {date_text(end.at_s)}"
        return f"{series_name(series)}: drift of {size} from {runs}, {dates}{_changed(change)}"
    return f"{series_name(series)}: {size} since {_runs(change)}, {_date(change)}{_changed(change)}"


def _changed(change: SeriesChange) -> str:
    """Name the configuration differences of a change as a clause, the most important first."""
    texts = [
        f"{one.path} {shortened(one.baseline, _LONGEST_SETTING)} -> "
        f"{shortened(one.candidate, _LONGEST_SETTING)}"
        for one in change.differences or ()
    ]
    return f"; changed: {listed(texts, limit=_MOST_NAMED)}" if texts else ""


def _runs(change: SeriesChange) -> str:
    """Name the runs in which the change may be."""
    names = dict.fromkeys(short(point.run.run) for point in (change.since, change.until))
    return " to ".join(names)


def _date(change: SeriesChange) -> str:
    """Return the date of a step, or of the begin of a drift."""
    return date_text((change.since if change.drift else change.end).run.at_s)


def _ordered(history: History) -> list[tuple[Series, SeriesChange]]:
    """Return all changes: lasting regressions first, then by verdict, the latest first."""
    found = [(one, change) for one in history.series for change in one.changes]
    return sorted(
        found,
        key=lambda pair: (
            pair[1].recovered,
            _ORDER.index(pair[1].verdict),
            -pair[1].until.run.at_s,
        ),
    )


def history_summary(history: History) -> Iterator[str]:
    """Yield the result in short, the headline first."""
    found = _ordered(history)
    lasting = history.regressions
    total = count_text(len(history.series), "series", "series")
    if lasting:
        cells = len({id(series) for series, _ in lasting})
        yield f"{count_text(len(lasting), 'lasting regression')} in {cells:,} of {total}."
        lasting = sorted(lasting, key=lambda pair: -abs(math.log(pair[1].ratio)))
        for series, change in lasting[:_MOST_NAMED]:
            yield f"{change_line(series, change)}."
    elif found:
        yield f"No lasting regression in {total}."
    else:
        yield f"No change in {total}."
    better = sum(change.verdict is Verdict.BETTER for _, change in found)
    recovered = sum(change.recovered for _, change in found)
    undecided = len(history.undecided)
    parts = [
        f"{count_text(number, noun)}"
        for number, noun in (
            (better, "improvement"),
            (recovered, "recovered regression"),
            (undecided, "inconclusive change"),
        )
        if number
    ]
    if parts:
        yield f"Further changes: {listed(parts)}."
    if history.unread:
        yield f"{count_text(len(history.unread), 'archive')} left out."
    problems = [note for note in history.clock if note.problem is not ClockProblem.UNDATED]
    if problems:
        runs = count_text(len(problems), "run")
        yield f"The clock contradicts itself in {runs}; runs are in the order of their times."


# --- sections ------------------------------------------------------------------------------------


def _changes(history: History, found: Sequence[tuple[Series, SeriesChange]]) -> Iterator[Section]:
    if not found:
        return
    made = records_table(
        "changes-table",
        found,
        ("cell", lambda pair: cell_name(pair[0])),
        ("metric", lambda pair: metric_name(pair[0])),
        ("date", lambda pair: Cell(text=_date(pair[1]), sort=pair[1].end.run.at_s)),
        (number_column("change"), lambda pair: quantity(change_text(pair[1].ratio), pair[1].ratio)),
        (number_column("interval", rank=1), lambda pair: _interval(pair[1])),
        ("verdict", lambda pair: _verdict(pair[1])),
        (Column(title="run", rank=1), lambda pair: _runs(pair[1])),
        caption="Size with its interval; a drift with the date of its begin",
        filterable=True,
    )
    counts = Counter(_verdict(change) for _, change in found)
    result = listed(f"{number:,} {text}" for text, number in counts.items())
    yield section("Changes", "changes", made, result=result)


def _verdict(change: SeriesChange) -> str:
    word = "recovered" if change.recovered else change.verdict.value
    return f"{word} (drift)" if change.drift else word


def _interval(change: SeriesChange) -> Cell:
    low, high = change.interval
    note = f"{level_text(change.confidence)} interval, p {p_text(change.p_adjusted)}"
    return quantity(interval_text(change.interval), high - low, note)


def _configuration(found: Sequence[tuple[Series, SeriesChange]]) -> Iterator[Section]:
    """Yield what changed in the configuration between the runs of each change."""
    if not found:
        return
    rows: dict[tuple[str, str, str, str, str], list[str]] = {}
    unknown: list[str] = []
    same: list[str] = []
    for series, change in found:
        runs = f"{short(change.after.run.run)} to {short(change.until.run.run)}"
        if change.differences is None:
            unknown.append(runs)
        elif not change.differences:
            same.append(runs)
        for one in change.differences or ():
            effects = "; ".join(dict.fromkeys(effect.mechanism for effect in one.explains))
            key = (runs, one.path, one.baseline, one.candidate, effects)
            rows.setdefault(key, []).append(series_name(series))
    blocks: list[Block | str] = []
    if rows:
        blocks.append(
            records_table(
                "configuration-table",
                rows.items(),
                ("runs", lambda item: item[0][0]),
                ("setting", lambda item: item[0][1]),
                ("before", lambda item: item[0][2]),
                ("after", lambda item: item[0][3]),
                ("may explain", lambda item: item[0][4]),
                ("cells", lambda item: listed(item[1], limit=2)),
                filterable=True,
            )
        )
    for texts, sentence in (
        (same, "No configuration difference between these runs"),
        (unknown, "No inventory of both runs"),
    ):
        if texts:
            blocks.append(f"{sentence}: {listed(dict.fromkeys(texts))}.")
    pairs = {key[0] for key in rows}
    result = (
        f"{count_text(len(rows), 'difference')} between {count_text(len(pairs), 'pair')} of runs"
    )
    yield section(
        "What changed", "configuration", *blocks, result=result if rows else "no difference known"
    )


def _series(history: History) -> Section:
    made = records_table(
        "series-table",
        history.series,
        ("cell", cell_name),
        ("metric", metric_name),
        (number_column("runs", rank=2), lambda one: count(len(one.points))),
        (number_column("values"), lambda one: _values(one, history.band)),
        (number_column("first", rank=1), lambda one: _level(one, 0)),
        (number_column("last"), lambda one: _level(one, -1)),
        (number_column("changes"), lambda one: count(len(one.changes))),
        (number_column("not used"), lambda one: count(len(one.unused)))
        if any(one.unused for one in history.series)
        else None,
        ("fingerprint", lambda one: one.fingerprint) if history.splits else None,
        caption="First and last level; values in the order of time",
        filterable=True,
    )
    changed = sum(bool(one.changes) for one in history.series)
    result = f"{changed:,} of {len(history.series):,} with changes"
    return section("Series", "series", made, result=result)


def _level(series: Series, at: int) -> Cell:
    if not series.fitted:
        return absent("every value is refused by the audit")
    value = series.fitted[at]
    return quantity(value_with_unit(series.metric, value), value)


def _values(series: Series, band: float) -> Cell:
    if not series.points:
        return absent("every value is refused by the audit")
    values = [point.value for point in series.points]
    low, high = (value_with_unit(series.metric, end) for end in (min(values), max(values)))
    change = series.fitted[-1] / series.fitted[0]
    return quantity(sparkline(series, band), change, f"{low} to {high}")


def _left_out(history: History) -> Iterator[Section]:
    if history.splits:
        rows = [
            (
                series_name(split.after),
                date_text((split.after.points or split.after.unused)[0].run.at_s),
                name,
                before,
                after,
            )
            for split in history.splits
            for name, before, after in split.settings
        ]
        made = table("splits-table", ("cell", "from", "setting", "before", "after"), rows)
        text = "Cells whose settings differ are separate series; they are not compared."
        result = count_text(len(history.splits), "cell")
        yield section("Different fingerprints", "splits", text, made, result=result)
    if history.clock:
        clock = records_table(
            "clock-table",
            history.clock,
            ("run", lambda note: note.run.run),
            ("time", lambda note: Cell(text=time_text(note.run.at_s), sort=note.run.at_s)),
            ("problem", _clock_text),
        )
        text = "Runs are in the order of these times."
        result = count_text(len(history.clock), "run")
        yield section("Times", "clock", text, clock, result=result)
    if history.unread:
        unread = records_table(
            "unread-table",
            history.unread,
            ("archive", lambda one: str(one.path)),
            ("code", lambda one: one.code),
            ("reason", lambda one: one.fact),
        )
        result = count_text(len(history.unread), "archive")
        yield section("Archives left out", "unread", unread, result=result)


def _clock_text(note: ClockNote) -> str:
    other = note.other.run if note.other else ""
    return {
        ClockProblem.FUTURE: "in the future",
        ClockProblem.OUT_OF_SEQUENCE: f"before its predecessor {other}: the clock went back",
        ClockProblem.SET_BACK: "the clock went back during the run",
        ClockProblem.UNDATED: "time of the import; the results carry none (import --date)",
    }[note.problem]


def _method(history: History) -> Section:
    values = "geometric mean of the trials of each run; values with an error finding are not used"
    steps = (
        f"optimal partitioning of log values, levels of at least {SHORTEST} runs; each boundary "
        f"tested by permutation of runs, p <= {SIGNIFICANT:g}"
    )
    drifts = f"a ramp over {SHORTEST_DRIFT} or more runs, where it fits as well as steps"
    rows = [
        ("values", values),
        ("steps", steps),
        ("drifts", drifts),
        ("all series", "Benjamini-Hochberg: at most 5 % of the changes are false on average"),
        ("interval", "Student's t over runs"),
        ("verdict", f"worse or better: the interval is outside {band_text(history.band)}"),
        ("folders", ", ".join(map(str, history.folders))),
    ]
    return section("Method", "methods", table("method", ("", ""), rows), folded=True)
