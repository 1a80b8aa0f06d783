"""The JSON of `kubestr fio -o json`: fio's figures as kubestr's Go types hold them.

Every field that is zero is left out (`omitempty`, pkg/fio/fio_types.go), so that a missing one is
0 and not unknown; a latency of 0 with I/O is what `gtod_reduce=1` leaves, and is not measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import orjson

from leadline.formats.importer import Result
from leadline.formats.output import (
    DiskUse,
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Note,
    NoteKind,
    Operation,
)
from leadline.formats.plain_text import BEYOND
from leadline.metrics import Op

_TOOL: Final = "kubestr"
_NS: Final = 1e-9


def parse_kubestr_json(content: bytes) -> tuple[Result, ...]:
    """Every job of every test in the file. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`."""
    document = _document(content)
    tests = document if isinstance(document, list) else [document]
    found: list[Result] = []
    for number, test in enumerate(tests):
        where = f"$[{number}]" if isinstance(document, list) else "$"
        if "fioConfig" in _mapping(test, where):
            found += _run(test, where)
        elif "Raw" in test and "FIO" in str(test.get("TestName")):
            raw = _mapping(test["Raw"], f"{where}.Raw")
            found += _run(raw, f"{where}.Raw")
    if not found:
        raise FormatError("empty-result", "kubestr tells of no fio run in this file")
    return tuple(found)


def _document(content: bytes) -> object:
    """What begins with the first bracket: kubestr prints its progress before, in one stream."""
    starts = [start for start in (content.find(b"{"), content.find(b"[")) if start >= 0]
    if not starts:
        raise FormatError("truncated-result", "there is no JSON in the file")
    start = min(starts)
    end = max(content.rfind(b"}"), content.rfind(b"]")) + 1
    try:
        parsed: object = orjson.loads(content[start:end])
    except orjson.JSONDecodeError as error:
        cut = error.pos >= end - start - 1
        line = content.count(b"\n", 0, start) + error.lineno
        raise FormatError(
            "truncated-result" if cut else "unreadable-result",
            "kubestr's JSON is " + ("cut off" if cut else "not JSON"),
            context=(f"line {line}, column {error.colno}: {error.msg}",),
        ) from error
    return parsed


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError("unreadable-result", f"{where} is no object")
    return value


class _Numbers:
    def __init__(self) -> None:
        self.notes: list[Note] = []

    def read(self, mapping: Mapping[str, Any], key: str, where: str) -> float | None:
        """0 where missing; None, with a note, where it cannot be."""
        value = mapping.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError("unreadable-result", f"{where}[{key!r}] is no number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not 0 <= number < BEYOND:  # true for NaN, too
            self.notes.append(
                Note(
                    kind=NoteKind.IMPOSSIBLE_VALUE,
                    where=f"{where}[{key!r}]",
                    fact=f"{key} is {str(value)[:40]}, which cannot be",
                )
            )
            return None
        return number

    def count(self, mapping: Mapping[str, Any], key: str, where: str) -> int | None:
        value = self.read(mapping, key, where)
        return None if value is None else int(value)


def _run(raw: Mapping[str, Any], where: str) -> list[Result]:
    result = _mapping(raw.get("result", {}), f"{where}.result")
    entries = result.get("jobs", [])
    if not isinstance(entries, list) or not entries:
        raise FormatError("empty-result", f"{where}.result has no jobs: fio did not run")
    numbers = _Numbers()
    shared = _texts(result.get("global options", {}), f"{where}.result['global options']")
    jobs = [
        _job(_mapping(entry, place), shared, numbers, place, number)
        for number, entry in enumerate(entries)
        for place in [f"{where}.result.jobs[{number}]"]
    ]
    storage_class = _mapping(raw.get("storageClass", {}), f"{where}.storageClass")
    metadata = _mapping(storage_class.get("metadata", {}), f"{where}.storageClass.metadata")
    disks = _disks(result.get("disk_util", []), numbers, f"{where}.result.disk_util")
    version = str(result.get("fio version", ""))
    timestamp = numbers.read(result, "timestamp", f"{where}.result") or None

    def output(some: tuple[JobResult, ...], notes: tuple[Note, ...]) -> EngineOutput:
        return EngineOutput(
            version=version, timestamp_s=timestamp, jobs=some, disks=disks, notes=notes
        )

    notes = tuple(numbers.notes)
    together = output(tuple(jobs), notes)
    found: list[Result] = []
    for number, job in enumerate(jobs):
        told: EngineOutput | FormatError = output((job,), notes if number == 0 else ())
        if not job.operations:
            told = FormatError(
                "empty-result",
                f"the job {job.name!r} did no I/O",
                context=(f"{where}.result.jobs[{number}]",),
            )
        found.append(
            Result(
                workload=job.name,
                output=told,
                target=str(metadata.get("name", "")),
                tool=_TOOL,
                together=together if len(jobs) > 1 else None,
            )
        )
    return found


def _texts(value: object, where: str) -> dict[str, str]:
    options = _mapping(value, where)
    return {key: text for key, text in options.items() if isinstance(text, str)}


def _job(
    entry: Mapping[str, Any], shared: Mapping[str, str], numbers: _Numbers, where: str, number: int
) -> JobResult:
    own = _texts(entry.get("job options", {}), f"{where}['job options']")
    options = JobOptions(raw={**shared, **own}, whole=False)
    elapsed = numbers.read(entry, "elapsed", where)
    runtime_ms = numbers.read(entry, "job_runtime", where)
    user, system = numbers.read(entry, "usr_cpu", where), numbers.read(entry, "sys_cpu", where)
    operations = [
        _operation(op, part, numbers, place, measured=not options.flag("gtod_reduce"))
        for op in (Op.READ, Op.WRITE, Op.TRIM)
        for place in [f"{where}.{op.value}"]
        for part in [_mapping(entry.get(op.value, {}), place)]
        if part.get("total_ios")
    ]
    return JobResult(
        name=str(entry.get("jobname", "")) or f"job {number + 1}",
        group=numbers.count(entry, "groupid", where) or 0,
        error=numbers.count(entry, "error", where) or 0,
        options=options,
        job_runtime_s=(runtime_ms or 0.0) / 1000,
        elapsed_s=elapsed or 0.0,
        user_cpu=None if user is None else user / 100,
        system_cpu=None if system is None else system / 100,
        operations=tuple(operations),
    )


def _operation(
    op: Op, part: Mapping[str, Any], numbers: _Numbers, where: str, *, measured: bool
) -> Operation:
    runtime_ms = numbers.read(part, "runtime", where)
    # `bw_bytes` is not in every fio that kubestr's images had; `bw` is KiB/s in all.
    exact = "bw_bytes" in part
    bandwidth = numbers.read(part, "bw_bytes" if exact else "bw", where)
    total_ios = numbers.count(part, "total_ios", where)
    return Operation(
        op=op,
        iops=numbers.read(part, "iops", where),
        bandwidth_bps=bandwidth if exact or bandwidth is None else bandwidth * 1024,
        total_ios=total_ios,
        io_bytes=numbers.count(part, "io_bytes", where),
        runtime_s=None if runtime_ms is None else runtime_ms / 1000,
        short_ios=numbers.count(part, "short_ios", where) or 0,
        dropped_ios=numbers.count(part, "drop_ios", where) or 0,
        submission=_latency(part, "slat_ns", numbers, where, total_ios) if measured else None,
        completion=_latency(part, "clat_ns", numbers, where, total_ios) if measured else None,
        total=_latency(part, "lat_ns", numbers, where, total_ios) if measured else None,
    )


def _latency(
    part: Mapping[str, Any], key: str, numbers: _Numbers, where: str, count: int | None
) -> Latency | None:
    given = _mapping(part.get(key, {}), f"{where}.{key}")
    if not given.get("mean"):
        return None

    def seconds(name: str) -> float | None:
        value = numbers.read(given, name, f"{where}.{key}")
        return None if value is None else value * _NS

    return Latency(
        min_s=seconds("min"),
        max_s=seconds("max"),
        mean_s=seconds("mean"),
        stddev_s=seconds("stddev"),
        count=count,
    )


def _disks(value: object, numbers: _Numbers, where: str) -> tuple[DiskUse, ...]:
    if not isinstance(value, list):
        raise FormatError("unreadable-result", f"{where} is no list")
    found = []
    for index, entry in enumerate(value):
        place = f"{where}[{index}]"
        disk = _mapping(entry, place)
        busy = numbers.read(disk, "util", place)
        found.append(
            DiskUse(
                name=str(disk.get("name", "")),
                read_ios=numbers.count(disk, "read_ios", place) or 0,
                write_ios=numbers.count(disk, "write_ios", place) or 0,
                read_merges=numbers.count(disk, "read_merges", place) or 0,
                write_merges=numbers.count(disk, "write_merges", place) or 0,
                busy_share=None if busy is None else busy / 100,
            )
        )
    return tuple(found)
