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

Columns may have other names (`columns.py`). A mean over trials has its scatter in `iops_sd` or
`iops_cv` (and so for each figure) and the number of trials in `n`.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from leadline.files import DOCUMENT, ReadingCost
from leadline.formats.foreign import kbench
from leadline.formats.foreign.columns import (
    CPU,
    FIGURES,
    KNOWN,
    LABEL,
    LATENCIES,
    NEEDED,
    NUMBER,
    SHAPE,
    SPREADS,
    TOOL_COLUMN,
    TRIAL,
    UNITS,
    guess_columns,
    known_column,
    with_known_columns,
)
from leadline.formats.importer import MOST_RESULTS, Importer, Result
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
from leadline.metrics import Metric, Op, Spread
from leadline.units import parse_fio_size, parse_size

TOOL: Final = "table"
_MIB = 1 << 20
_LARGEST = 2**63 - 1
_PERCENTILES = {f"{base}_ms": quantile for base, quantile in LATENCIES.items()}
_MOMENTS = ("lat_mean_ms", "lat_min_ms", "lat_max_ms", "lat_stddev_ms")
# What a pattern does, where no column says it.
_OF_PATTERN = {
    **dict.fromkeys(("read", "randread"), Op.READ),
    **dict.fromkeys(("write", "randwrite"), Op.WRITE),
    **dict.fromkeys(("trim", "randtrim"), Op.TRIM),
    **dict.fromkeys(("rw", "readwrite", "randrw"), Op.TOTAL),
}
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
    """One line of the table: its texts by known column, blank ones left out."""

    line: int
    cells: Mapping[str, str]
    # What the table calls a column and says there, where it has another name or unit.
    given: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def load(self) -> tuple[str, ...]:
        return tuple(self.cells.get(key, "") for key in ("cluster", "target", "workload", *SHAPE))


def read_table(
    content: bytes, name: str = "", columns: Mapping[str, str] | None = None
) -> tuple[Result, ...]:
    """A result for each trial, in the order of their first rows.

    `name` is the file's, `columns` its columns that have another name (`guess_columns`). Raises
    FormatError (`empty-result`), (`truncated-result`) or (`unreadable-result`) with line and
    column."""
    text = _text(content)
    if not text.strip():
        raise FormatError.empty(f"the file is empty ({len(content)} bytes)")
    names = columns or {}
    unread: dict[str, list[int]] = {}
    rows = with_known_columns(_rows(text), names, unread) if names else _rows(text)
    head = next(rows, None)
    if head is None:
        raise FormatError.empty("the table has no cell with anything in it")
    heads, notes = _columns(*head, renamed=bool(names))
    cut_line = 0 if text.endswith(("\n", "\r")) else text.count("\n") + 1
    trials: dict[tuple[str, ...], dict[Op, _Row]] = {}
    # How often an operation of the same load has been met, where no column counts trials.
    met: Counter[tuple[str, ...]] = Counter()
    labels = _Labels()
    given_rows = [_row(line, cells, heads, names, cut=line == cut_line) for line, cells in rows]
    if names:
        _refuse_other_systems(given_rows, heads)
    notes += [
        Note(
            NoteKind.UNKNOWN_FIELD,
            f"line {lines[0]}, column 'metric'",
            f"{metric!r} is no known figure and is left out ({len(lines)} rows)",
        )
        for metric, lines in unread.items()
    ]
    for row in _tests(given_rows, name, notes):
        op = _op(row)
        labels.take(row)
        given = [row.cells[key] for key in TRIAL if key in row.cells]
        key = (*row.load, op.value)
        met[key] += not given
        trial = trials.setdefault((*row.load, *(given or ("", str(met[key])))), {})
        if len(trials) > MOST_RESULTS:
            raise FormatError.unreadable(
                f"the table has more than {MOST_RESULTS:,} results, the most of an import; split it"
            )
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
    return max(_SEPARATORS, key=lambda entry: len(KNOWN & _heads(head.split(entry))))


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


