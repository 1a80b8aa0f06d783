"""Importer of `zpool iostat` with an interval: means of each pool over the intervals.

The format itself is in `leadline.formats.zfs.iostat`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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
from leadline.formats.zfs.iostat import (
    CELL,
    DEFAULT_COLUMNS,
    FIRST_GROUPS,
    HISTOGRAM_HEADS,
    LONGEST_LINE,
    TOOL,
    IostatReport,
    IostatRow,
    is_histogram,
    is_scripted_with_blanks,
    parse_zpool_iostat,
)
from leadline.formats.zfs.lines import uncoloured
from leadline.metrics import Op

__all__ = ["IMPORTER", "IostatReport", "IostatRow", "parse_zpool_iostat", "read_results"]

# zpool(8) refuses devices below 64 MiB; what is allocated of an empty pool is less.
_LEAST_POOL = 1 << 16
_ROUNDED = 0.005
_VDEV_GROUP = re.compile(r"(?:mirror|raidz\d?|draid\d?\S*|spare|replacing|indirect)-\d+|logs|cache")


def _recognises(_name: str, head: bytes) -> bool:
    lines = uncoloured(head.decode("utf-8-sig", "replace")).splitlines()[:200]
    words = [line.split() if len(line) <= LONGEST_LINE else [] for line in lines]
    if any(word[:3] == FIRST_GROUPS for word in words):
        return True
    if any(is_histogram(a) and b[:1] and b[0] in HISTOGRAM_HEADS for a, b in pairwise(words)):
        return True
    if is_scripted_with_blanks(lines) and (
        TOOL in "\n".join(lines) or all(_are_sizes(word[1:3]) for word in words if len(word) > 6)
    ):
        return True
    rows = [line.split("\t") for line in lines if line.strip()]
    whole = rows[:-1] if len(rows) > 1 else rows
    return bool(whole) and all(
        len(cells) >= len(DEFAULT_COLUMNS) + 1
        and len(cells) == len(whole[0])
        and cells[0][:1].isalpha()
        and all(cell == "-" or CELL.fullmatch(cell.strip()) for cell in cells[1:])
        for cells in whole
    )


def _are_sizes(cells: Sequence[str]) -> bool:
    """Test whether they can be the capacity of a pool, in words or with -p in sectors."""
    return all(
        cell[-1:] in "KMGTPE"
        or (cell.isdecimal() and int(cell) >= _LEAST_POOL and int(cell) % 512 == 0)
        for cell in cells
    )


def read_results(content: bytes) -> tuple[Result, ...]:
    """A result for each pool: the means over the intervals measured. Raises FormatError."""
    try:
        report = parse_zpool_iostat(content)
    except FormatError as error:
        if error.condition == "unreadable-result":
            raise
        return (Result(workload="", output=error, tool=TOOL),)
    measured = [interval for interval in range(report.intervals) if interval not in report.averages]
    if not measured:
        raise FormatError.unreadable(
            f"a single block of {TOOL} is the average since the pool was imported and measures no "
            "load; take it with an interval (zpool iostat -y 1)",
            f"line {report.rows[0].line} says: {report.rows[0].name!r}",
        )
    scripted = [row for row in report.rows if row.depth is None]
    sum_of_others = _sum_of_others(scripted)
    for row in scripted:
        if row is sum_of_others or _is_vdev(row):
            raise FormatError.unreadable(
                f"with -H -v pools and vdevs look the same in {TOOL}",
                f"line {row.line} says: {row.name[:160]!r}",
            )
    notes = list(report.notes)
    first_lines = {row.interval: row.line for row in reversed(report.rows)}
    for interval in sorted(report.averages & first_lines.keys()):
        fact = "the first block is the average since the pool was imported and is left out"
        notes.append(Note(NoteKind.LEFT_OUT, f"line {first_lines[interval]}", fact))
    if report.interval_s is None:
        fact = "the length of the intervals is unknown, so there is no series of every second"
        notes.append(Note(NoteKind.LEFT_OUT, f"line {report.rows[-1].line}", fact))
    pools: dict[str, list[IostatRow]] = {}
    for row in report.rows:
        if not row.depth and row.interval not in report.averages:
            pools.setdefault(row.name, []).append(row)
    return tuple(
        _result(name, rows, report, measured, tuple(notes) if not number else ())
        for number, (name, rows) in enumerate(pools.items())
    )


def _is_vdev(row: IostatRow) -> bool:
    """Only pools and top-level vdevs have a capacity: a dash, or with -p zeros."""
    capacity = row.values["capacity_alloc"], row.values["capacity_free"]
    return bool(_VDEV_GROUP.fullmatch(row.name)) or None in capacity or capacity == (0, 0)


def _sum_of_others(rows: Sequence[IostatRow]) -> IostatRow | None:
    """The first row, where the others of its interval add up to it in every column: they are disks
    then, of which the pool is the sum. Top-level vdevs of one disk have a capacity, too."""
    if not rows:
        return None
    first, *others = [row for row in rows if row.interval == rows[0].interval]
    if not others:
        return None
    busy = False
    for column in DEFAULT_COLUMNS:
        parts = [row.values[column] for row in others]
        whole = first.values[column]
        if whole is None or None in parts:
            return None
        total = sum(part for part in parts if part is not None)
        # Each figure is cut to three digits without -p, and to whole operations.
        if abs(whole - total) > len(others) * max(1.0, whole * _ROUNDED):
            return None
        busy |= column.startswith("bandwidth") and whole > 0
    return first if busy else None


def _result(
    pool: str,
    rows: Sequence[IostatRow],
    report: IostatReport,
    measured: Sequence[int],
    notes: tuple[Note, ...],
) -> Result:
    step = report.interval_s or 0.0
    operations = [_operation(op, rows) for op in (Op.READ, Op.WRITE)]
    job = JobResult(
        name=TOOL,
        # Whose load it is and how it was made is not the tool's to know.
        options=JobOptions(raw={}, whole=False),
        job_runtime_s=len(rows) * step,
        operations=tuple(
            operation for operation in operations if operation.iops or operation.bandwidth_bps
        ),
    )
    windows = {
        operation.op: _windows(operation.op, rows, measured, step)
        for operation in job.operations
        if step
    }
    output = EngineOutput(version=TOOL, noise=report.noise, jobs=(job,), notes=notes)
    return Result(workload="", output=output, target=pool, tool=TOOL, windows=windows)


def _windows(
    op: Op, rows: Sequence[IostatRow], measured: Sequence[int], step: float
) -> tuple[Window, ...]:
    places = {interval: number for number, interval in enumerate(measured, start=1)}
    rates = [(places[row.interval], row.values[f"operations_{op.value}"]) for row in rows]
    return tuple(
        Window(end_s=number * step, value=rate) for number, rate in rates if rate is not None
    )


def _operation(op: Op, rows: Sequence[IostatRow]) -> Operation:
    rates = [row.values[f"operations_{op.value}"] for row in rows]
    return Operation(
        op=op,
        iops=_mean(rates),
        bandwidth_bps=_mean([row.values[f"bandwidth_{op.value}"] for row in rows]),
        total=_latency([row.values.get(f"total_wait_{op.value}") for row in rows], rates),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _latency(waits: Sequence[float | None], rates: Sequence[float | None]) -> Latency | None:
    """The mean wait of the I/Os of all intervals; an interval without I/O has none."""
    weighted = [
        (wait, rate) for wait, rate in zip(waits, rates, strict=True) if wait is not None and rate
    ]
    ios = sum(rate for _, rate in weighted)
    return Latency(mean_s=sum(wait * rate for wait, rate in weighted) / ios) if ios else None


IMPORTER = Importer(
    kind="zpool-iostat",
    summary="text of `zpool iostat` with an interval",
    recognises=_recognises,
    read=each_file(read_results),
)
