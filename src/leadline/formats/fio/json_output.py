"""fio's JSON and json+ output (fio 2.1 to 3.4x): what each job group did, with its latency
histograms.

The parser is total: it returns results, with notes of what it could not vouch for, or raises
FormatError with the position. What changed between versions:

- `io_bytes` is in KiB in fio 2 and in bytes since 2.99, which also writes `io_kbytes`; `bw` is in
  KiB/s in all of them, `bw_bytes` came with 3.6;
- latencies are in microseconds (`lat`) in fio 2 and in nanoseconds (`lat_ns`) since 2.99;
- `total_ios` is missing in 2.1, the options of the jobs before 2.15.

Not read: fsync latencies (`sync`), latencies by priority, the means of fio's samples over time
(`iops_mean`), latency shares by class (`latency_us`), and what fio derived from what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from leadline.formats.result import (
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
from leadline.formats.text import JsonDocument, Repeat, find_json, key_path
from leadline.metrics import Op
from leadline.stats.histogram import LatencyHistogram

# The keys of fio's JSON, 2.1 to 3.43, by the object that they stand in.
#  From stat.c (`show_thread_status_json`, `add_ddir_status_json`, `add_ddir_lat_json`,
# `json_array_add_disk_util`), client.c (`json_object_add_client_info`) and the corpus. A key that
# is none of them tells something that nobody here has read about.

DOCUMENT: Final = frozenset(
    {
        *("fio version", "timestamp", "timestamp_ms", "time", "global options"),
        *("jobs", "client_stats", "disk_util", "cpu_idleness"),
    }
)
# What an object has if it is a document of fio's.
MARKS: Final = frozenset({"fio version", "jobs", "client_stats"})

JOB: Final = frozenset(
    {
        *("jobname", "groupid", "job_start", "error", "eta", "elapsed", "desc", "job options"),
        *("hostname", "port", "read", "write", "trim", "mixed", "sync", "job_runtime"),
        # 2.1.3 called them sys_cp and usr_cp.
        *("usr_cpu", "sys_cpu", "usr_cp", "sys_cp", "ctx", "majf", "minf"),
        *("iodepth_level", "iodepth_submit", "iodepth_complete"),
        *("latency_ns", "latency_us", "latency_ms", "latency_depth", "latency_percentile"),
        *("latency_target", "latency_target_ns", "latency_window", "latency_window_us"),
        *("total_err", "first_error", "block", "steadystate", "zone_resets"),
    }
)

OPERATION: Final = frozenset(
    {
        *("io_bytes", "io_kbytes", "bw", "bw_bytes", "iops", "runtime"),
        *("total_ios", "short_ios", "drop_ios", "cachehit", "prios"),
        *("bw_min", "bw_max", "bw_agg", "bw_mean", "bw_dev", "bw_samples"),
        *("iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"),
        # 3.14 to 3.29, before `prios`.
        *("lat_high_prio", "lat_low_prio", "clat_high_prio", "clat_low_prio"),
    }
)
LATENCIES: Final = ("slat", "clat", "lat")

LATENCY: Final = frozenset({"min", "max", "mean", "stddev", "N", "percentile", "bins"})

DISK: Final = frozenset(
    {
        *("name", "hostname", "port", "util", "in_queue"),
        *(
            f"{op}_{what}"
            for op in ("read", "write")
            for what in ("ios", "merges", "ticks", "sectors")
        ),
        # Means over the members of an md or dm device; fio spells one of them without the s.
        *("aggr_util", "aggr_in_queue", "aggr_write_merge"),
        *(
            f"aggr_{op}_{what}"
            for op in ("read", "write")
            for what in ("ios", "merges", "ticks", "sectors")
        ),
    }
)

STEADY_STATE: Final = frozenset(
    {"ss", "duration", "attained", "criterion", "max_deviation", "slope", "data"}
)

# Objects of numbers only.
FLAT: Final = frozenset(
    {
        *("bins", "percentile", "iodepth_level", "iodepth_submit", "iodepth_complete"),
        *("latency_ns", "latency_us", "latency_ms"),
    }
)


# Figures in fio's JSON: numbers that can be, latencies in seconds, and notes of what cannot.

# Nothing that fio counts reaches this: 292 years of nanoseconds, 8 EiB.
BEYOND: Final = 2**63
# A file that is all doubts shall not become a report of millions of them.
_MOST_NOTES: Final = 200
_LONGEST_PERCENT: Final = 20
_NS: Final = 1e9
_US: Final = 1e6


class Notes:
    """The notes of one document, as they are found."""

    def __init__(self) -> None:
        self._told: list[Note] = []
        self._unknown: set[tuple[str, str, str]] = set()
        self._more = 0

    def tell(self, kind: NoteKind, where: str, fact: str) -> None:
        if len(self._told) < _MOST_NOTES:
            self._told.append(Note(kind=kind, where=where, fact=fact))
        else:
            self._more += 1

    def unknown(
        self, entry: Mapping[str, Any], known: frozenset[str], where: str, *, scope: str, level: str
    ) -> None:
        """One note for each key that is not known, once in a scope (the jobs of one name)."""
        if entry.keys() <= known:
            return
        for key in entry:
            if key not in known and (scope, level, key) not in self._unknown:
                self._unknown.add((scope, level, key))
                self.tell(
                    NoteKind.UNKNOWN_FIELD,
                    key_path(where, key),
                    f"fio is not known to write this of {level}; it was not read",
                )

    def impossible(self, where: str, value: object) -> None:
        shown = str(value) if isinstance(value, float) else repr(value)
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        self.tell(NoteKind.IMPOSSIBLE_VALUE, where, f"{shown} cannot be; it was not read")

    @property
    def all(self) -> tuple[Note, ...]:
        if not self._more:
            return tuple(self._told)
        more = f"{self._more} more notes are not told"
        return (*self._told, Note(kind=NoteKind.LEFT_OUT, where="$", fact=more))


def unreadable(where: str, fact: str) -> FormatError:
    return FormatError(
        "unreadable-result", f"fio's JSON is not understood: {fact}", context=(where,)
    )


def number(entry: Mapping[str, Any], key: str, where: str, notes: Notes) -> float | None:
    """A figure as it is written; None where it is missing, or cannot be, which is noted.
    Raises FormatError where it is no number."""
    value = entry.get(key)
    if value is None:
        return None
    if type(value) is not int and type(value) is not float:
        fact = f"a number is expected, not {type(value).__name__}"
        raise unreadable(key_path(where, key), fact)
    if 0 <= value < BEYOND:  # false for NaN, too
        return value
    notes.impossible(key_path(where, key), value)
    return None


def count(entry: Mapping[str, Any], key: str, where: str, notes: Notes) -> int | None:
    """As `number`, of a figure that is whole."""
    value = number(entry, key, where, notes)
    if value is None or type(value) is int:
        return value
    if value.is_integer():
        return int(value)
    notes.impossible(key_path(where, key), value)
    return None


def scaled(
    entry: Mapping[str, Any], key: str, where: str, notes: Notes, unit: float
) -> float | None:
    """As `number`, divided by the `unit` that it is written in."""
    value = number(entry, key, where, notes)
    return None if value is None else value / unit


def member(entry: Mapping[str, Any], key: str, where: str) -> dict[str, Any] | None:
    """An object in an object; None where it is missing. Raises FormatError if it is none."""
    value = entry.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise unreadable(key_path(where, key), f"an object is expected, not {type(value).__name__}")


def members(entry: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]] | None:
    """A list of objects; None where it is missing. Raises FormatError if it is none."""
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise unreadable(key_path(where, key), f"a list is expected, not {type(value).__name__}")
    for index, one in enumerate(value):
        if not isinstance(one, dict):
            raise unreadable(
                f"{key_path(where, key)}[{index}]",
                f"an object is expected, not {type(one).__name__}",
            )
    return value


def latency(
    part: Mapping[str, Any],
    name: str,
    where: str,
    notes: Notes,
    *,
    scope: str,
    histogram_needed: bool = True,
) -> Latency | None:
    """`slat`, `clat` or `lat` of an operation, in nanoseconds or in the microseconds of fio 2.

    None where fio measured nothing: the key is absent, or all is zero though I/Os were done
    (gtod_reduce, disable_lat). A histogram that is not needed is left out, since making all three
    would take longer than decoding the file, unless it contradicts the count.
    """
    unit = _NS
    entry = member(part, key := f"{name}_ns", where)
    if entry is None:
        unit = _US
        entry = member(part, key := name, where)
    if not entry:
        return None
    where = f"{where}.{key}"
    notes.unknown(entry, LATENCY, where, scope=scope, level="a latency")
    mean, largest = entry.get("mean"), entry.get("max")
    if not mean and not largest:
        return None
    told = count(entry, "N", where, notes)
    counted, histogram = None, None
    bins = member(entry, "bins", where)
    if bins:
        counted = _counted(bins, where, notes)
        if counted is not None and (histogram_needed or told not in (None, counted)):
            histogram = _histogram(bins, unit, where, notes)
    return Latency(
        min_s=scaled(entry, "min", where, notes, unit),
        max_s=scaled(entry, "max", where, notes, unit),
        mean_s=scaled(entry, "mean", where, notes, unit),
        stddev_s=scaled(entry, "stddev", where, notes, unit),
        count=counted if told is None else told,
        histogram=histogram,
        percentiles=_percentiles(entry, where, notes, unit),
    )


def _counted(bins: Mapping[str, Any], where: str, notes: Notes) -> int | None:
    """The I/Os in a histogram; None, with a note, where its counts are no counts."""
    try:
        counted = sum(bins.values())
    except TypeError:
        counted = None
    if type(counted) is int and 0 <= counted < BEYOND:
        return counted
    notes.impossible(f"{where}.bins", counted if counted is not None else "counts that are none")
    return None


def _histogram(
    bins: Mapping[str, Any], unit: float, where: str, notes: Notes
) -> LatencyHistogram | None:
    """None, with a note, where a bin is not a whole number of nanoseconds (or, of fio 2,
    microseconds) that can be."""
    try:
        # numpy reads a list of digits four times as fast as int() does one after the other, but
        # takes anything, and what is too great for it as the greatest that it has.
        keys = ",".join(bins)
        commas = keys.encode().translate(None, b"0123456789")
        if commas != b"," * (len(bins) - 1) or "" in bins:
            raise ValueError("not whole numbers")
        values = np.fromstring(keys, dtype=np.int64, sep=",")
        counts = np.fromiter(bins.values(), dtype=np.int64, count=len(bins))
        if values.max() == np.iinfo(np.int64).max:
            raise ValueError("too long")
        if unit == _US:
            if values.max() > BEYOND // 1000:
                raise ValueError("too long")
            values *= 1000
        return LatencyHistogram.from_arrays(values, counts)
    except (ValueError, OverflowError):
        notes.tell(
            NoteKind.IMPOSSIBLE_VALUE,
            f"{where}.bins",
            "not all bins are counts of I/Os by latency; the histogram was not read",
        )
        return None


@lru_cache(maxsize=1024)
def _quantile(percent: str) -> float | None:
    """The quantile of a key such as `99.950000`; None if it is no such key."""
    try:
        # Rounded, so that 99.9 becomes the 0.999 that others ask for, to the bit.
        quantile = round(float(percent) / 100, 12)
    except ValueError:
        return None
    return quantile if 0 <= quantile <= 1 else None


def _percentiles(
    entry: Mapping[str, Any], where: str, notes: Notes, unit: float
) -> dict[float, float]:
    """Seconds by quantile. Not told where all are zero and the mean is not: fio 2 wrote them so
    when it was not asked for them. fio 2 filled the list up with the percentile `0.00`."""
    given = member(entry, "percentile", where)
    if not given:
        return {}
    where = f"{where}.percentile"
    found: dict[float, float] = {}
    for percent, value in given.items():
        quantile = _quantile(percent) if len(percent) <= _LONGEST_PERCENT else None
        if quantile is None:
            notes.tell(
                NoteKind.UNKNOWN_FIELD,
                key_path(where, percent),
                "this is not a percentage; it was not read",
            )
        elif 0 < quantile < 1:  # the 100th is the maximum
            # Most of a file's figures are these, and most are sound.
            if type(value) is not int or not 0 <= value < BEYOND:
                value = number(given, percent, where, notes)
            if value is not None:
                found[quantile] = value / unit
    return found if any(found.values()) or not entry.get("mean") else {}


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
    """One execution's output. `places` are the JSON paths of `output.jobs`, one for each."""

    output: EngineOutput
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FioText:
    """The documents of one file; `fault` is why there are no more behind them, if it was not the
    file's end."""

    documents: tuple[FioDocument, ...]
    fault: FormatError | None = None


