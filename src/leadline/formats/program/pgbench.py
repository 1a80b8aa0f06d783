"""Text output of pgbench 15 and later, and its log of transactions.

`pgbench.txt` has a line per second and the summary; `transactions.log.gz` a line per transaction,
or per transaction of a random sample:

    progress: 1.0 s, 1280.0 tps, lat 3.067 ms stddev 4.455, 0 failed
    number of transactions actually processed: 2602
    tps = 867.390292 (without initial connection time)

    CLIENT NUMBER LATENCY_US SCRIPT EPOCH_S US

Percentiles come from the log alone: the lines per second have means.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from leadline.files import LOG
from leadline.formats.fio.logs import Window
from leadline.formats.program.request import SCRIPTS, ProgramRequest, read_file
from leadline.formats.result import (
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.text import shown, split_lines
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

OUTPUT_FILE: Final = "pgbench.txt"
LOG_FILE: Final = "transactions.log.gz"
SETTINGS_FILE: Final = "settings.txt"
# Two minutes at 400,000 transactions per second; what is parsed at once.
_MOST_LOG_BYTES = 2 << 30
_PIECE_BYTES = 16 << 20
_COLUMNS = 6
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_PROGRESS = re.compile(rf"progress: {_NUMBER} s, {_NUMBER} tps, lat .*")
_FIGURES = {
    "transactions": re.compile(r"number of transactions actually processed: (\d{1,15})(?:/\d+)?"),
    "failed": re.compile(r"number of failed transactions: (\d{1,15}) .*"),
    "tps": re.compile(rf"tps = {_NUMBER} \(without initial connection time\)"),
}


def progress_rate(line: str) -> tuple[float, float] | None:
    """Seconds since the start and transactions per second of a line; None for another line."""
    match = _PROGRESS.fullmatch(line.strip())
    return (float(match[1]), float(match[2])) if match else None


def parse_windows(content: bytes) -> tuple[Window, ...]:
    """Transactions per second in each reported second."""
    return tuple(
        Window(*found)
        for line in split_lines(content)
        if (found := progress_rate(line)) is not None
    )


def read_pgbench(
    folder: Path, prefix: str, request: ProgramRequest
) -> tuple[JobResult, tuple[Note, ...]]:
    """One server's transactions, and notes about those that failed. Raises FormatError."""
    figures = _parse_summary(read_file(folder / f"{prefix}{OUTPUT_FILE}"))
    count, tps = int(figures["transactions"]), figures["tps"]
    if not count or not tps:
        raise FormatError.empty("pgbench completed no transaction")
    histogram = _parse_log(read_file(folder / f"{prefix}{LOG_FILE}", cost=LOG))
    logged, whole = histogram.count, request.logged_share == 1.0
    if logged > count or (whole and logged < count):
        raise FormatError.unreadable(
            f"pgbench processed {count} transactions, and its log has {logged}"
        )
    latency = None
    if logged:
        latency = Latency(
            min_s=float(histogram.values_ns[0]) / 1e9,
            max_s=float(histogram.values_ns[-1]) / 1e9,
            mean_s=histogram.mean_s(),
            count=logged,
            histogram=histogram,
        )
    operation = Operation(
        op=Op.TRANSACTION, iops=tps, total_ios=count, runtime_s=count / tps, total=latency
    )
    job = JobResult(
        name=request.phase.name,
        options=_options(request, folder / f"{prefix}{SETTINGS_FILE}"),
        job_runtime_s=count / tps,
        elapsed_s=count / tps + request.ramp_s,
        operations=(operation,),
    )
    failed = int(figures.get("failed", 0))
    notes = (
        (Note(NoteKind.FAILED_OPERATIONS, OUTPUT_FILE, f"{failed} transactions failed"),)
        if failed
        else ()
    )
    return job, notes


def _parse_summary(content: bytes) -> dict[str, float]:
    figures: dict[str, float] = {}
    for line in split_lines(content):
        for name, form in _FIGURES.items():
            if match := form.fullmatch(line.strip()):
                figures[name] = float(match[1])
    missing = {"transactions", "tps"} - figures.keys()
    if missing:
        last = next((line for line in reversed(split_lines(content)) if line.strip()), "")
        raise FormatError.unreadable(
            f"the output of pgbench has no {' and no '.join(sorted(missing))}",
            shown("it ends with", last),
            cut=progress_rate(last) is not None or not last,
        )
    return figures


def _parse_log(packed: bytes) -> LatencyHistogram:
    """The latencies of the transactions that did not fail, exact to the microsecond. Raises
    FormatError."""
    parts, rest, read = [], b"", 0
    for piece in _unpack(packed):
        read += len(piece)
        if read > _MOST_LOG_BYTES:
            raise FormatError.unreadable(f"{LOG_FILE} has more than {_MOST_LOG_BYTES} bytes")
        whole, _, rest = (rest + piece).rpartition(b"\n")
        parts.append(_parse_lines(whole))
    if rest:
        raise FormatError.truncated(f"{LOG_FILE} ends within a line")
    return LatencyHistogram.merged(parts)


def _unpack(packed: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        while packed and not unpacker.eof:
            yield unpacker.decompress(packed, _PIECE_BYTES)
            packed = unpacker.unconsumed_tail
    except zlib.error as error:
        raise FormatError.unreadable(f"{LOG_FILE} is damaged: {error}") from error
    if not unpacker.eof:
        raise FormatError.truncated(f"{LOG_FILE} is cut")


def _parse_lines(content: bytes) -> LatencyHistogram:
    if b"failed" in content:
        kept = [line for line in content.splitlines() if line.split()[2:3] != [b"failed"]]
        content = b"\n".join(kept)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a word that is no number
            numbers = np.fromstring(content.decode("ascii"), dtype=np.int64, sep=" ")
    except (ValueError, OverflowError, DeprecationWarning) as error:
        raise FormatError.unreadable(f"{LOG_FILE} has a word that is no number") from error
    lines = content.count(b"\n") + 1 if content else 0
    latencies_us = numbers[2::_COLUMNS]
    if len(numbers) != lines * _COLUMNS or (lines and latencies_us.min() < 0):
        raise FormatError.unreadable(f"{LOG_FILE} has a line that is none of pgbench 15")
    values, counts = np.unique(latencies_us, return_counts=True)
    return LatencyHistogram.from_arrays(values * 1000, counts)


def _options(request: ProgramRequest, settings: Path) -> JobOptions:
    """The settings of pgbench, and those of the server that matter for storage."""
    server = {}
    for line in split_lines(read_file(settings)):
        name, equals, value = line.partition("=")
        if equals:
            server[f"postgresql.{name}"] = value
    return JobOptions(
        raw={
            "ioengine": "pgbench",
            "script": SCRIPTS[request.phase.pattern],
            "scale": str(request.scale),
            "size": str(request.phase.size),
            "iodepth": "1",
            "numjobs": str(request.phase.numjobs),
            "group_reporting": "1",
            "runtime": f"{round(request.runtime_s * 1000)}ms",
            "time_based": "1",
            **server,
        },
        whole=False,
    )
