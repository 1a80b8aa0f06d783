"""vdbench's flat file, and its summary and totals reports.

A run's result is its average line (`avg_2-30`), which leaves the first interval out. The flat file
names its columns in a header line and explains them above it; times are milliseconds, megabytes
are of 1024 * 1024. Two kinds of workload have other columns: raw I/O has one rate and the share
of reads, file systems have separate reads and writes. Rates of reads and writes of a raw workload
are the total times that share, which is how vdbench came by the share.

The flat file is preferred where an output folder holds the reports as well: they are rounded, and
have neither block size nor threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.fio.logs import Window
from leadline.formats.importer import Importer, Result
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, distinct_names, split_lines
from leadline.metrics import Op

# Rows of vdbench's reports, with the names of their columns.

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
# Columns of file system workloads have names that span two columns.
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
    line: int
    interval: str = ""
    time_s: float | None = None
    cells: Mapping[str, str] = field(default_factory=dict)
    requested_size: bool = False
    cut: bool = False

    @property
    def where(self) -> str:
        return f"line {self.line}"

    def has(self, column: str) -> bool:
        return self.text(column) not in ("", "n/a")

    def text(self, column: str) -> str:
        return self.cells.get(column, "")

    def number(self, figures: Figures, column: str, unit: float = 1.0) -> float | None:
        """None where vdbench has none. Raises FormatError where it is no number."""
        if not self.has(column):
            return None
        return figures.number(self.text(column), self.where, column, unit)


def read_flatfile(lines: Sequence[str]) -> list[Row]:
    """Rows of a flat file. Raises FormatError with the line."""
    columns: list[str] = []
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        cells, where = line.split(), f"line {number}"
        if not cells or line.startswith(("*", "<")):
            continue
        if cells[0] == "tod":
            columns = [cell.lower() for cell in cells]
            if "run" not in columns or "interval" not in columns:
                raise FormatError.unreadable(
                    "the header of the flat file names no run or interval", where
                )
            continue
        if not columns:
            raise FormatError.unreadable("the flat file has figures before its header", where)
        named = dict(zip(columns, cells, strict=False))
        if len(cells) < len(columns) and number == len(lines):
            rows.append(Row(run=named.get("run", ""), line=number, cut=True))
            continue
        if len(cells) != len(columns):
            fact = f"a line of the flat file has {len(cells)} columns, its header {len(columns)}"
            raise FormatError.unreadable(fact, where)
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
        cells, where = line.split(), f"line {number}"
        if "interval" in cells and "i/o" in cells:
            upper = cells[cells.index("interval") + 1 :]
        elif ".Interval." in cells:
            upper = []
        elif cells[:1] == ["rate"]:
            columns = _columns(upper, cells, where)
        elif columns and len(cells) > 1 and _TIME.fullmatch(cells[0]) and _is_row(cells[1]):
            if not run:
                raise FormatError.unreadable("values before the name of their run", where)
            time, interval, *given = cells
            if len(given) < len(columns) and number == len(lines):
                rows.append(Row(run=run, line=number, cut=True))
                continue
            if len(given) < len(columns):
                fact = f"a line has {len(given)} figures, its header {len(columns)}"
                raise FormatError.unreadable(fact, where)
            rows.append(
                Row(
                    run=run,
                    interval=interval,
                    line=number,
                    time_s=_time_s(time),
                    cells=asked | dict(zip(columns, given, strict=False)),
                )
            )
    return rows


def _asked(rest: str) -> dict[str, str]:
    """Parse the line that starts a run: the rate, and the values of its loops."""
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


def _columns(upper: Sequence[str], lower: Sequence[str], where: str) -> tuple[str, ...]:
    """Columns by the two header lines; those of file systems end with the size: what follows is
    of no reads and writes."""
    if not upper:
        if tuple(lower[: len(_FILES)]) == _FILES:
            return _FILE_COLUMNS
    elif len(upper) == len(lower) and all(
        half in _HALVES for half in zip(upper, lower, strict=True)
    ):
        return tuple(_HALVES[half] for half in zip(upper, lower, strict=True))
    raise FormatError.unreadable(f"columns that are not known: {' '.join(lower)[:120]!r}", where)


def _time_s(text: str) -> float | None:
    """Seconds of the day; None where it is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])