def parse_fio_json(content: bytes) -> EngineOutput:
    """Parse a file of one execution. Raises FormatError with condition `empty-result`,
    `truncated-result` or `unreadable-result`.
    """
    outputs = parse_fio_documents(content)
    if len(outputs) > 1:
        raise FormatError(
            "unreadable-result", f"fio's output holds {len(outputs)} executions where one is due"
        )
    return outputs[0]


def parse_fio_documents(content: bytes) -> tuple[EngineOutput, ...]:
    """Parse a file of one or several executions. Raises FormatError as `parse_fio_json`."""
    text = read_fio_text(content)
    if text.fault is not None:
        raise text.fault
    return tuple(document.output for document in text.documents)


def read_fio_text(content: bytes) -> FioText:
    """What can be read of a file: at least one document, or it raises FormatError."""
    if not content.strip():
        raise FormatError("empty-result", f"fio's output is empty ({len(content)} bytes)")
    text = find_json(content, MARKS, FLAT)
    if not text.documents:
        raise text.fault or _no_json(content)
    return FioText(documents=tuple(map(_document, text.documents)), fault=text.fault)


def _no_json(content: bytes) -> FormatError:
    first = content.strip().splitlines()[0][:200].decode("utf-8", "replace")
    begins = (f"line 1; it begins: {first!r}",)
    if re.search(rb'\{\s*["}]', content):
        return FormatError(
            "unreadable-result", "this holds JSON, but no output of fio", context=begins
        )
    return FormatError("truncated-result", "fio's output holds no JSON", context=begins)


