"""JSON output of `rados bench --format json`: totals, and I/Os of each second.

Every number is a JSON string. Total, not trusting: the figures that the tool gives twice must
agree, else FormatError. `stddev_iops`, `min_bandwidth` and `max_bandwidth` are never used: the
first is garbage in 16.2 (sums of ints squared overflow), the others hold the extremes of a double
when a run ends within its first second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from leadline.formats.ceph.bench_request import BenchRequest, read_bench_request, read_output_file
from leadline.formats.fio.logs import Progress, Window, progress_windows
from leadline.formats.json_lines import load_json
from leadline.formats.result import EngineOutput, FormatError, JobResult, Latency, Operation
from leadline.metrics import Op
from leadline.plan.workload import Phase

TOOL: Final = "rados bench"
# Of each invocation by its phase and pass over the data, both counted from 1.
OUTPUT_FILE = "rados-bench-{phase}-{pass_}.json"
# The tool gives times and rates with six decimals, IOPS cut to whole ones.
_TIME_STEP_S = 1e-6
_IOPS_STEP = 1.0
_AGREE = 0.005
_MIB = 1 << 20
# Limits beyond any real run, to bound memory.
_LONGEST_S = 30 * 86400.0
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One invocation: a write, or a read of objects written before. `seconds` pairs the second
    with the I/Os finished by then; the standard deviation is None where the tool gives none
    (reads). `reported_iops` is the tool's own figure, cut to whole I/Os per second."""

    op: Op
    op_size: int
    depth: int | None
    ios: int
    ran_s: float
    reported_iops: float
    bandwidth_bps: float
    mean_s: float
    min_s: float
    max_s: float
    stddev_s: float | None
    seconds: tuple[tuple[int, int], ...]

    @property
    def progress(self) -> Progress:
        return Progress(self.seconds, self.ios, self.ran_s)


def read_rados_bench(folder: Path) -> EngineOutput:
    """Read the output of `rados bench` in the folder of a trial. Raises FormatError."""
    request = read_bench_request(folder, TOOL)
    jobs: list[JobResult] = []
    before_s = 0.0
    for group, (phase, passes) in enumerate(_phases(folder, request)):
        jobs.append(_job(request, phase, passes, before_s=before_s, group=group))
        before_s = jobs[-1].elapsed_s
    return EngineOutput(version=TOOL, jobs=tuple(jobs))


def read_rados_bench_windows(folder: Path) -> Mapping[Op, tuple[Window, ...]]:
    """Read IOPS of each second and operation. Raises FormatError."""
    series: dict[Op, tuple[Window, ...]] = {}
    for phase, passes in _phases(folder, read_bench_request(folder, TOOL)):
        series[phase.pattern.ops[0]] = progress_windows(pass_.progress for pass_ in passes)
    return series


def _phases(folder: Path, request: BenchRequest) -> list[tuple[Phase, list[Pass]]]:
    found = []
    for number, phase in enumerate(request.phases, start=1):
        passes: list[Pass] = []
        path = folder / OUTPUT_FILE.format(phase=number, pass_=1)
        while not passes or path.exists():
            passes.append(_checked(parse_pass(read_output_file(path, TOOL)), phase))
            path = folder / OUTPUT_FILE.format(phase=number, pass_=len(passes) + 1)
        found.append((phase, passes))
    return found


def _checked(pass_: Pass, phase: Phase) -> Pass:
    """Return the pass. Raises FormatError if its direction, block size or depth is not that of the
    phase."""
    if phase.pattern.ops != (pass_.op,):
        raise FormatError.unreadable(
            f"{phase.pattern.value} was asked and {pass_.op.value}s were done"
        )
    if pass_.op_size != phase.block_size:
        raise FormatError.unreadable(
            f"blocks of {phase.block_size} bytes were asked and {pass_.op_size} used"
        )
    if pass_.depth is not None and pass_.depth != phase.iodepth:
        raise FormatError.unreadable(f"depth {phase.iodepth} was asked and {pass_.depth} used")
    return pass_


