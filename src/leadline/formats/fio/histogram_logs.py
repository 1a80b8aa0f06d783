"""Latency buckets of fio, and its completion-latency histogram logs (`write_hist_log`).

A bucket's index holds the six highest bits of a latency (`plat_val_to_idx` in fio's stat.c): 64
buckets of one unit, 64 more, then groups of 64 whose buckets are twice as wide as those of the
previous group. fio 2 counts microseconds in 19 groups, fio 3 nanoseconds in 29; the width of a log
shows which. `log_hist_coarseness` adds up 2, 4, ... 64 neighbours.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from leadline.formats.result import FormatError, Note, NoteKind
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

# fio's latency buckets, and its completion-latency histogram logs (`write_hist_log`).
#  A bucket's index holds the six highest bits of a latency (`plat_val_to_idx` in fio's stat.c):
# 64 buckets of one unit, 64 more, then groups of 64 whose buckets are twice as wide as the group
# before them. fio 2 counts microseconds in 19 groups, fio 3 nanoseconds in 29; a log says which
# by its width. `log_hist_coarseness` adds 2, 4, ... 64 neighbours up.

DIRECTIONS: Final = {0: Op.READ, 1: Op.WRITE, 2: Op.TRIM}
_BITS = 6
_GROUP = 1 << _BITS
_COARSEST = 6
# Buckets of fio 2 and fio 3 (FIO_IO_U_PLAT_GROUP_NR), and the nanoseconds of their unit.
_VERSIONS: Final = {19 * _GROUP: 1000, 29 * _GROUP: 1}
# Widths by bucket count and unit: none is both fio 2's and fio 3's.
_LAYOUTS: Final = {
    buckets >> coarseness: (unit_ns, 1 << coarseness)
    for buckets, unit_ns in _VERSIONS.items()
    for coarseness in range(_COARSEST + 1)
}
# A row of fio 3 holds 1,856 counts; longer ones are none of fio's.
_LONGEST_ROW = 1 << 16
_MOST_IOS = 1 << 53
# Seconds between two rows of a job in a drill's log.
ROW_S: Final = 0.25
# The end of the name of such a log, of all jobs together (per_job_logs=0).
HISTOGRAM_LOG: Final = "_clat_hist.log"
_ALLOWED = b"0123456789, \t\r\n"


def bucket_of(value: int) -> int:
    """The bucket of a latency, in the unit that the buckets count."""
    excess = max(0, value.bit_length() - 1 - _BITS)
    return ((excess + 1) << _BITS) + (value >> excess) - _GROUP if excess else value


def bucket_start(index: int) -> int:
    """The smallest latency of a bucket."""
    if index < 2 * _GROUP:
        return index
    shift = (index >> _BITS) - 1
    return (_GROUP + index % _GROUP) << shift


def bucket_value(index: int, width: int = 1) -> int:
    """Return the value that represents `width` buckets from `index` on: their middle, for one
    bucket the value that fio itself prints (`plat_idx_to_val`)."""
    return (bucket_start(index) + bucket_start(index + width)) // 2


TOP_FIO_2_S: Final = bucket_value(19 * _GROUP - 1) / 1e6
TOP_FIO_3_S: Final = bucket_value(29 * _GROUP - 1) / 1e9
# fio prints percentiles rounded down to microseconds or up to milliseconds.
_DOWN_S, _UP_S = 1e-6, 1e-3


def is_bound(percentile_s: float, version: str) -> bool:
    """Test whether a percentile that fio printed is only known to be at least that: its last bucket
    holds all that took longer. `version` may be any text that does not begin with `fio-`."""
    if not version.startswith("fio-2.") and percentile_s >= TOP_FIO_3_S - _DOWN_S:
        return True
    over = percentile_s - TOP_FIO_2_S
    if version.startswith("fio-2."):
        return over >= -_DOWN_S
    return not version.startswith("fio-") and -_DOWN_S <= over <= _UP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramLog:
    """Completion latencies by direction over a whole log, the rows added up. `unit_ns`: of fio's
    latencies in this run; `stride`: fio's buckets per column; `span_s`: the last row's time."""

    unit_ns: int
    stride: int
    span_s: float
    histograms: Mapping[Op, LatencyHistogram]
    notes: tuple[Note, ...]


def parse_histogram_log(name: str, content: bytes) -> HistogramLog:
    """Raises FormatError (`empty-result`, `truncated-result`, `unreadable-result`) with the line.

    The I/Os of the last `log_hist_msec` before the end are in no row: the counts are no total.
    """
    sums: dict[Op, npt.NDArray[np.int64]] = {}
    last_ms = width = 0
    for time_ms, op, added in _rows(name, content):
        width = len(added)
        last_ms = max(last_ms, time_ms)
        sums[op] = sums[op] + added if op in sums else added
    if not width:
        raise FormatError.empty(f"{name} is empty", "line 1")
    unit_ns, stride = _LAYOUTS[width]
    return HistogramLog(
        unit_ns=unit_ns,
        stride=stride,
        span_s=last_ms / 1000,
        histograms={op: _histogram(counted) for op, counted in sums.items()},
        notes=tuple(
            Note(
                NoteKind.LEFT_OUT,
                name,
                f"{int(counted[-1]):,} {op.value}s lie in fio's last bucket, which holds all "
                f"that took longer than {bucket_start((width - 1) * stride) * unit_ns / 1e9:.1f} s",
            )
            for op, counted in sums.items()
            if counted[-1]
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """One row of a log: the I/Os of one job and direction that completed since its row before, at
    `at_s` at the latest, in seconds since 1970 or since the job began."""

    at_s: float
    op: Op
    histogram: LatencyHistogram


def parse_latency_rows(name: str, content: bytes) -> Iterator[LatencyRow]:
    """Yield the rows of a log. Raises FormatError as `parse_histogram_log`."""
    for time_ms, op, counted in _rows(name, content):
        yield LatencyRow(at_s=time_ms / 1000, op=op, histogram=_histogram(counted))


def _histogram(counted: npt.NDArray[np.int64]) -> LatencyHistogram:
    where = _bucket_values(len(counted))
    return LatencyHistogram(where[counted > 0], counted[counted > 0])


@cache
def _bucket_values(width: int) -> npt.NDArray[np.int64]:
    """Return the latency in nanoseconds that represents each column of a row."""
    unit_ns, stride = _LAYOUTS[width]
    values = [bucket_value(index * stride, stride) * unit_ns for index in range(width)]
    return np.array(values, dtype=np.int64)


def _rows(name: str, content: bytes) -> Iterator[tuple[int, Op, npt.NDArray[np.int64]]]:
    """Yield the time in milliseconds, the direction and the counts of each row."""
    width = total = 0
    for number, row in enumerate(io.BytesIO(content), start=1):
        fields = row.split(b",") if len(row) <= _LONGEST_ROW else []
        counts = len(fields) - 3
        cut = not row.endswith(b"\n")
        if (
            counts not in _LAYOUTS
            or (width and counts != width)
            or row.translate(None, _ALLOWED)
            or not all(map(bytes.strip, fields))
        ):
            raise _refused(name, number, row, cut=cut and bool(width))
        width = counts
        values = _integers(fields)
        if values is None or values[1] not in DIRECTIONS:
            raise _refused(name, number, row, cut=False)
        total += sum(values[3:])
        if total > _MOST_IOS or values[0] > _MOST_IOS:
            raise _refused(name, number, row, cut=False)
        yield values[0], DIRECTIONS[values[1]], np.array(values[3:], dtype=np.int64)


def _integers(fields: list[bytes]) -> list[int] | None:
    try:
        return [int(field) for field in fields]
    except ValueError:
        # Digits with blanks between them, or more of them than Python turns into a number.
        return None


def _refused(name: str, number: int, row: bytes, *, cut: bool) -> FormatError:
    return FormatError.unreadable(
        f"{name} ends within a row" if cut else f"a row of {name} is none of a fio histogram log",
        f"line {number}: {row[:60]!r}",
        cut=cut,
    )
