"""fio's JSON and json+ output (fio 3.x): what each job group did, with its latency histograms.

The parser is total: it returns results or raises FormatError with the position. Units are taken
from the keys that fio 3 writes (`*_ns` nanoseconds, `bw_bytes` bytes/s); anything else is refused
rather than guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from leadline.formats.output import (
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    Latency,
    Operation,
)
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

OLDEST_MAJOR = 3


def parse_fio_json(content: bytes) -> EngineOutput:
    """Parse a whole file. Raises FormatError with condition `empty-result`, `truncated-result` or
    `unreadable-result`.
    """
    if not content.strip():
        raise FormatError("empty-result", f"fio's output is empty ({len(content)} bytes)")
    document, noise = _document(content)
    version = _get(document, "fio version", str, "$")
    match = re.match(r"fio-(\d+)\.(\d+)", version)
    if not match or int(match.group(1)) < OLDEST_MAJOR:
        raise FormatError(
            "unreadable-result", f"output of {version!r} is not read; it needs fio 3.0 or newer"
        )
    shared = _texts(document.get("global options", {}), "$['global options']")
    entries = _get(document, "jobs", list, "$")
    jobs = tuple(_job(entry, shared, f"$.jobs[{index}]") for index, entry in enumerate(entries))
    timestamp = document.get("timestamp_ms")
    return EngineOutput(
        version=version,
        timestamp_s=timestamp / 1000 if isinstance(timestamp, int) else None,
        noise=noise,
        jobs=jobs,
    )


def _document(content: bytes) -> tuple[dict[str, Any], str]:
    start = content.find(b"{")
    if start < 0:
        first = content.strip().splitlines()[0][:200].decode("utf-8", "replace")
        raise FormatError(
            "truncated-result", "fio's output holds no JSON", context=(f"it begins: {first!r}",)
        )
    end = content.rfind(b"}") + 1
    try:
        document = orjson.loads(content[start:end])
    except orjson.JSONDecodeError as error:
        line = content.count(b"\n", 0, start) + error.lineno
        cut = (
            end == 0 or error.pos >= len(content[start:end].decode("utf-8", "replace").rstrip()) - 1
        )
        condition = "truncated-result" if cut else "unreadable-result"
        raise FormatError(
            condition,
            "fio's output is cut off" if cut else "fio's output is not JSON",
            context=(f"line {line}, column {error.colno}: {error.msg}",),
        ) from error
    if not isinstance(document, dict):
        raise FormatError("unreadable-result", "fio's output is JSON, but not an object")
    return document, content[:start].decode("utf-8", "replace").strip()


def _get(mapping: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = mapping.get(key)
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or isinstance(value, bool):
        found = "is missing" if key not in mapping else f"is {type(value).__name__}"
        raise FormatError(
            "unreadable-result", f"{where}[{key!r}] {found}; expected {kind.__name__}"
        )
    return value


def _number(mapping: Mapping[str, Any], key: str, where: str) -> float:
    value = float(_get(mapping, key, float, where))
    if not math.isfinite(value) or value < 0:
        raise FormatError("unreadable-result", f"{where}[{key!r}] is {value}, which cannot be")
    return value


def _texts(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise FormatError("unreadable-result", f"{where} is {type(value).__name__}; expected dict")
    return {str(key): str(text) for key, text in value.items()}


def _job(entry: object, shared: Mapping[str, str], where: str) -> JobResult:
    if not isinstance(entry, dict):
        raise FormatError("unreadable-result", f"{where} is not an object")
    own = _texts(entry.get("job options", {}), f"{where}['job options']")
    operations = []
    for op in (Op.READ, Op.WRITE, Op.TRIM):
        part = entry.get(op.value)
        if isinstance(part, dict) and part.get("total_ios", 0):
            operations.append(_operation(op, part, f"{where}.{op.value}"))
    levels = entry.get("iodepth_level", {})
    return JobResult(
        name=str(_get(entry, "jobname", str, where)),
        group=int(_number(entry, "groupid", where)) if "groupid" in entry else 0,
        error=int(_get(entry, "error", int, where)),
        options=JobOptions(raw={**shared, **own}),
        job_runtime_s=_number(entry, "job_runtime", where) / 1e3 if "job_runtime" in entry else 0.0,
        elapsed_s=_number(entry, "elapsed", where) if "elapsed" in entry else 0.0,
        user_cpu=_number(entry, "usr_cpu", where) / 100,
        system_cpu=_number(entry, "sys_cpu", where) / 100,
        depth_levels={
            str(depth): float(share) / 100
            for depth, share in (levels.items() if isinstance(levels, dict) else ())
        },
        operations=tuple(operations),
    )


def _operation(op: Op, part: Mapping[str, Any], where: str) -> Operation:
    if "bw_bytes" in part:
        bandwidth = _number(part, "bw_bytes", where)
    else:  # fio before 3.6 gives only KiB/s
        bandwidth = _number(part, "bw", where) * 1024
    return Operation(
        op=op,
        iops=_number(part, "iops", where),
        bandwidth_bps=bandwidth,
        total_ios=int(_number(part, "total_ios", where)),
        io_bytes=int(_number(part, "io_bytes", where)),
        runtime_s=_number(part, "runtime", where) / 1e3,
        short_ios=int(part.get("short_ios", 0)),
        dropped_ios=int(part.get("drop_ios", 0)),
        submission=_latency(part, "slat_ns", where),
        completion=_latency(part, "clat_ns", where),
        total=_latency(part, "lat_ns", where),
    )


def _latency(part: Mapping[str, Any], key: str, where: str) -> Latency | None:
    """None where fio measured nothing: the key is absent, or all zero though I/Os were done
    (gtod_reduce, disable_lat)."""
    if key not in part:
        return None
    where = f"{where}.{key}"
    entry = _get(part, key, dict, where)
    mean, largest = _number(entry, "mean", where), _number(entry, "max", where)
    if mean == 0 and largest == 0:
        return None
    bins = entry.get("bins")
    histogram = None
    if isinstance(bins, dict) and bins:
        try:
            histogram = LatencyHistogram.from_bins({int(ns): int(n) for ns, n in bins.items()})
        except (ValueError, OverflowError) as error:
            raise FormatError("unreadable-result", f"{where}.bins: {error}") from error
    return Latency(
        min_s=_number(entry, "min", where) / 1e9,
        max_s=largest / 1e9,
        mean_s=mean / 1e9,
        stddev_s=_number(entry, "stddev", where) / 1e9,
        count=int(entry.get("N", part.get("total_ios", 0))),
        histogram=histogram,
    )