def _columns(
    line: int, heads: Sequence[str], *, renamed: bool
) -> tuple[tuple[str, ...], list[Note]]:
    columns = tuple(_head(cell) for cell in heads)
    if len(columns) > _MOST_COLUMNS:
        raise FormatError.unreadable(f"line {line}: a head of {len(columns)} columns")
    for number, column in enumerate(columns, start=1):
        known = column in KNOWN or column in UNITS or column.startswith(LABEL)
        if known and columns.index(column) < number - 1:
            raise FormatError.unreadable(
                f"line {line}: the column {column!r} is there twice",
                f"columns {columns.index(column) + 1} and {number}",
            )
    both = [key for key in TRIAL if key in columns]
    # A pattern says the operation, and names the workload with its block size.
    derived = {"workload", "op"} if "pattern" in columns else set()
    missing = [key for key in NEEDED if key not in columns and key not in derived]
    if not {known_column(key) for key in columns} & set(FIGURES):
        missing.append("iops")
    if missing or len(both) > 1:
        what = f"needs the columns {', '.join(missing)}" if missing else "has trial and repeat"
        raise FormatError.unreadable(
            f"line {line}: a table of results {what}"
            + (" or another figure" if "iops" in missing else ""),
            *(_nearest(key, columns) for key in missing),
            *([f"if a column has another name: --columns '{missing[0]}=NAME'"] if missing else []),
        )
    notes = [
        Note(
            NoteKind.UNKNOWN_FIELD,
            # Columns with other names come first, so that numbers are not those of the file.
            f"line {line}, column {column!r}" if renamed else f"line {line}, column {number}",
            f"the column {column!r} is not known and is left out" + _near(column),
        )
        for number, column in enumerate(columns, start=1)
        if column and column not in KNOWN and column not in UNITS and not column.startswith(LABEL)
    ]
    nameless = next(
        (entry for entry in columns if entry.startswith(LABEL) and not _key(entry)), None
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
    near = difflib.get_close_matches(column[:60], sorted(KNOWN), n=1)
    return f"; the nearest that is known is {near[0]!r}" if near else ""


def _refuse_other_systems(rows: Sequence[_Row], columns: Sequence[str]) -> None:
    """Raise FormatError for rows of one load that differ in a column that is not read: they may be
    of different systems, and would be taken for trials of one."""
    unread = [key for key in columns if key and key not in KNOWN and key not in UNITS]
    unread = [key for key in unread if not key.startswith(LABEL)]
    first: dict[tuple[str, ...], _Row] = {}
    for row in rows:
        if any(key in row.cells for key in TRIAL):
            continue
        before = first.setdefault((*row.load, row.cells["op"].lower()), row)
        differs = next((key for key in unread if before.cells.get(key) != row.cells.get(key)), None)
        if differs is not None:
            target = row.given.get("target", ("target", ""))[0]
            raise FormatError.unreadable(
                f"lines {before.line} and {row.line} are of one target, workload and load, and "
                f"differ in the column {differs!r}, which is not read",
                f"of two systems: --columns 'target={target}+{differs}'",
                f"repeats of one: --columns 'trial={differs}'",
            )


def _row(
    line: int,
    cells: Sequence[str],
    columns: Sequence[str],
    names: Mapping[str, str],
    *,
    cut: bool,
) -> _Row:
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
    given = {key: (names[key], values[key]) for key in values if names.get(key)}
    for key in [key for key in values if key in UNITS]:
        base, factor = UNITS[key]
        if base in values:
            raise FormatError.unreadable(f"line {line}: {key!r} and {base!r} are the same figure")
        text = values.pop(key)
        given[base] = (names.get(key, key), text)
        values[base] = _times(text, factor)
    _derive(values, columns)
    for key in NEEDED:
        if key not in values:
            name = names.get(key, key)
            raise FormatError.unreadable(f"line {line}: the column {name!r} is blank")
    return _Row(line=line, cells=values, given=given)


def _times(text: str, factor: Decimal) -> str:
    """A number in another unit; what is no number is left for the error that names it."""
    return str(Decimal(text) * factor) if _NUMBER.fullmatch(text) else text


def _derive(values: dict[str, str], columns: Sequence[str]) -> None:
    pattern = values.get("pattern", "").lower()
    if "op" not in columns and pattern in _OF_PATTERN:
        values["op"] = _OF_PATTERN[pattern].value
    if "workload" not in columns and pattern:
        values["workload"] = "-".join(filter(None, (pattern, values.get("block_size", ""))))


def _tests(rows: Sequence[_Row], name: str, notes: list[Note]) -> Iterator[_Row]:
    """Yield a row for each test: several for a row whose figures are of separate tests."""
    by_name = kbench.TOOL in name.rpartition("/")[2].lower()
    contradictory = bool(rows) and all(map(_contradicts_itself, rows))
    noted = False
    for row in rows:
        tool = row.cells.get(TOOL_COLUMN, kbench.TOOL if by_name else "").lower()
        if tool != kbench.TOOL and not (contradictory and TOOL_COLUMN not in row.cells):
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
    shared = {key: text for key, text in row.cells.items() if key not in FIGURES}
    for kind, columns in _TESTS.items():
        figures = {key: text for key, text in row.cells.items() if key in columns}
        if not figures:
            continue
        options = kbench.fixed_options(kind) if known else {}
        load = {_COLUMN_OF_OPTION[option]: text for option, text in options.items()}
        workload = f"{row.cells['workload']}-{kind.value}"
        yield replace(row, cells={**load, **shared, "workload": workload, **figures})


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
    name, text = row.given.get(column, (column, row.cells[column]))
    return FormatError.unreadable(f"line {row.line}, column {name!r}: {text[:60]!r}; {expected}")


def _key(column: str) -> str:
    """Return the label of a column; empty for other columns and for a word that no plan accepts."""
    key = column.removeprefix(LABEL).strip() if column.startswith(LABEL) else ""
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
                    user_cpu=_cpu(parts[0][0], CPU[0]),
                    system_cpu=_cpu(parts[0][0], CPU[1]),
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
        for key in FIGURES
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
        spreads=_spreads(row, figures, notes),
    )


