"""Text output of `sysbench fileio run` 1.0 with --histogram=on.

    [ 1s ] reads: 155.37 MiB/s writes: 103.58 MiB/s fsyncs: 13248.64/s latency (ms,99%): 0.811
    Latency histogram (values are in milliseconds)
           value  ------------- distribution ------------- count
           0.001 |*                                        18
    File operations:
        reads/s:                      8841.07
    Throughput:
        read, MiB/s:                  138.14

Its latencies are of events: reads, writes and fsyncs together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from leadline.formats.fio.logs import Window
from leadline.formats.program.request import ProgramRequest, read_file
from leadline.formats.result import FormatError, JobOptions, JobResult, Latency, Operation
from leadline.formats.text import shown, split_lines
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

OUTPUT_FILE: Final = "sysbench.txt"
_MIB = 1 << 20
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
_PROGRESS = re.compile(
    rf"\[ (\d{{1,9}})s \] reads: {_NUMBER} MiB/s writes: {_NUMBER} MiB/s fsyncs: {_NUMBER}/s .*"
)
_FIGURE = re.compile(rf"(\w[\w %/,]*): +{_NUMBER}s?")
_BUCKET = re.compile(rf"{_NUMBER} \|\**\s+(\d{{1,15}})")
_RATES: Final[Mapping[Op, str]] = {Op.READ: "reads/s", Op.WRITE: "writes/s", Op.SYNC: "fsyncs/s"}
_BYTES: Final[Mapping[Op, str]] = {Op.READ: "read, MiB/s", Op.WRITE: "written, MiB/s"}
_NEEDED: Final = (
    *(*_RATES.values(), *_BYTES.values()),
    *("total time", "total number of events", "min", "avg", "max"),
)


def progress_rate(line: str, block_size: int) -> tuple[float, dict[Op, float]] | None:
    """Seconds since the start, and operations per second; None for another line."""
    match = _PROGRESS.fullmatch(line.strip())
    if match is None:
        return None
    reads, writes = (float(match[at]) * _MIB / block_size for at in (2, 3))
    return float(match[1]), {Op.READ: reads, Op.WRITE: writes, Op.SYNC: float(match[4])}


def parse_windows(content: bytes, block_size: int) -> dict[Op, tuple[Window, ...]]:
    """Operations per second in each reported second, without those that never occurred."""
    found: dict[Op, list[Window]] = {}
    for line in split_lines(content):
        if progress := progress_rate(line, block_size):
            for op, rate in progress[1].items():
                found.setdefault(op, []).append(Window(progress[0], rate))
    return {
        op: tuple(windows)
        for op, windows in found.items()
        if any(window.value for window in windows)
    }


def read_sysbench(folder: Path, prefix: str, request: ProgramRequest) -> JobResult:
    """One program's operations. Raises FormatError."""
    content = read_file(folder / f"{prefix}{OUTPUT_FILE}")
    figures, bins = _parse(content)
    seconds, events = figures["total time"], int(figures["total number of events"])
    if not events or not seconds:
        raise FormatError.empty("sysbench completed no operation")
    counted = sum(bins.values())
    if counted != events:
        raise FormatError.unreadable(
            f"sysbench counted {events} events, and its histogram has {counted}"
        )
    histogram = LatencyHistogram.from_bins(bins)
    latency = Latency(
        min_s=figures["min"] / 1e3,
        max_s=figures["max"] / 1e3,
        # Its own mean has two digits of a millisecond.
        mean_s=histogram.mean_s(),
        count=events,
        histogram=histogram,
    )
    done = [op for op, name in _RATES.items() if figures[name]]
    alone = len(done) == 1
    operations = [
        Operation(
            op=op,
            iops=figures[_RATES[op]],
            bandwidth_bps=figures[_BYTES[op]] * _MIB if op in _BYTES else None,
            total_ios=events if alone else round(figures[_RATES[op]] * seconds),
            runtime_s=seconds,
            total=latency if alone else None,
        )
        for op in done
    ]
    if not alone:
        operations.append(
            Operation(
                op=Op.TOTAL,
                iops=events / seconds,
                # An fsync moves no bytes of its own.
                bandwidth_bps=None
                if figures[_RATES[Op.SYNC]]
                else sum(figures[name] for name in _BYTES.values()) * _MIB,
                total_ios=events,
                runtime_s=seconds,
                total=latency,
            )
        )
    return JobResult(
        name=request.phase.name,
        options=_options(request),
        job_runtime_s=seconds,
        elapsed_s=seconds + request.ramp_s,
        operations=tuple(operations),
    )


def _parse(content: bytes) -> tuple[dict[str, float], dict[int, int]]:
    """The figures of the summary by name, and the histogram: counts by nanoseconds."""
    figures: dict[str, float] = {}
    bins: dict[int, int] = {}
    lines = split_lines(content)
    for line in lines:
        text = line.strip()
        if match := _BUCKET.fullmatch(text):
            value_ns = round(float(match[1]) * 1e6)
            bins[value_ns] = bins.get(value_ns, 0) + int(match[2])
        elif match := _FIGURE.fullmatch(text):
            figures.setdefault(match[1], float(match[2]))
    missing = [name for name in _NEEDED if name not in figures]
    if missing:
        last = next((line for line in reversed(lines) if line.strip()), "")
        raise FormatError.unreadable(
            f"the output of sysbench has no {missing[0]!r}",
            shown("it ends with", last),
            cut=any(form.fullmatch(last.strip()) for form in (_PROGRESS, _BUCKET)),
        )
    return figures, bins


def _options(request: ProgramRequest) -> JobOptions:
    phase = request.phase
    raw = {
        "ioengine": "sysbench-fileio",
        "rw": phase.pattern.value,
        "bs": str(phase.block_size),
        "iodepth": "1",
        "numjobs": str(phase.numjobs),
        "group_reporting": "1",
        "size": str(phase.size),
        "direct": str(int(request.direct)),
        "fsync": str(phase.fsync),
        "runtime": f"{round(request.runtime_s * 1000)}ms",
        "time_based": "1",
    }
    if phase.read_share is not None:
        raw["rwmixread"] = str(phase.read_share)
    return JobOptions(raw=raw, whole=False)
