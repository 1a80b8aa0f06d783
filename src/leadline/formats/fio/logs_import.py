"""Importer of the logs of fio: logs of one prefix (`X_iops.1.log`) are one result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from leadline.files import LOG
from leadline.formats.fio import logs as fio_log_latency
from leadline.formats.fio.histogram_logs import HistogramLog, parse_histogram_log
from leadline.formats.fio.logs import Log, read_log, windows
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
from leadline.stats.histogram import LatencyHistogram

# fio's get_log_name(): stem, kind, and the job's number with per_job_logs. People put "-" for "_".
_NAME = re.compile(r"(.*)[_-](clat_hist|iops|bw|clat|slat|lat)(?:\.(\d{1,9}))?\.log")
_LINE = re.compile(rb"\d{1,15}\s*,\s*-?\d[\d.]*\s*,\s*\d{1,15}\s*(?:,[\s\w,]*)?")
_HISTOGRAM = "clat_hist"
# A window takes 150 bytes; these are 16 jobs with three logs of four hours each.
_MOST_WINDOWS = 700_000
_LATENCIES = ("slat", "clat", "lat")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    name: str
    kind: str
    job: int
    content: bytes


def _recognises(name: str, head: bytes) -> bool:
    if not _NAME.fullmatch(PurePosixPath(name).name):
        return False
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    return not head.strip() or bool(_LINE.fullmatch(first.strip()))


def _bundles(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        match = _NAME.fullmatch(path.name)
        key = (str(path.parent), match.group(1)) if match else (name, "")
        found.setdefault(key, []).append(name)
    return tuple(tuple(bundle) for bundle in found.values())


def _read(contents: Mapping[str, bytes]) -> tuple[Result, ...]:
    files: list[_File] = []
    notes: list[Note] = []
    stem = ""
    for name in sorted(contents):
        match = _NAME.fullmatch(PurePosixPath(name).name)
        if match is None:
            raise FormatError.unreadable(
                f"the name {name!r} does not say what its values are",
                "line 1",
                "fio calls its logs X_iops.1.log, X_bw.1.log, X_lat.1.log, ...",
            )
        stem = match.group(1)
        files.append(
            _File(
                name=name,
                kind=match.group(2),
                job=int(match.group(3) or 0),
                content=contents[name],
            )
        )
    if not any(_holds_text(file.content) for file in files):
        raise FormatError.empty("the logs are empty", "line 1")
    jobs: dict[int, list[_File]] = {}
    for file in files:
        jobs.setdefault(file.job, []).append(file)
    read: dict[int, _Logs] = {}
    kept = 0
    for job, mine in sorted(jobs.items()):
        read[job] = _Logs.from_files(mine)
        kept += read[job].windows
        if kept > _MOST_WINDOWS:
            raise FormatError.unreadable(
                f"the logs of {stem} hold more than {_MOST_WINDOWS:,} windows together",
                f"with job {job}",
            )
    directions = {logs.directions for logs in read.values() if logs.directions}
    if len(directions) > 1:
        # Processes of one job have the same load: these are different jobs, which must not be
        # summed.
        return tuple(_result(f"{stem}.{job}", {job: logs}, notes) for job, logs in read.items())
    return (_result(stem, read, notes),)


def _holds_text(content: bytes) -> bool:
    """Like `content.strip()`, which would copy a large log."""
    return bool(content) and not content.isspace()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """The logs of one job; None for an empty file."""

    files: Mapping[str, _File]
    logs: Mapping[str, Log | None]
    histogram: HistogramLog | None

    @classmethod
    def from_files(cls, files: Sequence[_File]) -> _Logs:
        logs: dict[str, Log | None] = {}
        histogram = None
        for file in files:
            if not _holds_text(file.content):
                logs[file.kind] = None
            elif file.kind == _HISTOGRAM:
                histogram = parse_histogram_log(file.name, file.content)
            else:
                logs[file.kind] = read_log(file.name, file.content)
        return cls(files={file.kind: file for file in files}, logs=logs, histogram=histogram)

    @property
    def windows(self) -> int:
        return sum(
            len(series.amounts)
            for log in self.logs.values()
            if log
            for series in log.series.values()
        )

    @property
    def directions(self) -> frozenset[Op]:
        found = {op for log in self.logs.values() if log for op in log.series}
        return frozenset(found | set(self.histogram.histograms if self.histogram else ()))


def _result(name: str, jobs: Mapping[int, _Logs], given: Sequence[Note]) -> Result:
    notes = [*given, *_notes(jobs)]
    kinds = {kind for logs in jobs.values() for kind in logs.files}
    whole = {kind for kind in kinds if all(kind in logs.files for logs in jobs.values())}
    for kind in sorted(kinds - whole):
        lacking = [str(job) for job, logs in jobs.items() if kind not in logs.files]
        notes.append(
            _left_out(f"*_{kind}.*.log", f"job {', '.join(lacking)} has none: no sum of all jobs")
        )
    sums = {
        kind: [log for logs in jobs.values() if (log := logs.logs[kind])]
        for kind in sorted(whole - {_HISTOGRAM})
        if all(logs.logs[kind] for logs in jobs.values())
    }
    unit_ns = _unit_ns(jobs, notes)
    latencies = {
        kind: _latencies(kind, jobs, sums, unit_ns, notes)
        for kind in _LATENCIES
        if kind in sums and unit_ns
    }
    histograms = _histograms(jobs) if _HISTOGRAM in whole else {}
    operations = tuple(
        _operation(op, sums, latencies, histograms)
        for op in Op
        if any(op in logs.directions for logs in jobs.values())
    )
    spans = [log.span_s for logs in jobs.values() for log in logs.logs.values() if log]
    spans += [logs.histogram.span_s for logs in jobs.values() if logs.histogram]
    job = JobResult(
        name=name,
        options=JobOptions(raw={}, whole=False),
        job_runtime_s=max(spans, default=0.0),
        operations=operations,
    )
    return Result(
        workload=name,
        # fio names its version in no log.
        output=EngineOutput(version="fio", jobs=(job,), notes=tuple(notes)),
        tool="fio",
        windows=windows(sums["iops"]) if "iops" in sums else {},
    )


def _operation(
    op: Op,
    sums: Mapping[str, Sequence[Log]],
    latencies: Mapping[str, Mapping[Op, Latency]],
    histograms: Mapping[Op, Latency],
) -> Operation:
    iops = [log for log in sums.get("iops", ()) if op in log.series]
    each_io = bool(iops) and all(log.each_io for log in iops)
    bandwidth = [log for log in sums.get("bw", ()) if op in log.series]
    # The value of a single I/O in a bandwidth log is its size by its latency, no rate of the job.
    rates = [
        log.series[op].byte_rate if log.each_io else _times(log.series[op].rate, _KIB)
        for log in bandwidth
    ]
    return Operation(
        op=op,
        iops=_sum([log.series[op].rate for log in iops]),
        bandwidth_bps=_sum(rates),
        total_ios=sum(log.series[op].ios for log in iops) if each_io else None,
        io_bytes=sum(log.series[op].io_bytes for log in iops) if each_io else None,
        runtime_s=max((log.span_s for log in (*iops, *bandwidth)), default=None),
        submission=latencies.get("slat", {}).get(op),
        completion=histograms.get(op) or latencies.get("clat", {}).get(op),
        total=latencies.get("lat", {}).get(op),
    )


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _unit_ns(jobs: Mapping[int, _Logs], notes: list[Note]) -> int | None:
    """Return the unit of latency logs in nanoseconds; None where no other file proves it."""
    units = {logs.histogram.unit_ns for logs in jobs.values() if logs.histogram}
    logs = [log for logs in jobs.values() for log in logs.logs.values() if log]
    units |= {1 for log in logs if log.only_fio_3}
    if len(units) == 1:
        return units.pop()
    kinds = sorted({kind for logs in jobs.values() for kind in logs.logs} & set(_LATENCIES))
    if kinds:
        reason = "two versions of fio wrote them" if units else "the logs do not show which"
        notes.append(
            _left_out(
                f"*_{kinds[0]}.*.log",
                f"latencies ({', '.join(kinds)}): in us (fio 2) or ns (fio 3), {reason}",
            )
        )
    return None


def _latencies(
    kind: str,
    jobs: Mapping[int, _Logs],
    sums: Mapping[str, Sequence[Log]],
    unit_ns: int | None,
    notes: list[Note],
) -> Mapping[Op, Latency]:
    logs = sums[kind]
    found: Mapping[Op, Latency] | None = None
    if unit_ns and all(log.each_io for log in logs):
        contents = {job.files[kind].name: job.files[kind].content for job in jobs.values()}
        return fio_log_latency.latencies_of_ios(contents, unit_ns)
    if unit_ns and "iops" in sums:
        found = fio_log_latency.weighted_means(
            {
                job.files[kind].name: (job.files[kind].content, log, job.files["iops"].content)
                for job, log in zip(jobs.values(), sums["iops"], strict=True)
            },
            unit_ns,
        )
    fact = (
        "means of intervals, and no IOPS log of the same intervals weighs them: no mean"
        if found is None
        else "the mean is of intervals weighted with their IOPS, not of the last one, which may "
        "have none; with log_max_value, which the logs do not show, it is of maxima"
    )
    notes.append(_left_out(f"*_{kind}.*.log", fact))
    return found or {}


def _histograms(jobs: Mapping[int, _Logs]) -> Mapping[Op, Latency]:
    parts = [logs.histogram for logs in jobs.values()]
    known = [part for part in parts if part]
    if len(known) < len(parts) or len({part.unit_ns for part in known}) != 1:
        return {}
    found: dict[Op, Latency] = {}
    for op in dict.fromkeys(op for part in known for op in part.histograms):
        merged = LatencyHistogram.merged(
            [part.histograms[op] for part in known if op in part.histograms]
        )
        if not merged.count:
            continue
        found[op] = Latency(
            # Right within half a bucket (1/128), if the log has not made buckets wider.
            mean_s=merged.mean_s() if all(part.stride == 1 for part in known) else None,
            count=merged.count,
            histogram=merged,
        )
    return found


def _notes(jobs: Mapping[int, _Logs]) -> list[Note]:
    """Make the notes on missing information, one per fact for all jobs."""
    found: dict[str, list[str]] = {}
    impossible: list[Note] = []
    inside = silent = 0
    for logs in jobs.values():
        for kind, file in logs.files.items():
            log = logs.logs.get(kind)
            if not _holds_text(file.content):
                found.setdefault("empty: no figure of this kind", []).append(file.name)
            if log is None:
                continue
            inside = max(inside, log.jobs)
            if kind == "iops" or (kind == "bw" and not logs.logs.get("iops")):
                silent += sum(series.silent for series in log.series.values())
            if log.by_clock:
                fact = "when the job began; time is counted from the first line"
                found.setdefault(fact, []).append(file.name)
            if not log.span_s:
                found.setdefault("rates: all lines are of one moment", []).append(file.name)
            impossible += [
                Note(NoteKind.IMPOSSIBLE_VALUE, f"{file.name}, line {line}", f"{what}: no rates")
                for what, line in (
                    ("the time goes back", log.backwards),
                    ("a negative value", log.impossible),
                )
                if line
            ]
        impossible += logs.histogram.notes if logs.histogram else ()
    if silent:
        fact = f"{silent:,} intervals have no line; they count as without I/O"
        found[fact] = ["the times of the lines"]
    if len(jobs) > 1 or inside > 1:
        fact = f"{max(len(jobs), inside)} jobs are summed; whether they ran at once is unknown"
        found[fact] = ["the names of the logs" if len(jobs) > 1 else "the times of the lines"]
    more = {fact: f" and {len(names) - 1} more" for fact, names in found.items() if len(names) > 1}
    notes = [_left_out(names[0] + more.get(fact, ""), fact) for fact, names in found.items()]
    return notes + impossible


def _left_out(where: str, fact: str) -> Note:
    return Note(NoteKind.LEFT_OUT, where, fact)


IMPORTER = Importer(
    kind="fio-log",
    summary="fio's logs of IOPS, bandwidth and latency (X_iops.1.log, ..., X_clat_hist.1.log)",
    recognises=_recognises,
    read=_read,
    cost=LOG,
    bundles=_bundles,
)
