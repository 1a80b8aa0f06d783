"""Rows of values as a plain table: aligned text, CSV or Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from leadline.report.render.markdown import grid
from leadline.text import visible

Row = Sequence[object]


def render_rows(columns: Sequence[str], rows: Iterable[Row], output: str) -> str:
    """Render a table as `text`, `csv` (RFC 4180 with LF) or `markdown`, without a final line break.

    Control characters in texts are spelled out. Raises ValueError for another format.
    """
    lines = [list(columns)]
    lines += [["" if value is None else visible(str(value)) for value in row] for row in rows]
    if output == "csv":
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(lines)
        return stream.getvalue().rstrip("\n")
    if output == "markdown":
        return "\n".join(grid(columns, [False] * len(columns), lines[1:]))
    if output == "text":
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )
    raise ValueError(f"no table format {output!r}; there are text, csv and markdown")
