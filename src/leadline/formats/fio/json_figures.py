"""Keys and numbers of fio's JSON: valid numbers, latencies in seconds, and notes on the rest.

The keys are those of fio 2.1 to 3.43 by the object that holds them, from stat.c
(`show_thread_status_json`, `add_ddir_status_json`, `add_ddir_lat_json`,
`json_array_add_disk_util`), client.c (`json_object_add_client_info`) and the corpus. Any other key
is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from leadline.formats.fio.bin_arrays import Apart, BinArrays, taken_apart
from leadline.formats.fio.json_text import key_path
from leadline.formats.result import FormatError, Latency, Note, NoteKind
from leadline.json_bins import decode_bins
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
_NOT_BINS: Final = "not all bins are counts of I/Os by latency; histogram not read"
_NS: Final = 1e9
_US: Final = 1e6


class Notes:
    """Notes on one document, with its bins that are kept apart."""

    def __init__(self, bins: Sequence[Apart] = ()) -> None:
        self.bins = bins
        self._notes: list[Note] = []
        self._unknown: set[tuple[str, str, str]] = set()
        self._more = 0

    def add(self, kind: NoteKind, where: str, fact: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(Note(kind, where, fact))
        else:
            self._more += 1

    def unknown(self, key: str, where: str, *, scope: str, level: str) -> None:
        if (scope, level, key) not in self._unknown:
            self._unknown.add((scope, level, key))
            fact = f"unknown field of {level}; not read"
            self.add(NoteKind.UNKNOWN_FIELD, key_path(where, key), fact)

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


# Not frozen: a file has hundreds, and a frozen one takes three times as long to make.
@dataclass(slots=True)
class Entry:
    """An object of a document: its values, its JSON path and the notes on the document."""

    values: dict[str, Any]
    where: str
    notes: Notes

    def number(self, key: str) -> float | None:
        """Read a number as it is written; None where it is missing or, with a note, impossible.
        Raises FormatError where it is not a number."""
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) is not int and type(value) is not float:
            raise self._refused(key, "a number", value)
        if 0 <= value < BEYOND:  # false for NaN, too
            return value
        self.notes.impossible(key_path(self.where, key), value)
        return None

    def count(self, key: str) -> int | None:
        """Read a whole number, as `number`."""
        value = self.number(key)
        if value is None or type(value) is int:
            return value
        if value.is_integer():
            return int(value)
        self.notes.impossible(key_path(self.where, key), value)
        return None

    def scaled(self, key: str, unit: float) -> float | None:
        """Read a number, as `number`, and divide it by the `unit` that it is written in."""
        value = self.number(key)
        return None if value is None else value / unit

    def inner(self, key: str) -> Entry | None:
        """Read an object; None where it is missing. Raises FormatError for other types."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._refused(key, "an object", value)
        return Entry(value, key_path(self.where, key), self.notes)

    def listed(self, key: str) -> list[Entry] | None:
        """Read a list of objects; None where it is missing. Raises FormatError for other types."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self._refused(key, "a list", value)
        where = key_path(self.where, key)
        found = [Entry(item, f"{where}[{index}]", self.notes) for index, item in enumerate(value)]
        for item in found:
            if not isinstance(item.values, dict):
                fact = f"an object is expected, not {type(item.values).__name__}"
                raise value_refused(item.where, fact)
        return found

    def note_unknown(self, known: frozenset[str], *, scope: str, level: str) -> None:
        """Add one note for each unknown key, once per scope (the jobs of one name)."""
        if not self.values.keys() <= known:
            for key in self.values:
                if key not in known:
                    self.notes.unknown(key, self.where, scope=scope, level=level)

    def _refused(self, key: str, expected: str, value: object) -> FormatError:
        fact = f"{expected} is expected, not {type(value).__name__}"
        return value_refused(key_path(self.where, key), fact)


def read_latency(
    part: Entry, name: str, *, scope: str, histogram_needed: bool = True
) -> Latency | None:
    """Read `slat`, `clat` or `lat` of an operation, in nanoseconds or in microseconds (fio 2).

    None where fio did not measure it: the key is absent, or all values are zero despite I/Os
    (gtod_reduce, disable_lat). A histogram that is not needed is left out, unless it contradicts
    the count: to make all three takes longer than to decode the file.
    """
    unit = _NS
    entry = part.inner(f"{name}_ns")
    if entry is None:
        unit = _US
        entry = part.inner(name)
    if entry is None or not entry.values:
        return None
    entry.note_unknown(LATENCY, scope=scope, level="a latency")
    if not entry.values.get("mean") and not entry.values.get("max"):
        return None
    reported = entry.count("N")
    counted, histogram = None, None
    apart = taken_apart(entry.values.get("bins"), entry.notes.bins)
    if isinstance(apart, BinArrays):
        counted = apart.counted
        if histogram_needed or reported not in (None, counted):
            scale = 1000 if unit == _US else 1
            histogram = LatencyHistogram(apart.values * scale, apart.counts.copy())
    elif (bins := _bins(entry, apart)) is not None and bins.values:
        counted = _counted(bins)
        if counted is not None and (histogram_needed or reported not in (None, counted)):
            histogram = _histogram(bins, unit)
            if histogram is not None and apart:
                histogram = histogram.narrow()
    return Latency(
        min_s=entry.scaled("min", unit),
        max_s=entry.scaled("max", unit),
        mean_s=entry.scaled("mean", unit),
        stddev_s=entry.scaled("stddev", unit),
        count=counted if reported is None else reported,
        histogram=histogram,
        percentiles=_percentiles(entry, unit),
    )


def _bins(latency: Entry, text: memoryview | None) -> Entry | None:
    """Read the bins, also those of a large file, of which there is only the `text`; None, with a
    note, where they are not numbers by latency."""
    if text is None:
        return latency.inner("bins")
    where = key_path(latency.where, "bins")
    try:
        return Entry(decode_bins(text), where, latency.notes)
    except ValueError:
        latency.notes.add(NoteKind.IMPOSSIBLE_VALUE, where, _NOT_BINS)
        return None


def _counted(bins: Entry) -> int | None:
    """Count the I/Os in a histogram; None, with a note, where its counts are invalid."""
    try:
        counted = sum(bins.values.values())
    except TypeError:
        counted = None
    if type(counted) is int and 0 <= counted < BEYOND:
        return counted
    bins.notes.impossible(bins.where, counted if counted is not None else "not counts")
    return None


def _histogram(bins: Entry, unit: float) -> LatencyHistogram | None:
    """Make the histogram; None, with a note, where a bin is not a valid whole number of nanoseconds
    (microseconds in fio 2)."""
    try:
        # numpy reads a list of digits four times as fast as int() does one after the other, but
        # takes anything, and what is too great for it as the greatest that it has.
        keys = ",".join(bins.values)
        commas = keys.encode().translate(None, b"0123456789")
        if commas != b"," * (len(bins.values) - 1) or "" in bins.values:
            raise ValueError("not whole numbers")
        values = np.fromstring(keys, dtype=np.int64, sep=",")
        counts = np.fromiter(bins.values.values(), dtype=np.int64, count=len(bins.values))
        largest = values.max()
        if largest >= (BEYOND // 1000 if unit == _US else BEYOND - 1):
            raise ValueError("too long")
        if unit == _US:
            values *= 1000
        return LatencyHistogram.from_arrays(values, counts)
    except (ValueError, OverflowError):
        bins.notes.add(NoteKind.IMPOSSIBLE_VALUE, bins.where, _NOT_BINS)
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


# The same percentiles are in every entry of a file.
@lru_cache(maxsize=64)
def _quantiles(percents: tuple[str, ...]) -> tuple[float, ...] | None:
    """Parse the keys of a list of percentiles; None unless all are percentages."""
    found = [_quantile(percent) for percent in percents if len(percent) <= _LONGEST_PERCENT]
    known = tuple(quantile for quantile in found if quantile is not None)
    return known if len(known) == len(percents) else None


def _percentiles(latency: Entry, unit: float) -> dict[float, float]:
    """Read seconds by quantile. Empty where all are zero and the mean is not: fio 2 writes zeros
    where percentiles were not asked for. fio 2 filled the list up with the percentile `0.00`."""
    entry = latency.inner("percentile")
    if entry is None:
        return {}
    usual, values = _quantiles(tuple(entry.values)), entry.values.values()
    # Most of a file's figures are these, and nearly all are sound.
    sound = {*map(type, values)} == {int} and 0 <= min(values) <= max(values) < BEYOND
    if usual is not None and sound:
        pairs = zip(usual, values, strict=True)
        found = {quantile: value / unit for quantile, value in pairs if 0 < quantile < 1}
    else:
        found = dict(_checked_percentiles(entry, unit))
    return found if any(found.values()) or not latency.values.get("mean") else {}


def _checked_percentiles(entry: Entry, unit: float) -> Iterator[tuple[float, float]]:
    for percent, value in entry.values.items():
        quantile = _quantile(percent) if len(percent) <= _LONGEST_PERCENT else None
        if quantile is None:
            place = key_path(entry.where, percent)
            fact = "this is not a percentage; it was not read"
            entry.notes.add(NoteKind.UNKNOWN_FIELD, place, fact)
        # The 100th is the maximum.
        elif 0 < quantile < 1 and (value := entry.scaled(percent, unit)) is not None:
            yield quantile, value