# Figure -> the metric that it is.
_METRICS: Mapping[str, Metric] = {
    "iops": Metric.IOPS,
    "bw_mib_s": Metric.BANDWIDTH,
    "lat_mean_ms": Metric.LATENCY_MEAN,
    **{f"{base}_ms": Metric(f"latency_{base.removeprefix('lat_')}") for base in LATENCIES},
}


def _spreads(row: _Row, figures: Mapping[str, float], notes: list[Note]) -> dict[Metric, Spread]:
    """The scatter of trials behind the means of a row. Raises FormatError."""
    number = _number_of_trials(row)
    found = {}
    for figure, (deviation, share) in SPREADS.items():
        given = [column for column in (deviation, share) if column in row.cells]
        if not given or figure not in figures:
            continue
        if len(given) > 1:
            raise _bad(row, share, f"{deviation} is given as well; keep one of the two")
        if number is None:
            raise _bad(row, given[0], f"expected a column {NUMBER!r}: the trials behind it")
        if given[0] == share:
            value: float | None = _share(row, share, figures[figure])
        else:
            value = _figure(row, deviation, notes)
        if value is not None:
            found[_METRICS[figure]] = Spread(deviation=value, number=number)
    return found


def _number_of_trials(row: _Row) -> int | None:
    if NUMBER not in row.cells:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", row.cells[NUMBER]):
        raise _bad(row, NUMBER, "expected the number of trials, a whole number above 0")
    number = int(row.cells[NUMBER])
    spread = next((key for pair in SPREADS.values() for key in pair if key in row.cells), None)
    if number == 1 and spread is not None:
        raise _bad(row, NUMBER, f"one trial has no scatter, and {spread!r} is given")
    return number


