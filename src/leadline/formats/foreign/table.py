"""A table of summaries: CSV, one row for each cluster, target, workload and operation.

    cluster,target,workload,op,pattern,block_size,numjobs,iodepth,runtime_s,...,iops,bw_mib_s,...
    lab,rep3,rand-write,write,randwrite,4k,16,32,30,...,32000,125,...

Columns may be in any order and are separated by commas, semicolons or tabs; a blank cell is not
published. Latencies are total ones in milliseconds, bandwidth is MiB/s. Rows of one cluster,
target, workload and load with different operations are one result; a second row of the same
operation is another trial, as a column `trial` (or `repeat`) says outright. A column `label:KEY`
says what sets the row's target apart from others (`label:cores`).

IOPS, bandwidth and latency of one row may be of separate tests, as those of kbench are: a column
`tool` or the file's name says so, or the figures contradict each other. Each test becomes a result
of its own, `WORKLOAD-iops`, `-bandwidth` and `-latency`.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from leadline.files import DOCUMENT, ReadingCost
from leadline.formats.foreign import kbench
from leadline.formats.importer import Importer, Result
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
from leadline.metrics import Op
from leadline.units import parse_fio_size, parse_size

TOOL: Final = "table"
_MIB = 1 << 20
_LARGEST = 2**63 - 1
_PERCENTILES = {
    "lat_p50_ms": 0.5,
    "lat_p95_ms": 0.95,
    "lat_p99_ms": 0.99,
    "lat_p999_ms": 0.999,
    "lat_p9999_ms": 0.9999,
}
_MOMENTS = ("lat_mean_ms", "lat_min_ms", "lat_max_ms", "lat_stddev_ms")
_NEEDED = ("target", "workload", "op")
_FIGURES = ("iops", "bw_mib_s", *_MOMENTS, *_PERCENTILES, "total_ios")
_SHAPE = ("block_size", "numjobs", "iodepth", "runtime_s", "engine", "file_size", "direct")
_TRIAL = ("trial", "repeat")
_LABEL = "label:"
_TOOL_COLUMN: Final = "tool"
_KNOWN = frozenset({"cluster", "pattern", _TOOL_COLUMN, *_NEEDED, *_FIGURES, *_SHAPE, *_TRIAL})
_PATTERNS = (
    *("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"),
    *("trim", "randtrim", "trimwrite"),
)
# A head wider than that is no table of results; each unknown column is compared to all known ones.
_MOST_COLUMNS = 500
# The figures of each of a row's tests.
_TESTS: Mapping[kbench.TestKind, frozenset[str]] = {
    kbench.TestKind.IOPS: frozenset({"iops", "total_ios"}),
    kbench.TestKind.BANDWIDTH: frozenset({"bw_mib_s"}),
    kbench.TestKind.LATENCY: frozenset({*_MOMENTS, *_PERCENTILES}),
}
_COLUMN_OF_OPTION = {
    "bs": "block_size",
    "numjobs": "numjobs",
    "iodepth": "iodepth",
    "ioengine": "engine",
    "direct": "direct",
}
# Bytes per I/O within this of a power of two are of one test: tables are rounded.
_NEAR_A_BLOCK = 0.03
_SEPARATORS = (",", ";", "\t")
_DIRECT = {"1": "1", "true": "1", "yes": "1", "0": "0", "false": "0", "no": "0"}
_NUMBER = re.compile(r"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,3})?")
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_SIZE_FORM = re.compile(r"[\d.]{1,40} ?[A-Za-z]{0,3}")
# As plans write labels.
_LABEL_WORD = re.compile(r"[^\x00-\x1f\x7f=,]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the table: its texts by column, blank ones left out."""

    line: int
    cells: Mapping[str, str]

    @property
    def load(self) -> tuple[str, ...]:
        return tuple(self.cells.get(key, "") for key in ("cluster", "target", "workload", *_SHAPE))