def parse_pass(content: bytes) -> Pass:
    """Parse the output of one invocation, with or without a line `hints = 1`. Raises FormatError,
    also where two values of one quantity disagree."""
    if not content.strip():
        raise FormatError.empty(f"the output of {TOOL} is empty")
    one = read_pass(json_document(content))
    rate, slack = _rate(one.ios, one.ran_s)
    if not rate - _IOPS_STEP - slack <= one.reported_iops <= rate + slack:
        raise FormatError.unreadable(
            f"$['average_iops'] is {one.reported_iops:g}, and {one.ios} I/Os in {one.ran_s} s are "
            f"{rate:.1f} per second"
        )
    if abs(one.bandwidth_bps - rate * one.op_size) > slack * one.op_size + 1:
        raise FormatError.unreadable(
            f"$['bandwidth'] is {one.bandwidth_bps / _MIB:.6f} MiB/s, and {one.ios} I/Os of "
            f"{one.op_size} bytes in {one.ran_s} s are {rate * one.op_size / _MIB:.6f}"
        )
    return one


def _rate(ios: int, ran_s: float) -> tuple[float, float]:
    """Compute I/Os per second, and the tolerance for a printed value."""
    rate = ios / ran_s if ran_s else 0.0
    return rate, rate * (_AGREE + (_TIME_STEP_S / ran_s if ran_s else 0.0))


def exact_iops(ios: int, ran_s: float, reported_iops: float | None) -> float | None:
    """Compute exact IOPS: the tool prints the integer part only, or nothing (old releases). Return
    the printed value where the two disagree; the audit reports it."""
    if not ran_s:
        return reported_iops
    rate, slack = _rate(ios, ran_s)
    if reported_iops is None or rate - _IOPS_STEP - slack <= reported_iops <= rate + slack:
        return rate
    return reported_iops


def read_pass(document: Mapping[str, Any]) -> Pass:
    """Read one invocation from its JSON. Raises FormatError."""
    made = [key for key in ("total_writes_made", "total_reads_made") if key in document]
    if len(made) != 1:
        raise FormatError.unreadable(
            f"the output of {TOOL} holds "
            + ("no total of I/Os: it did not come to its end" if not made else "two totals"),
            cut=not made,
        )
    op, size_key = (
        (Op.WRITE, "write_size") if made[0] == "total_writes_made" else (Op.READ, "read_size")
    )
    ios, ran_s = _integer(document, made[0]), _number(document, "total_time_run")
    if (ran_s <= 0 and ios) or ran_s > _LONGEST_S:
        raise FormatError.unreadable(f"$['total_time_run'] is {ran_s} for {ios} I/Os")
    op_size = _integer(document, size_key)
    if ios * op_size > _LARGEST:
        raise FormatError.unreadable(f"$[{size_key!r}] is {op_size} for {ios} I/Os")
    # Older releases wrote a colon into this key.
    largest = "max_latency" if "max_latency" in document else "max_latency:"
    depth, stddev = "concurrent_ios", "stddev_latency"
    return Pass(
        op=op,
        op_size=op_size,
        depth=_integer(document, depth) if depth in document else None,
        ios=ios,
        ran_s=ran_s,
        reported_iops=_number(document, "average_iops"),
        bandwidth_bps=_number(document, "bandwidth") * _MIB,
        mean_s=_number(document, "average_latency"),
        min_s=_number(document, "min_latency"),
        max_s=_number(document, largest),
        stddev_s=_number(document, stddev) if stddev in document else None,
        seconds=_seconds(document, ios, ran_s),
    )


def json_document(content: bytes) -> dict[str, Any]:
    """Parse the JSON object in an output, with any text before and behind it. Raises
    FormatError."""
    start = content.find(b"{")
    if start < 0:
        first = content.lstrip()[:200].splitlines()[0].decode("utf-8", "replace")
        raise FormatError.truncated(f"the output of {TOOL} holds no JSON", f"it begins: {first!r}")
    # After the JSON of a write with cleanup the tool prints a number of objects.
    end = content.rfind(b"}") + 1
    open_end = not content.rstrip().endswith(b"}")
    document = load_json(content, start, end, f"the output of {TOOL}", open_end=open_end)
    if not isinstance(document, dict):
        raise FormatError.unreadable(f"the output of {TOOL} is JSON, but not an object")
    return document


