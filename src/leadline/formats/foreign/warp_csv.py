"""The time series that `warp analyze --analyze.out` writes (README of minio/warp).

Cells are separated by tabs. Each operation has a table with a header of its own, a row per segment
of time; tables of single hosts may follow that of all hosts. Rates are the operations that ended,
and the bytes, of all segments. There is no latency but a mean that is not documented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.fio.logs import Window
from leadline.formats.importer import Result
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, split_lines
from leadline.metrics import Op

_OPS: Final = {"GET": Op.READ, "PUT": Op.WRITE}
_NEEDED: Final = frozenset(
    {"index", "op", "duration_s", "bytes", "ops_ended", "errors", "start_time", "end_time"}
)
# Date and time to the second; all times of a file have the same zone.
_TO_SECONDS: Final = 19
# Fewer failures than that are not worth a finding of their own.
_FEW_ERRORS: Final = 0.001


@dataclass(slots=True, kw_only=True)
class _Table:
    """The segments of one operation, and where they begin. `host` is empty for all hosts."""

    operation: str
    host: str
    line: int
    begins: str
    ends: str = ""
    seconds: float = 0.0
    size_bytes: float = 0.0
    ended: int = 0
    errors: int = 0
    rates: list[Window] = field(default_factory=list)


def is_time_series(head: bytes) -> bool:
    """Test whether a file begins with the header of such a table."""
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode("utf-8", "replace")
    return first.startswith("index\top\t") and set(_cells(first)) >= _NEEDED


def parse_time_series(content: bytes) -> tuple[Result, ...]:
    """Parse every benchmark of a file: operations at the same time are a mixed one. Raises
    FormatError with condition `empty-result`, `truncated-result` or `unreadable-result`."""
    figures = Figures()
    tables = _whole(_tables(split_lines(content), figures), figures)
    benchmarks: list[list[_Table]] = []
    for table in tables:
        if table.operation not in _OPS:
            figures.note(
                NoteKind.LEFT_OUT, f"line {table.line}", f"{table.operation} of the benchmark"
            )
        elif benchmarks and _at_once(benchmarks[-1], table):
            benchmarks[-1].append(table)
        else:
            benchmarks.append([table])
    if not benchmarks:
        kinds = ", ".join(dict.fromkeys(table.operation for table in tables))
        raise FormatError.empty(
            f"no operation moves data: {kinds[:200]}" if kinds else "the table has no segment"
        )
    return tuple(
        _result(part, figures.notes if number == 0 else [])
        for number, part in enumerate(benchmarks)
    )


def _cells(line: str) -> list[str]:
    return line.rstrip("\r").split("\t")


def _tables(lines: Sequence[str], figures: Figures) -> list[_Table]:
    found: list[_Table] = []
    header: list[str] = []
    new = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where, cells = f"line {number}", _cells(line)
        if cells[0] == "index":
            header, new = cells, True
            if missing := sorted(_NEEDED - set(header)):
                raise FormatError.unreadable(f"the column {missing[0]} is missing", where)
            continue
        if len(cells) != len(header):
            fact = f"a row has {len(cells)} cells, its header {len(header)}"
            raise FormatError.unreadable(fact, where, cut=number == len(lines))
        row = dict(zip(header, cells, strict=True))
        table = found[-1] if found and not new else None
        operation, host = row["op"].upper(), row.get("host", "")
        if table is None or (table.operation, table.host) != (operation, host):
            table = _Table(operation=operation, host=host, line=number, begins=row["start_time"])
            found.append(table)
        new = False
        seconds = figures.number(row["duration_s"], where, "duration_s") or 0.0
        ended = figures.whole(row["ops_ended"], where, "ops_ended") or 0
        table.seconds += seconds
        table.ended += ended
        table.size_bytes += figures.number(row["bytes"], where, "bytes") or 0.0
        table.errors += figures.whole(row["errors"], where, "errors") or 0
        table.ends = row["end_time"]
        if seconds:
            table.rates.append(Window(table.seconds, ended / seconds))
    return found


def _whole(tables: Sequence[_Table], figures: Figures) -> list[_Table]:
    """Return the tables of all hosts; that of the only host where there is no other."""
    found = []
    for table in tables:
        others = [other for other in tables if other.operation == table.operation]
        hosts = {other.host for other in others}
        if not table.host or len(hosts) == 1:
            found.append(table)
        elif "" in hosts:
            figures.note(NoteKind.LEFT_OUT, f"line {table.line}", "the segments of a single host")
        else:
            fact = f"{table.operation} has segments of {len(hosts)} hosts, and none of all"
            raise FormatError.unreadable(fact, f"line {table.line}")
    return found


def _at_once(benchmark: Sequence[_Table], table: _Table) -> bool:
    return all(
        other.operation != table.operation
        and table.begins[:_TO_SECONDS] < other.ends[:_TO_SECONDS]
        and other.begins[:_TO_SECONDS] < table.ends[:_TO_SECONDS]
        for other in benchmark
    )


def _result(tables: Sequence[_Table], notes: Sequence[Note]) -> Result:
    name = "mixed" if len(tables) > 1 else tables[0].operation
    own = Figures()
    for table in tables:
        share = table.errors / (table.ended or 1)
        if share > _FEW_ERRORS:
            fact = f"{table.errors} of {table.ended} {table.operation}s failed"
            own.note(NoteKind.FAILED_OPERATIONS, f"line {table.line}", fact)
    measured = [table for table in tables if table.ended and table.seconds]
    output: EngineOutput | FormatError
    if measured:
        job = JobResult(
            name=name,
            options=JobOptions(raw={}, whole=False),
            job_runtime_s=max(table.seconds for table in measured),
            operations=tuple(
                Operation(
                    op=_OPS[table.operation],
                    iops=table.ended / table.seconds,
                    bandwidth_bps=table.size_bytes / table.seconds,
                    total_ios=table.ended,
                    io_bytes=round(table.size_bytes),
                    runtime_s=table.seconds,
                )
                for table in measured
            ),
        )
        output = EngineOutput(version="warp", jobs=(job,), notes=(*notes, *own.notes))
    else:
        output = FormatError.empty(f"no {name} ended", f"line {tables[0].line}")
    windows = {_OPS[table.operation]: tuple(table.rates) for table in measured}
    return Result(workload=name, output=output, tool="warp", windows=windows)
