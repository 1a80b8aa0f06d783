"""A history as a document: changes, configuration differences, series, archives left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from leadline.analysis.history import (
    ClockNote,
    ClockProblem,
    History,
    Series,
    SeriesChange,
)
from leadline.analysis.verdicts import Verdict
from leadline.metrics import Metric
from leadline.report.cells import (
    absent,
    count,
    number_column,
    quantity,
    records_table,
    section,
    table,
)
from leadline.report.curves import RATE_UNITS, PageBudget
from leadline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Line,
    LineChart,
    Look,
    Rule,
    Scale,
    Section,
    Stroke,
    Table,
)
from leadline.report.words import (
    band_text,
    change_text,
    interval_text,
    level_text,
    listed,
    p_text,
    place,
    short,
    title,
    value_text,
    value_with_unit,
)
from leadline.stats.change_points import SHORTEST, SHORTEST_DRIFT, SIGNIFICANT
from leadline.text import count_text

_BARS = "▁▂▃▄▅▆▇█"
_SPARKS = 24
_DAY_S = 86400.0
_MOST_TICKS = 5
# Changes that the summary names.
_MOST_NAMED = 3
_ORDER = (Verdict.WORSE, Verdict.INCONCLUSIVE, Verdict.BETTER, Verdict.SAME)


def history_document(history: History) -> Document:
    """Build the answer of `leadline history`."""
    found = _ordered(history)
    dates = [run.at_s for run in history.runs]
    sections = [
        *_changes(history, found),
        *_configuration(found),
        _series(history),
        *_charts(history),
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


def date_text(at_s: float) -> str:
    """Format a time as a date in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"


def series_name(series: Series) -> str:
    """Name a series in a sentence: its cell and metric."""
    return f"{_cell_name(series)} {title(series.metric)}"


def _cell_name(series: Series) -> str:
    op = series.op.value if series.op else ""
    return place(short(series.target), short(series.workload), series.level, op)


def _metric_name(series: Series) -> str:
    return title(series.metric).removesuffix(" latency")


def change_line(series: Series, change: SeriesChange) -> str:
    """Return a change in a line: cell, size, interval and runs."""
    kind = "drift of " if change.drift else ""
    return (
        f"{series_name(series)}: {kind}{change_text(change.ratio)} "
        f"({interval_text(change.interval)}) {'in' if change.drift else 'since'} "
        f"{_runs(change)}, {_date(change)}"
    )


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
        count = count_text(len(problems), "run")
        yield f"The clock contradicts itself in {count}; runs are in the order of their times."


# --- sections ------------------------------------------------------------------------------------


