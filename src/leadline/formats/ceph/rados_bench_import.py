"""Importer of `rados bench`: its text of all releases, and its JSON.

Latency is total latency: from the call of librados until the tool sees the completion, with the
wait for the tool's one thread. The output of reads shows neither their depth nor whether they are
sequential or random, except by a command line before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leadline.formats.ceph.bench_request import BUFFERS
from leadline.formats.ceph.rados_bench import TOOL, exact_iops, json_document, read_pass
from leadline.formats.ceph.rados_bench_text import (
    Mode,
    TextSummary,
    looks_like_rados_bench,
    parse_rados_bench_text,
)
from leadline.formats.fio.logs import Progress, Window, progress_windows
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
from leadline.metrics import Op

_MIB = 1 << 20
_LARGEST = 2**63 - 1
# fio's number for data that is not what was written (EILSEQ).
_WRONG_DATA = 84
# Ticks come a little late; a longer silence before the end is no series of every second.
_SILENCE_S = 5
_EARLY = 0.95
_HINTS = "hints = 1"
_PATTERN_UNKNOWN = f"{TOOL} does not report whether its reads are sequential (seq) or random (rand)"
_WRITE_KEYS = ("concurrent_ios", "object_size", "op_size", "seconds_to_run", "max_objects")
_KEYS = frozenset(
    {*_WRITE_KEYS, "object_prefix", "datas", "total_time_run", "bandwidth", "stddev_bandwidth"}
    | {"total_writes_made", "write_size", "total_reads_made", "read_size"}
    | {"max_bandwidth", "min_bandwidth", "average_iops", "stddev_iops", "max_iops", "min_iops"}
    | {"average_latency", "stddev_latency", "max_latency", "max_latency:", "min_latency"}
)


def _recognises(_name: str, head: bytes) -> bool:
    if b'"total_writes_made"' in head or b'"total_reads_made"' in head:
        return True
    if b"finished" not in head:
        return False
    if b"concurrent_ios" in head or (b'"cur_ops"' in head and b'"avg_lat"' in head):
        return True
    return looks_like_rados_bench(head.decode("utf-8", "replace"))


def read_results(content: bytes) -> tuple[Result, ...]:
    """Read a file: one result per invocation of the tool. Raises FormatError."""
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        error = FormatError.empty(f"the file is empty ({len(content)} bytes)")
        return (Result(workload="", output=error, tool=TOOL),)
    if text.lstrip().removeprefix(_HINTS).lstrip().startswith("{"):
        return (_json_result(content),)
    summaries = parse_rados_bench_text(text)
    return tuple(
        Result(workload=name, output=summary, tool=TOOL)
        if isinstance(summary, FormatError)
        else _text_result(name, summary)
        for name, summary in zip(_names(summaries), summaries, strict=True)
    )


def _names(summaries: tuple[TextSummary | FormatError, ...]) -> list[str]:
    """Name the invocations: a single one by its file, several by their mode where it is known."""
    if len(summaries) == 1:
        return [""]
    names = []
    for number, summary in enumerate(summaries, start=1):
        if isinstance(summary, FormatError):
            names.append(f"cut {number}")
        else:
            mode = _mode(summary)
            names.append(mode.value if mode else f"read {number}")
    return names


def _mode(summary: TextSummary) -> Mode | None:
    if summary.op_is_write:
        return Mode.WRITE
    return summary.command.mode if summary.command else None


def _text_result(name: str, summary: TextSummary) -> Result:
    op = Op.WRITE if summary.op_is_write else Op.READ
    where = f"line {summary.line}"
    notes = list(summary.notes)
    moved = summary.ios * summary.op_size
    if moved > _LARGEST:
        raise FormatError.unreadable(
            f"{summary.ios} I/Os of {summary.op_size} bytes cannot be",
            f"its output begins on {where}",
        )
    mib_s = summary.bandwidth_mib_s
    if mib_s is not None and mib_s * _MIB > _LARGEST:
        fact = f"a bandwidth of {mib_s:g} MiB/s cannot be"
        notes.append(Note(NoteKind.IMPOSSIBLE_VALUE, where, fact))
        mib_s = None
    ran_s = summary.ran_s or 0.0
    operation = Operation(
        op=op,
        iops=exact_iops(summary.ios, ran_s, summary.reported_iops),
        bandwidth_bps=None if mib_s is None else mib_s * _MIB,
        total_ios=summary.ios,
        io_bytes=moved,
        runtime_s=summary.ran_s,
        total=summary.latency,
    )
    options = _text_options(summary, notes)
    windows = _windows(op, Progress(summary.seconds, summary.ios, ran_s), where, notes)
    job = _job(operation, options, error=_WRONG_DATA if summary.wrong_objects else 0)
    pool = summary.command.pool if summary.command else ""
    return Result(
        workload=name,
        output=EngineOutput(version=TOOL, noise=summary.noise, jobs=(job,), notes=tuple(notes)),
        target=f"rados:{pool}" if pool else "",
        tool=TOOL,
        windows=windows,
    )


def _text_options(summary: TextSummary, notes: list[Note]) -> JobOptions:
    command, mode = summary.command, _mode(summary)
    depth, asked_s = summary.depth, summary.asked_s
    if command:
        depth, asked_s = depth or command.depth, command.seconds if asked_s is None else asked_s
    if mode is Mode.SEQ and asked_s and (summary.ran_s or 0.0) < _EARLY * asked_s:
        fact = (
            f"{summary.ran_s} s of the {asked_s} s asked: seq ends when it has read every object "
            "once, so the time asked is not taken for the runtime"
        )
        notes.append(Note(NoteKind.LEFT_OUT, f"line {summary.line}", fact))
        asked_s = None
    if mode is None:
        notes.append(Note(NoteKind.LEFT_OUT, f"line {summary.line}", _PATTERN_UNKNOWN))
    return _options(mode, summary.op_size, depth, asked_s, bounded=summary.max_objects > 0)


def _options(
    mode: Mode | None, op_size: int, depth: int | None, asked_s: int | None, *, bounded: bool
) -> JobOptions:
    """In fio's words. `bounded`: a number of objects could end it before its time."""
    # One thread of the client keeps `depth` I/Os in flight (obj_bencher.cc).
    raw = {"bs": str(op_size), "numjobs": "1", "ioengine": TOOL.replace(" ", "-")}
    if mode is not None:
        raw["rw"] = {Mode.WRITE: "write", Mode.SEQ: "read", Mode.RAND: "randread"}[mode]
    if depth:
        raw["iodepth"] = str(depth)
    if asked_s:
        raw["runtime"] = f"{asked_s}s"
        if not bounded and mode in (Mode.WRITE, Mode.RAND):
            raw["time_based"] = "1"
    if mode is Mode.WRITE:
        raw["buffer_pattern"] = BUFFERS[TOOL]
    return JobOptions(raw=raw, whole=False)


