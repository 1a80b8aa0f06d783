"""Rows of values as a plain table: aligned text, CSV or Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from leadline.report.render.markdown import grid
from leadline.text import visible
from leadline.units import round_significant

Row = Sequence[object]

# What a spreadsheet takes for a formula (OWASP, "CSV Injection"), also in full width and behind
# spaces, which some programs remove. Tab, CR and LF are spelled out before.
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")


def render_rows(columns: Sequence[str], rows: Iterable[Row], output: str) -> str:
    """Render a table as `text`, `csv`, `csv-raw` or `markdown`, without a final line break.

    CSV is RFC 4180 with LF. In `csv` a text that a spreadsheet would take for a formula gets a `'`
    in front; `csv-raw` leaves it as it is. Numbers are the same in both, rounded by
    `round_significant`. Control characters in texts are spelled out.

    Raises ValueError for another format.
    """
    table: list[Row] = [columns, *rows]
    if output in ("csv", "csv-raw"):
        return "\n".join(
            ",".join(_csv_cell(value, raw=output == "csv-raw") for value in row) for row in table
        )
    lines = [[_text(value) for value in row] for row in table]
    if output == "markdown":
        return "\n".join(grid(columns, [False] * len(columns), lines[1:]))
    if output == "text":
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
    raise ValueError(f"no table format {output!r}; there are text, csv, csv-raw and markdown")


def round_cell(value: object) -> object:
    """Round a number of a cell by `round_significant`; whole numbers and texts stay."""
    return round_significant(value) if isinstance(value, float) else value


def _text(value: object) -> str:
    return "" if value is None else visible(str(round_cell(value)))


def _csv_cell(value: object, *, raw: bool) -> str:
    text = _text(value)
    if not raw and not isinstance(value, int | float) and _FORMULA.match(text):
        text = f"'{text}"
    # `;` separates cells where `,` is the decimal point.
    if any(mark in text for mark in ',;"'):
        return '"{}"'.format(text.replace('"', '""'))
    return text
