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
from dataclasses import dataclass, replace
from typing import Final

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
    Entry,
    Notes,
    read_latency,
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
    if not content or content.isspace():
        raise FormatError.empty(f"fio's output is empty ({len(content)} bytes)")
    text = find_json(content, MARKS, FLAT)
    if not text.documents:
        raise text.fault or _no_json(content)
    return FioText(documents=tuple(map(_document, text.documents)), fault=text.fault)


def _no_json(content: bytes) -> FormatError:
    first = content.lstrip()[:200].splitlines()[0].decode("utf-8", "replace")
    begins = (f"line 1; it begins: {first!r}",)
    if re.search(rb'\{\s*["}]', content):
        return FormatError.unreadable("this holds JSON, but no output of fio", *(begins))
    return FormatError.truncated("fio's output holds no JSON", *(begins))


def _document(found: JsonDocument) -> FioDocument:
    notes = Notes(found.bins)
    for repeat in found.repeats:
        _settle(repeat, notes)
    content = Entry(found.content, "$", notes)
    version = found.content.get("fio version") or ""
    if not isinstance(version, str):
        raise value_refused("$['fio version']", f"text is expected, not {type(version).__name__}")
    release = _release(version, notes)
    content.note_unknown(DOCUMENT, scope="", level="an execution")
    listed = "client_stats" if "client_stats" in found.content else "jobs"
    entries = content.listed(listed)
    if entries is None:
        raise value_refused(f"$.{listed}", "the list of jobs is missing")
    shared = _shared_options(content)
    jobs: list[JobResult] = []
    places: list[str] = []
    for entry in entries:
        # The sum over clients follows them; it may be the only entry that was kept.
        if entry.values.get("jobname") == _ALL_CLIENTS and listed == "client_stats" and jobs:
            fact = "the sum over all clients; each client is read"
            notes.add(NoteKind.LEFT_OUT, entry.where, fact)
            continue
        jobs.append(_job(entry, shared, release))
        places.append(entry.where)
    milliseconds, seconds = content.scaled("timestamp_ms", 1e3), content.number("timestamp")
    disks = _disks(content)
    output = EngineOutput(
        version=version,
        timestamp_s=seconds if milliseconds is None else milliseconds,
        noise=found.noise,
        jobs=tuple(jobs),
        disks=disks,
        notes=notes.all,
    )
    return FioDocument(output=output, places=tuple(places))


def _settle(repeat: Repeat, notes: Notes) -> None:
    """Set the value of a repeated key: None, if its values differ."""
    if repeat.within == "percentile" and repeat.key == "0.00":
        return  # fio 2 fills its list of percentiles up with these
    if repeat.same:
        return  # fio 3 echoes some of its options twice
    times = len(repeat.values)
    if repeat.within in _OPTIONS and repeat.key == "filename":
        # fio adds each to the job's files, and takes several in one option with colons.
        repeat.parent[repeat.key] = ":".join(map(str, repeat.values))
        return
    if repeat.within in _OPTIONS:
        # As in scripts that append an option to override it.
        fact = f"given {times} times; fio used the last one"
        notes.add(NoteKind.LEFT_OUT, repeat.where, fact)
        return
    repeat.parent[repeat.key] = None
    fact = f"repeated {times} times with different values; not read"
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


def _shared_options(content: Entry) -> Mapping[str, dict[str, str]]:
    """Read the [global] options by client; the key is empty where all jobs share them."""
    if not isinstance(content.values.get("global options"), list):
        return {"": _texts(content.inner("global options"))}
    return {
        _host(entry): _texts(entry, besides=("hostname", "port"))
        for entry in content.listed("global options") or ()
    }


def _host(entry: Entry) -> str:
    """Read the client of an entry as `hostname:port`; empty where it names none."""
    name, port = entry.values.get("hostname"), entry.values.get("port")
    if not isinstance(name, str) or not name:
        return ""
    return f"{name}:{port}" if type(port) is int else name


def _texts(options: Entry | None, besides: tuple[str, ...] = ()) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in options.values.items() if options else ():
        if key in besides:
            continue
        if isinstance(value, str):
            texts[key] = value
        elif value is None or isinstance(value, int | float):
            texts[key] = "" if value is None else str(int(value) if value is True else value)
        elif options:
            fact = "an option must be text; not read"
            options.notes.add(NoteKind.UNKNOWN_FIELD, key_path(options.where, key), fact)
    return texts


def _job(
    entry: Entry, shared: Mapping[str, dict[str, str]], release: tuple[int, int] | None
) -> JobResult:
    name = entry.values.get("jobname")
    if not isinstance(name, str):
        raise value_refused(f"{entry.where}.jobname", "the job's name is missing or no text")
    entry.note_unknown(JOB, scope=name, level="a job")
    # The sum over clients bears the last one's name.
    host = "" if name == _ALL_CLIENTS else _host(entry)
    own = entry.inner("job options")
    common = shared.get(host, shared.get("", {}))
    options = JobOptions(
        raw={**common, **_texts(own)},
        # The sum over clients has only the shared options.
        whole=own is not None or (bool(common) and name != _ALL_CLIENTS),
    )
    cpu = ("usr_cpu", "sys_cpu") if "usr_cpu" in entry.values else ("usr_cp", "sys_cp")
    return JobResult(
        name=name,
        group=entry.count("groupid") or 0,
        error=_error(entry),
        options=options,
        job_runtime_s=entry.scaled("job_runtime", 1e3) or 0.0,
        elapsed_s=entry.number("elapsed") or 0.0,
        user_cpu=entry.scaled(cpu[0], 100),
        system_cpu=entry.scaled(cpu[1], 100),
        depth_levels=_depth_levels(entry),
        operations=_of_files(options, _operations(entry, release, scope=name)),
        host=host,
        steady=_steady(entry, scope=name),
    )