def _json_result(content: bytes) -> Result:
    try:
        document = json_document(content)
        pass_ = read_pass(document)
    except FormatError as error:
        if error.condition == "truncated-result":
            return Result(workload="", output=error, tool=TOOL)
        raise
    notes = [
        Note(NoteKind.UNKNOWN_FIELD, f"$[{key!r}]", f"{TOOL} is not known to write {key!r}")
        for key in sorted(document.keys() - _KEYS)
    ]
    notes += [
        Note(NoteKind.REPEATED_FIELD, f"$[{key!r}]", f"{key!r} is given again; the last is used")
        for key in sorted(_KEYS - {"object_size"})
        # The tool gives the object size twice itself; the names below `datas` are other ones.
        if content.count(b'"%s"' % key.encode()) > 1
    ]
    mode = Mode.WRITE if pass_.op is Op.WRITE else None
    if mode is None:
        notes.append(Note(NoteKind.LEFT_OUT, "$", _PATTERN_UNKNOWN))
    asked_s = _whole_number(document, "seconds_to_run") if mode else None
    bounded = bool(_whole_number(document, "max_objects"))
    options = _options(mode, pass_.op_size, pass_.depth, asked_s, bounded=bounded)
    operation = Operation(
        op=pass_.op,
        iops=exact_iops(pass_.ios, pass_.ran_s, pass_.reported_iops),
        bandwidth_bps=pass_.bandwidth_bps,
        total_ios=pass_.ios,
        io_bytes=pass_.ios * pass_.op_size,
        runtime_s=pass_.ran_s,
        total=Latency(
            min_s=pass_.min_s,
            max_s=pass_.max_s,
            mean_s=pass_.mean_s,
            stddev_s=pass_.stddev_s,
            count=pass_.ios,
        ),
    )
    windows = _windows(pass_.op, pass_.progress, "$.datas", notes)
    job = _job(operation, options, error=0)
    output = EngineOutput(version=TOOL, jobs=(job,), notes=tuple(notes))
    return Result(workload="", output=output, tool=TOOL, windows=windows)


def _whole_number(document: Mapping[str, Any], key: str) -> int | None:
    text = str(document.get(key, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _job(operation: Operation, options: JobOptions, *, error: int) -> JobResult:
    ran_s = operation.runtime_s or 0.0
    return JobResult(
        name=TOOL,
        error=error,
        options=options,
        job_runtime_s=ran_s,
        elapsed_s=ran_s,
        # An invocation that did nothing has extremes of nothing: 9999 s and 0 s.
        operations=(operation,) if operation.total_ios else (),
    )


def _windows(
    op: Op, progress: Progress, where: str, notes: list[Note]
) -> Mapping[Op, tuple[Window, ...]]:
    """Compute IOPS of each second, if the file has every second; else add a note."""
    points = progress.seconds
    if not points or not progress.ran_s:
        return {}
    fault = ""
    # Second 0 is printed before anything is done.
    for (before, done), (second, finished) in zip(((-1, 0), *points), points, strict=False):
        if second != before + 1 and not (before == -1 and second == 1):
            fault = f"second {second} follows second {max(before, 0)}"
        elif finished < done or finished > progress.done:
            fault = f"second {second}, with {finished} I/Os finished, cannot follow {done}"
        if fault:
            break
    if not fault and progress.ran_s > points[-1][0] + _SILENCE_S:
        fault = f"no line from second {points[-1][0]} to {progress.ran_s:g}"
    if fault:
        notes.append(Note(NoteKind.LEFT_OUT, where, f"the seconds are not used: {fault}"))
        return {}
    inside = [point for point in points if 0 < point[0] <= progress.ran_s]
    return {op: progress_windows([progress._replace(seconds=inside)])}


IMPORTER = Importer(
    kind="rados-bench",
    summary="output of `rados bench`, text or JSON",
    recognises=_recognises,
    read=each_file(read_results),
)
