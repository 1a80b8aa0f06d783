"""Rows of vdbench's reports, with the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from leadline.formats.output import FormatError
from leadline.formats.plain_text import Figures

_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2}\.\d{1,3})", re.ASCII)
_STARTING = re.compile(
    r"(?:<[^>]*>)*(?P<time>\S+) Starting RD=(?P<name>[^;\s<]+)(?P<rest>[^<]*)(?:<[^>]*>)*"
)
_LOOPS: Final = "For loops:"
_REQUESTED = re.compile(r"(?:I/O rate: |fwdrate=)(?P<rate>[\d.]+)", re.ASCII)
# The reports' two header lines give each column a name in two halves.
_HALVES: Final[Mapping[tuple[str, str], str]] = {
    ("i/o", "rate"): "rate",
    ("MB/sec", "1024**2"): "mb/sec",
    ("bytes", "i/o"): "bytes/io",
    ("read", "pct"): "read%",
    ("resp", "time"): "resp",
    ("read", "resp"): "read_resp",
    ("write", "resp"): "write_resp",
    ("resp", "max"): "resp_max",
    ("read", "max"): "read_max",
    ("write", "max"): "write_max",
    ("resp", "stddev"): "resp_std",
    ("queue", "depth"): "queue_depth",
    ("cpu%", "sys+u"): "cpu_used",
    ("cpu%", "sys+usr"): "cpu_used",
    ("cpu%", "sys"): "cpu_kernel",
}
# Those of file system workloads stand under names that span two columns.
_FILES: Final = (
    *("rate", "resp", "total", "sys", "pct", "rate", "resp"),
    *("rate", "resp", "read", "write", "total", "size"),
)
_FILE_COLUMNS: Final = (
    *("rate", "resp", "cpu_used", "cpu_kernel", "read%", "read_rate", "read_resp"),
    *("write_rate", "write_resp", "mb_read", "mb_write", "mb/sec", "average_size"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One interval of a run, or its average. Columns have the flat file's names in lower case;
    `requested_size`: the column `xfersize` is what was asked for, not what came out. `cut`: the
    file ends within the row."""

    run: str
    interval: str
    line: int
    time_s: float | None
    cells: Mapping[str, str]
    requested_size: bool = False
    cut: bool = False

    def has(self, column: str) -> bool:
        return self.text(column) not in ("", "n/a")

    def text(self, column: str) -> str:
        return self.cells.get(column, "")

    def number(self, figures: Figures, column: str, unit: float = 1.0) -> float | None:
        """None where vdbench has none. Raises FormatError where it is no number."""
        if not self.has(column):
            return None
        return figures.number(self.text(column), f"line {self.line}", column, unit)


def read_flatfile(lines: Sequence[str]) -> list[Row]:
    """Rows of a flat file. Raises FormatError with the line."""
    columns: list[str] = []
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells or line.startswith(("*", "<")):
            continue
        if cells[0] == "tod":
            columns = [cell.lower() for cell in cells]
            if "run" not in columns or "interval" not in columns:
                raise FormatError(
                    "unreadable-result",
                    "the header of the flat file names no run or interval",
                    context=(f"line {number}",),
                )
            continue
        if not columns:
            raise FormatError(
                "unreadable-result",
                "the flat file has figures before its header",
                context=(f"line {number}",),
            )
        if len(cells) < len(columns) and number == len(lines):
            rows.append(_cut_row(dict(zip(columns, cells, strict=False)).get("run", ""), number))
            continue
        if len(cells) != len(columns):
            raise FormatError(
                "unreadable-result",
                f"a line of the flat file has {len(cells)} columns, its header {len(columns)}",
                context=(f"line {number}",),
            )
        named = dict(zip(columns, cells, strict=True))
        rows.append(
            Row(
                run=named["run"],
                interval=named["interval"],
                line=number,
                time_s=_time_s(named["tod"]),
                cells=named,
                # Older file system columns call the average size of what was done `Xfersize`.
                requested_size="threads" in named,
            )
        )
    return rows


def _cut_row(run: str, number: int) -> Row:
    return Row(run=run, interval="", line=number, time_s=None, cells={}, cut=True)


def read_report(lines: Sequence[str]) -> list[Row]:
    """Rows of a summary, totals or log report. Raises FormatError with the line."""
    rows: list[Row] = []
    run, asked = "", {}
    upper: list[str] = []
    columns: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        if starting := _STARTING.fullmatch(line.strip()):
            run, asked = starting["name"], _asked(starting["rest"])
            columns = ()
            continue
        cells = line.split()
        if "interval" in cells and "i/o" in cells:
            upper = cells[cells.index("interval") + 1 :]
        elif ".Interval." in cells:
            upper = []
        elif cells[:1] == ["rate"]:
            columns = _columns(upper, cells, number)
        elif columns and len(cells) > 1 and _TIME.fullmatch(cells[0]) and _is_row(cells[1]):
            if not run:
                raise FormatError(
                    "unreadable-result",
                    "figures stand before the run that they are of",
                    context=(f"line {number}",),
                )
            given = cells[2:]
            if len(given) < len(columns) and number == len(lines):
                rows.append(_cut_row(run, number))
                continue
            if len(given) < len(columns):
                raise FormatError(
                    "unreadable-result",
                    f"a line has {len(given)} figures, its header {len(columns)}",
                    context=(f"line {number}",),
                )
            rows.append(
                Row(
                    run=run,
                    interval=cells[1],
                    line=number,
                    time_s=_time_s(cells[0]),
                    cells=asked | dict(zip(columns, given, strict=False)),
                )
            )
    return rows


def _asked(rest: str) -> dict[str, str]:
    """What the line that starts a run tells of it: the rate, and the values of its loops."""
    settings, _, loops = rest.partition(_LOOPS)
    found = {} if loops.strip() in ("", "None") else {"loops": loops.strip()}
    for pair in loops.split():
        key, equals, value = pair.partition("=")
        if equals and key in ("threads", "rdpct", "seekpct"):
            found[key] = value
    if rate := _REQUESTED.search(settings):
        found["reqrate"] = rate["rate"]
    return found


def _is_row(interval: str) -> bool:
    return interval.isascii() and (interval.isdigit() or interval.startswith("avg_"))


def _columns(upper: Sequence[str], lower: Sequence[str], number: int) -> tuple[str, ...]:
    """Columns by the two header lines; those of file systems end with the size: what follows is
    of no reads and writes."""
    if not upper:
        if tuple(lower[: len(_FILES)]) == _FILES:
            return _FILE_COLUMNS
    elif len(upper) == len(lower) and all(
        half in _HALVES for half in zip(upper, lower, strict=True)
    ):
        return tuple(_HALVES[half] for half in zip(upper, lower, strict=True))
    raise FormatError(
        "unreadable-result",
        f"columns that are not known: {' '.join(lower)[:120]!r}",
        context=(f"line {number}",),
    )


def _time_s(text: str) -> float | None:
    """Seconds of the day; None where it is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