def _error(entry: Entry) -> int:
    error, where = entry.values.get("error"), f"{entry.where}.error"
    if type(error) is int and abs(error) < BEYOND:
        return error
    if error is not None:
        raise value_refused(where, f"an error number is expected, not {str(error)[:40]}")
    # All versions write it.
    fact = "missing: it is unknown whether the job failed"
    entry.notes.add(NoteKind.LEFT_OUT, where, fact)
    return 0


def _depth_levels(entry: Entry) -> dict[str, float]:
    given = entry.inner("iodepth_level")
    levels = {depth: given.scaled(depth, 100) for depth in given.values} if given else {}
    return {depth: share for depth, share in levels.items() if share is not None}


def _steady(entry: Entry, *, scope: str) -> bool:
    state = entry.inner("steadystate")
    if state is None:
        return False
    state.note_unknown(STEADY_STATE, scope=scope, level="a steady state")
    return bool(state.number("attained"))


def _operations(
    entry: Entry, release: tuple[int, int] | None, *, scope: str
) -> tuple[Operation, ...]:
    """Read the operations with I/O. `unified_rw_reporting` makes them one; with `both`, fio writes
    their sum in addition."""
    found: list[Operation] = []
    for key, op in _OPS:
        part = entry.inner(key)
        if part is None:
            continue
        # fio 3 writes no latencies in microseconds, and no fio writes both: the key was added
        # later.
        modern = release is not None and release >= _IN_NANOSECONDS
        known = _KEYS_NS if modern or _NS_LATENCIES & part.values.keys() else _KEYS_US
        part.note_unknown(known, scope=scope, level="an operation")
        amounts = [part.values.get(figure) for figure in ("total_ios", "io_bytes")]
        if not any(amounts if amounts[0] is None else amounts[:1]):
            continue
        if op is Op.TOTAL and found:
            fact = "the sum over operations; each operation is read"
            part.notes.add(NoteKind.LEFT_OUT, part.where, fact)
            continue
        if known is _KEYS_NS:
            values = {name: value for name, value in part.values.items() if name in known}
            part = replace(part, values=values)
        found.append(_operation(op, part, release, scope=scope))
    return tuple(found)


def _of_files(options: JobOptions, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Return what an engine for files did. fio counts each file as a read of its size, and its time
    as completion latency (engines/filecreate.c, filestat.c, filedelete.c)."""
    op = options.file_op
    if op is None:
        return operations
    return tuple(
        replace(found, op=op, bandwidth_bps=None, io_bytes=None, total=found.completion)
        for found in operations
    )


def _operation(op: Op, part: Entry, release: tuple[int, int] | None, *, scope: str) -> Operation:
    bandwidth = part.number("bw_bytes")
    if "bw_bytes" not in part.values and (kibibytes := part.number("bw")) is not None:
        bandwidth = kibibytes * 1024
    total = read_latency(part, "lat", scope=scope)
    alone = total is None or total.histogram is None
    return Operation(
        op=op,
        iops=part.number("iops"),
        bandwidth_bps=bandwidth,
        total_ios=part.count("total_ios"),
        io_bytes=_io_bytes(part, release),
        runtime_s=part.scaled("runtime", 1e3),
        short_ios=part.count("short_ios") or 0,
        dropped_ios=part.count("drop_ios") or 0,
        submission=read_latency(part, "slat", scope=scope, histogram_needed=False),
        completion=read_latency(part, "clat", scope=scope, histogram_needed=alone),
        total=total,
    )


def _io_bytes(part: Entry, release: tuple[int, int] | None) -> int | None:
    reported = part.count("io_bytes")
    if reported is None or "io_kbytes" in part.values or (release and release >= _IN_NANOSECONDS):
        return reported
    if release is None:
        fact = "in KiB or bytes, by the version, which is unknown; not read"
        part.notes.add(NoteKind.UNKNOWN_VERSION, f"{part.where}.io_bytes", fact)
        return None
    return reported * 1024


def _disks(content: Entry) -> tuple[DiskUse, ...]:
    found = []
    for entry in content.listed("disk_util") or ():
        entry.note_unknown(DISK, scope="", level="a disk")
        name, host = entry.values.get("name"), _host(entry)
        read_ios, write_ios = entry.count("read_ios"), entry.count("write_ios")
        if not isinstance(name, str) or read_ios is None or write_ios is None:
            fact = "a disk without its name or its counts of I/Os"
            entry.notes.add(NoteKind.LEFT_OUT, entry.where, fact)
            continue
        sectors = [entry.count(f"{op}_sectors") for op in ("read", "write")]
        read_bytes, write_bytes = (None if count is None else count * _SECTOR for count in sectors)
        found.append(
            DiskUse(
                name=f"{host}/{name}" if host else name,
                read_ios=read_ios,
                write_ios=write_ios,
                read_merges=entry.count("read_merges") or 0,
                write_merges=entry.count("write_merges") or 0,
                read_bytes=read_bytes,
                write_bytes=write_bytes,
                busy_share=entry.scaled("util", 100),
            )
        )
    return tuple(found)