def _share(row: _Row, column: str, mean: float) -> float:
    """A standard deviation from a coefficient of variation: 0.032 or 3.2 %. Raises FormatError."""
    text, percent, _ = row.cells[column].partition("%")
    if _NUMBER.fullmatch(text.strip()):
        share = float(text) / (100 if percent else 1)
        if 0 <= share < 1:
            return share * mean
    raise _bad(row, column, "expected a share below 1 such as 0.032, or 3.2%")


def _cpu(row: _Row, column: str) -> float | None:
    """A job's use of one core as a share; the table has per cent, as fio. Raises FormatError."""
    if column not in row.cells:
        return None
    text = row.cells[column].removesuffix("%").strip()
    if not _NUMBER.fullmatch(text) or not 0 <= float(text) <= 100:
        raise _bad(row, column, "expected per cent of one core, 0 to 100")
    return float(text) / 100


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
    if column in ("bw_mib_s", "bw_sd_mib_s"):
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
    raw |= _load(row, int(raw.get("numjobs", 1)))
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


def _load(row: _Row, jobs: int) -> dict[str, str]:
    """Clients, mix and rate cap as options. The jobs of all clients are `numjobs`, so that Little's
    law and the load count them all. Raises FormatError."""
    cells, raw = row.cells, {}
    if "clients" in cells:
        if not re.fullmatch(r"[1-9]\d{0,5}", cells["clients"]):
            raise _bad(row, "clients", "expected a whole number above 0")
        raw["clients"] = cells["clients"]
        jobs *= int(cells["clients"])
        raw["numjobs"] = str(jobs)
    if "read_share" in cells:
        text = cells["read_share"].removesuffix("%").strip()
        if not re.fullmatch(r"\d{1,3}", text) or int(text) > 100:
            raise _bad(row, "read_share", "expected per cent of reads, a whole number up to 100")
        raw["rwmixread"] = text
    if "rate_cap_iops" in cells:
        cap = cells["rate_cap_iops"]
        if not _NUMBER.fullmatch(cap) or float(cap) <= 0:
            raise _bad(row, "rate_cap_iops", "expected I/Os per second above 0")
        # fio's option is the rate of each job.
        raw["rate_iops"] = f"{float(cap) / jobs:.12g}"
    return raw


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
    return _read_columns(contents, _guess(contents, {}))


def _read_columns(contents: Mapping[str, bytes], columns: Mapping[str, str]) -> tuple[Result, ...]:
    return tuple(
        result
        for name, content in contents.items()
        for result in read_table(content, name, columns)
    )


def _guess(contents: Mapping[str, bytes], given: Mapping[str, str]) -> dict[str, str]:
    """The columns of a table that have another name: as given, the others guessed."""
    for content in contents.values():
        _, heads = next(_rows(_text(content)), (0, []))
        return guess_columns(heads, given)
    return dict(given)


def _recognises(_name: str, head: bytes) -> bool:
    lines = head.decode("utf-8-sig", "replace").splitlines()
    first = next((line for line in lines if line.strip()), "")[:4000]
    cells = first.split(_separator(first))
    heads = _heads(cells)
    # One of the needed columns may have another name: the reader then says which.
    if len(heads & set(NEEDED)) >= 2 and len(heads & KNOWN) >= 3:
        return True
    known = {*heads, *guess_columns(cells, {})}
    figures = {known_column(key) for key in known} & set(FIGURES)
    long = {"metric", "value"} <= known
    return "target" in known and bool({"pattern", "op"} & known) and bool(figures or long)


IMPORTER = Importer(
    kind="table",
    summary="CSV of summaries: target, workload, op and figures",
    recognises=_recognises,
    read=_read,
    guess_columns=_guess,
    read_columns=_read_columns,
    # Each line is a result.
    cost=ReadingCost(each={**DOCUMENT.each, b"\n": 1700}),
)
