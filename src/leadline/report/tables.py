"""Plain tables for `--format text|csv|markdown`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from leadline.report.contracts import MeasurementOutput, ShowOutput
from leadline.report.markdown import escape
from leadline.report.wording import visible

Row = Sequence[object]
SHOW_COLUMNS = (
    "target", "workload", "level", "op", "metric", "value", "unit", "trials",
    "interval_low", "interval_high", "findings",
)  # fmt: skip
TRIAL_COLUMNS = ("target", "workload", "level", "op", "metric", "unit", "trial", "value")


def render_rows(columns: Sequence[str], rows: Iterable[Row], output: str) -> str:
    """A table as `text`, `csv` or `markdown`, without a line break at the end.

    Raises ValueError for another format. CSV holds the exact texts (RFC 4180 but with LF);
    text and Markdown spell control characters out.
    """
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    if output == "csv":
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows([list(columns), *texts])
        return stream.getvalue().rstrip("\n")
    if output == "markdown":
        lines = [list(columns), ["---"] * len(columns), *texts]
        cells = [[escape(visible(text)) for text in line] for line in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)
    if output == "text":
        shown = [list(columns), *([visible(text) for text in line] for line in texts)]
        widths = [max(len(line[index]) for line in shown) for index in range(len(columns))]
        shown.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in shown
        )
    raise ValueError(f"no table format {output!r}; there are text, csv and markdown")


def show_rows(shown: ShowOutput) -> list[Row]:
    """Rows under SHOW_COLUMNS: full precision, base units, empty where there is no value."""
    return [
        (
            *_cell(one), one.value, one.unit, one.trials,
            *(one.interval or (None, None)), " ".join(one.findings),
        )
        for one in shown.measurements
    ]  # fmt: skip


def trial_rows(shown: ShowOutput) -> list[Row]:
    """Rows under TRIAL_COLUMNS: every trial's value, of `show_output(..., trials=True)`."""
    return [
        (*_cell(one), one.unit, value.trial, value.value)
        for one in shown.measurements
        for value in one.values or ()
    ]


def _cell(one: MeasurementOutput) -> tuple[str, str, str, str, str]:
    return (one.target, one.workload, one.level, one.op or "", one.metric)


def show_table(shown: ShowOutput, output: str, *, trials: bool = False) -> str:
    """`leadline show --format csv|markdown|text` as one long table, a row per number."""
    if trials:
        return render_rows(TRIAL_COLUMNS, trial_rows(shown), output)
    return render_rows(SHOW_COLUMNS, show_rows(shown), output)