def _number(mapping: Mapping[str, Any], key: str, where: str = "$") -> float:
    """Read a number, as text or as a JSON number."""
    if key not in mapping:
        raise FormatError.unreadable(f"{where}[{key!r}] is missing")
    given = mapping[key]
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise FormatError.unreadable(
            f"{where}[{key!r}] is {type(given).__name__}; expected a number"
        )
    try:
        value = float(given)
    except (ValueError, OverflowError) as error:
        raise FormatError.unreadable(
            f"{where}[{key!r}] is {str(given)[:40]!r}; expected a number"
        ) from error
    if not math.isfinite(value * _MIB) or value < 0:
        raise FormatError.unreadable(f"{where}[{key!r}] is {given}, which cannot be")
    return value


def _integer(mapping: Mapping[str, Any], key: str, where: str = "$") -> int:
    value = _number(mapping, key, where)
    if value > _LARGEST or value != int(value):
        raise FormatError.unreadable(f"{where}[{key!r}] is {value}; expected a whole number")
    return int(value)


def _seconds(document: Mapping[str, Any], ios: int, ran_s: float) -> tuple[tuple[int, int], ...]:
    """Read the I/Os finished by each whole second, which must increase up to the total."""
    entries = document.get("datas")
    if not isinstance(entries, list):
        raise FormatError.unreadable("$['datas'] is missing or not a list")
    found: list[tuple[int, int]] = []
    last_s, last_ios = 0, 0
    for index, entry in enumerate(entries):
        where = f"$.datas[{index}]"
        if not isinstance(entry, dict):
            raise FormatError.unreadable(f"{where} is not an object")
        second, finished = _integer(entry, "sec", where), _integer(entry, "finished", where)
        if finished < last_ios or finished > ios or (index and second <= last_s):
            raise FormatError.unreadable(
                f"{where}: second {second} with {finished} I/Os finished cannot follow second "
                f"{last_s} with {last_ios} of {ios}"
            )
        last_s, last_ios = second, finished
        # Ticks come a little later than the second that they name; the last may be behind the end.
        if 0 < second <= ran_s:
            found.append((second, finished))
    return tuple(found)


def _job(
    request: BenchRequest, phase: Phase, passes: Sequence[Pass], *, before_s: float, group: int
) -> JobResult:
    ios, ran_s = sum(pass_.ios for pass_ in passes), sum(pass_.ran_s for pass_ in passes)
    moved = sum(pass_.bandwidth_bps * pass_.ran_s for pass_ in passes)
    operation = Operation(
        op=passes[0].op,
        # The tool's own figure is cut to whole I/Os per second, which is much for few.
        iops=ios / ran_s if ran_s else 0.0,
        bandwidth_bps=moved / ran_s if ran_s else 0.0,
        total_ios=ios,
        io_bytes=sum(pass_.ios * pass_.op_size for pass_ in passes),
        runtime_s=ran_s,
        total=_latency(passes, ios),
    )
    return JobResult(
        name=phase.name,
        group=group,
        options=request.options(phase),
        job_runtime_s=ran_s,
        elapsed_s=before_s + ran_s,
        operations=(operation,) if ios else (),
    )


def _latency(passes: Sequence[Pass], ios: int) -> Latency | None:
    """Combine the latencies of the passes; the standard deviation is that of a single pass."""
    if not ios:
        return None
    busy = [pass_ for pass_ in passes if pass_.ios]
    return Latency(
        min_s=min(pass_.min_s for pass_ in busy),
        max_s=max(pass_.max_s for pass_ in busy),
        mean_s=sum(pass_.mean_s * pass_.ios for pass_ in busy) / ios,
        stddev_s=busy[0].stddev_s if len(busy) == 1 else None,
        count=ios,
    )