def read_table(content: bytes, name: str = "") -> tuple[Result, ...]:
    """A result for each trial, in the order of their first rows; `name` is the file's. Raises
    FormatError (`empty-result`), (`truncated-result`) or (`unreadable-result`) with line and
    column."""
    text = _text(content)
    if not text.strip():
        raise FormatError.empty(f"the file is empty ({len(content)} bytes)")
    rows = _rows(text)
    head = next(rows, None)
    if head is None:
        raise FormatError.empty("the table has no cell with anything in it")
    columns, notes = _columns(*head)
    cut_line = 0 if text.endswith(("\n", "\r")) else text.count("\n") + 1
    trials: dict[tuple[str, ...], dict[Op, _Row]] = {}
    # How often an operation of the same load has been met, where no column counts trials.
    met: Counter[tuple[str, ...]] = Counter()
    labels = _Labels()
    given_rows = [_row(line, cells, columns, cut=line == cut_line) for line, cells in rows]
    for row in _tests(given_rows, name, notes):
        op = _op(row)
        labels.take(row)
        given = [row.cells[key] for key in _TRIAL if key in row.cells]
        key = (*row.load, op.value)
        met[key] += not given
        trial = trials.setdefault((*row.load, *(given or ("", str(met[key])))), {})
        if op in trial:
            raise FormatError.unreadable(
                f"line {row.line}: trial {given[0][:60]!r} has a {op.value} row already, on line "
                f"{trial[op].line}"
            )
        trial[op] = row
    if not trials:
        raise FormatError.empty("the table has a head and no rows")
    return tuple(
        _result(trial, tuple(notes) if not number else (), labels)
        for number, trial in enumerate(trials.values())
    )


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError.unreadable(
            f"line {line}: the table is not UTF-8",
            f"byte {error.start} is 0x{content[error.start]:02x}",
        ) from error


def _separator(head: str) -> str:
    """The one that splits the head into the most columns that are known."""
    return max(_SEPARATORS, key=lambda entry: len(_KNOWN & _heads(head.split(entry))))


def _heads(cells: Sequence[str]) -> set[str]:
    return {_head(cell) for cell in cells}


def _head(cell: str) -> str:
    return cell.strip().strip('"').strip().lower()


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold anything, with the line on which each begins. Raises FormatError."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(first), strict=True)
    line = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cut = "unexpected end" in str(error)
            raise FormatError.unreadable(f"line {line}: {error}", cut=cut) from error
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = reader.line_num + 1


def _columns(line: int, heads: Sequence[str]) -> tuple[tuple[str, ...], list[Note]]:
    columns = tuple(_head(cell) for cell in heads)
    if len(columns) > _MOST_COLUMNS:
        raise FormatError.unreadable(f"line {line}: a head of {len(columns)} columns")
    for number, column in enumerate(columns, start=1):
        known = column in _KNOWN or column.startswith(_LABEL)
        if known and columns.index(column) < number - 1:
            raise FormatError.unreadable(
                f"line {line}: the column {column!r} is there twice",
                f"columns {columns.index(column) + 1} and {number}",
            )
    both = [key for key in _TRIAL if key in columns]
    missing = [key for key in _NEEDED if key not in columns]
    if not any(key in columns for key in _FIGURES):
        missing.append("iops")
    if missing or len(both) > 1:
        what = f"needs the columns {', '.join(missing)}" if missing else "has trial and repeat"
        raise FormatError.unreadable(
            f"line {line}: a table of results {what}"
            + (" or another figure" if "iops" in missing else ""),
            *(_nearest(key, columns) for key in missing),
        )
    notes = [
        Note(
            NoteKind.UNKNOWN_FIELD,
            f"line {line}, column {number}",
            f"the column {column!r} is not known and is left out" + _near(column),
        )
        for number, column in enumerate(columns, start=1)
        if column and column not in _KNOWN and not column.startswith(_LABEL)
    ]
    nameless = next(
        (entry for entry in columns if entry.startswith(_LABEL) and not _key(entry)), None
    )
    if nameless:
        raise FormatError.unreadable(
            f"line {line}: the column {nameless!r} names no label; write it as 'label:cores'"
        )
    return columns, notes