TOOL: Final = "vdbench"
_MIB: Final = float(1 << 20)
_MS: Final = 1e-3
_AVERAGE = re.compile(r"avg_(?P<first>\d{1,9})-(?P<last>\d{1,9})")
# Requested rates that mean "unlimited": the first is of older versions.
_UNLIMITED: Final = frozenset({999977, 999988, 9999977, 9999988})
# Runs that vdbench makes by itself to lay the files out.
_LAYOUT = re.compile(r"SD_format|format_for_.*")
_TITLE = re.compile(rb"<title>Vdbench [^<]{0,200}?/?([\w.]+)</title>")
# Text above the first interval, in a flat file and in a report.
_BEGUN: Final = (b"Name of run from RD=", b"Starting RD=")
_REPORTS: Final = ("flatfile.html", "summary.html", "totals.html", "logfile.html")
# Parameters by which runs of one name differ, where `forxx=` loops over them.
_PARAMETERS: Final = ("xfersize", "threads", "rdpct", "seekpct", "reqrate")


@dataclass(slots=True, kw_only=True)
class _Run:
    name: str
    line: int
    intervals: list[Row] = field(default_factory=list)
    average: Row | None = None

    @property
    def parameters(self) -> dict[str, str]:
        row = self.average or (self.intervals[-1] if self.intervals else None)
        if row is None:
            return {}
        if row.has("loops"):
            return {"loops": row.text("loops")}
        return {key: row.text(key) for key in _PARAMETERS if row.has(key)}


