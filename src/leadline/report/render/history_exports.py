"""A history for other programs: CSV, Arrow, Apache Otava, benchstat, Prometheus' text files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from leadline.analysis.history import History, Point, Series
from leadline.metrics import Metric
from leadline.report.render.rows import Row, render_rows, round_cell
from leadline.text import visible

COLUMNS = (
    "time", "run", "target", "workload", "level", "op", "metric", "unit", "fingerprint", "value",
    "level_value", "trials", "codes",
)  # fmt: skip
# What Go's benchmark format and Prometheus do not take in a name.
_NOT_WORD = re.compile(r"[^A-Za-z0-9_.,=:@+-]+")


def time_text(at_s: float) -> str:
    """Format seconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")


def table_rows(history: History) -> Iterator[Row]:
    """Yield a row per series and run; `level_value` is the level that the changes leave."""
    for series in history.series:
        op = series.op.value if series.op else ""
        cell = (series.target, series.workload, series.level, op, series.metric.value)
        rest = (series.metric.unit, series.fingerprint)
        levels = dict(zip((point.run.path for point in series.points), series.fitted, strict=True))
        for point in (*series.points, *series.unused):
            yield (
                time_text(point.run.at_s),
                point.run.run,
                *cell,
                *rest,
                point.value,
                levels.get(point.run.path),
                point.trials,
                " ".join(point.codes),
            )


def render_export(history: History, output: str) -> str:
    """Render a history as `csv`, `csv-raw`, `otava-csv`, `benchstat` or `openmetrics`."""
    if output == "otava-csv":
        return _otava(history)
    if output == "benchstat":
        return "\n".join(_benchstat(history))
    if output == "openmetrics":
        return "\n".join(_openmetrics(history))
    return render_rows(COLUMNS, table_rows(history), output)


def to_arrow(history: History) -> bytes:
    """Return the rows as an Arrow IPC stream, with the numbers of the CSV."""
    import pyarrow as pa

    kinds = {"value": pa.float64(), "level_value": pa.float64(), "trials": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    columns = [[*map(round_cell, column)] for column in zip(*table_rows(history), strict=True)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(pa.table(columns or [[] for _ in COLUMNS], schema=schema))
    return bytes(sink.getvalue())


def _name(series: Series, separator: str) -> str:
    op = series.op.value if series.op else ""
    parts = (series.target, series.workload, series.level, op)
    return separator.join(_NOT_WORD.sub("_", part) for part in parts if part)


def _unique(history: History, separator: str) -> list[tuple[str, Series]]:
    """Name each series; the fingerprint is in the name where a place has several."""
    split = {one.place for pair in history.splits for one in (pair.before, pair.after)}
    return [
        (
            _name(one, separator) + (f"{separator}{one.fingerprint}" if one.place in split else ""),
            one,
        )
        for one in history.series
    ]


def _otava(history: History) -> str:
    """A row per run, a column per series: Otava's CSV with the attribute `run`. A run without a
    figure has an empty cell."""
    named = [(f"{name}.{one.metric.value}", one) for name, one in _unique(history, ".")]
    values = {(name, point.run.path): point.value for name, one in named for point in one.points}
    rows = [
        [time_text(run.at_s), run.run, *(values.get((name, run.path)) for name, _ in named)]
        for run in history.runs
    ]
    return render_rows(("time", "run", *(name for name, _ in named)), rows, "csv-raw")


def _benchstat(history: History) -> Iterator[str]:
    """Go's benchmark format: a result per run, with the run as configuration, so that
    `benchstat -col run` compares runs."""
    for metric in Metric:
        better = "lower" if metric.lower_is_better else "higher"
        if any(one.metric is metric for one in history.series):
            yield f"Unit {_unit(metric)} better={better}"
    of_run: dict[Path, list[str]] = {}
    for name, one in _unique(history, "/"):
        for point in one.points:
            line = f"Benchmark{name} {max(point.trials, 1)} {point.value:.9g} {_unit(one.metric)}"
            of_run.setdefault(point.run.path, []).append(line)
    for run in history.runs:
        yield f"run: {_NOT_WORD.sub('_', run.run)}"
        yield from of_run.get(run.path, ())


def _unit(metric: Metric) -> str:
    return {Metric.IOPS: "IOPS", Metric.BANDWIDTH: "B/s"}.get(
        metric, f"{metric.value.removeprefix('latency_')}-sec"
    )


def _openmetrics(history: History) -> Iterator[str]:
    """The last run of each series and its changes, for a textfile collector."""
    regressed = {id(one) for one, _ in history.regressions}
    families = (
        ("value", "Last value, in the unit of the label", lambda one: _last(one).value),
        ("value_time_seconds", "When the run of the last value began",
         lambda one: _last(one).run.at_s),
        ("level", "Level after the last change", lambda one: one.fitted[-1]),
        ("changes", "Changes that were found", lambda one: len(one.changes)),
        ("regressed", "1 if the cell is worse than before a change",
         lambda one: int(id(one) in regressed)),
    )  # fmt: skip
    shown = [one for one in history.series if one.points]
    for name, text, value in families:
        yield f"# TYPE leadline_history_{name} gauge"
        yield f"# HELP leadline_history_{name} {text}."
        for one in shown:
            yield f"leadline_history_{name}{{{_labels(one)}}} {value(one):.9g}"
    yield "# EOF"


def _last(series: Series) -> Point:
    return series.points[-1]


def _labels(series: Series) -> str:
    values = {
        "target": series.target,
        "workload": series.workload,
        "level": series.level,
        "op": series.op.value if series.op else "",
        "metric": series.metric.value,
        "unit": series.metric.unit,
        "fingerprint": series.fingerprint,
    }
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return visible(value).replace("\\", "\\\\").replace('"', '\\"')