def _nearest(missing: str, columns: Sequence[str]) -> str:
    near = difflib.get_close_matches(missing, [column[:60] for column in columns if column], n=1)
    return f"{missing}: " + (f"the nearest column is {near[0]!r}" if near else "none is like it")


def _near(column: str) -> str:
    near = difflib.get_close_matches(column[:60], sorted(_KNOWN), n=1)
    return f"; the nearest that is known is {near[0]!r}" if near else ""


def _row(line: int, cells: Sequence[str], columns: Sequence[str], *, cut: bool) -> _Row:
    if len(cells) < len(columns) or any(cell.strip() for cell in cells[len(columns) :]):
        short = len(cells) < len(columns)
        raise FormatError.unreadable(
            f"line {line} has {len(cells)} cells and the head {len(columns)} columns",
            f"it says: {','.join(cells)[:160]!r}",
            cut=cut and short,
        )
    values = {
        column or f"column {number}": cell.strip()
        for number, (column, cell) in enumerate(zip(columns, cells, strict=False), start=1)
        if cell.strip()
    }
    nameless = next(
        (key for key in values if key.startswith("column ") and key not in columns), None
    )
    if nameless:
        raise FormatError.unreadable(f"line {line}: {nameless} has a value and its head no name")
    for key in _NEEDED:
        if key not in values:
            raise FormatError.unreadable(f"line {line}: the column {key!r} is blank")
    return _Row(line=line, cells=values)


def _tests(rows: Sequence[_Row], name: str, notes: list[Note]) -> Iterator[_Row]:
    """Yield a row for each test: several for a row whose figures are of separate tests."""
    by_name = kbench.TOOL in name.rpartition("/")[2].lower()
    contradictory = bool(rows) and all(map(_contradicts_itself, rows))
    noted = False
    for row in rows:
        tool = row.cells.get(_TOOL_COLUMN, kbench.TOOL if by_name else "").lower()
        if tool != kbench.TOOL and not (contradictory and _TOOL_COLUMN not in row.cells):
            yield row
            continue
        parts = tuple(_parts(row, known=tool == kbench.TOOL))
        if not noted and tool == kbench.TOOL and any(_depth_unknown(part) for part in parts):
            where = f"line {row.line}"
            notes.append(Note(NoteKind.LEFT_OUT, where, kbench.LATENCY_DEPTH_UNKNOWN))
            noted = True
        elif not noted and tool != kbench.TOOL:
            fact = (
                "IOPS times any block size is not the bandwidth in any row: IOPS, bandwidth and "
                "latency are of separate tests, of unknown block size and depth"
            )
            notes.append(Note(NoteKind.LEFT_OUT, f"line {row.line}", fact))
            noted = True
        yield from parts or (row,)


def _parts(row: _Row, *, known: bool) -> Iterator[_Row]:
    """Yield the tests of a row; `known`: they are kbench's, which has block size and depth of its
    own for each."""
    shared = {key: text for key, text in row.cells.items() if key not in _FIGURES}
    for kind, columns in _TESTS.items():
        figures = {key: text for key, text in row.cells.items() if key in columns}
        if not figures:
            continue
        options = kbench.fixed_options(kind) if known else {}
        load = {_COLUMN_OF_OPTION[option]: text for option, text in options.items()}
        workload = f"{row.cells['workload']}-{kind.value}"
        yield _Row(line=row.line, cells={**load, **shared, "workload": workload, **figures})


def _depth_unknown(row: _Row) -> bool:
    return "iodepth" not in row.cells