def _document(found: JsonDocument) -> FioDocument:
    content, notes = found.content, Notes()
    for repeat in found.repeats:
        _settle(repeat, notes)
    version = content.get("fio version") or ""
    if not isinstance(version, str):
        raise unreadable("$['fio version']", f"text is expected, not {type(version).__name__}")
    release = _release(version, notes)
    notes.unknown(content, DOCUMENT, "$", scope="", level="an execution")
    listed = "client_stats" if "client_stats" in content else "jobs"
    entries = members(content, listed, "$")
    if entries is None:
        raise unreadable(f"$.{listed}", "the list of jobs is missing")
    shared = _shared_options(content, notes)
    jobs: list[JobResult] = []
    places: list[str] = []
    for index, entry in enumerate(entries):
        place = f"$.{listed}[{index}]"
        # The sum over clients stands behind them; it may be all that somebody kept.
        if entry.get("jobname") == _ALL_CLIENTS and "client_stats" in content and jobs:
            notes.tell(NoteKind.LEFT_OUT, place, "the sum over all clients, which are read")
            continue
        jobs.append(_job(entry, shared, release, place, notes))
        places.append(place)
    milliseconds = scaled(content, "timestamp_ms", "$", notes, 1e3)
    seconds = number(content, "timestamp", "$", notes)
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
    """Decide what a key that stands twice says: nothing, if its values are not one and the same."""
    if repeat.within == "percentile" and repeat.key == "0.00":
        return  # fio 2 fills its list of percentiles up with these
    if repeat.same:
        return  # fio 3 echoes some of its options twice
    fact = f"stands {len(repeat.values)} times"
    if repeat.within in _OPTIONS and repeat.key == "filename":
        # fio adds each to the job's files, and takes several in one option with colons.
        repeat.parent[repeat.key] = ":".join(map(str, repeat.values))
        return
    if repeat.within in _OPTIONS:
        fact += "; the last one counted for fio"
    else:
        repeat.parent[repeat.key] = None
        fact += " with different values, of which none was read"
    notes.tell(NoteKind.REPEATED_FIELD, repeat.where, fact)


