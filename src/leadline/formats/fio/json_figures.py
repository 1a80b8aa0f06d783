"""Keys and numbers of fio's JSON: valid numbers, latencies in seconds, and notes on the rest.

The keys are those of fio 2.1 to 3.43 by the object that holds them, from stat.c
(`show_thread_status_json`, `add_ddir_status_json`, `add_ddir_lat_json`,
`json_array_add_disk_util`), client.c (`json_object_add_client_info`) and the corpus. Any other key
is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np

from leadline.formats.fio.json_text import key_path
from leadline.formats.result import FormatError, Latency, Note, NoteKind
from leadline.stats.histogram import LatencyHistogram

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


# Nothing that fio counts reaches this: 292 years of nanoseconds, 8 EiB.
BEYOND: Final = 2**63
# A damaged file must not produce millions of notes.
_MOST_NOTES: Final = 200
_LONGEST_PERCENT: Final = 20
_NS: Final = 1e9
_US: Final = 1e6


class Notes:
    """Notes on one document."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._unknown: set[tuple[str, str, str]] = set()
        self._more = 0

    def add(self, kind: NoteKind, where: str, fact: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(Note(kind, where, fact))
        else:
            self._more += 1

    def unknown(
        self, entry: Mapping[str, Any], known: frozenset[str], where: str, *, scope: str, level: str
    ) -> None:
        """Add one note for each unknown key, once per scope (the jobs of one name)."""
        if entry.keys() <= known:
            return
        for key in entry:
            if key not in known and (scope, level, key) not in self._unknown:
                self._unknown.add((scope, level, key))
                self.add(
                    NoteKind.UNKNOWN_FIELD,
                    key_path(where, key),
                    f"unknown field of {level}; not read",
                )

    def impossible(self, where: str, value: object) -> None:
        shown = str(value) if isinstance(value, float) else repr(value)
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        self.add(NoteKind.IMPOSSIBLE_VALUE, where, f"{shown} is impossible; not read")

    @property
    def all(self) -> tuple[Note, ...]:
        if not self._more:
            return tuple(self._notes)
        more = f"{self._more} more notes are left out"
        return (*self._notes, Note(NoteKind.LEFT_OUT, "$", more))


def value_refused(where: str, fact: str) -> FormatError:
    return FormatError.unreadable(f"fio's JSON is not understood: {fact}", where)


def read_number(entry: Mapping[str, Any], key: str, where: str, notes: Notes) -> float | None:
    """Read a number as it is written; None where it is missing or, with a note, impossible.
    Raises FormatError where it is not a number."""
    value = entry.get(key)
    if value is None:
        return None
    if type(value) is not int and type(value) is not float:
        fact = f"a number is expected, not {type(value).__name__}"
        raise value_refused(key_path(where, key), fact)
    if 0 <= value < BEYOND:  # false for NaN, too
        return value
    notes.impossible(key_path(where, key), value)
    return None


def read_count(entry: Mapping[str, Any], key: str, where: str, notes: Notes) -> int | None:
    """Read a whole number, as `read_number`."""
    value = read_number(entry, key, where, notes)
    if value is None or type(value) is int:
        return value
    if value.is_integer():
        return int(value)
    notes.impossible(key_path(where, key), value)
    return None


def read_scaled(
    entry: Mapping[str, Any], key: str, where: str, notes: Notes, unit: float
) -> float | None:
    """Read a number, as `read_number`, and divide it by the `unit` that it is written in."""
    value = read_number(entry, key, where, notes)
    return None if value is None else value / unit


def read_object(entry: Mapping[str, Any], key: str, where: str) -> dict[str, Any] | None:
    """Read an object in an object; None where it is missing. Raises FormatError for other types."""
    value = entry.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise value_refused(key_path(where, key), f"an object is expected, not {type(value).__name__}")


def read_objects(entry: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]] | None:
    """Read a list of objects; None where it is missing. Raises FormatError for other types."""
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise value_refused(key_path(where, key), f"a list is expected, not {type(value).__name__}")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise value_refused(
                f"{key_path(where, key)}[{index}]",
                f"an object is expected, not {type(item).__name__}",
            )
    return value