def _contradicts_itself(row: _Row) -> bool:
    """Test whether a row without block size, depth and jobs has bytes per I/O that no block size
    is."""
    if {"block_size", "iodepth", "numjobs"} & row.cells.keys():
        return False
    try:
        each = float(row.cells["bw_mib_s"]) * _MIB / float(row.cells["iops"])
    except (KeyError, ValueError, ZeroDivisionError):
        return False
    if not 0 < each < math.inf:
        return False
    return bool(abs(each / 2.0 ** round(math.log2(each)) - 1) > _NEAR_A_BLOCK)


def _op(row: _Row) -> Op:
    text = row.cells["op"].lower()
    if text in list(Op):
        return Op(text)
    raise _bad(row, "op", f"expected one of {', '.join(Op)}")


def _bad(row: _Row, column: str, expected: str) -> FormatError:
    return FormatError.unreadable(
        f"line {row.line}, column {column!r}: {row.cells[column][:60]!r}; {expected}"
    )


def _key(column: str) -> str:
    """Return the label of a column; empty for other columns and for a word that no plan accepts."""
    key = column.removeprefix(_LABEL).strip() if column.startswith(_LABEL) else ""
    return key if _LABEL_WORD.fullmatch(key) else ""


class _Labels:
    """Labels of targets, which are equal in all rows of one target."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[str, tuple[str, int]]] = {}

    def take(self, row: _Row) -> None:
        """Raises FormatError for a label that differs in another row of the target."""
        of_target = self._values.setdefault(_whose(row), {})
        for column, value in row.cells.items():
            key = _key(column)
            if not key:
                continue
            if not _LABEL_WORD.fullmatch(value):
                raise _bad(row, column, "expected a word without , and =, 100 letters at most")
            before, line = of_target.setdefault(key, (value, row.line))
            if before != value:
                raise FormatError.unreadable(
                    f"line {row.line}: target {row.cells['target'][:60]!r} has the {key} "
                    f"{value!r}, and {before!r} on line {line}",
                    "labels are a target's: give what differs names of its own",
                )

    def row_labels(self, row: _Row) -> dict[str, str]:
        return {key: value for key, (value, _) in self._values.get(_whose(row), {}).items()}


def _whose(row: _Row) -> tuple[str, str]:
    return row.cells.get("cluster", ""), row.cells["target"]


def _result(trial: Mapping[Op, _Row], notes: tuple[Note, ...], labels: _Labels) -> Result:
    first = next(iter(trial.values()))
    found = list(notes)
    jobs: dict[str, list[tuple[_Row, Operation]]] = {}
    for op, row in trial.items():
        operation = _operation(op, row, found)
        if operation is not None:
            jobs.setdefault(row.cells.get("pattern", "").lower(), []).append((row, operation))
    output: EngineOutput | FormatError
    if jobs:
        output = EngineOutput(
            version=TOOL,
            jobs=tuple(
                JobResult(
                    name=first.cells["workload"],
                    group=group,
                    options=_options(parts[0][0], found),
                    operations=tuple(operation for _, operation in parts),
                )
                for group, parts in enumerate(jobs.values())
            ),
            notes=tuple(found),
        )
    else:
        output = FormatError.empty(f"line {first.line} gives no figure that can be")
    return Result(
        workload=first.cells["workload"],
        output=output,
        target=first.cells["target"],
        cluster=first.cells.get("cluster", ""),
        tool=TOOL,
        labels=labels.row_labels(first),
    )


def _operation(op: Op, row: _Row, notes: list[Note]) -> Operation | None:
    figures = {
        key: value
        for key in _FIGURES
        if key in row.cells and (value := _figure(row, key, notes)) is not None
    }
    if not figures:
        return None
    total_ios = figures.get("total_ios")
    return Operation(
        op=op,
        iops=figures.get("iops"),
        bandwidth_bps=figures.get("bw_mib_s"),
        total_ios=int(total_ios) if total_ios is not None else None,
        total=_latency(figures),
    )


def _latency(figures: Mapping[str, float]) -> Latency | None:
    percentiles = {
        quantile: figures[key] for key, quantile in _PERCENTILES.items() if key in figures
    }
    if not percentiles and not any(key in figures for key in _MOMENTS):
        return None
    return Latency(
        mean_s=figures.get("lat_mean_ms"),
        min_s=figures.get("lat_min_ms"),
        max_s=figures.get("lat_max_ms"),
        stddev_s=figures.get("lat_stddev_ms"),
        percentiles=percentiles,
    )


def _figure(row: _Row, column: str, notes: list[Note]) -> float | None:
    """A figure in base units; None and a note where it cannot be. Raises FormatError."""
    text = row.cells[column]
    if not _NUMBER.fullmatch(text) and not _NOT_FINITE.fullmatch(text):
        comma = " (write a point and no separators of thousands)" if "," in text else ""
        raise _bad(row, column, f"expected a number{comma}")
    # Shifted as a decimal, so that 0.018 ms are the number that 1.8e-05 s are.
    value = float(Decimal(text).scaleb(-3) if column.endswith("_ms") else text)
    if column == "bw_mib_s":
        value *= _MIB
    whole = column != "total_ios" or (value <= _LARGEST and value.is_integer())
    if math.isfinite(value) and value >= 0 and whole:
        return value
    notes.append(
        Note(
            NoteKind.IMPOSSIBLE_VALUE,
            f"line {row.line}, column {column!r}",
            f"{text[:60]!r} cannot be and is left out",
        )
    )
    return None


def _options(row: _Row, notes: list[Note]) -> JobOptions:
    """Make fio's options of the load of a row. Raises FormatError."""
    cells, raw = row.cells, {}
    if "pattern" in cells:
        raw["rw"] = cells["pattern"].lower()
        if raw["rw"] not in _PATTERNS:
            raise _bad(row, "pattern", f"expected one of {', '.join(_PATTERNS)}")
    for column, option in (("block_size", "bs"), ("file_size", "size")):
        if column in cells:
            raw[option] = _size(row, column)
    for column in ("numjobs", "iodepth"):
        if column in cells:
            if not re.fullmatch(r"[1-9]\d{0,8}", cells[column]):
                raise _bad(row, column, "expected a whole number above 0")
            raw[column] = cells[column]
    if "runtime_s" in cells:
        seconds = _figure(row, "runtime_s", notes)
        if seconds is not None:
            raw["runtime"] = f"{seconds:.12g}s"
    if "engine" in cells:
        raw["ioengine"] = cells["engine"]
    if "direct" in cells:
        if cells["direct"].lower() not in _DIRECT:
            raise _bad(row, "direct", "expected 0 or 1")
        raw["direct"] = _DIRECT[cells["direct"].lower()]
    return JobOptions(raw=raw, whole=False)


def _size(row: _Row, column: str) -> str:
    """Return the text where fio reads the same size, else bytes: to fio `4KiB` is 4000."""
    text = row.cells[column]
    try:
        size = parse_size(text) if _SIZE_FORM.fullmatch(text) else None
    except ValueError:
        size = None
    if size is None:
        raise _bad(row, column, "expected a size such as 4k, 1M or 10G")
    return text if parse_fio_size(text) == size else str(size)


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    return tuple(
        result for name, content in contents.items() for result in read_table(content, name)
    )


def _recognises(_name: str, head: bytes) -> bool:
    lines = head.decode("utf-8-sig", "replace").splitlines()
    first = next((line for line in lines if line.strip()), "")[:4000]
    heads = _heads(first.split(_separator(first)))
    # One of the needed columns may have another name: the reader then says which.
    return len(heads & set(_NEEDED)) >= 2 and len(heads & _KNOWN) >= 3


IMPORTER = Importer(
    kind="table",
    summary="CSV of summaries: target, workload, op and figures",
    recognises=_recognises,
    read=_read,
    # Each line is a result.
    cost=ReadingCost(each={**DOCUMENT.each, b"\n": 1700}),
)