def _release(version: str, notes: Notes) -> tuple[int, int] | None:
    """Major and minor version; None, with a note, where the text does not tell them."""
    match = _VERSION.match(version)
    release = (int(match[1]), int(match[2])) if match else None
    known = release is not None and _OLDEST <= release <= _NEWEST
    if not known or not _VERSION.fullmatch(version):
        shown = version if len(version) <= 60 else version[:60] + "..."
        notes.tell(
            NoteKind.UNKNOWN_VERSION,
            "$['fio version']",
            f"output of {shown!r} was never seen; it was read as fio's of a near version"
            if version
            else "the version is missing",
        )
    return release


def _shared_options(content: Mapping[str, Any], notes: Notes) -> Mapping[str, dict[str, str]]:
    """The [global] options by client; under an empty name where all jobs share them."""
    where = key_path("$", "global options")
    if not isinstance(content.get("global options"), list):
        options = member(content, "global options", "$")
        return {"": _texts(options or {}, where, notes)}
    shared = {}
    for index, one in enumerate(members(content, "global options", "$") or ()):
        options = {key: value for key, value in one.items() if key not in ("hostname", "port")}
        shared[_host(one)] = _texts(options, f"{where}[{index}]", notes)
    return shared


def _host(entry: Mapping[str, Any]) -> str:
    """`hostname:port` of the client that an entry is of; empty where it names none."""
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
            notes.tell(
                NoteKind.UNKNOWN_FIELD, key_path(where, key), "an option is text; it was not read"
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
        raise unreadable(f"{where}.jobname", "the job's name is missing or no text")
    notes.unknown(entry, JOB, where, scope=name, level="a job")
    # The sum over clients bears the last one's name.
    host = "" if name == _ALL_CLIENTS else _host(entry)
    own = member(entry, "job options", where)
    common = shared.get(host, shared.get("", {}))
    cpu = ("usr_cpu", "sys_cpu") if "usr_cpu" in entry else ("usr_cp", "sys_cp")
    return JobResult(
        name=name,
        group=count(entry, "groupid", where, notes) or 0,
        error=_error(entry, where, notes),
        options=JobOptions(
            raw={**common, **_texts(own or {}, key_path(where, "job options"), notes)},
            # The sum over clients has no options of its own beside the shared ones.
            whole=own is not None or (bool(common) and name != _ALL_CLIENTS),
        ),
        job_runtime_s=scaled(entry, "job_runtime", where, notes, 1e3) or 0.0,
        elapsed_s=number(entry, "elapsed", where, notes) or 0.0,
        user_cpu=scaled(entry, cpu[0], where, notes, 100),
        system_cpu=scaled(entry, cpu[1], where, notes, 100),
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
        raise unreadable(f"{where}.error", f"an error number is expected, not {str(error)[:40]}")
    # All versions write it.
    notes.tell(NoteKind.LEFT_OUT, f"{where}.error", "missing: whether the job failed is not told")
    return 0


def _depth_levels(entry: Mapping[str, Any], where: str, notes: Notes) -> dict[str, float]:
    given = member(entry, "iodepth_level", where) or {}
    where = f"{where}.iodepth_level"
    levels = {depth: scaled(given, depth, where, notes, 100) for depth in given}
    return {depth: share for depth, share in levels.items() if share is not None}


def _steady(entry: Mapping[str, Any], where: str, notes: Notes, *, scope: str) -> bool:
    state = member(entry, "steadystate", where)
    if state is None:
        return False
    where = f"{where}.steadystate"
    notes.unknown(state, STEADY_STATE, where, scope=scope, level="a steady state")
    return bool(number(state, "attained", where, notes))


def _operations(
    entry: Mapping[str, Any],
    release: tuple[int, int] | None,
    where: str,
    notes: Notes,
    *,
    scope: str,
) -> tuple[Operation, ...]:
    """The operations that did I/O. `unified_rw_reporting` makes them one; asked for both (`both`),
    fio writes that one beside those that it is the sum of."""
    found: list[Operation] = []
    for key, op in _OPS:
        part = member(entry, key, where)
        if part is None:
            continue
        place = f"{where}.{key}"
        # fio 3 writes no latencies in microseconds, and no fio both: somebody put such a key there.
        modern = release is not None and release >= _IN_NANOSECONDS
        known = _KEYS_NS if modern or _NS_LATENCIES & part.keys() else _KEYS_US
        notes.unknown(part, known, place, scope=scope, level="an operation")
        told = [part.get(figure) for figure in ("total_ios", "io_bytes")]
        if not any(told if told[0] is None else told[:1]):
            continue
        if op is Op.TOTAL and found:
            notes.tell(NoteKind.LEFT_OUT, place, "the sum over operations, which are read")
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
    bandwidth = number(part, "bw_bytes", where, notes)
    if "bw_bytes" not in part and (kibibytes := number(part, "bw", where, notes)) is not None:
        bandwidth = kibibytes * 1024
    total = latency(part, "lat", where, notes, scope=scope)
    alone = total is None or total.histogram is None
    return Operation(
        op=op,
        iops=number(part, "iops", where, notes),
        bandwidth_bps=bandwidth,
        total_ios=count(part, "total_ios", where, notes),
        io_bytes=_io_bytes(part, release, where, notes),
        runtime_s=scaled(part, "runtime", where, notes, 1e3),
        short_ios=count(part, "short_ios", where, notes) or 0,
        dropped_ios=count(part, "drop_ios", where, notes) or 0,
        submission=latency(part, "slat", where, notes, scope=scope, histogram_needed=False),
        completion=latency(part, "clat", where, notes, scope=scope, histogram_needed=alone),
        total=total,
    )


def _io_bytes(
    part: Mapping[str, Any], release: tuple[int, int] | None, where: str, notes: Notes
) -> int | None:
    told = count(part, "io_bytes", where, notes)
    if told is None or "io_kbytes" in part or (release and release >= _IN_NANOSECONDS):
        return told
    if release is None:
        notes.tell(
            NoteKind.UNKNOWN_VERSION,
            f"{where}.io_bytes",
            "KiB or bytes, by the version, which is not known; it was not read",
        )
        return None
    return told * 1024


def _disks(content: Mapping[str, Any], notes: Notes) -> tuple[DiskUse, ...]:
    found = []
    for index, entry in enumerate(members(content, "disk_util", "$") or ()):
        where = f"$.disk_util[{index}]"
        notes.unknown(entry, DISK, where, scope="", level="a disk")
        name, host = entry.get("name"), _host(entry)
        ios = [count(entry, key, where, notes) for key in ("read_ios", "write_ios")]
        if not isinstance(name, str) or ios[0] is None or ios[1] is None:
            notes.tell(NoteKind.LEFT_OUT, where, "a disk without its name or its counts of I/Os")
            continue
        sectors = [count(entry, f"{op}_sectors", where, notes) for op in ("read", "write")]
        moved = [None if one is None else one * _SECTOR for one in sectors]
        found.append(
            DiskUse(
                name=f"{host}/{name}" if host else name,
                read_ios=ios[0],
                write_ios=ios[1],
                read_merges=count(entry, "read_merges", where, notes) or 0,
                write_merges=count(entry, "write_merges", where, notes) or 0,
                read_bytes=moved[0],
                write_bytes=moved[1],
                busy_share=scaled(entry, "util", where, notes, 100),
            )
        )
    return tuple(found)
