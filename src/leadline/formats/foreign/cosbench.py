"""COSBench's CSV files: of a workload (a row per stage and operation), and of a stage over time.

No cell is quoted. Response times are milliseconds, bandwidth is bytes per second. Percentiles are
the upper ends of bins of 10 ms. Operations of one stage run at the same time and share its workers,
whose number is in neither file. A throughput counts operations that succeeded. Only reading and
writing of objects are figures; preparation, deletion and cleaning up are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from leadline.formats.fio.logs import Window
from leadline.formats.importer import Importer, Result, each_file
from leadline.formats.result import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.text import Figures, split_lines
from leadline.metrics import Op

TOOL: Final = "cosbench"
_MS: Final = 1e-3
_WORKLOAD: Final = "Stage,Op-Name,Op-Type,Op-Count,Byte-Count,Avg-ResTime,"
_STAGE: Final = "Timestamp,Op-Count,"
_NEEDED: Final = ("Op-Count", "Byte-Count", "Avg-ResTime", "Throughput", "Bandwidth", "Succ-Ratio")
_OPS: Final = {"read": Op.READ, "write": Op.WRITE}
_PERCENTILES: Final = {
    "60%-ResTime": 0.6,
    "80%-ResTime": 0.8,
    "90%-ResTime": 0.9,
    "95%-ResTime": 0.95,
    "99%-ResTime": 0.99,
}
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)", re.ASCII)
_DAY_S: Final = 86400
# Fewer failures than that are not worth a finding of their own.
_ALMOST_ALL: Final = 0.999


def parse_cosbench(content: bytes) -> tuple[Result, ...]:
    """Parse every stage that reads or writes. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    lines = split_lines(content)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise FormatError.empty("the file is empty")
    if lines[first].startswith(_WORKLOAD):
        return _workload_results(lines, first)
    if lines[first].startswith(_STAGE):
        return (_stage_result(lines, first),)
    raise FormatError.unreadable("this is no CSV of COSBench", f"line {first + 1}")


# A workload.


@dataclass(slots=True, kw_only=True)
class _Stage:
    name: str
    where: str
    rows: list[tuple[str, Op, Operation, Mapping[str, str]]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def _workload_results(lines: Sequence[str], first: int) -> tuple[Result, ...]:
    header = lines[first].split(",")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise FormatError.unreadable(f"the workload lacks {', '.join(missing)}")
    stages: dict[str, _Stage] = {}
    skipped: list[Note] = []
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        if not line.strip():
            continue
        cells = line.split(",")
        where = f"line {number}"
        # The detailed status has commas of its own, and may be missing.
        if len(cells) < header.index("Succ-Ratio") + 1:
            cut = number == len(lines)
            raise FormatError.unreadable(f"a row has {len(cells)} cells", where, cut=cut)
        row = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        op = _OPS.get(row["Op-Type"])
        if op is None:
            fact = f"{row['Op-Type'][:40]} of the stage {row['Stage'][:60]}"
            skipped.append(Note(NoteKind.LEFT_OUT, where, fact))
            continue
        stage = stages.setdefault(row["Stage"], _Stage(name=row["Stage"], where=where))
        figures = Figures()
        stage.rows.append((row["Op-Name"], op, _operation(op, row, where, figures), row))
        stage.notes += figures.notes
    results = [result for stage in stages.values() for result in _stage_results(stage)]
    if not results:
        raise FormatError.empty("no stage reads or writes objects")
    return _with_notes(results, skipped)


def _operation(op: Op, row: Mapping[str, str], where: str, figures: Figures) -> Operation:
    def number(column: str, unit: float = 1.0) -> float | None:
        text = row.get(column, "")
        return None if text == "N/A" else figures.number(text, where, column, unit)

    count, moved = number("Op-Count"), number("Byte-Count")
    succeeded = _share(row["Succ-Ratio"], where, figures)
    if succeeded is not None and succeeded < _ALMOST_ALL:
        fact = f"{1 - succeeded:.1%} of the {op.value}s of the stage {row['Stage'][:60]} failed"
        figures.note(NoteKind.FAILED_OPERATIONS, where, fact)
    mean_s = number("Avg-ResTime", _MS)
    return Operation(
        op=op,
        iops=number("Throughput"),
        bandwidth_bps=number("Bandwidth"),
        total_ios=None if count is None else int(count),
        io_bytes=None if moved is None else int(moved),
        total=Latency(
            mean_s=mean_s,
            max_s=number("100%-ResTime", _MS),
            percentiles={
                quantile: value
                for column, quantile in _PERCENTILES.items()
                if (value := number(column, _MS)) is not None
            },
        )
        if mean_s is not None
        else None,
    )


def _share(text: str, where: str, figures: Figures) -> float | None:
    return None if text == "N/A" else figures.number(text.rstrip("%"), where, "Succ-Ratio", 0.01)


def _stage_results(stage: _Stage) -> Iterator[Result]:
    """Yield one result, or one per operation where the stage has two of one kind."""
    ops = [op for _, op, _, _ in stage.rows]
    if len(set(ops)) == len(ops):
        parts = [(stage.name, stage.rows)]
    else:
        parts = [(f"{stage.name} {row[0]}", [row]) for row in stage.rows]
    for number, (name, rows) in enumerate(parts):
        done = [operation for _, _, operation, _ in rows if operation.total_ios]
        output: EngineOutput | FormatError
        if done:
            job = JobResult(name=name, options=_options(done), operations=tuple(done))
            notes = [] if number else list(stage.notes)
            fact = "percentiles are upper ends of bins of 10 ms"
            notes.append(Note(NoteKind.LEFT_OUT, stage.where, fact))
            output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(notes))
        else:
            output = FormatError.empty(f"no operation of the stage {name} succeeded", stage.where)
        yield Result(workload=name, output=output, tool=TOOL)


