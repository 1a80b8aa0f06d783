"""Importer of `rados bench`: its text of all releases, and its JSON.

Latency is total latency: from the call of librados until the tool sees the completion, with the
wait for the tool's one thread. The output of reads shows neither their depth nor whether they are
sequential or random, except by a command line before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leadline.formats.ceph.bench_request import BUFFERS
from leadline.formats.ceph.rados_bench import (
    TOOL,
    Pass,
    Progress,
    exact_iops,
    json_document,
    rados_bench_windows,
    read_pass,
)
from leadline.formats.ceph.rados_bench_text import (
    Mode,
    TextSummary,
    looks_like_rados_bench,
    parse_rados_bench_text,
)
from leadline.formats.fio.logs import Window
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

_MIB = 1 << 20
_LARGEST = 2**63 - 1
# fio's number for data that is not what was written (EILSEQ).
_WRONG_DATA = 84
# Ticks come a little late; a longer silence before the end is no series of every second.
_SILENCE_S = 5
_EARLY = 0.95
_HINTS = "hints = 1"
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


def _read(files: Mapping[str, bytes]) -> tuple[Result, ...]:
    return tuple(result for content in files.values() for result in read_results(content))


def read_results(content: bytes) -> tuple[Result, ...]:
    """What a file holds, one result for each invocation of the tool. Raises FormatError."""
    text = content.decode("utf-8-sig", "replace")
    if not text.strip():
        return (_of("", FormatError("empty-result", f"the file is empty ({len(content)} bytes)")),)
    if text.lstrip().removeprefix(_HINTS).lstrip().startswith("{"):
        return (_json_result(content),)
    summaries = parse_rados_bench_text(text)
    names = _names(summaries)
    return tuple(
        _of(name, one) if isinstance(one, FormatError) else _text_result(name, one)
        for name, one in zip(names, summaries, strict=True)
    )


def _names(summaries: tuple[TextSummary | FormatError, ...]) -> list[str]:
    """One invocation is named by its file; several by what they did, as far as they tell."""
    if len(summaries) == 1:
        return [""]
    names = []
    for number, one in enumerate(summaries, start=1):
        if isinstance(one, FormatError):
            names.append(f"cut {number}")
        else:
            mode = _mode(one)
            names.append(mode.value if mode else f"read {number}")
    return names


def _mode(one: TextSummary) -> Mode | None:
    if one.op_is_write:
        return Mode.WRITE
    return one.command.mode if one.command else None


def _of(
    workload: str,
    output: EngineOutput | FormatError,
    target: str = "",
    windows: Mapping[Op, tuple[Window, ...]] | None = None,
) -> Result:
    return Result(workload=workload, output=output, target=target, tool=TOOL, windows=windows or {})


def _text_result(name: str, one: TextSummary) -> Result:
    op = Op.WRITE if one.op_is_write else Op.READ
    notes = list(one.notes)
    moved = one.ios * one.op_size
    if moved > _LARGEST:
        raise FormatError(
            "unreadable-result",
            f"{one.ios} I/Os of {one.op_size} bytes cannot be",
            context=(f"its output begins on line {one.line}",),
        )
    operation = Operation(
        op=op,
        iops=exact_iops(one.ios, one.ran_s or 0.0, one.told_iops),
        bandwidth_bps=_bytes(one, notes),
        total_ios=one.ios,
        io_bytes=moved,
        runtime_s=one.ran_s,
        total=Latency(
            min_s=one.min_s,
            max_s=one.max_s,
            mean_s=one.mean_s,
            stddev_s=one.stddev_s,
            count=one.ios,
        )
        if one.mean_s is not None
        else None,
    )
    options, ended_early = _text_options(one)
    notes += ended_early
    progress = Progress(seconds=one.seconds, ios=one.ios, ran_s=one.ran_s or 0.0)
    windows = _windows(op, progress, f"line {one.line}", notes)
    job = _job(operation, options, error=_WRONG_DATA if one.wrong_objects else 0)
    output = EngineOutput(version=TOOL, noise=one.noise, jobs=(job,), notes=tuple(notes))
    target = f"rados:{one.command.pool}" if one.command and one.command.pool else ""
    return _of(name, output, target, windows)


def _bytes(one: TextSummary, notes: list[Note]) -> float | None:
    if one.bandwidth_mib_s is None or one.bandwidth_mib_s * _MIB <= _LARGEST:
        return None if one.bandwidth_mib_s is None else one.bandwidth_mib_s * _MIB
    fact = f"a bandwidth of {one.bandwidth_mib_s:g} MiB/s cannot be"
    notes.append(_note(NoteKind.IMPOSSIBLE_VALUE, f"line {one.line}", fact))
    return None


def _text_options(one: TextSummary) -> tuple[JobOptions, list[Note]]:
    command, mode = one.command, _mode(one)
    depth = one.depth or (command.depth if command else None)
    asked_s = one.asked_s if one.asked_s is not None else command.seconds if command else None
    notes = []
    early = mode is Mode.SEQ and asked_s and (one.ran_s or 0.0) < _EARLY * asked_s
    if early:
        fact = (
            f"{one.ran_s} s of the {asked_s} s asked: seq ends when it has read every object "
            "once, so the time asked is not taken for the runtime"
        )
        notes.append(_note(NoteKind.LEFT_OUT, f"line {one.line}", fact))
        asked_s = None
    if mode is None:
        notes.append(_pattern_unknown(f"line {one.line}"))
    return _options(mode, one.op_size, depth, asked_s, bounded=one.max_objects > 0), notes


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
        one = read_pass(document)
    except FormatError as error:
        if error.condition == "truncated-result":
            return _of("", error)
        raise
    notes = [
        _note(NoteKind.UNKNOWN_FIELD, f"$[{key!r}]", f"{TOOL} is not known to write {key!r}")
        for key in sorted(document.keys() - _KEYS)
    ]
    notes += [
        _note(NoteKind.REPEATED_FIELD, f"$[{key!r}]", f"{key!r} is given again; the last is used")
        for key in sorted(_KEYS - {"object_size"})
        # The tool gives the object size twice itself; the names below `datas` are other ones.
        if content.count(b'"%s"' % key.encode()) > 1
    ]
    mode = Mode.WRITE if one.op is Op.WRITE else None
    if mode is None:
        notes.append(_pattern_unknown("$"))
    asked = {key: _told(document, key) for key in ("seconds_to_run", "max_objects")}
    options = _options(
        mode,
        one.op_size,
        one.depth,
        asked["seconds_to_run"] if mode else None,
        bounded=bool(asked["max_objects"]),
    )
    windows = _windows(one.op, one.progress, "$.datas", notes)
    job = _job(_json_operation(one), options, error=0)
    return _of("", EngineOutput(version=TOOL, jobs=(job,), notes=tuple(notes)), windows=windows)


def _told(document: Mapping[str, Any], key: str) -> int | None:
    text = str(document.get(key, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _json_operation(one: Pass) -> Operation:
    return Operation(
        op=one.op,
        iops=exact_iops(one.ios, one.ran_s, one.told_iops),
        bandwidth_bps=one.bandwidth_bps,
        total_ios=one.ios,
        io_bytes=one.ios * one.op_size,
        runtime_s=one.ran_s,
        total=Latency(
            min_s=one.min_s,
            max_s=one.max_s,
            mean_s=one.mean_s,
            stddev_s=one.stddev_s,
            count=one.ios,
        ),
    )


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
    """IOPS of each second, if the file tells every second; else a note of why not."""
    points = progress.seconds
    if not points or not progress.ran_s:
        return {}
    fault = ""
    # Second 0 is printed before anything is done.
    for (before, done), (second, finished) in zip(((-1, 0), *points), points, strict=False):
        if second != before + 1 and not (before == -1 and second == 1):
            fault = f"second {second} follows second {max(before, 0)}"
        elif finished < done or finished > progress.ios:
            fault = f"second {second}, with {finished} I/Os finished, cannot follow {done}"
        if fault:
            break
    if not fault and progress.ran_s > points[-1][0] + _SILENCE_S:
        fault = f"nothing is told from second {points[-1][0]} to {progress.ran_s:g}"
    if fault:
        fact = f"the seconds are not used: {fault}"
        notes.append(_note(NoteKind.LEFT_OUT, where, fact))
        return {}
    told = tuple(point for point in points if 0 < point[0] <= progress.ran_s)
    return {op: rados_bench_windows([replace(progress, seconds=told)])}


def _pattern_unknown(where: str) -> Note:
    fact = f"{TOOL} does not tell whether its reads were sequential (seq) or random (rand)"
    return _note(NoteKind.LEFT_OUT, where, fact)


def _note(kind: NoteKind, where: str, fact: str) -> Note:
    return Note(kind=kind, where=where, fact=fact)


IMPORTER = Importer(
    kind="rados-bench",
    summary="output of `rados bench`, text or JSON",
    recognises=_recognises,
    read=_read,
)
