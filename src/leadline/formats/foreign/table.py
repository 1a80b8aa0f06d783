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

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

from leadline.files import DOCUMENT, ReadingCost
from leadline.formats.foreign import kbench
from leadline.formats.foreign.columns import (
    CPU,
    FIGURES,
    KNOWN,
    LATENCIES,
    NEEDED,
    NUMBER,
    SPREADS,
    TOOL_COLUMN,
    TRIAL,
    guess_columns,
    known_column,
    with_known_columns,
)
from leadline.formats.foreign.table_rows import (
    DECIMAL,
    Labels,
    Row,
    bad_cell,
    check_columns,
    decode_table,
    find_op,
    find_separator,
    normalise_heads,
    read_row,
    refuse_other_systems,
    split_rows,
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
_PATTERNS = (
    *("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"),
    *("trim", "randtrim", "trimwrite"),
)
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
_DIRECT = {"1": "1", "true": "1", "yes": "1", "0": "0", "false": "0", "no": "0"}
_NOT_FINITE = re.compile(r"[-+]?(?:nan|inf|infinity)", re.IGNORECASE)
_SIZE_FORM = re.compile(r"[\d.]{1,40} ?[A-Za-z]{0,3}")


def read_table(
    content: bytes, name: str = "", columns: Mapping[str, str] | None = None
) -> tuple[Result, ...]:
    """A result for each trial, in the order of their first rows.

    `name` is the file's, `columns` its columns that have another name (`guess_columns`). Raises
    FormatError (`empty-result`), (`truncated-result`) or (`unreadable-result`) with line and
    column."""
    text = decode_table(content)
    if not text.strip():
        raise FormatError.empty(f"the file is empty ({len(content)} bytes)")
    names = columns or {}
    unread: dict[str, list[int]] = {}
    rows = with_known_columns(split_rows(text), names, unread) if names else split_rows(text)
    head = next(rows, None)
    if head is None:
        raise FormatError.empty("the table has no cell with anything in it")
    heads, notes = check_columns(*head, renamed=bool(names))
    cut_line = 0 if text.endswith(("\n", "\r")) else text.count("\n") + 1
    trials: dict[tuple[str, ...], dict[Op, Row]] = {}
    # How often an operation of the same load has been met, where no column counts trials.
    met: Counter[tuple[str, ...]] = Counter()
    labels = Labels()
    given_rows = [read_row(line, cells, heads, names, cut=line == cut_line) for line, cells in rows]
    if names:
        refuse_other_systems(given_rows, heads)
    notes += [
        Note(
            NoteKind.UNKNOWN_FIELD,
            f"line {lines[0]}, column 'metric'",
            f"{metric!r} is no known figure and is left out ({len(lines)} rows)",
        )
        for metric, lines in unread.items()
    ]
    for row in _tests(given_rows, name, notes):
        op = find_op(row)
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


def _tests(rows: Sequence[Row], name: str, notes: list[Note]) -> Iterator[Row]:
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
        if not noted and tool == kbench.TOOL and any("iodepth" not in part.cells for part in parts):
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


def _parts(row: Row, *, known: bool) -> Iterator[Row]:
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


def _contradicts_itself(row: Row) -> bool:
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


def _result(trial: Mapping[Op, Row], notes: tuple[Note, ...], labels: Labels) -> Result:
    first = next(iter(trial.values()))
    found = list(notes)
    jobs: dict[str, list[tuple[Row, Operation]]] = {}
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


def _operation(op: Op, row: Row, notes: list[Note]) -> Operation | None:
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


def _spreads(row: Row, figures: Mapping[str, float], notes: list[Note]) -> dict[Metric, Spread]:
    """The scatter of trials behind the means of a row. Raises FormatError."""
    number = _number_of_trials(row)
    found = {}
    for figure, (deviation, share) in SPREADS.items():
        given = [column for column in (deviation, share) if column in row.cells]
        if not given or figure not in figures:
            continue
        if len(given) > 1:
            raise bad_cell(row, share, f"{deviation} is given as well; keep one of the two")
        if number is None:
            raise bad_cell(row, given[0], f"expected a column {NUMBER!r}: the trials behind it")
        if given[0] == share:
            value: float | None = _share(row, share, figures[figure])
        else:
            value = _figure(row, deviation, notes)
        if value is not None:
            found[_METRICS[figure]] = Spread(deviation=value, number=number)
    return found


def _number_of_trials(row: Row) -> int | None:
    if NUMBER not in row.cells:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", row.cells[NUMBER]):
        raise bad_cell(row, NUMBER, "expected the number of trials, a whole number above 0")
    number = int(row.cells[NUMBER])
    spread = next((key for pair in SPREADS.values() for key in pair if key in row.cells), None)
    if number == 1 and spread is not None:
        raise bad_cell(row, NUMBER, f"one trial has no scatter, and {spread!r} is given")
    return number


def _share(row: Row, column: str, mean: float) -> float:
    """A standard deviation from a coefficient of variation: 0.032 or 3.2 %. Raises FormatError."""
    text, percent, _ = row.cells[column].partition("%")
    if DECIMAL.fullmatch(text.strip()):
        share = float(text) / (100 if percent else 1)
        if 0 <= share < 1:
            return share * mean
    raise bad_cell(row, column, "expected a share below 1 such as 0.032, or 3.2%")


def _cpu(row: Row, column: str) -> float | None:
    """A job's use of one core as a share; the table has per cent, as fio. Raises FormatError."""
    if column not in row.cells:
        return None
    text = row.cells[column].removesuffix("%").strip()
    if not DECIMAL.fullmatch(text) or not 0 <= float(text) <= 100:
        raise bad_cell(row, column, "expected per cent of one core, 0 to 100")
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


def _figure(row: Row, column: str, notes: list[Note]) -> float | None:
    """A figure in base units; None and a note where it cannot be. Raises FormatError."""
    text = row.cells[column]
    if not DECIMAL.fullmatch(text) and not _NOT_FINITE.fullmatch(text):
        comma = " (write a point and no separators of thousands)" if "," in text else ""
        raise bad_cell(row, column, f"expected a number{comma}")
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


def _options(row: Row, notes: list[Note]) -> JobOptions:
    """Make fio's options of the load of a row. Raises FormatError."""
    cells, raw = row.cells, {}
    if "pattern" in cells:
        raw["rw"] = cells["pattern"].lower()
        if raw["rw"] not in _PATTERNS:
            raise bad_cell(row, "pattern", f"expected one of {', '.join(_PATTERNS)}")
    for column, option in (("block_size", "bs"), ("file_size", "size")):
        if column in cells:
            raw[option] = _size(row, column)
    for column in ("numjobs", "iodepth"):
        if column in cells:
            if not re.fullmatch(r"[1-9]\d{0,8}", cells[column]):
                raise bad_cell(row, column, "expected a whole number above 0")
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
            raise bad_cell(row, "direct", "expected 0 or 1")
        raw["direct"] = _DIRECT[cells["direct"].lower()]
    return JobOptions(raw=raw, whole=False)


def _load(row: Row, jobs: int) -> dict[str, str]:
    """Clients, mix and rate cap as options. The jobs of all clients are `numjobs`, so that Little's
    law and the load count them all. Raises FormatError."""
    cells, raw = row.cells, {}
    if "clients" in cells:
        if not re.fullmatch(r"[1-9]\d{0,5}", cells["clients"]):
            raise bad_cell(row, "clients", "expected a whole number above 0")
        raw["clients"] = cells["clients"]
        jobs *= int(cells["clients"])
        raw["numjobs"] = str(jobs)
    if "read_share" in cells:
        text = cells["read_share"].removesuffix("%").strip()
        if not re.fullmatch(r"\d{1,3}", text) or int(text) > 100:
            raise bad_cell(
                row, "read_share", "expected per cent of reads, a whole number up to 100"
            )
        raw["rwmixread"] = text
    if "rate_cap_iops" in cells:
        cap = cells["rate_cap_iops"]
        if not DECIMAL.fullmatch(cap) or float(cap) <= 0:
            raise bad_cell(row, "rate_cap_iops", "expected I/Os per second above 0")
        # fio's option is the rate of each job.
        raw["rate_iops"] = f"{float(cap) / jobs:.12g}"
    return raw


def _size(row: Row, column: str) -> str:
    """Return the text where fio reads the same size, else bytes: to fio `4KiB` is 4000."""
    text = row.cells[column]
    try:
        size = parse_size(text) if _SIZE_FORM.fullmatch(text) else None
    except ValueError:
        size = None
    if size is None:
        raise bad_cell(row, column, "expected a size such as 4k, 1M or 10G")
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
        _, heads = next(split_rows(decode_table(content)), (0, []))
        return guess_columns(heads, given)
    return dict(given)


def _recognises(_name: str, head: bytes) -> bool:
    lines = head.decode("utf-8-sig", "replace").splitlines()
    first = next((line for line in lines if line.strip()), "")[:4000]
    cells = first.split(find_separator(first))
    heads = normalise_heads(cells)
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