def read_latency(
    part: Mapping[str, Any],
    name: str,
    where: str,
    notes: Notes,
    *,
    scope: str,
    histogram_needed: bool = True,
) -> Latency | None:
    """Read `slat`, `clat` or `lat` of an operation, in nanoseconds or in microseconds (fio 2).

    None where fio did not measure it: the key is absent, or all values are zero despite I/Os
    (gtod_reduce, disable_lat). A histogram that is not needed is left out, unless it contradicts
    the count: to make all three takes longer than to decode the file.
    """
    unit = _NS
    entry = read_object(part, key := f"{name}_ns", where)
    if entry is None:
        unit = _US
        entry = read_object(part, key := name, where)
    if not entry:
        return None
    where = f"{where}.{key}"
    notes.unknown(entry, LATENCY, where, scope=scope, level="a latency")
    mean, largest = entry.get("mean"), entry.get("max")
    if not mean and not largest:
        return None
    reported = read_count(entry, "N", where, notes)
    counted, histogram = None, None
    bins = read_object(entry, "bins", where)
    if bins:
        counted = _counted(bins, where, notes)
        if counted is not None and (histogram_needed or reported not in (None, counted)):
            histogram = _histogram(bins, unit, where, notes)
    return Latency(
        min_s=read_scaled(entry, "min", where, notes, unit),
        max_s=read_scaled(entry, "max", where, notes, unit),
        mean_s=read_scaled(entry, "mean", where, notes, unit),
        stddev_s=read_scaled(entry, "stddev", where, notes, unit),
        count=counted if reported is None else reported,
        histogram=histogram,
        percentiles=_percentiles(entry, where, notes, unit),
    )


def _counted(bins: Mapping[str, Any], where: str, notes: Notes) -> int | None:
    """Count the I/Os in a histogram; None, with a note, where its counts are invalid."""
    try:
        counted = sum(bins.values())
    except TypeError:
        counted = None
    if type(counted) is int and 0 <= counted < BEYOND:
        return counted
    notes.impossible(f"{where}.bins", counted if counted is not None else "not counts")
    return None


def _histogram(
    bins: Mapping[str, Any], unit: float, where: str, notes: Notes
) -> LatencyHistogram | None:
    """Make the histogram; None, with a note, where a bin is not a valid whole number of nanoseconds
    (microseconds in fio 2)."""
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
        notes.add(
            NoteKind.IMPOSSIBLE_VALUE,
            f"{where}.bins",
            "not all bins are counts of I/Os by latency; histogram not read",
        )
        return None


@lru_cache(maxsize=1024)
def _quantile(percent: str) -> float | None:
    """Parse a key such as `99.950000` as a quantile; None for other keys."""
    try:
        # Rounded, so that 99.9 becomes exactly 0.999.
        quantile = round(float(percent) / 100, 12)
    except ValueError:
        return None
    return quantile if 0 <= quantile <= 1 else None


def _percentiles(
    entry: Mapping[str, Any], where: str, notes: Notes, unit: float
) -> dict[float, float]:
    """Read seconds by quantile. Empty where all are zero and the mean is not: fio 2 writes zeros
    where percentiles were not asked for. fio 2 filled the list up with the percentile `0.00`."""
    given = read_object(entry, "percentile", where)
    if not given:
        return {}
    where = f"{where}.percentile"
    found: dict[float, float] = {}
    for percent, value in given.items():
        quantile = _quantile(percent) if len(percent) <= _LONGEST_PERCENT else None
        if quantile is None:
            notes.add(
                NoteKind.UNKNOWN_FIELD,
                key_path(where, percent),
                "this is not a percentage; it was not read",
            )
        elif 0 < quantile < 1:  # the 100th is the maximum
            # Most of a file's figures are these, and most are sound.
            if type(value) is not int or not 0 <= value < BEYOND:
                value = read_number(given, percent, where, notes)
            if value is not None:
                found[quantile] = value / unit
    return found if any(found.values()) or not entry.get("mean") else {}