def parse_vdbench(content: bytes) -> tuple[Result, ...]:
    """Every run of a flat file or a report. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    if not content.strip():
        raise FormatError.empty("the file is empty")
    lines = split_lines(content)
    flat = any(line.split(maxsplit=1)[:1] == ["tod"] for line in lines)
    runs = _runs(read_flatfile(lines) if flat else read_report(lines))
    if not runs:
        begun = any(mark in content for mark in (*_BEGUN, b"Interval"))
        raise FormatError.unreadable("vdbench reported no interval of any run", cut=begun)
    layout = [run for run in runs if _LAYOUT.fullmatch(run.name)]
    runs = [run for run in runs if not _LAYOUT.fullmatch(run.name)]
    if not runs:
        raise FormatError.truncated(
            f"vdbench came no further than {layout[-1].name}, which lays files out",
            f"line {layout[-1].line}",
        )
    names = distinct_names([(run.name, run.parameters) for run in runs])
    first = Figures()
    for run in layout:
        fact = f"the run {run.name} lays files out and is no measurement"
        first.note(NoteKind.LEFT_OUT, f"line {run.line}", fact)
    figures = [first, *(Figures() for _ in runs[1:])]
    return tuple(map(_result, names, runs, figures))


def _runs(rows: Sequence[Row]) -> list[_Run]:
    """Rows by run: an average ends one, since loops run one name again and again."""
    runs: list[_Run] = []
    current: _Run | None = None
    for row in rows:
        if current and current.name != row.run:
            current = None
        is_average = bool(_AVERAGE.fullmatch(row.interval))
        is_interval = row.cut or (row.interval.isascii() and row.interval.isdigit())
        if not is_average and not is_interval:
            # Newer versions add lines of deviations and maxima, `std_2-30` and `max_2-30`.
            continue
        if current is None:
            current = _Run(name=row.run, line=row.line)
            runs.append(current)
        if is_average:
            current.average = row
            current = None
        else:
            current.intervals.append(row)
    return runs


def _result(name: str, run: _Run, figures: Figures) -> Result:
    def failed(error: FormatError) -> Result:
        return Result(workload=name, output=error, tool=TOOL)

    if run.average is None:
        fact = f"the run {run.name} has no average: it did not come to its end"
        return failed(FormatError.truncated(fact, f"line {run.line}"))
    where = f"line {run.average.line}"
    counted = _AVERAGE.fullmatch(run.average.interval)
    assert counted is not None
    first, last = int(counted["first"]), int(counted["last"])
    if last < first:
        fact = f"the run {run.name} ended within its first interval, which vdbench does not count"
        return failed(FormatError.empty(fact, where))
    step_s = _interval_s(run.intervals)
    runtime_s = step_s * (last - first + 1) if step_s else None
    operations = _operations(run.average, figures, runtime_s)
    if not operations:
        idle = not _as_float(run.average.text("rate"))
        what = "neither read nor wrote" if idle else "has no rate of reads or of writes"
        return failed(FormatError.empty(f"the run {run.name} {what}", where))
    job = JobResult(
        name=run.name,
        options=_options(run.average, operations),
        job_runtime_s=runtime_s or 0.0,
        operations=operations,
    )
    return Result(
        workload=name,
        output=EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes)),
        tool=TOOL,
        windows=_windows(run.intervals, first, last, step_s),
    )


def _interval_s(intervals: Sequence[Row]) -> int | None:
    """The length of an interval, which vdbench sets in whole seconds: from the times of day."""
    times = [row.time_s for row in intervals]
    if len(times) < 2 or times[0] is None or times[-1] is None:
        return None
    # A run may pass midnight.
    step = ((times[-1] - times[0]) % 86400) / (len(times) - 1)
    return round(step) if step >= 0.5 else None


def _operations(row: Row, figures: Figures, runtime_s: float | None) -> tuple[Operation, ...]:
    """Reads and writes, those that were done."""
    shares: dict[Op, float | None]
    if row.has("read_rate"):
        iops = {op: row.number(figures, f"{op.value}_rate") for op in (Op.READ, Op.WRITE)}
        bandwidth = {op: row.number(figures, f"mb_{op.value}", _MIB) for op in iops}
    else:
        rate = row.number(figures, "rate")
        total = row.number(figures, "mb/sec", _MIB)
        percent = row.number(figures, "read%")
        if percent is not None and percent > 100:
            figures.note(NoteKind.IMPOSSIBLE_VALUE, row.where, f"read% is {percent:g}, above 100")
            percent = None
        share = None if percent is None else percent / 100
        shares = {Op.READ: share, Op.WRITE: None if share is None else 1 - share}
        iops = {op: _times(rate, part) for op, part in shares.items()}
        # Bytes follow the I/Os only where all have one size, which a run with several does not.
        bandwidth = {
            op: _times(total, part) if part in (0, 1) or row.text("xfersize").isdigit() else None
            for op, part in shares.items()
        }
        if share is None:
            fact = "the share of reads is not known, and no rate of reads or writes without it"
            figures.note(NoteKind.LEFT_OUT, row.where, fact)
        elif bandwidth[Op.READ] is None and total:
            fact = "the bandwidth is of reads and writes of no one size together"
            figures.note(NoteKind.LEFT_OUT, row.where, fact)
    return tuple(
        Operation(
            op=op,
            iops=iops[op],
            bandwidth_bps=bandwidth[op],
            runtime_s=runtime_s,
            total=_latency(row, figures, op, alone=not iops[other]),
        )
        for op, other in ((Op.READ, Op.WRITE), (Op.WRITE, Op.READ))
        if iops[op]
    )


def _times(value: float | None, share: float | None) -> float | None:
    return None if value is None or share is None else value * share


def _latency(row: Row, figures: Figures, op: Op, *, alone: bool) -> Latency | None:
    """The response time of an operation; the run's own where there is no other operation.

    File system columns put the statistic last (`read_resp_max`), raw ones have `read_max`.
    """

    def seconds(*columns: str) -> float | None:
        for column in columns:
            if row.has(column):
                return row.number(figures, column, _MS)
        return None

    name = op.value
    whole = ("resp",) if alone and not row.has("read_rate") else ()
    if row.has("resp") and not alone and not row.has(f"{name}_resp"):
        fact = f"the response time is of reads and writes together, not of {name}s"
        figures.note(NoteKind.LEFT_OUT, row.where, fact)
    latency = Latency(
        mean_s=seconds(f"{name}_resp", *whole),
        max_s=seconds(f"{name}_resp_max", f"{name}_max", *(f"{entry}_max" for entry in whole)),
        stddev_s=seconds(f"{name}_resp_std", f"{name}_std", *(f"{entry}_std" for entry in whole)),
    )
    return latency if latency.mean_s else None


def _options(row: Row, operations: Sequence[Operation]) -> JobOptions:
    """What the row says was asked for. A vdbench thread has one I/O in flight; several storage
    definitions have their own threads each, which the row does not count."""
    ops = {operation.op for operation in operations}
    direction = "rw" if len(ops) > 1 else ops.pop().value
    raw: dict[str, str] = {}
    random = _as_float(row.text("seekpct"))
    if random is not None:
        raw["rw"] = ("rand" if random else "") + direction
        if 0 < random < 100:
            raw["percentage_random"] = f"{random:g}"
    if row.text("xfersize").isdigit() and row.requested_size:
        raw["bs"] = row.text("xfersize")
    threads = row.text("threads")
    if threads.isdigit() and threads != "0":
        # The figures are of all threads.
        raw |= {"numjobs": threads, "iodepth": "1", "group_reporting": "1"}
    asked = _as_float(row.text("rdpct"))
    if len(operations) > 1 and asked is not None:
        raw["rwmixread"] = f"{asked:g}"
    rate = _as_float(row.text("reqrate"))
    if rate and rate not in _UNLIMITED:
        raw["rate_iops"] = f"{rate:g}"
    return JobOptions(raw=raw, whole=False)


def _as_float(text: str) -> float | None:
    try:
        return Figures().number(text, "", "")
    except FormatError:
        return None


def _windows(
    intervals: Sequence[Row], first: int, last: int, step_s: int | None
) -> dict[Op, tuple[Window, ...]]:
    """IOPS of each interval that the average counts."""
    if step_s is None:
        return {}
    series: dict[Op, list[Window]] = {}
    for row in intervals:
        number = int(row.interval) if len(row.interval) < 10 else 0
        if first <= number <= last:
            for operation in _operations(row, Figures(), None):
                series.setdefault(operation.op, []).append(
                    Window(end_s=float((number - first + 1) * step_s), value=operation.iops or 0.0)
                )
    return {op: tuple(windows) for op, windows in series.items()}


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    """The fullest report of the bundle."""
    by_report = {name.rpartition("/")[2]: name for name in contents}
    chosen = next(
        (by_report[report] for report in _REPORTS if report in by_report), next(iter(contents))
    )
    return parse_vdbench(contents[chosen])


def _bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Bundle the reports of one output folder, which hold the same runs."""
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder if file in _REPORTS else f"{name}/", []).append(name)
    return tuple(tuple(together) for together in folders.values())


def _recognises(name: str, head: bytes) -> bool:
    if _BEGUN[0] in head:
        return True
    titled = _TITLE.search(head)
    if titled and titled[1].decode("ascii", "replace") not in _REPORTS:
        # A report of one host or device: its figures are a part of the run's.
        return False
    return _BEGUN[1] in head and b"nterval" in head


IMPORTER = Importer(
    kind=TOOL,
    summary="vdbench: flatfile.html, else summary.html or totals.html of an output folder",
    recognises=_recognises,
    read=_read,
    bundles=_bundles,
)
