"""fio's JSON and json+ output (fio 2.1 to 3.4x): results and latency histograms of job groups.

The parser returns results, with notes on what it could not verify, or raises FormatError with the
position. Differences between versions:

- `io_bytes` is in KiB in fio 2 and in bytes since 2.99, which also writes `io_kbytes`; `bw` is in
  KiB/s in all of them, `bw_bytes` came with 3.6;
- latencies are in microseconds (`lat`) in fio 2 and in nanoseconds (`lat_ns`) since 2.99;
- `total_ios` is missing in 2.1, the options of the jobs before 2.15.

Not read: fsync latencies (`sync`), latencies by priority, the means of fio's samples over time
(`iops_mean`), latency shares by class (`latency_us`), and numbers that fio derives from others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.formats.fio.json_figures import (
    BEYOND,
    DISK,
    DOCUMENT,
    FLAT,
    JOB,
    LATENCIES,
    MARKS,
    OPERATION,
    STEADY_STATE,
    Notes,
    read_count,
    read_latency,
    read_number,
    read_object,
    read_objects,
    read_scaled,
    value_refused,
)
from leadline.formats.fio.json_text import JsonDocument, Repeat, find_json, key_path
from leadline.formats.result import (
    DiskUse,
    EngineOutput,
    FormatError,
    JobOptions,
    JobResult,
    NoteKind,
    Operation,
)
from leadline.metrics import Op

_VERSION: Final = re.compile(r"fio-(\d{1,4})\.(\d{1,4})(?:\.\d+)?(?:-\d+-g[0-9a-f]+)?(?:-dirty)?")
_OLDEST, _NEWEST = (2, 1), (3, 49)
_IN_NANOSECONDS: Final = (2, 99)
# The kernel counts in sectors of 512 bytes whatever the disk's own are.
_SECTOR: Final = 512
_ALL_CLIENTS: Final = "All clients"
_OPTIONS: Final = ("job options", "global options")
_OPS: Final = (("read", Op.READ), ("write", Op.WRITE), ("trim", Op.TRIM), ("mixed", Op.TOTAL))
_NS_LATENCIES: Final = frozenset(f"{name}_ns" for name in LATENCIES)
_KEYS_NS: Final = OPERATION | _NS_LATENCIES
_KEYS_US: Final = _KEYS_NS | set(LATENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FioDocument:
    """The output of one execution. `places` are the JSON paths of `output.jobs`."""

    output: EngineOutput
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FioText:
    """The documents of one file; `fault` is the error after the last of them, if there is one."""

    documents: tuple[FioDocument, ...]
    fault: FormatError | None = None


def parse_fio_json(content: bytes) -> EngineOutput:
    """Parse a file of one execution. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`.
    """
    outputs = parse_fio_documents(content)
    if len(outputs) > 1:
        raise FormatError.unreadable(
            f"fio's output holds {len(outputs)} executions where one is due"
        )
    return outputs[0]


def parse_fio_documents(content: bytes) -> tuple[EngineOutput, ...]:
    """Parse a file of one or several executions. Raises FormatError as `parse_fio_json`."""
    text = read_fio_text(content)
    if text.fault is not None:
        raise text.fault
    return tuple(document.output for document in text.documents)


def read_fio_text(content: bytes) -> FioText:
    """Read the documents of a file, at least one. Raises FormatError."""
    if not content.strip():
        raise FormatError.empty(f"fio's output is empty ({len(content)} bytes)")
    text = find_json(content, MARKS, FLAT)
    if not text.documents:
        raise text.fault or _no_json(content)
    return FioText(documents=tuple(map(_document, text.documents)), fault=text.fault)


def _no_json(content: bytes) -> FormatError:
    first = content.strip().splitlines()[0][:200].decode("utf-8", "replace")
    begins = (f"line 1; it begins: {first!r}",)
    if re.search(rb'\{\s*["}]', content):
        return FormatError.unreadable("this holds JSON, but no output of fio", *(begins))
    return FormatError.truncated("fio's output holds no JSON", *(begins))


def _document(found: JsonDocument) -> FioDocument:
    content, notes = found.content, Notes()
    for repeat in found.repeats:
        _settle(repeat, notes)
    version = content.get("fio version") or ""
    if not isinstance(version, str):
        raise value_refused("$['fio version']", f"text is expected, not {type(version).__name__}")
    release = _release(version, notes)
    notes.unknown(content, DOCUMENT, "$", scope="", level="an execution")
    listed = "client_stats" if "client_stats" in content else "jobs"
    entries = read_objects(content, listed, "$")
    if entries is None:
        raise value_refused(f"$.{listed}", "the list of jobs is missing")
    shared = _shared_options(content, notes)
    jobs: list[JobResult] = []
    places: list[str] = []
    for index, entry in enumerate(entries):
        place = f"$.{listed}[{index}]"
        # The sum over clients follows them; it may be the only entry that was kept.
        if entry.get("jobname") == _ALL_CLIENTS and "client_stats" in content and jobs:
            notes.add(NoteKind.LEFT_OUT, place, "the sum over all clients; each client is read")
            continue
        jobs.append(_job(entry, shared, release, place, notes))
        places.append(place)
    milliseconds = read_scaled(content, "timestamp_ms", "$", notes, 1e3)
    seconds = read_number(content, "timestamp", "$", notes)
    output = EngineOutput(
        version=version,
        timestamp_s=seconds if milliseconds is None else milliseconds,
        noise=found.noise,
        jobs=tuple(jobs),
        disks=_disks(content, notes),
        notes=notes.all,
    )
    return FioDocument(output=output, places=tuple(places))


def _settle(repeat: Repeat, notes: Notes) -> None:
    """Set the value of a repeated key: None, if its values differ."""
    if repeat.within == "percentile" and repeat.key == "0.00":
        return  # fio 2 fills its list of percentiles up with these
    if repeat.same:
        return  # fio 3 echoes some of its options twice
    fact = f"repeated {len(repeat.values)} times"
    if repeat.within in _OPTIONS and repeat.key == "filename":
        # fio adds each to the job's files, and takes several in one option with colons.
        repeat.parent[repeat.key] = ":".join(map(str, repeat.values))
        return
    if repeat.within in _OPTIONS:
        fact += "; fio used the last one"
    else:
        repeat.parent[repeat.key] = None
        fact += " with different values; not read"
    notes.add(NoteKind.REPEATED_FIELD, repeat.where, fact)


def _release(version: str, notes: Notes) -> tuple[int, int] | None:
    """Parse major and minor version; None, with a note, for another text."""
    match = _VERSION.match(version)
    release = (int(match[1]), int(match[2])) if match else None
    known = release is not None and _OLDEST <= release <= _NEWEST
    if not known or not _VERSION.fullmatch(version):
        shown = version if len(version) <= 60 else version[:60] + "..."
        notes.add(
            NoteKind.UNKNOWN_VERSION,
            "$['fio version']",
            f"output of {shown!r} is of an unknown version; read as the nearest known one"
            if version
            else "the version is missing",
        )
    return release


def _shared_options(content: Mapping[str, Any], notes: Notes) -> Mapping[str, dict[str, str]]:
    """Read the [global] options by client; the key is empty where all jobs share them."""
    where = key_path("$", "global options")
    if not isinstance(content.get("global options"), list):
        options = read_object(content, "global options", "$")
        return {"": _texts(options or {}, where, notes)}
    shared = {}
    for index, entry in enumerate(read_objects(content, "global options", "$") or ()):
        options = {key: value for key, value in entry.items() if key not in ("hostname", "port")}
        shared[_host(entry)] = _texts(options, f"{where}[{index}]", notes)
    return shared


def _host(entry: Mapping[str, Any]) -> str:
    """Read the client of an entry as `hostname:port`; empty where it names none."""
    name, port = entry.get("hostname"), entry.get("port")
    if not isinstance(name, str) or not name:
        return ""
    return f"{name}:{port}" if type(port) is int else name


def _texts(options: Mapping[str, Any], where: str, notes: Notes) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in options.items():
        if isinstance(value, str):
            texts[key] = value
        elif value is None or isinstance(value, int | float):
            texts[key] = "" if value is None else str(int(value) if value is True else value)
        else:
            notes.add(
                NoteKind.UNKNOWN_FIELD, key_path(where, key), "an option must be text; not read"
            )
    return texts


def _job(
    entry: Mapping[str, Any],
    shared: Mapping[str, dict[str, str]],
    release: tuple[int, int] | None,
    where: str,
    notes: Notes,
) -> JobResult:
    name = entry.get("jobname")
    if not isinstance(name, str):
        raise value_refused(f"{where}.jobname", "the job's name is missing or no text")
    notes.unknown(entry, JOB, where, scope=name, level="a job")
    # The sum over clients bears the last one's name.
    host = "" if name == _ALL_CLIENTS else _host(entry)
    own = read_object(entry, "job options", where)
    common = shared.get(host, shared.get("", {}))
    cpu = ("usr_cpu", "sys_cpu") if "usr_cpu" in entry else ("usr_cp", "sys_cp")
    return JobResult(
        name=name,
        group=read_count(entry, "groupid", where, notes) or 0,
        error=_error(entry, where, notes),
        options=JobOptions(
            raw={**common, **_texts(own or {}, key_path(where, "job options"), notes)},
            # The sum over clients has only the shared options.
            whole=own is not None or (bool(common) and name != _ALL_CLIENTS),
        ),
        job_runtime_s=read_scaled(entry, "job_runtime", where, notes, 1e3) or 0.0,
        elapsed_s=read_number(entry, "elapsed", where, notes) or 0.0,
        user_cpu=read_scaled(entry, cpu[0], where, notes, 100),
        system_cpu=read_scaled(entry, cpu[1], where, notes, 100),
        depth_levels=_depth_levels(entry, where, notes),
        operations=_operations(entry, release, where, notes, scope=name),
        host=host,
        steady=_steady(entry, where, notes, scope=name),
    )


def _error(entry: Mapping[str, Any], where: str, notes: Notes) -> int:
    error = entry.get("error")
    if type(error) is int and abs(error) < BEYOND:
        return error
    if error is not None:
        raise value_refused(f"{where}.error", f"an error number is expected, not {str(error)[:40]}")
    # All versions write it.
    notes.add(NoteKind.LEFT_OUT, f"{where}.error", "missing: it is unknown whether the job failed")
    return 0


def _depth_levels(entry: Mapping[str, Any], where: str, notes: Notes) -> dict[str, float]:
    given = read_object(entry, "iodepth_level", where) or {}
    where = f"{where}.iodepth_level"
    levels = {depth: read_scaled(given, depth, where, notes, 100) for depth in given}
    return {depth: share for depth, share in levels.items() if share is not None}


def _steady(entry: Mapping[str, Any], where: str, notes: Notes, *, scope: str) -> bool:
    state = read_object(entry, "steadystate", where)
    if state is None:
        return False
    where = f"{where}.steadystate"
    notes.unknown(state, STEADY_STATE, where, scope=scope, level="a steady state")
    return bool(read_number(state, "attained", where, notes))


def _operations(
    entry: Mapping[str, Any],
    release: tuple[int, int] | None,
    where: str,
    notes: Notes,
    *,
    scope: str,
) -> tuple[Operation, ...]:
    """Read the operations with I/O. `unified_rw_reporting` makes them one; with `both`, fio writes
    their sum in addition."""
    found: list[Operation] = []
    for key, op in _OPS:
        part = read_object(entry, key, where)
        if part is None:
            continue
        place = f"{where}.{key}"
        # fio 3 writes no latencies in microseconds, and no fio writes both: the key was added
        # later.
        modern = release is not None and release >= _IN_NANOSECONDS
        known = _KEYS_NS if modern or _NS_LATENCIES & part.keys() else _KEYS_US
        notes.unknown(part, known, place, scope=scope, level="an operation")
        amounts = [part.get(figure) for figure in ("total_ios", "io_bytes")]
        if not any(amounts if amounts[0] is None else amounts[:1]):
            continue
        if op is Op.TOTAL and found:
            notes.add(NoteKind.LEFT_OUT, place, "the sum over operations; each operation is read")
            continue
        if known is _KEYS_NS:
            part = {name: value for name, value in part.items() if name in known}
        found.append(_operation(op, part, release, place, notes, scope=scope))
    return tuple(found)


def _operation(
    op: Op,
    part: Mapping[str, Any],
    release: tuple[int, int] | None,
    where: str,
    notes: Notes,
    *,
    scope: str,
) -> Operation:
    bandwidth = read_number(part, "bw_bytes", where, notes)
    if "bw_bytes" not in part and (kibibytes := read_number(part, "bw", where, notes)) is not None:
        bandwidth = kibibytes * 1024
    total = read_latency(part, "lat", where, notes, scope=scope)
    alone = total is None or total.histogram is None
    return Operation(
        op=op,
        iops=read_number(part, "iops", where, notes),
        bandwidth_bps=bandwidth,
        total_ios=read_count(part, "total_ios", where, notes),
        io_bytes=_io_bytes(part, release, where, notes),
        runtime_s=read_scaled(part, "runtime", where, notes, 1e3),
        short_ios=read_count(part, "short_ios", where, notes) or 0,
        dropped_ios=read_count(part, "drop_ios", where, notes) or 0,
        submission=read_latency(part, "slat", where, notes, scope=scope, histogram_needed=False),
        completion=read_latency(part, "clat", where, notes, scope=scope, histogram_needed=alone),
        total=total,
    )


def _io_bytes(
    part: Mapping[str, Any], release: tuple[int, int] | None, where: str, notes: Notes
) -> int | None:
    reported = read_count(part, "io_bytes", where, notes)
    if reported is None or "io_kbytes" in part or (release and release >= _IN_NANOSECONDS):
        return reported
    if release is None:
        notes.add(
            NoteKind.UNKNOWN_VERSION,
            f"{where}.io_bytes",
            "in KiB or bytes, by the version, which is unknown; not read",
        )
        return None
    return reported * 1024


def _disks(content: Mapping[str, Any], notes: Notes) -> tuple[DiskUse, ...]:
    found = []
    for index, entry in enumerate(read_objects(content, "disk_util", "$") or ()):
        where = f"$.disk_util[{index}]"
        notes.unknown(entry, DISK, where, scope="", level="a disk")
        name, host = entry.get("name"), _host(entry)
        ios = [read_count(entry, key, where, notes) for key in ("read_ios", "write_ios")]
        if not isinstance(name, str) or ios[0] is None or ios[1] is None:
            notes.add(NoteKind.LEFT_OUT, where, "a disk without its name or its counts of I/Os")
            continue
        sectors = [read_count(entry, f"{op}_sectors", where, notes) for op in ("read", "write")]
        moved = [None if sector is None else sector * _SECTOR for sector in sectors]
        found.append(
            DiskUse(
                name=f"{host}/{name}" if host else name,
                read_ios=ios[0],
                write_ios=ios[1],
                read_merges=read_count(entry, "read_merges", where, notes) or 0,
                write_merges=read_count(entry, "write_merges", where, notes) or 0,
                read_bytes=moved[0],
                write_bytes=moved[1],
                busy_share=read_scaled(entry, "util", where, notes, 100),
            )
        )
    return tuple(found)