def _options(operations: Sequence[Operation]) -> JobOptions:
    """Return the size of an object as block size, where all have the same."""
    sizes = {
        operation.io_bytes / operation.total_ios
        for operation in operations
        if operation.io_bytes and operation.total_ios
    }
    whole = len(sizes) == 1 and min(sizes).is_integer()
    return JobOptions(raw={"bs": str(int(min(sizes)))} if whole else {}, whole=False)


def _with_notes(results: list[Result], notes: Sequence[Note]) -> tuple[Result, ...]:
    """Add the notes on the file to its first result with figures."""
    for number, result in enumerate(results):
        if isinstance(result.output, EngineOutput):
            output = EngineOutput(
                version=result.output.version,
                jobs=result.output.jobs,
                notes=(*notes, *result.output.notes),
            )
            results[number] = Result(workload=result.workload, output=output, tool=TOOL)
            break
    return tuple(results)


# A stage over time.


@dataclass(slots=True, kw_only=True)
class _Series:
    """One kind of operation over time."""

    windows: list[Window] = field(default_factory=list)
    ios: int = 0
    attempted: float = 0.0
    moved: int = 0
    busy_s: float = 0.0


def _stage_result(lines: Sequence[str], first: int) -> Result:
    """Parse a stage: two lines of heads, and a row per interval. A row without operations has fewer
    cells; what was done in it is unknown."""
    figures = Figures()
    columns = _stage_columns(lines, first)
    width = len(lines[first].split(","))
    series = {op: _Series() for op in _OPS.values() if (op.value, "Op-Count") in columns}
    times: list[float] = []
    unknown: list[str] = []
    for number, line in enumerate(lines[first + 2 :], start=first + 3):
        if not line.strip():
            continue
        cells, where = line.split(","), f"line {number}"
        clock = _CLOCK.fullmatch(cells[0])
        if clock is None or len(cells) > width:
            raise FormatError.unreadable(
                f"{line[:80]!r} is no row of a stage", where, cut=number == len(lines)
            )
        hours, minutes, seconds = (int(group) for group in clock.groups())
        time_s = float((hours * 60 + minutes) * 60 + seconds)
        # A stage may run over midnight.
        time_s += _DAY_S if times and time_s < times[-1] - _DAY_S / 2 else 0
        if times and time_s <= times[-1]:
            raise FormatError.unreadable("the rows go back in time", where)
        times.append(time_s)
        if len(cells) < width:
            unknown.append(where)
        elif len(times) > 1:
            for op, entry in series.items():
                cell = {name: cells[place] for (of, name), place in columns.items() if of == op}
                _add(entry, cell, times, where, figures)
    if len(times) < 2 or not any(entry.ios for entry in series.values()):
        raise FormatError.empty("the stage has no interval with reads or writes")
    for where in unknown:
        figures.note(NoteKind.LEFT_OUT, where, "an interval without figures")
    for op, entry in series.items():
        if entry.ios < _ALMOST_ALL * entry.attempted:
            fact = f"{1 - entry.ios / entry.attempted:.1%} of the {op.value}s failed"
            figures.note(NoteKind.FAILED_OPERATIONS, f"line {first + 4} to the end", fact)
    elapsed_s = times[-1] - times[0]
    fact = "the first interval, whose length is unknown"
    figures.note(NoteKind.LEFT_OUT, f"line {first + 3}", fact)
    operations = tuple(
        Operation(
            op=op,
            iops=entry.ios / elapsed_s,
            bandwidth_bps=entry.moved / elapsed_s,
            total_ios=entry.ios,
            io_bytes=entry.moved,
            runtime_s=elapsed_s,
            total=Latency(mean_s=entry.busy_s / entry.ios),
        )
        for op, entry in series.items()
        if entry.ios
    )
    job = JobResult(
        name="stage",
        options=_options(operations),
        job_runtime_s=elapsed_s,
        operations=operations,
    )
    # With a gap the rates over time are not known.
    whole = {op: tuple(entry.windows) for op, entry in series.items() if entry.ios}
    windows = {} if unknown else whole
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(figures.notes))
    return Result(workload="", output=output, tool=TOOL, windows=windows)