def _changes(history: History, found: Sequence[tuple[Series, SeriesChange]]) -> Iterator[Section]:
    if not found:
        return
    made = records_table(
        "changes-table",
        found,
        ("cell", lambda pair: _cell_name(pair[0])),
        ("metric", lambda pair: _metric_name(pair[0])),
        ("date", lambda pair: Cell(text=_date(pair[1]), sort=pair[1].end.run.at_s)),
        (number_column("change"), lambda pair: quantity(change_text(pair[1].ratio), pair[1].ratio)),
        (number_column("interval", rank=1), lambda pair: _interval(pair[1])),
        ("verdict", lambda pair: _verdict(pair[1])),
        (Column(title="run", rank=1), lambda pair: _runs(pair[1])),
        (number_column("p", rank=2), lambda pair: quantity(p_text(pair[1].p_adjusted), pair[1].p)),
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
    note = f"{level_text(change.confidence)} interval"
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
        ("cell", _cell_name),
        ("metric", _metric_name),
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


def sparkline(series: Series, band: float) -> str:
    """Draw the values as bars, at most 24, on a log scale that spans at least the equivalence
    margin up and down."""
    if not series.points:
        return ""
    logs = np.log([point.value for point in series.points])
    parts = [float(part.mean()) for part in np.array_split(logs, min(len(logs), _SPARKS))]
    middle = (max(parts) + min(parts)) / 2
    half = max((max(parts) - min(parts)) / 2, math.log1p(band))
    top = len(_BARS) - 1
    return "".join(_BARS[round((part - middle + half) / (2 * half) * top)] for part in parts)


def _charts(history: History) -> Iterator[Section]:
    """Yield a chart of each series, those with changes first, as many as a page takes."""
    budget = PageBudget()
    drawn = [
        _chart(one, number)
        for number, one in enumerate(sorted(history.series, key=lambda one: not one.changes))
        if len(one.points) > 1 and budget.allows("series", 2 * len(one.points))
    ]
    if drawn:
        changed = sum(bool(one.changes) for one in history.series if len(one.points) > 1)
        head, rest = drawn[:changed], drawn[changed:]
        if head:
            yield Section(heading="Series with changes", id="charts", blocks=tuple(head))
        if rest:
            yield Section(
                heading="Series without a change",
                id="charts-unchanged",
                blocks=tuple(rest),
                folded=True,
                result=budget.omission,
            )


def _chart(series: Series, number: int) -> LineChart:
    days = [point.run.at_s / _DAY_S for point in series.points]
    values = [point.value for point in series.points]
    rules = [
        Rule(
            value=(change.begin.run.at_s + change.end.run.at_s) / 2 / _DAY_S,
            label=("drift " if change.drift else "") + change_text(change.ratio),
            upright=True,
        )
        for change in series.changes
    ]
    texts = tuple(
        f"{short(point.run.run)}, {date_text(point.run.at_s)}: "
        f"{value_with_unit(series.metric, point.value)}"
        for point in series.points
    )
    return LineChart(
        id=f"history-{number + 1}",
        title=series_name(series),
        series=("run", "level"),
        x=_date_scale(days),
        y=_value_scale(series.metric, values),
        lines=(
            Line(
                label="run",
                series=0,
                points=tuple(zip(days, values, strict=True)),
                texts=texts,
            ),
            Line(label="level", series=1, points=tuple(zip(days, series.fitted, strict=True))),
        ),
        looks=(Look(hue=0, stroke=Stroke.DOTS), Look(hue=1, stroke=Stroke.THIN)),
        rules=tuple(rules),
    )


def _date_scale(days: Sequence[float]) -> Scale:
    low, high = days[0], days[-1]
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    step = max(1, math.ceil((high - low) / _MOST_TICKS))
    ticks = [float(day) for day in range(math.ceil(low), math.floor(high) + 1, step)] or [low]
    room = (high - low) * 0.02
    return Scale(
        title="date (UTC)",
        log=False,
        low=low - room,
        high=high + room,
        ticks=tuple((day, date_text(day * _DAY_S)) for day in ticks),
    )


def _value_scale(metric: Metric, values: Sequence[float]) -> Scale:
    """Build an axis around the values, without zero: changes of a few per cent must be visible."""
    low, high = min(values), max(values)
    room = max((high - low) * 0.1, high * 0.02)
    low, high = max(low - room, 0.0), high + room
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    ticks = [step * number for number in range(first, math.floor(high / step) + 1)]
    unit = RATE_UNITS.get(metric, title(metric))
    return Scale(
        title=unit,
        log=False,
        low=low,
        high=high,
        ticks=tuple((tick, value_text(metric, tick)) for tick in ticks),
    )


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
            ("time", lambda note: Cell(text=_time(note.run.at_s), sort=note.run.at_s)),
            ("problem", _clock_text),
        )
        text = "Runs are in the order of these times."
        result = count_text(len(history.clock), "run")
        yield section("Times", "clock", text, clock, result=result)
    if history.unread:
        yield section(
            "Archives left out",
            "unread",
            _unread_table(history),
            result=count_text(len(history.unread), "archive"),
        )


def _unread_table(history: History) -> Table:
    return records_table(
        "unread-table",
        history.unread,
        ("archive", lambda one: str(one.path)),
        ("code", lambda one: one.code),
        ("reason", lambda one: one.fact),
    )


def _time(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def _clock_text(note: ClockNote) -> str:
    if note.problem is ClockProblem.OUT_OF_SEQUENCE:
        other = note.other
        return f"before its predecessor {other.run if other else ''}: the clock went back"
    return _CLOCK[note.problem]


_CLOCK = {
    ClockProblem.FUTURE: "in the future",
    ClockProblem.SET_BACK: "the clock went back during the run",
    ClockProblem.UNDATED: "time of the import; the results carry none (import --date)",
}


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