def _stage_columns(lines: Sequence[str], first: int) -> dict[tuple[str, str], int]:
    """Return the place of each figure by operation. The head names a figure once, above its
    operations."""
    heads = lines[first].split(",")
    below = lines[first + 1].split(",") if first + 1 < len(lines) else []
    if len(below) != len(heads):
        raise FormatError.truncated("a stage has two lines of heads", f"line {first + 1}")
    columns: dict[tuple[str, str], int] = {}
    figure = ""
    for place, (head, operation) in enumerate(zip(heads, below, strict=True)):
        figure = head or figure
        columns.setdefault((operation, figure), place)
    return columns


def _add(
    entry: _Series, cell: Mapping[str, str], times: Sequence[float], where: str, figures: Figures
) -> None:
    """Add an interval. The throughput that COSBench prints is not taken: behind an interval without
    figures it is of a part of the interval."""
    ios = figures.whole(cell.get("Op-Count", ""), where, "Op-Count") or 0
    moved = figures.whole(cell.get("Byte-Count", ""), where, "Byte-Count") or 0
    time = cell.get("Avg-ResTime", "")
    mean_s = None if time == "N/A" else figures.number(time, where, "Avg-ResTime", _MS)
    succeeded = _share(cell.get("Succ-Ratio", "N/A"), where, figures)
    entry.attempted += ios / succeeded if succeeded else ios
    entry.ios += ios
    entry.moved += moved
    entry.busy_s += ios * (mean_s or 0.0)
    # The job's clock starts with the first row.
    end_s, before_s = times[-1] - times[0], times[-2] - times[0]
    entry.windows.append(Window(end_s, ios / (end_s - before_s)))


def _recognises(name: str, head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return start.startswith(_WORKLOAD.encode()) or (
        start.startswith(_STAGE.encode()) and b"Avg-ProcTime" in head[:1000]
    )


IMPORTER = Importer(
    kind=TOOL,
    summary="COSBench: the CSV of a workload, and that of a stage",
    recognises=_recognises,
    read=each_file(parse_cosbench),
)
